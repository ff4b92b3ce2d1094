//! tower's and tower-http's timeouts around and inside the retry: `cargo run -p examples --example tower_timeouts`.
//!
//! | where | what it bounds | what ends it |
//! |---|---|---|
//! | tower's `TimeoutLayer` inside the retry | one attempt, until its head | a repeat |
//! | tower's `TimeoutLayer` outside the retry | the whole call, sleeps included, until the head | the caller's error; what was tried is lost with it |
//! | tower-http's `ResponseBodyTimeoutLayer` | silence within a body | an error of the body, or a repeat where the body is collected inside the retry |

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use bytes::Bytes;
use flaky_ogc::{Cut, Fault, Kind, Script, Server, Tile};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use tower::timeout::error::Elapsed;
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_http::map_response_body::MapResponseBodyLayer;
use tower_http::timeout::ResponseBodyTimeoutLayer;
use tower_spatial::{
    ConcurrencyLimitLayer, exception::ServiceExceptionLayer, find, retry::RetryPolicy,
};

const ATTEMPT: Duration = Duration::from_millis(300);
const WHOLE: Duration = Duration::from_secs(1);
const SILENCE: Duration = Duration::from_millis(200);

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    inside_it_bounds_one_attempt().await?;
    outside_it_bounds_the_whole().await?;
    a_silent_body_is_an_error_of_the_body().await?;
    a_silent_body_is_repeated_where_it_is_collected_inside().await
}

async fn inside_it_bounds_one_attempt() -> Result<(), BoxError> {
    let server = Server::start(Script::default().first([Fault::stall()])).await?;
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy()?))
        .layer(ConcurrencyLimitLayer::per_host(16))
        .timeout(ATTEMPT)
        .layer(ServiceExceptionLayer::new())
        .map_err(BoxError::from)
        .service(http());
    let response = client.oneshot(get_map(&server)?).await?;
    assert!(response.into_body().collect().await?.to_bytes() == tile().png());
    assert_eq!(
        (
            server.counts().kind(Kind::Stalled),
            server.counts().requests
        ),
        (1, 2)
    );
    println!("inside: the first attempt hung, the second brought the tile");
    Ok(())
}

async fn outside_it_bounds_the_whole() -> Result<(), BoxError> {
    let server = Server::start(Script::default().when(|_| true, Fault::stall())).await?;
    let client = ServiceBuilder::new()
        .timeout(WHOLE)
        .layer(RetryLayer::new(policy()?))
        .layer(ConcurrencyLimitLayer::per_host(16))
        .timeout(ATTEMPT)
        .layer(ServiceExceptionLayer::new())
        .map_err(BoxError::from)
        .service(http());
    let Err(error) = client.oneshot(get_map(&server)?).await else {
        return Err("nothing was to come".into());
    };
    assert!(find::<Elapsed>(&error).is_some(), "{error}");
    let counts = server.until(|counts| counts.in_flight == 0).await;
    assert!(
        counts.requests >= 2,
        "an attempt ends before the whole does"
    );
    println!(
        "outside: after {} attempts the whole call was over: {error}",
        counts.requests
    );
    Ok(())
}

async fn a_silent_body_is_an_error_of_the_body() -> Result<(), BoxError> {
    let server =
        Server::start(Script::default().first([Fault::delivery().cut_after(100, Cut::Stall)]))
            .await?;
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy()?))
        // tower-http's timeout bodies are not `Unpin`, as all that inspects or holds a body needs: a box is.
        .layer(MapResponseBodyLayer::new(Box::pin))
        .layer(ResponseBodyTimeoutLayer::new(SILENCE))
        .layer(ConcurrencyLimitLayer::per_host(16))
        .timeout(ATTEMPT)
        .layer(ServiceExceptionLayer::new())
        .map_err(BoxError::from)
        .service(http());
    let response = client.oneshot(get_map(&server)?).await?;
    let Err(error) = response.into_body().collect().await else {
        return Err("the body stalls".into());
    };
    println!("a body that falls silent: {error}");
    assert_eq!(
        server.counts().requests,
        1,
        "the head was good: nobody repeats what the caller holds"
    );
    Ok(())
}

async fn a_silent_body_is_repeated_where_it_is_collected_inside() -> Result<(), BoxError> {
    let server =
        Server::start(Script::default().first([Fault::delivery().cut_after(100, Cut::Stall)]))
            .await?;
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy()?))
        .and_then(async |response: Response<_>| {
            let (head, body) = response.into_parts();
            let body = BodyExt::collect(body).await?;
            Ok::<_, BoxError>(Response::from_parts(head, Full::new(body.to_bytes())))
        })
        .layer(MapResponseBodyLayer::new(Box::pin))
        .layer(ResponseBodyTimeoutLayer::new(SILENCE))
        .layer(ConcurrencyLimitLayer::per_host(16))
        .timeout(ATTEMPT)
        .layer(ServiceExceptionLayer::new())
        .map_err(BoxError::from)
        .service(http());
    let response = client.oneshot(get_map(&server)?).await?;
    assert!(response.into_body().collect().await?.to_bytes() == tile().png());
    assert_eq!(server.counts().requests, 2);
    println!("collected inside the retry: the second attempt brought the tile");
    Ok(())
}

fn policy() -> Result<RetryPolicy, BoxError> {
    // In earnest: RetryPolicy::default(), with a base of 1 s and a budget of 600 s.
    Ok(RetryPolicy::builder()
        .base(Duration::from_millis(10))
        .budget(Duration::from_secs(30))
        .build()?)
}

fn http() -> Client<HttpConnector, Empty<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

fn tile() -> Tile {
    Tile::xyz(12, 2_132, 1_449)
}

fn get_map(server: &Server) -> Result<Request<Empty<Bytes>>, http::Error> {
    Request::get(format!("{}/wms?{}", server.url(), tile().query())).body(Empty::new())
}
