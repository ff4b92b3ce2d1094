//! What each gate costs a call that it admits at once: nanoseconds, allocations and heap.
//!
//! `cargo bench -p benches --bench gates`. The service below answers at once, futures are polled by hand on one thread.
//! A number is the median over many samples of what a row takes more than the bare service.
#![expect(
    clippy::print_stdout,
    reason = "a report on standard output is what this program is for"
)]

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use allocation_counter::{measure, opt_out};
use http::{Request, Response};
use tokio::time::Instant;
use tower::{Layer, Service};
use tower_spatial::limit::rate::KeySource;
use tower_spatial::{Quota, RateLimitLayer};

fn main() {
    if cfg!(debug_assertions) {
        println!("an unoptimised build measures nothing worth knowing: use cargo bench");
        return;
    }
    let rate = || {
        // So high that no call waits.
        let quota = Quota::new(1_000_000_000, Duration::from_secs(1))
            .and_then(|q| q.with_burst(500_000_000));
        RateLimitLayer::per_host(quota.expect("a quota"))
    };
    let mut rows: Vec<(&str, Run)> = vec![
        ("bare", row(Bare)),
        (
            "rate, no key",
            row(rate().key(KeySource::none()).layer(Bare)),
        ),
        (
            "rate, key in the query",
            row(rate().key(KeySource::query(["key"])).layer(Bare)),
        ),
        ("rate, key in the usual places", row(rate().layer(Bare))),
    ];
    let mut samples = vec![Vec::new(); rows.len()];
    for _ in 0..SAMPLES {
        for (row, samples) in rows.iter_mut().zip(&mut samples) {
            let took = opt_out_value(|| (row.1)(CALLS));
            samples.push(took.as_nanos() as f64 / f64::from(CALLS));
        }
    }
    let bare = median(&samples[0]);
    println!(
        "{:<32}{:>10}{:>14}",
        "over the bare service", "ns", "allocations"
    );
    for ((name, run), samples) in rows.iter_mut().zip(&samples) {
        let allocations = measure(|| _ = run(1_000)).count_total as f64 / 1_000.0;
        println!(
            "{name:<32}{:>10.1}{allocations:>14.2}",
            median(samples) - bare
        );
    }
    println!("heap a key {:.1} B", heap_a_key());
}

/// So many calls, and how long they took.
type Run = Box<dyn FnMut(u32) -> Duration>;

fn row<S>(mut service: S) -> Run
where
    S: Service<Request<()>> + 'static,
    S::Future: Future,
{
    let template = request("abcdefgh01234567");
    // Once, so that what is made for the first call is there.
    call(&mut service, template.clone());
    Box::new(move |calls| {
        let started = Instant::now();
        for _ in 0..calls {
            call(&mut service, black_box(template.clone()));
        }
        started.elapsed()
    })
}

fn heap_a_key() -> f64 {
    let quota = Quota::new(1, Duration::from_secs(3_600)).expect("a quota");
    let mut service = RateLimitLayer::per_host(quota).layer(Bare);
    call(&mut service, request("0"));
    let info = measure(|| {
        for key in 1..KEYS {
            call(&mut service, request(&key.to_string()));
        }
    });
    info.bytes_current as f64 / f64::from(KEYS - 1)
}

fn call<S: Service<Request<()>>>(service: &mut S, request: Request<()>) {
    let mut cx = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut cx).is_ready());
    let answered = pin!(service.call(request)).poll(&mut cx);
    assert!(matches!(answered, Poll::Ready(Ok(_))), "it waits");
}

fn request(key: &str) -> Request<()> {
    let uri = format!(
        "https://maps.example.org/ows?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=roads&STYLES=\
         &CRS=EPSG:3857&BBOX=0,0,1,1&WIDTH=256&HEIGHT=256&FORMAT=image/png&key={key}"
    );
    Request::get(uri).body(()).expect("a request")
}

fn opt_out_value<T>(run: impl FnOnce() -> T) -> T {
    let mut value = None;
    opt_out(|| value = Some(run()));
    value.expect("it ran")
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Answers at once.
#[derive(Clone, Copy)]
struct Bare;

impl Service<Request<()>> for Bare {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        black_box(&request);
        ready(Ok(Response::new(())))
    }
}

const SAMPLES: usize = 300;
const CALLS: u32 = 2_000;
/// What a store holds at most.
const KEYS: u32 = 10_000;
