use std::{
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body::Body;
use service_exception::{Asked, Operation, Protocol};
use tower::BoxError;
use tower_layer::Layer;
use tower_service::Service;

mod future;
mod known;
mod query;

pub use future::HitsProbeFuture;

use super::{CompletenessLayer, CompletenessService, QueryKey, counts::ByHits};
use crate::call;
use future::Probing;
use known::Known;
use query::Query;

/// Asks a WFS how many members a query has, before it asks for them: `resultType=hits` is cheap, and where a source is cut
/// short it is the only thing that shows it.
///
/// The question is a call of its own through the services below, so it waits for its own permit, and has given it back
/// before the query itself is sent. Its answer is remembered for ten minutes, for 10 000 queries, so that neither a retry nor
/// the next run asks again; an answer that does not agree makes it forget. Asked are GET requests for WFS 1.1 and 2.0
/// `GetFeature`; `count`, `maxFeatures` and `startIndex` are reckoned with. Where the server does not know the number, or
/// the question fails, nothing is expected. An answer that names a next page may have fewer members.
///
/// Made by [`CompletenessLayer::hits_probe`].
#[derive(Clone, Debug)]
pub struct HitsProbe<S> {
    inner: S,
    known: Arc<Known>,
}

/// Adds a [`HitsProbe`] above a [`CompletenessService`].
#[derive(Clone, Debug)]
pub struct HitsProbeLayer {
    completeness: CompletenessLayer,
}

impl HitsProbeLayer {
    pub(super) fn new(completeness: CompletenessLayer) -> Self {
        Self { completeness }
    }
}

impl<S> Layer<S> for HitsProbeLayer {
    type Service = HitsProbe<CompletenessService<S>>;

    fn layer(&self, inner: S) -> Self::Service {
        HitsProbe {
            inner: self.completeness.layer(inner),
            known: Arc::default(),
        }
    }
}

impl<S, B, R> Service<Request<B>> for HitsProbe<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = BoxError> + Clone,
    B: Clone,
    R: Body<Data = Bytes> + Unpin,
{
    type Response = Response<R>;
    type Error = BoxError;
    type Future = HitsProbeFuture<S, B, R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Some(query) = query_of(&request) else {
            return HitsProbeFuture::asking(self.inner.call(request), None);
        };
        let key = QueryKey::new(request.method(), &query.hits);
        if let Some(matched) = self.known.get(key) {
            request.extensions_mut().insert(ByHits(query.page(matched)));
            let known = Some((Arc::clone(&self.known), key));
            return HitsProbeFuture::asking(self.inner.call(request), known);
        }
        // Makes sure that both calls share what the call carries.
        call::Context::of_or_insert(request.extensions_mut());
        let hits = hits_request(&request, &query);
        let asked = Asked::new(hits.method(), hits.uri(), hits.headers());
        // The service that is ready is used for the question, and made ready again for the query.
        let other = self.inner.clone();
        let mut service = std::mem::replace(&mut self.inner, other);
        let first = service.call(hits);
        HitsProbeFuture::probing(
            first,
            Probing {
                service,
                request: Some(request),
                query,
                key,
                known: Arc::clone(&self.known),
                asked,
            },
        )
    }
}

fn query_of<B>(request: &Request<B>) -> Option<Query> {
    if *request.method() != Method::GET {
        return None;
    }
    let read;
    let operation = match request.extensions().get::<Operation>() {
        Some(operation) => operation,
        None => {
            read = Operation::of(request.method(), request.uri(), request.headers(), None);
            &read
        }
    };
    if operation.protocol() != Protocol::Wfs || operation.name() != "GetFeature" {
        return None;
    }
    Query::read(request.uri())
}

fn hits_request<B: Clone>(request: &Request<B>, query: &Query) -> Request<B> {
    let mut hits = Request::new(request.body().clone());
    *hits.uri_mut() = query.hits.clone();
    *hits.version_mut() = request.version();
    *hits.headers_mut() = request.headers().clone();
    // The number stands in a short XML document; nothing else is understood here.
    for header in [
        header::ACCEPT,
        header::ACCEPT_ENCODING,
        header::RANGE,
        header::IF_NONE_MATCH,
        header::IF_MODIFIED_SINCE,
    ] {
        hits.headers_mut().remove(header);
    }
    *hits.extensions_mut() = request.extensions().clone();
    hits.extensions_mut().remove::<Operation>();
    hits.extensions_mut().remove::<super::ExpectedCount>();
    hits
}
