//! The rows: what is measured, each over a bare row that makes the same call without any layer.

use std::fmt::Debug;
use std::future::{Ready, ready};
use std::time::Duration;

use http::{Request, Response};
use tokio::time::Instant;
use tower::limit::ConcurrencyLimitLayer;
use tower::retry::{Policy, RetryLayer};
use tower::timeout::TimeoutLayer;
use tower::{BoxError, ServiceBuilder};
use tower_resilience::bulkhead::BulkheadLayer;
use tower_resilience::circuitbreaker::CircuitBreakerLayer;
use tower_resilience::ratelimiter::RateLimiterLayer;
use tower_resilience::timelimiter::TimeLimiterLayer;
use tower_spatial::exception::ServiceExceptionLayer;
use tower_spatial::retry::RetryPolicy;
use tower_spatial::{
    AdaptiveSettings, ConcurrencyLimitLayer as PerHost, EndpointSettings, Endpoints, Quota,
    SpatialLayer,
};

use crate::exchange::{
    Call, Get, Inner, answer, drive, exchange, get_map, get_unknown, next_frame,
};

/// One thing to measure.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The row that does the same without layers.
    pub(crate) bare: &'static str,
    /// Units (calls or frames) in one sample: long enough for the clock, short enough to be rarely interrupted.
    pub(crate) units: u32,
    /// Does so many units, answers how long they took.
    pub(crate) run: Box<dyn FnMut(u32) -> Duration>,
}

/// What the musts are about: a template request cloned for each call and an image, then other bodies.
pub(crate) fn main() -> Vec<Row> {
    let map = get_map();
    let unknown = get_unknown();
    vec![
        cloned("bare", "bare", Inner::image, bare, &map),
        cloned("tower", "bare", Inner::image, tower_three, &map),
        cloned(
            "tower-resilience",
            "bare",
            Inner::image,
            tower_resilience_five,
            &map,
        ),
        cloned("ours", "bare", Inner::image, ours, &map),
        cloned("everything", "bare", Inner::image, everything, &map),
        cloned(
            "bare, octets",
            "bare, octets",
            Inner::octets,
            bare,
            &unknown,
        ),
        cloned(
            "ours, octets",
            "bare, octets",
            Inner::octets,
            ours,
            &unknown,
        ),
        cloned("bare, 2 KB", "bare, 2 KB", Inner::small, bare, &map),
        cloned("ours, 2 KB image", "bare, 2 KB", Inner::small, ours, &map),
        cloned("ours, 2 KB GML", "bare, 2 KB", Inner::gml, ours, &map),
    ]
}

/// 64 KB frames in the middle of a body.
pub(crate) fn frames() -> Vec<Row> {
    vec![
        frame("frame bare", "frame bare", bare),
        frame("frame ours", "frame bare", ours),
    ]
}

/// A request built from strings for each call.
pub(crate) fn fresh() -> Vec<Row> {
    vec![
        built("fresh bare", "fresh bare", Inner::image, bare),
        built("fresh tower", "fresh bare", Inner::image, tower_three),
        built(
            "fresh tower-resilience",
            "fresh bare",
            Inner::image,
            tower_resilience_five,
        ),
        built("fresh ours", "fresh bare", Inner::image, ours),
    ]
}

/// Layers alone.
pub(crate) fn single() -> Vec<Row> {
    let map = get_map();
    vec![
        cloned("bare", "bare", Inner::image, bare, &map),
        cloned("tower retry", "bare", Inner::image, tower_retry, &map),
        cloned("our retry policy", "bare", Inner::image, retry, &map),
        cloned("tower concurrency", "bare", Inner::image, tower_limit, &map),
        cloned(
            "our limit per host",
            "bare",
            Inner::image,
            per_host_limit,
            &map,
        ),
        cloned("tower timeout", "bare", Inner::image, tower_timeout, &map),
        cloned("our exception layer", "bare", Inner::image, exception, &map),
    ]
}

fn bare(inner: Inner) -> Inner {
    inner
}

/// tower's retry, concurrency limit and timeout.
fn tower_three(inner: Inner) -> impl Call {
    ServiceBuilder::new()
        .layer(RetryLayer::new(Attempts(3)))
        .layer(ConcurrencyLimitLayer::new(LIMIT))
        .layer(TimeoutLayer::new(TIMEOUT))
        .service(inner)
}

fn tower_retry(inner: Inner) -> impl Call {
    ServiceBuilder::new().retry(Attempts(3)).service(inner)
}

fn tower_limit(inner: Inner) -> impl Call {
    ServiceBuilder::new()
        .concurrency_limit(LIMIT)
        .service(inner)
}

fn tower_timeout(inner: Inner) -> impl Call {
    ServiceBuilder::new().timeout(TIMEOUT).service(inner)
}

/// Our policy in tower's retry, our limit per host, tower's timeout, our exception layer.
fn ours(inner: Inner) -> impl Call {
    ServiceBuilder::new()
        .layer(RetryLayer::new(RetryPolicy::default()))
        .layer(PerHost::per_host(LIMIT))
        .layer(TimeoutLayer::new(TIMEOUT))
        .layer(ServiceExceptionLayer::new())
        .service(inner)
}

