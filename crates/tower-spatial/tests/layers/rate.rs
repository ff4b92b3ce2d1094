//! The published rate of an endpoint and key.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::time::{Instant, advance, sleep, timeout};
use tower::{
    BoxError, Layer, Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer as Towers,
    retry::RetryLayer,
};
use tower_spatial::{
    ConcurrencyLimitLayer, Deadline, EndpointSettings, Endpoints, Quota, RateLimitLayer,
    RateLimited,
    call::TooLate,
    find,
    limit::rate::{CallerKey, KeySource, Weight},
    retry::RetryPolicy,
    timeout::deadline::DeadlineLayer,
};

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
/// A timer's tick.
const TICK: Duration = Duration::from_millis(2);
const SECRET: &str = "s3cr3t";

#[tokio::test(start_paused = true)]
async fn calls_go_one_by_one_in_the_order_in_which_they_were_made() {
    let server = Noting::default();
    let mut client = one_a_second().layer(server.clone());
    let calls: Vec<_> = (0..20)
        .map(|n| tokio::spawn(client.call(numbered(SECRET, n))))
        .collect();
    for call in calls {
        soon(call).await.unwrap().unwrap();
    }
    let seen: Vec<_> = (0..20).map(|n| format!("/{n}")).collect();
    assert_eq!(server.paths(), seen);
    server.assert_at_most(1, SECOND);
    assert!(server.took() <= 19 * (SECOND + TICK), "{:?}", server.took());
}

#[tokio::test(start_paused = true)]
async fn keys_and_hosts_do_not_wait_for_each_other() {
    let client = one_a_second().layer(Noting::default());
    let start = Instant::now();
    for key in ["a", "b", "c"] {
        for host in ["one", "two"] {
            let uri = format!("https://{host}.example/?ApiKey={key}");
            soon(client.clone().oneshot(get(&uri))).await.unwrap();
        }
    }
    soon(client.clone().oneshot(get("https://one.example/")))
        .await
        .unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    // The same key in another spelling of its parameter, and in another place.
    let same = soon(
        client
            .clone()
            .oneshot(get("https://one.example/?q=1&token=%61")),
    )
    .await;
    same.unwrap();
    assert!(start.elapsed() >= SECOND);
    let one = one_a_second()
        .key(KeySource::none())
        .layer(Noting::default());
    soon(one.clone().oneshot(numbered("a", 0))).await.unwrap();
    let start = Instant::now();
    soon(one.clone().oneshot(numbered("b", 0))).await.unwrap();
    assert!(start.elapsed() >= SECOND, "without keys there is one rate");
}

