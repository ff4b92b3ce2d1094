use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};

use tokio::time::{Duration, Instant};

/// The permits of one endpoint and the queue for them: takes the time and the limit, owns no clock and no task.
///
/// A permit is a slot that somebody holds. While a body holds one, the slot says what its reader does, without a lock
/// and without a clock:
///
/// * *handed*: the body was handed over and nobody has polled it yet,
/// * *read*: the last poll gave a frame, so the next move is the reader's,
/// * *awaiting*: the last poll was pending, so the next move is the server's.
///
/// Those who wait call [`sweep`](Self::sweep) every quarter of their patience. It ages what is handed or read, any poll
/// makes it young again, and what has aged through a whole patience is reclaimed: the slot changes hands and the body
/// finds its permit gone. A sweep is the only place where the time is looked at, so patience is counted from the first
/// sweep, that is from when somebody waits, and may take a quarter longer; never less.
pub(super) struct Permits {
    state: Mutex<State>,
    few: [AtomicU32; FEW],
    more: OnceLock<Box<Segment>>,
}

/// One permit. Only whoever it was given to may release it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    index: u16,
    /// Tells holders apart, so that one whose permit was reclaimed never touches its successor's. It comes round after
    /// 2^28 permits: to be mistaken a body must lie unread, and then be touched at exactly that one of them.
    generation: u32,
}

/// A place in the queue. Lower classes go first, within a class who came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    class: u8,
    sequence: u64,
}

/// What holders and waiters are at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) in_flight: usize,
    pub(super) queued: usize,
    pub(super) unread_bodies: usize,
    pub(super) reclaimed: usize,
}

/// What a body's reader does. The numbers are the low bits of a slot's word; the last two grow with their age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Reader {
    Awaiting = 2,
    Read = 3,
    Handed = 8,
}

struct State {
    /// Slots that are held or granted.
    in_flight: u32,
    /// Bodies that live on without their permit.
    reclaimed: u32,
    generation: u32,
    /// Slots that were ever taken; from there on all are free.
    used: u16,
    /// The first of the list of free slots below `used`; each holds the next.
    free: u16,
    /// The last sweep: they are a quarter apart, also over times when nobody waits.
    swept: Option<Instant>,
    /// Made with the first waiter, gone with the last: an idle host costs a word.
    queue: Option<Box<Queue>>,
}

#[derive(Default)]
struct Queue {
    waiting: BTreeMap<Place, Waker>,
    /// Waiters whose permit is there and who have not come for it yet.
    granted: BTreeMap<Place, Slot>,
    sequence: u64,
}

/// Slots beyond the first few, in steps of four times as many. They never move, so they are read without a lock.
struct Segment {
    slots: Box<[AtomicU32]>,
    next: OnceLock<Box<Self>>,
}

