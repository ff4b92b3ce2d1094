use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tokio::time::{Duration, Instant, Sleep, sleep_until};
use tower::BoxError;
use tower_service::Service;

use super::error::Why;
use super::hint::Hinted;
use super::permit::Lent;
use super::{Ask, RateLimited, RateStore, Turn, Weight};
use crate::call::{self, Deadline, Endpoint, Settings, TooLate, latest_start};
use crate::observe;

pin_project! {
    /// Waits for the call's slot, then calls.
    pub struct ResponseFuture<S, B, T>
    where
        S: Service<Request<B>>,
        T: RateStore,
    {
        #[pin]
        state: State<S, B, T>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, T>
    where
        S: Service<Request<B>>,
        T: RateStore,
    {
        Called {
            #[pin]
            call: S::Future,
            hinted: Option<Hinted<T>>,
        },
        // Boxed: it holds request, service and timer, and many calls never wait.
        Waiting { waiting: Box<Waiting<S, B, T>> },
        Refused { error: Option<BoxError> },
    }
}

impl<S, B, T> ResponseFuture<S, B, T>
where
    S: Service<Request<B>>,
    T: RateStore,
{
    #[inline]
    pub(super) fn called(call: S::Future, hinted: Option<Hinted<T>>) -> Self {
        let state = State::Called { call, hinted };
        Self { state }
    }

    pub(super) fn waiting(waiting: Waiting<S, B, T>) -> Self {
        let state = State::Waiting {
            waiting: Box::new(waiting),
        };
        Self { state }
    }

    pub(super) fn refused(error: BoxError) -> Self {
        let state = State::Refused { error: Some(error) };
        Self { state }
    }
}

impl<S, B, R, T> Future for ResponseFuture<S, B, T>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    T: RateStore,
{
    type Output = Result<Response<R>, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let (call, hinted) = match this.state.as_mut().project() {
                StateProjection::Called { call, hinted } => {
                    let mut result = ready!(call.poll(cx)).map_err(Into::into);
                    if let Some(hinted) = hinted {
                        hinted.see(&mut result);
                    }
                    return Poll::Ready(result);
                }
                StateProjection::Waiting { waiting } => ready!(waiting.poll(cx))?,
                StateProjection::Refused { error } => {
                    return match error.take() {
                        Some(error) => Poll::Ready(Err(error)),
                        // Polled again after it has ended, which nobody may do.
                        None => Poll::Pending,
                    };
                }
            };
            this.state.set(State::Called { call, hinted });
        }
    }
}

impl<S, B, T> fmt::Debug for ResponseFuture<S, B, T>
where
    S: Service<Request<B>>,
    T: RateStore,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// Since when a call waits, and until when it may.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    since: Instant,
    queue_timeout: Duration,
    /// For how long the call's clock had stood still before.
    parked_before: Duration,
    /// As far as could be told when it was last looked at.
    pub(super) until: Instant,
}

impl Bounds {
    #[inline]
    pub(super) fn of<B>(
        request: &Request<B>,
        settings: &Settings,
        queue_timeout: Option<Duration>,
        now: Instant,
    ) -> Self {
        let queue_timeout = queue_timeout.unwrap_or(settings.queue_timeout).min(FAR);
        let mut bounds = Self {
            since: now,
            queue_timeout,
            parked_before: Duration::ZERO,
            until: now + queue_timeout,
        };
        if !request.extensions().is_empty() {
            if let Some(context) = call::Context::of(request.extensions()) {
                bounds.parked_before = context.parked(now);
            }
            bounds.look(request, now);
        }
        bounds
    }

    /// The clocks of queue and budget stand still while the host of a call that parks is closed.
    fn look<B>(&mut self, request: &Request<B>, now: Instant) {
        let context = call::Context::of(request.extensions());
        let parked = context.map_or(Duration::ZERO, |context| context.parked(now));
        let parked = parked.saturating_sub(self.parked_before).min(FAR);
        let until = self.since + self.queue_timeout + parked;
        let latest = latest_start(request.extensions(), now);
        self.until = latest.map_or(until, |latest| latest.min(until));
    }

