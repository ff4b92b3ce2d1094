use std::sync::Arc;
use std::task::{Poll, Waker};

use tokio::time::{Duration, Instant};

use super::Endpoint;
use super::permits::{Place, Reader, Slot};

/// The right to have one answer in flight at an endpoint. Its drop gives it back.
#[derive(Debug)]
pub(crate) struct Permit {
    endpoint: Arc<Endpoint>,
    slot: Slot,
}

impl Permit {
    /// # Errors
    /// The endpoint, where no permit is free at once.
    pub(crate) fn try_acquire(endpoint: Arc<Endpoint>) -> Result<Self, Arc<Endpoint>> {
        match endpoint.permits.try_acquire(endpoint.settings.concurrency) {
            Some(slot) => Ok(Self { endpoint, slot }),
            None => Err(endpoint),
        }
    }

    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// The head has come: from now on the permit is a body's.
    pub(crate) fn hand_over(&self) {
        self.endpoint.permits.note(self.slot, Reader::Handed);
    }

    /// The reader was given a frame.
    #[inline]
    pub(crate) fn read(&self) {
        self.endpoint.permits.note(self.slot, Reader::Read);
    }

    /// The reader waits for the server.
    #[inline]
    pub(crate) fn awaiting(&self) {
        self.endpoint.permits.note(self.slot, Reader::Awaiting);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let limit = self.endpoint.settings.concurrency;
        if let Some(waker) = self.endpoint.permits.release(self.slot, limit) {
            waker.wake();
        }
    }
}

/// A place in an endpoint's queue. Its drop gives it up.
#[derive(Debug)]
pub(crate) struct Queued {
    endpoint: Arc<Endpoint>,
    /// `None` once the permit was handed out: a queue that runs empty counts from zero again.
    place: Option<Place>,
}

impl Queued {
    /// Takes a place behind all who wait.
    ///
    /// # Errors
    /// A permit, where one is free by now and nobody waits for it.
    pub(crate) fn enter(endpoint: Arc<Endpoint>, waker: &Waker) -> Result<Self, Permit> {
        match endpoint
            .permits
            .enter(endpoint.settings.concurrency, CLASS_OF_ALL, waker)
        {
            Ok(slot) => Err(Permit { endpoint, slot }),
            Err(place) => Ok(Self {
                endpoint,
                place: Some(place),
            }),
        }
    }

    /// The permit, where it is this call's turn; else `waker` is called when it comes to be. Pending for ever once it
    /// was handed out.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Permit> {
        let Some(place) = self.place else {
            return Poll::Pending;
        };
        self.endpoint.permits.poll(place, waker).map(|slot| {
            self.place = None;
            Permit {
                endpoint: Arc::clone(&self.endpoint),
                slot,
            }
        })
    }

    /// Takes permits from bodies that nobody has read for four quarters of the patience. To be called every quarter.
    pub(crate) fn sweep(&self, now: Instant, quarter: Duration) {
        let limit = self.endpoint.settings.concurrency;
        for waker in self.endpoint.permits.sweep(limit, now, quarter) {
            waker.wake();
        }
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if let Some(place) = self.place.take()
            && let Some(waker) = self
                .endpoint
                .permits
                .leave(place, self.endpoint.settings.concurrency)
        {
            waker.wake();
        }
    }
}

/// Every call waits behind those that came before it.
const CLASS_OF_ALL: u8 = 0;
