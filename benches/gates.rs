//! What each gate costs a call that it admits at once: nanoseconds, allocations and heap.
//!
//! `cargo bench -p benches --bench gates`. The service below answers at once, futures are polled by hand on one thread.
//! A number is the median over many samples of what a row takes more than the bare service, or, where a `DeadlineLayer`
//! is outside, than the bare service behind that layer alone. All gates: breaker, cooldown and adaptive limit as three
//! layers of one `Endpoints`. Two cores: how much longer a call takes while another thread calls the same host.
//!
//! Heap of an idle host: live heap after one call through all gates to each of 10 000 hosts with names of 35 bytes, by
//! the sizes asked for. The answers were kept by a cache (`Age`), so that they tell nothing about how long the host
//! takes; the latency record and the windows of the adaptive limit, which are made for the first answer that does, are
//! told apart.
//!
//! It exits with 1 where allocations or heap are worse than they must be. Nanoseconds are held with slack, since the
//! machine may be busy.
#![expect(
    clippy::print_stdout,
    reason = "a report on standard output is what this program is for"
)]

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Barrier;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use allocation_counter::{measure, opt_out};
use bytes::Bytes;
use http::header::AGE;
use http::{Request, Response};
use http_body_util::Empty;
use tokio::time::Instant;
use tower::{Layer, Service, ServiceBuilder};
use tower_spatial::limit::rate::KeySource;
use tower_spatial::timeout::deadline::DeadlineLayer;
use tower_spatial::{
    AdaptiveSettings, CircuitBreakerLayer, ConcurrencyLimitLayer, CooldownLayer, EndpointSettings,
    Endpoints, OnOpen, Quota, RateLimitLayer,
};

/// Breaker, cooldown and adaptive limit, each a layer. A macro, since the type takes lines to write.
macro_rules! all_gates {
    ($endpoints:expr, $inner:expr) => {
        ServiceBuilder::new()
            .layer(CircuitBreakerLayer::new($endpoints.clone()).on_open(OnOpen::Wait))
            .layer(CooldownLayer::new($endpoints.clone()))
            .layer(ConcurrencyLimitLayer::new($endpoints.clone()))
            .service($inner)
    };
}

fn main() -> ExitCode {
    if cfg!(debug_assertions) {
        println!("an unoptimised build measures nothing worth knowing: use cargo bench");
        return ExitCode::SUCCESS;
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
        ("all gates", {
            let endpoints = endpoints();
            row(all_gates!(endpoints, Bare))
        }),
        (DEADLINE, row(DeadlineLayer::new().layer(Bare))),
        (BEHIND_DEADLINE, {
            let endpoints = endpoints();
            let gates = all_gates!(endpoints, Bare);
            row(DeadlineLayer::new().endpoints(endpoints).layer(gates))
        }),
    ];
    let mut samples = vec![Vec::new(); rows.len()];
    for _ in 0..SAMPLES {
        for (row, samples) in rows.iter_mut().zip(&mut samples) {
            let took = opt_out_value(|| (row.1)(CALLS));
            samples.push(took.as_nanos() as f64 / f64::from(CALLS));
        }
    }
    let mut measured: Vec<(&str, f64, f64)> = Vec::new();
    for ((name, run), samples) in rows.iter_mut().zip(&samples) {
        let allocations = measure(|| _ = run(1_000)).count_total as f64 / 1_000.0;
        measured.push((name, median(samples), allocations));
    }
    let over = |name: &str| {
        let find = |name| measured.iter().find(|row| row.0 == name);
        let base = if name == BEHIND_DEADLINE {
            DEADLINE
        } else {
            "bare"
        };
        let (row, base) = (find(name).expect("a row"), find(base).expect("a row"));
        (row.1 - base.1, row.2 - base.2)
    };
    println!(
        "{:<34}{:>10}{:>14}",
        "over the bare service", "ns", "allocations"
    );
    for (name, ..) in &measured {
        let (ns, allocations) = over(name);
        println!("{name:<34}{ns:>10.1}{allocations:>14.2}");
    }
    let two_cores = two_cores();
    let idle = heap_a_host(true);
    println!("two cores on one host, times one core {two_cores:.2}");
    println!("heap a key {:.1} B", heap_a_key());
    println!(
        "heap an idle host {idle:.1} B; its latency record and windows, from the first answer whose time tells, {:.1} B",
        heap_a_host(false) - idle
    );
    println!();
    let (ns, allocations) = over(BEHIND_DEADLINE);
    let musts = [
        ("ns, all gates behind a deadline", ns, 150.0, 2_500.0),
        (
            "allocations, all gates behind a deadline",
            allocations,
            0.0,
            0.0,
        ),
        ("ns, rate alone", over("rate, no key").0, 60.0, 900.0),
        ("two cores on one host, times one core", two_cores, 2.5, 7.5),
        ("heap an idle host, bytes", idle, 220.0, 222.0),
    ];
    for (claim, value, must, held) in musts {
        let verdict = if value > must { "MISSED" } else { "ok" };
        println!("must  {claim:<44} <= {must:<6}{value:>8.1}  {verdict} (held at {held})");
    }
    let is_broken = musts.iter().any(|(_, value, _, held)| value > held);
    ExitCode::from(u8::from(is_broken))
}

