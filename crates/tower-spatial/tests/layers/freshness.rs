//! Answers that are older than expected.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, retry::RetryLayer, service_fn};
use tower_spatial::{
    Deadline, EndpointSettings, Endpoints,
    call::{Attempts, Cause, Outcome, Verdict},
    find,
    retry::{GaveUp, RetryPolicy, StopReason},
    verify::freshness::{ExpectedModified, FreshnessLayer, Sign, Stale, StaleError},
};

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// A cache that answers each request with the next of these ages, the last one for ever, or with status 503 where there
/// is none.
#[derive(Clone)]
struct Cache {
    ages: Arc<Vec<Option<u64>>>,
    asked: Arc<Mutex<Vec<(Uri, HeaderMap)>>>,
}

impl Cache {
    fn new(ages: impl Into<Vec<Option<u64>>>) -> Self {
        Self {
            ages: Arc::new(ages.into()),
            asked: Arc::default(),
        }
    }

    fn service<B: Send + 'static>(
        &self,
    ) -> impl Service<Request<B>, Response = Response<Full<Bytes>>, Error = BoxError, Future: Send>
    + Clone
    + use<B> {
        let Self { ages, asked } = self.clone();
        service_fn(move |request: Request<B>| {
            let mut asked = asked.lock().unwrap();
            let age = ages[asked.len().min(ages.len() - 1)];
            asked.push((request.uri().clone(), request.headers().clone()));
            async move {
                let response = match age {
                    Some(age) => Response::builder().header(header::AGE, age),
                    None => Response::builder().status(503),
                };
                Ok(response.body(Full::from("tile")).unwrap())
            }
        })
    }

    fn asked(&self) -> Vec<(Uri, HeaderMap)> {
        self.asked.lock().unwrap().clone()
    }
}

fn fresh_within_a_day() -> FreshnessLayer {
    FreshnessLayer::new().max_age(DAY)
}

async fn call(
    layer: FreshnessLayer,
    cache: &Cache,
    request: Request<NoBody>,
) -> Result<Response<Full<Bytes>>, BoxError> {
    ServiceBuilder::new()
        .layer(RetryLayer::new(RetryPolicy::default()))
        .layer(layer)
        .service(cache.service())
        .oneshot(request)
        .await
}

fn says_no_cache(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::CACHE_CONTROL)
        .iter()
        .any(|value| value == "no-cache")
}

#[tokio::test(start_paused = true)]
async fn a_stale_answer_is_repeated_past_the_cache() {
    let cache = Cache::new([Some(2_592_000), Some(0)]);
    let response = call(fresh_within_a_day(), &cache, get_map()).await.unwrap();
    assert_eq!(response.extensions().get::<Attempts>().unwrap().count(), 2);
    let asked = cache.asked();
    assert_eq!(asked.len(), 2);
    assert!(!says_no_cache(&asked[0].1) && says_no_cache(&asked[1].1));
    assert_eq!(asked[0].0, asked[1].0, "no parameter was named");
}

#[tokio::test(start_paused = true)]
async fn a_repeat_for_another_reason_is_answered_by_the_cache() {
    let cache = Cache::new([None, Some(5)]);
    let layer = fresh_within_a_day()
        .cache_busting_parameter("_fresh")
        .unwrap();
    call(layer, &cache, get_map()).await.unwrap();
    let asked = cache.asked();
    assert!(!says_no_cache(&asked[1].1));
    assert_eq!(asked[0].0, asked[1].0);
}

#[tokio::test(start_paused = true)]
async fn the_caches_are_passed_by_at_most_once_a_call() {
    let old = Some(2_592_000);
    for ages in [&[old, old, old, Some(0)][..], &[old, None, old, Some(0)]] {
        let cache = Cache::new(ages);
        let layer = fresh_within_a_day()
            .cache_busting_parameter("_fresh")
            .unwrap();
        let mut request = get_map();
        let mine = "max-stale=0".parse().unwrap();
        request.headers_mut().insert(header::CACHE_CONTROL, mine);
        call(layer, &cache, request).await.unwrap();
        let asked = cache.asked();
        let busted = asked
            .iter()
            .map(|(uri, _)| uri.query().unwrap().contains("_fresh="));
        assert_eq!(busted.collect::<Vec<_>>(), [false, true, false, false]);
        let no_cache = asked.iter().map(|(_, headers)| says_no_cache(headers));
        assert_eq!(no_cache.collect::<Vec<_>>(), [false, true, true, true]);
        let all = |(_, headers): &(Uri, HeaderMap)| headers[header::CACHE_CONTROL] == "max-stale=0";
        assert!(asked.iter().all(all), "the caller's own is kept");
        assert!(asked[1].0.to_string().starts_with(GET_MAP));
    }
}

