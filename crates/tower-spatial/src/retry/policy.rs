use std::{fmt, sync::Arc, time::Duration};

use http::{HeaderMap, Method, Request, Response, Uri};
use http_body::Body;
use load_control::Budget;
use service_exception::{Operation, Protocol, ServiceException};
use tokio::time::Instant;
use tower::{BoxError, retry::Policy};

use super::{
    GaveUp, RepeatUnsafe, RetryAfterUnit, RetryFuture, RetryPolicyBuilder, StopReason,
    builder::{AnswerHead, Classify},
    decision::{Decision, Limits, Situation},
};
use crate::{
    call::{Attempt, Attempts, Carried, Clock, Context, Deadline, Endpoints, Outcome, Verdict},
    exception::ServiceExceptionError,
    find,
    gate::CircuitOpen,
    observe::{self, AttemptEnd, Heard},
    replay::{Keep, RepeatableBody},
    verify::freshness::Stale,
};

/// When and how often a geospatial request is repeated: a [`Policy`] for tower's own
/// [`RetryLayer`](tower::retry::RetryLayer).
///
/// See the [module](super) for what it does. Clones share the settings; each call's progress is its own.
#[derive(Clone)]
pub struct RetryPolicy {
    config: Arc<Config>,
    session: Session,
}

pub(super) struct Config {
    pub(super) limits: Limits,
    pub(super) clock: Clock,
    /// `None`: the server's hints do not count.
    pub(super) retry_after_unit: Option<RetryAfterUnit>,
    pub(super) statuses: Vec<(http::StatusCode, Verdict)>,
    pub(super) classify: Classify,
    /// `None`: as the protocol says.
    pub(super) honour_idempotency_keys: Option<bool>,
    pub(super) endpoints: Option<Endpoints>,
}

/// One call's progress. tower clones it with the policy on every call: what only a failure needs is in the context.
#[derive(Clone, Default)]
struct Session {
    /// What the call's endpoint says.
    config: Option<Arc<Config>>,
    /// When the call began. The layer's own copy keeps that of the last call, until the next one begins.
    began: Option<Instant>,
    attempt_began: Option<Instant>,
    /// Whether somebody is told of this call.
    is_observed: bool,
    /// Set by the first failure that is repeated.
    context: Option<Arc<Context>>,
    /// All that the first attempt carried in its extensions, where the kept request has none.
    carried: Option<Carried>,
    ambiguous_repeats: u32,
}

impl RetryPolicy {
    /// For batch jobs: cap 300 s, budget 1 800 s, which stands still for up to 6 h while the host is known to be closed.
    pub fn batch() -> Self {
        Self::builder()
            .cap(Duration::from_secs(300))
            .budget(Duration::from_secs(1_800))
            .park(Duration::from_secs(6 * 3600))
            .build()
            .expect("the preset is valid")
    }

    /// For somebody who waits: cap 60 s, budget 60 s.
    pub fn interactive() -> Self {
        Self::builder()
            .budget(Duration::from_secs(60))
            .build()
            .expect("the preset is valid")
    }

    /// Every number by name.
    pub fn builder() -> RetryPolicyBuilder {
        RetryPolicyBuilder::default()
    }

    pub(super) fn from_config(config: Config) -> Self {
        Self {
            config: Arc::new(config),
            session: Session::default(),
        }
    }

    fn config(&self) -> &Config {
        self.session.config.as_deref().unwrap_or(&self.config)
    }

    /// What a status means to this policy, where that is not what it means to all.
    pub(crate) fn statuses(&self) -> &[(http::StatusCode, Verdict)] {
        &self.config().statuses
    }

    fn judge<R>(&self, result: &Result<Response<R>, BoxError>) -> Outcome {
        let Config {
            classify, statuses, ..
        } = self.config();
        let (outcome, verdict) = match result {
            Ok(response) => {
                let (status, headers, extensions) =
                    (response.status(), response.headers(), response.extensions());
                let rule = classify.response.as_ref();
                let verdict = rule.and_then(|rule| {
                    rule(&AnswerHead {
                        status,
                        headers,
                        extensions,
                    })
                });
                (
                    Outcome::of_head(status, headers, extensions, statuses),
                    verdict,
                )
            }
            Err(error) => {
                let rule = classify.error.as_ref();
                let verdict = rule.and_then(|rule| rule(error.as_ref()));
                (Outcome::of_error_with(error, statuses), verdict)
            }
        };
        match verdict {
            Some(verdict) => outcome.with_verdict(verdict),
            None => outcome,
        }
    }