impl Permits {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                in_flight: 0,
                reclaimed: 0,
                generation: 0,
                used: 0,
                free: NONE,
                swept: None,
                queue: None,
            }),
            few: [const { AtomicU32::new(FREE) }; FEW],
            more: OnceLock::new(),
        }
    }

    /// A permit, where one is free and nobody waits for it.
    pub(super) fn try_acquire(&self, limit: u16) -> Option<Slot> {
        let mut state = self.lock();
        if state.in_flight >= u32::from(limit) || state.has_waiters() {
            return None;
        }
        Some(self.take(&mut state))
    }

    /// A permit, or a place in the queue, whose `waker` is called once when the permit is there.
    pub(super) fn enter(&self, limit: u16, class: u8, waker: &Waker) -> Result<Slot, Place> {
        let waker = waker.clone();
        let mut state = self.lock();
        if state.in_flight < u32::from(limit) && !state.has_waiters() {
            return Ok(self.take(&mut state));
        }
        let queue = state.queue.get_or_insert_default();
        let place = Place {
            class,
            sequence: queue.sequence,
        };
        queue.sequence += 1;
        queue.waiting.insert(place, waker);
        Err(place)
    }

    /// Whether the permit is there. Once it was handed out the place is gone.
    pub(super) fn poll(&self, place: Place, waker: &Waker) -> Poll<Slot> {
        let mut state = self.lock();
        let queue = state.queue.get_or_insert_default();
        if let Some(slot) = queue.granted.remove(&place) {
            state.tidy();
            return Poll::Ready(slot);
        }
        let known = queue.waiting.entry(place).or_insert_with(|| waker.clone());
        let old = (!known.will_wake(waker)).then(|| std::mem::replace(known, waker.clone()));
        drop(state);
        // A waker's drop may run a task's: not under the lock.
        drop(old);
        Poll::Pending
    }

    /// Gives up a place; the permit, where it was there already, goes to the next.
    #[must_use]
    pub(super) fn leave(&self, place: Place, limit: u16) -> Option<Waker> {
        let mut state = self.lock();
        let queue = state.queue.as_mut()?;
        let waker = queue.waiting.remove(&place);
        let granted = queue.granted.remove(&place);
        let mut next = None;
        if let Some(slot) = granted {
            self.put_back(&mut state, slot.index);
            next = self.grant(&mut state, limit);
        }
        state.tidy();
        drop(state);
        drop(waker);
        next
    }

    /// Gives a permit back, to the first that waits; one that was reclaimed is only counted as ended.
    #[must_use]
    pub(super) fn release(&self, slot: Slot, limit: u16) -> Option<Waker> {
        let mut state = self.lock();
        if !slot.holds(self.word(slot.index).load(Ordering::Relaxed)) {
            state.reclaimed = state.reclaimed.saturating_sub(1);
            return None;
        }
        self.put_back(&mut state, slot.index);
        self.grant(&mut state, limit)
    }

    /// What the reader of the body that holds `slot` does. Free where nothing has changed.
    #[inline]
    pub(super) fn note(&self, slot: Slot, reader: Reader) {
        let now = slot.generation << STATE_BITS | reader as u32;
        let word = self.word(slot.index);
        let mut before = word.load(Ordering::Relaxed);
        while before != now && slot.holds(before) {
            // Against a sweep, that ages or reclaims it.
            match word.compare_exchange_weak(before, now, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) => before = other,
            }
        }
    }

    /// Ages the bodies, where the last time is a `quarter` ago, and takes permits from those that nobody has polled for
    /// four quarters: no more of them than calls are waiting.
    #[must_use]
    pub(super) fn sweep(&self, limit: u16, now: Instant, quarter: Duration) -> Vec<Waker> {
        let mut wakers = Vec::new();
        let mut state = self.lock();
        if state
            .swept
            .is_some_and(|swept| now.saturating_duration_since(swept) < quarter)
        {
            return wakers;
        }
        state.swept = Some(now);
        for index in 0..state.used {
            let word = self.word(index);
            let before = word.load(Ordering::Relaxed);
            let Some(age) = age(before) else { continue };
            if age < OLD {
                // A body that was polled in between is young: nothing to do.
                let _ =
                    word.compare_exchange(before, before + 1, Ordering::Relaxed, Ordering::Relaxed);
            } else if state.has_waiters()
                && word
                    .compare_exchange(before, FREE, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                self.put_back(&mut state, index);
                state.reclaimed += 1;
                wakers.extend(self.grant(&mut state, limit));
            }
        }
        wakers
    }

    pub(super) fn counts(&self) -> Counts {
        let state = self.lock();
        let unread = |index: &u16| {
            let word = self.word(*index).load(Ordering::Relaxed);
            // At age 1 the poll may have been a moment ago, just before a sweep.
            age(word).is_some_and(|age| age > 1 || word & STATE_MASK >= Reader::Handed as u32)
        };
        Counts {
            in_flight: state.in_flight as usize,
            queued: state.queue.as_ref().map_or(0, |queue| queue.waiting.len()),
            unread_bodies: (0..state.used).filter(unread).count(),
            reclaimed: state.reclaimed as usize,
        }
    }

    fn take(&self, state: &mut State) -> Slot {
        let index = if state.free == NONE {
            state.used += 1;
            state.used - 1
        } else {
            state.free
        };
        let word = self.word(index);
        if state.free != NONE {
            state.free = (word.load(Ordering::Relaxed) >> STATE_BITS) as u16;
        }
        state.generation = (state.generation + 1) & (u32::MAX >> STATE_BITS);
        let slot = Slot {
            index,
            generation: state.generation,
        };
        word.store(slot.generation << STATE_BITS | ATTEMPT, Ordering::Relaxed);
        state.in_flight += 1;
        slot
    }

    fn put_back(&self, state: &mut State, index: u16) {
        let next = u32::from(state.free) << STATE_BITS;
        self.word(index).store(next | FREE, Ordering::Relaxed);
        state.free = index;
        state.in_flight -= 1;
    }

    /// One permit for the first that waits.
    #[inline]
    fn grant(&self, state: &mut State, limit: u16) -> Option<Waker> {
        let queue = state.queue.as_mut()?;
        if state.in_flight >= u32::from(limit) {
            return None;
        }
        let (place, waker) = queue.waiting.pop_first()?;
        let slot = self.take(state);
        state
            .queue
            .get_or_insert_default()
            .granted
            .insert(place, slot);
        Some(waker)
    }

    #[inline]
    fn word(&self, index: u16) -> &AtomicU32 {
        let mut index = usize::from(index);
        if let Some(word) = self.few.get(index) {
            return word;
        }
        index -= FEW;
        let mut size = 3 * FEW;
        let mut segment = self.more.get_or_init(|| Segment::new(size));
        loop {
            if let Some(word) = segment.slots.get(index) {
                return word;
            }
            index -= size;
            size *= 4;
            segment = segment.next.get_or_init(|| Segment::new(size));
        }
    }

    /// Nothing panics under the lock but a waker, and those come before or after the change.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_waiters(&self) -> bool {
        self.queue
            .as_ref()
            .is_some_and(|queue| !queue.waiting.is_empty())
    }

    fn tidy(&mut self) {
        if self
            .queue
            .as_ref()
            .is_some_and(|queue| queue.waiting.is_empty() && queue.granted.is_empty())
        {
            self.queue = None;
        }
    }
}

