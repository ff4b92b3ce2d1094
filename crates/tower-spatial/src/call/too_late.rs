use std::{error::Error, fmt};

use http::Extensions;
use tokio::time::Instant;
use tower::BoxError;

use super::{Context, Deadline, latest_start};

/// An attempt was about to start after the call's budget or deadline: its sleep took longer than it was meant to, as
/// when a laptop was closed. It has not been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLate {
    _priv: (),
}

impl TooLate {
    /// Whether an attempt of this call may not start any more. Reads no clock for a call that has no limit yet.
    pub(crate) fn is_it(extensions: &Extensions) -> bool {
        let Some(deadline) = extensions.get::<Deadline>() else {
            return false;
        };
        if deadline.instant().is_none() && Context::of(extensions).is_none_or(|c| c.failures() == 0)
        {
            return false;
        }
        let now = Instant::now();
        latest_start(extensions, now).is_some_and(|latest| now > latest)
    }

    pub(crate) fn error() -> BoxError {
        Box::new(Self { _priv: () })
    }
}

impl fmt::Display for TooLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is too late for another attempt")
    }
}

impl Error for TooLate {}
