use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use service_exception::{Asked, Dialects, Operation};
use tower::BoxError;
use tower_service::Service;

use super::{
    InspectedBody, ResponseFuture,
    inspection::is_answered_with_data,
    layer::{Becomes, Settings},
};
use crate::call::{self, TooLate};

/// See the [module](super).
#[derive(Clone, Debug)]
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

    #[inline(always)]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        if TooLate::is_it(request.extensions()) {
            return ResponseFuture::too_late(self.settings.clone());
        }
        let is_looked_at =
            is_answered_with_data(request.method()) && self.settings.becomes != Becomes::Nothing;
        let asked = is_looked_at.then(|| {
            let asked = Asked::new(request.method(), request.uri(), request.headers());
            match request.extensions().get::<Operation>() {
                Some(operation) => asked.with_operation(operation.clone()),
                None => asked,
            }
        });
        let mut settings = self.settings.clone();
        let of_request = request.extensions().get::<Dialects>();
        let of_endpoint = || {
            call::Context::settings_of(request.extensions())?
                .dialects
                .as_ref()
        };
        if let Some(dialects) = of_request.or_else(of_endpoint) {
            settings.dialects = dialects.clone();
        }
        // Written out: each function that a future goes through moves it.
        ResponseFuture {
            inner: Some(self.inner.call(request)),
            asked,
            settings,
            inspection: None,
        }
    }
}
