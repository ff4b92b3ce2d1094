//! The layers over any function that answers requests: `cargo run -p examples --example plain_function`.
//!
//! Nothing here is a client of HTTP: an archive on tape, a message queue, a test's double will do, as long as it speaks
//! `http::Request` and `http::Response`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    convert::Infallible,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer, service_fn};
use tower_spatial::{
    ConcurrencyLimitLayer, call::Attempts, exception::ServiceExceptionLayer, retry::RetryPolicy,
};

static CALLS: AtomicU64 = AtomicU64::new(0);

/// Mounts the tape, gets nothing from it, finds the tile.
async fn archive(_: Request<Empty<Bytes>>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match CALLS.fetch_add(1, Ordering::Relaxed) {
        0 => (StatusCode::SERVICE_UNAVAILABLE, "mounting"),
        1 => (StatusCode::OK, BUSY),
        _ => (StatusCode::OK, TILE),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    Ok(response)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let policy = RetryPolicy::builder()
        .base(Duration::from_millis(10))
        .budget(Duration::from_secs(30))
        .build()?;
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .layer(ConcurrencyLimitLayer::per_host(4))
        .timeout(Duration::from_secs(5))
        .layer(ServiceExceptionLayer::new())
        .service(service_fn(archive));

    // The limit is one a host; what the host is called is the caller's to say.
    let url = "http://archive/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&FORMAT=image/png";
    let response = client
        .oneshot(Request::get(url).body(Empty::new())?)
        .await?;
    let attempts = response
        .extensions()
        .get::<Attempts>()
        .map_or(1, Attempts::count);
    let tile = response.into_body().collect().await?.to_bytes();
    println!("{} bytes after {attempts} attempts", tile.len());
    assert_eq!((tile.as_ref(), attempts), (TILE.as_bytes(), 3));
    assert_eq!(CALLS.load(Ordering::Relaxed), 3);
    Ok(())
}

const BUSY: &str = r#"<?xml version="1.0"?>
<ServiceExceptionReport version="1.3.0" xmlns="http://www.opengis.net/ogc">
  <ServiceException>Server is busy, try again later</ServiceException>
</ServiceExceptionReport>"#;
const TILE: &str = "\u{89}PNG, more or less";
