//! A service with habits of its own: `cargo run -p examples --example custom_classification`.
//!
//! What our table says of a status, a response or an error can be said otherwise. A rule sees the head of a response, an
//! exception that was found included, or an error; `None` leaves the matter to the table.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use bytes::Bytes;
use flaky_ogc::{Exception, Fault, Form, Script, Server, Tile};
use http::{HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    ConcurrencyLimitLayer,
    call::{Attempts, Verdict},
    client::hyper::ClientBuilder,
    exception::{ServiceException, ServiceExceptionLayer},
    retry::{AnswerHead, RetryPolicy},
};

/// 403 means "not so fast" where the quota is at its end, else what it says.
fn spent_quota(head: &AnswerHead<'_>) -> Option<Verdict> {
    let left = head.headers.get("x-quota-left")?;
    (head.status == StatusCode::FORBIDDEN && left == "0").then_some(Verdict::Throttled)
}

/// A message in the operator's own language, which no table knows.
fn nightly_load(head: &AnswerHead<'_>) -> Option<Verdict> {
    let exception = head.extensions.get::<ServiceException>()?;
    let loading = exception.message().contains("Datenübernahme läuft");
    loading.then_some(Verdict::Transient)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let spent = Fault::status(403).body("").header(
        HeaderName::from_static("x-quota-left"),
        HeaderValue::from_static("0"),
    );
    let loading = Exception::new(Form::Report130, "Datenübernahme läuft")
        .code("InvalidDimensionValue")
        .status(200);
    // A node that is being rolled out answers 404 for what its neighbours have.
    let script = Script::default().first([
        Fault::status(404).body(""),
        spent,
        Fault::exception(loading),
    ]);
    let server = Server::start(script).await?;

    let policy = RetryPolicy::builder()
        .base(Duration::from_millis(10))
        .budget(Duration::from_secs(30))
        .status(StatusCode::NOT_FOUND, Verdict::Transient)
        .classify_response(|head| spent_quota(head).or_else(|| nightly_load(head)))
        .build()?;
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .layer(ConcurrencyLimitLayer::per_host(16))
        .timeout(Duration::from_secs(5))
        // An exception stays a response, so that the rule for responses sees it.
        .layer(ServiceExceptionLayer::new().annotate())
        .map_err(BoxError::from)
        .service(ClientBuilder::new().build()?);

    let tile = Tile::xyz(12, 2_132, 1_449);
    let get_map = |tile: &Tile| {
        Request::get(format!("{}/wms?{}", server.url(), tile.query())).body(Empty::<Bytes>::new())
    };
    let response = client.clone().oneshot(get_map(&tile)?).await?;
    let attempts = response.extensions().get::<Attempts>().cloned();
    let attempts = attempts.ok_or("more than one attempt")?;
    let body = response.into_body().collect().await?.to_bytes();
    assert!(body == tile.png(), "the tile that was asked for");
    assert_eq!(attempts.count(), 4);
    println!("a tile after {} attempts", attempts.count());

    // What no rule speaks of is as ever: asked for once.
    let unknown = Tile {
        layers: "nowhere".to_owned(),
        ..tile
    };
    let response = client.oneshot(get_map(&unknown)?).await?;
    let exception = response.extensions().get::<ServiceException>();
    let code = exception.and_then(ServiceException::code);
    assert_eq!(code, Some("LayerNotDefined"));
    assert_eq!(server.counts().requests, 5);
    println!("and no second request for a layer that is not there");
    Ok(())
}
