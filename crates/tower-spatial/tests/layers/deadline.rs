//! The caller's deadline.

use std::time::Duration;

use http_body_util::BodyExt;
use tokio::time::Instant;
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer, service_fn};
use tower_spatial::{
    Deadline, find,
    retry::{GaveUp, RetryPolicy, StopReason},
    timeout::deadline::{DeadlineElapsed, DeadlineLayer},
};

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_deadline_in_mid_attempt_says_what_was_tried_before() {
    let server = Server::new([Reply::status(503), Reply::status(502), Reply::Hang]);
    let client = ServiceBuilder::new()
        .layer(DeadlineLayer::new())
        .layer(RetryLayer::new(RetryPolicy::default()))
        .service(server);
    let mut request = get_map();
    let start = Instant::now();
    request
        .extensions_mut()
        .insert(Deadline::after(30 * SECOND));
    let error = client.oneshot(request).await.unwrap_err();
    assert_eq!(start.elapsed(), 30 * SECOND);
    let gave_up = find::<GaveUp>(&error).unwrap();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts().len()),
        (StopReason::Deadline, 2)
    );
    assert!(find::<DeadlineElapsed>(&error).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_cuts_the_body_too_even_one_that_never_waits() {
    for step in [Step::Hang, Step::Wait(10 * SECOND)] {
        let server = service_fn(move |_: http::Request<NoBody>| {
            let body = Scripted::new([
                Step::data("a"),
                step.clone(),
                Step::data("b"),
                step.clone(),
                Step::data("c"),
            ]);
            async { Ok::<_, BoxError>(answer(200, "image/tiff", body)) }
        });
        let client = ServiceBuilder::new()
            .layer(DeadlineLayer::after(15 * SECOND))
            .service(server);
        let start = Instant::now();
        let mut body = client.oneshot(get_map()).await.unwrap().into_body();
        let error = loop {
            let frame = tokio::time::timeout(3600 * SECOND, body.frame()).await;
            match frame.expect("it is cut").expect("the deadline comes first") {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(find::<DeadlineElapsed>(&error).is_some());
        assert_eq!(start.elapsed(), 15 * SECOND);
        assert!(body.frame().await.is_none(), "it has ended");
    }
    let ready = service_fn(|_: http::Request<NoBody>| async {
        Ok::<_, BoxError>(answer(
            200,
            "image/tiff",
            Scripted::frames(std::iter::repeat_n("x", 1_000)),
        ))
    });
    let client = ServiceBuilder::new()
        .layer(DeadlineLayer::after(SECOND))
        .service(ready);
    let mut body = client.oneshot(get_map()).await.unwrap().into_body();
    tokio::time::sleep(2 * SECOND).await;
    assert!(body.frame().await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_shared_by_many_requests_keeps_their_attempts_apart() {
    let client = ServiceBuilder::new()
        .layer(DeadlineLayer::new())
        .layer(RetryLayer::new(
            RetryPolicy::builder().attempts(2).build().unwrap(),
        ))
        .service(Server::new([Reply::status(503)]));
    let deadline = Deadline::after(600 * SECOND);
    for _ in 0..3 {
        let mut request = get_map();
        request.extensions_mut().insert(deadline.clone());
        let response = client.clone().oneshot(request).await.unwrap();
        assert_eq!(
            response
                .extensions()
                .get::<GaveUp>()
                .unwrap()
                .attempts()
                .len(),
            2
        );
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_nothing_is_cut() {
    let slow = service_fn(|_: http::Request<NoBody>| async {
        tokio::time::sleep(100_000 * SECOND).await;
        Ok::<_, BoxError>(answer(
            200,
            "image/png",
            Scripted::frames(["x"]).known_length(),
        ))
    });
    let response = ServiceBuilder::new()
        .layer(DeadlineLayer::new())
        .service(slow)
        .oneshot(get_map())
        .await
        .unwrap();
    assert_eq!(http_body::Body::size_hint(response.body()).exact(), Some(1));
}
