//! The circuit breaker.

use tokio::task::JoinSet;
use tower::{Layer, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    BreakerSettings, BreakerState, CircuitBreakerLayer, CircuitOpen, ConcurrencyLimitLayer,
    Deadline, Endpoint, EndpointSettings, Endpoints, OnOpen,
    call::Cause,
    exception::{ServiceExceptionError, ServiceExceptionLayer},
    find,
    replay::ReplayBody,
    retry::{GaveUp, RetryPolicy, StopReason},
};

use super::*;

fn breaker(on_open: OnOpen, host: &Host) -> (Client, Endpoints) {
    let endpoints = Endpoints::default();
    (over(&endpoints, on_open, host), endpoints)
}

fn over(endpoints: &Endpoints, on_open: OnOpen, host: &Host) -> Client {
    let layer = CircuitBreakerLayer::new(endpoints.clone()).on_open(on_open);
    boxed(layer.queue_timeout(24 * HOUR).layer(host.clone()))
}

fn endpoint(endpoints: &Endpoints) -> Arc<Endpoint> {
    endpoints.find(&"http://tiles.example/".parse().unwrap())
}

fn state(endpoints: &Endpoints) -> BreakerState {
    at(endpoints).breaker
}

fn is_open(endpoints: &Endpoints) -> bool {
    matches!(state(endpoints), BreakerState::Open { .. })
}

/// Until it is open.
async fn trip(client: &Client) {
    for _ in 0..5 {
        ask(client, "/").await.unwrap_err();
    }
}

/// As many calls at once, one a task.
fn spawn(calls: usize, client: &Client) -> JoinSet<Result<(http::StatusCode, Bytes), BoxError>> {
    let mut tasks = JoinSet::new();
    for _ in 0..calls {
        let client = client.clone();
        tasks.spawn(async move { ask(&client, "/").await });
    }
    tasks
}

#[tokio::test(start_paused = true)]
async fn after_five_refusals_it_refuses_at_once() {
    let host = Host::new(|_, _| Act::refused());
    let (client, endpoints) = breaker(OnOpen::Fail, &host);
    for n in 0..5 {
        assert_eq!(state(&endpoints), BreakerState::Closed, "{n}");
        let error = ask(&client, "/").await.unwrap_err();
        assert!(find::<CircuitOpen>(&error).is_none(), "{n}");
    }
    let start = Instant::now();
    for _ in 0..100 {
        let error = ask(&client, "/").await.unwrap_err();
        let open = find::<CircuitOpen>(&error).unwrap();
        let left = open.until().unwrap() - start;
        assert!(left >= 3 * SECOND && left <= 7 * SECOND, "{left:?}");
        assert_eq!(open.endpoint(), "tiles.example:80");
    }
    assert_eq!((start.elapsed(), host.requests()), (Duration::ZERO, 5));
    assert_eq!(at(&endpoints).trips, 1);
}

