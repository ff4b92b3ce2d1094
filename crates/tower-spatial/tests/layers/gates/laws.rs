//! What must hold whatever happens: laws 1, 5, 6 and 8.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::task::JoinSet;
use tower::{Layer, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    BreakerState, CircuitBreakerLayer, ConcurrencyLimitLayer, CooldownLayer, EndpointSettings,
    Endpoints, OnOpen, retry::RetryPolicy, timeout::deadline::DeadlineLayer,
};

use super::*;

fn limited(limit: usize) -> Endpoints {
    let settings = EndpointSettings::new().concurrency(limit);
    Endpoints::builder().defaults(settings).build().unwrap()
}

fn all<S, R>(endpoints: &Endpoints, host: S) -> Client
where
    S: Service<Request<NoBody>, Response = Response<R>, Error = BoxError>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
    R: Body<Data = Bytes, Error = BoxError> + Send + 'static,
{
    boxed(
        ServiceBuilder::new()
            .layer(CircuitBreakerLayer::new(endpoints.clone()).on_open(OnOpen::Wait))
            .layer(CooldownLayer::new(endpoints.clone()))
            .layer(ConcurrencyLimitLayer::new(endpoints.clone()))
            .service(host),
    )
}

async fn trip(endpoints: &Endpoints) {
    let down = all(endpoints, Host::new(|_, _| Act::refused()));
    for _ in 0..5 {
        ask(&down, "/").await.unwrap_err();
    }
    assert!(matches!(at(endpoints).breaker, BreakerState::Open { .. }));
}

/// Is pending once at every place where it may be: ready, head, and each frame.
#[derive(Clone)]
pub(super) struct Stuttering {
    asked: bool,
    host: Host,
}

impl Stuttering {
    pub(super) fn of(host: &Host) -> Self {
        Self {
            asked: false,
            host: host.clone(),
        }
    }
}