    /// What the request's endpoint, or else the policy, says of idempotency keys.
    fn keys_for<B>(&self, request: &Request<B>) -> Option<bool> {
        let config = &*self.config;
        let endpoints = config.endpoints.as_ref();
        let by_endpoint = endpoints.and_then(|endpoints| {
            let endpoint = endpoints.find(request.uri());
            endpoint.settings().honours_idempotency_keys
        });
        by_endpoint.or(config.honour_idempotency_keys)
    }

    /// What a streaming body keeps for a repeat of `request`.
    fn keep<B>(&self, request: &Request<B>) -> Keep {
        let asked = Asked::of(request);
        let keys = self.keys_for(request);
        match asked.is_told_by_body() {
            true => {
                let (parts, ()) = asked.to_request().into_parts();
                Keep::ByHead(Box::new(move |head| {
                    Asked::of(&Request::from_parts(parts, ())).is_safe(Some(head), keys)
                }))
            }
            false if asked.is_safe(None, keys) => Keep::All,
            false => Keep::Nothing,
        }
    }

    fn hint<R>(&self, result: &Result<Response<R>, BoxError>) -> Option<Duration> {
        if let Err(error) = result
            && let Some(open) = find::<CircuitOpen>(error)
        {
            return open
                .until()
                .map(|until| until.saturating_duration_since(Instant::now()));
        }
        match result {
            Ok(response) => self.asked_pause(response.headers(), response.extensions().get()),
            Err(error) => {
                let error = find::<ServiceExceptionError>(error)?;
                self.asked_pause(&error.parts().headers, Some(error.exception()))
            }
        }
    }

    /// For how long the server asks to be left in peace, as far as this policy believes it.
    fn asked_pause(
        &self,
        headers: &HeaderMap,
        exception: Option<&ServiceException>,
    ) -> Option<Duration> {
        self.retry_after_unit()?.asked_pause(headers, exception)
    }

    /// `None`: the server's hints do not count.
    pub(crate) fn retry_after_unit(&self) -> Option<RetryAfterUnit> {
        self.config().retry_after_unit
    }

    /// Who hears of this call's attempts, where anybody does.
    fn heard<B>(&self, request: &Request<B>) -> Option<Heard> {
        if let Some(context) = Context::of(request.extensions())
            && context.settings().is_some()
        {
            return context.observed().map(|_| Heard::of_call(context));
        }
        let endpoints = self.config().endpoints.as_ref();
        let endpoint = endpoints.map(|endpoints| endpoints.find(request.uri()));
        Heard::of_attempt(endpoint, request)
    }