impl Slot {
    fn holds(self, word: u32) -> bool {
        word >> STATE_BITS == self.generation && word & STATE_MASK != FREE
    }
}

impl Segment {
    fn new(size: usize) -> Box<Self> {
        Box::new(Self {
            slots: (0..size).map(|_| AtomicU32::new(FREE)).collect(),
            next: OnceLock::new(),
        })
    }
}

fn age(word: u32) -> Option<u32> {
    match word & STATE_MASK {
        state @ 3..=7 => Some(state - Reader::Read as u32),
        state @ 8..=12 => Some(state - Reader::Handed as u32),
        _ => None,
    }
}

/// A word is a generation and a state, a free slot's the next free one and `FREE`.
const STATE_BITS: u32 = 4;
const STATE_MASK: u32 = (1 << STATE_BITS) - 1;
const FREE: u32 = 0;
/// On its way: no head yet, so nobody can be blamed for not reading.
const ATTEMPT: u32 = 1;
/// The age, in sweeps, at which the next one may reclaim. The first of them only marks.
const OLD: u32 = 4;

const NONE: u16 = u16::MAX;
const FEW: usize = 4;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use proptest::prelude::*;

    use super::*;

    const QUARTER: Duration = Duration::from_secs(1);

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_freed_permit_wakes_the_first_in_line_and_nobody_else() {
        let permits = Permits::new();
        let held = permits.try_acquire(1).unwrap();
        let wakes: Vec<Arc<Wakes>> = (0..3).map(|_| Arc::default()).collect();
        let places: Vec<Place> = wakes
            .iter()
            .zip([1, 0, 0])
            .map(|(wakes, class)| {
                let waker = Waker::from(Arc::clone(wakes));
                permits.enter(1, class, &waker).unwrap_err()
            })
            .collect();
        let woken = || -> Vec<usize> {
            wakes
                .iter()
                .map(|wakes| wakes.0.load(Ordering::Relaxed))
                .collect()
        };
        let slot = |place| match permits.poll(place, Waker::noop()) {
            Poll::Ready(slot) => slot,
            Poll::Pending => panic!("no permit yet"),
        };

        permits.release(held, 1).unwrap().wake();
        assert_eq!(woken(), [0, 1, 0]);
        permits.release(slot(places[1]), 1).unwrap().wake();
        assert_eq!(woken(), [0, 1, 1]);
        // Leaving with the permit at hand passes it on.
        permits.leave(places[2], 1).unwrap().wake();
        assert_eq!(woken(), [1, 1, 1]);
        assert!(permits.release(slot(places[0]), 1).is_none());
        assert_eq!(permits.counts(), Counts::default());
    }

    #[test]
    fn a_limit_that_has_changed_is_kept_to_and_nobody_overtakes_the_queue() {
        let permits = Permits::new();
        let held = permits.try_acquire(2).unwrap();
        let held_too = permits.try_acquire(2).unwrap();
        let place = permits.enter(2, 0, Waker::noop()).unwrap_err();
        assert!(permits.release(held, 1).is_none(), "over the new limit");
        assert!(permits.try_acquire(9).is_none(), "overtook the queue");
        let last = permits.enter(9, 0, Waker::noop()).unwrap_err();
        assert!(permits.release(held_too, 1).is_some());
        assert!(permits.poll(last, Waker::noop()).is_pending());
        assert!(permits.poll(place, Waker::noop()).is_ready());
    }

    #[test]
    fn ten_thousand_waiters_leave_nothing_behind() {
        let permits = Permits::new();
        let held = permits.try_acquire(1).unwrap();
        let places: Vec<Place> = (0..10_000)
            .map(|_| permits.enter(1, 0, Waker::noop()).unwrap_err())
            .collect();
        assert_eq!(permits.counts().queued, 10_000);
        for place in places {
            assert!(permits.leave(place, 1).is_none());
        }
        assert!(permits.release(held, 1).is_none());
        assert_eq!(permits.counts(), Counts::default());
        assert!(permits.lock().queue.is_none());
    }

    #[test]
    fn a_body_whose_permit_was_reclaimed_never_touches_its_successor() {
        let permits = Permits::new();
        let old = permits.try_acquire(1).unwrap();
        permits.note(old, Reader::Handed);
        let place = permits.enter(1, 0, Waker::noop()).unwrap_err();
        let start = Instant::now();
        let woken: usize = (0..=OLD)
            .map(|n| permits.sweep(1, start + QUARTER * n, QUARTER).len())
            .sum();
        assert_eq!(woken, 1);
        let Poll::Ready(new) = permits.poll(place, Waker::noop()) else {
            panic!("no permit yet")
        };
        assert_eq!(new.index, old.index);

        permits.note(old, Reader::Read);
        assert!(new.holds(permits.word(new.index).load(Ordering::Relaxed)));
        assert_eq!(
            (permits.counts().in_flight, permits.counts().reclaimed),
            (1, 1)
        );
        assert!(permits.release(old, 1).is_none());
        assert_eq!(
            (permits.counts().in_flight, permits.counts().reclaimed),
            (1, 0)
        );
        assert!(permits.release(new, 1).is_none());
        assert_eq!(permits.counts(), Counts::default());
    }

    #[test]
    fn a_body_that_waits_for_its_server_is_never_reclaimed() {
        let permits = Permits::new();
        let slow = permits.try_acquire(2).unwrap();
        permits.note(slow, Reader::Awaiting);
        let _attempt = permits.try_acquire(2).unwrap();
        permits.enter(2, 0, Waker::noop()).unwrap_err();
        let start = Instant::now();
        for n in 0..100 {
            assert!(permits.sweep(2, start + QUARTER * n, QUARTER).is_empty());
        }
    }

    #[test]
    fn a_body_that_is_read_now_and_then_is_never_reclaimed() {
        let permits = Permits::new();
        let slot = permits.try_acquire(1).unwrap();
        permits.enter(1, 0, Waker::noop()).unwrap_err();
        let start = Instant::now();
        for n in 0..100 {
            if n % 4 == 0 {
                permits.note(slot, Reader::Read);
            }
            assert!(permits.sweep(1, start + QUARTER * n, QUARTER).is_empty());
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        TryAcquire,
        Enter {
            class: u8,
        },
        Poll {
            waiter: prop::sample::Index,
        },
        Leave {
            waiter: prop::sample::Index,
        },
        Release {
            holder: prop::sample::Index,
        },
        Note {
            holder: prop::sample::Index,
            reader: Reader,
        },
        Sweep {
            after_ms: u64,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        let reader = prop_oneof![
            Just(Reader::Handed),
            Just(Reader::Read),
            Just(Reader::Awaiting)
        ];
        prop_oneof![
            2 => Just(Step::TryAcquire),
            3 => (0..2u8).prop_map(|class| Step::Enter { class }),
            3 => any::<prop::sample::Index>().prop_map(|waiter| Step::Poll { waiter }),
            1 => any::<prop::sample::Index>().prop_map(|waiter| Step::Leave { waiter }),
            2 => any::<prop::sample::Index>().prop_map(|holder| Step::Release { holder }),
            2 => (any::<prop::sample::Index>(), reader)
                .prop_map(|(holder, reader)| Step::Note { holder, reader }),
            4 => (0..3000u64).prop_map(|after_ms| Step::Sweep { after_ms }),
        ]
    }

    struct Holder {
        slot: Slot,
        reader: Option<Reader>,
        noted: Instant,
        reclaimed: bool,
    }

    proptest! {
        /// Law 5, against a model that knows who waits, who holds and who was woken.
        #[test]
        fn permits_are_never_more_than_the_limit_and_never_lost(
            limit in 1..8u16,
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let permits = Permits::new();
            let mut now = Instant::now();
            let mut holders: Vec<Holder> = Vec::new();
            // Whether it was woken, that is, has been granted its permit.
            let mut waiters: BTreeMap<Place, Arc<Wakes>> = BTreeMap::new();
            for step in steps {
                let nth = |index: prop::sample::Index| waiters.keys().nth(index.index(waiters.len().max(1))).copied();
                let mut woken = Vec::new();
                let swept = matches!(step, Step::Sweep { .. });
                match step {
                    Step::TryAcquire => if let Some(slot) = permits.try_acquire(limit) {
                        prop_assert!(waiting(&waiters).next().is_none(), "overtook the queue");
                        holders.push(Holder { slot, reader: None, noted: now, reclaimed: false });
                    }
                    Step::Enter { class } => {
                        let wakes = Arc::<Wakes>::default();
                        match permits.enter(limit, class, &Waker::from(Arc::clone(&wakes))) {
                            Ok(slot) => {
                                prop_assert!(waiting(&waiters).next().is_none(), "overtook the queue");
                                holders.push(Holder { slot, reader: None, noted: now, reclaimed: false });
                            }
                            Err(place) => prop_assert!(waiters.insert(place, wakes).is_none()),
                        }
                    }
                    Step::Poll { waiter } => if let Some(place) = nth(waiter) {
                        let wakes = &waiters[&place];
                        let has_woken = wakes.0.load(Ordering::Relaxed) == 1;
                        match permits.poll(place, &Waker::from(Arc::clone(wakes))) {
                            Poll::Pending => prop_assert!(!has_woken, "woken for nothing"),
                            Poll::Ready(slot) => {
                                prop_assert!(has_woken, "granted and not woken");
                                waiters.remove(&place);
                                holders.push(Holder { slot, reader: None, noted: now, reclaimed: false });
                            }
                        }
                    }
                    Step::Leave { waiter } => if let Some(place) = nth(waiter) {
                        waiters.remove(&place);
                        woken.extend(permits.leave(place, limit));
                    }
                    Step::Release { holder } => if !holders.is_empty() {
                        let holder = holders.remove(holder.index(holders.len()));
                        woken.extend(permits.release(holder.slot, limit));
                    }
                    Step::Note { holder, reader } => if !holders.is_empty() {
                        let holder = holder.index(holders.len());
                        permits.note(holders[holder].slot, reader);
                        holders[holder].reader = Some(reader);
                        holders[holder].noted = now;
                    }
                    Step::Sweep { after_ms } => {
                        now += Duration::from_millis(after_ms);
                        woken.extend(permits.sweep(limit, now, QUARTER));
                    }
                }
                let mut expected = waiting(&waiters).collect::<Vec<_>>().into_iter();
                prop_assert!(swept || woken.len() <= 1, "more than one woken by one permit");
                for waker in woken {
                    waker.wake();
                    let place = expected.next().expect("somebody waits");
                    prop_assert_eq!(waiters[&place].0.load(Ordering::Relaxed), 1, "not the first in line");
                }
                for holder in &mut holders {
                    let holds = holder.slot.holds(permits.word(holder.slot.index).load(Ordering::Relaxed));
                    if !holds && !holder.reclaimed {
                        prop_assert!(swept);
                        prop_assert!(matches!(holder.reader, Some(Reader::Handed | Reader::Read)));
                        prop_assert!(now - holder.noted >= QUARTER * 4, "reclaimed too soon");
                    }
                    prop_assert!(holds || swept || holder.reclaimed, "a permit was taken away");
                    holder.reclaimed = !holds;
                }
                let counts = permits.counts();
                let reclaimed = holders.iter().filter(|holder| holder.reclaimed).count();
                prop_assert!(counts.in_flight <= usize::from(limit));
                prop_assert_eq!(counts.reclaimed, reclaimed);
                prop_assert_eq!(counts.in_flight, holders.len() - reclaimed + granted(&waiters));
                prop_assert_eq!(counts.queued, waiting(&waiters).count());
                prop_assert!(counts.queued == 0 || counts.in_flight == usize::from(limit), "a free permit and a waiter");
                prop_assert!(permits.lock().used <= limit, "slots are not used again");
            }
            for holder in holders {
                if let Some(waker) = permits.release(holder.slot, limit) {
                    waker.wake();
                }
            }
            for place in waiters.into_keys() {
                if let Some(waker) = permits.leave(place, limit) {
                    waker.wake();
                }
            }
            prop_assert_eq!(permits.counts(), Counts::default());
            prop_assert!(permits.lock().queue.is_none());
        }
    }

    fn waiting(waiters: &BTreeMap<Place, Arc<Wakes>>) -> impl Iterator<Item = Place> {
        waiters
            .iter()
            .filter(|(_, wakes)| wakes.0.load(Ordering::Relaxed) == 0)
            .map(|(place, _)| *place)
    }

    fn granted(waiters: &BTreeMap<Place, Arc<Wakes>>) -> usize {
        waiters.len() - waiting(waiters).count()
    }
}
