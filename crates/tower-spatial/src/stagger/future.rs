use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tokio::time::{Duration, Instant, Sleep, sleep_until};
use tower::BoxError;
use tower_service::Service;

use crate::call::{TooLate, latest_start};

pin_project! {
    /// Waits for its share of the window, then calls.
    pub struct ResponseFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B>
    where
        S: Service<Request<B>>,
    {
        Called { #[pin] call: S::Future },
        // Boxed: it holds request, service and timer, and no call waits after the window.
        Delayed { delayed: Pin<Box<Delayed<S, B>>> },
    }
}

impl<S, B> ResponseFuture<S, B>
where
    S: Service<Request<B>>,
{
    #[inline]
    pub(super) fn called(call: S::Future) -> Self {
        let state = State::Called { call };
        Self { state }
    }

    pub(super) fn delayed(delayed: Delayed<S, B>) -> Self {
        let state = State::Delayed {
            delayed: Box::pin(delayed),
        };
        Self { state }
    }
}

impl<S, B, R> Future for ResponseFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
{
    type Output = Result<Response<R>, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let call = match this.state.as_mut().project() {
                StateProjection::Called { call } => return call.poll(cx).map_err(Into::into),
                StateProjection::Delayed { delayed } => ready!(delayed.as_mut().poll(cx))?,
            };
            this.state.set(State::Called { call });
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
    /// A call that waits for its time, then until the service below is ready.
    pub(super) struct Delayed<S, B> {
        service: S,
        request: Option<Request<B>>,
        is_time: bool,
        // When the wait for the service below ends.
        until: Instant,
        #[pin]
        sleep: Sleep,
    }
}

impl<S, B> Delayed<S, B> {
    pub(super) fn new(service: S, request: Request<B>, now: Instant, wait: Duration) -> Self {
        let at = now + wait;
        let until = at + LONGEST_UNREADY;
        Self {
            until: latest_start(request.extensions(), now)
                .map_or(until, |latest| latest.min(until)),
            service,
            request: Some(request),
            is_time: false,
            sleep: sleep_until(at),
        }
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<S::Future, BoxError>>
    where
        S: Service<Request<B>>,
        S::Error: Into<BoxError>,
    {
        let mut this = self.project();
        if !*this.is_time {
            ready!(this.sleep.as_mut().poll(cx));
            *this.is_time = true;
            this.sleep.as_mut().reset(*this.until);
        }
        let Some(request) = this.request.take() else {
            return Poll::Pending; // Polled again after it has ended, which nobody may do.
        };
        // Asked first: where both have come about, the deadline counts.
        if TooLate::is_it(request.extensions()) {
            return Poll::Ready(Err(TooLate::error()));
        }
        match this.service.poll_ready(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(this.service.call(request))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Pending => {
                if this.sleep.poll(cx).is_ready() {
                    return Poll::Ready(Err(TooLate::error()));
                }
                *this.request = Some(request);
                Poll::Pending
            }
        }
    }
}

/// The default of `queue_timeout`.
const LONGEST_UNREADY: Duration = Duration::from_secs(600);