    /// When the wait ends, or else is to be looked at again: while the clocks stand still the end moves on with the time.
    fn ends_at<B>(&self, request: &Request<B>, now: Instant) -> Instant {
        let context = call::Context::of(request.extensions()).filter(|context| context.parks());
        let still = context.map_or(Duration::ZERO, |context| context.stands_still_for(now));
        if still.is_zero() {
            return self.until;
        }
        let last = self.until + still.min(FAR);
        let last = Deadline::of(request.extensions()).map_or(last, |deadline| deadline.min(last));
        self.until.max(now + LONGEST_LOOK).min(last)
    }
}

/// A call that waits for its slot, then until the service below is ready, and then takes the slot.
pub(super) struct Waiting<S, B, T: RateStore> {
    step: Step,
    service: S,
    request: Option<Request<B>>,
    endpoint: Arc<Endpoint>,
    rated: Option<Rated<T>>,
    lent: Lent,
    bounds: Bounds,
    // Boxed: then nothing here is pinned.
    sleep: Option<Pin<Box<Sleep>>>,
}

/// What a call waits for that has a rate.
struct Rated<T: RateStore> {
    hinted: Hinted<T>,
    weight: Weight,
    slot: Option<T::Slot>,
}

#[derive(Clone, Copy)]
enum Step {
    Reserve,
    Sleep(Instant),
    /// The slot's time has come: the permit that was given back is needed again, then the service below.
    Ready,
    Take,
    Ended,
}

impl<S, B, T: RateStore> Waiting<S, B, T> {
    pub(super) fn new(
        service: S,
        request: Request<B>,
        hinted: Hinted<T>,
        weight: Weight,
        bounds: Bounds,
        slot: Option<T::Slot>,
        turn: Option<Turn>,
    ) -> Self {
        let rated = Rated {
            weight,
            slot,
            hinted,
        };
        Self {
            step: match turn {
                None => Step::Reserve,
                Some(Turn::At(at)) => Step::Sleep(at),
                // A store that counts a call that did not want to go: it goes as soon as it can.
                Some(Turn::Now) => Step::Ready,
            },
            endpoint: Arc::clone(&rated.hinted.endpoint),
            rated: Some(rated),
            service,
            request: Some(request),
            lent: Lent::default(),
            bounds,
            sleep: None,
        }
    }

    /// Only the service below is waited for.
    pub(super) fn without_rate(
        service: S,
        request: Request<B>,
        endpoint: Arc<Endpoint>,
        bounds: Bounds,
    ) -> Self {
        Self {
            step: Step::Ready,
            service,
            request: Some(request),
            endpoint,
            rated: None,
            lent: Lent::default(),
            bounds,
            sleep: None,
        }
    }

    #[allow(clippy::type_complexity)]
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(S::Future, Option<Hinted<T>>), BoxError>>
    where
        S: Service<Request<B>> + Clone,
        S::Error: Into<BoxError>,
    {
        let this = self;
        let Some(request) = this.request.as_ref() else {
            return Poll::Pending;
        };
        let mut now = Instant::now();
        loop {
            this.bounds.look(request, now);
            let ends_at = this.bounds.ends_at(request, now);
            // When to look again, whatever happens.
            let wake_at = match this.step {
                Step::Ended => return Poll::Pending,
                Step::Take
                    if latest_start(request.extensions(), now)
                        .is_some_and(|latest| latest < now) =>
                {
                    this.step = Step::Ended;
                    this.give_up();
                    return Poll::Ready(Err(TooLate::error()));
                }
                Step::Reserve | Step::Take => {
                    let Some(rated) = &mut this.rated else {
                        break;
                    };
                    match rated.poll(this.step, this.bounds, now, cx) {
                        Poll::Ready(Ok(Turn::Now)) => break,
                        Poll::Ready(Ok(Turn::At(at))) => {
                            if let Step::Take = this.step {
                                // Whatever readiness was found is let go of while the call waits again.
                                this.service = this.service.clone();
                            }
                            this.step = Step::Sleep(at);
                            continue;
                        }
                        Poll::Ready(Err(no_slot)) => {
                            return this.end(Why::of(no_slot, now), now);
                        }
                        Poll::Pending => ends_at,
                    }
                }
                Step::Sleep(at) if at > this.bounds.until => {
                    return this.end(Why::TooFar(at.saturating_duration_since(now)), now);
                }
                Step::Sleep(at) if at > now => {
                    this.lent.give_back_until(request, at, now);
                    at
                }
                Step::Sleep(_) => {
                    this.step = Step::Ready;
                    continue;
                }
                Step::Ready => match this.lent.poll_again(request, now, cx) {
                    Poll::Pending => this.lent.ask_at().map_or(ends_at, |at| at.min(ends_at)),
                    Poll::Ready(()) => match this.service.poll_ready(cx) {
                        Poll::Ready(Ok(())) => {
                            this.step = Step::Take;
                            continue;
                        }
                        Poll::Ready(Err(error)) => {
                            this.step = Step::Ended;
                            this.give_up();
                            return Poll::Ready(Err(error.into()));
                        }
                        Poll::Pending => ends_at,
                    },
                },
            };
            if now >= ends_at {
                return this.end(Why::NotReady, now);
            }
            let sleep = match &mut this.sleep {
                Some(sleep) => {
                    if sleep.deadline() != wake_at {
                        sleep.as_mut().reset(wake_at);
                    }
                    sleep
                }
                none => none.insert(Box::pin(sleep_until(wake_at))),
            };
            ready!(sleep.as_mut().poll(cx));
            now = Instant::now();
        }
        this.step = Step::Ended;
        let Some(request) = this.request.take() else {
            return Poll::Pending;
        };
        depart(&request, &this.endpoint, now);
        if this.rated.is_some() && now > this.bounds.since {
            observe::rate_waited(&this.endpoint, now - this.bounds.since);
        }
        let hinted = this.rated.take().map(Rated::into_hinted);
        Poll::Ready(Ok((this.service.call(request), hinted)))
    }

