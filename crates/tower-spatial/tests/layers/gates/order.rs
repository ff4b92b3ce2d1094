//! Who goes first.

use tower::{Layer, ServiceBuilder, retry::RetryLayer};
use tower_spatial::{
    CircuitBreakerLayer, ConcurrencyLimitLayer, EndpointSettings, Endpoints, OnOpen,
    retry::RetryPolicy,
};

use super::*;

fn limited(limit: usize) -> Endpoints {
    let settings = EndpointSettings::new().concurrency(limit);
    Endpoints::builder().defaults(settings).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn who_came_first_goes_first() {
    let endpoints = limited(3);
    let host = Host::new(|n, _| Act::status(200).after(SECOND * (1 + n as u32 % 3)));
    let client = boxed(ConcurrencyLimitLayer::new(endpoints.clone()).layer(host.clone()));
    let paths: Vec<String> = (0..100).map(|n| format!("/{n}")).collect();
    let calls = futures_join(paths.iter().map(|path| ask(&client, path))).await;
    assert!(calls.iter().all(Result::is_ok));
    assert_eq!(host.seen().paths, paths);
    assert_eq!(host.most_inside(), 3);
}

/// A host of one place at which `/again` fails `failures` times, while others queue.
async fn place_of_a_retry(failures: usize) -> usize {
    let endpoints = limited(1);
    let failed = Arc::new(AtomicUsize::new(0));
    let host = Host::new(move |_, path| match path {
        "/again" if failed.fetch_add(1, Ordering::Relaxed) < failures => Act::status(502),
        _ => Act::status(200).after(100 * SECOND),
    });
    let layer = ConcurrencyLimitLayer::new(endpoints.clone()).queue_timeout(24 * HOUR);
    let client = boxed(layer.layer(host.clone()));
    let policy = RetryPolicy::builder()
        .cap(SECOND)
        .budget(24 * HOUR)
        .build()
        .unwrap();
    let retrying = boxed(
        ServiceBuilder::new()
            .layer(RetryLayer::new(policy))
            .service(client.clone()),
    );
    let again = tokio::spawn(async move { ask(&retrying, "/again").await.unwrap() });
    tokio::task::yield_now().await;
    let others: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { ask(&client, "/").await.unwrap() })
        })
        .collect();
    again.await.unwrap();
    for other in others {
        other.await.unwrap();
    }
    assert_quiet(&endpoints);
    let seen = host.seen();
    // How many others went between its last attempt and the one before.
    let attempts: Vec<usize> = (0..seen.paths.len())
        .filter(|n| seen.paths[*n] == "/again")
        .collect();
    assert_eq!(attempts.len(), failures + 1);
    attempts[failures] - attempts[failures - 1] - 1
}

#[tokio::test(start_paused = true)]
async fn the_first_three_repeats_of_a_call_go_in_front_and_later_ones_queue_like_the_rest() {
    for failures in 1..=3 {
        assert!(place_of_a_retry(failures).await <= 1, "{failures}");
    }
    // 20 wait: up to 4 are through by then.
    assert!(place_of_a_retry(4).await >= 15);
}

#[tokio::test(start_paused = true)]
async fn where_twenty_retries_have_gone_the_next_waits_for_five_seconds() {
    let endpoints = Endpoints::default();
    let host = Host::new(|n, _| match n {
        0..30 => Act::status(500),
        // Their successes earn new tokens, later.
        _ => Act::status(200).after(10 * SECOND),
    });
    let client = CircuitBreakerLayer::new(endpoints.clone())
        .on_open(OnOpen::Wait)
        .layer(host.clone());
    let policy = RetryPolicy::builder()
        .base(Duration::from_millis(1))
        .cap(Duration::from_millis(1))
        .build()
        .unwrap();
    let client = boxed(
        ServiceBuilder::new()
            .layer(RetryLayer::new(policy))
            .service(client),
    );
    let start = Instant::now();
    let calls = futures_join((0..30).map(|_| ask(&client, "/"))).await;
    assert!(calls.iter().all(|call| call.as_ref().unwrap().0 == 200));
    let repeats = &host.asked_at()[30..];
    let at_once = repeats.iter().filter(|at| **at - start < SECOND).count();
    let held = repeats
        .iter()
        .filter(|at| **at - start >= 5 * SECOND)
        .count();
    assert_eq!((at_once, held), (20, 10));
    assert!(start.elapsed() < 16 * SECOND);
    assert_quiet(&endpoints);
}
