//! Spans and events for `tracing`.
//!
//! What is written is named here, field by field: endpoint names, methods, numbers, times, and words of our own. No URL, no
//! header, no text of a server and no foreign error is among it, since all of these can hold a key.

use std::time::Duration;

use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::{Span, debug, info, info_span, warn};

use super::{BreakerChange, Call, CallEnd, EndedCall, FailedAttempt, QueueWait, WaitedFor};
use crate::call::{BreakerState, Cause, Context, Verdict};
use crate::retry::StopReason;
#[cfg(feature = "completeness")]
use crate::verify::completeness::Problem;

#[inline]
pub(super) fn is_on() -> bool {
    LevelFilter::current() >= LevelFilter::INFO
}

pub(super) fn span(context: &Context) -> Span {
    match context.observed() {
        Some((call, _)) => info_span!(
            "call",
            endpoint = call.endpoint,
            method = call.method.as_str(),
            status = Empty,
            repeats = Empty,
        ),
        None => Span::none(),
    }
}

pub(super) fn call_ended(span: &Span, ended: &EndedCall) {
    if let CallEnd::Answer(status) = ended.end {
        span.record("status", status.as_u16());
    }
    span.record("repeats", ended.repeats);
}

pub(super) fn attempt_failed(call: &Call<'_>, failed: &FailedAttempt<'_>) {
    let cause = failed.cause.kind();
    let status = match failed.cause {
        Cause::Status(status) | Cause::Exception { status, .. } => Some(status.as_u16()),
        _ => None,
    };
    let code = match failed.cause {
        Cause::Exception { exception, .. } => exception.known_code(),
        _ => None,
    };
    let delay = failed.next_in.map(|delay| delay.as_secs_f64());
    let remaining = failed.remaining.map(|remaining| remaining.as_secs_f64());
    let (endpoint, method) = (call.endpoint, call.method.as_str());
    let (attempt, took) = (failed.number, failed.took.as_secs_f64());
    // A mistake of the caller's is his to log.
    match failed.verdict {
        Verdict::Permanent => debug!(
            endpoint,
            method,
            attempt,
            cause,
            status,
            code,
            took_seconds = took,
            "attempt failed"
        ),
        _ => info!(
            endpoint,
            method,
            attempt,
            cause,
            status,
            code,
            took_seconds = took,
            delay_seconds = delay,
            remaining_seconds = remaining,
            "attempt failed"
        ),
    }
}

pub(super) fn gave_up(call: &Call<'_>, reason: StopReason, attempts: u32) {
    let (endpoint, method) = (call.endpoint, call.method.as_str());
    let reason = reason.kind();
    warn!(endpoint, method, attempts, reason, "gave up");
}

#[cfg(feature = "completeness")]
pub(super) fn truncated(call: &Call<'_>, _problem: &Problem) {
    let (endpoint, method) = (call.endpoint, call.method.as_str());
    warn!(
        endpoint,
        method, "an answer was not whole, and its reader has it"
    );
}

/// With what the service has published where that can be why: whoever wonders at the wait can look it up.
pub(super) fn queue_waited(endpoint: &str, wait: &QueueWait, published_limit: Option<&str>) {
    let published_limit = published_limit.filter(|_| wait.waited_for == WaitedFor::Permit);
    debug!(
        endpoint,
        waited_seconds = wait.waited.as_secs_f64(),
        waited_for = wait.waited_for.kind(),
        admitted = wait.admitted,
        published_limit,
        "queued"
    );
}

pub(super) fn rate_waited(endpoint: &str, waited: Duration, published_limit: Option<&str>) {
    debug!(
        endpoint,
        waited_seconds = waited.as_secs_f64(),
        published_limit,
        "waited for the rate"
    );
}

pub(super) fn breaker_changed(endpoint: &str, change: &BreakerChange) {
    let state = |state| match state {
        BreakerState::Closed => "closed",
        BreakerState::Open { .. } => "open",
        BreakerState::HalfOpen => "half-open",
    };
    let (from, to) = (state(change.from), state(change.to));
    info!(endpoint, from, to, "circuit breaker");
}

pub(super) fn cooldown_began(endpoint: &str, lasts: Duration, published_limit: Option<&str>) {
    let seconds = lasts.as_secs_f64();
    info!(endpoint, seconds, published_limit, "cooldown");
}

pub(super) fn permit_reclaimed(endpoint: &str) {
    warn!(
        endpoint,
        "a body that nobody reads lost its permit: answers have to be read or dropped"
    );
}