async fn through_an_outage(calls: usize, patience: Duration) {
    let back = Instant::now() + 2 * HOUR;
    let host = Host::new(move |_, _| match Instant::now() < back {
        // A probe takes a while, so that two of them would be seen together.
        true => Act::refused().after(SECOND),
        false => Act::status(200).after(SECOND),
    });
    let settings = EndpointSettings::new()
        .concurrency(16)
        .reader_patience(patience);
    let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
    let client = over(&endpoints, OnOpen::Wait, &host);
    ConcurrencyLimitLayer::new(endpoints.clone());
    trip(&client).await;
    host.seen().most_inside = 0;
    let tripped = host.requests();
    let policy = RetryPolicy::builder().budget(3 * HOUR).build().unwrap();
    let client = boxed(
        ServiceBuilder::new()
            .layer(RetryLayer::new(policy))
            .service(client),
    );
    let mut tasks = spawn(calls, &client);

    sleep(back - Instant::now() - SECOND).await;
    assert_eq!(host.most_inside(), 1, "one probe at a time");
    let probes = host.asked_at()[tripped..].to_vec();
    let gaps: Vec<_> = probes.windows(2).map(|two| two[1] - two[0]).collect();
    // 15 s and a quarter, and the probe's own second.
    assert!(
        gaps.iter()
            .all(|gap| *gap >= 4 * SECOND && *gap <= 20 * SECOND),
        "{gaps:?}"
    );
    assert!(gaps[4..].iter().all(|gap| *gap >= 12 * SECOND));
    // 7 200 s in steps of 12.25 to 19.75 s.
    assert!((360..=600).contains(&probes.len()), "{}", probes.len());
    assert_eq!(at(&endpoints).probes as usize, probes.len());
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    assert!(host.most_inside() <= 16);
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn while_a_host_is_down_one_probe_goes_for_a_hundred_calls() {
    through_an_outage(100, MINUTE / 2).await;
}

#[tokio::test(start_paused = true)]
async fn while_a_host_is_down_one_probe_goes_for_ten_thousand_calls() {
    // Who waits looks after the queue every quarter of that: for so many it is to be done in time.
    through_an_outage(10_000, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_calls_go_in_order_and_as_the_ramp_says() {
    let endpoints = Endpoints::builder()
        .defaults(EndpointSettings::new().concurrency(16))
        .build()
        .unwrap();
    let back = Instant::now() + 60 * SECOND;
    let host = Host::down_until(back, SECOND);
    let client = over(&endpoints, OnOpen::Wait, &host);
    let client = boxed(ConcurrencyLimitLayer::new(endpoints.clone()).layer(client));
    trip(&client).await;
    endpoint(&endpoints).open();
    let paths: Vec<String> = (0..200).map(|n| format!("/{n}")).collect();
    let mut tasks = JoinSet::new();
    for path in &paths {
        let (client, path) = (client.clone(), path.clone());
        tasks.spawn(async move { ask(&client, &path).await.unwrap() });
        tokio::task::yield_now().await;
    }
    sleep(back - Instant::now()).await;
    assert_eq!((host.requests(), at(&endpoints).queued), (5, 200));
    endpoint(&endpoints).close();
    host.seen().most_inside = 0;

    let mut expected = 8;
    for _ in 0..30 {
        sleep(SECOND / 2).await;
        assert!(
            host.most_inside() <= expected.min(16),
            "{}",
            host.most_inside()
        );
        assert!(at(&endpoints).in_flight <= at(&endpoints).limit);
        // By one a success.
        expected = 8 + (host.requests() - 5);
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(host.most_inside(), 16);
    assert_eq!(host.seen().paths[5..], paths);
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_never_returns_frees_its_slot_after_its_lease() {
    let host = Host::new(|n, _| match n {
        0..5 => Act::refused(),
        5 => Act::hang(),
        _ => Act::status(200),
    });
    let (client, endpoints) = breaker(OnOpen::Wait, &host);
    trip(&client).await;
    let start = Instant::now();
    let mut tasks = spawn(10, &client);
    for _ in 0..9 {
        let answered = tokio::time::timeout(HOUR, tasks.join_next()).await;
        let answered = answered.expect("the next probe goes");
        answered.unwrap().unwrap().unwrap();
    }
    let waited = host.asked_at()[6] - host.asked_at()[5];
    assert!(
        waited >= 180 * SECOND && waited <= 181 * SECOND,
        "{waited:?}"
    );
    assert!(start.elapsed() < 190 * SECOND);
    assert_eq!(state(&endpoints), BreakerState::Closed);
    assert_eq!(at(&endpoints).in_flight, 1);
    tasks.shutdown().await;
    // Cancelled after more than 30 s, but it belongs to what was before.
    assert_eq!(state(&endpoints), BreakerState::Closed);
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_or_panics_frees_its_slot_at_once() {
    for what in [What::Hangs, What::Panics] {
        let probe = Act::now(what.clone());
        let host = Host::new(move |n, _| match n {
            0..5 => Act::refused(),
            5 => probe.clone(),
            _ => Act::status(200).after(SECOND),
        });
        let (client, endpoints) = breaker(OnOpen::Wait, &host);
        trip(&client).await;
        let first = tokio::spawn({
            let client = client.clone();
            async move { ask(&client, "/").await.map(drop) }
        });
        let mut tasks = JoinSet::new();
        tokio::task::yield_now().await;
        tasks.spawn({
            let client = client.clone();
            async move { ask(&client, "/").await }
        });
        sleep(10 * SECOND).await;
        let start = Instant::now();
        match what {
            What::Hangs => {
                assert_eq!(
                    (host.requests(), state(&endpoints)),
                    (6, BreakerState::HalfOpen)
                );
                first.abort();
                tasks.join_next().await.unwrap().unwrap().unwrap();
                assert_eq!(start.elapsed(), SECOND);
            }
            _ => {
                assert!(first.await.unwrap_err().is_panic());
                tasks.join_next().await.unwrap().unwrap().unwrap();
                assert_eq!(host.asked_at()[5], host.asked_at()[6]);
            }
        }
        assert_eq!(state(&endpoints), BreakerState::Closed);
        assert_quiet(&endpoints);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_the_breaker_moved_on_changes_nothing() {
    let host = Host::new(|_, path| match path {
        "/late" => Act::status(200).after(2 * SECOND),
        "/late-failure" => Act::refused().after(100 * SECOND),
        "/well" => Act::status(200),
        _ => Act::refused().after(SECOND / 10),
    });
    let (client, endpoints) = breaker(OnOpen::Fail, &host);
    let late = spawn_path(&client, "/late");
    let failures: Vec<_> = (0..10)
        .map(|_| spawn_path(&client, "/late-failure"))
        .collect();
    trip(&client).await;
    assert!(is_open(&endpoints));
    assert!(late.await.unwrap().is_ok());
    let BreakerState::Open { probe_in } = state(&endpoints) else {
        panic!("a late success has closed it")
    };
    sleep(probe_in.unwrap()).await;
    ask(&client, "/well").await.unwrap();
    assert_eq!(state(&endpoints), BreakerState::Closed);
    for one in failures {
        one.await.unwrap().unwrap_err();
    }
    assert_eq!(
        state(&endpoints),
        BreakerState::Closed,
        "late failures have opened it"
    );
}

fn spawn_path(
    client: &Client,
    path: &'static str,
) -> tokio::task::JoinHandle<Result<(http::StatusCode, Bytes), BoxError>> {
    let client = client.clone();
    tokio::spawn(async move { ask(&client, path).await })
}

#[tokio::test(start_paused = true)]
async fn a_permanent_exception_is_a_success_of_its_host() {
    let exception = || {
        Act::status(200)
            .header("content-type", "text/xml")
            .body([Step::data(LAYER_NOT_DEFINED)])
    };
    let bad = || {
        Act::status(400)
            .header("content-type", "text/xml")
            .body([Step::data(LAYER_NOT_DEFINED)])
    };
    for act in [exception, bad] {
        let host = Host::new(move |n, _| if n % 5 == 4 { act() } else { Act::refused() });
        let endpoints = Endpoints::default();
        let layer = CircuitBreakerLayer::new(endpoints.clone());
        let client = boxed(
            ServiceBuilder::new()
                .layer(layer)
                .layer(ServiceExceptionLayer::new())
                .service(host.clone()),
        );
        for _ in 0..30 {
            let asked = tower::Service::call(&mut client.clone(), get_map()).await;
            if let Err(error) = asked {
                assert!(find::<CircuitOpen>(&error).is_none());
                if let Some(exception) = find::<ServiceExceptionError>(&error) {
                    assert_eq!(exception.exception().code(), Some("LayerNotDefined"));
                }
            }
        }
        let host = endpoints.find(&GET_MAP.parse().unwrap()).snapshot();
        assert_eq!((host.breaker, host.trips), (BreakerState::Closed, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn throttling_and_a_doubtful_500_are_neutral() {
    for status in [429, 500] {
        let host = Host::new(move |n, _| match n {
            100.. => Act::refused(),
            _ if n % 5 == 4 => Act::refused(),
            _ => Act::status(status),
        });
        let (client, endpoints) = breaker(OnOpen::Fail, &host);
        // They neither end a row of failures nor are part of one: the fifth refusal trips, whatever was in between.
        let mut asked = 0;
        while !is_open(&endpoints) {
            let _ = ask(&client, "/").await;
            asked += 1;
        }
        assert_eq!(asked, 25, "{status}");
        for _ in 0..100 {
            assert!(ask(&client, "/").await.is_err());
        }
        let only = Host::new(move |_, _| Act::status(status));
        let (client, endpoints) = breaker(OnOpen::Fail, &only);
        for _ in 0..100 {
            ask(&client, "/").await.unwrap();
        }
        assert_eq!(state(&endpoints), BreakerState::Closed, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_break_off_later_count() {
    let host = Host::new(|_, _| {
        Act::status(200).body([
            Step::Wait(SECOND),
            Step::data("half a"),
            Step::Wait(SECOND),
            Step::Fail,
        ])
    });
    let (client, endpoints) = breaker(OnOpen::Fail, &host);
    // Each one succeeds with its first frame, and then fails: ten of them in a row no longer do.
    let mut asked = 0;
    while !is_open(&endpoints) && asked < 50 {
        let calls = futures_join((0..10).map(|_| ask(&client, "/"))).await;
        assert!(calls.iter().all(Result::is_err));
        asked += 10;
    }
    assert_eq!(asked, 10);

    // Those that fail before their first frame are failures and nothing else.
    let host = Host::new(|_, _| Act::status(200).body([Step::Fail]));
    let (client, endpoints) = breaker(OnOpen::Fail, &host);
    trip(&client).await;
    assert!(is_open(&endpoints));
}

#[tokio::test(start_paused = true)]
async fn a_call_cancelled_young_says_nothing_and_an_old_one_counts() {
    let host = Host::new(|_, _| Act::hang());
    for (after, counts) in [(30 * SECOND, false), (31 * SECOND, true)] {
        let (client, endpoints) = breaker(OnOpen::Fail, &host);
        for _ in 0..5 {
            tokio::time::timeout(after, ask(&client, "/"))
                .await
                .unwrap_err();
        }
        assert_eq!(is_open(&endpoints), counts, "{after:?}");
    }
    // Where answers take 40 s, 79 s is no sign of a host that hangs.
    let slow = Host::new(|n, _| match n {
        0..20 => Act::status(200).after(40 * SECOND),
        _ => Act::hang(),
    });
    let (client, endpoints) = breaker(OnOpen::Fail, &slow);
    futures_join((0..20).map(|_| ask(&client, "/"))).await;
    for (after, counts) in [(75 * SECOND, false), (90 * SECOND, true)] {
        for call in
            futures_join((0..10).map(|_| tokio::time::timeout(after, ask(&client, "/")))).await
        {
            call.unwrap_err();
        }
        assert_eq!(is_open(&endpoints), counts, "{after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_operator_opens_closes_and_resets() {
    let host = Host::new(|_, _| Act::status(200).after(SECOND));
    let (fails, endpoints) = breaker(OnOpen::Fail, &host);
    let waits = over(&endpoints, OnOpen::Wait, &host);
    let under_way = spawn_path(&fails, "/");
    tokio::task::yield_now().await;
    endpoint(&endpoints).open();
    assert_eq!(state(&endpoints), BreakerState::Open { probe_in: None });
    under_way
        .await
        .unwrap()
        .expect("what is on its way goes on");
    let error = ask(&fails, "/").await.unwrap_err();
    assert_eq!(find::<CircuitOpen>(&error).unwrap().until(), None);

    let waiting = spawn_path(&waits, "/");
    sleep(5 * HOUR).await;
    assert_eq!(
        (host.requests(), at(&endpoints).queued),
        (1, 1),
        "no probe goes"
    );
    endpoint(&endpoints).close();
    let start = Instant::now();
    waiting.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), SECOND, "woken by the order");
    assert_eq!(at(&endpoints).closed_for, 5 * HOUR + SECOND);

    endpoint(&endpoints).open();
    let waiting = spawn_path(&waits, "/");
    sleep(SECOND).await;
    endpoint(&endpoints).reset();
    waiting.await.unwrap().unwrap();
    assert_eq!(state(&endpoints), BreakerState::Closed);
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn an_operators_order_outlives_the_eviction_of_idle_hosts() {
    let host = Host::new(|_, _| Act::status(200));
    let (client, endpoints) = breaker(OnOpen::Fail, &host);
    let other = |name: &str| -> http::Uri { format!("http://{name}.example/").parse().unwrap() };
    // The first host is kept anyway.
    endpoints.find(&other("first"));
    endpoint(&endpoints).open();
    for n in 0..12 {
        sleep(5 * MINUTE).await;
        endpoints.find(&other(&format!("host-{n}")));
    }
    let error = ask(&client, "/").await.unwrap_err();
    assert!(find::<CircuitOpen>(&error).is_some());
    assert_eq!(host.requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_behind_a_limit_leave_when_the_breaker_opens() {
    let endpoints = Endpoints::builder()
        .defaults(EndpointSettings::new().concurrency(5))
        .build()
        .unwrap();
    let host = Host::new(|_, _| Act::refused().after(10 * SECOND));
    let client = over(&endpoints, OnOpen::Fail, &host);
    ConcurrencyLimitLayer::new(endpoints.clone());
    let mut calls = spawn(50, &client);
    sleep(10 * SECOND + SECOND / 10).await;
    // Four had gone before the fifth refusal.
    assert_eq!(
        (host.requests(), at(&endpoints).queued, calls.len()),
        (9, 0, 50)
    );
    let mut left = 0;
    while let Some(Ok(call)) = calls.try_join_next() {
        left += usize::from(find::<CircuitOpen>(&call.unwrap_err()).is_some());
    }
    assert_eq!((left, calls.len()), (41, 4));
    while calls.join_next().await.is_some() {}
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_behind_a_limit_leave_when_an_operator_opens_the_breaker() {
    let endpoints = Endpoints::builder()
        .defaults(EndpointSettings::new().concurrency(1))
        .build()
        .unwrap();
    let host = Host::new(|_, _| Act::status(200).after(MINUTE));
    let client = over(&endpoints, OnOpen::Fail, &host);
    ConcurrencyLimitLayer::new(endpoints.clone());
    let mut calls = spawn(50, &client);
    sleep(SECOND).await;
    endpoint(&endpoints).open();
    let start = Instant::now();
    for _ in 0..49 {
        let left = calls.join_next().await.unwrap().unwrap().unwrap_err();
        assert_eq!(find::<CircuitOpen>(&left).unwrap().until(), None);
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    calls.join_next().await.unwrap().unwrap().unwrap();
    assert_quiet(&endpoints);
}

fn retrying<B>(
    endpoints: &Endpoints,
    host: &Host,
    policy: RetryPolicy,
) -> impl Service<Request<B>, Response: Send, Error = BoxError, Future: Send> + Clone
where
    B: tower_spatial::replay::RepeatableBody + Send + Sync + 'static,
{
    ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .layer(CircuitBreakerLayer::new(endpoints.clone()))
        .service(host.clone())
}

#[tokio::test(start_paused = true)]
async fn a_retry_sleeps_until_the_breaker_lets_a_probe_go() {
    let back = Instant::now() + 20 * SECOND;
    let host = Host::down_until(back, Duration::ZERO);
    let (client, endpoints) = breaker(OnOpen::Fail, &host);
    trip(&client).await;
    let BreakerState::Open {
        probe_in: Some(probe_in),
    } = state(&endpoints)
    else {
        panic!("open")
    };
    let start = Instant::now();
    let policy = RetryPolicy::builder()
        .base(SECOND)
        .cap(2 * SECOND)
        .build()
        .unwrap();
    retrying(&endpoints, &host, policy)
        .oneshot(get("/"))
        .await
        .unwrap();
    let probes = &host.asked_at()[5..];
    assert!(probes[0] - start >= probe_in && probes[0] - start <= probe_in + 2 * SECOND);
    assert!(probes.len() <= 5, "{probes:?}");
    assert!(start.elapsed() <= 40 * SECOND);
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn a_retry_that_cannot_wait_so_long_ends_at_once() {
    let host = Host::new(|_, _| Act::refused());
    let (client, endpoints) = breaker(OnOpen::Fail, &host);
    trip(&client).await;
    let start = Instant::now();
    let short = RetryPolicy::builder().budget(2 * SECOND).build().unwrap();
    let error = retrying(&endpoints, &host, short)
        .oneshot(get("/"))
        .await
        .map(drop)
        .unwrap_err();
    let gave_up = find::<GaveUp>(&error).unwrap();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts().len()),
        (StopReason::HintTooLong, 1)
    );
    assert_eq!(gave_up.attempts()[0].cause(), &Cause::CircuitOpen);
    assert!(find::<CircuitOpen>(&error).is_some());

    let mut request = get("/");
    request.extensions_mut().insert(Deadline::after(2 * SECOND));
    let client = retrying(&endpoints, &host, RetryPolicy::default());
    let error = client.oneshot(request).await.map(drop).unwrap_err();
    assert_eq!(
        find::<GaveUp>(&error).unwrap().reason(),
        StopReason::HintTooLong
    );
    assert_eq!((start.elapsed(), host.requests()), (Duration::ZERO, 5));
}

/// Law 3.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_the_breaker_refused_is_repeated_and_reaches_its_server_once() {
    let transaction = || {
        Request::post("http://tiles.example/wfs")
            .header("content-type", "text/xml")
            .body(ReplayBody::<NoBody>::buffered(
                "<wfs:Transaction service='WFS' version='2.0.0' xmlns:wfs='http://www.opengis.net/wfs/2.0'/>",
            ))
            .unwrap()
    };
    for after in [Act::status(200), Act::status(502), Act::refused()] {
        let act = after.clone();
        let host = Host::new(move |n, _| if n < 5 { Act::refused() } else { act.clone() });
        let (client, endpoints) = breaker(OnOpen::Fail, &host);
        trip(&client).await;
        let start = Instant::now();
        let done = retrying(&endpoints, &host, RetryPolicy::default())
            .oneshot(transaction())
            .await;
        assert_eq!(host.requests(), 6, "{after:?}");
        assert!(start.elapsed() > 3 * SECOND);
        match done {
            Ok(_) => assert!(matches!(after.what, What::Answers(..))),
            Err(error) => assert_eq!(find::<GaveUp>(&error).unwrap().reason(), StopReason::Unsafe),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_share_of_failures_trips_it_where_that_was_asked_for() {
    let host = Host::new(|n, _| {
        if n % 2 == 0 {
            Act::status(502)
        } else {
            Act::status(200)
        }
    });
    let settings = BreakerSettings {
        failure_rate: Some(tower_spatial::FailureRate {
            share: 0.5,
            minimum: 20,
            window: MINUTE,
        }),
        ..BreakerSettings::default()
    };
    let layer = CircuitBreakerLayer::with(settings).unwrap();
    let endpoints = layer.endpoints().clone();
    let client = boxed(layer.layer(host.clone()));
    while !is_open(&endpoints) {
        let _ = ask(&client, "/").await;
        assert!(host.requests() <= 21);
    }
    assert!(host.requests() >= 19);
}
