//! What the stack counts, at `/metrics` for Prometheus: `cargo run -p examples --example prometheus`.
//!
//! Three services of a server that has a bad day, and one host that is gone. The names, and what they mean, stand in the
//! documentation of `tower_spatial::observe::Metrics`; `grafana-dashboard.json`, beside this file, draws them.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use flaky_ogc::{Cut, Exception, Fault, Form, Script, Server, Tile};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_spatial::observe::Metrics;
use tower_spatial::retry::RetryPolicy;
use tower_spatial::verify::completeness::Completeness;
use tower_spatial::{BreakerSettings, EndpointSettings, Endpoints, Quota, Spatial, SpatialLayer};

type Http = Client<HttpConnector, Empty<Bytes>>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let page = metrics_of_a_bad_day().await?;
    let is_shown = |line: &&str| line.contains("endpoint=\"tiles\"") && !line.contains("_bucket");
    page.lines()
        .filter(is_shown)
        .for_each(|line| println!("{line}"));
    assert!(page.contains(r#"tower_spatial_calls_total{endpoint="tiles",outcome="answer"} 24"#));
    Ok(())
}

/// The text of `/metrics`, fetched as Prometheus does it, once there is something to see.
pub(crate) async fn metrics_of_a_bad_day() -> Result<String, BoxError> {
    // First the recorder, then `Metrics::new`, which describes them to it.
    let recorder = PrometheusBuilder::new()
        .set_buckets(&Metrics::BUCKETS)?
        .install_recorder()?;
    let metrics = Metrics::new();

    let server = Server::start(bad_day()).await?;
    // A port at which nobody listens any more.
    let gone = TcpListener::bind("127.0.0.1:0").await?.local_addr()?;
    let endpoints = endpoints(&server, &gone.to_string())?;
    // Once before the first call: the configured endpoints have their labels, whatever hosts follow.
    metrics.refresh(&endpoints);
    let layer = SpatialLayer::new(endpoints.clone()).observer(metrics.clone());
    let client = ServiceBuilder::new()
        .layer(layer)
        .service(Client::builder(TokioExecutor::new()).build_http());

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/metrics", listener.local_addr()?);
    tokio::spawn(serve(listener, recorder, metrics, endpoints));

    work(&client, &server.url(), &format!("http://{gone}")).await?;

    let scraper: Http = Client::builder(TokioExecutor::new()).build_http();
    let page = scraper.request(get(&url)?).await?;
    let page = page.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(page.into())?)
}

/// `/metrics`, for as long as the program runs.
async fn serve(
    listener: TcpListener,
    recorder: PrometheusHandle,
    metrics: Metrics,
    endpoints: Endpoints,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (recorder, metrics, endpoints) = (recorder.clone(), metrics.clone(), endpoints.clone());
        let page = service_fn(move |request: Request<Incoming>| {
            let mut answer = Response::new(Full::<Bytes>::default());
            if request.uri().path() == "/metrics" {
                metrics.refresh(&endpoints);
                *answer.body_mut() = Full::from(recorder.render());
                let text = header::HeaderValue::from_static("text/plain; version=0.0.4");
                answer.headers_mut().insert(header::CONTENT_TYPE, text);
            } else {
                *answer.status_mut() = StatusCode::NOT_FOUND;
            }
            async { Ok::<_, Infallible>(answer) }
        });
        // A scraper that goes away is no concern of ours.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), page));
    }
}

