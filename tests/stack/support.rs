//! A stack over hyper-util's client, with small numbers: sockets run on real time.

use std::time::Duration;

use bytes::Bytes;
use flaky_ogc::{Script, Server, Tile};
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer, util::BoxCloneSyncService};
use tower_spatial::{
    ConcurrencyLimitLayer,
    exception::{InspectedBody, ServiceExceptionLayer},
    limit::concurrency::ResponseBody,
    replay::ReplayBody,
    retry::RetryPolicy,
};

pub(crate) type RequestBody = ReplayBody<Full<Bytes>>;
pub(crate) type AnswerBody = ResponseBody<InspectedBody<Incoming>>;
pub(crate) type Stack = BoxCloneSyncService<Request<RequestBody>, Response<AnswerBody>, BoxError>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Version {
    Http1,
    Http2,
}

pub(crate) fn client(version: Version) -> Client<HttpConnector, RequestBody> {
    Client::builder(TokioExecutor::new())
        .http2_only(version == Version::Http2)
        .build_http()
}

/// Delays of at most 10 ms, attempts of at most `timeout`.
pub(crate) fn stack(version: Version, attempts: u32, timeout: Duration) -> Stack {
    let policy = RetryPolicy::builder()
        .base(Duration::from_millis(1))
        .cap(Duration::from_millis(10))
        .budget(Duration::from_secs(60))
        .attempts(attempts)
        .build()
        .unwrap();
    BoxCloneSyncService::new(
        ServiceBuilder::new()
            .layer(RetryLayer::new(policy))
            .layer(ConcurrencyLimitLayer::per_host(16))
            .timeout(timeout)
            .layer(ServiceExceptionLayer::new())
            .map_err(BoxError::from)
            .service(client(version)),
    )
}

pub(crate) async fn start(script: Script) -> Server {
    Server::start(script).await.unwrap()
}

pub(crate) fn tile() -> Tile {
    Tile::xyz(4, 3, 2)
}

pub(crate) fn get(url: String) -> Request<RequestBody> {
    Request::get(url).body(ReplayBody::empty()).unwrap()
}

pub(crate) fn get_map(server: &Server) -> Request<RequestBody> {
    get(format!("{}/wms?{}", server.url(), tile().query()))
}

pub(crate) async fn bytes<B>(response: Response<B>) -> Result<Bytes, BoxError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    Ok(response
        .into_body()
        .collect()
        .await
        .map_err(Into::into)?
        .to_bytes())
}

pub(crate) async fn ask(stack: &Stack, request: Request<RequestBody>) -> Result<Bytes, BoxError> {
    bytes(stack.clone().oneshot(request).await?).await
}
