//! Several layers of one `Endpoints`.

use tower::{Layer, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    BreakerState, CircuitBreakerLayer, CircuitOpen, ConcurrencyLimitLayer, CooldownLayer,
    EndpointSettings, Endpoints, OnOpen, QueueTimeout, Quota, RateLimitLayer, SpatialLayer, find,
    retry::RetryPolicy, timeout::deadline::DeadlineLayer,
};

use super::*;

fn one_at_a_time() -> Endpoints {
    let settings = EndpointSettings::new().concurrency(1).queue_timeout(MINUTE);
    Endpoints::builder().defaults(settings).build().unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Gate {
    Breaker,
    Cooldown,
    Limit,
    Deadline,
    Retry,
}

/// The first of `gates` is the outermost.
fn stacked(gates: &[Gate], endpoints: &Endpoints, host: Host) -> Client {
    gates
        .iter()
        .rev()
        .fold(boxed(host), |inner, gate| match gate {
            Gate::Breaker => boxed(
                CircuitBreakerLayer::new(endpoints.clone())
                    .on_open(OnOpen::Wait)
                    .layer(inner),
            ),
            Gate::Cooldown => boxed(CooldownLayer::new(endpoints.clone()).layer(inner)),
            Gate::Limit => boxed(ConcurrencyLimitLayer::new(endpoints.clone()).layer(inner)),
            Gate::Deadline => boxed(DeadlineLayer::after(HOUR).layer(inner)),
            Gate::Retry => boxed(
                ServiceBuilder::new()
                    .layer(RetryLayer::new(RetryPolicy::default()))
                    .service(inner),
            ),
        })
}

fn orders(of: &[Gate]) -> Vec<Vec<Gate>> {
    match of {
        [] => vec![vec![]],
        _ => of
            .iter()
            .flat_map(|first| {
                let rest: Vec<Gate> = of.iter().copied().filter(|gate| gate != first).collect();
                orders(&rest).into_iter().map(move |mut order| {
                    order.insert(0, *first);
                    order
                })
            })
            .collect(),
    }
}

#[tokio::test(start_paused = true)]
async fn in_every_order_of_stacking_a_call_is_admitted_once() {
    let all = [
        Gate::Breaker,
        Gate::Cooldown,
        Gate::Limit,
        Gate::Deadline,
        Gate::Retry,
    ];
    for order in orders(&all) {
        let endpoints = one_at_a_time();
        // The first attempt fails, so that the retry clones the request.
        let host = Host::new(|n, _| Act::status(if n == 0 { 502 } else { 200 }));
        let client = stacked(&order, &endpoints, host.clone());
        let response = tokio::time::timeout(MINUTE, client.clone().oneshot(get("/")))
            .await
            .unwrap_or_else(|_| panic!("{order:?} waits for itself"))
            .unwrap_or_else(|error| panic!("{order:?}: {error}"));
        assert_eq!(at(&endpoints).in_flight, 1, "{order:?}");
        response.into_body().collect().await.unwrap();
        assert_quiet(&endpoints);
        assert_eq!((host.requests(), host.most_inside()), (2, 1), "{order:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_layer_further_inside_still_sets_its_deadline() {
    let endpoints = one_at_a_time();
    let host = Host::new(|_, _| Act::hang());
    let client = boxed(DeadlineLayer::after(5 * SECOND).layer(boxed(host)));
    let client = CooldownLayer::new(endpoints.clone()).layer(client);
    let client = boxed(CircuitBreakerLayer::new(endpoints.clone()).layer(client));
    let start = Instant::now();
    let asked = tokio::time::timeout(MINUTE, ask(&client, "/")).await;
    asked.expect("the deadline ends it").unwrap_err();
    assert_eq!(start.elapsed(), 5 * SECOND);
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn each_layer_alone_does_only_its_own() {
    let down = || Host::new(|_, _| Act::refused());
    let paused = || Host::new(|_, _| Act::status(503).header("retry-after", "30"));
    let slow = || Host::new(|_, _| Act::status(200).after(SECOND));
    let run = async |client: &Client| {
        let start = Instant::now();
        let calls = (0..20).map(|_| ask(client, "/"));
        let done = futures_join(calls).await;
        (start.elapsed(), done)
    };

    for gate in [Gate::Cooldown, Gate::Limit] {
        let host = down();
        let client = stacked(&[gate], &one_at_a_time(), host.clone());
        run(&client).await;
        assert_eq!(host.requests(), 20, "{gate:?} has no breaker");
    }
    for gate in [Gate::Breaker, Gate::Limit] {
        let host = paused();
        let client = stacked(&[gate], &one_at_a_time(), host.clone());
        assert_eq!(
            run(&client).await.0,
            Duration::ZERO,
            "{gate:?} has no cooldown"
        );
        assert_eq!(host.requests(), 20);
    }
    for gate in [Gate::Breaker, Gate::Cooldown] {
        let host = slow();
        let client = stacked(&[gate], &one_at_a_time(), host.clone());
        assert_eq!(run(&client).await.0, SECOND, "{gate:?} has no limit");
        assert_eq!(host.most_inside(), 20);
    }
    let host = slow();
    let client = stacked(&[Gate::Limit], &one_at_a_time(), host.clone());
    assert_eq!(run(&client).await.0, 20 * SECOND);
    assert_eq!(host.most_inside(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_is_built_later_takes_effect() {
    let endpoints = one_at_a_time();
    let host = Host::new(|_, path| match path {
        "/slow" => Act::status(200).after(10 * SECOND),
        _ => Act::status(503).header("retry-after", "30"),
    });
    let client = stacked(&[Gate::Breaker], &endpoints, host.clone());
    ask(&client, "/").await.unwrap();
    assert_eq!(at(&endpoints).cooldown, None);
    let before: Vec<_> = (0..2)
        .map(|_| tokio::spawn(oneshot(client.clone(), "/slow")))
        .collect();
    sleep(SECOND).await;
    assert_eq!(at(&endpoints).in_flight, 2);

    let limited = stacked(&[Gate::Limit, Gate::Cooldown], &endpoints, host.clone());
    let start = Instant::now();
    let third = tokio::spawn(oneshot(limited.clone(), "/slow"));
    sleep(SECOND).await;
    assert_eq!(at(&endpoints).queued, 1, "two are in flight, one may be");
    third.await.unwrap().unwrap();
    assert_eq!(
        start.elapsed(),
        19 * SECOND,
        "9 s until they are through, then its own 10"
    );
    for one in before {
        one.await.unwrap().unwrap();
    }
    // The stack of before goes by the new gates too.
    ask(&client, "/").await.unwrap();
    let asked = Instant::now();
    ask(&client, "/slow").await.unwrap();
    assert!(asked.elapsed() >= 40 * SECOND);
    assert_quiet(&endpoints);
}

async fn oneshot(
    client: Client,
    path: &'static str,
) -> Result<(http::StatusCode, Bytes), BoxError> {
    ask(&client, path).await
}

#[tokio::test(start_paused = true)]
async fn two_stacks_of_one_endpoints_share_what_they_know() {
    let endpoints = one_at_a_time();
    let down = Host::new(|_, _| Act::refused());
    let one = CircuitBreakerLayer::new(endpoints.clone()).layer(down);
    let one = boxed(ConcurrencyLimitLayer::new(endpoints.clone()).layer(one));
    let well = Host::new(|_, _| Act::status(200).after(SECOND));
    let other = boxed(CircuitBreakerLayer::new(endpoints.clone()).layer(well.clone()));
    for _ in 0..5 {
        ask(&one, "/").await.unwrap_err();
    }
    let error = ask(&other, "/").await.unwrap_err();
    assert!(find::<CircuitOpen>(&error).is_some());
    assert_eq!(well.requests(), 0);
    assert!(matches!(at(&endpoints).breaker, BreakerState::Open { .. }));

    endpoints
        .find(&"http://tiles.example/".parse().unwrap())
        .reset();
    let start = Instant::now();
    let both = futures_join([ask(&other, "/"), ask(&other, "/")]).await;
    assert!(both.iter().all(Result::is_ok));
    assert_eq!(start.elapsed(), 2 * SECOND, "one limit for both");
}

/// A stack that shares its endpoints with one that keeps a rate, and keeps none itself.
#[tokio::test(start_paused = true)]
async fn the_budget_begins_with_the_admission_where_only_another_stack_keeps_the_rate() {
    let settings = EndpointSettings::new()
        .concurrency(1)
        .queue_timeout(HOUR)
        .rate([Quota::new(1_000, SECOND).unwrap()]);
    let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
    RateLimitLayer::new(endpoints.clone());
    let host = Host::new(|request, _| match request {
        0 => Act::status(200).after(MINUTE),
        1 => Act::refused(),
        _ => Act::status(200),
    });
    let policy = RetryPolicy::builder().budget(30 * SECOND).build().unwrap();
    let layer = SpatialLayer::new(endpoints).rate(None).retry(policy);
    let client = boxed(layer.layer(host));
    let first = tokio::spawn(oneshot(client.clone(), "/"));
    sleep(SECOND).await;
    // A minute in the queue, a failure, and a repeat.
    assert_eq!(ask(&client, "/").await.unwrap().0, 200);
    first.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_too_long_says_for_what() {
    let endpoints = one_at_a_time();
    let host = Host::new(|_, _| Act::hang());
    let client = stacked(&[Gate::Breaker, Gate::Limit], &endpoints, host);
    let hung = tokio::spawn(oneshot(client.clone(), "/"));
    sleep(SECOND).await;
    let error = ask(&client, "/").await.unwrap_err();
    let late = find::<QueueTimeout>(&error).unwrap();
    assert_eq!((late.waited(), late.is_closed()), (MINUTE, false));
    hung.abort();
}