fn endpoints(server: &Server, gone: &str) -> Result<Endpoints, BoxError> {
    let address = server.url().replace("http://", "");
    // In earnest: a base of 1 s and a budget of minutes, and the defaults for all the rest.
    let quick = RetryPolicy::builder()
        .base(Duration::from_millis(10))
        .budget(Duration::from_secs(20));
    let tiles = EndpointSettings::new()
        .concurrency(4)
        .completeness(Completeness::Collect)
        .max_age(Duration::from_secs(3_600))
        .retry(quick.clone().build()?);
    let features = EndpointSettings::new()
        .concurrency(1)
        .reader_patience(Duration::from_millis(100));
    let geocoder = EndpointSettings::new()
        .concurrency(2)
        .rate([Quota::new(1, Duration::from_millis(200))?])
        .retry(quick.clone().build()?);
    let archive = EndpointSettings::new()
        .breaker(BreakerSettings {
            row: 3,
            quiet: Duration::ZERO,
            ..BreakerSettings::default()
        })
        .retry(quick.budget(Duration::from_secs(1)).build()?);
    let endpoints = Endpoints::builder()
        .endpoint("tiles", [format!("{address}/wms")], tiles)
        .endpoint("features", [format!("{address}/wfs")], features)
        .endpoint("geocoder", [format!("{address}/search")], geocoder)
        .endpoint("archive", [gone], archive)
        .refuse_unknown_hosts();
    Ok(endpoints.build()?)
}

/// What becomes of the first maps and places that are asked for.
fn bad_day() -> Script {
    let busy = Exception::new(Form::Report130, "The server is busy, try again later");
    let maps = [
        Fault::status(503).retry_after(1),
        Fault::exception(busy),
        Fault::delivery().chunked().cut_after(60, Cut::CleanEnd),
        Fault::delivery().header(header::AGE, header::HeaderValue::from_static("86400")),
    ];
    Script::default().decide(move |asked| match &*asked.operation {
        "GetMap" => maps
            .get(usize::try_from(asked.nth_of_operation).ok()?)
            .cloned(),
        "search" => (asked.nth_of_operation == 0).then(|| Fault::status(429).retry_after(1)),
        _ => None,
    })
}

async fn work(client: &Spatial<Http>, url: &str, gone: &str) -> Result<(), BoxError> {
    let mut tiles = JoinSet::new();
    for x in 2_130..2_154 {
        let url = format!("{url}/wms?{}", Tile::xyz(12, x, 1_449).query());
        tiles.spawn(read(client.clone(), get(&url)?));
    }
    while let Some(tile) = tiles.join_next().await {
        tile??;
    }

    // An answer that is held and not read loses its permit to the next call.
    let features =
        format!("{url}/wfs?SERVICE=WFS&VERSION=2.0.0&REQUEST=GetFeature&TYPENAMES=places");
    let unread = client.clone().oneshot(get(&features)?).await?;
    read(client.clone(), get(&features)?).await?;
    drop(unread);

    let mut places = JoinSet::new();
    for town in ["Bern", "Delft", "Graz"] {
        // Keys in the query are seen by nobody but the server.
        let url = format!("{url}/search?q={town}&key=mine");
        places.spawn(read(client.clone(), get(&url)?));
        // The others meet the pause that the first one is told.
        sleep(Duration::from_millis(50)).await;
    }
    while let Some(place) = places.join_next().await {
        place??;
    }

    // The breaker opens, and who waits for it gives up when its budget is spent.
    for _ in 0..2 {
        let error = read(client.clone(), get(&format!("{gone}/wms?REQUEST=GetMap"))?).await;
        assert!(error.is_err(), "nobody is there");
    }

    // A mistake of the caller's own costs one request.
    let wrong =
        format!("{url}/wms?{}", Tile::xyz(12, 0, 0).query()).replace("LAYERS=", "LAYERS=no-");
    let error = read(client.clone(), get(&wrong)?).await;
    assert!(error.is_err(), "there is no such layer");
    Ok(())
}

async fn read(client: Spatial<Http>, request: Request<Empty<Bytes>>) -> Result<Bytes, BoxError> {
    let answer = client.oneshot(request).await?;
    Ok(answer.into_body().collect().await?.to_bytes())
}

fn get(uri: &str) -> Result<Request<Empty<Bytes>>, http::Error> {
    Request::get(uri).body(Empty::new())
}
