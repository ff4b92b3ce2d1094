//! A limit that finds itself.

use tokio::task::JoinSet;
use tower::{Layer, ServiceExt};
use tower_spatial::{
    AdaptiveSettings, CircuitBreakerLayer, ConcurrencyLimitLayer, CooldownLayer, EndpointSettings,
    Endpoints, OnOpen,
};

use super::*;

/// A host with so many cores, on each of which one answer takes 100 ms; what is more waits for a core.
fn cores(cores: usize, up: impl Fn() -> bool + Send + Sync + 'static) -> Host {
    let free_at = Mutex::new(vec![Instant::now(); cores]);
    Host::new(move |_, _| {
        if !up() {
            return Act::refused();
        }
        let now = Instant::now();
        let mut free_at = free_at.lock().unwrap();
        let first = free_at.iter_mut().min().unwrap();
        *first = (*first).max(now) + SECOND / 10;
        Act::status(200).after(*first - now)
    })
}

fn endpoints(ceiling: u32) -> Endpoints {
    let adaptive = AdaptiveSettings {
        ceiling,
        measure_in_step_with: Some(Instant::now().into_std()),
        ..AdaptiveSettings::default()
    };
    Endpoints::builder()
        .defaults(EndpointSettings::new().adaptive(adaptive))
        .build()
        .unwrap()
}

fn client(endpoints: &Endpoints, host: &Host) -> Client {
    let client = ConcurrencyLimitLayer::new(endpoints.clone()).layer(host.clone());
    let breaker = CircuitBreakerLayer::new(endpoints.clone()).on_open(OnOpen::Wait);
    boxed(breaker.layer(client))
}

/// So many callers who ask all the time. The limit, as it was once a second.
async fn load(callers: usize, seconds: u32, client: &Client, endpoints: &Endpoints) -> Vec<usize> {
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let client = client.clone();
        tasks.spawn(async move {
            loop {
                let _ = ask(&client, "/").await;
            }
        });
    }
    let mut limits = Vec::new();
    for _ in 0..seconds {
        sleep(SECOND).await;
        limits.push(at(endpoints).limit);
    }
    tasks.shutdown().await;
    limits
}

