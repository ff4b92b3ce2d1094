use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use http::{Method, Request, Response};
use http_body::Body;
use tower::BoxError;
use tower_service::Service;

use super::future::{Admission, ResponseFuture, admit};
use super::layer::Options;
use super::{PermitScope, ResponseBody};
use crate::call::Permit;

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

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let options = &*self.options;
        // An answer to HEAD has no body, whatever its Content-Length says.
        let until_body_ends =
            options.permit_scope == PermitScope::Body && request.method() != Method::HEAD;
        let mut inner = self.inner.clone();
        let admission = match Permit::try_acquire(options.endpoints.find(request.uri())) {
            Err(endpoint) => Admission::queue(endpoint, inner, request, options),
            // Most services are ready at once. One that is not is asked again in the future, by its task.
            Ok(permit) => match inner.poll_ready(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => Admission::ready(permit, inner, request, options),
                Poll::Ready(Err(error)) => return ResponseFuture::refused(error.into()),
                Poll::Ready(Ok(())) => {
                    return match admit(request.extensions(), permit.endpoint(), None) {
                        Ok(()) => {
                            ResponseFuture::called(permit, inner.call(request), until_body_ends)
                        }
                        Err(late) => ResponseFuture::refused(late.into()),
                    };
                }
            },
        };
        ResponseFuture::admission(admission, until_body_ends)
    }
}
