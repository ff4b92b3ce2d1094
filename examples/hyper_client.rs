//! A hyper client that survives a struggling WMS: `cargo run -p examples --example hyper_client`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use bytes::Bytes;
use flaky_ogc::{Exception, Fault, Form, Kind, Script, Server, Tile};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    ConcurrencyLimitLayer,
    call::Attempts,
    exception::{ServiceException, ServiceExceptionLayer},
    find,
    retry::RetryPolicy,
};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // A server that needs four attempts: out of order, out of its data source under status 200, out of reach, well.
    let report = Exception::new(
        Form::Report130,
        "msDrawMap(): Image handling error. Database connection failed",
    );
    let faults = [Fault::status(503), Fault::exception(report), Fault::reset()];
    let server = Server::start(Script::default().first(faults)).await?;

    // In earnest: RetryPolicy::default(), with a base of 1 s and a budget of 600 s.
    let policy = RetryPolicy::builder()
        .base(Duration::from_millis(10))
        .budget(Duration::from_secs(30))
        .build()?;
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .layer(ConcurrencyLimitLayer::per_host(16))
        .timeout(Duration::from_secs(5))
        .layer(ServiceExceptionLayer::new())
        .map_err(BoxError::from)
        .service(Client::builder(TokioExecutor::new()).build_http());

    let tile = Tile::xyz(12, 2_132, 1_449);
    let request = Request::get(format!("{}/wms?{}", server.url(), tile.query()))
        .body(Empty::<Bytes>::new())?;
    let response = client.clone().oneshot(request).await?;
    let attempts = response
        .extensions()
        .get::<Attempts>()
        .map_or(1, Attempts::count);
    let body = response.into_body().collect().await?.to_bytes();
    println!("a tile of {} bytes after {attempts} attempts", body.len());
    assert_eq!(attempts, 4);
    assert!(body == tile.png(), "the tile that was asked for");
    assert_eq!(
        server.counts().renders_finished,
        1,
        "no attempt but the last one cost the server a map"
    );

    // What the server will never do is asked for once.
    let unknown = Tile {
        layers: "nowhere".to_owned(),
        ..tile
    };
    let request =
        Request::get(format!("{}/wms?{}", server.url(), unknown.query())).body(Empty::new())?;
    let Err(error) = client.oneshot(request).await else {
        return Err("the layer does not exist".into());
    };
    let code = find::<ServiceException>(&error).and_then(ServiceException::code);
    println!("no tile: {error}");
    assert_eq!(code, Some("LayerNotDefined"));
    let counts = server.shutdown().await;
    assert_eq!((counts.requests, counts.kind(Kind::Exception)), (5, 2));
    Ok(())
}
