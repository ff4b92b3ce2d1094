//! What nginx answers by itself, or makes of MapServer's answers.

use std::{io::Read, time::Duration};

use flate2::read::GzDecoder;
use http::StatusCode;
use tower_spatial::{
    call::{Attempts, Cause},
    exception::{Disposition, ServiceException, ServiceExceptionError},
    find,
    retry::{GaveUp, StopReason},
};

use crate::{
    client::{Client, is_whole_png, patient, read},
    servers::Servers,
    wfs::GET_FEATURE,
    wms::GET_MAP,
};

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_map_is_asked_for_until_mapserver_is_up() {
    let mut servers = Servers::start(3).await;
    servers.stop_mapserver();
    let client = Client::new();
    let uri = servers.uri("/ows", GET_MAP);
    let (answer, ()) = tokio::join!(client.get(&uri), async {
        servers.has_logged(3).await;
        servers.start_mapserver();
    });
    assert!(is_whole_png(&read(answer.unwrap()).await.unwrap()));
    let logged = servers.logged().await;
    let (last, failed) = logged.split_last().unwrap();
    assert_eq!(last.status, 200);
    assert!(failed.iter().all(|request| request.status == 502));
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_map_is_asked_for_until_the_maintenance_ends() {
    let servers = Servers::start(3).await;
    servers.begin_maintenance();
    let client = Client::new();
    let uri = servers.uri("/maintained/ows", GET_MAP);
    let (answer, ()) = tokio::join!(client.get(&uri), async {
        servers.has_logged(3).await;
        servers.end_maintenance();
    });
    assert!(is_whole_png(&read(answer.unwrap()).await.unwrap()));
    let logged = servers.logged().await;
    let (last, failed) = logged.split_last().unwrap();
    assert_eq!(last.status, 200);
    assert!(failed.iter().all(|request| request.status == 503));
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_refused_request_comes_back_once_and_no_sooner_than_nginx_asked() {
    let servers = Servers::start(3).await;
    let client = Client::new();
    let uri = servers.uri("/one-a-second/ows", GET_MAP);
    let (one, other) = tokio::join!(client.get(&uri), client.get(&uri));
    let mut throttled = Vec::new();
    for answer in [one.unwrap(), other.unwrap()] {
        throttled.extend(answer.extensions().get::<Attempts>().copied());
        assert!(is_whole_png(&read(answer).await.unwrap()));
    }
    assert_eq!(throttled.len(), 1);
    assert_eq!(throttled[0].count(), 2);
    assert!(throttled[0].total() >= Duration::from_secs(1));
    let logged = servers.logged().await;
    let refused = logged.iter().filter(|request| request.status == 429);
    assert_eq!((refused.count(), logged.len()), (1, 3));
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_pause_longer_than_the_budget_is_not_begun() {
    let servers = Servers::start(3).await;
    let uri = servers.uri("/spent/ows", GET_MAP);
    let answer = Client::new().get(&uri).await.unwrap();
    assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
    let gave_up = answer.extensions().get::<GaveUp>().unwrap();
    assert_eq!(gave_up.reason(), StopReason::HintTooLong);
    assert_eq!(servers.logged().await.len(), 1);
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_page_with_status_200_is_no_map() {
    let mut servers = Servers::start(3).await;
    servers.stop_mapserver();
    let client = Client::with(patient().attempts(3));
    let uri = servers.uri("/polite/ows", GET_MAP);
    let error = client.get(&uri).await.unwrap_err();
    let last = find::<ServiceExceptionError>(&error).unwrap();
    assert_eq!(last.parts().status, StatusCode::OK);
    assert!(last.head().starts_with(b"<!DOCTYPE html>"));
    assert_eq!(last.exception().disposition(), Disposition::Transient);
    let gave_up = find::<GaveUp>(&error).unwrap();
    for attempt in gave_up.attempts() {
        assert!(matches!(attempt.cause(), Cause::Exception { .. }));
    }
    let logged = servers.logged().await;
    assert_eq!(logged.len(), gave_up.attempts().len());
    assert!(logged.iter().all(|request| request.status == 200));
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_map_is_asked_for_while_a_page_with_status_200_comes() {
    let mut servers = Servers::start(3).await;
    servers.stop_mapserver();
    let client = Client::new();
    let uri = servers.uri("/polite/ows", GET_MAP);
    let (answer, ()) = tokio::join!(client.get(&uri), async {
        servers.has_logged(1).await;
        servers.start_mapserver();
    });
    assert!(is_whole_png(&read(answer.unwrap()).await.unwrap()));
    assert!(servers.logged().await.len() >= 2);
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn an_exception_is_found_in_a_compressed_answer() {
    let servers = Servers::start(3).await;
    let wrong = GET_MAP.replace("LAYERS=roads", "LAYERS=rivers");
    let error = Client::new()
        .get_compressed(&servers.uri("/compressed/ows", &wrong))
        .await
        .unwrap_err();
    let found = find::<ServiceExceptionError>(&error).unwrap();
    assert_eq!(found.parts().headers["content-encoding"], "gzip");
    assert_eq!(found.exception().code(), Some("LayerNotDefined"));
    assert_eq!(found.exception().disposition(), Disposition::Permanent);
    assert_eq!(servers.logged().await.len(), 1);
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_compressed_answer_is_handed_on_as_it_came() {
    let servers = Servers::start(200).await;
    let answer = Client::new()
        .get_compressed(&servers.uri("/compressed/ows", GET_FEATURE))
        .await
        .unwrap();
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    assert!(answer.extensions().get::<ServiceException>().is_none());
    let compressed = read(answer).await.unwrap();
    let mut document = String::new();
    GzDecoder::new(&compressed[..])
        .read_to_string(&mut document)
        .unwrap();
    assert_eq!(document.matches("<wfs:member>").count(), 200);
    assert!(document.trim_end().ends_with("</wfs:FeatureCollection>"));
}
