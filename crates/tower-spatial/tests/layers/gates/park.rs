//! Budgets that stand still while a host is closed.

use tower::{Layer, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    BreakerState, CircuitBreakerLayer, ConcurrencyLimitLayer, CooldownLayer, Deadline,
    EndpointSettings, Endpoints, OnOpen, QueueTimeout, Quota, SpatialLayer, find,
    retry::{GaveUp, RetryPolicy, StopReason},
    timeout::deadline::DeadlineLayer,
};

use super::*;

fn stack(endpoints: &Endpoints, policy: RetryPolicy, host: &Host) -> Client {
    boxed(
        ServiceBuilder::new()
            .layer(DeadlineLayer::new())
            .layer(RetryLayer::new(policy))
            .layer(CircuitBreakerLayer::new(endpoints.clone()).on_open(OnOpen::Wait))
            .layer(CooldownLayer::new(endpoints.clone()))
            .layer(ConcurrencyLimitLayer::new(endpoints.clone()))
            .service(host.clone()),
    )
}

fn parking(budget: Duration, max_park: Duration) -> RetryPolicy {
    RetryPolicy::builder()
        .budget(budget)
        .park(max_park)
        .build()
        .unwrap()
}

/// Many calls, and how long each took.
async fn ask_many(
    calls: usize,
    client: &Client,
) -> Vec<(Duration, Result<(http::StatusCode, Bytes), BoxError>)> {
    let start = Instant::now();
    let tasks: Vec<_> = (0..calls)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let done = ask(&client, "/").await;
                (start.elapsed(), done)
            })
        })
        .collect();
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.unwrap());
    }
    done
}

