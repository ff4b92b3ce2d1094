use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{Method, Request, Response};
use http_body::Body;
use tower::BoxError;
use tower_service::Service;

use super::future::{Admission, ResponseFuture, State, admit};
use super::layer::Options;
use super::{PermitScope, ResponseBody};
use crate::call::{Endpoint, Permit};

/// Limits the answers in flight at each host; see the [module](super). Made by
/// [`ConcurrencyLimitLayer`](super::ConcurrencyLimitLayer). Clones share the limits.
#[derive(Clone, Debug)]
pub struct ConcurrencyLimit<S> {
    inner: S,
    options: Arc<Options>,
}

impl<S> ConcurrencyLimit<S> {
    pub(super) fn new(inner: S, options: Arc<Options>) -> Self {
        Self { inner, options }
    }
}

impl<S, B, R> Service<Request<B>> for ConcurrencyLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    R: Body,
{
    type Response = Response<ResponseBody<R>>;
    type Error = BoxError;
    type Future = ResponseFuture<S, B>;

    /// Always ready: what is waited for is waited for in the call, and no readiness below is held meanwhile.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    #[inline(always)]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let options = &*self.options;
        let permit = match Permit::try_acquire(options.endpoints.find(request.uri())) {
            Ok(permit) => permit,
            Err(endpoint) => return self.queue(endpoint, request),
        };
        let until_body_ends = self.until_body_ends(&request);
        if let Err(late) = admit(request.extensions(), permit.endpoint(), None) {
            return ResponseFuture::refused(late.into());
        }
        // Most services are ready at once. One that is not is asked again in the future, by its task.
        match self
            .inner
            .poll_ready(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return ResponseFuture::refused(error.into()),
            Poll::Pending => return self.wait_until_ready(permit, request),
        }
        // Written out: the future below is large, and each function that it went through would move it.
        ResponseFuture {
            state: State::Called {
                permit: Some(permit),
                call: self.inner.call(request),
            },
            until_body_ends,
        }
    }
}

impl<S> ConcurrencyLimit<S> {
    #[cold]
    fn queue<B>(&mut self, endpoint: Arc<Endpoint>, request: Request<B>) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
    {
        let until_body_ends = self.until_body_ends(&request);
        let admission = Admission::queue(endpoint, self.inner.clone(), request, &self.options);
        ResponseFuture::admission(admission, until_body_ends)
    }

    /// The service that was asked goes with the request, so that its readiness is this call's; a clone stays.
    #[cold]
    fn wait_until_ready<B>(&mut self, permit: Permit, request: Request<B>) -> ResponseFuture<S, B>
    where
        S: Service<Request<B>> + Clone,
    {
        let until_body_ends = self.until_body_ends(&request);
        let fresh = self.inner.clone();
        let asked = mem::replace(&mut self.inner, fresh);
        let admission = Admission::ready(permit, asked, request, &self.options);
        ResponseFuture::admission(admission, until_body_ends)
    }

    fn until_body_ends<B>(&self, request: &Request<B>) -> bool {
        // An answer to HEAD has no body, whatever its Content-Length says.
        self.options.permit_scope == PermitScope::Body && request.method() != Method::HEAD
    }
}