/// All our layers in their order, with an adaptive limit and a rate at which nothing waits. Whole answers are not checked.
fn everything(inner: Inner) -> impl Call {
    let quota = Quota::new(1_000_000_000, Duration::from_secs(1))
        .and_then(|quota| quota.with_burst(500_000_000))
        .expect("a quota");
    let settings = EndpointSettings::new()
        .adaptive(AdaptiveSettings::default())
        .rate([quota]);
    let endpoints = Endpoints::builder()
        .defaults(settings)
        .build()
        .expect("endpoints");
    ServiceBuilder::new()
        .layer(SpatialLayer::new(endpoints))
        .service(inner)
}

/// tower-resilience's retry, circuit breaker, rate limiter, bulkhead and time limiter, none of which ever refuses here.
fn tower_resilience_five(inner: Inner) -> impl Call {
    let retry = tower_resilience::retry::RetryLayer::builder()
        .max_attempts(3)
        .build();
    let breaker = CircuitBreakerLayer::builder()
        .build()
        .expect("a circuit breaker");
    let rate = RateLimiterLayer::per_second(1_000_000_000)
        .build()
        .expect("a rate limiter");
    let bulkhead = BulkheadLayer::builder()
        .max_concurrent_calls(LIMIT)
        .backpressure()
        .build()
        .expect("a bulkhead");
    let time = TimeLimiterLayer::builder()
        .timeout_duration(TIMEOUT)
        .build();
    ServiceBuilder::new()
        .layer(retry)
        .layer(breaker)
        .layer(rate)
        .layer(bulkhead)
        .layer(time)
        .service(inner)
}

/// Our limit alone.
pub(crate) fn per_host_limit(inner: Inner) -> impl Call {
    ServiceBuilder::new()
        .layer(PerHost::per_host(LIMIT))
        .service(inner)
}

/// Our exception layer alone.
fn exception(inner: Inner) -> impl Call {
    ServiceBuilder::new()
        .layer(ServiceExceptionLayer::new())
        .service(inner)
}

/// Our policy alone in tower's retry.
fn retry(inner: Inner) -> impl Call {
    ServiceBuilder::new()
        .retry(RetryPolicy::default())
        .service(inner)
}

/// A row that clones `template` for each call.
fn cloned<S>(
    name: &'static str,
    bare: &'static str,
    inner: fn() -> Inner,
    stack: impl FnOnce(Inner) -> S,
    template: &Get,
) -> Row
where
    S: Call + 'static,
{
    let template = template.clone();
    call(name, bare, inner, stack, move || template.clone())
}

/// A row that builds the request for each call.
fn built<S>(
    name: &'static str,
    bare: &'static str,
    inner: fn() -> Inner,
    stack: impl FnOnce(Inner) -> S,
) -> Row
where
    S: Call + 'static,
{
    call(name, bare, inner, stack, get_map)
}

fn call<S>(
    name: &'static str,
    bare: &'static str,
    inner: fn() -> Inner,
    stack: impl FnOnce(Inner) -> S,
    request: impl Fn() -> Get + 'static,
) -> Row
where
    S: Call + 'static,
{
    let inner = inner();
    let length = inner.length();
    let mut service = stack(inner);
    let run = Box::new(move |units| {
        let started = Instant::now();
        for _ in 0..units {
            drive(exchange(&mut service, request(), length));
        }
        started.elapsed()
    });
    let units = 256;
    Row {
        name,
        bare,
        units,
        run,
    }
}

/// A row whose unit is one 64 KB frame in the middle of a body.
fn frame<S>(name: &'static str, bare: &'static str, stack: fn(Inner) -> S) -> Row
where
    S: Call + 'static,
{
    let image = Inner::frame();
    let run = Box::new(move |units| {
        let first = 8;
        let mut service = stack(image.repeated(first + units as usize));
        let mut body = drive(answer(&mut service, get_map()));
        drive(async {
            for _ in 0..first {
                next_frame(&mut body).await.expect("a frame");
            }
            let started = Instant::now();
            for _ in 0..units {
                next_frame(&mut body).await.expect("a frame");
            }
            started.elapsed()
        })
    });
    let units = 8_192;
    Row {
        name,
        bare,
        units,
        run,
    }
}

/// A policy as tower's documentation has it: clone the request, count the attempts.
#[derive(Clone, Debug)]
struct Attempts(usize);

impl<B: Clone, R> Policy<Request<B>, Response<R>, BoxError> for Attempts {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<B>,
        result: &mut Result<Response<R>, BoxError>,
    ) -> Option<Ready<()>> {
        let failed = result
            .as_ref()
            .map_or(true, |response| response.status().is_server_error());
        if !failed || self.0 == 0 {
            return None;
        }
        self.0 -= 1;
        Some(ready(()))
    }

    fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}

const LIMIT: usize = 16;
const TIMEOUT: Duration = Duration::from_secs(60);
