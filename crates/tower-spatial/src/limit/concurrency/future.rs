use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Extensions, Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::{Duration, Instant, Sleep, sleep_until};
use tower::BoxError;
use tower_service::Service;

use super::QueueTimeout;
use super::body::{ResponseBody, hand_over};
use super::layer::Options;
use crate::call::{self, Endpoint, Permit, Queued, latest_start};

pin_project! {
    /// Waits for a permit, calls, and hands the permit to the body.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        pub(super) state: State<S, B>,
        pub(super) until_body_ends: bool,
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
            permit: Option<Permit>,
        },
        // Boxed: it holds request and service, and most calls never wait.
        Admission { admission: Pin<Box<Admission<S, B>>> },
        Refused { error: Option<BoxError> },
    }
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(super) fn admission(admission: Admission<S, B>, until_body_ends: bool) -> Self {
        Self {
            state: State::Admission {
                admission: Box::pin(admission),
            },
            until_body_ends,
        }
    }

    pub(super) fn refused(error: BoxError) -> Self {
        Self {
            state: State::Refused { error: Some(error) },
            until_body_ends: false,
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
            let (permit, call) = match this.state.as_mut().project() {
                StateProjection::Called { permit, call } => {
                    let polled = call.poll(cx);
                    if polled.is_pending() {
                        return Poll::Pending;
                    }
                    // Taken on every path: a future that is kept after it has ended holds no permit.
                    let mut permit = permit.take();
                    return match polled {
                        Poll::Ready(Ok(response)) => {
                            if !*this.until_body_ends {
                                permit = None;
                            }
                            let permit = hand_over(permit, response.body());
                            Poll::Ready(Ok(response.map(|inner| ResponseBody { inner, permit })))
                        }
                        Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
                        Poll::Pending => Poll::Pending,
                    };
                }
                StateProjection::Admission { admission } => ready!(admission.as_mut().poll(cx))?,
                StateProjection::Refused { error } => {
                    return match error.take() {
                        Some(error) => Poll::Ready(Err(error)),
                        // Polled again after it has ended, which nobody may do.
                        None => Poll::Pending,
                    };
                }
            };
            this.state.set(State::Called {
                permit: Some(permit),
                call,
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
        service: S,
        request: Option<Request<B>>,
        queue_timeout: Duration,
        // A quarter of the reader's patience.
        quarter: Duration,
        entered: Option<Entered>,
        #[pin]
        sleep: Option<Sleep>,
    }
}

enum Step {
    Enter,
    Queued(Queued),
    Admitted(Permit),
    Ended,
}

#[derive(Clone, Copy)]
struct Entered {
    at: Instant,
    /// When waiting ends.
    until: Instant,
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
            step: Step::Enter,
            endpoint,
            service,
            request: Some(request),
            entered: None,
            sleep: None,
        }
    }

    /// There was, but `service` is not ready.
    pub(super) fn ready(
        permit: Permit,
        service: S,
        request: Request<B>,
        options: &Options,
    ) -> Self {
        let endpoint = Arc::clone(permit.endpoint());
        Self {
            step: Step::Admitted(permit),
            ..Self::queue(endpoint, service, request, options)
        }
    }

    fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(Permit, S::Future), BoxError>>
    where
        S: Service<Request<B>>,
        S::Error: Into<BoxError>,
    {
        let mut this = self.project();
        let Some(request) = this.request.as_ref() else {
            return Poll::Pending;
        };
        // The time, where this poll knows it: at the first one, and when the timer has fired.
        let mut now = None;
        let entered = *this.entered.get_or_insert_with(|| {
            let at = Instant::now();
            now = Some(at);
            let until = at + (*this.queue_timeout).min(FAR);
            let latest = latest_start(request.extensions());
            Entered {
                at,
                until: latest.map_or(until, |latest| latest.min(until)),
            }
        });
        loop {
            match this.step {
                Step::Enter => {
                    *this.step = match Queued::enter(Arc::clone(this.endpoint), cx.waker()) {
                        Ok(queued) => Step::Queued(queued),
                        Err(permit) => Step::Admitted(permit),
                    };
                    continue;
                }
                Step::Queued(queued) => {
                    if let Some(now) = now {
                        queued.sweep(now, *this.quarter);
                    }
                    if let Poll::Ready(permit) = queued.poll(cx.waker()) {
                        *this.step = Step::Admitted(permit);
                        continue;
                    }
                }
                Step::Admitted(_) => match this.service.poll_ready(cx) {
                    Poll::Ready(Ok(())) => break,
                    Poll::Ready(Err(error)) => {
                        *this.step = Step::Ended;
                        return Poll::Ready(Err(error.into()));
                    }
                    Poll::Pending => {}
                },
                Step::Ended => return Poll::Pending,
            }
            if let Some(now) = now {
                if now >= entered.until {
                    let admitted = matches!(this.step, Step::Admitted(_));
                    let error = QueueTimeout::new(this.endpoint, now - entered.at, admitted);
                    *this.step = Step::Ended;
                    return Poll::Ready(Err(error.into()));
                }
                let wake_at = entered.until.min(now + *this.quarter);
                match this.sleep.as_mut().as_pin_mut() {
                    None => this.sleep.set(Some(sleep_until(wake_at))),
                    Some(sleep) => sleep.reset(wake_at),
                }
            }
            if let Some(sleep) = this.sleep.as_mut().as_pin_mut() {
                ready!(sleep.poll(cx));
                now = Some(Instant::now());
            }
        }
        let request = this.request.take();
        let (Step::Admitted(permit), Some(request)) =
            (mem::replace(this.step, Step::Ended), request)
        else {
            return Poll::Pending;
        };
        admit(request.extensions(), permit.endpoint(), Some(entered.at))?;
        Poll::Ready(Ok((permit, this.service.call(request))))
    }
}

/// The last look at the clocks before the call; where the call has none, none is read.
///
/// # Errors
/// Where it is too late to start.
#[inline]
pub(super) fn admit(
    extensions: &Extensions,
    endpoint: &Endpoint,
    entered: Option<Instant>,
) -> Result<(), QueueTimeout> {
    if extensions.is_empty() {
        return Ok(());
    }
    let context = call::Context::of(extensions);
    let latest = latest_start(extensions);
    if context.is_none() && latest.is_none() {
        return Ok(());
    }
    let now = Instant::now();
    if latest.is_some_and(|latest| latest < now) {
        let waited = entered.map_or(Duration::ZERO, |entered| now - entered);
        return Err(QueueTimeout::new(endpoint, waited, true));
    }
    if let Some(context) = context {
        context.admit(now);
    }
    Ok(())
}

const SHORTEST_QUARTER: Duration = Duration::from_millis(1);
/// Thirty years: an instant that far away can be told on every platform.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
