use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;

use crate::fault::Kind;

/// What reached a server, and what became of it: exact, and taken at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Connections accepted.
    pub connections: u64,
    /// Connections that are open now.
    pub connections_open: u64,
    /// Requests whose head arrived.
    pub requests: u64,
    /// Requests that have not been answered to the last byte, nor given up.
    pub in_flight: u64,
    /// The most of them at any time.
    pub in_flight_peak: u64,
    /// Requests by method, path and operation, such as `GET /wms GetMap`.
    pub by_operation: BTreeMap<String, u64>,
    /// Answers by kind; a client that left before it got any is in none of them.
    pub by_kind: BTreeMap<Kind, u64>,
    /// Maps in work or waiting for a thread now.
    pub renders_in_work: u64,
    /// Maps refused because threads and queue were full.
    pub renders_refused: u64,
    /// Maps finished, for whomever.
    pub renders_finished: u64,
    /// Maps finished in vain: the client was gone, or got another answer, or not all of it.
    pub renders_wasted: u64,
    /// Maps lost half-done in an outage.
    pub renders_lost: u64,
    /// Transactions executed.
    pub transactions: u64,
}

impl Counts {
    /// Answers of this kind.
    pub fn kind(&self, kind: Kind) -> u64 {
        self.by_kind.get(&kind).copied().unwrap_or_default()
    }

    /// Requests for this operation, by any method at any path.
    pub fn operation(&self, operation: &str) -> u64 {
        self.by_operation
            .iter()
            .filter(|(key, _)| key.rsplit(' ').next() == Some(operation))
            .map(|(_, n)| n)
            .sum()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    counts: Mutex<Counts>,
    changed: Notify,
}

impl Counters {
    pub(crate) fn snapshot(&self) -> Counts {
        self.lock().clone()
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.lock());
        self.changed.notify_waiters();
    }

    /// Waits until `holds` does.
    pub(crate) async fn until(&self, holds: impl Fn(&Counts) -> bool) -> Counts {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Registered before the look, so that no change falls between the two.
            changed.as_mut().enable();
            let counts = self.snapshot();
            if holds(&counts) {
                return counts;
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A request in flight: from its head to the last byte of the answer, or until somebody gives up.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Counters>);

impl InFlight {
    pub(crate) fn arrive(counters: &Arc<Counters>, operation: String) -> Self {
        counters.change(|counts| {
            counts.requests += 1;
            counts.in_flight += 1;
            counts.in_flight_peak = counts.in_flight_peak.max(counts.in_flight);
            *counts.by_operation.entry(operation).or_default() += 1;
        });
        Self(Arc::clone(counters))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.change(|counts| counts.in_flight -= 1);
    }
}

/// A finished map on its way: wasted unless its last byte was handed over.
#[derive(Debug)]
pub(crate) struct Render {
    counters: Arc<Counters>,
    delivered: bool,
}

impl Render {
    pub(crate) fn begun(counters: &Counters) {
        counters.change(|counts| counts.renders_in_work += 1);
    }

    pub(crate) fn finished(counters: &Arc<Counters>) -> Self {
        counters.change(|counts| {
            counts.renders_in_work -= 1;
            counts.renders_finished += 1;
        });
        Self {
            counters: Arc::clone(counters),
            delivered: false,
        }
    }

    pub(crate) fn deliver(&mut self) {
        self.delivered = true;
    }
}

impl Drop for Render {
    fn drop(&mut self) {
        if !self.delivered {
            self.counters.change(|counts| counts.renders_wasted += 1);
        }
    }
}
