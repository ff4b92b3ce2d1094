use std::{error::Error, fmt, sync::Arc, time::Duration};

use tower::BoxError;

use crate::call::Attempt;

/// Why a retry ended with a failure that could have been repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StopReason {
    /// The next attempt would start after the budget.
    Budget,
    /// The next attempt would start after the caller's deadline.
    Deadline,
    /// The server asked for a longer pause than is left.
    HintTooLong,
    /// As many attempts as were allowed have been made.
    Attempts,
    /// Nothing in the failures says that another attempt can help: twice the same, or as often as was allowed.
    Ambiguous,
    /// The request is not safe to repeat, and nobody opted in.
    Unsafe,
    /// The request's body went out with the first attempt.
    BodyNotRepeatable,
    /// The request's body is longer than what is kept of it for a repeat.
    BodyTooLong {
        /// How many bytes are kept.
        cap: usize,
    },
    /// No permit came in time for another attempt.
    NotAdmitted,
}

impl StopReason {
    /// One word of a bounded set, for metrics and logs: `budget`, `deadline`, `hint-too-long` …
    ///
    /// ```
    /// use tower_spatial::retry::StopReason;
    ///
    /// assert_eq!(StopReason::HintTooLong.kind(), "hint-too-long");
    /// ```
    pub fn kind(self) -> &'static str {
        match self {
            Self::Budget => "budget",
            Self::Deadline => "deadline",
            Self::HintTooLong => "hint-too-long",
            Self::Attempts => "attempts",
            Self::Ambiguous => "ambiguous",
            Self::Unsafe => "unsafe",
            Self::BodyNotRepeatable => "body-not-repeatable",
            Self::BodyTooLong { .. } => "body-too-long",
            Self::NotAdmitted => "not-admitted",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Budget => "the next attempt would start after the budget",
            Self::Deadline => "the next attempt would start after the deadline",
            Self::HintTooLong => "the server asked for a longer pause than is left",
            Self::Attempts => "no more attempts are allowed",
            Self::Ambiguous => "nothing says that another attempt can help",
            Self::Unsafe => "the request is not safe to repeat",
            Self::BodyNotRepeatable => "the request's body can be sent only once",
            Self::BodyTooLong { cap } => {
                return write!(
                    f,
                    "the request's body is longer than the {cap} bytes kept of it"
                );
            }
            Self::NotAdmitted => "no permit came in time for another attempt",
        })
    }
}

/// A retry that ended with a failure: what was tried, for how long, and why it stopped.
///
/// It wraps the last error, which is its [`source`](Error::source); where the last attempt ended with a response, the
/// caller gets the response with this value among its extensions (there it has no source).
///
/// ```
/// use tower_spatial::{find, retry::GaveUp};
///
/// fn report(error: &tower::BoxError) -> String {
///     match find::<GaveUp>(error) {
///         Some(gave_up) => format!("{} attempts, {}", gave_up.attempts().len(), gave_up.reason()),
///         None => "not retryable".into(),
///     }
/// }
/// # assert_eq!(report(&"no".into()), "not retryable");
/// ```
#[derive(Clone)]
pub struct GaveUp {
    inner: Arc<Inner>,
}

struct Inner {
    reason: StopReason,
    attempts: Vec<Attempt>,
    total: Duration,
    source: Option<BoxError>,
}

impl GaveUp {
    pub(crate) fn new(
        reason: StopReason,
        attempts: Vec<Attempt>,
        total: Duration,
        source: Option<BoxError>,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                reason,
                attempts,
                total,
                source,
            }),
        }
    }

    /// Why it stopped.
    pub fn reason(&self) -> StopReason {
        self.inner.reason
    }

    /// Every failed attempt, oldest first, the last one included.
    pub fn attempts(&self) -> &[Attempt] {
        &self.inner.attempts
    }

    /// From the begin of the call to its end.
    pub fn total(&self) -> Duration {
        self.inner.total
    }
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            reason,
            attempts,
            total,
            ..
        } = &*self.inner;
        let s = if attempts.len() == 1 { "" } else { "s" };
        write!(
            f,
            "gave up after {} attempt{s} in {total:.1?}: {reason}",
            attempts.len()
        )?;
        if let Some(last) = attempts.last() {
            write!(f, "; last: {}", last.cause())?;
        }
        Ok(())
    }
}

impl fmt::Debug for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The source is a foreign error, whose Debug can hold the request's URL.
        f.debug_struct("GaveUp")
            .field("reason", &self.inner.reason)
            .field("attempts", &self.inner.attempts)
            .field("total", &self.inner.total)
            .finish_non_exhaustive()
    }
}

impl Error for GaveUp {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.inner
            .source
            .as_ref()
            .map(|source| source.as_ref() as _)
    }
}
