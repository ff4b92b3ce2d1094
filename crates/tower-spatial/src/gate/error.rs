use std::error::Error;
use std::fmt;

use http::Uri;
use load_control::Reason;
use tokio::time::{Duration, Instant};

use crate::call::Endpoint;
use crate::observe::WaitedFor;

/// A call has waited for its turn at an endpoint for as long as it may, or its turn is known to come too late. It has not
/// been sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueTimeout {
    endpoint: Box<str>,
    limit: usize,
    in_flight: usize,
    unread_bodies: usize,
    waited: Duration,
    for_what: For,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Permit,
    /// The service below.
    Ready,
    /// The breaker, which is known to be open for so long.
    Breaker(Option<Duration>),
    /// The host's own wish.
    Cooldown(Option<Duration>),
    /// Too many calls are being repeated.
    RetryToken,
}

impl For {
    pub(super) fn of(reason: Reason, until: Option<Instant>, now: Instant) -> Self {
        let left = until.map(|until| until.saturating_duration_since(now));
        match reason {
            Reason::Limit => Self::Permit,
            Reason::Cooldown => Self::Cooldown(left),
            Reason::Open => Self::Breaker(left),
            Reason::Held | Reason::Probing => Self::Breaker(None),
        }
    }
}

impl From<For> for WaitedFor {
    fn from(what: For) -> Self {
        match what {
            For::Permit => Self::Permit,
            For::Ready => Self::Readiness,
            For::Breaker(_) => Self::Breaker,
            For::Cooldown(_) => Self::Cooldown,
            For::RetryToken => Self::RetryToken,
        }
    }
}

impl QueueTimeout {
    #[cold]
    pub(super) fn new(endpoint: &Endpoint, waited: Duration, for_what: For) -> Self {
        let snapshot = endpoint.snapshot();
        Self {
            endpoint: snapshot.name.into(),
            limit: snapshot.limit,
            in_flight: snapshot.in_flight,
            unread_bodies: snapshot.unread_bodies,
            waited,
            for_what,
        }
    }

    /// The endpoint's [name](Endpoint::name).
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// How many answers may be in flight there at once.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// How many were, bodies included.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// How many of those were bodies that nobody read: what a client that holds answers unread waits for is itself.
    pub fn unread_bodies(&self) -> usize {
        self.unread_bodies
    }

    /// How long the call has waited.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Whether what it waited for was the host: its breaker is open, or it asked for peace.
    pub fn is_closed(&self) -> bool {
        matches!(self.for_what, For::Breaker(_) | For::Cooldown(_))
    }
}

impl fmt::Display for QueueTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = self.endpoint.escape_debug();
        write!(f, "waited {:.1} s for ", self.waited.as_secs_f64())?;
        let left = |left: Option<Duration>| left.map_or(0.0, |left| left.as_secs_f64());
        match self.for_what {
            For::Permit => write!(f, "a permit for {endpoint}")?,
            For::Ready => write!(f, "the service below to be ready for {endpoint}")?,
            For::RetryToken => {
                return write!(f, "{endpoint}: too many calls are repeated there");
            }
            For::Breaker(None) => return write!(f, "{endpoint}: its circuit breaker is open"),
            For::Breaker(open) => {
                let left = left(open);
                return write!(
                    f,
                    "{endpoint}: its circuit breaker is open for another {left:.1} s"
                );
            }
            For::Cooldown(cooldown) => {
                let left = left(cooldown);
                return write!(f, "{endpoint}: it asked for peace for another {left:.1} s");
            }
        }
        write!(
            f,
            ": {} of {} answers in flight",
            self.in_flight, self.limit
        )?;
        match self.unread_bodies {
            0 => Ok(()),
            unread => write!(f, ", {unread} of them with a body that nobody reads"),
        }
    }
}

impl Error for QueueTimeout {}

/// The circuit breaker of an endpoint is open: the call was refused at once and has not been sent.
///
/// A [`RetryPolicy`](crate::retry::RetryPolicy) outside waits until the breaker lets a probe go, where its budget allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitOpen {
    endpoint: Box<str>,
    until: Option<Instant>,
}

impl CircuitOpen {
    #[cold]
    pub(super) fn new(endpoint: &Endpoint, until: Option<Instant>) -> Self {
        Self {
            endpoint: endpoint.name().into(),
            until,
        }
    }

    /// The endpoint's [name](Endpoint::name).
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// When the next probe may go; `None` where one is on its way, or an operator holds the breaker open.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }
}

impl fmt::Display for CircuitOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = self.endpoint.escape_debug();
        write!(f, "the circuit breaker of {endpoint} is open")
    }
}

impl Error for CircuitOpen {}

/// No setting names the host of a request, and unknown hosts are refused. It has not been sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownHost {
    host: Box<str>,
}

impl UnknownHost {
    #[cold]
    pub(super) fn of(uri: &Uri) -> Self {
        Self {
            host: uri.host().unwrap_or_default().into(),
        }
    }

    /// The host; empty where the request has none.
    pub fn host(&self) -> &str {
        &self.host
    }
}

impl fmt::Display for UnknownHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.escape_debug();
        write!(
            f,
            "no endpoint is set up for host \"{host}\", and unknown hosts are refused"
        )
    }
}

impl Error for UnknownHost {}
