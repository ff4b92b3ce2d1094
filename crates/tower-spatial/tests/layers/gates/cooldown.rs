//! The cooldown: what one answer asked for holds everybody.

use tower::{Layer, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    CooldownLayer, Deadline, EndpointSettings, Endpoints, QueueTimeout, find, retry::RetryPolicy,
};

use super::*;

fn cooldown(host: &Host) -> (Client, Endpoints) {
    let endpoints = Endpoints::default();
    let layer = CooldownLayer::new(endpoints.clone());
    (boxed(layer.layer(host.clone())), endpoints)
}

fn left(endpoints: &Endpoints) -> Duration {
    at(endpoints).cooldown.unwrap_or_default()
}

/// `hint`, and at most half a second.
fn assert_spread(left: Duration, hint: Duration) {
    assert!(
        left >= hint && left <= hint + SECOND / 2,
        "{left:?} for {hint:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn one_answer_that_asks_for_peace_holds_every_call() {
    for status in [503, 429] {
        let host = Host::new(move |n, _| match n {
            0 => Act::status(status).header("retry-after", "30"),
            _ => Act::status(200),
        });
        let (client, endpoints) = cooldown(&host);
        ask(&client, "/").await.unwrap();
        let start = Instant::now();
        assert_spread(left(&endpoints), 30 * SECOND);
        for call in futures_join((0..100).map(|_| ask(&client, "/"))).await {
            assert_eq!(call.unwrap().0, 200, "{status}");
        }
        assert_spread(start.elapsed(), 30 * SECOND);
        // A timer ends at the next full millisecond.
        let late = start.elapsed() - at(&endpoints).closed_for;
        assert!(late <= Duration::from_millis(1), "{late:?}");
        assert_quiet(&endpoints);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_only_ever_extended_and_clamped() {
    let host = Host::new(|_, path| match path {
        "/60" => Act::status(503).header("retry-after", "60").after(SECOND),
        "/10" => Act::status(503)
            .header("retry-after", "10")
            .after(2 * SECOND),
        "/90" => Act::status(503)
            .header("retry-after", "90")
            .after(3 * SECOND),
        "/day" => Act::status(503)
            .header("retry-after", "86400")
            .after(4 * SECOND),
        _ => Act::status(503)
            .header("retry-after", "-1")
            .after(5 * SECOND),
    });
    let (client, endpoints) = cooldown(&host);
    let paths = ["/60", "/10", "/90", "/day", "/"];
    let calls = tokio::spawn({
        let client = client.clone();
        async move { futures_join(paths.map(|path| ask(&client, path))).await }
    });
    for expected in [60, 59, 90, 300, 299] {
        sleep(SECOND).await;
        sleep(Duration::from_millis(1)).await;
        let left = left(&endpoints);
        let expected = SECOND * expected;
        assert!(
            left + SECOND / 100 >= expected && left <= expected + SECOND / 2,
            "{left:?} of {expected:?}"
        );
    }
    calls.await.unwrap();
    let settings = EndpointSettings::new().retry_after_max(5 * SECOND);
    let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
    let client = boxed(CooldownLayer::new(endpoints.clone()).layer(host));
    ask(&client, "/day").await.unwrap();
    assert_spread(left(&endpoints), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn processes_that_were_told_the_same_come_back_spread() {
    let host = Host::new(|_, _| Act::status(503).header("retry-after", "30"));
    let mut ends = Vec::new();
    for _ in 0..20 {
        let (client, endpoints) = cooldown(&host);
        ask(&client, "/").await.unwrap();
        ends.push(left(&endpoints));
    }
    let spread = *ends.iter().max().unwrap() - *ends.iter().min().unwrap();
    assert!(spread > SECOND / 5, "{spread:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_wait_is_known_to_be_too_long_fails_at_once_and_says_so() {
    let host = Host::new(|n, _| match n {
        0 => Act::status(503).header("retry-after", "120"),
        _ => Act::status(200),
    });
    let (client, endpoints) = cooldown(&host);
    ask(&client, "/").await.unwrap();
    let start = Instant::now();
    let mut request = get("/");
    request.extensions_mut().insert(Deadline::after(MINUTE));
    let error = client.clone().oneshot(request).await.map(drop).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("waited 0.0 s for tiles.example:80: it asked for peace for another 120."),
        "{text}"
    );
    let late = find::<QueueTimeout>(&error).unwrap();
    assert!(late.is_closed());

    let short = CooldownLayer::new(endpoints.clone()).queue_timeout(MINUTE);
    let error = ask(&boxed(short.layer(host.clone())), "/")
        .await
        .unwrap_err();
    assert!(find::<QueueTimeout>(&error).is_some());
    assert_eq!((start.elapsed(), host.requests()), (Duration::ZERO, 1));
    assert_quiet(&endpoints);
    ask(&client, "/").await.expect("who has the time waits");
}

#[tokio::test(start_paused = true)]
async fn other_hosts_are_not_delayed() {
    let host = Host::new(|n, _| match n {
        0 => Act::status(503).header("retry-after", "120"),
        _ => Act::status(200),
    });
    let (client, endpoints) = cooldown(&host);
    ask(&client, "/").await.unwrap();
    let mut waiting = Task::new(Box::pin(ask(&client, "/")));
    assert!(waiting.poll().is_pending());
    let start = Instant::now();
    for other in [
        "http://other.example/",
        "https://tiles.example/",
        "http://tiles.example:8080/",
    ] {
        let request = Request::get(other).body(NoBody::new()).unwrap();
        client.clone().oneshot(request).await.unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    drop(waiting);
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn what_a_cache_kept_is_not_believed() {
    let host = Host::new(|_, _| {
        Act::status(503)
            .header("retry-after", "120")
            .header("age", "60")
    });
    let (client, endpoints) = cooldown(&host);
    for _ in 0..3 {
        ask(&client, "/").await.unwrap();
    }
    assert_eq!(at(&endpoints).cooldown, None);
}

#[tokio::test(start_paused = true)]
async fn a_retry_and_the_cooldown_wait_for_the_same_and_not_twice() {
    let host = Host::new(|n, _| match n {
        0 => Act::status(503).header("retry-after", "30"),
        _ => Act::status(200),
    });
    let endpoints = Endpoints::default();
    let client = boxed(
        ServiceBuilder::new()
            .layer(RetryLayer::new(RetryPolicy::default()))
            .layer(CooldownLayer::new(endpoints.clone()))
            .service(host.clone()),
    );
    let start = Instant::now();
    assert_eq!(ask(&client, "/").await.unwrap().0, 200);
    let elapsed = start.elapsed();
    assert!(
        elapsed >= 30 * SECOND && elapsed <= 31 * SECOND + SECOND / 2,
        "{elapsed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_operator_ends_it() {
    let host = Host::new(|n, _| match n {
        0 => Act::status(503).header("retry-after", "300"),
        _ => Act::status(200),
    });
    let (client, endpoints) = cooldown(&host);
    ask(&client, "/").await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { ask(&client, "/").await }
    });
    sleep(SECOND).await;
    let start = Instant::now();
    endpoints
        .find(&"http://tiles.example/".parse().unwrap())
        .close();
    waiting.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}
