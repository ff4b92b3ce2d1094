use std::mem;
use std::task::{Context, Poll};

use http::{Request, Response};
use rand::RngExt;
use tokio::time::{Duration, Instant};
use tower::BoxError;
use tower_service::Service;

use super::ResponseFuture;
use super::future::Delayed;
use crate::call::latest_start;

/// Spreads the calls that come soon after a start; see the [module](super). Made by
/// [`StaggerLayer`](super::StaggerLayer).
#[derive(Clone, Debug)]
pub struct Stagger<S> {
    inner: S,
    /// `None` once the window was seen to be over: from then on no clock is read.
    end: Option<Instant>,
}

impl<S> Stagger<S> {
    pub(super) fn new(inner: S, end: Option<Instant>) -> Self {
        Self { inner, end }
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
        if let Some(end) = self.end {
            if Instant::now() < end {
                return Poll::Ready(Ok(()));
            }
            self.end = None;
        }
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.end {
            None => ResponseFuture::called(self.inner.call(request)),
            // The service below was not asked whether it is ready, also where the window has ended since.
            Some(end) => {
                let now = Instant::now();
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
