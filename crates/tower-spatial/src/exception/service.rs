use std::task::{Context, Poll};

use http::{Method, Request, Response};
use http_body::Body;
use service_exception::{Asked, Operation};
use tower::BoxError;
use tower_service::Service;

use super::{InspectedBody, ResponseFuture, layer::Settings};
use crate::call::TooLate;

/// See the [module](super).
#[derive(Clone, Copy, Debug)]
pub struct ServiceExceptionService<S> {
    pub(super) inner: S,
    pub(super) settings: Settings,
}

impl<S, B, R> Service<Request<B>> for ServiceExceptionService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: Body + Unpin,
    R::Error: Into<BoxError>,
{
    type Response = Response<InspectedBody<R>>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if TooLate::is_it(request.extensions()) {
            return ResponseFuture::too_late(self.settings);
        }
        // The answers to these have no body to look at.
        let asked =
            (request.method() != Method::HEAD && request.method() != Method::CONNECT).then(|| {
                let asked = Asked::new(request.method(), request.uri(), request.headers());
                match request.extensions().get::<Operation>() {
                    Some(operation) => asked.with_operation(operation.clone()),
                    None => asked,
                }
            });
        ResponseFuture::new(self.inner.call(request), asked, self.settings)
    }
}
