use std::sync::Arc;
use std::task::Waker;

use load_control::{Admission, Outcome, Reason, Wait};
use tokio::time::{Duration, Instant};

use super::gates::{Grant, Manner, Place, Slot, Turn};
use super::word::Reader;
use super::{Endpoint, some_instant};

/// The right to have one answer in flight at an endpoint, and the duty to say what came of it. Its drop gives it back.
#[derive(Debug)]
pub(crate) struct Permit {
    endpoint: Arc<Endpoint>,
    /// `None` once it was given back.
    admission: Option<Admission>,
    // Apart, since a permit is moved with every future around it.
    slot_generation: u32,
    slot_index: u16,
    report: Report,
    /// When the call went out, in [nanoseconds], or how long it took to the head; only where somebody learns from it.
    began: i64,
}

/// What is still to be told of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    /// Nobody learns from it, or it has not gone out.
    Nothing,
    /// It is on its way: dropped now, it was cancelled.
    Awaited,
    /// It was answered well; how long that took is known with the first frame.
    Timed,
    /// As before, and how long it took to the head. A reader who comes late for the body is not the host's fault: what is
    /// there by then counts as having come with the head.
    TimedToHead,
    /// As before, where the time says nothing.
    Untimed,
    /// It was told that the call was answered well; a body that fails says otherwise.
    Told,
}

/// What somebody who may have to wait brings with him.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Retries go in front for their first three attempts.
    pub(crate) goes_in_front: bool,
    /// Does not wait for a breaker to close.
    pub(crate) leaves_when_open: bool,
}

/// Why a call waits, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) reason: Reason,
    /// When the host may be open again, where that is known.
    pub(crate) until: Option<Instant>,
    /// When to ask again.
    pub(crate) ask_at: Option<Instant>,
}

impl Permit {
    /// # Errors
    /// The endpoint and why, where no permit is to be had at once.
    #[inline]
    pub(crate) fn try_acquire(
        endpoint: Arc<Endpoint>,
        now: Instant,
    ) -> Result<Self, (Arc<Endpoint>, Wait)> {
        match endpoint.gates().try_admit(now) {
            Ok(grant) => {
                endpoint.tell();
                Ok(Self::new(endpoint, grant))
            }
            Err(wait) => Err((endpoint, wait)),
        }
    }

    #[inline]
    fn new(endpoint: Arc<Endpoint>, grant: Grant) -> Self {
        Self {
            endpoint,
            admission: Some(grant.admission),
            slot_generation: grant.slot.generation,
            slot_index: grant.slot.index,
            report: Report::Nothing,
            began: 0,
        }
    }

    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// The call goes out now.
    #[inline]
    pub(crate) fn begin(&mut self, now: Instant) {
        if self.endpoint.parts().learns() {
            self.began = nanoseconds(now);
            self.report = Report::Awaited;
        }
    }

    /// Whether anybody learns from what comes of the call.
    #[inline]
    pub(crate) fn reports(&self) -> bool {
        self.report != Report::Nothing
    }

    /// The answer that was asked for: how long it took is told with its first frame, unless the time `is_telling` not.
    #[inline]
    pub(crate) fn succeeded(&mut self, is_telling: bool) {
        if self.report != Report::Awaited {
            return;
        }
        self.report = match is_telling {
            true => Report::Timed,
            false => Report::Untimed,
        };
        // Everybody waits for what comes of a probe, and nobody knows when its body is read.
        if self.admission.as_ref().is_some_and(Admission::is_probe) {
            self.report = Report::Told;
            self.settle(Outcome::Success { latency: None });
        }
    }

    /// Anything else that came of it.
    pub(crate) fn failed(&mut self, outcome: Outcome) {
        if self.report == Report::Awaited {
            self.report = Report::Nothing;
            self.settle(outcome);
        }
    }

    /// The host asks everybody to wait.
    pub(crate) fn hint(&self, retry_after: Duration) {
        self.endpoint.hint(retry_after);
    }

    /// The head has come: from now on the permit is a body's.
    #[inline]
    pub(crate) fn hand_over(&mut self) {
        if self.report == Report::Timed {
            self.began = nanoseconds(Instant::now()) - self.began;
            self.report = Report::TimedToHead;
        }
        self.note(Reader::Handed);
    }

    /// The reader was given a frame.
    #[inline]
    pub(crate) fn read(&mut self) {
        if matches!(
            self.report,
            Report::Timed | Report::TimedToHead | Report::Untimed
        ) {
            self.tell_success();
        }
        self.note(Reader::Read);
    }

    /// The reader waits for the server.
    #[inline]
    pub(crate) fn awaiting(&mut self) {
        if self.report == Report::TimedToHead {
            self.began = nanoseconds(Instant::now()) - self.began;
            self.report = Report::Timed;
        }
        self.note(Reader::Awaiting);
    }

    /// The body broke off. The permit is to be dropped.
    #[cold]
    pub(crate) fn broke_off(&mut self) {
        if self.report != Report::Nothing && self.report != Report::Awaited {
            self.report = Report::Nothing;
            self.settle(Outcome::Unavailable { refused: false });
        }
    }

    #[inline]
    fn note(&self, reader: Reader) {
        self.endpoint.gates().note(self.slot(), reader);
    }

    #[inline]
    fn slot(&self) -> Slot {
        Slot {
            index: self.slot_index,
            generation: self.slot_generation,
        }
    }

    fn tell_success(&mut self) {
        let now = Instant::now();
        let outcome = self.success(now);
        self.report = Report::Told;
        self.settle_at(outcome, now);
        self.endpoint.tell_latency(outcome);
    }

