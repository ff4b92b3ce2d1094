use std::{fmt, time::Duration};

use super::Cause;

/// One failed attempt: why it failed and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    pub(crate) cause: Cause,
    pub(crate) began: Duration,
    pub(crate) took: Duration,
}

impl Attempt {
    /// Why it failed.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// When it began, counted from the begin of the call.
    pub fn began(&self) -> Duration {
        self.began
    }

    /// How long it took, queues included.
    pub fn took(&self) -> Duration {
        self.took
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (at {:.1?}, took {:.1?})",
            self.cause, self.began, self.took
        )
    }
}

/// How many attempts an answer took: an extension of a response that took more than one.
///
/// ```
/// use tower_spatial::call::Attempts;
///
/// fn attempts(response: &http::Response<()>) -> u32 {
///     response.extensions().get::<Attempts>().map_or(1, |attempts| attempts.count())
/// }
/// # assert_eq!(attempts(&http::Response::new(())), 1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    pub(crate) count: u32,
    pub(crate) total: Duration,
}

impl Attempts {
    /// How many requests the server was sent for it, at most.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// From the begin of the first attempt to the head of this answer.
    pub fn total(&self) -> Duration {
        self.total
    }
}