    #[allow(clippy::type_complexity)]
    fn end(
        &mut self,
        why: Why,
        now: Instant,
    ) -> Poll<Result<(S::Future, Option<Hinted<T>>), BoxError>>
    where
        S: Service<Request<B>>,
    {
        self.step = Step::Ended;
        self.give_up();
        let settings = self.endpoint.settings();
        let quotas = settings.rate.as_ref();
        let waited = now.saturating_duration_since(self.bounds.since);
        let error = RateLimited::new(&self.endpoint, quotas, waited, why);
        Poll::Ready(Err(error.into()))
    }

    fn give_up(&mut self) {
        self.rated = None;
        self.lent = Lent::default();
    }
}

impl<T: RateStore> Rated<T> {
    fn poll(
        &mut self,
        step: Step,
        bounds: Bounds,
        now: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Turn, load_control::NoSlot>> {
        let Some(quotas) = &self.hinted.settings.rate else {
            return Poll::Ready(Ok(Turn::Now));
        };
        let ask = Ask {
            key: self.hinted.key,
            quotas,
            weights: self.weight.as_slice(),
            now,
            deadline: bounds.until,
            goes_at_once: false,
        };
        let store = &self.hinted.options.store;
        match step {
            Step::Reserve => store.poll_reserve(&ask, &mut self.slot, cx),
            // The slot was taken by then, against its wish.
            _ if self.slot.is_none() => Poll::Ready(Ok(Turn::Now)),
            _ => store.poll_take(&ask, &mut self.slot, cx).map(Ok),
        }
    }

    fn into_hinted(self) -> Hinted<T> {
        Hinted {
            options: Arc::clone(&self.hinted.options),
            endpoint: Arc::clone(&self.hinted.endpoint),
            settings: Arc::clone(&self.hinted.settings),
            ..self.hinted
        }
    }
}

impl<T: RateStore> Drop for Rated<T> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take()
            && let Some(quotas) = &self.hinted.settings.rate
        {
            self.hinted.options.store.cancel(slot, quotas);
        }
    }
}

/// The call goes out now: its budget runs, and what learns from its answer counts from here.
#[inline]
pub(super) fn depart<B>(request: &Request<B>, endpoint: &Arc<Endpoint>, now: Instant) {
    if let Some(context) = call::Context::of(request.extensions()) {
        context.start(now, endpoint);
        if let Some(permit) = context.permit().as_mut() {
            permit.begin(now);
        }
    }
}

/// How long a wait whose clocks stand still may end too late.
const LONGEST_LOOK: Duration = Duration::from_secs(60);
/// Thirty years: an instant that far away can be told on every platform.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