fn endpoints() -> Endpoints {
    Endpoints::builder()
        .defaults(EndpointSettings::new().adaptive(AdaptiveSettings::default()))
        .build()
        .expect("endpoints")
}

/// How much longer a call through all gates takes while another thread does the same: the shortest of many samples each,
/// since others use the machine too.
fn two_cores() -> f64 {
    let endpoints = endpoints();
    let service = DeadlineLayer::new()
        .endpoints(endpoints.clone())
        .layer(all_gates!(endpoints, Bare));
    let shortest = |threads: usize| {
        let barrier = Barrier::new(threads);
        let sample = || {
            let (mut service, template) = (service.clone(), request("abcdefgh01234567"));
            let samples = (0..100).map(|_| {
                barrier.wait();
                let started = Instant::now();
                for _ in 0..CALLS {
                    call(&mut service, black_box(template.clone()));
                }
                started.elapsed()
            });
            samples.min().expect("samples")
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(sample)).collect();
            let times = threads.into_iter().map(|one| one.join().expect("a time"));
            times.max().expect("threads")
        })
    };
    shortest(2).as_secs_f64() / shortest(1).as_secs_f64()
}

/// Live heap after one call to each of many hosts, a host.
fn heap_a_host(from_a_cache: bool) -> f64 {
    let endpoints = endpoints();
    let mut service = all_gates!(endpoints, Aged(from_a_cache));
    let info = measure(|| {
        for host in 0..HOSTS {
            let uri = format!("http://tiles-{host:06}.geodata.example.org.de/wms");
            call(&mut service, Request::get(uri).body(()).expect("a request"));
        }
    });
    info.bytes_current as f64 / f64::from(HOSTS)
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

type Answer = Response<Empty<Bytes>>;

/// Answers at once, from a cache or not.
#[derive(Clone, Copy)]
struct Aged(bool);

impl Service<Request<()>> for Aged {
    type Response = Answer;
    type Error = Infallible;
    type Future = Ready<Result<Answer, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let mut answer = Response::new(Empty::new());
        if self.0 {
            answer.headers_mut().insert(AGE, 1.into());
        }
        ready(Ok(answer))
    }
}

/// Answers at once.
#[derive(Clone, Copy)]
struct Bare;

impl Service<Request<()>> for Bare {
    type Response = Answer;
    type Error = Infallible;
    type Future = Ready<Result<Answer, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        black_box(&request);
        ready(Ok(Response::new(Empty::new())))
    }
}

const SAMPLES: usize = 300;
const CALLS: u32 = 2_000;
/// What a store holds at most.
const KEYS: u32 = 10_000;
const HOSTS: u32 = 10_000;
const DEADLINE: &str = "a deadline's context";
const BEHIND_DEADLINE: &str = "all gates, behind that";