#[tokio::test(start_paused = true)]
async fn two_calls_never_share_a_value() {
    let cache = Cache::new([Some(2_592_000)]);
    for _ in 0..2 {
        let layer = fresh_within_a_day()
            .cache_busting_parameter("_fresh")
            .unwrap();
        let mut request = get_map();
        request
            .extensions_mut()
            .insert(Deadline::after(60 * SECOND));
        call(layer, &cache, request).await.unwrap_err();
    }
    let mut busted: Vec<_> = cache
        .asked()
        .into_iter()
        .map(|(uri, _)| uri.to_string())
        .collect();
    busted.retain(|uri| uri.contains("_fresh="));
    assert_eq!(busted.len(), 2);
    assert_ne!(busted[0], busted[1]);
}

#[tokio::test(start_paused = true)]
async fn a_signed_request_is_repeated_without_the_parameter() {
    let cache = Cache::new([Some(2_592_000), Some(0)]);
    let layer = fresh_within_a_day()
        .cache_busting_parameter("_fresh")
        .unwrap();
    let uri = "https://bucket.example/cog.tif?X-Amz-Signature=abc&X-Amz-Date=1";
    call(
        layer,
        &cache,
        Request::get(uri).body(NoBody::new()).unwrap(),
    )
    .await
    .unwrap();
    let asked = cache.asked();
    assert_eq!(asked[1].0, uri);
    assert!(says_no_cache(&asked[1].1));
}

#[tokio::test(start_paused = true)]
async fn one_that_stays_stale_ends_as_was_chosen() {
    let policy = || RetryLayer::new(RetryPolicy::builder().attempts(3).build().unwrap());
    let stack = |layer, cache: &Cache| {
        ServiceBuilder::new()
            .layer(policy())
            .layer(layer)
            .service(cache.service())
    };
    let cache = Cache::new([Some(2_592_000)]);
    let error = stack(fresh_within_a_day(), &cache)
        .oneshot(get_map())
        .await
        .unwrap_err();
    let gave_up = find::<GaveUp>(&error).unwrap();
    assert_eq!(gave_up.reason(), StopReason::Attempts);
    assert!(
        gave_up
            .attempts()
            .iter()
            .all(|attempt| *attempt.cause() == Cause::Stale)
    );
    assert_eq!(find::<StaleError>(&error).unwrap().parts().status, 200);
    let stale = find::<Stale>(&error).unwrap();
    assert_eq!(
        stale.sign(),
        &Sign::Age {
            age: 30 * DAY,
            max_age: DAY
        }
    );
    assert_eq!(
        stale.to_string(),
        "the answer is 2592000s old, expected at most 86400s"
    );
    assert_eq!(cache.asked().len(), 3);

    let cache = Cache::new([Some(2_592_000)]);
    let response = stack(fresh_within_a_day().annotate(), &cache)
        .oneshot(get_map())
        .await
        .unwrap();
    assert!(response.extensions().get::<Stale>().is_some());
    assert_eq!(
        response
            .extensions()
            .get::<GaveUp>()
            .unwrap()
            .attempts()
            .len(),
        3
    );
    assert_eq!(
        response.into_body().collect().await.unwrap().to_bytes(),
        "tile"
    );
}

