use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body::Body;
use load_control::Reason;
use pin_project_lite::pin_project;
use tokio::time::{Duration, Instant, Sleep, sleep_until};
use tower::BoxError;
use tower_service::Service;

use super::body::{ResponseBody, hand_over};
use super::error::For;
use super::outcome::report;
use super::{CircuitOpen, OnOpen, Options, QueueTimeout};
use crate::call::{self, Deadline, Endpoint, Part, Permit, Queued, Waiting};
use crate::observe::{self, WaitedFor};

pin_project! {
    /// Waits for a permit, calls, and hands the permit to the body.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        pub(super) state: State<S, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    pub(super) enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Called {
            // Dropped before the permit, which thus outlives the call.
            #[pin]
            call: S::Future,
            held: Held,
            until_body_ends: bool,
        },
        // Boxed: it holds request and service, and most calls never wait.
        Admission { admission: Pin<Box<Admission<S, B>>> },
        Refused { error: Option<BoxError> },
    }
}

/// Where the permit of a call is.
#[derive(Debug)]
pub(super) enum Held {
    /// Another layer has it, or the call has ended.
    Nothing,
    Permit(Permit),
    Lent(Lent),
}

impl Held {
    #[inline(always)]
    fn take(&mut self) -> Option<Permit> {
        match mem::replace(self, Self::Nothing) {
            Self::Nothing => None,
            Self::Permit(permit) => Some(permit),
            Self::Lent(lent) => lent.take_back(),
        }
    }
}

/// A layer further inside may give the permit back and get another.
#[derive(Debug)]
pub(super) struct Lent {
    pub(super) context: Arc<call::Context>,
    pub(super) admitted_at: Instant,
}

impl Lent {
    fn take_back(&self) -> Option<Permit> {
        let permit = self.context.permit().take();
        if let Some(permit) = &permit {
            // No layer further inside kept the rate, so none has said when the call went.
            self.context.start(self.admitted_at, permit.endpoint());
        }
        permit
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn admission(admission: Admission<S, B>) -> Self {
        Self {
            state: State::Admission {
                admission: Box::pin(admission),
            },
        }
    }

    pub(super) fn refused(error: BoxError) -> Self {
        Self {
            state: State::Refused { error: Some(error) },
        }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: Body,
{
    type Output = Result<Response<ResponseBody<R>>, BoxError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let (permit, mut request, mut service, until_body_ends) =
                match this.state.as_mut().project() {
                    StateProjection::Called {
                        call,
                        held,
                        until_body_ends,
                    } => {
                        let polled = call.poll(cx);
                        let Poll::Ready(result) = polled else {
                            return Poll::Pending;
                        };
                        // Taken on every path: a future that is kept after it has ended holds no permit.
                        let mut permit = held.take();
                        return Poll::Ready(match result {
                            Ok(response) => {
                                if let Some(permit) = &mut permit {
                                    report(permit, Ok(&response));
                                }
                                if !*until_body_ends {
                                    permit = None;
                                }
                                let permit = hand_over(permit, response.body());
                                Ok(response.map(|inner| ResponseBody { inner, permit }))
                            }
                            Err(error) => {
                                let error = error.into();
                                if let Some(permit) = &mut permit {
                                    report::<R>(permit, Err(&error));
                                }
                                Err(error)
                            }
                        });
                    }
                    StateProjection::Admission { admission } => {
                        ready!(admission.as_mut().poll(cx))?
                    }
                    StateProjection::Refused { error } => {
                        return match error.take() {
                            Some(error) => Poll::Ready(Err(error)),
                            // Polled again after it has ended, which nobody may do.
                            None => Poll::Pending,
                        };
                    }
                };
            let held = match permit {
                Some(permit) => Held::by_call(permit, &mut request, Instant::now()),
                None => Held::Nothing,
            };
            let call = service.call(request);
            this.state.set(State::Called {
                call,
                held,
                until_body_ends,
            });
        }
    }
}

impl<S, B> fmt::Debug for ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

pin_project! {
    /// A call on its way to the service below: in the queue, then until that is ready.
    pub(super) struct Admission<S, B> {
        step: Step,
        endpoint: Arc<Endpoint>,
        // Both until it is admitted.
        call: Option<(Request<B>, S)>,
        queue_timeout: Duration,
        // A quarter of the reader's patience.
        quarter: Duration,
        until_body_ends: bool,
        on_open: OnOpen,
        entered: Option<Entered>,
        // What it has waited for last.
        waited_for: Option<WaitedFor>,
        #[pin]
        sleep: Option<Sleep>,
    }
}

enum Step {
    New,
    /// A retry for which there was no token.
    Held {
        until: Instant,
    },
    Enter,
    Queued(Queued),
    /// Without a permit where another layer has it.
    Admitted(Option<Permit>),
    Ended,
}

#[derive(Clone, Copy)]
struct Entered {
    at: Instant,
    /// For how long the call's budget had stood still before.
    parked_before: Duration,
    next_sweep: Instant,
}

impl<S, B> Admission<S, B> {
    /// There was no permit for `request`.
    pub(super) fn queue(
        endpoint: Arc<Endpoint>,
        service: S,
        request: Request<B>,
        options: &Options,
    ) -> Self {
        let settings = endpoint.settings();
        let patience = options.reader_patience.unwrap_or(settings.reader_patience);
        Self {
            queue_timeout: options.queue_timeout.unwrap_or(settings.queue_timeout),
            quarter: (patience / 4).clamp(SHORTEST_QUARTER, FAR),
            until_body_ends: options.is_until_body_ends(&request),
            on_open: options.on_open,
            step: Step::New,
            endpoint,
            call: Some((request, service)),
            entered: None,
            waited_for: None,
            sleep: None,
        }
    }

