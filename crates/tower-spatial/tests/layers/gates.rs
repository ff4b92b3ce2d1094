//! The gates of a host: breaker, cooldown and limit, alone and together.

mod adaptive;
mod breaker;
mod cooldown;
mod laws;
mod machine;
mod order;
mod park;
mod rated;
mod shared;

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use tokio::time::{Instant, sleep};
use tower::{BoxError, Service, util::BoxCloneSyncService};
use tower_spatial::{EndpointSnapshot, Endpoints};

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

type Client = BoxCloneSyncService<Request<NoBody>, Response<AnyBody>, BoxError>;
type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

/// What a host does with one request.
#[derive(Clone, Debug)]
struct Act {
    after: Duration,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Answers(u16, Vec<(&'static str, &'static str)>, Vec<Step>),
    Refuses,
    Hangs,
    Panics,
}

impl Act {
    fn status(status: u16) -> Self {
        let body = match status {
            200 => vec![Step::data("a tile")],
            _ => vec![],
        };
        Self::now(What::Answers(status, vec![], body))
    }

    fn refused() -> Self {
        Self::now(What::Refuses)
    }

    fn hang() -> Self {
        Self::now(What::Hangs)
    }

    fn now(what: What) -> Self {
        Self {
            after: Duration::ZERO,
            what,
        }
    }

    fn after(mut self, after: Duration) -> Self {
        self.after = after;
        self
    }

    fn header(mut self, name: &'static str, value: &'static str) -> Self {
        if let What::Answers(_, headers, _) = &mut self.what {
            headers.push((name, value));
        }
        self
    }

    fn body(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        if let What::Answers(_, _, body) = &mut self.what {
            *body = steps.into_iter().collect();
        }
        self
    }
}

/// A host that does what a test says, and knows who is inside: from the request to the end of the answer's body.
#[derive(Clone)]
struct Host {
    act: Arc<Acts>,
    seen: Arc<Mutex<Seen>>,
}

/// By the number of the request, from 0, and its URI's path.
type Acts = dyn Fn(usize, &str) -> Act + Send + Sync;

#[derive(Default)]
struct Seen {
    asked_at: Vec<Instant>,
    paths: Vec<String>,
    inside: usize,
    most_inside: usize,
}

impl Host {
    fn new(act: impl Fn(usize, &str) -> Act + Send + Sync + 'static) -> Self {
        Self {
            act: Arc::new(act),
            seen: Arc::default(),
        }
    }

    /// Refuses connections until a time, then answers after `latency`.
    fn down_until(up: Instant, latency: Duration) -> Self {
        Self::new(move |_, _| match Instant::now() < up {
            true => Act::refused(),
            false => Act::status(200).after(latency),
        })
    }

    fn requests(&self) -> usize {
        self.seen().asked_at.len()
    }

    fn asked_at(&self) -> Vec<Instant> {
        self.seen().asked_at.clone()
    }

    fn most_inside(&self) -> usize {
        self.seen().most_inside
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

struct Inside(Arc<Mutex<Seen>>);

impl Drop for Inside {
    fn drop(&mut self) {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .inside -= 1;
    }
}

impl<B: Send + 'static> Service<Request<B>> for Host {
    type Response = Response<Answer>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inside = Inside(Arc::clone(&self.seen));
        let act = {
            let mut seen = self.seen();
            seen.asked_at.push(Instant::now());
            seen.paths.push(request.uri().path().to_owned());
            seen.inside += 1;
            seen.most_inside = seen.most_inside.max(seen.inside);
            (self.act)(seen.asked_at.len() - 1, request.uri().path())
        };
        Box::pin(async move {
            if !act.after.is_zero() {
                sleep(act.after).await;
            }
            match act.what {
                What::Answers(status, headers, steps) => {
                    let mut response = Response::builder().status(status);
                    for (name, value) in headers {
                        response = response.header(name, value);
                    }
                    let known = !steps
                        .iter()
                        .any(|step| matches!(step, Step::Fail | Step::Hang));
                    let steps = Scripted::new(steps);
                    let steps = if known { steps.known_length() } else { steps };
                    Ok(response.body(Answer::new(steps, inside))?)
                }
                What::Refuses => {
                    Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into())
                }
                What::Hangs => std::future::pending().await,
                What::Panics => panic!("as the test wants it"),
            }
        })
    }
}

