use std::{
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderValue, Method, Request, Response, header::CACHE_CONTROL};
use http_body::Body;
use rand::RngExt;
use tower::BoxError;
use tower_service::Service;

use super::{ExpectedModified, Parameter, ResponseFuture, layer::Options, sign::Expected};
use crate::call::{self, Cause};

/// See the [module](super).
#[derive(Clone, Debug)]
pub struct FreshnessService<S> {
    pub(super) inner: S,
    pub(super) options: Arc<Options>,
}

impl<S, B, R> Service<Request<B>> for FreshnessService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: Body + Unpin,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let options = &*self.options;
        // Nothing else is kept by caches (RFC 9110 section 9.2.3).
        let is_judged = !options.off && matches!(*request.method(), Method::GET | Method::HEAD);
        let expected = is_judged.then(|| {
            let endpoint = options
                .endpoints
                .as_ref()
                .map(|all| all.find_for(request.uri(), request.extensions()));
            let settings = endpoint.map(|endpoint| endpoint.settings());
            let settings = settings.as_deref();
            let by_endpoint = settings.map(|settings| settings.fresh).unwrap_or_default();
            let by_request = Expected {
                max_age: None,
                not_before: request.extensions().get().map(|ExpectedModified(at)| *at),
            };
            let busting = settings.and_then(|settings| settings.cache_busting.as_ref());
            let busting = busting.or(options.cache_busting.as_ref());
            ask_the_origin(&mut request, busting);
            by_request.or(by_endpoint).or(options.expected)
        });
        ResponseFuture {
            inner: self.inner.call(request),
            expected,
            annotate: options.annotate,
            draining: None,
        }
    }
}

/// Where an attempt of this call got a stale answer, this one passes the caches by.
fn ask_the_origin<B>(request: &mut Request<B>, busting: Option<&Parameter>) {
    let Some(context) = call::Context::of(request.extensions()) else {
        return;
    };
    if context.failures() == 0 {
        return;
    }
    let mut causes = context.attempts().into_iter().map(|attempt| attempt.cause);
    if !causes.any(|cause| cause == Cause::Stale) {
        return;
    }
    if let Some(busting) = busting
        && let Some(uri) = busting.added_to(request.uri(), request.headers(), rand::rng().random())
        && context.is_first_busting()
    {
        *request.uri_mut() = uri;
    }
    let no_cache = HeaderValue::from_static("no-cache");
    request.headers_mut().append(CACHE_CONTROL, no_cache);
}
