use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

use super::Observer;

/// Who observes. Shared by all the settings of one [`Endpoints`](crate::Endpoints).
#[derive(Default)]
pub(crate) struct Observers {
    all: ArcSwap<Vec<Arc<dyn Observer>>>,
    is_any: AtomicBool,
}

impl Observers {
    pub(crate) fn add(&self, observer: &Arc<dyn Observer>) {
        self.all.rcu(|all| {
            let mut all = Vec::clone(all);
            all.push(Arc::clone(observer));
            all
        });
        self.is_any.store(true, Ordering::Relaxed);
    }

    pub(crate) fn all(&self) -> Arc<Vec<Arc<dyn Observer>>> {
        self.all.load_full()
    }

    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// To be called while nothing is locked: an observer's code is not ours.
    pub(crate) fn tell(&self, what: impl Fn(&dyn Observer)) {
        if self.is_any() {
            self.all().iter().for_each(|observer| what(&**observer));
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers").finish_non_exhaustive()
    }
}
