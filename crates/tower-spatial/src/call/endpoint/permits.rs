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
    fn grant(&self, state: &mut State, limit: u16) -> Option<Waker> {
        if state.in_flight >= u32::from(limit) {
            return None;
        }
        let (place, waker) = state.queue.as_mut()?.waiting.pop_first()?;
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
