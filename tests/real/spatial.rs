//! All layers at once, before MapServer.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use tokio::task::JoinSet;
use tower::{BoxError, Layer, ServiceExt};
use tower_spatial::{
    BreakerSettings, BreakerState, EndpointSettings, Endpoints, Spatial, SpatialLayer,
    call::Attempts,
    client::hyper::{Client, ClientBuilder},
    exception::{Disposition, ServiceException},
    find,
    stack::SpatialBody,
};

use crate::{
    client::{is_whole_png, patient},
    servers::Servers,
    wms::GET_MAP,
};

/// Four answers at once, and a breaker that stays open for 20 ms.
fn all_layers() -> (Spatial<Client<Empty<Bytes>>>, Endpoints) {
    let open = Duration::from_millis(20);
    let breaker = BreakerSettings {
        open,
        open_cap: open,
        ..BreakerSettings::default()
    };
    let settings = EndpointSettings::new().concurrency(4).breaker(breaker);
    let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
    let layer = SpatialLayer::new(endpoints.clone()).retry(patient().build().unwrap());
    (
        layer.layer(ClientBuilder::new().build().unwrap()),
        endpoints,
    )
}

async fn ask(
    client: Spatial<Client<Empty<Bytes>>>,
    uri: Uri,
) -> Result<Response<SpatialBody<Incoming>>, BoxError> {
    client.oneshot(Request::get(uri).body(Empty::new())?).await
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn calls_wait_behind_the_breaker_until_the_source_is_back_and_each_gets_its_map() {
    let servers = Servers::start(3).await;
    servers.take_source_away();
    let (client, endpoints) = all_layers();
    let uri = servers.uri("/ows", GET_MAP);
    let mut calls = JoinSet::new();
    for _ in 0..12 {
        let (client, uri) = (client.clone(), uri.clone());
        calls.spawn(async move {
            let answer = ask(client, uri).await?;
            let attempts = answer.extensions().get::<Attempts>();
            let attempts = attempts.map_or(1, |attempts| attempts.count() as usize);
            let map = answer.into_body().collect().await?.to_bytes();
            Ok::<_, BoxError>((attempts, map))
        });
    }
    // Five trip it, three more were on their way at most, and the rest are probes.
    servers.has_logged(10).await;
    let host = endpoints.find(&uri);
    assert!(host.snapshot().trips >= 1);
    servers.bring_source_back();
    let mut all = 0;
    while let Some(call) = calls.join_next().await {
        let (attempts, map) = call.unwrap().unwrap();
        assert!(is_whole_png(&map));
        all += attempts;
    }
    assert_eq!(servers.logged().await.len(), all);
    let now = host.snapshot();
    assert_eq!(now.breaker, BreakerState::Closed);
    assert_eq!((now.in_flight, now.queued), (0, 0));
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_layer_that_does_not_exist_costs_one_request_each_and_trips_nothing() {
    let servers = Servers::start(3).await;
    let (client, endpoints) = all_layers();
    let uri = servers.uri("/ows", &GET_MAP.replace("LAYERS=roads", "LAYERS=rivers"));
    for n in 1..=12 {
        let error = ask(client.clone(), uri.clone()).await.unwrap_err();
        let exception = find::<ServiceException>(&error).unwrap();
        assert_eq!(exception.disposition(), Disposition::Permanent);
        assert_eq!(servers.logged().await.len(), n);
    }
    let now = endpoints.find(&uri).snapshot();
    assert_eq!((now.trips, now.in_flight, now.queued), (0, 0, 0));
}