#[tokio::test(start_paused = true)]
async fn alone_it_says_so_at_once() {
    let cache = Cache::new([Some(2_592_000)]);
    let error = fresh_within_a_day()
        .layer(cache.service())
        .oneshot(get_map())
        .await
        .unwrap_err();
    assert!(find::<Stale>(&error).is_some());
    let outcome = Outcome::of_error(&error);
    assert_eq!(
        (outcome.verdict(), outcome.cause()),
        (Verdict::Transient, &Cause::Stale)
    );
    let annotating = fresh_within_a_day().annotate().layer(cache.service());
    let response = annotating.oneshot(get_map()).await.unwrap();
    assert!(response.extensions().get::<Stale>().is_some());
    let outcome = Outcome::of_response(&response);
    assert_eq!(
        (outcome.verdict(), outcome.cause()),
        (Verdict::Transient, &Cause::Stale)
    );
}

#[tokio::test(start_paused = true)]
async fn only_answers_that_caches_keep_are_judged() {
    for method in ["POST", "PUT", "DELETE"] {
        let cache = Cache::new([Some(2_592_000)]);
        let mut request = get_map();
        *request.method_mut() = method.parse().unwrap();
        fresh_within_a_day()
            .layer(cache.service())
            .oneshot(request)
            .await
            .unwrap();
    }
    let failing = service_fn(|_: Request<NoBody>| async {
        let response = Response::builder()
            .status(404)
            .header(header::AGE, "2592000");
        Ok::<_, BoxError>(response.body(Full::<Bytes>::default()).unwrap())
    });
    let response = fresh_within_a_day()
        .layer(failing)
        .oneshot(get_map())
        .await
        .unwrap();
    assert_eq!(response.status(), 404);
}

#[tokio::test(start_paused = true)]
async fn the_request_is_heard_before_the_endpoint_and_the_endpoint_before_the_layer() {
    let endpoints = |max_age| {
        let settings = EndpointSettings::new()
            .max_age(max_age)
            .cache_busting_parameter("v");
        let builder = Endpoints::builder().endpoint("maps", ["maps.example.org"], settings);
        builder.build().unwrap()
    };
    let week = 7 * DAY;
    for (by_endpoint, expected) in [(None, false), (Some(week), true), (Some(DAY), false)] {
        let cache = Cache::new([Some(3 * 86_400)]);
        let mut layer = fresh_within_a_day();
        if let Some(max_age) = by_endpoint {
            layer = layer.endpoints(endpoints(max_age));
        }
        let result = layer.layer(cache.service()).oneshot(get_map()).await;
        assert_eq!(result.is_ok(), expected, "{by_endpoint:?}");
    }
    let cache = Cache::new([Some(3 * 86_400), Some(0)]);
    call(
        fresh_within_a_day().endpoints(endpoints(DAY)),
        &cache,
        get_map(),
    )
    .await
    .unwrap();
    assert!(cache.asked()[1].0.query().unwrap().contains("&v="));

    for (modified, expected) in [(2 * DAY, true), (4 * DAY, true), (DAY, false)] {
        let cache = Cache::new([Some(2 * 86_400)]);
        let layer = FreshnessLayer::new().not_before(SystemTime::now() - DAY);
        let mut request = get_map();
        request
            .extensions_mut()
            .insert(ExpectedModified(SystemTime::now() - modified));
        let result = layer.layer(cache.service()).oneshot(request).await;
        assert_eq!(result.is_ok(), expected, "{modified:?}");
    }
    let error = Endpoints::builder()
        .defaults(EndpointSettings::new().cache_busting_parameter("a b"))
        .build()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cache_busting_parameter: \"a b\" is not one or more of A-Z a-z 0-9 - . _ ~"
    );
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_stale_answer_is_read_so_that_its_connection_lives() {
    let taken = Arc::default();
    let counted = Arc::clone(&taken);
    let server = service_fn(move |_: Request<NoBody>| {
        let mut body = Scripted::frames(["a", "b", "c"]);
        body.taken = Arc::clone(&counted);
        let mut response = answer(200, "image/png", body);
        response.headers_mut().insert(header::AGE, 2_592_000.into());
        async { Ok::<_, BoxError>(response) }
    });
    let error = fresh_within_a_day()
        .layer(server)
        .oneshot(get_map())
        .await
        .unwrap_err();
    assert!(find::<Stale>(&error).is_some());
    assert_eq!(taken.load(std::sync::atomic::Ordering::Relaxed), 3);
}
