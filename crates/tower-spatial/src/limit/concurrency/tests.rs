use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{self, Future};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full};
use tokio::time::{Duration, Instant, sleep, timeout};
use tower::limit::ConcurrencyLimitLayer as TowersLimitLayer;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};
use tower_test::mock;

use super::*;
use crate::{BreakerState, Deadline, EndpointSettings, EndpointSnapshot, Endpoints, call};

const TILE: &str = "http://tiles.example/1/2/3.png";
const OTHER: &str = "http://other.example/1/2/3.png";

#[tokio::test(start_paused = true)]
async fn a_permit_is_held_until_the_body_ends() {
    let layer = ConcurrencyLimitLayer::per_host(1);
    let mut client = layer.layer(answering(|| Script::of(["a", "b"])));
    let first = client.call(get(TILE)).await.unwrap();
    let mut second = Task::new(client.call(get(TILE)));
    let mut body = first.into_body();

    assert!(second.poll().is_pending());
    body.frame().await.unwrap().unwrap();
    assert!(second.poll().is_pending());
    assert_eq!(at(&layer, TILE).in_flight, 1);
    assert_eq!(at(&layer, TILE).queued, 1);
    body.frame().await.unwrap().unwrap();
    // What is known to be the last frame ends it: not every reader asks for the one behind it.
    assert_eq!(second.wakes(), 1);
    assert!(second.poll().is_ready());
    drop(body);
    assert_eq!(at(&layer, TILE), quiet(TILE, 1));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_fails_or_is_dropped_half_read_gives_its_permit_back() {
    let layer = ConcurrencyLimitLayer::per_host(1);
    let mut client = layer.layer(answering(|| Script::of(["a", "b"]).failing()));

    let mut body = client.call(get(TILE)).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(at(&layer, TILE).in_flight, 1);
    drop(body);
    assert_eq!(at(&layer, TILE), quiet(TILE, 1));

    let mut body = client.call(get(TILE)).await.unwrap().into_body();
    while body.frame().await.unwrap().is_ok() {}
    assert_eq!(at(&layer, TILE), quiet(TILE, 1));
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_body_gives_its_permit_back_at_once() {
    async fn in_flight<B: Body>(body: impl Fn() -> B + Clone, request: Request<()>) -> usize {
        let layer = ConcurrencyLimitLayer::per_host(1);
        let _held = layer.layer(answering(body)).oneshot(request).await.unwrap();
        at(&layer, TILE).in_flight
    }
    let head = || Request::head(TILE).body(()).unwrap();
    let sized = |size| Script::of([]).hiding_its_end().sized(size);
    assert_eq!(in_flight(Empty::<Bytes>::new, get(TILE)).await, 0);
    assert_eq!(in_flight(move || sized(0), get(TILE)).await, 0);
    // What hyper says of an answer to HEAD: the length of the body that does not come.
    assert_eq!(in_flight(move || sized(9), head()).await, 0);
    assert_eq!(in_flight(move || sized(9), get(TILE)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn of_seventeen_answers_held_unread_the_last_comes_after_the_readers_patience() {
    let layer = ConcurrencyLimitLayer::per_host(16);
    let client = layer.layer(answering(tile));
    let started = Instant::now();
    let mut held = Vec::new();
    for _ in 0..16 {
        held.push(client.clone().oneshot(get(TILE)).await.unwrap());
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(at(&layer, TILE).unread_bodies, 16);

    let last = client.clone().oneshot(get(TILE)).await.unwrap();

    let waited = started.elapsed();
    let patience = Duration::from_secs(30);
    assert!(
        waited >= patience && waited <= patience * 5 / 4,
        "{waited:?}"
    );
    let snapshot = at(&layer, TILE);
    assert_eq!((snapshot.in_flight, snapshot.reclaimed), (16, 1));
    // All bodies go on, whether they have their permit or not.
    for response in held.into_iter().chain([last]) {
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "a tile");
    }
    assert_eq!(at(&layer, TILE), quiet(TILE, 16));
}

#[tokio::test(start_paused = true)]
async fn unread_answers_are_found_behind_waiters_that_nobody_polls() {
    let layer = ConcurrencyLimitLayer::per_host(1);
    let mut client = layer.layer(answering(tile));
    let _held = client.call(get(TILE)).await.unwrap();
    let mut forgotten = Task::new(client.call(get(TILE)));
    assert!(forgotten.poll().is_pending());

    let mut last = Task::new(client.call(get(TILE)));
    let mut waited = 0;
    while last.poll().is_pending() {
        sleep(Duration::from_secs(1)).await;
        waited += 1;
        assert!(waited <= 40, "nobody gets through");
    }
    assert_eq!(at(&layer, TILE).reclaimed, 1);
    // The body of the last one went with its answer, so that there is a place.
    assert!(forgotten.poll().is_ready());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_read_slowly_or_waits_for_its_server_keeps_its_permit() {
    let layer = ConcurrencyLimitLayer::per_host(2).queue_timeout(Duration::from_secs(500));
    let mut client = layer.layer(answering(|| Script::of(["a"; 100])));
    let mut slow = client.call(get(TILE)).await.unwrap().into_body();
    tokio::spawn(async move {
        while slow.frame().await.is_some() {
            sleep(Duration::from_secs(20)).await;
        }
    });
    let mut stalled = layer.layer(answering(|| Script::of([]).pending()));
    let mut stalled = stalled.call(get(TILE)).await.unwrap().into_body();
    assert!(Task::new(stalled.frame()).poll().is_pending());

    let error = refusal(client.call(get(TILE))).await;
    assert!(error.is::<QueueTimeout>());
    assert_eq!(at(&layer, TILE).reclaimed, 0);
}

#[tokio::test(start_paused = true)]
async fn permits_are_given_in_the_order_of_the_calls() {
    let layer = ConcurrencyLimitLayer::per_host(2);
    let client = layer.layer(service_fn(|_: Request<()>| async {
        sleep(Duration::from_secs(1)).await;
        Ok::<_, Infallible>(Response::new(tile()))
    }));
    let started = Instant::now();
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let response = client.oneshot(get(TILE)).await.unwrap();
                response.into_body().collect().await.unwrap();
                Instant::now()
            })
        })
        .collect();
    let mut ended = Vec::new();
    for call in calls {
        ended.push((call.await.unwrap() - started).as_secs());
    }
    assert_eq!(ended, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_hosts_queue_delays_no_other_host_over_an_inner_limit() {
    let layer = ConcurrencyLimitLayer::per_host(1);
    let mut client = ServiceBuilder::new()
        .layer(layer.clone())
        .layer(TowersLimitLayer::new(2))
        .service(service_fn(|request: Request<()>| async move {
            if request.uri().host() == Some("tiles.example") {
                future::pending::<()>().await;
            }
            Ok::<_, Infallible>(Response::new(tile()))
        }));
    let mut stalled: Vec<_> = (0..20).map(|_| Task::new(client.call(get(TILE)))).collect();
    for call in &mut stalled {
        assert!(call.poll().is_pending());
    }
    assert_eq!(
        (at(&layer, TILE).in_flight, at(&layer, TILE).queued),
        (1, 19)
    );

    let started = Instant::now();
    for _ in 0..3 {
        client.call(get(OTHER)).await.unwrap();
    }
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_call_or_the_body_at_any_poll_returns_every_permit() {
    let layer = ConcurrencyLimitLayer::per_host(1);
    let client = layer.layer(Stuttering::default());
    let mut completed = 0;
    // With the permit at hand, and queued behind a call that ends after so many polls.
    for held_for in [None, Some(0), Some(1), Some(2), Some(3)] {
        for polls in 0..20 {
            let mut held = match held_for {
                None => None,
                Some(_) => Some(
                    layer
                        .layer(answering(tile))
                        .oneshot(get(TILE))
                        .await
                        .unwrap(),
                ),
            };
            let client = client.clone();
            let mut call = Task::new(async move {
                let response = client.oneshot(get(TILE)).await?;
                response.into_body().collect().await
            });
            for poll in 0..polls {
                if held_for == Some(poll) {
                    held = None;
                }
                if call.poll().is_ready() {
                    completed += 1;
                    break;
                }
            }
            drop(call);
            drop(held);
            assert_eq!(
                at(&layer, TILE),
                quiet(TILE, 1),
                "{held_for:?}, {polls} polls"
            );
        }
    }
    assert!(completed > 20, "{completed}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_inside_returns_the_permit() {
    let layer = ConcurrencyLimitLayer::per_host(1);
    let panics = |place: &'static str| {
        let mut client = layer.layer(Panicking { place });
        let panic = catch_unwind(AssertUnwindSafe(|| {
            let mut call = Task::new(client.call(get(TILE)));
            if let Poll::Ready(Ok(response)) = call.poll() {
                let _ = Task::new(response.into_body().collect()).poll();
            }
        }));
        assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), place);
        assert_eq!(at(&layer, TILE), quiet(TILE, 1), "{place}");
    };
    for place in ["ready", "call", "response", "body"] {
        panics(place);
    }
    layer
        .layer(answering(tile))
        .oneshot(get(TILE))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_permit_outlives_the_call_and_the_body_it_is_for() {
    let layer = ConcurrencyLimitLayer::per_host(1);
    let seen = Arc::new(AtomicUsize::new(0));
    let mut client = layer.layer(service_fn(|request: Request<()>| {
        let (layer, seen) = (layer.clone(), Arc::clone(&seen));
        let looks = LooksWhenDropped { layer, seen };
        async move {
            if request.uri().query().is_some() {
                tokio::task::yield_now().await;
            }
            Ok::<_, Infallible>(Response::new(tile().map_frame(move |frame| {
                let _ = &looks;
                frame
            })))
        }
    }));
    drop(client.call(get(TILE)).await.unwrap());
    assert_eq!(seen.load(Ordering::Relaxed), 1);
    let mut call = Task::new(client.call(get(&format!("{TILE}?wait"))));
    assert!(call.poll().is_pending());
    drop(call);
    assert_eq!(seen.load(Ordering::Relaxed), 2);
    assert_eq!(at(&layer, TILE), quiet(TILE, 1));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_waiting_calls_dropped_at_once_leave_nothing_behind() {
    let layer = ConcurrencyLimitLayer::per_host(1);
    let mut client = layer.layer(answering(tile));
    let held = client.call(get(TILE)).await.unwrap();
    let mut waiting: Vec<_> = (0..10_000)
        .map(|_| Task::new(client.call(get(TILE))))
        .collect();
    for call in &mut waiting {
        assert!(call.poll().is_pending());
    }
    assert_eq!(at(&layer, TILE).queued, 10_000);
    drop(held);
    drop(waiting);
    assert_eq!(at(&layer, TILE), quiet(TILE, 1));
    client.call(get(TILE)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_future_kept_after_its_end_holds_no_permit() {
    let layer = ConcurrencyLimitLayer::per_host(1);
    let mut client = layer.layer(service_fn(|_: Request<()>| {
        future::ready(Err::<Response<Full<Bytes>>, _>(std::io::Error::other(
            "reset",
        )))
    }));
    let mut kept = Task::new(client.call(get(TILE)));
    let Poll::Ready(Err(error)) = kept.poll() else {
        panic!("no error")
    };
    assert!(error.is::<std::io::Error>());
    assert_eq!(at(&layer, TILE), quiet(TILE, 1));
}

#[tokio::test(start_paused = true)]
async fn the_queue_timeout_says_what_was_waited_for() {
    let layer = ConcurrencyLimitLayer::per_host(3).queue_timeout(Duration::from_secs(20));
    let mut client = layer.layer(answering(tile));
    let _unread = client.call(get(TILE)).await.unwrap();
    let _unread_too = client.call(get(TILE)).await.unwrap();
    let mut hung = layer.layer(Panicking { place: "never" });
    let _hung = hung.call(get(TILE));

    let error = refusal(client.call(get("http://user:secret@TILES.example/x"))).await;
    assert_eq!(
        error.to_string(),
        "waited 20.0 s for a permit for tiles.example:80: 3 of 3 answers in flight, 2 of them with a body that nobody reads",
    );
    let error = error.downcast::<QueueTimeout>().unwrap();
    assert_eq!(error.endpoint(), "tiles.example:80");
    assert_eq!(
        (error.limit(), error.in_flight(), error.unread_bodies()),
        (3, 3, 2)
    );
    assert_eq!(error.waited(), Duration::from_secs(20));
    assert_eq!(at(&layer, TILE).queued, 0);
}

#[tokio::test(start_paused = true)]
async fn with_a_queue_timeout_of_zero_a_call_that_would_wait_fails_at_once() {
    let layer = ConcurrencyLimitLayer::per_host(1).queue_timeout(Duration::ZERO);
    let mut client = layer.layer(answering(tile));
    let _held = client.call(get(TILE)).await.unwrap();
    let Poll::Ready(Err(error)) = Task::new(client.call(get(TILE))).poll() else {
        panic!("it waits")
    };
    assert!(error.is::<QueueTimeout>());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_service_below_is_bounded_too() {
    let (service, server) = mock::pair::<Request<()>, Response<Full<Bytes>>>();
    let mut server = pin!(server);
    server.allow(0);
    let layer = ConcurrencyLimitLayer::per_host(1);
    let started = Instant::now();
    let error = refusal(layer.layer(service).oneshot(get(TILE))).await;
    assert_eq!(
        error.to_string(),
        "waited 600.0 s for the service below to be ready for tiles.example:80: 1 of 1 answers in flight",
    );
    assert_eq!(started.elapsed(), Duration::from_secs(600));
    assert_eq!(at(&layer, TILE), quiet(TILE, 1));
}

/// tower-test's mock panics where it is called without being ready, and its clones are not.
#[tokio::test(start_paused = true)]
async fn the_service_below_is_called_only_when_it_is_ready() {
    let (service, server) = mock::pair::<Request<()>, Response<Full<Bytes>>>();
    let mut server = pin!(server);
    server.allow(0);
    let layer = ConcurrencyLimitLayer::per_host(1);
    let mut client = layer.layer(service);
    let mut first = Task::new(client.call(get(TILE)));
    let mut second = Task::new(client.call(get(TILE)));
    assert!(first.poll().is_pending());
    assert!(second.poll().is_pending());

    for call in [&mut first, &mut second] {
        server.allow(1);
        assert!(call.wakes() > 0);
        assert!(call.poll().is_pending());
        let (_, respond) = server.next_request().await.unwrap();
        respond.send_response(Response::new(tile()));
        let Poll::Ready(response) = call.poll() else {
            panic!("no response")
        };
        drop(response.unwrap());
    }
    // At once: the third is ready in `call` already.
    server.allow(1);
    let _third = client.call(get(TILE));
    server.next_request().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_callers_deadline_ends_the_wait_and_starts_nothing_late() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let layer = ConcurrencyLimitLayer::per_host(1);
    let mut client = layer.layer(service_fn(move |_: Request<()>| {
        counter.fetch_add(1, Ordering::Relaxed);
        future::ready(Ok::<_, Infallible>(Response::new(tile())))
    }));
    let deadline = Deadline::after(Duration::from_secs(7));
    let with_deadline = || {
        let mut request = get(TILE);
        request.extensions_mut().insert(deadline.clone());
        request
    };
    let held = client.call(with_deadline()).await.unwrap();
    let started = Instant::now();
    let error = refusal(client.call(with_deadline())).await;
    assert!(error.is::<QueueTimeout>());
    assert_eq!(started.elapsed(), Duration::from_secs(7));

    drop(held);
    sleep(Duration::from_secs(1)).await;
    let error = refusal(client.call(with_deadline())).await;
    assert!(error.is::<QueueTimeout>());
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    assert_eq!(at(&layer, TILE), quiet(TILE, 1));
}

#[tokio::test(start_paused = true)]
async fn the_calls_context_learns_when_it_was_admitted() {
    let layer = ConcurrencyLimitLayer::per_host(1);
    let mut client = layer.layer(answering(tile));
    let mut request = get(TILE);
    let context = call::Context::insert(request.extensions_mut());
    let held = client.call(get(TILE)).await.unwrap();
    tokio::spawn(async move {
        sleep(Duration::from_secs(3)).await;
        drop(held);
    });
    let started = Instant::now();
    client.call(request).await.unwrap();
    let three_seconds_later = started + Duration::from_secs(3);
    assert_eq!(context.started_or(started), three_seconds_later);
}

#[tokio::test(start_paused = true)]
async fn a_permit_for_the_head_ends_with_it() {
    let layer = ConcurrencyLimitLayer::per_host(1).permit_scope(PermitScope::Head);
    let mut client = layer.layer(answering(tile));
    let _held = client.call(get(TILE)).await.unwrap();
    assert_eq!(at(&layer, TILE), quiet(TILE, 1));
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_is_one_or_refused_and_never_a_deadlock() {
    let layer = ConcurrencyLimitLayer::per_host(0);
    layer
        .layer(answering(tile))
        .oneshot(get(TILE))
        .await
        .unwrap();
    assert_eq!(at(&layer, TILE).limit, 1);
    assert_eq!(
        at(&ConcurrencyLimitLayer::per_host(usize::MAX), TILE).limit,
        65_535
    );
    ConcurrencyLimitLayer::try_per_host(0).unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_refused_is_not_called() {
    let endpoints = Endpoints::builder()
        .endpoint("tiles", ["tiles.example"], EndpointSettings::new())
        .refuse_unknown_hosts()
        .build()
        .unwrap();
    let client = ConcurrencyLimitLayer::new(endpoints).layer(answering(tile));
    assert!(client.clone().oneshot(get(TILE)).await.is_ok());
    let error = refusal(client.oneshot(get(OTHER))).await;
    assert_eq!(
        error.to_string(),
        r#"no endpoint is set up for host "other.example", and unknown hosts are refused"#
    );
}

#[tokio::test(start_paused = true)]
async fn all_that_is_built_from_one_endpoints_shares_its_limits() {
    let endpoints = Endpoints::builder()
        .endpoint(
            "both",
            ["tiles.example", "other.example"],
            EndpointSettings::new().concurrency(1),
        )
        .build()
        .unwrap();
    let layer = ConcurrencyLimitLayer::new(endpoints.clone());
    let _held = layer
        .layer(answering(tile))
        .oneshot(get(TILE))
        .await
        .unwrap();
    let mut other = ConcurrencyLimitLayer::new(endpoints).layer(answering(tile));
    let mut waiting = Task::new(other.call(get(OTHER)));
    assert!(waiting.poll().is_pending());
    assert_eq!(at(&layer, TILE).queued, 1);
}

#[tokio::test]
async fn the_body_is_handed_on_as_it_is() {
    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", "1".parse().unwrap());
    let script = || Script::of(["a", "b"]).sized(2).trailers(trailers.clone());
    let layer = ConcurrencyLimitLayer::per_host(1);
    let mut client = layer.layer(answering(script));
    let mut body = client.call(get(TILE)).await.unwrap().into_body();
    let mut expected = script();
    loop {
        assert_eq!(body.size_hint().exact(), expected.size_hint().exact());
        assert_eq!(body.is_end_stream(), expected.is_end_stream());
        let (Some(frame), Some(of)) = (body.frame().await, expected.frame().await) else {
            break;
        };
        let (frame, of) = (frame.unwrap(), of.unwrap());
        assert_eq!(frame.data_ref(), of.data_ref());
        assert_eq!(frame.trailers_ref(), of.trailers_ref());
    }
    assert!(expected.frame().await.is_none());
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn many_tasks_on_two_threads_never_exceed_the_limit_and_leave_nothing() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap();
    let layer = ConcurrencyLimitLayer::per_host(3);
    let inside = Arc::new(AtomicUsize::new(0));
    let client = layer.layer(service_fn({
        let inside = Arc::clone(&inside);
        move |_: Request<()>| {
            let inside = Inside::enter(&inside, 3);
            async move {
                tokio::task::yield_now().await;
                drop(inside);
                Ok::<_, Infallible>(Response::new(tile()))
            }
        }
    }));
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let client = client.clone();
            runtime.spawn(async move {
                for n in 0..500 {
                    let mut call = pin!(client.clone().oneshot(get(TILE)));
                    // Every third is given up while it waits, where it does.
                    let first = future::poll_fn(|cx| Poll::Ready(call.as_mut().poll(cx))).await;
                    match first {
                        Poll::Ready(response) => drop(response.unwrap()),
                        Poll::Pending if (n + task) % 3 == 0 => {}
                        Poll::Pending => drop(call.await.unwrap()),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(at(&layer, TILE), quiet(TILE, 3));
    runtime.shutdown_background();
}

fn get(uri: &str) -> Request<()> {
    Request::get(uri).body(()).unwrap()
}

fn tile() -> Full<Bytes> {
    Full::from("a tile")
}

fn at(layer: &ConcurrencyLimitLayer, uri: &str) -> EndpointSnapshot {
    layer.endpoints().find(&uri.parse().unwrap()).snapshot()
}

/// The error of a call that must not wait for ever.
async fn refusal<R>(call: impl Future<Output = Result<R, BoxError>>) -> BoxError {
    match timeout(Duration::from_secs(3600), call).await {
        Ok(Ok(_)) => panic!("it was answered"),
        Ok(Err(error)) => error,
        Err(_) => panic!("it waits for ever"),
    }
}

/// Nothing in flight, nobody waits, nothing reclaimed.
fn quiet(uri: &str, limit: usize) -> EndpointSnapshot {
    let host = uri.parse::<http::Uri>().unwrap().host().unwrap().to_owned();
    EndpointSnapshot {
        name: format!("{host}:80"),
        limit,
        in_flight: 0,
        queued: 0,
        unread_bodies: 0,
        reclaimed: 0,
        breaker: BreakerState::Closed,
        cooldown: None,
        closed_for: Duration::ZERO,
        trips: 0,
        probes: 0,
        baseline: None,
    }
}

/// Answers every request at once.
fn answering<B: Body>(
    body: impl Fn() -> B + Clone,
) -> impl Service<
    Request<()>,
    Response = Response<B>,
    Error = Infallible,
    Future = future::Ready<Result<Response<B>, Infallible>>,
> + Clone {
    service_fn(move |_| future::ready(Ok(Response::new(body()))))
}

/// Counts who is inside, as the server would see it.
struct Inside(Arc<AtomicUsize>);

impl Inside {
    fn enter(inside: &Arc<AtomicUsize>, limit: usize) -> Self {
        assert!(
            inside.fetch_add(1, Ordering::SeqCst) < limit,
            "over the limit"
        );
        Self(Arc::clone(inside))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Adds up how many answers are in flight at the time of its drop.
struct LooksWhenDropped {
    layer: ConcurrencyLimitLayer,
    seen: Arc<AtomicUsize>,
}

impl Drop for LooksWhenDropped {
    fn drop(&mut self) {
        let in_flight = at(&self.layer, TILE).in_flight;
        self.seen.fetch_add(in_flight, Ordering::Relaxed);
    }
}

/// A future polled by hand, that counts how often it was woken.
struct Task<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl<F: Future> Task<F> {
    fn new(future: F) -> Self {
        Self {
            future: Box::pin(future),
            wakes: Arc::default(),
        }
    }

    fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::Relaxed)
    }
}

/// A body of given frames.
#[derive(Debug)]
struct Script {
    frames: VecDeque<Poll<Result<Frame<Bytes>, BoxError>>>,
    size: SizeHint,
    hides_its_end: bool,
    pends_for_ever: bool,
}

impl Script {
    fn of<const N: usize>(frames: [&'static str; N]) -> Self {
        Self {
            frames: frames
                .map(|frame| Poll::Ready(Ok(Frame::data(frame.into()))))
                .into(),
            size: SizeHint::default(),
            hides_its_end: false,
            pends_for_ever: false,
        }
    }

    fn failing(mut self) -> Self {
        self.frames.push_back(Poll::Ready(Err("cut".into())));
        self
    }

    /// Pending once before every frame.
    fn stuttering(mut self) -> Self {
        self.frames = self
            .frames
            .into_iter()
            .flat_map(|frame| [Poll::Pending, frame])
            .collect();
        self
    }

    fn pending(mut self) -> Self {
        self.pends_for_ever = true;
        self.hiding_its_end()
    }

    fn hiding_its_end(mut self) -> Self {
        self.hides_its_end = true;
        self
    }

    fn sized(mut self, size: u64) -> Self {
        self.size = SizeHint::with_exact(size);
        self
    }

    fn trailers(mut self, trailers: HeaderMap) -> Self {
        self.frames
            .push_back(Poll::Ready(Ok(Frame::trailers(trailers))));
        self
    }
}

impl Body for Script {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.pends_for_ever {
            return Poll::Pending;
        }
        match self.frames.pop_front() {
            None => Poll::Ready(None),
            Some(Poll::Ready(frame)) => Poll::Ready(Some(frame)),
            Some(Poll::Pending) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && !self.hides_its_end
    }

    fn size_hint(&self) -> SizeHint {
        self.size
    }
}

/// Is pending twice at every place where it may be.
#[derive(Clone, Default)]
struct Stuttering {
    asked: usize,
}

impl Service<Request<()>> for Stuttering {
    type Response = Response<Script>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Script>, Infallible>>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.asked += 1;
        if self.asked > 2 {
            return Poll::Ready(Ok(()));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(self.asked > 2, "called unready");
        Box::pin(async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            Ok(Response::new(Script::of(["a", "b"]).stuttering()))
        })
    }
}

/// Panics at one place.
#[derive(Clone)]
struct Panicking {
    place: &'static str,
}

impl Panicking {
    fn pass(&self, place: &str) {
        if self.place == place {
            std::panic::panic_any(self.place);
        }
    }
}

impl Service<Request<()>> for Panicking {
    type Response = Response<Self>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Self>, Infallible>>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.pass("ready");
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        self.pass("call");
        let this = self.clone();
        Box::pin(async move {
            this.pass("response");
            Ok(Response::new(this))
        })
    }
}

impl Body for Panicking {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.pass("body");
        Poll::Ready(None)
    }
}
