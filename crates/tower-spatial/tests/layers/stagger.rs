//! The spread of first attempts after a start.

use std::{
    convert::Infallible,
    future::{Ready, poll_fn},
    pin::pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response};
use tokio::time::{Instant, sleep, timeout};
use tower::{
    Layer, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer, retry::RetryLayer,
};
use tower_spatial::{Deadline, call::TooLate, find, retry::RetryPolicy, stagger::StaggerLayer};

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn calls_that_are_all_there_at_the_start_are_spread_evenly_over_the_window() {
    let server = Server::new([Reply::status(200)]);
    let client = StaggerLayer::new(10 * SECOND).layer(server.clone());
    let start = Instant::now();
    let calls: Vec<_> = (0..2_000)
        .map(|_| tokio::spawn(client.clone().oneshot(get_map())))
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let asked_at = server.asked_at.lock().unwrap();
    for tenth in 0..10 {
        let within = |at: &&Instant| (**at - start).as_secs() == tenth;
        let count = asked_at.iter().filter(within).count();
        // 200 are expected, with a deviation of 13.4.
        assert!((120..280).contains(&count), "{count} in second {tenth}");
    }
    assert!(start.elapsed() <= 10 * SECOND + Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn a_later_call_waits_for_a_share_of_what_is_left_and_after_the_window_none_does() {
    let client = StaggerLayer::new(10 * SECOND).layer(Server::new([Reply::status(200)]));
    sleep(9 * SECOND).await;
    for _ in 0..20 {
        let client = client.clone();
        tokio::spawn(async move {
            let start = Instant::now();
            client.oneshot(get_map()).await.unwrap();
            assert!(start.elapsed() <= SECOND + Duration::from_millis(1));
        });
    }
    sleep(SECOND).await;
    let start = Instant::now();
    for _ in 0..20 {
        client.clone().oneshot(get_map()).await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn without_a_window_nothing_waits_and_readiness_is_that_of_the_service_below() {
    for layer in [
        StaggerLayer::default(),
        StaggerLayer::new(Duration::ZERO),
        StaggerLayer::new(Duration::MAX),
    ] {
        let mut client = layer.layer(Unready);
        let start = Instant::now();
        assert!(
            timeout(SECOND, ServiceExt::<Request<()>>::ready(&mut client))
                .await
                .is_err()
        );
        let client = layer.layer(Server::new([Reply::status(200)]));
        client.oneshot(get_map()).await.unwrap();
        assert_eq!(start.elapsed(), SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_within_the_window_leaves_half_of_its_time_for_the_work() {
    let client = StaggerLayer::new(3_600 * SECOND).layer(Server::new([Reply::status(200)]));
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let mut request = get_map();
            request
                .extensions_mut()
                .insert(Deadline::after(10 * SECOND));
            let client = client.clone();
            tokio::spawn(async move {
                let start = Instant::now();
                client.oneshot(request).await.unwrap();
                start.elapsed()
            })
        })
        .collect();
    let mut longest = Duration::ZERO;
    for call in calls {
        longest = longest.max(call.await.unwrap());
    }
    assert!(
        longest <= 5 * SECOND + Duration::from_millis(1),
        "{longest:?}"
    );
    assert!(longest > 4 * SECOND, "{longest:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_wakes_after_its_deadline_is_not_made() {
    let server = Server::new([Reply::status(200)]);
    let client = StaggerLayer::new(3_600 * SECOND).layer(server.clone());
    let mut request = get_map();
    request
        .extensions_mut()
        .insert(Deadline::after(10 * SECOND));
    let mut call = pin!(client.oneshot(request));
    let first = poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
    assert!(first.is_pending());
    tokio::time::advance(3_600 * SECOND).await;
    let error = call.await.unwrap_err();
    assert!(find::<TooLate>(&error).is_some());
    assert_eq!(server.requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_repeat_is_not_delayed_again() {
    let server = Server::new([
        Reply::status(503).header("retry-after", "1"),
        Reply::status(200),
    ]);
    let window = 100_000 * SECOND;
    let policy = RetryPolicy::builder()
        .base(Duration::from_millis(1))
        .budget(3 * SECOND)
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .layer(StaggerLayer::new(window))
        .layer(RetryLayer::new(policy))
        .service(server.clone());
    client.oneshot(get_map()).await.unwrap();
    let asked_at = server.asked_at.lock().unwrap();
    assert!(asked_at[1] - asked_at[0] < 2 * SECOND);
}

/// tower's limit holds a permit from `poll_ready` on.
#[tokio::test(start_paused = true)]
async fn no_readiness_below_is_held_while_waiting() {
    let limit = ConcurrencyLimitLayer::new(1);
    let client = ServiceBuilder::new()
        .layer(StaggerLayer::new(10_000 * SECOND))
        .layer(limit)
        .service(Server::new([Reply::status(200)]));
    let calls: Vec<_> = (0..50)
        .map(|_| tokio::spawn(client.clone().oneshot(get_map())))
        .collect();
    let start = Instant::now();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert!(start.elapsed() <= 10_001 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_service_below_is_bounded() {
    let client = StaggerLayer::new(SECOND).layer(Unready);
    let start = Instant::now();
    let call = client.clone().oneshot(Request::new(()));
    let error = timeout(3_600 * SECOND, call).await.unwrap().unwrap_err();
    assert!(find::<TooLate>(&error).is_some());
    assert!(start.elapsed() <= 602 * SECOND);

    let client = StaggerLayer::new(SECOND).layer(Unready);
    let mut request = Request::new(());
    request.extensions_mut().insert(Deadline::after(5 * SECOND));
    let start = Instant::now();
    client.oneshot(request).await.unwrap_err();
    assert!(start.elapsed() <= 5 * SECOND + Duration::from_millis(1));
}

/// Never ready, and not to be called.
#[derive(Clone)]
struct Unready;

impl Service<Request<()>> for Unready {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Pending
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        panic!("called unready")
    }
}