impl Service<Request<NoBody>> for Stuttering {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = <Host as Service<Request<NoBody>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if std::mem::replace(&mut self.asked, true) {
            return Poll::Ready(Ok(()));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, request: Request<NoBody>) -> Self::Future {
        assert!(std::mem::replace(&mut self.asked, false), "called unready");
        let answered = self.host.call(request);
        Box::pin(async move {
            tokio::task::yield_now().await;
            answered.await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_after_any_poll_a_call_leaves_nothing_behind() {
    // The call is the first, waits for its turn, is the probe, waits for the end of a cooldown, is a repeat.
    for stage in ["first", "queued", "probe", "cooldown", "repeat"] {
        for limit in [1, 2] {
            let mut polls = 0;
            loop {
                let endpoints = limited(limit);
                let host = Host::new(move |n, path| match (stage, path) {
                    ("repeat", "/seen") if n == 0 => Act::status(502),
                    ("cooldown", "/busy") => Act::status(503).header("retry-after", "3"),
                    _ => Act::status(200)
                        .body([Step::data("a"), Step::Wait(SECOND / 10), Step::data("b")])
                        .after(SECOND / 10),
                });
                let client = all(&endpoints, Stuttering::of(&host));
                let policy = RetryPolicy::builder().base(SECOND).build().unwrap();
                let seen = boxed(
                    ServiceBuilder::new()
                        .layer(DeadlineLayer::new())
                        .layer(RetryLayer::new(policy))
                        .service(client.clone()),
                );
                let mut before = JoinSet::new();
                match stage {
                    "probe" => trip(&endpoints).await,
                    "cooldown" => _ = ask(&client, "/busy").await.unwrap(),
                    "queued" => {
                        for _ in 0..limit {
                            let client = client.clone();
                            before.spawn(async move { ask(&client, "/").await.unwrap() });
                        }
                        tokio::task::yield_now().await;
                    }
                    _ => {}
                }
                let mut task = Task::new(ask(&seen, "/seen"));
                let is_over = task.poll_times(polls, stage).await;
                drop(task);
                while let Some(done) = before.join_next().await {
                    done.unwrap();
                }
                let after = tokio::time::timeout(MINUTE, ask(&client, "/")).await;
                let after = after
                    .unwrap_or_else(|_| panic!("{stage}: nobody gets through after {polls} polls"));
                after.unwrap();
                assert_quiet(&endpoints);
                assert!(host.most_inside() <= limit, "{stage}");
                if is_over {
                    break;
                }
                polls += 1;
            }
            assert!(polls >= 4, "{stage}: {polls}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_inside_takes_no_permit_with_it() {
    let endpoints = limited(1);
    let host = Host::new(|n, _| match n {
        0..20 => Act::now(What::Panics),
        _ => Act::status(200),
    });
    let client = all(&endpoints, host.clone());
    for _ in 0..20 {
        let mut call = Task::new(ask(&client, "/"));
        let panicked = catch_unwind(AssertUnwindSafe(|| call.poll()));
        panicked.unwrap_err();
        // Who keeps what is left of the call keeps its permit.
        drop(call);
        assert_quiet(&endpoints);
    }
    ask(&client, "/").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn clock_jumps_of_hours_break_nothing() {
    let endpoints = limited(2);
    let start = Instant::now();
    let host = Host::new(move |_, _| match start.elapsed() < 30 * HOUR {
        true => Act::refused().after(SECOND),
        false => Act::status(200).after(SECOND),
    });
    let client = all(&endpoints, host.clone());
    let policy = RetryPolicy::builder()
        .budget(100 * HOUR)
        .cap(MINUTE)
        .build()
        .unwrap();
    let waiting = CircuitBreakerLayer::new(endpoints.clone())
        .on_open(OnOpen::Wait)
        .queue_timeout(100 * HOUR);
    let client = boxed(
        ServiceBuilder::new()
            .layer(RetryLayer::new(policy))
            .layer(waiting)
            .service(client),
    );
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { ask(&client, "/").await })
        })
        .collect();
    for _ in 0..10 {
        sleep(20 * SECOND).await;
        let before = host.requests();
        tokio::time::advance(5 * HOUR).await;
        sleep(SECOND / 2).await;
        // No herd: whatever the clock did, one probe goes.
        assert!(
            host.requests() <= before + 2,
            "{}",
            host.requests() - before
        );
    }
    sleep(10 * MINUTE).await;
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert!(host.most_inside() <= 2);
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiting_calls_that_are_dropped_at_once_leave_nothing_behind() {
    let endpoints = limited(4);
    let host = Host::new(|_, _| Act::status(200));
    let client = all(&endpoints, host.clone());
    trip(&endpoints).await;
    let mut calls: Vec<_> = (0..10_000).map(|_| Task::new(ask(&client, "/"))).collect();
    for call in &mut calls {
        assert!(call.poll().is_pending());
    }
    assert_eq!(at(&endpoints).queued, 10_000);
    let last = tokio::spawn({
        let client = client.clone();
        async move { ask(&client, "/").await }
    });
    tokio::task::yield_now().await;
    drop(calls);
    assert_eq!(at(&endpoints).queued, 1);
    let start = Instant::now();
    last.await.unwrap().unwrap();
    assert!(start.elapsed() <= 7 * SECOND);
    assert_quiet(&endpoints);
    assert_eq!(host.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn more_heads_than_permits_in_one_task_are_all_answered() {
    let endpoints = limited(4);
    let host = Host::new(|_, _| Act::status(200).after(SECOND));
    let client = all(&endpoints, host.clone());
    let start = Instant::now();
    // The bodies stay unread until all heads are there.
    let heads = futures_join((0..40).map(|_| client.clone().oneshot(get("/")))).await;
    assert!(
        start.elapsed() <= 40 / 4 * 40 * SECOND,
        "{:?}",
        start.elapsed()
    );
    for head in heads {
        head.unwrap().into_body().collect().await.unwrap();
    }
    assert_quiet(&endpoints);
}

/// A quarter of the readers' patience.
const QUARTER: Duration = Duration::from_millis(7_500);

/// In front of the queue stand calls that nobody polls. How long after the time at which a probe may go two others got
/// through.
async fn past_who_is_forgotten(forgotten: usize, waits: Duration) -> [Duration; 2] {
    let endpoints = limited(4);
    let host = Host::new(|_, _| Act::status(200).after(SECOND / 10));
    let client = all(&endpoints, host.clone());
    trip(&endpoints).await;
    let BreakerState::Open { probe_in } = at(&endpoints).breaker else {
        panic!("open")
    };
    let back = Instant::now() + probe_in.unwrap();
    let mut calls: Vec<_> = (0..forgotten)
        .map(|_| Task::new(ask(&client, "/forgotten")))
        .collect();
    for call in &mut calls {
        assert!(call.poll().is_pending());
    }
    sleep(waits).await;
    let live = [(); 2].map(|()| {
        let client = client.clone();
        tokio::spawn(async move {
            ask(&client, "/").await.unwrap();
            Instant::now()
        })
    });
    let mut took = [Duration::ZERO; 2];
    for (took, live) in took.iter_mut().zip(live) {
        *took = live.await.unwrap().saturating_duration_since(back);
    }
    // Who comes back finds its place again.
    for call in &mut calls {
        let done = std::future::poll_fn(|cx| call.future.as_mut().poll(cx));
        tokio::time::timeout(MINUTE, done)
            .await
            .expect("it has its turn")
            .unwrap();
    }
    assert_eq!(host.most_inside().min(4), host.most_inside());
    assert_quiet(&endpoints);
    took
}

#[tokio::test(start_paused = true)]
async fn calls_in_front_that_nobody_polls_stop_nobody_else() {
    for forgotten in [1, 3, 20] {
        for waits in [Duration::ZERO, 3 * SECOND, 30 * SECOND] {
            let [first, second] = past_who_is_forgotten(forgotten, waits).await;
            let late = if waits > 10 * SECOND { waits } else { QUARTER };
            assert!(first <= late + SECOND, "{forgotten}, {waits:?}: {first:?}");
            // Those in front of it were let through, and did not come for a quarter.
            assert!(
                second <= late + 4 * QUARTER,
                "{forgotten}, {waits:?}: {second:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_nobody_comes_for_goes_to_the_next() {
    let endpoints = limited(1);
    let host = Host::new(|_, _| Act::status(200).after(SECOND));
    let client = all(&endpoints, host.clone());
    let first = tokio::spawn({
        let client = client.clone();
        async move { ask(&client, "/").await }
    });
    tokio::task::yield_now().await;
    let mut forgotten = Task::new(ask(&client, "/forgotten"));
    assert!(forgotten.poll().is_pending());
    let start = Instant::now();
    ask(&client, "/").await.unwrap();
    first.await.unwrap().unwrap();
    // The answer before, at most two looks at the queue, the answer itself.
    assert!(
        start.elapsed() <= 2 * QUARTER + 4 * SECOND,
        "{:?}",
        start.elapsed()
    );
    let woken = forgotten.wakes();
    assert!((1..=4).contains(&woken), "{woken}");
    assert!(forgotten.poll().is_pending(), "it goes now");
    sleep(SECOND).await;
    assert!(forgotten.poll().is_ready());
    drop(forgotten);
    assert_quiet(&endpoints);
}

#[tokio::test(start_paused = true)]
async fn a_million_hosts_through_the_breaker_keep_what_is_known_bounded() {
    let endpoints = Endpoints::default();
    let layer = CircuitBreakerLayer::new(endpoints.clone());
    let mut client = layer.layer(Host::new(|n, _| {
        if n % 3 == 0 {
            Act::refused()
        } else {
            Act::status(200)
        }
    }));
    // Most of the time goes into the test's own host.
    let hosts = if cfg!(debug_assertions) {
        100_000
    } else {
        1_000_000
    };
    for n in 0..hosts {
        let uri = format!("http://host-{n}.example/");
        let request = Request::get(uri).body(NoBody::new()).unwrap();
        let _ = client.call(request).await;
    }
    let known = endpoints.snapshot();
    assert!(known.len() <= 10_002, "{}", known.len());
    assert!(known.iter().all(|host| host.in_flight == 0));
}
