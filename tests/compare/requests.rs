//! What becomes of a request that is repeated, or of one that must not be.

use std::{
    future::Ready,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use flaky_ogc::{Fault, Server};
use http::{Request, header};
use http_body_util::{BodyExt, channel::Channel};
use tower::{
    BoxError, Layer, ServiceBuilder, ServiceExt,
    retry::{Policy, RetryLayer},
};
use tower_spatial::{
    client::reqwest::ReqwestClient,
    find,
    replay::ReplayBody,
    retry::{GaveUp, StopReason},
};

use crate::support::*;

const TRANSACTION: &str = "<wfs:Transaction service='WFS' version='2.0.0' xmlns:wfs='http://www.opengis.net/wfs/2.0'><wfs:Insert/></wfs:Transaction>";
const GET_FEATURE: &str = "<wfs:GetFeature service='WFS' version='2.0.0' xmlns:wfs='http://www.opengis.net/wfs/2.0'><wfs:Query typeNames='places'/></wfs:GetFeature>";

fn post(server: &Server, body: &'static str) -> Asked {
    Request::post(format!("{}/wfs", server.url()))
        .header(header::CONTENT_TYPE, "text/xml")
        .body(ReplayBody::buffered(body))
        .unwrap()
}

/// A POST by reqwest-middleware.
async fn send(server: &Server, body: impl Into<reqwest::Body>) -> reqwest_middleware::Result<u16> {
    let request = middleware(3)
        .post(format!("{}/wfs", server.url()))
        .header(header::CONTENT_TYPE, "text/xml")
        .body(body);
    Ok(request.send().await?.status().as_u16())
}

#[tokio::test]
async fn a_transaction_is_repeated_by_default_or_not() {
    // The transaction is executed, and the answer lost on its way.
    let lost = || always(Fault::status(502).after_work());

    let server = lost().await;
    assert_eq!(send(&server, TRANSACTION).await.unwrap(), 502);
    assert_eq!(server.counts().transactions, 4);

    let server = lost().await;
    let resilience = ServiceBuilder::new()
        .layer(resilience(4))
        .map_err(BoxError::from)
        .service(http());
    resilience
        .oneshot(post(&server, TRANSACTION))
        .await
        .unwrap();
    assert_eq!(server.counts().transactions, 4);

    let server = lost().await;
    let ours = || {
        ServiceBuilder::new()
            .layer(RetryLayer::new(ours(4)))
            .map_err(BoxError::from)
            .service(http())
    };
    let response = ours().oneshot(post(&server, TRANSACTION)).await.unwrap();
    let gave_up = response.extensions().get::<GaveUp>().unwrap();
    assert_eq!(gave_up.reason(), StopReason::Unsafe);
    assert_eq!(server.counts().transactions, 1);

    // A POST that only asks.
    let response = ours().oneshot(post(&server, GET_FEATURE)).await.unwrap();
    let gave_up = response.extensions().get::<GaveUp>().unwrap();
    assert_eq!(gave_up.reason(), StopReason::Attempts);
    assert_eq!(server.counts().operation("GetFeature"), 4);
}

/// A GetFeature that comes in pieces.
fn streaming() -> Channel<Bytes, io::Error> {
    let (mut sender, body) = Channel::new(1);
    tokio::spawn(async move {
        for piece in GET_FEATURE.as_bytes().chunks(50) {
            // Nobody reads on where the connection is reset.
            let _ = sender.send_data(Bytes::from_static(piece)).await;
        }
    });
    body
}

#[tokio::test]
async fn a_streaming_body_is_refused_sent_once_or_kept() {
    // reqwest-retry: an error, and nothing is sent, though nothing needs a repeat.
    let server = start(flaky_ogc::Script::default()).await;
    let error = send(&server, reqwest::Body::wrap(streaming()))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("not cloneable"), "{error}");
    assert_eq!(server.counts().requests, 0);

    // tower: a policy that cannot clone the request is not asked about its failure.
    let policy = Unclonable::default();
    let failing = Memory::new(|_| answer(503, ""));
    let tower = RetryLayer::new(policy.clone()).layer(failing.clone());
    assert_eq!(tower.oneshot(get(IN_MEMORY)).await.unwrap().status(), 503);
    assert_eq!((failing.calls().len(), policy.asked.load(Relaxed)), (1, 0));

    let request = |server: &Server, cap| {
        Request::post(format!("{}/wfs", server.url()))
            .header(header::CONTENT_TYPE, "text/xml")
            .body(ReplayBody::with_cap(streaming(), cap))
            .unwrap()
    };
    let client = ReqwestClient::build(reqwest::Client::builder().no_proxy()).unwrap();
    let ours = RetryLayer::new(ours(4)).layer(client);
    let reset_once = || start(flaky_ogc::Script::default().first([Fault::reset()]));
    let server = reset_once().await;
    let request_of_all = request(&server, 64 * 1024);
    let response = ours.clone().oneshot(request_of_all).await.unwrap();
    let answer = response.into_body().collect().await.unwrap().to_bytes();
    assert!(answer.starts_with(b"<?xml"));
    assert_eq!(server.counts().requests, 2);

    // Longer than what is kept.
    let server = reset_once().await;
    let error = ours.oneshot(request(&server, 60)).await.unwrap_err();
    let gave_up = find::<GaveUp>(&error).unwrap();
    assert_eq!(gave_up.reason(), StopReason::BodyTooLong { cap: 60 });
    assert_eq!(server.counts().requests, 1);
}

/// What a policy of tower's does for a body that it cannot clone.
#[derive(Clone, Default)]
struct Unclonable {
    asked: Arc<AtomicUsize>,
}

impl<Q, R> Policy<Q, R, BoxError> for Unclonable {
    type Future = Ready<()>;

    fn retry(&mut self, _: &mut Q, _: &mut Result<R, BoxError>) -> Option<Ready<()>> {
        self.asked.fetch_add(1, Relaxed);
        None
    }

    fn clone_request(&mut self, _: &Q) -> Option<Q> {
        None
    }
}
