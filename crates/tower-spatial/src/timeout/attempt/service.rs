use std::{
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use http_body::Body;
use tower::BoxError;
use tower_service::Service;

use super::{AttemptBody, ResponseFuture, layer::Options, limits::Watch};
use crate::call::{Deadline, Kind, TooLate};

/// See the [module](super).
#[derive(Clone, Debug)]
pub struct AttemptTimeoutService<S> {
    pub(super) inner: S,
    pub(super) options: Arc<Options>,
}

impl<S, B, R> Service<Request<B>> for AttemptTimeoutService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: Body,
{
    type Response = Response<AttemptBody<R>>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    #[inline(always)]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        let options = &*self.options;
        let endpoint = options
            .endpoints
            .find_for(request.uri(), request.extensions());
        let own = options.limits;
        let (mut limits, mut kind) = (own, None);
        if !options.off {
            limits = own.of(request.extensions());
        }
        if endpoint.heads().is_watching() && !options.fixed {
            let of = Kind::of(&request);
            limits = options.patient(&endpoint, &of, request.extensions());
            kind = Some(of);
        }
        let watch = Watch::new(limits, Deadline::of(request.extensions()));
        let inner = (!TooLate::is_it(request.extensions())).then(|| self.inner.call(request));
        ResponseFuture {
            inner,
            watch: Some(watch),
            endpoint,
            kind,
        }
    }
}
