use std::mem;
use std::task::{Context, Poll};

use http::{Request, Response};
use rand::RngExt;
use tokio::time::{Duration, Instant};
use tower::BoxError;
use tower_service::Service;

use super::ResponseFuture;
use super::future::Delayed;
use crate::call::{self, latest_start};

/// Spreads the calls that come soon after a start; see the [module](super). Made by
/// [`StaggerLayer`](super::StaggerLayer).
#[derive(Clone, Debug)]
pub struct Stagger<S> {
    inner: S,
    /// `None` once the window was seen to be over: from then on no clock is read.
    window: Option<Window>,
}

/// When starts are spread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    begin: Instant,
    /// For endpoints that do not say.
    length: Duration,
    /// The last end of all.
    end: Instant,
}

impl Window {
    /// What is farther away than a clock can tell is none.
    pub(super) fn beginning(begin: Instant, length: Duration) -> Self {
        let end = begin.checked_add(length);
        Self {
            begin,
            length: end.map_or(Duration::ZERO, |_| length),
            end: end.unwrap_or(begin),
        }
    }

    /// The same where some endpoints' are as long as that.
    pub(super) fn lasting(self, longest: Option<Duration>) -> Self {
        let end = self.begin.checked_add(longest.unwrap_or_default());
        Self {
            end: end.map_or(self.end, |end| end.max(self.end)),
            ..self
        }
    }

    pub(super) fn is_none(&self) -> bool {
        self.end == self.begin
    }

    /// When it ends for a request.
    fn end_for<B>(&self, request: &Request<B>) -> Instant {
        let settings = call::Context::settings_of(request.extensions());
        let length = settings.and_then(|settings| settings.stagger);
        let end = self.begin.checked_add(length.unwrap_or(self.length));
        end.unwrap_or(self.begin)
    }
}

impl<S> Stagger<S> {
    pub(super) fn new(inner: S, window: Option<Window>) -> Self {
        Self { inner, window }
    }
}

impl<S, B, R> Service<Request<B>> for Stagger<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = ResponseFuture<S, B>;

    /// Within the window always ready, after it as ready as the service below.
    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if let Some(window) = self.window {
            if Instant::now() < window.end {
                return Poll::Ready(Ok(()));
            }
            self.window = None;
        }
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.window {
            None => ResponseFuture::called(self.inner.call(request)),
            // The service below was not asked whether it is ready, also where the window has ended since.
            Some(window) => {
                let now = Instant::now();
                let end = window.end_for(&request);
                let latest = latest_start(request.extensions(), now);
                let wait = share(now, end, latest).mul_f64(rand::rng().random());
                let fresh = self.inner.clone();
                let service = mem::replace(&mut self.inner, fresh);
                ResponseFuture::delayed(Delayed::new(service, request, now, wait))
            }
        }
    }
}

/// The longest that a call may wait: for what is left of the window, but only half of what is left to its deadline.
fn share(now: Instant, end: Instant, latest: Option<Instant>) -> Duration {
    let left = end.saturating_duration_since(now);
    match latest {
        Some(latest) => left.min(latest.saturating_duration_since(now) / 2),
        None => left,
    }
}
