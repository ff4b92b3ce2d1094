use std::error::Error;
use std::fmt;

use load_control::{NoSlot, Quotas};
use tokio::time::{Duration, Instant};

use crate::call::Endpoint;

/// A call would have to wait longer for its turn than it may, or may never go. It has not been sent, and costs nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateLimited {
    endpoint: Box<str>,
    rate: Box<str>,
    waited: Duration,
    why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The slot is so far away.
    TooFar(Duration),
    TooHeavy {
        weight: u32,
        limit: u32,
    },
    /// The slot was there, the service below was not ready or the permit that was given back not to be had again.
    NotReady,
}

impl RateLimited {
    pub(super) fn new(
        endpoint: &Endpoint,
        quotas: Option<&Quotas>,
        waited: Duration,
        why: Why,
    ) -> Self {
        let quotas = quotas.map_or(&[][..], Quotas::as_slice);
        let rate: Vec<_> = quotas.iter().map(ToString::to_string).collect();
        Self {
            endpoint: endpoint.name().into(),
            rate: rate.join(", ").into(),
            waited,
            why,
        }
    }

    /// The endpoint's [name](Endpoint::name).
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The rate, as in `1 in 1s, 2500 in 86400s`.
    pub fn rate(&self) -> &str {
        &self.rate
    }

    /// How long the call has waited.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How much longer it would have had to wait, where its slot is what was too far away.
    pub fn would_wait(&self) -> Option<Duration> {
        match self.why {
            Why::TooFar(wait) => Some(wait),
            _ => None,
        }
    }
}

impl Why {
    pub(super) fn of(no_slot: NoSlot, now: Instant) -> Self {
        match no_slot {
            NoSlot::TooLate { earliest } => {
                Self::TooFar(Instant::from_std(earliest).saturating_duration_since(now))
            }
            NoSlot::TooHeavy { weight, limit } => Self::TooHeavy { weight, limit },
        }
    }
}

impl fmt::Display for RateLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (endpoint, waited) = (self.endpoint.escape_debug(), self.waited.as_secs_f64());
        match self.why {
            Why::TooFar(wait) => {
                let wait = wait.as_secs_f64();
                write!(f, "the next slot of {endpoint} is {wait:.1} s away")?;
                if !self.waited.is_zero() {
                    write!(f, " after {waited:.1} s of waiting")?;
                }
                f.write_str(", longer than the call may wait")?;
            }
            Why::TooHeavy { weight, limit } => {
                write!(
                    f,
                    "a call of weight {weight} never goes to {endpoint}: the limit is {limit}"
                )?;
            }
            Why::NotReady => {
                write!(
                    f,
                    "waited {waited:.1} s for {endpoint}: the slot was there, the service below not ready"
                )?;
            }
        }
        match &*self.rate {
            "" => Ok(()),
            rate => write!(f, " (rate: {rate})"),
        }
    }
}

impl Error for RateLimited {}