#[tokio::test(start_paused = true)]
async fn two_hours_of_maintenance_cost_no_call_its_answer() {
    let back = Instant::now() + 2 * HOUR;
    let host = Host::down_until(back, SECOND);
    let endpoints = Endpoints::default();
    let client = stack(&endpoints, RetryPolicy::batch(), &host);
    for (took, done) in ask_many(200, &client).await {
        done.unwrap();
        // A probe within 19 s, then 200 s of work in 16 places, and a retry's sleep of up to 5 minutes.
        assert!(took <= 2 * HOUR + 6 * MINUTE, "{took:?}");
    }
    let seen = host.asked_at();
    let first_answer = *seen.iter().find(|at| **at >= back).unwrap();
    assert!(first_answer <= back + 20 * SECOND);
    assert!(host.most_inside() <= 16);
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn new_calls_too_wait_through_the_maintenance_and_are_answered_soon_after() {
    let back = Instant::now() + 2 * HOUR;
    let host = Host::down_until(back, SECOND);
    let endpoints = Endpoints::default();
    let client = stack(&endpoints, RetryPolicy::batch(), &host);
    let first = tokio::spawn({
        let client = client.clone();
        async move { ask_many(20, &client).await }
    });
    sleep(HOUR).await;
    assert!(!matches!(at(&endpoints).breaker, BreakerState::Closed));
    let late: Vec<_> = ask_many(50, &client).await;
    let well = late.iter().filter(|(_, done)| done.is_ok()).count();
    assert_eq!(well, 50);
    let soon = late
        .iter()
        .filter(|(took, _)| *took <= HOUR + MINUTE)
        .count();
    assert!(soon >= 40, "{soon}");
    first.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_parks_begins_with_the_first_admission() {
    let host = Host::new(|_, _| Act::status(200).after(10 * SECOND));
    let settings = EndpointSettings::new().concurrency(1);
    let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
    let client = stack(&endpoints, parking(60 * SECOND, 2 * HOUR), &host);
    let endpoint = endpoints.find(&"http://tiles.example/".parse().unwrap());
    endpoint.open();
    tokio::spawn(async move {
        tokio::time::sleep(HOUR).await;
        endpoint.close();
    });
    // The last of them is admitted 490 s after the host is back: more than the budget, less than the queue's 600 s.
    for (took, done) in ask_many(50, &client).await {
        assert!(done.is_ok(), "after {took:?}");
    }
    assert_quiet(&endpoints);
}

/// Their slots come while the host is closed, with their permits given back.
#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_their_slots_are_parked_too() {
    let goes_down = Instant::now() + 20 * SECOND;
    let back = goes_down + 2 * HOUR;
    let host = Host::new(move |_, _| match Instant::now() {
        now if now >= goes_down && now < back => Act::refused(),
        _ => Act::status(200).after(SECOND),
    });
    let settings = EndpointSettings::new().rate([Quota::new(1, 3 * SECOND).unwrap()]);
    let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
    let client = boxed(SpatialLayer::batch(endpoints.clone()).layer(host.clone()));
    for (took, done) in ask_many(60, &client).await {
        done.unwrap();
        assert!(took <= 2 * HOUR + 10 * MINUTE, "{took:?}");
    }
    assert_quiet(&endpoints);

    // The caller's own clock does not stand still, and neither does one that does not park.
    let host = Host::down_until(Instant::now() + HOUR, SECOND);
    let settings = EndpointSettings::new()
        .concurrency(1)
        .rate([Quota::new(1, 3 * SECOND).unwrap()]);
    for (layer, most) in [
        (SpatialLayer::new as fn(Endpoints) -> SpatialLayer, 1_220),
        (
            |endpoints| SpatialLayer::batch(endpoints).deadline(700 * SECOND),
            700,
        ),
    ] {
        let endpoints = Endpoints::builder()
            .defaults(settings.clone())
            .build()
            .unwrap();
        let client = boxed(layer(endpoints.clone()).layer(host.clone()));
        for (took, done) in ask_many(20, &client).await {
            done.unwrap_err();
            assert!(took <= most * SECOND, "{took:?}");
        }
        assert_quiet(&endpoints);
    }
}

#[tokio::test(start_paused = true)]
async fn a_strict_budget_gives_up_in_time() {
    let host = Host::new(|_, _| Act::refused());
    let endpoints = Endpoints::default();
    let strict = RetryPolicy::builder().budget(300 * SECOND).build().unwrap();
    let client = stack(&endpoints, strict, &host);
    for (took, done) in ask_many(50, &client).await {
        let error = done.unwrap_err();
        assert!(took <= 300 * SECOND, "{took:?}");
        assert!(took >= 100 * SECOND, "{took:?}: {error}");
        let is_over = find::<GaveUp>(&error).is_some_and(|one| one.reason() == StopReason::Budget);
        assert!(is_over || find::<QueueTimeout>(&error).is_some(), "{error}");
    }
    assert!(host.requests() <= 50 + 60, "{}", host.requests());
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn the_longest_park_bounds_it() {
    let host = Host::new(|_, _| Act::refused());
    let endpoints = Endpoints::default();
    let client = stack(&endpoints, parking(60 * SECOND, 2 * HOUR), &host);
    for (took, done) in ask_many(50, &client).await {
        done.unwrap_err();
        // Some were never admitted: their own bound is the queue's, 600 s, and not the budget.
        assert!(took <= 2 * HOUR + 610 * SECOND, "{took:?}");
        assert!(took >= 2 * HOUR - MINUTE, "{took:?}");
    }
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn the_longest_park_bounds_it_also_where_readers_have_all_patience() {
    let host = Host::new(|_, _| Act::refused());
    let settings = EndpointSettings::new().reader_patience(Duration::MAX);
    let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
    let client = stack(&endpoints, parking(60 * SECOND, HOUR), &host);
    // The one behind the front has no other timer.
    endpoints
        .find(&"http://tiles.example/".parse().unwrap())
        .open();
    let start = Instant::now();
    let calls = tokio::time::timeout(24 * HOUR, ask_many(3, &client))
        .await
        .expect("it ends");
    for (took, done) in calls {
        done.unwrap_err();
        assert!(took <= HOUR + 610 * SECOND, "{took:?}");
    }
    assert!(start.elapsed() >= HOUR);
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_the_queue_stands_still_while_the_host_is_closed_and_the_callers_does_not() {
    let host = Host::new(|_, _| Act::status(200));
    let settings = EndpointSettings::new().queue_timeout(60 * SECOND);
    let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
    let client = stack(&endpoints, RetryPolicy::batch(), &host);
    let endpoint = endpoints.find(&"http://tiles.example/".parse().unwrap());
    endpoint.open();
    let start = Instant::now();
    let patient = tokio::spawn({
        let client = client.clone();
        async move { ask(&client, "/").await }
    });
    let mut request = get("/");
    request
        .extensions_mut()
        .insert(Deadline::after(30 * MINUTE));
    client.clone().oneshot(request).await.map(drop).unwrap_err();
    assert_eq!(start.elapsed(), 30 * MINUTE);

    let strict = stack(&endpoints, RetryPolicy::default(), &host);
    let error = ask(&strict, "/").await.unwrap_err();
    assert_eq!(find::<QueueTimeout>(&error).unwrap().waited(), 60 * SECOND);

    sleep(HOUR).await;
    endpoint.close();
    patient.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_a_park_the_backoff_starts_anew() {
    let host = Host::new(|n, _| match n {
        0..8 => Act::status(502),
        8 => Act::status(503).header("retry-after", "120"),
        9..14 => Act::status(502),
        _ => Act::status(200),
    });
    let endpoints = Endpoints::default();
    let policy = RetryPolicy::builder()
        .base(SECOND)
        .cap(10 * MINUTE)
        .budget(HOUR)
        .park(HOUR)
        .build()
        .unwrap();
    let client = boxed(
        ServiceBuilder::new()
            .layer(DeadlineLayer::new())
            .layer(RetryLayer::new(policy))
            .layer(CooldownLayer::new(endpoints.clone()))
            .service(host.clone()),
    );
    ask(&client, "/").await.unwrap();
    let asked = host.asked_at();
    let gaps: Vec<_> = asked.windows(2).map(|two| two[1] - two[0]).collect();
    // 120 s, up to 1 s of the backoff and half a second of the cooldown.
    assert!(gaps[8] <= 122 * SECOND, "{gaps:?}");
    for (n, gap) in gaps[9..14].iter().enumerate() {
        assert!(*gap <= SECOND * 2u32.pow(n as u32 + 1), "{n}: {gaps:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_parked_with_a_millisecond_of_budget_left_does_not_wake_all_the_time() {
    let endpoints = Endpoints::default();
    let host = Host::new(|_, _| Act::status(200));
    let client = stack(
        &endpoints,
        parking(Duration::from_millis(1), 2 * HOUR),
        &host,
    );
    let endpoint = endpoints.find(&"http://tiles.example/".parse().unwrap());
    endpoint.open();
    let polls = Arc::new(AtomicUsize::new(0));
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let (client, polls) = (client.clone(), Arc::clone(&polls));
            tokio::spawn(async move {
                let mut call = Box::pin(ask(&client, "/"));
                std::future::poll_fn(|cx| {
                    polls.fetch_add(1, Ordering::Relaxed);
                    call.as_mut().poll(cx)
                })
                .await
            })
        })
        .collect();
    sleep(HOUR).await;
    let polled = polls.load(Ordering::Relaxed);
    // Every 7.5 s, and a little.
    assert!(polled <= 10 * 500, "{polled}");
    endpoint.close();
    for call in calls {
        call.await.unwrap().unwrap();
    }
}