#[tokio::test(start_paused = true)]
async fn a_slot_past_the_deadline_fails_at_once_consumes_nothing_and_tells_no_key() {
    let mut client = one_a_second().layer(Noting::default());
    client.call(numbered(SECRET, 0)).await.unwrap();
    let _waiting = client.call(numbered(SECRET, 1));
    let start = Instant::now();
    for _ in 0..100 {
        let mut request = numbered(SECRET, 2);
        let deadline = Deadline::after(Duration::from_millis(1_500));
        request.extensions_mut().insert(deadline);
        let error = soon(client.call(request)).await.unwrap_err();
        let limited = find::<RateLimited>(&error).unwrap();
        assert_eq!(limited.would_wait(), Some(2 * SECOND));
        assert_eq!(
            error.to_string(),
            "the next slot of geocoder.example:443 is 2.0 s away, longer than the call may wait (rate: 1 in 1s)"
        );
        assert!(!format!("{error:?} {client:?}").contains(SECRET));
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    soon(client.call(numbered(SECRET, 3))).await.unwrap();
    assert!(
        start.elapsed() <= 2 * SECOND + TICK,
        "{:?}",
        start.elapsed()
    );

    let mut client = one_a_second()
        .queue_timeout(Duration::ZERO)
        .layer(Noting::default());
    client.call(numbered(SECRET, 0)).await.unwrap();
    soon(client.call(numbered(SECRET, 1))).await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_calls_dropped_at_once_give_their_slots_back() {
    let server = Noting::default();
    let mut client = one_a_second()
        .queue_timeout(100_000 * SECOND)
        .layer(server.clone());
    client.call(numbered(SECRET, 0)).await.unwrap();
    let mut calls: Vec<_> = (0..10_000)
        .map(|n| Box::pin(client.call(numbered(SECRET, n))))
        .collect();
    for call in &mut calls {
        poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
    }
    drop(calls);
    let start = Instant::now();
    soon(client.call(numbered(SECRET, 1))).await.unwrap();
    assert!(start.elapsed() <= SECOND + TICK);
    server.assert_at_most(1, SECOND);
}

#[tokio::test(start_paused = true)]
async fn after_a_stall_of_a_minute_nothing_leaves_in_a_burst() {
    for stall in [60 * SECOND, 6 * 3_600 * SECOND] {
        let server = Noting::default();
        let mut client = one_a_second()
            .queue_timeout(1_000_000 * SECOND)
            .layer(server.clone());
        client.call(numbered(SECRET, 0)).await.unwrap();
        let mut calls: Vec<_> = (1..100)
            .map(|n| Box::pin(client.call(numbered(SECRET, n))))
            .collect();
        for call in &mut calls {
            poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
        }
        advance(stall).await;
        let latecomer = Box::pin(client.call(numbered(SECRET, 100)));
        let calls: Vec<_> = calls
            .into_iter()
            .chain([latecomer])
            .map(tokio::spawn)
            .collect();
        for call in calls {
            soon(call).await.unwrap().unwrap();
        }
        server.assert_at_most(1, SECOND);
        let seen: Vec<_> = (0..101).map(|n| format!("/{n}")).collect();
        assert_eq!(server.paths(), seen);
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_below_that_was_not_ready_for_long_meets_no_burst() {
    let server = Noting::default();
    let mut client = one_a_second().layer(server.clone());
    client.call(numbered(SECRET, 0)).await.unwrap();
    server.unready.store(true, Ordering::Relaxed);
    let calls: Vec<_> = (1..30)
        .map(|n| tokio::spawn(client.call(numbered(SECRET, n))))
        .collect();
    sleep(60 * SECOND).await;
    assert_eq!(server.paths().len(), 1);
    server.unready.store(false, Ordering::Relaxed);
    for call in calls {
        soon(call).await.unwrap().unwrap();
    }
    assert_eq!(server.paths().len(), 30);
    server.assert_at_most(1, SECOND);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_service_below_is_bounded_and_gives_the_slot_back() {
    let server = Noting::default();
    let mut client = one_a_second().layer(server.clone());
    server.unready.store(true, Ordering::Relaxed);
    let start = Instant::now();
    let error = soon(client.call(numbered(SECRET, 0))).await.unwrap_err();
    assert!(find::<RateLimited>(&error).is_some());
    assert!(!format!("{error} {error:?}").contains(SECRET));
    assert!(start.elapsed() <= 600 * SECOND + TICK);
    server.unready.store(false, Ordering::Relaxed);
    let start = Instant::now();
    soon(client.call(numbered(SECRET, 1))).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_wakes_after_its_deadline_is_not_made() {
    let server = Noting::default();
    let mut client = one_a_second().layer(server.clone());
    client.call(numbered(SECRET, 0)).await.unwrap();
    let mut request = numbered(SECRET, 1);
    request.extensions_mut().insert(Deadline::after(5 * SECOND));
    let mut call = Box::pin(client.call(request));
    poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx).is_pending())).await;
    advance(3 * 3_600 * SECOND).await;
    let error = soon(call).await.unwrap_err();
    assert!(find::<TooLate>(&error).is_some());
    assert_eq!(server.paths().len(), 1);
    let start = Instant::now();
    soon(client.call(numbered(SECRET, 2))).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO, "it consumed nothing");
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_at_any_await_leaves_the_rate_as_it_was() {
    for polls in 0..12 {
        let server = Noting::default();
        let mut client = one_a_second().layer(server.clone());
        client.call(numbered(SECRET, 0)).await.unwrap();
        server.unready.store(true, Ordering::Relaxed);
        let mut dropped = Box::pin(client.call(numbered(SECRET, 1)));
        for poll in 0..polls {
            if poll == 8 {
                server.unready.store(false, Ordering::Relaxed);
            }
            let polled = poll_fn(|cx| Poll::Ready(dropped.as_mut().poll(cx))).await;
            if polled.is_ready() {
                break;
            }
            sleep(Duration::from_millis(250)).await;
        }
        drop(dropped);
        server.unready.store(false, Ordering::Relaxed);
        let start = Instant::now();
        soon(client.call(numbered(SECRET, 2))).await.unwrap();
        assert!(
            start.elapsed() <= SECOND + TICK,
            "{polls}: {:?}",
            start.elapsed()
        );
        server.assert_at_most(1, SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn no_readiness_below_is_held_while_waiting() {
    let server = Noting::default();
    let client = ServiceBuilder::new()
        .layer(one_a_second())
        .layer(Towers::new(1))
        .service(server.clone());
    let calls: Vec<_> = (0..10)
        .flat_map(|n| ["a", "b"].map(|key| client.clone().call(numbered(key, n))))
        .map(tokio::spawn)
        .collect();
    for call in calls {
        soon(call).await.unwrap().unwrap();
    }
    assert!(server.took() <= 9 * (SECOND + TICK), "{:?}", server.took());
}

#[tokio::test(start_paused = true)]
async fn several_quotas_hold_at_once_and_a_call_costs_its_weight() {
    let requests = Quota::new(10, SECOND).unwrap();
    let units = Quota::new(30, 60 * SECOND).unwrap().with_burst(20).unwrap();
    let server = Noting::default();
    let layer = RateLimitLayer::new(with_rate([requests, units]));
    let mut client = layer.clone().layer(server.clone());
    let heavy = |n, units| {
        let mut request = numbered(SECRET, n);
        request.extensions_mut().insert(Weight::of([1, units]));
        request
    };
    let start = Instant::now();
    soon(client.call(heavy(0, 20))).await.unwrap();
    soon(client.call(heavy(1, 0))).await.unwrap();
    assert!(
        start.elapsed() <= Duration::from_millis(102),
        "no units, no wait"
    );
    soon(client.call(heavy(2, 10))).await.unwrap();
    assert!(start.elapsed() >= 50 * SECOND, "{:?}", start.elapsed());
    let error = soon(client.call(heavy(3, 31))).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "a call of weight 31 never goes to geocoder.example:443: the limit is 30 (rate: 10 in 1s, 30 in 60s)"
    );
    let by_path = layer.weight(|request| Weight::of([1, request.uri.path()[1..].parse().unwrap()]));
    let error = soon(by_path.layer(server).oneshot(numbered("other", 31)))
        .await
        .unwrap_err();
    assert!(find::<RateLimited>(&error).is_some(), "by the function");
}

#[tokio::test(start_paused = true)]
async fn what_the_server_says_holds_the_key_and_no_other() {
    type Headers = [(&'static str, &'static str)];
    let cases: [(u16, &Headers, u64); 11] = [
        (429, &[("retry-after", "30")], 30),
        (429, &[("retry-after", "86400")], 300),
        (429, &[("retry-after", "0")], 0),
        (429, &[("retry-after", "30"), ("age", "9")], 0),
        (
            200,
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "20")],
            20,
        ),
        (
            200,
            &[("ratelimit-remaining", "0"), ("ratelimit-reset", "20")],
            20,
        ),
        (200, &[("ratelimit", "\"default\";r=0;t=20")], 20),
        (
            200,
            &[("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "20")],
            0,
        ),
        (200, &[("x-ratelimit-reset", "20")], 0),
        (
            200,
            &[
                ("x-ratelimit-remaining", "0"),
                ("x-ratelimit-reset", "20"),
                ("age", "9"),
            ],
            0,
        ),
        // The whole endpoint's matter.
        (503, &[("retry-after", "30")], 0),
    ];
    for (status, headers, held) in cases {
        let server = Noting::default();
        let mut client = one_a_second().layer(server.clone());
        let mut waiting = Box::pin(client.call(numbered(SECRET, 0)));
        poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await;
        server.answer(status, headers);
        let start = Instant::now();
        soon(client.call(numbered(SECRET, 1))).await.unwrap();
        server.answer(200, &[]);
        let answered = Instant::now();
        soon(client.call(numbered("other", 1))).await.unwrap();
        assert_eq!(answered, Instant::now(), "another key");
        soon(client.call(numbered(SECRET, 2))).await.unwrap();
        let waited = answered.elapsed();
        let expected = Duration::from_secs(held.max(1));
        assert!(
            waited >= expected && waited <= expected + TICK,
            "{status} {headers:?}: {waited:?}, {:?}",
            start.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_moves_also_those_who_wait_already() {
    let server = Noting::default();
    let mut client = one_a_second().layer(server.clone());
    server.answer(429, &[("retry-after", "30")]);
    let calls: Vec<_> = (0..5)
        .map(|n| tokio::spawn(client.call(numbered(SECRET, n))))
        .collect();
    soon(poll_fn(|cx| {
        cx.waker().wake_by_ref();
        if server.paths().is_empty() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }))
    .await;
    server.answer(200, &[]);
    for call in calls {
        soon(call).await.unwrap().unwrap();
    }
    let at = server.at();
    assert!(at[1] - at[0] >= 30 * SECOND, "{:?}", at[1] - at[0]);
    server.assert_at_most(1, SECOND);
    assert_eq!(server.paths(), ["/0", "/1", "/2", "/3", "/4"]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_not_repeated() {
    let server = Noting::default();
    let rate = one_a_second().queue_timeout(Duration::ZERO);
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryPolicy::default()))
        .layer(rate)
        .service(server.clone());
    let request = |n| numbered(SECRET, n).map(|()| NoBody::new());
    soon(client.clone().oneshot(request(0))).await.unwrap();
    let start = Instant::now();
    let error = soon(client.clone().oneshot(request(1))).await.unwrap_err();
    assert!(find::<RateLimited>(&error).is_some());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_long_gives_its_permit_back_and_gets_one_at_its_time() {
    let quota = Quota::new(1, 10 * SECOND).unwrap();
    let settings = EndpointSettings::new().concurrency(1).rate([quota]);
    let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
    let server = Noting::default();
    let client = ServiceBuilder::new()
        .layer(DeadlineLayer::new())
        .layer(ConcurrencyLimitLayer::new(endpoints.clone()))
        .layer(RateLimitLayer::new(endpoints.clone()))
        .service(server.clone());
    let start = Instant::now();
    let whole = |request| {
        let client = client.clone();
        tokio::spawn(async move {
            client.oneshot(request).await?.into_body().collect().await?;
            Ok::<_, BoxError>(start.elapsed())
        })
    };
    soon(whole(numbered("a", 0))).await.unwrap().unwrap();
    let waiting = whole(numbered("a", 1));
    tokio::task::yield_now().await;
    let other = soon(whole(numbered("b", 2))).await.unwrap().unwrap();
    assert!(other < SECOND, "{other:?}");
    // At its time somebody else has the permit, for longer than the slot is good for.
    sleep(9 * SECOND).await;
    let held = client.clone().oneshot(numbered("c", 3)).await.unwrap();
    sleep(9 * SECOND).await;
    assert_eq!(server.paths().len(), 3);
    drop(held);
    let waited = soon(waiting).await.unwrap().unwrap();
    assert!(
        waited >= 18 * SECOND && waited <= 18 * SECOND + TICK,
        "{waited:?}"
    );
    let snapshot = endpoints
        .find(&"https://geocoder.example/".parse().unwrap())
        .snapshot();
    assert_eq!((snapshot.in_flight, snapshot.queued), (0, 0));

    // A call that is dropped while its permit is away, or while it asks for one, leaves nothing.
    let held = client.clone().oneshot(numbered("d", 4)).await.unwrap();
    for wait in [SECOND, 15 * SECOND] {
        let call = whole(numbered("a", 5));
        sleep(wait).await;
        call.abort();
        _ = call.await;
    }
    drop(held);
    let snapshot = endpoints
        .find(&"https://geocoder.example/".parse().unwrap())
        .snapshot();
    assert_eq!((snapshot.in_flight, snapshot.queued), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_without_a_rate_waits_for_nothing() {
    let endpoints = Endpoints::builder()
        .defaults(EndpointSettings::new().rate([Quota::new(1, SECOND).unwrap()]))
        .endpoint(
            "free",
            ["geocoder.example"],
            EndpointSettings::new().rate([]),
        )
        .build()
        .unwrap();
    let client = RateLimitLayer::new(endpoints).layer(Noting::default());
    let start = Instant::now();
    for n in 0..10 {
        soon(client.clone().oneshot(numbered(SECRET, n)))
            .await
            .unwrap();
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    let too_many = [Quota::new(1, SECOND).unwrap(); 4];
    let settings = EndpointSettings::new().rate(too_many);
    let error = Endpoints::builder().defaults(settings).build().unwrap_err();
    assert_eq!(error.to_string(), "rate: 4 quotas, expected 1 to 3");
}

#[tokio::test(start_paused = true)]
async fn all_that_is_built_from_one_endpoints_counts_together() {
    let layer = one_a_second().key(KeySource::extension());
    let other = RateLimitLayer::new(layer.endpoints().clone()).key(KeySource::extension());
    let request = || {
        let mut request = numbered("x", 0);
        request.extensions_mut().insert(CallerKey::new("tenant"));
        request
    };
    soon(layer.layer(Noting::default()).oneshot(request()))
        .await
        .unwrap();
    let start = Instant::now();
    soon(other.layer(Noting::default()).oneshot(request()))
        .await
        .unwrap();
    assert!(start.elapsed() >= SECOND);
}

fn one_a_second() -> RateLimitLayer {
    RateLimitLayer::per_host(Quota::new(1, SECOND).unwrap())
}

fn with_rate<const N: usize>(quotas: [Quota; N]) -> Endpoints {
    let settings = EndpointSettings::new().rate(quotas);
    Endpoints::builder().defaults(settings).build().unwrap()
}

fn get(uri: &str) -> Request<()> {
    Request::get(uri).body(()).unwrap()
}

fn numbered(key: &str, n: usize) -> Request<()> {
    get(&format!("https://geocoder.example/{n}?q=town&key={key}"))
}

/// Nothing here waits for ever.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(1_000_000 * SECOND, future).await.expect("an end")
}

/// Status and headers.
type Answer = (u16, Vec<(String, String)>);

/// Notes who came when, and answers as it is told. Readiness is looked at every 100 ms.
#[derive(Clone, Debug, Default)]
struct Noting {
    seen: Arc<Mutex<Vec<(Instant, String)>>>,
    unready: Arc<AtomicBool>,
    answer: Arc<Mutex<Option<Answer>>>,
}

impl Noting {
    fn answer(&self, status: u16, headers: &[(&str, &str)]) {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        *self.answer.lock().unwrap() = Some((status, headers.collect()));
    }

    fn paths(&self) -> Vec<String> {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .map(|(_, path)| path.clone())
            .collect()
    }

    fn at(&self) -> Vec<Instant> {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .map(|(at, _)| *at)
            .collect()
    }

    fn took(&self) -> Duration {
        let at = self.at();
        *at.last().unwrap() - at[0]
    }

    /// Law 11.
    fn assert_at_most(&self, limit: usize, period: Duration) {
        let at = self.at();
        for window in at.windows(limit + 1) {
            let between = window[limit] - window[0];
            assert!(between >= period, "{} within {between:?}", limit + 1);
        }
    }
}

impl<B> Service<Request<B>> for Noting {
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        if self.unready.load(Ordering::Relaxed) {
            let (waker, unready) = (cx.waker().clone(), Arc::clone(&self.unready));
            tokio::spawn(async move {
                while unready.load(Ordering::Relaxed) {
                    sleep(Duration::from_millis(100)).await;
                }
                waker.wake();
            });
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        assert!(!self.unready.load(Ordering::Relaxed), "called unready");
        let seen = (Instant::now(), request.uri().path().to_owned());
        self.seen.lock().unwrap().push(seen);
        let answer = self.answer.lock().unwrap().clone();
        Box::pin(async move {
            let (status, headers) = answer.unwrap_or((200, Vec::new()));
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            Ok(response.body(Full::from("a place"))?)
        })
    }
}
