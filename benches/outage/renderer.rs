//! The server as a tower service, in tokio's time.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::{Empty, Full};
use tokio::time::{Duration, Instant, sleep_until};
use tower::Service;

use crate::record::Record;
use crate::scenario::{ROUND_TRIP, Scenario};
use crate::server::{Answer, Server};

/// Clones are the same server.
#[derive(Clone)]
pub(crate) struct Renderer {
    shared: Arc<Shared>,
}

struct Shared {
    origin: Instant,
    state: Mutex<State>,
}

struct State {
    server: Server,
    /// Of the task that keeps the server's time, and when it will wake.
    timer: Option<Waker>,
    wakes_at: f64,
}

impl Renderer {
    pub(crate) fn new(scenario: &Scenario, seed: u64) -> Self {
        let state = State {
            server: Server::new(scenario, seed, ROUND_TRIP),
            timer: None,
            wakes_at: f64::INFINITY,
        };
        Self {
            shared: Arc::new(Shared {
                origin: Instant::now(),
                state: Mutex::new(state),
            }),
        }
    }

    /// Seconds since the start.
    pub(crate) fn now(&self) -> f64 {
        (Instant::now() - self.shared.origin).as_secs_f64()
    }

    pub(crate) fn instant(&self, at: f64) -> Instant {
        self.shared.origin + Duration::from_secs_f64(at + 1e-9)
    }

    /// Makes everything happen that happens by itself: one timer for the whole server.
    pub(crate) async fn keep_time(self) {
        let mut sleep = pin!(sleep_until(Instant::now()));
        poll_fn(|cx| -> Poll<()> {
            loop {
                ready!(self.poll_events(cx, sleep.as_mut()));
            }
        })
        .await;
    }

    /// As [`Server::in_hand`].
    pub(crate) fn in_hand(&self) -> usize {
        self.state().server.in_hand()
    }

    /// Whatever the server has counted; it starts anew.
    pub(crate) fn take_record(&self) -> Record {
        std::mem::take(&mut self.state().server.record)
    }

    fn poll_events(
        &self,
        cx: &mut Context<'_>,
        mut sleep: Pin<&mut tokio::time::Sleep>,
    ) -> Poll<()> {
        let next = {
            let state = &mut *self.state();
            state.server.advance(self.now());
            state.timer = Some(cx.waker().clone());
            state.wakes_at = state.server.next_event();
            state.wakes_at
        };
        // The last phase has no end, and an idle server no events.
        sleep
            .as_mut()
            .reset(self.instant(next.min(self.now() + 86_400.0)));
        sleep.poll(cx)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Service<Request<Empty<Bytes>>> for Renderer {
    type Response = Response<Full<Bytes>>;
    type Error = io::Error;
    type Future = Rendering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Empty<Bytes>>) -> Rendering {
        let now = self.now();
        let state = &mut *self.state();
        state.server.advance(now);
        let id = state.server.arrive();
        if state.server.next_event() < state.wakes_at
            && let Some(timer) = state.timer.take()
        {
            timer.wake();
        }
        Rendering {
            renderer: self.clone(),
            id,
        }
    }
}

/// One attempt. Whoever drops it before its answer leaves the server with the work.
pub(crate) struct Rendering {
    renderer: Renderer,
    id: usize,
}

impl Future for Rendering {
    type Output = io::Result<Response<Full<Bytes>>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.renderer.state().server.poll(self.id, cx.waker());
        let Some(answer) = answer else {
            return Poll::Pending;
        };
        let empty = |status| {
            let mut response = Response::new(Full::default());
            *response.status_mut() = status;
            response
        };
        Poll::Ready(Ok(match answer {
            Answer::Tile => {
                let mut response = Response::new(Full::new(Bytes::from_static(TILE)));
                let image = http::HeaderValue::from_static("image/png");
                response.headers_mut().insert(CONTENT_TYPE, image);
                response
            }
            Answer::Unavailable => empty(StatusCode::SERVICE_UNAVAILABLE),
            Answer::Refused => return Poll::Ready(Err(io::ErrorKind::ConnectionRefused.into())),
            Answer::Throttled { retry_after } => {
                let mut response = empty(StatusCode::TOO_MANY_REQUESTS);
                let seconds = (retry_after as u64).into();
                response.headers_mut().insert(RETRY_AFTER, seconds);
                response
            }
        }))
    }
}

impl Drop for Rendering {
    fn drop(&mut self) {
        self.renderer.state().server.abandon(self.id);
    }
}

const TILE: &[u8] = b"\x89PNG\r\n\x1a\n a tile";
