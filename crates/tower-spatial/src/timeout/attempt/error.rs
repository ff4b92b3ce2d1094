use std::{error::Error, fmt, time::Duration};

use tokio::time::Instant;

use crate::call::Endpoint;

/// An attempt was cut off because it did not get on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptTimedOut {
    pub(super) kind: TimeoutKind,
    pub(super) limit: Duration,
}

/// What did not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeoutKind {
    /// The answer's head.
    Head,
    /// The next frame of its body.
    Idle,
    /// The end of the whole.
    Whole,
    /// Any of them: the caller's [`Deadline`](crate::Deadline) came first.
    Deadline,
}

impl AttemptTimedOut {
    /// What did not come in time.
    pub fn kind(&self) -> TimeoutKind {
        self.kind
    }

    /// In what time it did not come; with [`TimeoutKind::Deadline`] what was left until the deadline.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Lets the endpoint know; a deadline says nothing about it.
    pub(super) fn note(&self, endpoint: &Endpoint) {
        if self.kind != TimeoutKind::Deadline {
            endpoint.heads().timed_out(Instant::now());
        }
    }
}

impl fmt::Display for AttemptTimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.limit;
        match self.kind {
            TimeoutKind::Head => write!(f, "no head of an answer within {limit:?}"),
            TimeoutKind::Idle => write!(f, "nothing more of the answer's body within {limit:?}"),
            TimeoutKind::Whole => write!(f, "the whole answer did not come within {limit:?}"),
            TimeoutKind::Deadline => {
                write!(f, "the caller's deadline came first, after {limit:.1?}")
            }
        }
    }
}

impl Error for AttemptTimedOut {}
