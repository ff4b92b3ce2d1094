//! How long the heads of an endpoint's good answers take, and what is known of those that were cut off.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use http::Request;
use load_control::LatencyRecord;
use service_exception::{Operation, Protocol};
use tokio::time::{Duration, Instant};

/// What one endpoint's attempt timeouts learn. Takes a word until the first answer is noted.
#[derive(Default)]
pub(crate) struct Heads {
    inner: OnceLock<Box<Inner>>,
}

#[derive(Default)]
struct Inner {
    /// Whether an attempt was cut off lately: only then are requests told apart by their kind.
    watching: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    record: LatencyRecord,
    /// When an answer of this kind last came, while watching.
    successes: Vec<(Kind, Instant)>,
    watching_since: Option<Instant>,
    warned: Vec<Duration>,
}

/// What is rendered alike takes alike: protocol and operation of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kind(Protocol, Box<str>);

impl Kind {
    /// What a POST asks for stands in its body and is not known here, unless an [`Operation`] among the extensions says it.
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let read;
        let operation = match request.extensions().get::<Operation>() {
            Some(operation) => operation,
            None => {
                read = Operation::of(request.method(), request.uri(), request.headers(), None);
                &read
            }
        };
        Self(operation.protocol(), operation.name().into())
    }
}

impl Heads {
    /// Notes a good answer whose head took `took`. What another thread holds just now is not waited for: a sample is
    /// lost.
    pub(crate) fn note(&self, now: Instant, took: Duration, kind: Option<Kind>) {
        let inner = self.inner.get_or_init(Box::default);
        if inner.watching.load(Ordering::Relaxed) {
            return inner.note_while_watching(now, took, kind);
        }
        if let Ok(mut state) = inner.state.try_lock() {
            state.record.add(took);
        }
    }

    /// Notes that an attempt was cut off.
    pub(crate) fn timed_out(&self, now: Instant) {
        let inner = self.inner.get_or_init(Box::default);
        inner.state().watching_since = Some(now);
        inner.watching.store(true, Ordering::Relaxed);
    }

    /// Whether an attempt was cut off lately.
    #[inline]
    pub(crate) fn is_watching(&self) -> bool {
        self.inner
            .get()
            .is_some_and(|inner| inner.watching.load(Ordering::Relaxed))
    }

    /// The latency that a share `quantile` (0 to 1) of the heads did not exceed; `None` before the first.
    pub(crate) fn percentile(&self, quantile: f64) -> Option<Duration> {
        self.inner.get()?.state().record.percentile(quantile)
    }

    /// Whether an answer of this kind has come within `duration`.
    pub(crate) fn has_succeeded_within(
        &self,
        kind: &Kind,
        duration: Duration,
        now: Instant,
    ) -> bool {
        let Some(inner) = self.inner.get() else {
            return false;
        };
        let state = inner.state();
        let mut successes = state.successes.iter();
        successes.any(|(of, at)| of == kind && now.duration_since(*at) <= duration)
    }

    /// Whether a warning about this limit is the first one.
    pub(crate) fn is_first_warning(&self, limit: Duration) -> bool {
        let mut state = self.inner.get_or_init(Box::default).state();
        let is_first = !state.warned.contains(&limit) && state.warned.len() < MOST_KINDS;
        if is_first {
            state.warned.push(limit);
        }
        is_first
    }
}

impl Inner {
    #[cold]
    fn note_while_watching(&self, now: Instant, took: Duration, kind: Option<Kind>) {
        let mut state = self.state();
        state.record.add(took);
        if let Some(kind) = kind {
            let known = state.successes.iter_mut().find(|(of, _)| *of == kind);
            match known {
                Some((_, at)) => *at = now,
                None => {
                    if state.successes.len() == MOST_KINDS {
                        let oldest = (0..MOST_KINDS).min_by_key(|index| state.successes[*index].1);
                        state.successes.swap_remove(oldest.unwrap_or(0));
                    }
                    state.successes.push((kind, now));
                }
            }
        }
        let since = state.watching_since.unwrap_or(now);
        if now.duration_since(since) > WATCH {
            state.successes.clear();
            self.watching.store(false, Ordering::Relaxed);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held; a poisoned value would still be whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many kinds of requests and limits are told apart at one endpoint.
const MOST_KINDS: usize = 16;
/// Longer than the longest time that an attempt gets by default: 8 times 180 s.
const WATCH: Duration = Duration::from_secs(3_600);

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(operation: &str) -> Kind {
        let uri = format!("https://example.org/ows?SERVICE=WFS&REQUEST={operation}");
        Kind::of(&Request::get(uri).body(()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_are_told_apart_and_bounded() {
        let heads = Heads::default();
        let second = Duration::from_secs(1);
        heads.note(Instant::now(), second, None);
        assert!(!heads.is_watching());
        heads.timed_out(Instant::now());
        for operation in 0..100 {
            tokio::time::advance(second).await;
            heads.note(Instant::now(), second, Some(kind(&operation.to_string())));
        }
        heads.note(Instant::now(), second, Some(kind("GetFeature")));
        let now = Instant::now();
        assert!(heads.has_succeeded_within(&kind("GetFeature"), second, now));
        assert!(!heads.has_succeeded_within(&kind("GetCapabilities"), second, now));
        let inner = heads.inner.get().unwrap();
        assert_eq!(inner.state().successes.len(), MOST_KINDS);
        assert!(
            (0..100)
                .filter(|n| heads.is_first_warning(second * *n))
                .count()
                <= MOST_KINDS
        );
        tokio::time::advance(2 * WATCH).await;
        heads.note(Instant::now(), second, None);
        assert!(!heads.is_watching());
    }
}
