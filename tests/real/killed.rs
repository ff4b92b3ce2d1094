//! `kill -9` of MapServer's process in the middle of an answer.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy, rt::TokioExecutor};
use tower::{Layer, ServiceExt};
use tower_spatial::{
    Endpoints, SpatialLayer,
    call::Attempts,
    find,
    verify::completeness::{CompletenessLayer, IncompleteError},
};

use crate::{
    client::{Client, is_whole_png, read},
    servers::Servers,
    wfs::GET_FEATURE,
    wms::GET_MAP,
};

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_process_killed_before_the_head_is_a_repeat() {
    let mut servers = Servers::start(3).await;
    servers.block_source();
    let client = Client::new();
    let uri = servers.uri("/ows", GET_MAP);
    let (answer, ()) = tokio::join!(client.get(&uri), async {
        let _blocked = servers.source_is_opened().await;
        servers.bring_source_back();
        servers.kill_mapserver();
    });
    let answer = answer.unwrap();
    assert_eq!(answer.extensions().get::<Attempts>().unwrap().count(), 2);
    assert!(is_whole_png(&read(answer).await.unwrap()));
    let logged = servers.logged().await;
    let statuses: Vec<_> = logged.iter().map(|request| request.status).collect();
    assert_eq!(statuses, [502, 200]);
}

/// What is not seen without a look at the document: nginx ends the chunks of a killed answer as it ends those of a whole one, and the retry is over once
/// the head was good. Only who reads the document to its end finds that its root is not closed.
#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_process_killed_in_mid_body_leaves_a_body_that_ends_well_and_a_document_that_does_not() {
    let mut servers = Servers::start(3_000).await;
    let client = Client::new();
    let answer = client.get(&servers.uri("/ows", GET_FEATURE)).await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"<?xml"));

    // Nobody reads, so MapServer is held in the middle by full buffers.
    servers.kill_mapserver();
    let rest = body
        .collect()
        .await
        .expect("the body ends without an error");
    let document = [&first[..], &rest.to_bytes()].concat();
    let document = String::from_utf8(document).unwrap();
    assert!(document.contains("<wfs:member>"));
    assert!(document.matches("<wfs:member>").count() < 3_000);
    assert!(!document.contains("</wfs:FeatureCollection>"));

    let answer = client.get(&servers.uri("/ows", GET_MAP)).await.unwrap();
    assert!(is_whole_png(&read(answer).await.unwrap()));
    assert_eq!(servers.logged().await.len(), 2);
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_process_killed_in_mid_body_is_told_to_who_checks_the_document() {
    let mut servers = Servers::start(3_000).await;
    let client = legacy::Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let client = SpatialLayer::new(Endpoints::default())
        .completeness(CompletenessLayer::streaming())
        .layer(client);
    let request = Request::get(servers.uri("/ows", GET_FEATURE)).body(Empty::new());
    let answer = client.oneshot(request.unwrap()).await.unwrap();
    let mut body = answer.into_body();
    body.frame().await.unwrap().unwrap();
    servers.kill_mapserver();
    let error = body.collect().await.map(drop).unwrap_err();
    assert!(find::<IncompleteError>(&error).is_some(), "{error}");
}
