//! Connections are used again after failures.

use std::collections::HashSet;

use http::Uri;
use tower_spatial::{exception::ServiceException, find};

use crate::{
    client::{Client, patient, read},
    servers::{Logged, Servers},
    wms::GET_MAP,
};

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_hundred_503_pages_take_two_connections_at_most() {
    let servers = Servers::start(3).await;
    servers.begin_maintenance();
    let client = hasty();
    let uri = servers.uri("/maintained/ows", GET_MAP);
    for _ in 0..10 {
        let answer = client.get(&uri).await.unwrap();
        assert_eq!(answer.status(), 503);
        read(answer).await.unwrap();
    }
    assert_failed_on_few_connections(&servers.logged().await, &uri, 503);
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_hundred_pages_with_status_200_take_two_connections_at_most() {
    let mut servers = Servers::start(3).await;
    servers.stop_mapserver();
    let client = hasty();
    let uri = servers.uri("/polite/ows", GET_MAP);
    for _ in 0..10 {
        let error = client.get(&uri).await.unwrap_err();
        assert!(find::<ServiceException>(&error).is_some());
    }
    assert_failed_on_few_connections(&servers.logged().await, &uri, 200);
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_hundred_repeated_exceptions_take_two_connections_at_most() {
    let servers = Servers::start(3).await;
    servers.take_source_away();
    let client = hasty();
    let uri = servers.uri("/ows", GET_MAP);
    for _ in 0..10 {
        let error = client.get(&uri).await.unwrap_err();
        assert!(find::<ServiceException>(&error).is_some());
    }
    assert_failed_on_few_connections(&servers.logged().await, &uri, 200);
}

#[tokio::test]
#[cfg_attr(not(real_servers), ignore = "nginx or MapServer is missing")]
async fn a_hundred_exceptions_that_are_not_repeated_take_two_connections_at_most() {
    let servers = Servers::start(3).await;
    let client = hasty();
    let wrong = GET_MAP.replace("LAYERS=roads", "LAYERS=rivers");
    let uri = servers.uri("/ows", &wrong);
    for _ in 0..100 {
        let error = client.get(&uri).await.unwrap_err();
        assert!(find::<ServiceException>(&error).is_some());
    }
    assert_failed_on_few_connections(&servers.logged().await, &uri, 200);
}

/// Ten attempts a call.
fn hasty() -> Client {
    let millisecond = std::time::Duration::from_millis(1);
    Client::with(patient().base(millisecond).cap(millisecond).attempts(10))
}

fn assert_failed_on_few_connections(logged: &[Logged], uri: &Uri, status: u16) {
    assert_eq!(logged.len(), 100);
    let asked = uri.path_and_query().unwrap().as_str();
    assert!(logged.iter().all(|request| request.uri == asked));
    assert!(logged.iter().all(|request| request.status == status));
    let connections: HashSet<_> = logged.iter().map(|request| request.connection).collect();
    assert!(connections.len() <= 2, "{} connections", connections.len());
}
