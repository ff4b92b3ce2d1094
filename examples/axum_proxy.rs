//! A reverse proxy that makes a struggling WMS bearable: `cargo run -p examples --example axum_proxy`.
//!
//! Everything goes to one fixed upstream, whatever the request says. Bodies stream in both directions; a failure of the
//! upstream is mended before the client sees it, and what cannot be mended is passed on as the upstream said it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use flaky_ogc::{Exception, Fault, Form, Script, Server, Tile};
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode, Uri,
    header::{self, CONNECTION, HOST, VIA},
    uri::{Authority, PathAndQuery, Scheme},
};
use http_body_util::{BodyExt, channel::Channel};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tower::{
    BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer, timeout::error::Elapsed,
    util::BoxCloneSyncService,
};
use tower_spatial::{
    ConcurrencyLimitLayer, QueueTimeout,
    client::hyper::{Client, ClientBuilder},
    exception::ServiceExceptionLayer,
    find,
    replay::ReplayBody,
    retry::RetryPolicy,
};

#[derive(Clone)]
struct Upstream {
    authority: Authority,
    client: BoxCloneSyncService<http::Request<Body>, http::Response<Body>, BoxError>,
}

impl Upstream {
    fn new(authority: Authority) -> Result<Self, BoxError> {
        // In earnest: RetryPolicy::interactive(), with a base of 1 s and a budget of 60 s.
        let policy = RetryPolicy::builder()
            .base(Duration::from_millis(10))
            .budget(Duration::from_secs(30))
            .build()?;
        let client = ServiceBuilder::new()
            .map_response(|response: http::Response<_>| response.map(Body::new))
            // axum's bodies can be sent once; what is empty or there at once can be sent again.
            .map_request(|request: http::Request<Body>| request.map(ReplayBody::new))
            .layer(RetryLayer::new(policy))
            .layer(ConcurrencyLimitLayer::per_host(16))
            .timeout(Duration::from_secs(30))
            // A proxy passes on what the upstream said, exceptions included.
            .layer(ServiceExceptionLayer::new().annotate())
            .map_err(BoxError::from)
            .service(ClientBuilder::new().build()?);
        Ok(Self {
            authority,
            client: BoxCloneSyncService::new(client),
        })
    }
}

async fn forward(State(upstream): State<Upstream>, mut request: Request) -> Response {
    let asked = request.uri().path_and_query().cloned();
    let uri = Uri::builder()
        .scheme(Scheme::HTTP)
        .authority(upstream.authority)
        .path_and_query(asked.unwrap_or_else(|| PathAndQuery::from_static("/")))
        .build();
    let Ok(uri) = uri else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    *request.uri_mut() = uri;
    // The client writes that of the upstream.
    request.headers_mut().remove(HOST);
    strip_hop_by_hop(request.headers_mut());
    request.headers_mut().append(VIA, PSEUDONYM);
    match upstream.client.oneshot(request).await {
        Ok(mut response) => {
            strip_hop_by_hop(response.headers_mut());
            response.headers_mut().append(VIA, PSEUDONYM);
            response
        }
        Err(error) if find::<QueueTimeout>(&error).is_some() => {
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
        Err(error) if find::<Elapsed>(&error).is_some() => {
            StatusCode::GATEWAY_TIMEOUT.into_response()
        }
        // Its text is for the log: it tells of the network behind the proxy.
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

/// RFC 9110 section 7.6.1: what is meant for one connection only, by its name or by that of the connection's options.
fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let options: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in options.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn proxy_of(upstream: SocketAddr) -> Result<Router, BoxError> {
    let upstream = Upstream::new(upstream.to_string().parse()?)?;
    Ok(Router::new().fallback(forward).with_state(upstream))
}

async fn serve(router: Router) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let report = Exception::new(
        Form::Report130,
        "msDrawMap(): Image handling error. Database connection failed",
    );
    // What was meant for one connection does not go further.
    let hop = |asked: &flaky_ogc::Asked| {
        let headers = &asked.headers;
        headers.contains_key("x-hop")
            || HOP_BY_HOP
                .iter()
                .any(|name| name != header::TRANSFER_ENCODING && headers.contains_key(name))
            || !headers.get_all(VIA).iter().any(|via| *via == PSEUDONYM)
    };
    let script = Script::default().when(hop, Fault::status(400)).first([
        Fault::status(503),
        Fault::exception(report),
        Fault::reset(),
        Fault::delivery()
            .header(CONNECTION, HeaderValue::from_static("x-hop"))
            .header(HeaderName::from_static("x-hop"), 1)
            .header(HeaderName::from_static("keep-alive"), 5),
    ]);
    let server = Server::start(script).await?;

    let proxy = format!("http://{}", serve(proxy_of(server.addr())?).await?);
    // Anybody's client, without a retry of its own.
    let client = ClientBuilder::new().build::<Body>()?;

    let tile = Tile::xyz(12, 2_132, 1_449);
    let request = Request::get(format!("{proxy}/wms?{}", tile.query()))
        .header(CONNECTION, "x-hop")
        .header("x-hop", "for the proxy")
        .body(Body::empty())?;
    let response = client.request(request).await?;
    assert_eq!(response.headers().get(VIA), Some(&PSEUDONYM));
    for name in ["connection", "x-hop", "keep-alive"] {
        assert!(!response.headers().contains_key(name), "{name}");
    }
    let body = response.into_body().collect().await?.to_bytes();
    assert!(body == tile.png(), "the tile that was asked for");
    assert_eq!(server.counts().requests, 4);
    println!("a tile, and no word of the three failures before it");

    let unknown = Tile {
        layers: "nowhere".to_owned(),
        ..tile
    };
    let request = Request::get(format!("{proxy}/wms?{}", unknown.query())).body(Body::empty())?;
    let response = client.request(request).await?;
    assert_eq!(response.status(), StatusCode::OK);
    let report = response.into_body().collect().await?.to_bytes();
    assert!(String::from_utf8_lossy(&report).contains("LayerNotDefined"));
    assert_eq!(server.counts().requests, 5);
    println!("the upstream's own report, asked for once");

    bodies_stream_both_ways(&client).await
}

/// Through a proxy in front of a service that answers each request with its own body.
async fn bodies_stream_both_ways(client: &Client<Body>) -> Result<(), BoxError> {
    let echo = Router::new().fallback(async |request: Request| {
        let octets = [(header::CONTENT_TYPE, "application/octet-stream")];
        (octets, request.into_body())
    });
    let proxy = serve(proxy_of(serve(echo).await?)?).await?;
    let (mut sender, pieces) = Channel::<Bytes, io::Error>::new(1);
    sender.send_data(Bytes::from_static(b"first")).await?;
    let request = Request::post(format!("http://{proxy}/")).body(Body::new(pieces))?;
    let mut answer = client.request(request).await?.into_body();
    assert_eq!(next_piece(&mut answer).await?, "first");
    sender.send_data(Bytes::from_static(b"second")).await?;
    assert_eq!(next_piece(&mut answer).await?, "second");
    drop(sender);
    assert!(answer.frame().await.is_none());
    println!("a piece there and back before the next one is sent");
    Ok(())
}

async fn next_piece(body: &mut Incoming) -> Result<Bytes, BoxError> {
    let frame = body.frame().await.ok_or("the body has ended")??;
    frame.into_data().map_err(|_| "a trailer".into())
}

const PSEUDONYM: HeaderValue = HeaderValue::from_static("1.1 axum-proxy");
const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
