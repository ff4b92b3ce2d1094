//! The layers in other people's stacks: tower's timeouts, tower-http's, axum's body, boxes.

use std::time::Duration;

use axum::body::Body as AxumBody;
use bytes::Bytes;
use flaky_ogc::{Cut, Fault, Script};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tower::{
    BoxError, Layer, Service, ServiceBuilder, ServiceExt,
    retry::RetryLayer,
    timeout::error::Elapsed,
    util::{BoxCloneService, BoxCloneSyncService},
};
use tower_http::{map_response_body::MapResponseBodyLayer, timeout::ResponseBodyTimeoutLayer};
use tower_spatial::{
    ConcurrencyLimit, ConcurrencyLimitLayer, Deadline,
    call::Cause,
    exception::{ServiceExceptionLayer, ServiceExceptionService},
    find,
    replay::ReplayBody,
    retry::{GaveUp, RetryPolicy},
    timeout::deadline::{DeadlineLayer, DeadlineService},
};

use crate::support::*;

type Client = hyper_util::client::legacy::Client<
    hyper_util::client::legacy::connect::HttpConnector,
    RequestBody,
>;
type Named = DeadlineService<
    tower::retry::Retry<
        RetryPolicy,
        ConcurrencyLimit<
            tower::timeout::Timeout<
                ServiceExceptionService<
                    tower::util::MapErr<Client, fn(hyper_util::client::legacy::Error) -> BoxError>,
                >,
            >,
        >,
    >,
>;

fn named() -> Named {
    ServiceBuilder::new()
        .layer(DeadlineLayer::new())
        .layer(RetryLayer::new(RetryPolicy::default()))
        .layer(ConcurrencyLimitLayer::per_host(16))
        .timeout(Duration::from_secs(60))
        .layer(ServiceExceptionLayer::new())
        .map_err(BoxError::from as fn(_) -> _)
        .service(client(Version::Http1))
}

#[tokio::test]
async fn the_stack_can_be_named_shared_and_boxed() {
    fn shared<S: Clone + Send + Sync + 'static>(service: S) -> S {
        service
    }
    let server = start(Script::default().first([Fault::status(503)])).await;
    let stack = shared(named());
    let _: BoxCloneSyncService<_, _, _> = BoxCloneSyncService::new(stack.clone());
    let response = BoxCloneService::new(stack)
        .oneshot(get_map(&server))
        .await
        .unwrap();
    assert_eq!(bytes(response).await.unwrap(), tile().png());
}

#[tokio::test]
async fn towers_timeout_inside_is_one_attempt_and_outside_the_whole() {
    let short = Duration::from_millis(60);
    let policy = || {
        RetryPolicy::builder()
            .base(Duration::from_millis(1))
            .cap(Duration::from_millis(2))
            .build()
            .unwrap()
    };
    let server = start(Script::default().first([Fault::stall(), Fault::stall()])).await;
    let inside = ServiceBuilder::new()
        .layer(RetryLayer::new(policy()))
        .layer(ConcurrencyLimitLayer::per_host(16))
        .timeout(short)
        .layer(ServiceExceptionLayer::new())
        .service(client(Version::Http1));
    assert_eq!(
        bytes(inside.oneshot(get_map(&server)).await.unwrap())
            .await
            .unwrap(),
        tile().png()
    );
    assert_eq!(server.counts().requests, 3);

    let server = start(Script::default().when(|_| true, Fault::status(503))).await;
    let outside = ServiceBuilder::new()
        .timeout(short)
        .layer(RetryLayer::new(policy()))
        .map_err(BoxError::from)
        .service(client(Version::Http1));
    let error = outside.oneshot(get_map(&server)).await.unwrap_err();
    // What was tried before is lost under a timeout that knows nothing of it.
    assert!(find::<Elapsed>(&error).is_some() && find::<GaveUp>(&error).is_none());
}

