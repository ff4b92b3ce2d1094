//! What must hold whatever happens, of all layers with a rate: laws 1, 5 and 11. A slot that was given back can be used.

use tokio::task::JoinSet;
use tower::Layer;
use tower_spatial::{
    EndpointSettings, Endpoints, Quota, RateLimitLayer, RateLimited, SpatialLayer, find,
};

use super::laws::Stuttering;
use super::*;

const TICK: Duration = Duration::from_millis(3);

/// One call in `period` with each key, and `limit` answers at once.
fn rated(limit: usize, period: Duration) -> Endpoints {
    let settings = EndpointSettings::new()
        .concurrency(limit)
        .queue_timeout(100_000 * SECOND)
        .rate([Quota::new(1, period).unwrap()]);
    Endpoints::builder().defaults(settings).build().unwrap()
}

fn whole<S, R>(endpoints: &Endpoints, host: S) -> Client
where
    S: Service<Request<NoBody>, Response = Response<R>, Error = BoxError>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
    R: Body<Data = Bytes, Error = BoxError> + Send + Unpin + 'static,
{
    boxed(SpatialLayer::new(endpoints.clone()).layer(host))
}

/// When each call with this path got to the host.
fn times(host: &Host, path: &str) -> Vec<Instant> {
    let seen = host.seen();
    let paths = seen.paths.iter().zip(&seen.asked_at);
    paths
        .filter(|(of, _)| *of == path)
        .map(|(_, at)| *at)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn dropped_after_any_poll_a_call_gives_its_slot_and_its_permit_back() {
    // The call goes at once, waits with its permit, waits without, or asks for it again.
    for (stage, period) in [
        ("first", SECOND),
        ("near", SECOND / 2),
        ("far", 3 * SECOND),
        ("asks again", 3 * SECOND),
    ] {
        let mut polls = 0;
        loop {
            let endpoints = rated(1, period);
            let host = Host::new(|_, path| match path {
                "/slow" => Act::status(200).after(2 * SECOND),
                _ => Act::status(200)
                    .body([Step::data("a"), Step::Wait(SECOND / 10), Step::data("b")])
                    .after(SECOND / 10),
            });
            let client = whole(&endpoints, Stuttering::of(&host));
            if stage != "first" {
                ask(&client, "/k?key=k").await.unwrap();
            }
            let mut other = JoinSet::new();
            if stage == "asks again" {
                let client = client.clone();
                other.spawn(async move {
                    sleep(2 * SECOND).await;
                    ask(&client, "/slow?key=other").await.unwrap();
                });
            }
            let mut task = Task::new(ask(&client, "/k?key=k"));
            let is_over = task.poll_times(polls, stage).await;
            drop(task);
            while let Some(done) = other.join_next().await {
                done.unwrap();
            }
            assert_quiet(&endpoints);
            let now = Instant::now();
            let gone = times(&host, "/k");
            ask(&client, "/k?key=k").await.unwrap();
            let at = *times(&host, "/k").last().unwrap();
            let due = gone.last().map_or(now, |last| now.max(*last + period));
            assert!(
                at >= due && at <= due + TICK,
                "{stage}, {polls}: {:?} late",
                at - due
            );
            assert!(host.most_inside() <= 1);
            assert_quiet(&endpoints);
            if is_over {
                break;
            }
            polls += 1;
        }
        assert!(polls >= 4, "{stage}: {polls}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_inside_takes_neither_permit_nor_rate_with_it() {
    let endpoints = rated(1, SECOND);
    let host = Host::new(|n, _| match n {
        0..5 => Act::now(What::Panics),
        _ => Act::status(200),
    });
    let client = whole(&endpoints, host.clone());
    for _ in 0..5 {
        let client = client.clone();
        let call = tokio::spawn(async move { ask(&client, "/k?key=k").await });
        assert!(call.await.unwrap_err().is_panic());
        assert_quiet(&endpoints);
    }
    ask(&client, "/k?key=k").await.unwrap();
    let at = times(&host, "/k");
    for two in at.windows(2) {
        let between = two[1] - two[0];
        assert!(between >= SECOND && between <= SECOND + TICK, "{between:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_calls_with_a_rate_that_are_dropped_at_once_leave_nothing_behind() {
    let endpoints = rated(4, SECOND);
    let host = Host::new(|_, _| Act::status(200));
    let client = whole(&endpoints, host.clone());
    let mut calls: Vec<_> = (0..10_000)
        .map(|_| Task::new(ask(&client, "/k?key=k")))
        .collect();
    assert!(calls[0].poll().is_ready());
    for call in &mut calls[1..] {
        assert!(call.poll().is_pending());
    }
    // The first who waits is a second away and keeps its permit; the others have given theirs back.
    assert_eq!(at(&endpoints).in_flight, 1);
    drop(calls);
    assert_quiet(&endpoints);
    let start = Instant::now();
    ask(&client, "/k?key=k").await.unwrap();
    let waited = start.elapsed();
    assert!(
        waited >= SECOND - TICK && waited <= SECOND + TICK,
        "{waited:?}"
    );
    assert_quiet(&endpoints);
    assert_eq!(host.requests(), 2);
}

/// On real time: the claim is one that a late thread cannot break.
#[test]
fn threads_that_hammer_one_key_go_by_its_rate_together() {
    const PERIOD: Duration = Duration::from_millis(1);
    const CALLS: u32 = 50;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .unwrap();
    let host = Host::new(|_, _| Act::status(200));
    let layer = RateLimitLayer::per_host(Quota::new(1, PERIOD).unwrap());
    let client = boxed(layer.layer(host.clone()));
    let start = Instant::now();
    runtime.block_on(async {
        let mut threads = JoinSet::new();
        for _ in 0..4 {
            let client = client.clone();
            threads.spawn(async move {
                for _ in 0..CALLS {
                    ask(&client, "/k?key=k").await.unwrap();
                }
            });
        }
        threads.join_all().await;
    });
    let gone = host.asked_at();
    assert_eq!(gone.len(), 4 * CALLS as usize);
    for (n, at) in gone.iter().enumerate() {
        assert!(*at >= start + PERIOD * n as u32, "{n}: {:?}", *at - start);
    }
}

#[tokio::test(start_paused = true)]
async fn settings_that_are_loaded_anew_keep_what_went_with_a_key_and_bring_their_rate() {
    let with = |period| {
        let rate = [Quota::new(1, period).unwrap()];
        let settings = EndpointSettings::new().rate(rate).queue_timeout(MINUTE);
        Endpoints::builder().defaults(settings)
    };
    let endpoints = with(10 * SECOND).build().unwrap();
    let host = Host::new(|_, _| Act::status(200));
    let client = whole(&endpoints, host.clone());
    let start = Instant::now();
    let waited = |host: &Host| {
        let at = times(host, "/k");
        at.iter()
            .map(|at| (*at - start).as_secs())
            .collect::<Vec<_>>()
    };
    ask(&client, "/k?key=k").await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { ask(&client, "/k?key=k").await }
    });
    tokio::task::yield_now().await;
    endpoints.reload(with(2 * SECOND)).unwrap();
    // Who waits keeps the slot that it has; whoever comes now is behind it, and then goes by the new rate.
    for _ in 0..3 {
        ask(&client, "/k?key=k").await.unwrap();
    }
    waiting.await.unwrap().unwrap();
    assert_eq!(waited(&host), [0, 10, 20, 22, 24]);
    ask(&client, "/k?key=new").await.unwrap();
    endpoints.reload(with(20 * SECOND)).unwrap();
    for _ in 0..2 {
        ask(&client, "/k?key=k").await.unwrap();
    }
    assert_eq!(waited(&host), [0, 10, 20, 22, 24, 24, 26, 46]);
    endpoints.reload(with(1000 * SECOND)).unwrap();
    ask(&client, "/k?key=k").await.unwrap();
    let error = ask(&client, "/k?key=k").await.unwrap_err();
    let limited = find::<RateLimited>(&error).unwrap();
    assert_eq!(limited.rate(), "1 in 1000s");
    endpoints.reload(Endpoints::builder()).unwrap();
    let before = Instant::now();
    ask(&client, "/k?key=k").await.unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO, "no rate any more");
    assert_quiet(&endpoints);
}
