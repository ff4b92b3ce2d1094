//! All layers at once, with the endpoints in the program: `cargo run -p examples --example spatial_stack`.
//!
//! Two endpoints at one server: tiles, of which many may be in flight, and a geocoder with one call a second and key. The
//! settings could come from a file instead: `Endpoints::load("endpoints.yaml")`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use bytes::Bytes;
use flaky_ogc::{Fault, Script, Server, Tile};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use tokio::time::Instant;
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_spatial::call::Attempts;
use tower_spatial::retry::RetryPolicy;
use tower_spatial::{
    Deadline, EndpointSettings, Endpoints, Quota, RateLimited, ServiceBuilderExt, Spatial, find,
};

/// The whole stack has a name, so a struct can hold it.
#[derive(Clone)]
struct Maps {
    client: Spatial<Http>,
}

type Http = Client<HttpConnector, Empty<Bytes>>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let server = Server::start(Script::default().first([Fault::status(503)])).await?;
    let endpoints = endpoints(&server)?;
    let maps = Maps {
        client: ServiceBuilder::new()
            .spatial(endpoints.clone())
            .service(Client::builder(TokioExecutor::new()).build_http()),
    };

    // The first answer is a 503: the second attempt brings the tile.
    let tile = Tile::xyz(12, 2_132, 1_449);
    let uri = format!("{}/wms?{}", server.url(), tile.query());
    let answer = maps.client.clone().oneshot(get(&uri)?).await?;
    let attempts = answer.extensions().get::<Attempts>().map(Attempts::count);
    assert_eq!(attempts, Some(2));
    assert!(answer.into_body().collect().await?.to_bytes() == tile.png());
    println!("tiles: the second attempt brought the tile");

    // Both calls have the same key, so the second one goes a second after the first.
    let search = format!("{}/search?q=Bern&key=mine", server.url());
    let began = Instant::now();
    for _ in 0..2 {
        let answer = maps.client.clone().oneshot(get(&search)?).await?;
        answer.into_body().collect().await?;
    }
    assert!(began.elapsed() >= Duration::from_secs(1));
    println!("geocoder: two calls took {:.1?}", began.elapsed());

    // A third one would have to wait longer than its caller does. It fails at once, and the server never sees it.
    let before = server.counts().requests;
    let mut request = get(&search)?;
    let patience = Deadline::after(Duration::from_millis(100));
    request.extensions_mut().insert(patience);
    let Err(error) = maps.client.clone().oneshot(request).await else {
        return Err("it was to be refused".into());
    };
    assert!(find::<RateLimited>(&error).is_some());
    assert_eq!(server.counts().requests, before);
    println!("geocoder: {error}");

    // How each of them is doing, for a page or a log.
    for host in endpoints.snapshot() {
        if host.name == "tiles" || host.name == "geocoder" {
            println!(
                "{}: limit {}, in flight {}, breaker {:?}",
                host.name, host.limit, host.in_flight, host.breaker
            );
            assert_eq!(host.in_flight, 0, "every body has been read");
        }
    }
    Ok(())
}

fn endpoints(server: &Server) -> Result<Endpoints, BoxError> {
    let address = server.url().replace("http://", "");
    // In earnest: a base of 1 s and a budget of 180 s.
    let quick = RetryPolicy::builder()
        .base(Duration::from_millis(10))
        .budget(Duration::from_secs(30))
        .build()?;
    let tiles = EndpointSettings::new()
        .concurrency(16)
        .read_timeout(Duration::from_secs(60))
        .retry(quick);
    let geocoder = EndpointSettings::new()
        .concurrency(1)
        .rate([Quota::new(1, Duration::from_secs(1))?])
        .published_limit("1 a second and key (geocoder.example/terms)");
    let endpoints = Endpoints::builder()
        .endpoint("tiles", [format!("{address}/wms")], tiles)
        .endpoint("geocoder", [format!("{address}/search")], geocoder)
        .refuse_unknown_hosts();
    Ok(endpoints.build()?)
}

fn get(uri: &str) -> Result<Request<Empty<Bytes>>, http::Error> {
    Request::get(uri).body(Empty::new())
}