    /// There was, or it needs none, but `service` is not ready.
    pub(super) fn ready(
        endpoint: Arc<Endpoint>,
        permit: Option<Permit>,
        service: S,
        request: Request<B>,
        options: &Options,
    ) -> Self {
        Self {
            step: Step::Admitted(permit),
            ..Self::queue(endpoint, service, request, options)
        }
    }

    /// The permit and the service, which is ready, for the request; and whether the permit is kept until the body ends.
    #[allow(clippy::type_complexity)]
    fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(Option<Permit>, Request<B>, S, bool), BoxError>>
    where
        S: Service<Request<B>>,
        S::Error: Into<BoxError>,
    {
        let mut this = self.project();
        let Some((request, service)) = this.call.as_mut() else {
            return Poll::Pending;
        };
        let mut now = Instant::now();
        let endpoint: &Arc<Endpoint> = this.endpoint;
        let context = call::Context::of(request.extensions());
        let parks = context.is_some_and(|context| context.parks());
        let entered = this.entered.get_or_insert_with(|| Entered {
            at: now,
            parked_before: context.map_or(Duration::ZERO, |context| context.parked(now)),
            next_sweep: now,
        });
        loop {
            let for_what;
            let mut known_until = None;
            let mut ask_at = None;
            let mut stands_still = false;
            match this.step {
                Step::New => {
                    // What the breaker is about to refuse is no repeat.
                    let is_refused =
                        *this.on_open == OnOpen::Fail && endpoint.closed_until(now).is_some();
                    let hold = match is_refused {
                        true => Duration::ZERO,
                        false => hold(endpoint, context),
                    };
                    *this.step = match hold.is_zero() {
                        true => Step::Enter,
                        false => Step::Held { until: now + hold },
                    };
                    continue;
                }
                Step::Held { until } if *until <= now => {
                    *this.step = Step::Enter;
                    continue;
                }
                Step::Held { until } => {
                    for_what = For::RetryToken;
                    known_until = Some(*until);
                    ask_at = Some(*until);
                }
                Step::Enter => {
                    let failures = context.map_or(0, |context| context.failures());
                    let waiting = Waiting {
                        goes_in_front: (1..=IN_FRONT).contains(&failures),
                        leaves_when_open: *this.on_open == OnOpen::Fail,
                    };
                    let endpoint = Arc::clone(endpoint);
                    *this.step = match Queued::enter(endpoint, waiting, now, cx.waker()) {
                        Ok(queued) => Step::Queued(queued),
                        Err(permit) => Step::Admitted(Some(permit)),
                    };
                    continue;
                }
                Step::Queued(queued) => {
                    match queued.poll(now, cx.waker()) {
                        None => return Poll::Pending,
                        Some(Ok(permit)) => {
                            *this.step = Step::Admitted(Some(permit));
                            continue;
                        }
                        // It may find that this call can go, and then wakes it.
                        Some(Err(_)) if entered.next_sweep <= now => {
                            queued.sweep(now, *this.quarter);
                            entered.next_sweep = now + *this.quarter;
                            continue;
                        }
                        Some(Err(waits)) => {
                            let is_open = matches!(
                                waits.reason,
                                Reason::Open | Reason::Held | Reason::Probing
                            );
                            if is_open && *this.on_open == OnOpen::Fail {
                                *this.step = Step::Ended;
                                return Poll::Ready(Err(circuit_open(
                                    endpoint,
                                    waits.reason,
                                    waits.until,
                                )));
                            }
                            for_what = For::of(waits.reason, waits.until, now);
                            if waits.reason != Reason::Limit {
                                stands_still = parks;
                                if let Some(context) = context {
                                    context.meet_closed(now, endpoint);
                                }
                            }
                            if matches!(waits.reason, Reason::Open | Reason::Cooldown) {
                                known_until = waits.until;
                            }
                            ask_at = waits.ask_at;
                        }
                    }
                }
                Step::Admitted(_) => match service.poll_ready(cx) {
                    Poll::Ready(Ok(())) => break,
                    Poll::Ready(Err(error)) => {
                        *this.step = Step::Ended;
                        return Poll::Ready(Err(error.into()));
                    }
                    Poll::Pending => for_what = For::Ready,
                },
                Step::Ended => return Poll::Pending,
            }
            let parked = context.map_or(Duration::ZERO, |context| context.parked(now));
            let parked = parked.saturating_sub(entered.parked_before);
            let queue_end = entered.at + (*this.queue_timeout).min(FAR) + parked.min(FAR);
            let budget_end = context.and_then(|context| context.budget_end(now));
            let end = budget_end.map_or(queue_end, |budget_end| budget_end.min(queue_end));
            let deadline = Deadline::of(request.extensions());
            let is_over = end <= now
                || deadline.is_some_and(|deadline| deadline <= now)
                || known_until.is_some_and(|until| {
                    !parks && until > end || deadline.is_some_and(|deadline| until > deadline)
                });
            if is_over {
                // Made before its own permit is given back.
                let error = QueueTimeout::new(endpoint, now - entered.at, for_what);
                *this.step = Step::Ended;
                observe::queue_waited(endpoint, for_what.into(), now - entered.at, false);
                return Poll::Ready(Err(error.into()));
            }
            // While the host is closed a budget that parks moves on with the time, as far as it may. Looking now and
            // then is enough.
            let mut wake_at = match context.filter(|_| stands_still) {
                Some(context) => {
                    let look_again = now + (*this.quarter).min(LONGEST_LOOK);
                    let last = end + context.park_left(now).min(FAR);
                    end.max(look_again).min(last)
                }
                None => end,
            };
            if let Step::Queued(_) = this.step {
                wake_at = wake_at.min(entered.next_sweep);
            }
            for sooner in [deadline, ask_at].into_iter().flatten() {
                wake_at = wake_at.min(sooner);
            }
            match this.sleep.as_mut().as_pin_mut() {
                None => this.sleep.set(Some(sleep_until(wake_at))),
                Some(sleep) if sleep.deadline() != wake_at => sleep.reset(wake_at),
                Some(_) => {}
            }
            *this.waited_for = Some(for_what.into());
            if let Some(sleep) = this.sleep.as_mut().as_pin_mut() {
                ready!(sleep.poll(cx));
                now = Instant::now();
            }
        }
        let call = this.call.take();
        let (Step::Admitted(permit), Some((request, service))) =
            (mem::replace(this.step, Step::Ended), call)
        else {
            return Poll::Pending;
        };
        if let Some(waited_for) = *this.waited_for {
            let waited = Instant::now() - entered.at;
            observe::queue_waited(endpoint, waited_for, waited, true);
        }
        if permit.is_some()
            && let Some(carried) = Deadline::carried(request.extensions())
        {
            admit(carried, endpoint, now, Some(entered.at))?;
        }
        Poll::Ready(Ok((permit, request, service, *this.until_body_ends)))
    }
}

/// How long a retry has to wait because too many calls are being repeated.
fn hold(endpoint: &Endpoint, context: Option<&Arc<call::Context>>) -> Duration {
    if !endpoint.parts().has(Part::Breaker) || context.is_none_or(|one| one.failures() == 0) {
        return Duration::ZERO;
    }
    endpoint.spend_retry_token()
}

#[cold]
pub(super) fn circuit_open(
    endpoint: &Endpoint,
    reason: Reason,
    until: Option<Instant>,
) -> BoxError {
    let until = until.filter(|_| reason == Reason::Open);
    Box::new(CircuitOpen::new(endpoint, until))
}

/// The last look at the clocks before the call.
///
/// # Errors
/// Where it is too late to start.
#[inline]
pub(super) fn admit(
    carried: &Deadline,
    endpoint: &Arc<Endpoint>,
    now: Instant,
    entered: Option<Instant>,
) -> Result<(), QueueTimeout> {
    if let Some(context) = carried.context()
        // Where there is a slot to wait for, the budget begins with that.
        && !endpoint.parts().has(Part::Rate)
    {
        context.start(now, endpoint);
    }
    if carried.latest_start(now).is_some_and(|latest| latest < now) {
        let waited = entered.map_or(Duration::ZERO, |entered| now - entered);
        return Err(QueueTimeout::new(endpoint, waited, For::Permit));
    }
    Ok(())
}

/// The first repeats of a call go in front: it has waited before.
const IN_FRONT: usize = 3;
/// How long a budget that stands still may end too late, where readers have more patience than that.
const LONGEST_LOOK: Duration = Duration::from_secs(60);
const SHORTEST_QUARTER: Duration = Duration::from_millis(1);
/// Thirty years: an instant that far away can be told on every platform.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
