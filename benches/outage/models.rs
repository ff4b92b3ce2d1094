//! Policies of others. Some are the real thing (tower's backoff); what cannot run on a paused clock is a model of the
//! algorithm as published, at the defaults as published, and marked as a model wherever it is shown.

use std::collections::VecDeque;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use http::{Request, Response, StatusCode};
use rand::RngExt;
use tokio::sync::Semaphore;
use tokio::time::{Duration, Instant, Sleep, sleep};
use tower::retry::Policy;
use tower::retry::backoff::{Backoff, ExponentialBackoff, ExponentialBackoffMaker, MakeBackoff};
use tower::{BoxError, Layer, Service};

/// So many attempts, with a delay between that is a function of how many there have been.
#[derive(Clone)]
pub(crate) struct Attempts {
    left: u32,
    made: u32,
    delay: Delay,
}

#[derive(Clone)]
enum Delay {
    Fixed(Duration),
    Tower(Option<ExponentialBackoff>),
    /// Uniform in [0, min(cap, base * 2^n)].
    FullJitter {
        base: Duration,
        cap: Duration,
    },
    /// base * 2^n.
    Exponential {
        base: Duration,
    },
}

impl Attempts {
    /// Three repeats, a second apart.
    pub(crate) fn fixed() -> Self {
        Self::new(4, Delay::Fixed(Duration::from_secs(1)))
    }

    /// tower's own backoff at its defaults (from 50 ms, doubling, jitter 0.99), three attempts.
    pub(crate) fn tower() -> Self {
        Self::new(3, Delay::Tower(None))
    }

    /// As reqwest-retry and its retry-policies 0.5 do by default: full jitter from 1 s to 30 min; five attempts.
    pub(crate) fn reqwest_retry() -> Self {
        let (base, cap) = (Duration::from_secs(1), Duration::from_secs(1_800));
        Self::new(5, Delay::FullJitter { base, cap })
    }

    /// As tower-resilience's retry does by default: three attempts, 100 ms doubling.
    pub(crate) fn tower_resilience() -> Self {
        let base = Duration::from_millis(100);
        Self::new(3, Delay::Exponential { base })
    }

    fn new(attempts: u32, delay: Delay) -> Self {
        Self {
            left: attempts - 1,
            made: 0,
            delay,
        }
    }
}

impl<B: Clone, R> Policy<Request<B>, Response<R>, BoxError> for Attempts {
    type Future = Sleep;

    fn retry(
        &mut self,
        _: &mut Request<B>,
        result: &mut Result<Response<R>, BoxError>,
    ) -> Option<Sleep> {
        if !failed(result) || self.left == 0 {
            return None;
        }
        let doublings = 2u32.saturating_pow(self.made);
        self.left -= 1;
        self.made += 1;
        Some(match &mut self.delay {
            Delay::Fixed(delay) => sleep(*delay),
            Delay::Tower(backoff) => backoff
                .get_or_insert_with(|| ExponentialBackoffMaker::default().make_backoff())
                .next_backoff(),
            Delay::FullJitter { base, cap } => {
                sleep((*base * doublings).min(*cap).mul_f64(rand::rng().random()))
            }
            Delay::Exponential { base } => sleep(*base * doublings),
        })
    }

    fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}

fn failed<R>(result: &Result<Response<R>, BoxError>) -> bool {
    result.as_ref().map_or(true, |response| {
        response.status().is_server_error() || response.status() == StatusCode::TOO_MANY_REQUESTS
    })
}

/// A breaker and an adaptive limit as tower-resilience has them, at its defaults where those can serve a renderer.
///
/// Breaker: refuses, at half of the last hundred calls failed, for 30 s, then one call tells. Limit: from 10, one more for a
/// success, half for a failure or an answer slower than a threshold, within 1 to 100; calls wait for it. Its default
/// threshold, 100 ms, would hold a renderer at 1: here it is 10 s.
#[derive(Clone)]
pub(crate) struct BreakerAndAimd<S> {
    inner: S,
    shared: Arc<Shared>,
}

pub(crate) struct BreakerAndAimdLayer(Arc<Shared>);

