use std::sync::{Arc, Mutex, OnceLock};

use http::Extensions;
use tokio::time::{Duration, Instant};

/// Until when a call may take: an absolute time, set by the caller as a request extension.
///
/// It counts everything: queues, attempts, sleeps and the body.
#[derive(Clone, Debug, Default)]
pub struct Deadline {
    at: Option<Instant>,
    /// What one call carries with it. A value made by a caller never holds one, so a deadline can be shared by many
    /// requests; the outermost layer of ours replaces it by one with a context of its own.
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

    /// A deadline `duration` from now.
    pub fn after(duration: Duration) -> Self {
        let now = Instant::now();
        Self {
            at: now.checked_add(duration),
            context: None,
        }
    }

    /// The time, where there is one.
    pub fn instant(&self) -> Option<Instant> {
        self.at
    }

    pub(crate) fn with_context(at: Option<Instant>, context: Arc<Context>) -> Self {
        Self {
            at,
            context: Some(context),
        }
    }
}

/// What one call carries with it, from layer to layer and from attempt to attempt: one allocation, one extension.
#[derive(Debug, Default)]
pub(crate) struct Context {
    /// When the first attempt was admitted by the gates.
    admitted: OnceLock<Instant>,
    /// No attempt starts after it: the end of the budget, known once an attempt has failed.
    no_attempt_after: Mutex<Option<Instant>>,
}

impl Context {
    pub(crate) fn of(extensions: &Extensions) -> Option<&Arc<Self>> {
        extensions
            .get::<Deadline>()
            .and_then(|deadline| deadline.context.as_ref())
    }

    /// Notes the first admission; later ones change nothing.
    pub(crate) fn admit(&self, now: Instant) {
        let _ = self.admitted.set(now);
    }

    pub(crate) fn admitted(&self) -> Option<Instant> {
        self.admitted.get().copied()
    }
}

/// The last instant at which an attempt of this call may start, and at which a wait of ours must end.
pub(crate) fn latest_start(extensions: &Extensions) -> Option<Instant> {
    let deadline = extensions.get::<Deadline>()?;
    let budget = deadline.context.as_ref().and_then(|context| {
        *context
            .no_attempt_after
            .lock()
            .expect("never held over a panic")
    });
    match (deadline.at, budget) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
