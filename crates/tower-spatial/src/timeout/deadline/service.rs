use std::{
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use http_body::Body;
use tokio::time::{Instant, sleep_until};
use tower::BoxError;
use tower_service::Service;

use super::{DeadlineBody, ResponseFuture};
use crate::call::{self, Deadline, Endpoints, Place};
use crate::observe::ToldCall;

/// See the [module](super).
#[derive(Clone, Debug)]
pub struct DeadlineService<S> {
    pub(super) inner: S,
    pub(super) default: Option<Duration>,
    pub(super) endpoints: Option<Endpoints>,
}

impl<S, B, R> Service<Request<B>> for DeadlineService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: Body,
{
    type Response = Response<DeadlineBody<R>>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let endpoints = self.endpoints.as_ref();
        let place = endpoints.map(|endpoints| Place::of(&request, endpoints));
        let extensions = request.extensions_mut();
        if let Some(default) = self.default
            && Deadline::is_open(extensions)
        {
            extensions.get_or_insert_default::<Deadline>().set(default);
        }
        let context = match place {
            Some(place) => call::Context::insert_for(place, extensions),
            None => call::Context::insert(extensions),
        };
        let told = ToldCall::begin(&context);
        // Boxed, and only where there is a deadline: a timer is larger than all the rest of the future.
        let timer = Deadline::of(extensions).map(|at| Box::pin(sleep_until(at)));
        // Law 1: where it has passed already, nothing is sent.
        let is_late = Deadline::of(extensions).is_some_and(|at| at <= Instant::now());
        let inner = (!is_late).then(|| {
            let _span = told.as_ref().map(|told| told.enter());
            self.inner.call(request)
        });
        ResponseFuture::new(inner, timer, context, told)
    }
}
