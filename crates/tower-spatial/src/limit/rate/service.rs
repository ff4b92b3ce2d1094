use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use tokio::time::Instant;
use tower::BoxError;
use tower_service::Service;

use super::error::Why;
use super::future::{Bounds, ResponseFuture, Waiting, depart};
use super::hint::Hinted;
use super::layer::Options;
use super::{Ask, MemoryStore, RateLimited, RateStore, RequestHead, Turn, Weight};
use crate::call::{TooLate, latest_start};

/// Keeps the published rate of each endpoint and key; see the [module](super). Made by
/// [`RateLimitLayer`](super::RateLimitLayer). Clones count together.
pub struct RateLimit<S, T = MemoryStore> {
    inner: S,
    options: Arc<Options<T>>,
}

impl<S, T> RateLimit<S, T> {
    pub(super) fn new(inner: S, options: Arc<Options<T>>) -> Self {
        Self { inner, options }
    }
}

impl<S, T, B, R> Service<Request<B>> for RateLimit<S, T>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    T: RateStore,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = ResponseFuture<S, B, T>;

    /// Always ready: what is waited for is waited for in the call, and no readiness below is held meanwhile.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let options = &*self.options;
        let endpoint = options
            .endpoints
            .find_for(request.uri(), request.extensions());
        let settings = endpoint.settings();
        // Most services are ready at once. One that is not is asked again in the future, by its task.
        let mut noop = Context::from_waker(Waker::noop());
        let is_ready = match self.inner.poll_ready(&mut noop) {
            Poll::Ready(Ok(())) => true,
            Poll::Ready(Err(error)) => return ResponseFuture::refused(error.into()),
            Poll::Pending => false,
        };
        let Some(quotas) = settings.rate.as_ref().filter(|_| !options.off) else {
            if is_ready {
                return ResponseFuture::called(self.inner.call(request), None);
            }
            let now = Instant::now();
            let bounds = Bounds::of(&request, &settings, options.queue_timeout, now);
            return self.wait(request, |fresh, request| {
                Waiting::without_rate(fresh, request, endpoint, bounds)
            });
        };
        let head = RequestHead::of(&request);
        let (key, is_keyed) = {
            let secret = settings.key.as_ref().unwrap_or(&options.key).read(head);
            let key = options.store.key(endpoint.name(), secret.as_deref());
            (key, secret.is_some())
        };
        let weight = match request.extensions().get::<Weight>() {
            Some(weight) => *weight,
            None => options
                .weight
                .as_ref()
                .map_or_else(Weight::default, |of| of(&head)),
        };
        let now = Instant::now();
        let bounds = Bounds::of(&request, &settings, options.queue_timeout, now);
        if !request.extensions().is_empty()
            && latest_start(request.extensions(), now).is_some_and(|latest| latest < now)
        {
            return ResponseFuture::refused(TooLate::error());
        }
        let ask = Ask {
            key,
            quotas,
            weights: weight.as_slice(),
            now,
            deadline: bounds.until,
            goes_at_once: is_ready,
        };
        let mut slot = None;
        let reserved = options.store.poll_reserve(&ask, &mut slot, &mut noop);
        let turn = match reserved {
            Poll::Ready(Ok(Turn::Now)) if is_ready => {
                depart(&request, &endpoint, now);
                let hinted = Hinted {
                    options: Arc::clone(&self.options),
                    endpoint,
                    settings,
                    key,
                    is_keyed,
                };
                return ResponseFuture::called(self.inner.call(request), Some(hinted));
            }
            Poll::Ready(Err(no_slot)) => {
                let why = Why::of(no_slot, now);
                let error = RateLimited::new(&endpoint, Some(quotas), Default::default(), why);
                return ResponseFuture::refused(error.into());
            }
            Poll::Ready(Ok(turn)) => Some(turn),
            Poll::Pending => None,
        };
        let hinted = Hinted {
            options: Arc::clone(&self.options),
            endpoint,
            settings,
            key,
            is_keyed,
        };
        self.wait(request, |fresh, request| {
            Waiting::new(fresh, request, hinted, weight, bounds, slot, turn)
        })
    }
}

impl<S, T> RateLimit<S, T> {
    /// A fresh clone waits, and another one stays: readiness that was found is let go of.
    #[cold]
    fn wait<B>(
        &mut self,
        request: Request<B>,
        waiting: impl FnOnce(S, Request<B>) -> Waiting<S, B, T>,
    ) -> ResponseFuture<S, B, T>
    where
        S: Service<Request<B>> + Clone,
        T: RateStore,
    {
        let fresh = self.inner.clone();
        let asked = mem::replace(&mut self.inner, fresh);
        drop(asked);
        ResponseFuture::waiting(waiting(self.inner.clone(), request))
    }
}

impl<S: Clone, T> Clone for RateLimit<S, T> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            options: Arc::clone(&self.options),
        }
    }
}

impl<S: fmt::Debug, T> fmt::Debug for RateLimit<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("inner", &self.inner)
            .field("options", &self.options)
            .finish()
    }
}