struct Shared {
    state: Mutex<AimdState>,
    /// As many as the limit.
    permits: Arc<Semaphore>,
}

struct AimdState {
    failed: VecDeque<bool>,
    open_until: Option<Instant>,
    is_probing: bool,
    limit: usize,
    /// Permits to take back once they are there, after the limit was cut.
    owed: usize,
}

impl BreakerAndAimdLayer {
    pub(crate) fn new() -> Self {
        let state = AimdState {
            failed: VecDeque::new(),
            open_until: None,
            is_probing: false,
            limit: 10,
            owed: 0,
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            permits: Arc::new(Semaphore::new(10)),
        }))
    }

    /// For its row in the picture.
    pub(crate) fn state(&self) -> crate::record::State {
        use crate::record::Gate;
        let state = self.0.state();
        crate::record::State {
            limit: Some(state.limit as u32),
            gate: match (state.open_until, state.is_probing) {
                (_, true) => Gate::HalfOpen,
                (Some(_), false) => Gate::Open,
                (None, false) => Gate::Closed,
            },
            at_server: 0,
        }
    }
}

impl<S> Layer<S> for BreakerAndAimdLayer {
    type Service = BreakerAndAimd<S>;

    fn layer(&self, inner: S) -> BreakerAndAimd<S> {
        BreakerAndAimd {
            inner,
            shared: Arc::clone(&self.0),
        }
    }
}

impl<S, B, R> Service<Request<B>> for BreakerAndAimd<S>
where
    S: Service<Request<B>, Response = Response<R>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: Send + 'static,
{
    type Response = Response<R>;
    type Error = BoxError;
    // Boxed: a model need not be fast.
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        let Some(admission) = Admission::ask(&shared) else {
            return Box::pin(ready(Err("the circuit is open".into())));
        };
        let fresh = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, fresh);
        Box::pin(async move {
            let permit = Arc::clone(&shared.permits).acquire_owned().await?;
            permit.forget();
            let mut admission = admission;
            admission.has_permit = true;
            let began = Instant::now();
            let mut inner = inner;
            let result = inner.call(request).await;
            admission.settle(failed(&result), began.elapsed() > SLOW);
            result
        })
    }
}

/// Gives back what the call holds, however it ends.
struct Admission {
    shared: Arc<Shared>,
    is_probe: bool,
    has_permit: bool,
}

impl Admission {
    fn ask(shared: &Arc<Shared>) -> Option<Self> {
        let state = &mut *shared.state();
        let mut is_probe = false;
        if let Some(until) = state.open_until {
            if state.is_probing || Instant::now() < until {
                return None;
            }
            state.is_probing = true;
            is_probe = true;
        }
        Some(Self {
            shared: Arc::clone(shared),
            is_probe,
            has_permit: false,
        })
    }

    fn settle(&mut self, failed: bool, is_slow: bool) {
        let shared = Arc::clone(&self.shared);
        let state = &mut *shared.state();
        if failed || is_slow {
            let limit = (state.limit / 2).max(1);
            state.owed += state.limit - limit;
            state.limit = limit;
        } else if state.limit < 100 {
            state.limit += 1;
            if state.owed > 0 {
                state.owed -= 1;
            } else {
                shared.permits.add_permits(1);
            }
        }
        if std::mem::take(&mut self.is_probe) {
            state.is_probing = false;
            state.failed.clear();
            state.open_until = failed.then(|| Instant::now() + OPEN);
        } else if state.open_until.is_none() {
            state.failed.push_back(failed);
            if state.failed.len() > WINDOW {
                state.failed.pop_front();
            }
            let failures = state.failed.iter().filter(|failed| **failed).count();
            if state.failed.len() == WINDOW && failures * 2 >= WINDOW {
                state.open_until = Some(Instant::now() + OPEN);
            }
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let state = &mut *self.shared.state();
        if self.is_probe {
            state.is_probing = false;
        }
        if self.has_permit {
            if state.owed > 0 {
                state.owed -= 1;
            } else {
                self.shared.permits.add_permits(1);
            }
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, AimdState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

const WINDOW: usize = 100;
const OPEN: Duration = Duration::from_secs(30);
const SLOW: Duration = Duration::from_secs(10);