    #[inline]
    fn success(&self, now: Instant) -> Outcome {
        Outcome::Success {
            latency: match self.report {
                Report::Timed => Some(self.elapsed(now)),
                Report::TimedToHead => Some(positive(self.began)),
                _ => None,
            },
        }
    }

    /// Since the call went out.
    #[inline]
    fn elapsed(&self, now: Instant) -> Duration {
        positive(nanoseconds(now) - self.began)
    }

    fn settle(&self, outcome: Outcome) {
        self.settle_at(outcome, Instant::now());
    }

    fn settle_at(&self, outcome: Outcome, now: Instant) {
        if let Some(admission) = &self.admission {
            let wakers = self.endpoint.gates().settle(admission, outcome, now);
            self.endpoint.wake_any(wakers);
        }
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        let Some(admission) = self.admission.take() else {
            return;
        };
        let now = self.endpoint.now();
        let outcome = match self.report {
            Report::Nothing | Report::Told => None,
            Report::Timed | Report::TimedToHead | Report::Untimed => Some(self.success(now)),
            Report::Awaited => Some(Outcome::Cancelled {
                after: self.elapsed(now),
            }),
        };
        let slot = self.slot();
        let grant = Grant { slot, admission };
        let wakers = self.endpoint.gates().release(grant, outcome, now);
        self.endpoint.wake_any(wakers);
        if let Some(outcome) = outcome {
            self.endpoint.tell_latency(outcome);
        }
    }
}

fn positive(nanoseconds: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or_default())
}

/// Since some instant, the same for all; before it they are negative. Half of what an instant takes.
#[inline]
fn nanoseconds(at: Instant) -> i64 {
    let origin = some_instant();
    let magnitude = |duration: Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
    match at.checked_duration_since(origin) {
        Some(since) => magnitude(since),
        None => -magnitude(origin - at),
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
    /// Takes a place behind all who wait, or, in front, behind those who also went there.
    ///
    /// # Errors
    /// A permit, where one is to be had by now and nobody waits for it.
    pub(crate) fn enter(
        endpoint: Arc<Endpoint>,
        waiting: Waiting,
        now: Instant,
        waker: &Waker,
    ) -> Result<Self, Permit> {
        let manner = Manner {
            class: match waiting.goes_in_front {
                true => CLASS_IN_FRONT,
                false => CLASS_OF_ALL,
            },
            leaves_when_open: waiting.leaves_when_open,
        };
        let (entered, wakers) = endpoint.gates().enter(manner, now, waker);
        endpoint.wake(wakers);
        match entered {
            Ok(grant) => Err(Permit::new(endpoint, grant)),
            Err(place) => Ok(Self {
                endpoint,
                place: Some(place),
            }),
        }
    }

    /// The permit, where it is this call's turn. Else what it waits for, and `waker` is called when that may have changed.
    /// `None` once the permit was handed out.
    pub(crate) fn poll(&mut self, now: Instant, waker: &Waker) -> Option<Result<Permit, Waits>> {
        let place = self.place?;
        let (turn, wakers) = self.endpoint.gates().poll(place, now, waker);
        self.endpoint.wake(wakers);
        Some(match turn {
            Turn::Granted(grant) => {
                self.place = None;
                Ok(Permit::new(Arc::clone(&self.endpoint), grant))
            }
            Turn::Waits {
                reason,
                until,
                ask_at,
            } => Err(Waits {
                reason,
                until,
                ask_at,
            }),
        })
    }

    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Takes permits from bodies that nobody has read for four quarters of the patience. To be called every quarter.
    pub(crate) fn sweep(&self, now: Instant, quarter: Duration) {
        let wakers = self.endpoint.gates().sweep(now, quarter);
        self.endpoint.wake(wakers);
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            let wakers = self.endpoint.gates().leave(place, Instant::now());
            self.endpoint.wake(wakers);
        }
    }
}

const CLASS_IN_FRONT: u8 = 0;
const CLASS_OF_ALL: u8 = 1;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;
    use crate::{CircuitBreakerLayer, CooldownLayer, Endpoints};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whoever notices first that a cooldown is over lets the others go: they have to be told, whatever it was.
    #[tokio::test(start_paused = true)]
    async fn who_is_let_go_by_somebody_elses_business_is_woken() {
        let businesses: [fn(&Arc<Endpoint>); 4] = [
            |endpoint| _ = endpoint.spend_retry_token(),
            |endpoint| endpoint.close(),
            |endpoint| endpoint.hint(Duration::ZERO),
            |endpoint| drop(Permit::try_acquire(Arc::clone(endpoint), endpoint.now())),
        ];
        for (n, business) in businesses.into_iter().enumerate() {
            let endpoints = Endpoints::default();
            CircuitBreakerLayer::new(endpoints.clone());
            CooldownLayer::new(endpoints.clone());
            let endpoint = endpoints.find(&"http://a.example/".parse().unwrap());
            endpoint.hint(Duration::from_secs(9));
            let waiting = Waiting {
                goes_in_front: false,
                leaves_when_open: false,
            };
            let wakes = Arc::<Wakes>::default();
            let waker = Waker::from(Arc::clone(&wakes));
            let now = Instant::now();
            let mut queued =
                Queued::enter(Arc::clone(&endpoint), waiting, now, &waker).expect("it is closed");
            assert!(matches!(queued.poll(now, &waker), Some(Err(_))));
            let before = wakes.0.load(Ordering::Relaxed);
            tokio::time::advance(Duration::from_secs(10)).await;
            business(&endpoint);
            let is_granted = endpoint.snapshot().queued == 0;
            let is_woken = wakes.0.load(Ordering::Relaxed) > before;
            assert_eq!(is_granted, is_woken, "business {n}");
        }
    }
}
