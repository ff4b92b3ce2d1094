//! Where the layers report to: from here on it goes to the observers and to `tracing`.

use std::sync::Arc;

use http::{Extensions, Method, Request};
use tokio::time::{Duration, Instant};

use super::{
    BreakerChange, Call, CallEnd, EndedCall, FailedAttempt, Observers, QueueWait, WaitedFor,
};
use crate::call::{Cause, Context, Endpoint, Outcome, Settings, Verdict};
use crate::retry::{GaveUp, decision::Decision};
#[cfg(feature = "completeness")]
use crate::verify::completeness::Problem;

/// A call that somebody is told of, until its end was told. Its drop tells that it was cancelled.
pub(crate) struct ToldCall {
    context: Arc<Context>,
    began: Instant,
    is_told: bool,
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl ToldCall {
    /// `None`: nobody observes.
    #[inline]
    pub(crate) fn begin(context: &Arc<Context>) -> Option<Box<Self>> {
        context.observed()?;
        Some(Self::begin_observed(context))
    }

    #[cold]
    fn begin_observed(context: &Arc<Context>) -> Box<Self> {
        if let Some((call, observers)) = context.observed() {
            observers.tell(|observer| observer.call_began(&call));
        }
        Box::new(Self {
            #[cfg(feature = "tracing")]
            span: super::tracing::span(context),
            context: Arc::clone(context),
            began: Instant::now(),
            is_told: false,
        })
    }

    #[cfg(feature = "tracing")]
    pub(crate) fn enter(&self) -> tracing::span::Entered<'_> {
        self.span.enter()
    }

    #[cfg(not(feature = "tracing"))]
    pub(crate) fn enter(&self) {}

    /// The deadline passed after some attempts.
    pub(crate) fn give_up(&self, gave_up: &GaveUp) {
        #[cfg(feature = "tracing")]
        let _span = self.enter();
        if let Some((call, observers)) = self.context.observed() {
            let attempts = u32::try_from(gave_up.attempts().len()).unwrap_or(u32::MAX);
            observers.tell(|observer| observer.gave_up(&call, gave_up.reason(), attempts));
            #[cfg(feature = "tracing")]
            super::tracing::gave_up(&call, gave_up.reason(), attempts);
        }
    }

    pub(crate) fn end(&mut self, end: CallEnd) {
        self.tell(end);
    }

    fn tell(&mut self, end: CallEnd) {
        self.is_told = true;
        let ended = EndedCall {
            end,
            repeats: u32::try_from(self.context.failures()).unwrap_or(u32::MAX),
            took: self.began.elapsed(),
        };
        #[cfg(feature = "tracing")]
        super::tracing::call_ended(&self.span, &ended);
        if let Some((call, observers)) = self.context.observed() {
            observers.tell(|observer| observer.call_ended(&call, &ended));
        }
    }
}

impl Drop for ToldCall {
    fn drop(&mut self) {
        if !self.is_told {
            self.tell(CallEnd::Cancelled);
        }
    }
}

/// Who hears of an attempt.
pub(crate) struct Heard {
    endpoint: Option<Arc<Endpoint>>,
    /// What it is called where no endpoint is known.
    host: Box<str>,
    method: Method,
    observers: Option<Arc<Observers>>,
    context: Option<Arc<Context>>,
}

/// What came of an attempt, and what follows.
pub(crate) struct AttemptEnd<'a> {
    pub(crate) outcome: &'a Outcome,
    pub(crate) number: u32,
    pub(crate) took: Duration,
    pub(crate) decision: Decision,
    pub(crate) remaining: Option<Duration>,
}

impl Heard {
    pub(crate) fn of_call(context: &Arc<Context>) -> Self {
        Self {
            endpoint: None,
            host: Box::default(),
            method: Method::default(),
            observers: None,
            context: Some(Arc::clone(context)),
        }
    }

    /// For an attempt whose call has no context. `None`: nobody listens.
    pub(crate) fn of_attempt<B>(
        endpoint: Option<Arc<Endpoint>>,
        request: &Request<B>,
    ) -> Option<Self> {
        let is_observed = endpoint.as_ref().is_some_and(|one| one.is_observed());
        (is_observed || is_traced()).then(|| Self {
            observers: endpoint.as_ref().map(|endpoint| endpoint.observers()),
            endpoint,
            // Without userinfo.
            host: request.uri().host().unwrap_or_default().into(),
            method: request.method().clone(),
            context: None,
        })
    }

