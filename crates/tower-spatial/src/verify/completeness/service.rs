use std::{sync::Arc, task::Poll};

use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body::Body;
use service_exception::{Asked, Operation};
use tower::BoxError;
use tower_service::Service;

use super::{
    Check, CheckedBody, Completeness, ExpectedCount, QueryKey, ResponseFuture,
    check::{Before, Counts},
    counts::ByHits,
    layer::Options,
};
use crate::call::Context;
use crate::exception::{is_answered_with_data, is_endless};

/// See the [module](super).
#[derive(Clone, Debug)]
pub struct CompletenessService<S> {
    pub(super) inner: S,
    pub(super) options: Arc<Options>,
}

impl<S, B, R> Service<Request<B>> for CompletenessService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<BoxError>,
    R: Body + Unpin,
    R::Error: Into<BoxError>,
{
    type Response = Response<CheckedBody<R>>;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let options = &*self.options;
        let settings = Context::settings_of(request.extensions());
        let mode = settings.and_then(|settings| settings.completeness);
        let (is_off, collect) = match mode.unwrap_or(options.mode) {
            Completeness::Off => (true, None),
            Completeness::Collect => (false, Some(Arc::clone(&options.limits))),
            Completeness::Streaming => (false, None),
        };
        let question = match is_off {
            true => None,
            false => Question::of(&request, options).map(Box::new),
        };
        ResponseFuture::new(self.inner.call(request), question, collect)
    }
}

/// What was asked, as far as the check of the answer needs it.
pub(super) struct Question {
    asked: Asked,
    everything: bool,
    counts: Counts,
    /// The call, where somebody is told of it.
    context: Option<Arc<Context>>,
}

impl Question {
    /// `None` where the answer has no body or is not what the operation has to say, or is a connection of another kind.
    fn of<B>(request: &Request<B>, options: &Options) -> Option<Self> {
        let is_upgrade = request.headers().contains_key(header::UPGRADE);
        if !is_answered_with_data(request.method()) || is_upgrade {
            return None;
        }
        let (method, uri, extensions) = (request.method(), request.uri(), request.extensions());
        let asked = Asked::new(method, uri, request.headers());
        let asked = match extensions.get::<Operation>() {
            Some(operation) => asked.with_operation(operation.clone()),
            None => asked,
        };
        let before = options.memory.as_ref().filter(|_| *method == Method::GET);
        Some(Self {
            asked,
            everything: options.everything,
            context: Context::of(extensions)
                .filter(|context| context.observed().is_some())
                .cloned(),
            counts: Counts {
                expected: extensions.get::<ExpectedCount>().copied(),
                hits: extensions.get::<ByHits>().copied(),
                before: before.map(|memory| Before {
                    memory: Arc::clone(memory),
                    query: QueryKey::new(method, uri),
                    drop: options.drop,
                }),
            },
        })
    }

    /// The call, where somebody is told of it.
    pub(super) fn context(&mut self) -> Option<Arc<Context>> {
        self.context.take()
    }

    /// `None` where the answer is not one that is checked.
    pub(super) fn check(self, status: StatusCode, headers: &HeaderMap) -> Option<Check> {
        let has_body = !matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT);
        let is_worth = self.everything
            || self.counts.expected.is_some()
            || self.asked.operation().is_geospatial()
            || is_geospatial(headers);
        if !status.is_success() || !has_body || is_endless(headers) || !is_worth {
            return None;
        }
        Some(Check::new(&self.asked, status, headers).with_counts(self.counts))
    }
}

/// Whether the label is one that only geodata have.
fn is_geospatial(headers: &HeaderMap) -> bool {
    let label = headers.get(header::CONTENT_TYPE);
    let label = label.and_then(|label| label.to_str().ok());
    label.is_some_and(|label| {
        let label = label.to_ascii_lowercase();
        GEOSPATIAL.iter().any(|word| label.contains(word))
    })
}

/// Parts of media types of geodata.
const GEOSPATIAL: [&str; 18] = [
    "geo+json",
    "geojson",
    "gml",
    "kml",
    "gpx",
    "vnd.ogc",
    "osm3s",
    "vnd.google-earth",
    "image/tiff",
    "geotiff",
    "vector-tile",
    "geopackage",
    "flatgeobuf",
    "netcdf",
    "grib",
    "shapefile",
    "stac",
    "vnd.dxf",
];
