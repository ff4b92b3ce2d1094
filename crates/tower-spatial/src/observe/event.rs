use std::time::Duration;

use http::{Method, StatusCode};
use service_exception::ServiceException;

use crate::call::{BreakerState, Cause, Verdict};
use crate::retry::StopReason;
use crate::verify::completeness::Problem;

/// Hears what the layers do. Every method does nothing unless it is written.
///
/// They are called where it happens, on the task of a call or on that of whoever drops an answer: they have to be quick,
/// and must not panic. See the [module](super) for an example.
pub trait Observer: Send + Sync + 'static {
    /// A call has begun: one request of the caller, however many attempts it takes.
    fn call_began(&self, call: &Call<'_>) {
        _ = call;
    }

    /// A call has ended, with the head of its answer or without.
    fn call_ended(&self, call: &Call<'_>, ended: &EndedCall) {
        _ = (call, ended);
    }

    /// An attempt was answered as it was asked for.
    fn attempt_succeeded(&self, call: &Call<'_>) {
        _ = call;
    }

    /// An attempt failed, whether or not another follows.
    fn attempt_failed(&self, call: &Call<'_>, failed: &FailedAttempt<'_>) {
        _ = (call, failed);
    }

    /// A failure that could have been repeated was not, after so many attempts.
    fn gave_up(&self, call: &Call<'_>, reason: StopReason, attempts: u32) {
        _ = (call, reason, attempts);
    }

    /// An attempt's answer was an exception. Its message is the server's own text.
    fn exception_seen(&self, call: &Call<'_>, exception: &ServiceException) {
        _ = (call, exception);
    }

    /// An attempt's answer was not whole.
    fn truncated(&self, call: &Call<'_>, problem: &Problem) {
        _ = (call, problem);
    }

    /// An attempt's answer was older than expected.
    fn stale(&self, call: &Call<'_>) {
        _ = call;
    }

    /// An attempt has waited for its turn at an endpoint, and went or gave up waiting.
    fn queue_waited(&self, endpoint: &str, wait: &QueueWait) {
        _ = (endpoint, wait);
    }

    /// An attempt has waited for its slot under the endpoint's rate, and went.
    fn rate_waited(&self, endpoint: &str, waited: Duration) {
        _ = (endpoint, waited);
    }

    /// An endpoint's circuit breaker opened, let a probe go, or closed.
    fn breaker_changed(&self, endpoint: &str, change: &BreakerChange) {
        _ = (endpoint, change);
    }

    /// An endpoint asked everybody to wait for so long from now, or longer than before.
    fn cooldown_began(&self, endpoint: &str, lasts: Duration) {
        _ = (endpoint, lasts);
    }

    /// A body that nobody read lost its permit to a call that waited.
    fn permit_reclaimed(&self, endpoint: &str) {
        _ = endpoint;
    }

    /// How long a good answer took, queues aside: from the request to the first part of its body.
    fn answered(&self, endpoint: &str, latency: Duration) {
        _ = (endpoint, latency);
    }
}

/// Which call.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Call<'a> {
    /// The endpoint's [name](crate::Endpoint::name).
    pub endpoint: &'a str,
    /// The request's method.
    pub method: &'a Method,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedCall {
    /// With what.
    pub end: CallEnd,
    /// How many of its attempts failed and were repeated.
    pub repeats: u32,
    /// From its begin, all waits included.
    pub took: Duration,
}

/// With what a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallEnd {
    /// The head of an answer.
    Answer(StatusCode),
    /// An error.
    Error,
    /// The caller dropped it.
    Cancelled,
}

/// An attempt that failed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FailedAttempt<'a> {
    /// The call's how manieth it was, from 1.
    pub number: u32,
    /// Why.
    pub cause: &'a Cause,
    /// What that means for a repeat.
    pub verdict: Verdict,
    /// How long it took, queues included.
    pub took: Duration,
    /// How long the sleep before the next attempt is; `None` where none follows.
    pub next_in: Option<Duration>,
    /// What is left of budget and deadline; `None` where there is no end.
    pub remaining: Option<Duration>,
}

/// A wait for a turn at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueWait {
    /// For how long.
    pub waited: Duration,
    /// For what, in the end.
    pub waited_for: WaitedFor,
    /// Whether its turn came.
    pub admitted: bool,
}

/// What a call has waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitedFor {
    /// A permit of the concurrency limit.
    Permit,
    /// The service below to be ready.
    Readiness,
    /// The circuit breaker to close.
    Breaker,
    /// The host's cooldown to end.
    Cooldown,
    /// A token, since too many calls are being repeated.
    RetryToken,
}

impl WaitedFor {
    /// One word of a bounded set, for metrics and logs.
    ///
    /// ```
    /// use tower_spatial::observe::WaitedFor;
    ///
    /// assert_eq!(WaitedFor::RetryToken.kind(), "retry-token");
    /// ```
    pub fn kind(self) -> &'static str {
        match self {
            Self::Permit => "permit",
            Self::Readiness => "readiness",
            Self::Breaker => "breaker",
            Self::Cooldown => "cooldown",
            Self::RetryToken => "retry-token",
        }
    }
}

/// From which state a circuit breaker went to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerChange {
    /// The state before.
    pub from: BreakerState,
    /// The state now.
    pub to: BreakerState,
}