    /// What follows a result that is not plainly a success.
    fn decide<B: RepeatableBody, R: Body + Unpin>(
        &mut self,
        request: &mut Request<B>,
        result: &mut Result<Response<R>, BoxError>,
    ) -> Option<RetryFuture<R>> {
        if let Some(carried) = self.session.carried.take() {
            carried.put_back(request.extensions_mut());
        }
        let now = Instant::now();
        let outcome = self.judge(result);
        let call_began = self.session.began.unwrap_or(now);
        let attempt_began = self.session.attempt_began.unwrap_or(now);
        let context = self
            .session
            .context
            .as_ref()
            .or_else(|| Context::of(request.extensions()));
        let mut attempts = context
            .map(|context| context.attempts())
            .unwrap_or_default();
        let failures = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
        let (started, parked, stands_still_for, backoff_step) = match context {
            Some(context) => (
                context.started_or(call_began),
                context.stood_still(now),
                context.stands_still_for(now),
                context.backoff_step(failures, now),
            ),
            None => (call_began, Duration::ZERO, Duration::ZERO, failures),
        };
        let budget = Budget::starting(started.into_std(), self.config().clock.budget)
            .standing_still(parked)
            .with_deadline(Deadline::of(request.extensions()).map(Instant::into_std));

        let situation = Situation {
            outcome: &outcome,
            previous: attempts.last().map(Attempt::cause),
            attempts: failures.saturating_add(1),
            ambiguous_repeats: self.session.ambiguous_repeats,
            hint: self.hint(result),
            now: now.into_std(),
            budget,
            stands_still_for,
            backoff_step,
            safe_to_repeat: Asked::of(request)
                .is_safe(request.body().head().as_deref(), self.keys_for(request)),
            body: request.body().why_not(),
        };
        let decision = Decision::of(&self.config().limits, &situation, &mut rand::rng());

        if let Some(heard) = self.heard(request) {
            let latest = budget.standing_still(stands_still_for).latest_start();
            heard.attempt_ended(&AttemptEnd {
                outcome: &outcome,
                number: failures.saturating_add(1),
                took: now.duration_since(attempt_began),
                decision,
                remaining: latest.map(|latest| latest.saturating_duration_since(now.into_std())),
            });
        }
        let attempt = Attempt {
            cause: outcome.cause().clone(),
            began: attempt_began.duration_since(call_began),
            took: now.duration_since(attempt_began),
        };
        match decision {
            Decision::Pass => {
                note_attempts(result, attempts.len() + 1, now.duration_since(call_began));
                None
            }
            Decision::Stop(reason) => {
                attempts.push(attempt);
                give_up(result, reason, attempts, now.duration_since(call_began));
                None
            }
            Decision::Wait(delay) => {
                if outcome.verdict() == Verdict::Ambiguous {
                    self.session.ambiguous_repeats += 1;
                }
                let context = match &self.session.context {
                    Some(context) => Arc::clone(context),
                    None => Context::of_or_insert(request.extensions_mut()),
                };
                context.set_clock(self.config().clock);
                context.started_or(call_began);
                context.failed(attempt);
                self.session.context = Some(context);
                // The response is taken out: its body is read while the sleep runs, and tower drops nothing too early.
                let failed = match result {
                    Ok(_) => std::mem::replace(result, Err(Box::new(Repeated))).ok(),
                    Err(_) => None,
                };
                Some(RetryFuture::new(delay, failed))
            }
        }
    }
}

impl Default for RetryPolicy {
    /// Base 1 s, cap 60 s, budget 600 s.
    fn default() -> Self {
        Self::builder().build().expect("the defaults are valid")
    }
}

impl<B, R> Policy<Request<B>, Response<R>, BoxError> for RetryPolicy
where
    B: RepeatableBody,
    R: Body + Unpin,
{
    type Future = RetryFuture<R>;

    fn retry(
        &mut self,
        request: &mut Request<B>,
        result: &mut Result<Response<R>, BoxError>,
    ) -> Option<Self::Future> {
        if let Ok(response) = result
            && response.status().is_success()
            && response.extensions().get::<ServiceException>().is_none()
            && response.extensions().get::<Stale>().is_none()
            && self.session.context.is_none()
            && self.config().statuses.is_empty()
            && self.config().classify.response.is_none()
        {
            if self.session.is_observed {
                observe::attempt_succeeded(request.extensions());
            }
            return None;
        }
        self.decide(request, result)
    }

    /// Always answers, so that `retry` is always asked and the reason of a stop can be told.
    fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
        let now = Instant::now();
        if self.session.context.is_none() {
            // The first attempt of a call: tower asks the layer's own policy, then clones it for the call.
            self.session.began = Some(now);
            self.session.config = None;
            self.session.is_observed = false;
            self.session.carried = None;
            if let Some(context) = Context::of(request.extensions()) {
                let settings = context.settings();
                if let Some(policy) = settings.and_then(|settings| settings.retry.as_ref()) {
                    self.session.config = Some(Arc::clone(&policy.config));
                }
                context.set_clock(self.config().clock);
                self.session.is_observed = context.observed().is_some();
            }
        }
        self.session.attempt_began = Some(now);
        request.body().keep(|| self.keep(request));
        if self.session.context.is_none() && !self.session.is_observed {
            self.session.carried = Carried::all_of(request.extensions());
        }
        Some(match self.session.carried {
            Some(_) => without_extensions(request),
            None => request.clone(),
        })
    }
}

/// A clone of all but the extensions, which cost several allocations.
#[inline(never)]
fn without_extensions<B: Clone>(request: &Request<B>) -> Request<B> {
    let mut clone = Request::new(request.body().clone());
    *clone.method_mut() = request.method().clone();
    *clone.uri_mut() = request.uri().clone();
    *clone.version_mut() = request.version();
    *clone.headers_mut() = request.headers().clone();
    clone
}

