use std::error::Error;
use std::fmt;

use tokio::time::Duration;

use crate::call::Endpoint;

/// A call has waited for its turn at an endpoint for as long as it may. It has not been sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueTimeout {
    endpoint: Box<str>,
    limit: usize,
    in_flight: usize,
    unread_bodies: usize,
    waited: Duration,
    admitted: bool,
}

impl QueueTimeout {
    pub(super) fn new(endpoint: &Endpoint, waited: Duration, admitted: bool) -> Self {
        let snapshot = endpoint.snapshot();
        Self {
            endpoint: snapshot.name.into(),
            limit: snapshot.limit,
            in_flight: snapshot.in_flight,
            unread_bodies: snapshot.unread_bodies,
            waited,
            admitted,
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
}

impl fmt::Display for QueueTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.admitted {
            "the service below to be ready for"
        } else {
            "a permit for"
        };
        write!(
            f,
            "waited {:.1} s for {what} {}: {} of {} answers in flight",
            self.waited.as_secs_f64(),
            self.endpoint.escape_debug(),
            self.in_flight,
            self.limit,
        )?;
        match self.unread_bodies {
            0 => Ok(()),
            unread => write!(f, ", {unread} of them with a body that nobody reads"),
        }
    }
}

impl Error for QueueTimeout {}
