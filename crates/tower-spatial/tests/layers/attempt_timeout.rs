//! The limits of one attempt.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use proptest::prelude::*;
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, retry::RetryLayer, service_fn};
use tower_spatial::{
    Deadline, Endpoints,
    call::{Attempts, Cause},
    find,
    retry::{GaveUp, RetryPolicy, StopReason},
    timeout::{
        attempt::{AttemptTimedOut, AttemptTimeoutLayer, TimeoutKind, TooShort},
        deadline::DeadlineLayer,
    },
};

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

fn timed_out(error: &BoxError) -> (TimeoutKind, Duration) {
    let error = find::<AttemptTimedOut>(error).expect("the attempt has timed out");
    (error.kind(), error.limit())
}

/// Answers with a body of these steps, at once.
fn answers(
    steps: impl IntoIterator<Item = Step>,
) -> impl Service<Request<NoBody>, Response = Response<Scripted>, Error = BoxError> + Clone {
    let steps: Vec<Step> = steps.into_iter().collect();
    service_fn(move |_| {
        let body = Scripted::new(steps.clone());
        async { Ok(answer(200, "image/tiff", body)) }
    })
}

/// Answers after so long, as the query says: `?400` takes 400 s.
#[derive(Clone, Default)]
struct Slow {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Slow {
    fn service(
        &self,
    ) -> impl Service<
        Request<NoBody>,
        Response = Response<Full<Bytes>>,
        Error = BoxError,
        Future: Send,
    > + Clone
    + use<> {
        let asked = Arc::clone(&self.asked);
        service_fn(move |request: Request<NoBody>| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let seconds = query.rsplit('=').next().and_then(|n| n.parse().ok());
            asked.lock().unwrap().push(query);
            async move {
                sleep(SECOND * seconds.expect("a number of seconds")).await;
                Ok(Response::new(Full::from("done")))
            }
        })
    }
}