impl fmt::Debug for RetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryPolicy")
            .field("limits", &self.config().limits)
            .field("budget", &self.config().clock.budget)
            .field("max_park", &self.config().clock.max_park)
            .finish_non_exhaustive()
    }
}

/// Stands where a failed response was while its repeat is on its way; nobody ever sees it.
#[derive(Debug)]
struct Repeated;

impl fmt::Display for Repeated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the attempt is being repeated")
    }
}

impl std::error::Error for Repeated {}

/// Whether a request is repeated where its attempt fails: its operation is safe, or the caller opted in.
///
/// Read from the method, the URI, the headers, the head of the body where that is at hand, and the extensions
/// [`RepeatUnsafe`] and [`Operation`]. A policy also knows what it was told of idempotency keys
/// ([`honour_idempotency_keys`](RetryPolicyBuilder::honour_idempotency_keys)).
///
/// ```
/// use tower_spatial::retry::is_safe_to_repeat;
///
/// let get_map = http::Request::get("https://example.org/ows?SERVICE=WMS&REQUEST=GetMap").body(())?;
/// assert!(is_safe_to_repeat(&get_map));
/// let execute = http::Request::get("https://example.org/ows?SERVICE=WPS&REQUEST=Execute").body(())?;
/// assert!(!is_safe_to_repeat(&execute));
/// # Ok::<(), http::Error>(())
/// ```
pub fn is_safe_to_repeat<B: RepeatableBody>(request: &Request<B>) -> bool {
    Asked::of(request).is_safe(request.body().head().as_deref(), None)
}

/// What tells whether a request is safe to repeat, its body aside.
struct Asked<'a> {
    method: &'a Method,
    uri: &'a Uri,
    headers: &'a HeaderMap,
    operation: Option<&'a Operation>,
    repeat_unsafe: bool,
}

impl<'a> Asked<'a> {
    fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            operation: request.extensions().get(),
            repeat_unsafe: request.extensions().get::<RepeatUnsafe>().is_some(),
        }
    }

    /// `keys`: whether the server is known to honour idempotency keys, or not to.
    fn is_safe(&self, head: Option<&[u8]>, keys: Option<bool>) -> bool {
        if self.repeat_unsafe {
            return true;
        }
        let read;
        let operation = match self.operation {
            Some(operation) => operation,
            None => {
                read = Operation::of(self.method, self.uri, self.headers, head);
                &read
            }
        };
        operation.is_safe_to_repeat()
            || self.headers.contains_key("idempotency-key")
                && keys.unwrap_or_else(|| self.is_trusted_with_keys(operation))
    }

    /// OGC's XML services and ArcGIS ignore the header; of a JSON service a caller who sends it knows that it does not.
    fn is_trusted_with_keys(&self, operation: &Operation) -> bool {
        match operation.protocol() {
            Protocol::OgcApi | Protocol::Stac | Protocol::OpenEo | Protocol::SensorThings => true,
            Protocol::Unknown => {
                let label = self.headers.get(http::header::CONTENT_TYPE);
                label.is_some_and(|label| label.to_str().is_ok_and(|label| label.contains("json")))
            }
            _ => false,
        }
    }

    fn is_told_by_body(&self) -> bool {
        *self.method == Method::POST && self.operation.is_none() && !self.repeat_unsafe
    }

    /// As much of the request, for later.
    fn to_request(&self) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

fn note_attempts<R>(result: &mut Result<Response<R>, BoxError>, count: usize, total: Duration) {
    if let Ok(response) = result
        && count > 1
    {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        response.extensions_mut().insert(Attempts { count, total });
    }
}

fn give_up<R>(
    result: &mut Result<Response<R>, BoxError>,
    reason: StopReason,
    attempts: Vec<Attempt>,
    total: Duration,
) {
    match result {
        Ok(_) => {
            note_attempts(result, attempts.len(), total);
            if let Ok(response) = result {
                response
                    .extensions_mut()
                    .insert(GaveUp::new(reason, attempts, total, None));
            }
        }
        Err(error) => {
            let source = std::mem::replace(error, Box::new(Repeated));
            *error = Box::new(GaveUp::new(reason, attempts, total, Some(source)));
        }
    }
}
