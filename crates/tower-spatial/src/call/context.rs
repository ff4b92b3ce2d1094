use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use http::Extensions;
use tokio::time::{Duration, Instant};

use super::Attempt;

/// Until when a call may take: an absolute time, set by the caller as a request extension.
///
/// It counts everything: queues, attempts, sleeps and the body. [`DeadlineLayer`](crate::timeout::deadline::DeadlineLayer)
/// cuts what is running; without it no wait and no attempt of ours begins that would reach beyond it.
///
/// ```
/// use std::time::Duration;
/// use tower_spatial::Deadline;
///
/// let mut request = http::Request::new(());
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// request.extensions_mut().insert(Deadline::after(Duration::from_secs(90)));
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Deadline {
    at: Option<Instant>,
    /// What one call carries with it, in the same extension: each further one costs allocations on every clone of the
    /// request. A value made by a caller never holds one, so a deadline may be shared by many requests.
    context: Option<Arc<Context>>,
}

impl Deadline {
    /// A deadline at `at`.
    pub fn at(at: Instant) -> Self {
        Self {
            at: Some(at),
            context: None,
        }
    }

    /// A deadline `duration` from now; none where the clock cannot tell a time so far away.
    pub fn after(duration: Duration) -> Self {
        Self {
            at: Instant::now().checked_add(duration),
            context: None,
        }
    }

    /// The time, where there is one.
    pub fn instant(&self) -> Option<Instant> {
        self.at
    }

    /// The caller's deadline in a request's extensions.
    pub(crate) fn of(extensions: &Extensions) -> Option<Instant> {
        extensions.get::<Self>().and_then(|deadline| deadline.at)
    }
}

/// What one call carries with it, from layer to layer and from attempt to attempt.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// When the first attempt was admitted by the gates: the budget runs from there.
    admitted: OnceLock<Instant>,
    /// Whether an attempt has had a cache-busting parameter.
    busted: AtomicBool,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    latest_start: Option<Instant>,
    attempts: Vec<Attempt>,
}

impl Context {
    pub(crate) fn of(extensions: &Extensions) -> Option<&Arc<Self>> {
        extensions
            .get::<Deadline>()
            .and_then(|deadline| deadline.context.as_ref())
    }

    /// The call's context, put into the extensions where there is none yet; the caller's deadline stays.
    pub(crate) fn of_or_insert(extensions: &mut Extensions) -> Arc<Self> {
        if let Some(context) = Self::of(extensions) {
            return Arc::clone(context);
        }
        Self::insert(extensions)
    }

    /// A new context for a new call, put into the extensions; the caller's deadline stays.
    pub(crate) fn insert(extensions: &mut Extensions) -> Arc<Self> {
        let context = Arc::new(Self::default());
        let at = Deadline::of(extensions);
        extensions.insert(Deadline {
            at,
            context: Some(Arc::clone(&context)),
        });
        context
    }

    /// Notes the first admission; later ones change nothing.
    pub(crate) fn admit(&self, now: Instant) {
        let _ = self.admitted.set(now);
    }

    pub(crate) fn admitted(&self) -> Option<Instant> {
        self.admitted.get().copied()
    }

    /// Whether no attempt of this call had a cache-busting parameter before this one.
    pub(crate) fn is_first_busting(&self) -> bool {
        !self.busted.swap(true, Ordering::Relaxed)
    }

    /// Notes a failed attempt that is to be repeated, and the last instant at which the next one may start.
    pub(crate) fn failed(&self, attempt: Attempt, latest_start: Option<Instant>) {
        let mut progress = self.progress();
        progress.attempts.push(attempt);
        progress.latest_start = latest_start;
    }

    /// The attempts that failed so far, oldest first.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.progress().attempts.clone()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // Nothing panics while it is held; a poisoned value would still be whole.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last instant at which an attempt of this call may start and a wait for it may end: the caller's deadline or
/// the end of the budget, known once an attempt has failed.
pub(crate) fn latest_start(extensions: &Extensions) -> Option<Instant> {
    let deadline = extensions.get::<Deadline>()?;
    let budget = deadline
        .context
        .as_ref()
        .and_then(|context| context.progress().latest_start);
    match (deadline.at, budget) {
        (Some(at), Some(end)) => Some(at.min(end)),
        (at, end) => at.or(end),
    }
}