    pub(crate) fn attempt_ended(&self, attempt: &AttemptEnd<'_>) {
        if let Some(context) = &self.context {
            if let Some((call, observers)) = context.observed() {
                attempt_ended(&call, observers, attempt);
            }
            return;
        }
        let endpoint = self.endpoint.as_ref();
        let call = Call {
            endpoint: endpoint.map_or(&self.host, |endpoint| endpoint.name()),
            method: &self.method,
        };
        match &self.observers {
            Some(observers) => attempt_ended(&call, observers, attempt),
            None => attempt_ended(&call, &Observers::default(), attempt),
        }
    }
}

fn attempt_ended(call: &Call<'_>, observers: &Observers, attempt: &AttemptEnd<'_>) {
    let AttemptEnd {
        outcome, decision, ..
    } = *attempt;
    if outcome.verdict() == Verdict::Success {
        return observers.tell(|observer| observer.attempt_succeeded(call));
    }
    let failed = FailedAttempt {
        number: attempt.number,
        cause: outcome.cause(),
        verdict: outcome.verdict(),
        took: attempt.took,
        next_in: match decision {
            Decision::Wait(delay) => Some(delay),
            Decision::Pass | Decision::Stop(_) => None,
        },
        remaining: attempt.remaining,
    };
    #[cfg(feature = "tracing")]
    super::tracing::attempt_failed(call, &failed);
    observers.tell(|observer| {
        observer.attempt_failed(call, &failed);
        match failed.cause {
            Cause::Exception { exception, .. } => observer.exception_seen(call, exception),
            Cause::Incomplete(problem) => observer.truncated(call, problem),
            Cause::Stale => observer.stale(call),
            _ => {}
        }
    });
    if let Decision::Stop(reason) = decision {
        #[cfg(feature = "tracing")]
        super::tracing::gave_up(call, reason, attempt.number);
        observers.tell(|observer| observer.gave_up(call, reason, attempt.number));
    }
}

/// A first attempt that needs no second look.
#[cold]
pub(crate) fn attempt_succeeded(extensions: &Extensions) {
    if let Some((call, observers)) = Context::of(extensions).and_then(|one| one.observed()) {
        observers.tell(|observer| observer.attempt_succeeded(&call));
    }
}

/// An answer that was checked while it streamed ended too early.
#[cfg(feature = "completeness")]
#[cold]
pub(crate) fn truncated(context: &Context, problem: &Problem) {
    if let Some((call, observers)) = context.observed() {
        #[cfg(feature = "tracing")]
        super::tracing::truncated(&call, problem);
        observers.tell(|observer| observer.truncated(&call, problem));
    }
}

#[cold]
pub(crate) fn queue_waited(
    endpoint: &Endpoint,
    waited_for: WaitedFor,
    waited: Duration,
    admitted: bool,
) {
    if !endpoint.is_observed() {
        return;
    }
    let wait = QueueWait {
        waited,
        waited_for,
        admitted,
    };
    #[cfg(feature = "tracing")]
    super::tracing::queue_waited(
        endpoint.name(),
        &wait,
        endpoint.settings().published_limit.as_deref(),
    );
    let observers = endpoint.observers();
    observers.tell(|observer| observer.queue_waited(endpoint.name(), &wait));
}

#[cold]
pub(crate) fn rate_waited(endpoint: &Endpoint, waited: Duration) {
    if !endpoint.is_observed() {
        return;
    }
    #[cfg(feature = "tracing")]
    super::tracing::rate_waited(
        endpoint.name(),
        waited,
        endpoint.settings().published_limit.as_deref(),
    );
    let observers = endpoint.observers();
    observers.tell(|observer| observer.rate_waited(endpoint.name(), waited));
}

pub(crate) fn breaker_changed(observers: &Observers, endpoint: &str, change: &BreakerChange) {
    #[cfg(feature = "tracing")]
    super::tracing::breaker_changed(endpoint, change);
    observers.tell(|observer| observer.breaker_changed(endpoint, change));
}

pub(crate) fn cooldown_began(settings: &Settings, endpoint: &str, lasts: Duration) {
    #[cfg(feature = "tracing")]
    super::tracing::cooldown_began(endpoint, lasts, settings.published_limit.as_deref());
    let observers = &settings.observers;
    observers.tell(|observer| observer.cooldown_began(endpoint, lasts));
}

pub(crate) fn permit_reclaimed(observers: &Observers, endpoint: &str) {
    #[cfg(feature = "tracing")]
    super::tracing::permit_reclaimed(endpoint);
    observers.tell(|observer| observer.permit_reclaimed(endpoint));
}

/// Whether a subscriber may want what is told.
#[inline]
pub(crate) fn is_traced() -> bool {
    #[cfg(feature = "tracing")]
    return super::tracing::is_on();
    #[cfg(not(feature = "tracing"))]
    false
}
