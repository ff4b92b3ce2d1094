//! What becomes of an answer that failed: its connection, its text, its history.

use std::time::Duration;

use flaky_ogc::{Exception, Fault, Form, Script};
use http_body_util::BodyExt;
use reqwest_retry::RetryError;
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    call::Cause,
    exception::{ServiceException, ServiceExceptionLayer},
    find,
    retry::{GaveUp, StopReason},
};

use crate::support::*;

const FAILURES: usize = 10;

#[tokio::test]
async fn the_connection_of_a_failed_answer_is_lost_or_kept() {
    // An answer larger than what comes with its head.
    let late = || {
        Fault::status(503)
            .body(vec![0; 20_000])
            .content_type("image/png")
            .late_body(Duration::from_millis(20))
    };
    let failing = || start(Script::default().first(vec![late(); FAILURES]));
    let all = FAILURES as u64 + 1;

    let server = failing().await;
    let tower = ServiceBuilder::new()
        .layer(RetryLayer::new(Repeats(FAILURES)))
        .map_err(BoxError::from)
        .service(http());
    assert_eq!(tower.oneshot(get_map(&server)).await.unwrap().status(), 200);
    assert_eq!(server.counts().connections, all);

    let server = failing().await;
    let resilience = ServiceBuilder::new()
        .layer(resilience(FAILURES + 1))
        .map_err(BoxError::from)
        .service(http());
    let response = resilience.oneshot(get_map(&server)).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(server.counts().connections, all);

    let server = failing().await;
    let client = middleware(FAILURES as u32);
    let response = client.get(get_map_url(&server)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(server.counts().connections, all);

    let server = failing().await;
    let ours = ServiceBuilder::new()
        .layer(RetryLayer::new(ours(FAILURES as u32 + 1)))
        .map_err(BoxError::from)
        .service(http());
    assert_eq!(ours.oneshot(get_map(&server)).await.unwrap().status(), 200);
    assert!(server.counts().connections <= 2);
}

#[tokio::test]
async fn a_200_that_holds_an_exception_is_good_or_repeated() {
    let report = || {
        Fault::exception(
            Exception::new(
                Form::Report130,
                "msDrawMap(): Image handling error. Database connection failed",
            )
            .status(200),
        )
    };
    let failing = || start(Script::default().first([report()]));

    let server = failing().await;
    let tower = ServiceBuilder::new()
        .layer(RetryLayer::new(Repeats(3)))
        .map_err(BoxError::from)
        .service(http());
    let body = tower.oneshot(get_map(&server)).await.unwrap().into_body();
    let body = body.collect().await.unwrap().to_bytes();
    assert!(
        body.starts_with(b"<?xml"),
        "the report, as if it were a map"
    );

    let server = failing().await;
    let resilience = ServiceBuilder::new()
        .layer(resilience(4))
        .map_err(BoxError::from)
        .service(http());
    let response = resilience.oneshot(get_map(&server)).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"<?xml"));

    let server = failing().await;
    let response = middleware(3)
        .get(get_map_url(&server))
        .send()
        .await
        .unwrap();
    assert!(response.bytes().await.unwrap().starts_with(b"<?xml"));

    let ours = || {
        ServiceBuilder::new()
            .layer(RetryLayer::new(ours(4)))
            .layer(ServiceExceptionLayer::new())
            .map_err(BoxError::from)
            .service(http())
    };
    let server = failing().await;
    let response = ours().oneshot(get_map(&server)).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body == tile().png());
    assert_eq!(server.counts().requests, 2);

    // And where a repeat cannot help, there is none.
    let wrong = Exception::new(Form::Report130, "no such layer").code("LayerNotDefined");
    let server = always(Fault::exception(wrong.status(200))).await;
    let error = ours().oneshot(get_map(&server)).await.unwrap_err();
    let code = find::<ServiceException>(&error).and_then(ServiceException::code);
    assert_eq!(code, Some("LayerNotDefined"));
    assert_eq!(server.counts().requests, 1);
}

#[tokio::test]
async fn a_retry_that_ends_says_nothing_or_what_was_tried() {
    let server = always(Fault::status(502).body("")).await;
    let tower = ServiceBuilder::new()
        .layer(RetryLayer::new(Repeats(2)))
        .map_err(BoxError::from)
        .service(http());
    // The last answer: nothing tells it from the first one's.
    assert_eq!(tower.oneshot(get_map(&server)).await.unwrap().status(), 502);
    let resilience = ServiceBuilder::new()
        .layer(resilience(3))
        .map_err(BoxError::from)
        .service(http());
    let last = resilience.oneshot(get_map(&server)).await.unwrap();
    assert_eq!(last.status(), 502);
    let last = middleware(2).get(get_map_url(&server)).send().await;
    assert_eq!(last.unwrap().status(), 502);
    assert_eq!(server.counts().requests, 9);

    // Where it was an error, reqwest-retry tells how often it was tried.
    let gone = start(Script::default()).await;
    let url = get_map_url(&gone);
    gone.shutdown().await;
    let error = middleware(2).get(&url).send().await.unwrap_err();
    let reqwest_middleware::Error::Middleware(error) = error else {
        panic!("{error}");
    };
    assert!(matches!(
        error.downcast_ref(),
        Some(RetryError::WithRetries { retries: 2, .. })
    ));

    let ours = ServiceBuilder::new()
        .layer(RetryLayer::new(ours(3)))
        .map_err(BoxError::from)
        .service(http());
    let last = ours.clone().oneshot(get_map(&server)).await.unwrap();
    let gave_up = last.extensions().get::<GaveUp>().unwrap();
    let causes: Vec<_> = gave_up
        .attempts()
        .iter()
        .map(|tried| tried.cause())
        .collect();
    assert_eq!(causes, [&Cause::Status(last.status()); 3]);
    assert_eq!(gave_up.reason(), StopReason::Attempts);
    let error = ours.oneshot(get(url)).await.unwrap_err();
    let gave_up = find::<GaveUp>(&error).unwrap();
    assert_eq!(gave_up.attempts()[2].cause(), &Cause::Refused);
}

#[tokio::test]
async fn an_error_prints_the_key_in_the_url_or_not() {
    let gone = start(Script::default()).await;
    let url = format!("{}&token=S3cretKey", get_map_url(&gone));
    gone.shutdown().await;
    let theirs = middleware(1).get(&url).send().await.unwrap_err();
    assert!(format!("{theirs:?}").contains("S3cretKey"));

    let client = reqwest::Client::builder().no_proxy();
    let client = tower_spatial::client::reqwest::ReqwestClient::build(client).unwrap();
    let ours = ServiceBuilder::new()
        .layer(RetryLayer::new(ours(2)))
        .service(client);
    let error = ours.oneshot(get(&url)).await.unwrap_err();
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
    while let Some(error) = next {
        assert!(!format!("{error} {error:?}").contains("S3cretKey"));
        next = error.source();
    }
}
