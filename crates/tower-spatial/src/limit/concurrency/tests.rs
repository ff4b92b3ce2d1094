use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use tokio::time::{Duration, Instant};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::*;
use crate::{EndpointSnapshot, Endpoints};

const TILE: &str = "http://tiles.example/1/2/3.png";

fn get(uri: &str) -> Request<()> {
    Request::get(uri).body(()).unwrap()
}

fn at(endpoints: &Endpoints, uri: &str) -> EndpointSnapshot {
    endpoints.find(&uri.parse().unwrap()).snapshot()
}

/// Answers every request at once with a body of `body`.
fn answering<B: Body + Clone>(
    body: B,
) -> impl Service<Request<()>, Response = Response<B>, Error = Infallible, Future: Unpin> + Clone {
    service_fn(move |_| std::future::ready(Ok(Response::new(body.clone()))))
}

fn tile() -> Full<Bytes> {
    Full::from("a tile")
}

/// A future polled by hand, that counts how often it is woken.
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

#[tokio::test(start_paused = true)]
async fn a_permit_is_held_until_the_body_ends() {
    let layer = ConcurrencyLimitLayer::per_host(1);
    let mut client = layer.layer(answering(tile()));
    let first = client.call(get(TILE)).await.unwrap();
    let mut second = Task::new(client.call(get(TILE)));

    assert!(second.poll().is_pending());
    assert_eq!(at(layer.endpoints(), TILE).in_flight, 1);
    assert_eq!(at(layer.endpoints(), TILE).queued, 1);
    first.into_body().collect().await.unwrap();
    assert_eq!(second.wakes(), 1);
    assert!(second.poll().is_ready());
}

#[tokio::test(start_paused = true)]
async fn of_seventeen_answers_held_unread_the_last_comes_after_the_readers_patience() {
    let layer = ConcurrencyLimitLayer::per_host(16);
    let client = layer.layer(answering(tile()));
    let started = Instant::now();
    let mut held = Vec::new();
    for _ in 0..16 {
        held.push(client.clone().oneshot(get(TILE)).await.unwrap());
    }
    assert_eq!(started.elapsed(), Duration::ZERO);

    let last = client.clone().oneshot(get(TILE)).await.unwrap();

    let waited = started.elapsed();
    assert!(
        waited >= Duration::from_secs(30) && waited < Duration::from_secs(38),
        "{waited:?}"
    );
    let snapshot = at(layer.endpoints(), TILE);
    assert_eq!((snapshot.in_flight, snapshot.reclaimed), (16, 1));
    // All bodies go on, whether they have their permit or not.
    for response in held.into_iter().chain([last]) {
        assert_eq!(
            response.into_body().collect().await.unwrap().to_bytes(),
            "a tile"
        );
    }
    let snapshot = at(layer.endpoints(), TILE);
    assert_eq!((snapshot.in_flight, snapshot.reclaimed), (0, 0));
}