#[tokio::test]
async fn a_deadline_keeps_what_an_outer_timeout_loses() {
    let server = start(Script::default().first([Fault::status(502), Fault::stall()])).await;
    let mut request = get_map(&server);
    request
        .extensions_mut()
        .insert(Deadline::after(Duration::from_millis(150)));
    let policy = RetryPolicy::builder()
        .base(Duration::from_millis(1))
        .build()
        .unwrap();
    let stack = ServiceBuilder::new()
        .layer(DeadlineLayer::new())
        .layer(RetryLayer::new(policy))
        .map_err(BoxError::from)
        .service(client(Version::Http1));
    let error = stack.oneshot(request).await.unwrap_err();
    let attempts = find::<GaveUp>(&error).unwrap().attempts().to_vec();
    assert_eq!(
        attempts[0].cause(),
        &Cause::Status(http::StatusCode::BAD_GATEWAY)
    );
}

/// Collects each body inside the retry, as a downloader does.
#[derive(Clone)]
struct Collect<S>(S);

impl<S, B, R> Service<Request<B>> for Collect<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = BoxError>,
    S::Future: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), BoxError>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move {
            let (parts, body) = answer.await?.into_parts();
            let whole = body.collect().await.map_err(Into::into)?.to_bytes();
            Ok(Response::from_parts(parts, Full::new(whole)))
        })
    }
}

#[tokio::test]
async fn tower_https_body_timeout_composes_and_a_stall_in_a_body_is_repeated() {
    for how in [Cut::Stall, Cut::Close, Cut::Reset] {
        let server = start(Script::default().first([Fault::delivery().cut_after(150, how)])).await;
        let stack = ServiceBuilder::new()
            .layer(RetryLayer::new(
                RetryPolicy::builder()
                    .base(Duration::from_millis(1))
                    .build()
                    .unwrap(),
            ))
            .layer_fn(Collect)
            .layer(ConcurrencyLimitLayer::per_host(16))
            .layer(ServiceExceptionLayer::new())
            // Its body is not Unpin.
            .layer(MapResponseBodyLayer::new(Box::pin))
            .layer(ResponseBodyTimeoutLayer::new(Duration::from_millis(50)))
            .service(client(Version::Http1));
        assert_eq!(
            bytes(stack.oneshot(get_map(&server)).await.unwrap())
                .await
                .unwrap(),
            tile().png(),
            "{how:?}"
        );
        assert_eq!(server.counts().requests, 2, "{how:?}");
    }
}

#[tokio::test]
async fn axums_body_as_request_body_composes_and_repeats_where_it_is_whole() {
    let get_feature = "<wfs:GetFeature service='WFS' version='2.0.0' xmlns:wfs='http://www.opengis.net/wfs/2.0'><wfs:Query typeNames='places'/></wfs:GetFeature>";
    let server = start(Script::default().first([Fault::status(503)])).await;
    let connector =
        hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new());
    let stack = ServiceBuilder::new()
        .map_request(|request: Request<AxumBody>| request.map(ReplayBody::new))
        .layer(RetryLayer::new(
            RetryPolicy::builder()
                .base(Duration::from_millis(1))
                .build()
                .unwrap(),
        ))
        .layer(ConcurrencyLimitLayer::per_host(16))
        .layer(ServiceExceptionLayer::new())
        .service(connector.build_http::<ReplayBody<AxumBody>>());
    let request = Request::post(format!("{}/wfs", server.url())).header("content-type", "text/xml");
    let response = stack
        .oneshot(request.body(AxumBody::from(get_feature)).unwrap())
        .await
        .unwrap();
    let body = bytes(response).await.unwrap();
    assert!(body.starts_with(b"<"), "{body:?}");
    assert_eq!(server.counts().requests, 2);
}

#[tokio::test]
async fn the_policy_works_through_the_builders_own_retry_method() {
    let server = start(Script::default().first([Fault::status(503)])).await;
    let policy = RetryPolicy::builder()
        .base(Duration::from_millis(1))
        .build()
        .unwrap();
    let stack = ServiceBuilder::new()
        .retry(policy)
        .map_err(BoxError::from)
        .service(client(Version::Http1));
    assert_eq!(
        bytes(stack.oneshot(get_map(&server)).await.unwrap())
            .await
            .unwrap(),
        tile().png()
    );
    let layered = RetryLayer::new(RetryPolicy::batch()).layer(tower::util::MapErr::new(
        client(Version::Http1),
        BoxError::from,
    ));
    assert_eq!(
        bytes(layered.oneshot(get_map(&server)).await.unwrap())
            .await
            .unwrap(),
        tile().png()
    );
}