#[tokio::test(start_paused = true)]
async fn it_starts_at_four_and_grows_to_its_ceiling_while_latency_is_flat() {
    let endpoints = endpoints(32);
    let host = cores(1_000, || true);
    let client = client(&endpoints, &host);
    assert_eq!(at(&endpoints).limit, 4);
    let limits = load(64, 120, &client, &endpoints).await;
    assert!(
        limits.iter().all(|limit| (1..=32).contains(limit)),
        "{limits:?}"
    );
    assert_eq!(limits[119], 32, "{limits:?}");
    assert_eq!(host.most_inside(), 32);
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn it_shrinks_where_latency_grows_with_load() {
    let endpoints = endpoints(64);
    let wide = cores(1_000, || true);
    let client_of_wide = client(&endpoints, &wide);
    let limits = load(64, 120, &client_of_wide, &endpoints).await;
    assert!(limits[119] >= 32, "{limits:?}");
    // The same host, of which most is gone.
    let narrow = cores(8, || true);
    let client = client(&endpoints, &narrow);
    let limits = load(64, 400, &client, &endpoints).await;
    assert!(
        limits.iter().all(|limit| (1..=64).contains(limit)),
        "{limits:?}"
    );
    assert!(limits[399] <= 16, "{limits:?}");
    assert!(limits[399] >= 4, "{limits:?}");
    assert!(narrow.most_inside() <= 64);
}

#[tokio::test(start_paused = true)]
async fn it_survives_an_outage_and_comes_back_from_half() {
    let endpoints = endpoints(64);
    let start = Instant::now();
    let host = cores(16, move || {
        let since = start.elapsed();
        since < 200 * SECOND || since > 200 * SECOND + HOUR
    });
    let client = client(&endpoints, &host);
    let limits = load(64, 199, &client, &endpoints).await;
    let before = limits[198];
    assert!((8..=40).contains(&before), "{limits:?}");
    sleep(2 * SECOND).await;
    // Two callers, so that the ramp takes long enough to be seen.
    let during = load(2, 3_590, &client, &endpoints).await;
    let frozen: Vec<_> = during[60..3_500].to_vec();
    assert!(
        frozen.windows(2).all(|two| two[0] == two[1]),
        "frozen while open"
    );
    let endpoint = endpoints.find(&"http://tiles.example/".parse().unwrap());
    sleep(HOUR).await;
    let _ = ask(&client, "/").await;
    while endpoint.snapshot().breaker != tower_spatial::BreakerState::Closed {
        sleep(SECOND).await;
        let _ = ask(&client, "/").await;
    }
    let back = at(&endpoints).limit;
    assert!(
        back >= before / 2 && back <= before / 2 + 3,
        "{back} after {before}"
    );
    for _ in 0..before {
        ask(&client, "/").await.unwrap();
    }
    let ramped = at(&endpoints).limit;
    assert!(ramped + 2 >= before, "{ramped} of {before}");
}

#[cfg(feature = "serde")]
#[tokio::test(start_paused = true)]
async fn it_survives_a_restart_as_a_file() {
    let before = endpoints(64);
    let host = cores(16, || true);
    load(64, 200, &client(&before, &host), &before).await;
    let learnt = at(&before);
    assert!(learnt.baseline.is_some());
    let file = serde_json::to_string(&before.export()).unwrap();
    assert!(file.contains("tiles.example:80"));

    let after = endpoints(64);
    let client = client(&after, &host);
    after.import(&serde_json::from_str(&file).unwrap()).unwrap();
    let goes_on = at(&after);
    assert_eq!(
        (goes_on.limit, goes_on.baseline.is_some()),
        (learnt.limit, true)
    );
    let limits = load(64, 60, &client, &after).await;
    assert!(
        limits.iter().all(|limit| *limit * 2 >= learnt.limit),
        "{limits:?} after {}",
        learnt.limit
    );
    let endpoint = after.find(&"http://tiles.example/".parse().unwrap());
    assert!(endpoint.latency().is_some());
}

#[cfg(feature = "serde")]
#[tokio::test(start_paused = true)]
async fn an_open_breaker_and_a_cooldown_survive_a_restart_as_a_file() {
    use tower_spatial::{BreakerState, CooldownLayer};
    let down = Host::new(|n, path| match path {
        "/busy" => Act::status(503).header("retry-after", "200"),
        _ if n < 100 => Act::refused(),
        _ => Act::status(200),
    });
    for path in ["/busy", "/"] {
        let before = Endpoints::default();
        CooldownLayer::new(before.clone());
        let one = client(&before, &down);
        for _ in 0..5 {
            let _ = tokio::time::timeout(SECOND, ask(&one, path)).await;
        }
        let file = serde_json::to_vec(&before.export()).unwrap();
        let after = Endpoints::default();
        CooldownLayer::new(after.clone());
        let _other = client(&after, &down);
        after
            .import(&serde_json::from_slice(&file).unwrap())
            .unwrap();
        let now = at(&after);
        match path {
            "/busy" => assert!(now.cooldown.unwrap() > 190 * SECOND),
            _ => assert!(
                matches!(now.breaker, BreakerState::Open { probe_in: Some(_) }),
                "{now:?}"
            ),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_comes_late_does_not_make_the_host_slow() {
    let host = Host::new(|_, _| Act::status(200).after(3 * SECOND));
    let endpoints = Endpoints::default();
    let client = boxed(CooldownLayer::new(endpoints.clone()).layer(host.clone()));
    for late in [0, 100, 1_000] {
        let answer = client.clone().oneshot(get("/tile")).await.unwrap();
        sleep(late * SECOND).await;
        answer.into_body().collect().await.unwrap();
    }
    // Nor does one who never comes.
    let unread = client.clone().oneshot(get("/tile")).await.unwrap();
    sleep(1_000 * SECOND).await;
    drop(unread);
    let host = endpoints.find(&"http://tiles.example/".parse().unwrap());
    let p99 = host.latency().unwrap().p99;
    assert!((2.5..3.5).contains(&p99.as_secs_f64()), "{p99:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_late_makes_the_host_slow() {
    let steps = || [Step::Wait(7 * SECOND), Step::data("a tile")];
    let host = Host::new(move |_, _| Act::status(200).body(steps()));
    let endpoints = Endpoints::default();
    let client = boxed(CooldownLayer::new(endpoints.clone()).layer(host.clone()));
    let answer = client.clone().oneshot(get("/tile")).await.unwrap();
    answer.into_body().collect().await.unwrap();
    let host = endpoints.find(&"http://tiles.example/".parse().unwrap());
    let p99 = host.latency().unwrap().p99;
    assert!((6.0..8.0).contains(&p99.as_secs_f64()), "{p99:?}");
}