/// A body that is inside the host until it ends.
struct Answer {
    steps: Scripted,
    inside: Option<Inside>,
}

impl Answer {
    fn new(steps: Scripted, inside: Inside) -> Self {
        let inside = (!steps.is_end_stream()).then_some(inside);
        Self { steps, inside }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.steps).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) || self.steps.is_end_stream() {
            self.inside = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.steps.size_hint()
    }
}

/// Any stack as one type.
fn boxed<S, R>(stack: S) -> Client
where
    S: Service<Request<NoBody>, Response = Response<R>, Error = BoxError>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
    R: Body<Data = Bytes, Error = BoxError> + Send + 'static,
{
    use tower::ServiceExt;
    BoxCloneSyncService::new(
        stack.map_response(|response: Response<R>| response.map(BodyExt::boxed_unsync)),
    )
}

fn get(path: &str) -> Request<NoBody> {
    let uri = format!("http://tiles.example{path}");
    Request::get(uri).body(NoBody::new()).unwrap()
}

fn at(endpoints: &Endpoints) -> EndpointSnapshot {
    endpoints
        .find(&"http://tiles.example/".parse().unwrap())
        .snapshot()
}

/// Sends one request and reads its answer.
async fn ask(client: &Client, path: &str) -> Result<(http::StatusCode, Bytes), BoxError> {
    use tower::ServiceExt;
    let response = client.clone().oneshot(get(path)).await?;
    let status = response.status();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

/// A future polled by hand, that counts how often it was woken.
struct Task<F> {
    future: Pin<Box<F>>,
    wakes: Arc<Wakes>,
    /// How often it had been woken when it was polled last; `None` before.
    seen: Option<usize>,
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
            seen: None,
        }
    }

    fn poll(&mut self) -> Poll<F::Output> {
        self.seen = Some(self.wakes());
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Polls it so often, each time once it was woken. Whether it has ended.
    async fn poll_times(&mut self, polls: usize, stage: &str) -> bool {
        for _ in 0..polls {
            if self.poll().is_ready() {
                return true;
            }
            let woken = self.wakes();
            for _ in 0..20_000 {
                if self.wakes() > woken {
                    break;
                }
                sleep(Duration::from_millis(1)).await;
            }
            assert!(self.wakes() > woken, "{stage}: never woken");
        }
        false
    }

    fn is_new(&self) -> bool {
        self.seen.is_none()
    }

    fn was_woken(&self) -> bool {
        self.seen.is_some_and(|seen| seen < self.wakes())
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::Relaxed)
    }
}

/// What must hold when nobody calls any more.
fn assert_quiet(endpoints: &Endpoints) {
    let now = at(endpoints);
    assert_eq!(
        (now.in_flight, now.queued, now.unread_bodies, now.reclaimed),
        (0, 0, 0, 0)
    );
}

/// All of them at once, polled by one task, in the order of their calls.
async fn futures_join<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<Result<Pin<Box<F>>, F::Output>> = futures
        .into_iter()
        .map(|future| Ok(Box::pin(future)))
        .collect();
    std::future::poll_fn(|cx| {
        let mut is_over = true;
        for one in &mut futures {
            if let Ok(future) = one {
                match future.as_mut().poll(cx) {
                    Poll::Ready(done) => *one = Err(done),
                    Poll::Pending => is_over = false,
                }
            }
        }
        if is_over {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    futures
        .into_iter()
        .map(|one| match one {
            Err(done) => done,
            Ok(_) => unreachable!("all are over"),
        })
        .collect()
}
