//! Our layers over hyper-util's client, with small delays: sockets run on real time.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri, header::ACCEPT_ENCODING};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::{client::legacy, rt::TokioExecutor};
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer, util::BoxCloneSyncService};
use tower_spatial::{
    ConcurrencyLimitLayer,
    exception::{InspectedBody, ServiceExceptionLayer},
    limit::concurrency::ResponseBody,
    retry::{RetryPolicy, RetryPolicyBuilder},
};

#[derive(Clone)]
pub(crate) struct Client {
    stack: BoxCloneSyncService<Request<Empty<Bytes>>, Answer, BoxError>,
}

pub(crate) type Answer = Response<ResponseBody<InspectedBody<Incoming>>>;

impl Client {
    pub(crate) fn new() -> Self {
        Self::with(patient())
    }

    pub(crate) fn with(policy: RetryPolicyBuilder) -> Self {
        // hyper-util's own retry is off: every request in the server's log is one of ours.
        let client = legacy::Client::builder(TokioExecutor::new())
            .retry_canceled_requests(false)
            .build_http();
        let stack = ServiceBuilder::new()
            .layer(RetryLayer::new(policy.build().unwrap()))
            .layer(ConcurrencyLimitLayer::per_host(4))
            .timeout(Duration::from_secs(20))
            .layer(ServiceExceptionLayer::new())
            .map_err(BoxError::from)
            .service(client);
        Self {
            stack: BoxCloneSyncService::new(stack),
        }
    }

    pub(crate) async fn get(&self, uri: &Uri) -> Result<Answer, BoxError> {
        self.send(Request::get(uri)).await
    }

    pub(crate) async fn get_compressed(&self, uri: &Uri) -> Result<Answer, BoxError> {
        self.send(Request::get(uri).header(ACCEPT_ENCODING, "gzip"))
            .await
    }

    async fn send(&self, request: http::request::Builder) -> Result<Answer, BoxError> {
        let request = request.body(Empty::new())?;
        self.stack.clone().oneshot(request).await
    }
}

/// Sleeps of at most 50 ms, for as long as a server on a busy machine may take to start.
pub(crate) fn patient() -> RetryPolicyBuilder {
    RetryPolicy::builder()
        .base(Duration::from_millis(10))
        .cap(Duration::from_millis(50))
        .budget(Duration::from_secs(30))
}

pub(crate) async fn read(answer: Answer) -> Result<Bytes, BoxError> {
    Ok(answer.into_body().collect().await?.to_bytes())
}

/// Begins and ends as a PNG does (PNG specification, sections 5.2 and 11.2.4).
pub(crate) fn is_whole_png(image: &[u8]) -> bool {
    image.starts_with(b"\x89PNG\r\n\x1a\n") && image.ends_with(b"\0\0\0\0IEND\xae\x42\x60\x82")
}