fn get_feature(seconds: u32) -> Request<NoBody> {
    let uri = format!("https://example.org/ows?SERVICE=WFS&REQUEST=GetFeature&s={seconds}");
    Request::get(uri).body(NoBody::new()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_ends_the_attempt_and_the_next_one_succeeds() {
    let server = Server::new([Reply::Hang, Reply::status(200)]);
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryPolicy::default()))
        .layer(AttemptTimeoutLayer::new().head(20 * SECOND))
        .service(server.clone());
    let response = client.oneshot(get_map()).await.unwrap();
    assert_eq!(response.extensions().get::<Attempts>().unwrap().count(), 2);
    let asked_at = server.asked_at.lock().unwrap();
    let gap = asked_at[1] - asked_at[0];
    assert!(
        gap >= 20 * SECOND && gap <= 21 * SECOND + SECOND / 100,
        "{gap:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_limits_are_180_s_for_the_head_60_s_of_silence_and_none_on_the_whole() {
    let start = Instant::now();
    let client = AttemptTimeoutLayer::new();
    let hung = ServiceBuilder::new()
        .layer(&client)
        .service(Server::new([Reply::Hang]));
    let error = hung.oneshot(get_map()).await.unwrap_err();
    assert_eq!(timed_out(&error), (TimeoutKind::Head, 180 * SECOND));
    assert_eq!(start.elapsed(), 180 * SECOND);

    let steps = (0..100).flat_map(|_| [Step::data("x"), Step::Wait(59 * SECOND)]);
    let server = answers(steps.chain([Step::data("x"), Step::Hang]));
    let body = client
        .layer(server)
        .oneshot(get_map())
        .await
        .unwrap()
        .into_body();
    let start = Instant::now();
    let error = body.collect().await.unwrap_err();
    assert_eq!(timed_out(&error), (TimeoutKind::Idle, 60 * SECOND));
    assert_eq!(start.elapsed(), (100 * 59 + 60) * SECOND);
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_body_whose_head_was_waited_for_longer() {
    let server = service_fn(|_: Request<NoBody>| async {
        sleep(100 * SECOND).await;
        let body = Scripted::new([Step::data("x"), Step::Hang]);
        Ok::<_, BoxError>(answer(200, "image/tiff", body))
    });
    let client = AttemptTimeoutLayer::new().idle(SECOND).layer(server);
    let start = Instant::now();
    let body = client.oneshot(get_map()).await.unwrap().into_body();
    let error = body.collect().await.unwrap_err();
    assert_eq!(timed_out(&error), (TimeoutKind::Idle, SECOND));
    assert_eq!(start.elapsed(), 101 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_its_time_is_not_cut_off() {
    let steps = (0..20).flat_map(|_| [Step::data("x"), Step::Wait(2 * SECOND)]);
    let client = AttemptTimeoutLayer::new()
        .idle(3 * SECOND)
        .layer(answers(steps));
    let mut body = client.oneshot(get_map()).await.unwrap().into_body();
    let mut frames = 0;
    while let Some(frame) = body.frame().await {
        frame.unwrap();
        frames += 1;
        sleep(600 * SECOND).await;
    }
    assert_eq!(frames, 20);
}

#[tokio::test(start_paused = true)]
async fn the_whole_attempt_ends_in_its_head_or_in_its_body() {
    let layer = AttemptTimeoutLayer::new().whole(50 * SECOND);
    let start = Instant::now();
    let error = layer
        .layer(Server::new([Reply::Hang]))
        .oneshot(get_map())
        .await
        .unwrap_err();
    assert_eq!(timed_out(&error), (TimeoutKind::Whole, 50 * SECOND));
    assert_eq!(start.elapsed(), 50 * SECOND);

    let drip = answers((0..1_000).flat_map(|_| [Step::data("x"), Step::Wait(SECOND)]));
    let start = Instant::now();
    let body = layer
        .layer(drip)
        .oneshot(get_map())
        .await
        .unwrap()
        .into_body();
    let error = body.collect().await.unwrap_err();
    assert_eq!(timed_out(&error).0, TimeoutKind::Whole);
    assert!((49 * SECOND..=51 * SECOND).contains(&start.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn the_deadline_cuts_every_limit_and_the_budget_none() {
    for with_context in [true, false] {
        let server = Server::new([Reply::status(503), Reply::Hang]);
        let inner = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryPolicy::default()))
            .layer(AttemptTimeoutLayer::new())
            .service(server.clone());
        let mut request = get_map();
        request
            .extensions_mut()
            .insert(Deadline::after(30 * SECOND));
        let start = Instant::now();
        let error = match with_context {
            true => DeadlineLayer::new()
                .layer(inner)
                .oneshot(request)
                .await
                .unwrap_err(),
            false => inner.oneshot(request).await.unwrap_err(),
        };
        let gave_up = find::<GaveUp>(&error).expect("it says what was tried");
        assert_eq!(gave_up.reason(), StopReason::Deadline);
        assert_eq!(gave_up.attempts().last().unwrap().cause(), &Cause::TimedOut);
        assert_eq!(timed_out(&error).0, TimeoutKind::Deadline);
        assert!((30 * SECOND..31 * SECOND).contains(&start.elapsed()));
        assert_eq!(server.requests(), 2);
    }

    let mut request = get_map();
    request
        .extensions_mut()
        .insert(Deadline::after(30 * SECOND));
    let steps = (0..1_000).flat_map(|_| [Step::data("x"), Step::Wait(SECOND)]);
    let body = AttemptTimeoutLayer::new()
        .layer(answers(steps))
        .oneshot(request)
        .await
        .unwrap();
    let start = Instant::now();
    let error = body.into_body().collect().await.unwrap_err();
    assert_eq!(timed_out(&error).0, TimeoutKind::Deadline);
    assert!((29 * SECOND..31 * SECOND).contains(&start.elapsed()));

    let policy = RetryPolicy::builder().budget(10 * SECOND).build().unwrap();
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .layer(AttemptTimeoutLayer::new())
        .service(Slow::default().service());
    let response = client.oneshot(get_feature(170)).await.unwrap();
    assert_eq!(
        response.status(),
        200,
        "a success that outlives the budget is one"
    );
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_may_not_start_any_more_is_not_sent() {
    let server = Server::new([Reply::status(200)]);
    let client = AttemptTimeoutLayer::new().layer(server.clone());
    let mut request = get_map();
    request.extensions_mut().insert(Deadline::after(SECOND));
    sleep(2 * SECOND).await;
    client.oneshot(request).await.unwrap_err();
    assert_eq!(server.requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_lies_below_is_dropped_with_the_error() {
    let held = Arc::new(());
    let below = Arc::clone(&held);
    let hung = service_fn(move |_: Request<NoBody>| {
        let below = Arc::clone(&below);
        async move {
            std::future::pending::<()>().await;
            drop(below);
            Ok::<_, BoxError>(Response::new(Full::<Bytes>::default()))
        }
    });
    let mut service = AttemptTimeoutLayer::new().layer(hung);
    let mut call = Box::pin(service.ready().await.unwrap().call(get_map()));
    (&mut call).await.unwrap_err();
    drop(service);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[tokio::test(start_paused = true)]
async fn the_body_is_what_came_from_below() {
    let trailers = http::HeaderMap::from_iter([(http::header::ETAG, "a".parse().unwrap())]);
    let steps = [
        Step::data("ab"),
        Step::Wait(SECOND),
        Step::Trailers(trailers.clone()),
    ];
    let server = service_fn(move |_: Request<NoBody>| {
        let body = Scripted::new(steps.clone()).known_length();
        async { Ok::<_, BoxError>(answer(200, "image/tiff", body)) }
    });
    let client = AttemptTimeoutLayer::new().layer(server);
    let body = client.oneshot(get_map()).await.unwrap().into_body();
    assert_eq!(body.size_hint().exact(), Some(2));
    assert!(!body.is_end_stream());
    let collected = body.collect().await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers));
    assert_eq!(collected.to_bytes(), "ab");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_body_is_cut_off_by_the_first_silence_that_is_too_long_and_by_no_other(
        gaps in prop::collection::vec(1u64..200, 0..20), limit in 1u64..200,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let steps = gaps.iter().flat_map(|gap| [Step::data("x"), Step::Wait(Duration::from_millis(*gap))]);
            let client = AttemptTimeoutLayer::new().idle(Duration::from_millis(limit)).layer(answers(steps));
            let mut body = client.oneshot(get_map()).await.unwrap().into_body();
            let mut expected = Duration::ZERO;
            let mut cut = false;
            for gap in &gaps {
                expected += Duration::from_millis((*gap).min(limit));
                if *gap > limit {
                    cut = true;
                    break;
                }
            }
            let start = Instant::now();
            let error = loop {
                match timeout(3_600 * SECOND, body.frame()).await.unwrap() {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => break Some(error),
                    None => break None,
                }
            };
            assert_eq!(error.is_some(), cut);
            assert_eq!(start.elapsed(), expected);
        });
    }
}

fn patient(
    slow: &Slow,
    told: &Arc<Mutex<Vec<TooShort>>>,
    endpoints: &Endpoints,
) -> tower::util::BoxCloneService<
    Request<NoBody>,
    Response<impl Body<Data = Bytes, Error = BoxError> + use<>>,
    BoxError,
> {
    let told = Arc::clone(told);
    let layer = AttemptTimeoutLayer::new()
        .endpoints(endpoints.clone())
        .on_too_short(move |too_short| told.lock().unwrap().push(too_short.clone()));
    let policy = RetryPolicy::builder()
        .budget(7_200 * SECOND)
        .build()
        .unwrap();
    ServiceBuilder::new()
        .boxed_clone()
        .layer(RetryLayer::new(policy))
        .layer(layer)
        .service(slow.service())
}

#[tokio::test(start_paused = true)]
async fn a_slow_success_gets_more_time_where_others_of_its_kind_succeed() {
    let (slow, told, endpoints) = (Slow::default(), Arc::default(), Endpoints::default());
    let client = patient(&slow, &told, &endpoints);
    let others = client.clone();
    let others = tokio::spawn(async move {
        loop {
            others.clone().oneshot(get_feature(30)).await.unwrap();
        }
    });
    let response = client.clone().oneshot(get_feature(400)).await.unwrap();
    assert_eq!(
        response.extensions().get::<Attempts>().unwrap().count(),
        4,
        "180, 180, 360, 720 s"
    );
    let response = client.oneshot(get_feature(410)).await.unwrap();
    assert!(response.extensions().get::<Attempts>().unwrap().count() <= 4);
    others.abort();
    let told = told.lock().unwrap();
    let [told] = &told[..] else {
        panic!("one warning, {told:?}")
    };
    assert_eq!(
        (told.endpoint(), told.limit(), told.next()),
        ("example.org:443", 180 * SECOND, 360 * SECOND)
    );
    assert!((28 * SECOND..32 * SECOND).contains(&told.p99().unwrap()));
    let uri = get_feature(1).uri().clone();
    assert!(endpoints.find(&uri).head_latency(1.0).unwrap() > 390 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn it_gets_no_more_where_nothing_succeeds_or_only_what_is_of_another_kind() {
    for other in [
        None,
        Some("https://example.org/ows?SERVICE=WFS&REQUEST=GetCapabilities&s=30"),
    ] {
        let (slow, told, endpoints) = (Slow::default(), Arc::default(), Endpoints::default());
        let client = patient(&slow, &told, &endpoints);
        if let Some(other) = other {
            let others = client.clone();
            tokio::spawn(async move {
                loop {
                    let request = Request::get(other).body(NoBody::new()).unwrap();
                    others.clone().oneshot(request).await.unwrap();
                }
            });
        }
        let mut request = get_feature(400);
        request
            .extensions_mut()
            .insert(Deadline::after(3_600 * SECOND));
        let error = client.oneshot(request).await.map(|_| ()).unwrap_err();
        let gave_up = find::<GaveUp>(&error).unwrap();
        let longest = gave_up
            .attempts()
            .iter()
            .map(|attempt| attempt.took())
            .max();
        assert_eq!(longest, Some(180 * SECOND));
        assert!(told.lock().unwrap().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_below_the_p99_is_followed_by_one_with_twice_the_time() {
    let (slow, told, endpoints) = (Slow::default(), Arc::default(), Endpoints::default());
    let unlimited = AttemptTimeoutLayer::new()
        .head(None)
        .endpoints(endpoints.clone());
    for _ in 0..3 {
        let healthy = unlimited.layer(slow.service());
        healthy.oneshot(get_feature(300)).await.unwrap();
    }
    let client = patient(&slow, &told, &endpoints);
    let response = client.oneshot(get_feature(300)).await.unwrap();
    assert_eq!(response.extensions().get::<Attempts>().unwrap().count(), 2);
    assert_eq!(told.lock().unwrap().len(), 1);

    let fixed = ServiceBuilder::new()
        .layer(RetryLayer::new(
            RetryPolicy::builder().attempts(4).build().unwrap(),
        ))
        .layer(AttemptTimeoutLayer::new().endpoints(endpoints).fixed())
        .service(slow.service());
    fixed.oneshot(get_feature(300)).await.unwrap_err();
}
