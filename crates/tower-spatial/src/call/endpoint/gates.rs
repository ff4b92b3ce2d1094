use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;

use load_control::{
    Admission, Decision, Gate, LoadControl, LoadSettings, Outcome, Reason, Snapshot,
    UnknownVersion, Wait,
};
use once_cell::race::OnceBox;
use rand::TryRng;
use tokio::time::{Duration, Instant};

use super::Small;
use super::heads::Heads;
use super::word::{self, Reader};

/// What stands before one endpoint: its load control (breaker, cooldown, limit), the permits that were given, and the one
/// queue of those who wait. It takes the time, owns no clock and no task.
///
/// The load control decides who may go; whoever waits has a place in the queue, in order. Whatever may let somebody go
/// asks for the front of the queue and wakes only who was let through. Where the front has to ask again at some time it
/// is told so, keeps a timer for it, and passes that on when it leaves. Every other call that waits looks after the queue
/// once a quarter of the readers' patience, so that a call which nobody polls does not stop the rest: who looks, and finds
/// that the front has overslept, goes in its place. Who has not come for its permit, or has not looked, for longer than a
/// quarter is forgotten: woken once more, and back in its place when it is polled again.
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
///
/// Where nothing limits what is in flight there are no slots: nobody waits for a permit then.
pub(super) struct Gates {
    state: Mutex<State>,
    few: [AtomicU32; FEW],
    pub(super) small: Small,
    /// Half as large as a `OnceLock` of a box.
    extras: OnceBox<Extras>,
}

/// What only some hosts need.
#[derive(Default)]
struct Extras {
    slots: OnceLock<Box<Segment>>,
    heads: Heads,
    patience: Mutex<Patience>,
}

/// How far bodies have been looked at that nobody reads: only where calls had to wait.
#[derive(Clone, Copy, Default)]
struct Patience {
    /// When the last sweep was: they are a quarter apart, also over times when nobody waits.
    swept: Option<Instant>,
    /// Bodies that live on without their permit.
    reclaimed: usize,
}

/// Who may go: its slot, and by which state of the host.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) slot: Slot,
    pub(super) admission: Admission,
}

/// One permit. Only whoever it was given to may release it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) index: u16,
    /// Tells holders apart, so that one whose permit was reclaimed never touches its successor's. It comes round after
    /// 2^28 permits: to be mistaken a body must lie unread, and then be touched at exactly that one of them.
    pub(super) generation: u32,
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

struct State {
    control: LoadControl,
    generation: u32,
    /// Slots that were ever taken; from there on all are free.
    used: u16,
    /// The first of the list of free slots below `used`; each holds the next.
    free: u16,
    /// Made with the first waiter, gone with the last: an idle host costs a word.
    queue: Option<Box<Queue>>,
    /// Made where somebody observes.
    chronicle: Option<Box<Chronicle>>,
}

#[derive(Default)]
struct Queue {
    waiting: BTreeMap<Place, Waiter>,
    /// Waiters whose permit is there and who have not come for it yet.
    granted: BTreeMap<Place, Granted>,
    /// Waiters that nobody seems to poll.
    forgotten: BTreeMap<Place, Waiter>,
    sequence: u64,
    /// When the front asks again; `None` where a call that ends or an operator will tell.
    ask_at: Option<Instant>,
    /// Who was told last that it is the front, and when to ask.
    told: Option<(Place, Instant)>,
    /// How many of those who wait leave when the breaker opens.
    leaving: usize,
}

/// What happened, until it is told once nothing is locked: an observer's code is not ours.
#[derive(Default)]
struct Chronicle {
    breaker: BreakerKind,
    cooldown_end: Option<std::time::Instant>,
    news: Vec<News>,
}

/// What an observer is told of the gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Breaker {
        from: BreakerKind,
        to: BreakerKind,
        /// Until the probe, where the breaker has opened and that is known.
        probe_in: Option<Duration>,
    },
    Cooldown(Duration),
    Reclaimed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum BreakerKind {
    #[default]
    Closed,
    Open,
    HalfOpen,
}

struct Waiter {
    waker: Waker,
    leaves_when_open: bool,
    /// When it was polled last.
    seen: Instant,
}

struct Granted {
    grant: Grant,
    waiter: Waiter,
    /// The first sweep that found it still here: whoever let it go may not have looked at a clock.
    noticed: Option<Instant>,
}

/// Who waits, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) class: u8,
    /// Woken when the breaker opens, since it does not wait for it to close.
    pub(super) leaves_when_open: bool,
}

/// What a waiting call was told.
#[derive(Debug)]
pub(super) enum Turn {
    Granted(Grant),
    Waits {
        /// What the front of the queue waits for; another call waits for the queue.
        reason: Reason,
        /// When the host may be open again, where that is known.
        until: Option<Instant>,
        /// When this call, as the front, has to ask again.
        ask_at: Option<Instant>,
    },
}

/// Whom to wake, once nothing is locked: a waker's code is not ours.
#[must_use]
#[derive(Debug, Default)]
pub(super) struct Wakers {
    first: Option<Waker>,
    more: Vec<Waker>,
    /// Only to be dropped, which may run a task's code too.
    discarded: Option<Waker>,
}

impl Wakers {
    #[inline]
    pub(super) fn wake(self) {
        if let Some(first) = self.first {
            first.wake();
            for waker in self.more {
                waker.wake();
            }
        }
    }

    fn push(&mut self, waker: Waker) {
        match self.first {
            None => self.first = Some(waker),
            Some(_) => self.more.push(waker),
        }
    }
}

/// Slots beyond the first few, in steps of four times as many. They never move, so they are read without a lock.
struct Segment {
    slots: Box<[AtomicU32]>,
    next: OnceLock<Box<Self>>,
}

impl Gates {
    pub(super) fn new(settings: Arc<LoadSettings>, small: Small) -> Self {
        Self {
            state: Mutex::new(State {
                control: LoadControl::new(settings),
                generation: 0,
                used: 0,
                free: NONE,
                queue: None,
                chronicle: None,
            }),
            few: [const { AtomicU32::new(word::FREE) }; FEW],
            small,
            extras: OnceBox::new(),
        }
    }

    /// The permit, where the call may go now and nobody waits. With the retry's price, where one is due.
    ///
    /// # Errors
    /// Why it may not.
    #[inline]
    pub(super) fn try_admit(&self, now: Instant) -> Result<Grant, Wait> {
        let mut state = self.lock();
        let state = &mut *state;
        if state.has_waiters() {
            return Err(state.waits(now));
        }
        match state.control.admit(now.into_std()) {
            Decision::Admit(admission) => Ok(self.take(state, admission)),
            Decision::Wait(wait) => Err(wait),
        }
    }

    /// A permit, or a place in the queue, whose `waker` is called when the permit is there or when to ask again changes.
    pub(super) fn enter(
        &self,
        manner: Manner,
        now: Instant,
        waker: &Waker,
    ) -> (Result<Grant, Place>, Wakers) {
        let waker = waker.clone();
        let mut wakers = Wakers::default();
        let mut state = self.lock();
        let state = &mut *state;
        let goes = state.forget_who_overslept(now, &mut wakers);
        if !goes {
            // Whoever is before this one goes first, where nobody has noticed yet that it may.
            self.advance(state, now, &mut wakers);
        }
        if (goes || !state.has_waiters())
            && let Decision::Admit(admission) = state.control.admit(now.into_std())
        {
            return (Ok(self.take(state, admission)), wakers);
        }
        let queue = state.queue.get_or_insert_default();
        if queue.waiting.is_empty() {
            // Told to somebody who has gone.
            queue.ask_at = None;
        }
        let place = Place {
            class: manner.class,
            sequence: queue.sequence,
        };
        queue.sequence += 1;
        queue.leaving += usize::from(manner.leaves_when_open);
        let leaves_when_open = manner.leaves_when_open;
        let waiter = Waiter {
            waker,
            leaves_when_open,
            seen: now,
        };
        queue.waiting.insert(place, waiter);
        (Err(place), wakers)
    }

    /// Whether the permit is there. Once it was handed out the place is gone.
    pub(super) fn poll(&self, place: Place, now: Instant, waker: &Waker) -> (Turn, Wakers) {
        let mut wakers = Wakers::default();
        let mut state = self.lock();
        let state = &mut *state;
        state.queue.get_or_insert_default().see(place, now);
        let is_front = state.is_front(place);
        if !is_front
            && state.forget_who_overslept(now, &mut wakers)
            && let Some(queue) = &mut state.queue
            && queue.waiting.contains_key(&place)
            && let Decision::Admit(admission) = state.control.admit(now.into_std())
        {
            wakers.discarded = queue.remove(&place).map(|waiter| waiter.waker);
            let grant = self.take(state, admission);
            self.advance(state, now, &mut wakers);
            state.tidy();
            return (Turn::Granted(grant), wakers);
        }
        self.advance(state, now, &mut wakers);
        let queue = state.queue.get_or_insert_default();
        if let Some(granted) = queue.granted.remove(&place) {
            wakers.discarded = Some(granted.waiter.waker);
            state.tidy();
            return (Turn::Granted(granted.grant), wakers);
        }
        if let Some(known) = queue.waiting.get_mut(&place)
            && !known.waker.will_wake(waker)
        {
            let old = std::mem::replace(&mut known.waker, waker.clone());
            wakers.discarded = Some(old);
        }
        let front = queue.waiting.first_key_value().map(|(first, _)| *first);
        let ask_at = queue.ask_at.filter(|_| front == Some(place));
        if front == Some(place) {
            // Whatever it was told before, this is what its timer is set to.
            queue.told = ask_at.map(|at| (place, at));
        }
        let Wait { reason, until } = state.waits(now);
        let until = until.map(Instant::from_std);
        let turn = Turn::Waits {
            reason,
            until,
            ask_at,
        };
        (turn, wakers)
    }

    /// Gives up a place; the permit, where it was there already, goes to the next.
    pub(super) fn leave(&self, place: Place, now: Instant) -> Wakers {
        let mut wakers = Wakers::default();
        let mut state = self.lock();
        let state = &mut *state;
        let Some(queue) = state.queue.as_mut() else {
            return wakers;
        };
        let left = queue
            .remove(&place)
            .or_else(|| queue.forgotten.remove(&place));
        if let Some(granted) = queue.granted.remove(&place) {
            wakers.discarded = Some(granted.waiter.waker);
            self.give_back(state, granted.grant, now);
        } else {
            wakers.discarded = left.map(|waiter| waiter.waker);
        }
        self.advance(state, now, &mut wakers);
        state.tidy();
        wakers
    }

    /// What came of the call, and that its permit is free; one that was reclaimed is only counted as ended. `None` where
    /// nobody waits.
    #[inline]
    pub(super) fn release(
        &self,
        grant: Grant,
        outcome: Option<Outcome>,
        now: Instant,
    ) -> Option<Wakers> {
        let mut state = self.lock();
        let state = &mut *state;
        if state.queue.is_some() {
            return Some(self.release_before_queue(state, grant, outcome, now));
        }
        if let Some(outcome) = outcome {
            state.settle(&grant.admission, outcome, now);
        }
        self.end(state, grant, now);
        None
    }

    #[cold]
    fn release_before_queue(
        &self,
        state: &mut State,
        grant: Grant,
        outcome: Option<Outcome>,
        now: Instant,
    ) -> Wakers {
        let mut wakers = Wakers::default();
        if let Some(outcome) = outcome {
            self.settle_in(state, &grant.admission, outcome, now, &mut wakers);
        }
        self.end(state, grant, now);
        self.advance(state, now, &mut wakers);
        wakers
    }

    #[inline]
    fn end(&self, state: &mut State, grant: Grant, now: Instant) {
        let Grant { slot, admission } = grant;
        if slot.is_counted() {
            if !word::is_held(self.word(slot.index), slot.generation) {
                let mut patience = self.patience();
                patience.reclaimed = patience.reclaimed.saturating_sub(1);
                return;
            }
            self.put_back(state, slot.index);
        }
        let _ = state.control.release(now.into_std(), admission);
    }

    /// What came of a call that keeps its permit. `None` where nobody waits.
    pub(super) fn settle(
        &self,
        admission: &Admission,
        outcome: Outcome,
        now: Instant,
    ) -> Option<Wakers> {
        let mut state = self.lock();
        let state = &mut *state;
        if state.queue.is_none() {
            state.settle(admission, outcome, now);
            return None;
        }
        let mut wakers = Wakers::default();
        self.settle_in(state, admission, outcome, now, &mut wakers);
        self.advance(state, now, &mut wakers);
        Some(wakers)
    }

    fn settle_in(
        &self,
        state: &mut State,
        admission: &Admission,
        outcome: Outcome,
        now: Instant,
        wakers: &mut Wakers,
    ) {
        let was_closed = state.control.gate(now.into_std()) == Gate::Closed;
        state.settle(admission, outcome, now);
        if was_closed && state.control.gate(now.into_std()) != Gate::Closed {
            state.wake_who_leaves(wakers);
        }
    }

    /// Anything else that is done to the load control, after which the queue goes by what it says then.
    pub(super) fn control<T>(
        &self,
        now: Instant,
        act: impl FnOnce(&mut LoadControl, std::time::Instant) -> T,
    ) -> (T, Wakers) {
        let mut wakers = Wakers::default();
        let mut state = self.lock();
        let state = &mut *state;
        let was_closed = state.control.gate(now.into_std()) == Gate::Closed;
        let done = act(&mut state.control, now.into_std());
        if was_closed && state.control.gate(now.into_std()) != Gate::Closed {
            state.wake_who_leaves(&mut wakers);
        }
        state.notice(now.into_std());
        self.advance(state, now, &mut wakers);
        (done, wakers)
    }

    /// Goes by what another process has learnt, unless calls are on their way already.
    ///
    /// # Errors
    /// Where that process knew more or less than this one.
    pub(super) fn import(
        &self,
        settings: Arc<LoadSettings>,
        now: Instant,
        state: &load_control::State,
        age: Duration,
    ) -> Result<(), UnknownVersion> {
        let imported = LoadControl::import(settings, now.into_std(), state, age)?;
        let mut held = self.lock();
        if held.control.in_flight() == 0 && held.queue.is_none() {
            held.control = imported;
        }
        Ok(())
    }

    /// From now on somebody observes.
    pub(super) fn observe(&self) {
        let mut state = self.lock();
        state.chronicle.get_or_insert_default();
    }

    /// What has happened since this was asked last.
    pub(super) fn take_news(&self, now: Instant) -> Vec<News> {
        let mut state = self.lock();
        state.chronicle.get_or_insert_default();
        state.notice(now.into_std());
        let chronicle = state.chronicle.as_mut();
        chronicle.map_or_else(Vec::new, |chronicle| std::mem::take(&mut chronicle.news))
    }

    /// What attempt timeouts have learnt of the host.
    pub(super) fn heads(&self) -> &Heads {
        &self.extras.get_or_init(Box::default).heads
    }

    /// What is read of the load control.
    pub(super) fn read<T>(&self, read: impl FnOnce(&LoadControl) -> T) -> T {
        read(&self.lock().control)
    }

    /// What the reader of the body that holds `slot` does. Free where nothing has changed.
    #[inline]
    pub(super) fn note(&self, slot: Slot, reader: Reader) {
        if !slot.is_counted() {
            return;
        }
        word::note(self.word(slot.index), slot.generation, reader);
    }

    /// Looks after the queue. Ages the bodies, where the last time is a `quarter` ago, and takes permits from those that
    /// nobody has polled for four quarters: no more of them than calls are waiting.
    pub(super) fn sweep(&self, now: Instant, quarter: Duration) -> Wakers {
        let mut wakers = Wakers::default();
        let mut state = self.lock();
        let state = &mut *state;
        let mut patience = self.patience();
        if patience
            .swept
            .is_some_and(|swept| now.saturating_duration_since(swept) < quarter)
        {
            return wakers;
        }
        patience.swept = Some(now);
        self.forget(state, now, quarter, &mut wakers);
        self.advance(state, now, &mut wakers);
        for index in 0..state.used {
            if word::sweep(self.word(index), || state.waits_for_a_permit(now)) {
                self.put_back(state, index);
                patience.reclaimed += 1;
                let _ = state.control.reclaim(now.into_std());
                if let Some(chronicle) = &mut state.chronicle {
                    chronicle.news.push(News::Reclaimed);
                }
                self.advance(state, now, &mut wakers);
            }
        }
        wakers
    }

    pub(super) fn counts(&self, now: Instant) -> (Counts, Snapshot) {
        let state = self.lock();
        let unread = |index: &u16| word::is_unread(self.word(*index));
        let counts = Counts {
            in_flight: state.control.in_flight() as usize,
            queued: state
                .queue
                .as_ref()
                .map_or(0, |queue| queue.waiting.len() + queue.forgotten.len()),
            unread_bodies: (0..state.used).filter(unread).count(),
            reclaimed: self.extras.get().map_or(0, |_| self.patience().reclaimed),
        };
        (counts, state.control.snapshot(now.into_std()))
    }

    #[inline]
    fn take(&self, state: &mut State, admission: Admission) -> Grant {
        if !state.control.has_limit() {
            let slot = Slot {
                index: NONE,
                generation: 0,
            };
            return Grant { slot, admission };
        }
        let index = if state.free == NONE {
            state.used += 1;
            state.used - 1
        } else {
            state.free
        };
        let word = self.word(index);
        if state.free != NONE {
            state.free = word::next(word);
        }
        state.generation = (state.generation + 1) & word::GENERATIONS;
        let slot = Slot {
            index,
            generation: state.generation,
        };
        word::take(word, slot.generation);
        Grant { slot, admission }
    }

    #[inline]
    fn put_back(&self, state: &mut State, index: u16) {
        word::put_back(self.word(index), state.free);
        state.free = index;
    }

    /// Lets go whoever may, from the front, and tells the front when to ask again.
    #[inline]
    fn advance(&self, state: &mut State, now: Instant, wakers: &mut Wakers) {
        if state.queue.is_some() {
            self.advance_queue(state, now, wakers);
        }
    }

    #[cold]
    fn advance_queue(&self, state: &mut State, now: Instant, wakers: &mut Wakers) {
        loop {
            let Some(queue) = state.queue.as_mut() else {
                return;
            };
            let Some(front) = queue.waiting.first_entry() else {
                return;
            };
            match state.control.admit(now.into_std()) {
                Decision::Wait(wait) => {
                    queue.ask_at = wait.until.map(Instant::from_std);
                    let front = (*front.key(), &front.get().waker);
                    if let Some(ask_at) = queue.ask_at
                        && queue
                            .told
                            .is_none_or(|(place, at)| place != front.0 || at > ask_at)
                    {
                        queue.told = Some((front.0, ask_at));
                        wakers.push(front.1.clone());
                    }
                    return;
                }
                Decision::Admit(admission) => {
                    let (place, waiter) = front.remove_entry();
                    queue.leaving -= usize::from(waiter.leaves_when_open);
                    wakers.push(waiter.waker.clone());
                    let grant = self.take(state, admission);
                    let granted = Granted {
                        grant,
                        waiter,
                        noticed: None,
                    };
                    let queue = state.queue.get_or_insert_default();
                    queue.granted.insert(place, granted);
                }
            }
        }
    }

    /// Takes permits from those who have not come for them, and those who have not looked for long out of the way.
    fn forget(&self, state: &mut State, now: Instant, quarter: Duration, wakers: &mut Wakers) {
        let late = (quarter + quarter / 4).max(OVERSLEPT);
        let is_late = |since: Instant| now.saturating_duration_since(since) >= late;
        let Some(queue) = state.queue.as_mut() else {
            return;
        };
        while let Some((place, _)) = queue
            .waiting
            .first_key_value()
            .filter(|(_, waiter)| is_late(waiter.seen))
        {
            queue.forget(*place, wakers);
        }
        let late = queue.granted.extract_if(.., |_, granted| {
            let noticed = *granted.noticed.get_or_insert(now);
            now.saturating_duration_since(noticed) >= quarter.max(OVERSLEPT)
        });
        let late: Vec<_> = late.collect();
        for (place, granted) in late {
            wakers.push(granted.waiter.waker.clone());
            let queue = state.queue.get_or_insert_default();
            queue.forgotten.insert(place, granted.waiter);
            self.give_back(state, granted.grant, now);
        }
    }

    /// A permit that nobody has used.
    fn give_back(&self, state: &mut State, grant: Grant, now: Instant) {
        if grant.slot.is_counted() {
            self.put_back(state, grant.slot.index);
        }
        let _ = state.control.release(now.into_std(), grant.admission);
    }

    #[inline]
    fn word(&self, index: u16) -> &AtomicU32 {
        let mut index = usize::from(index);
        if let Some(word) = self.few.get(index) {
            return word;
        }
        index -= FEW;
        let mut size = FIRST_SEGMENT;
        let extras = self.extras.get_or_init(Box::default);
        let mut segment = extras.slots.get_or_init(|| Segment::new(size));
        loop {
            if let Some(word) = segment.slots.get(index) {
                return word;
            }
            index -= size;
            size *= 4;
            segment = segment.next.get_or_init(|| Segment::new(size));
        }
    }

    /// Taken under the lock, if at all.
    fn patience(&self) -> MutexGuard<'_, Patience> {
        let patience = &self.extras.get_or_init(Box::default).patience;
        patience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing panics under the lock but a waker, and those come before or after the change.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn settle(&mut self, admission: &Admission, outcome: Outcome, now: Instant) {
        let _ = self
            .control
            .settle(now.into_std(), admission, outcome, &mut RandomOnDemand);
        self.notice(now.into_std());
    }

    #[inline]
    fn notice(&mut self, now: std::time::Instant) {
        if self.chronicle.is_some() {
            self.notice_change(now);
        }
    }

    #[cold]
    fn notice_change(&mut self, now: std::time::Instant) {
        let Some(chronicle) = &mut self.chronicle else {
            return;
        };
        let Snapshot { gate, cooldown, .. } = self.control.snapshot(now);
        let (to, probe_in) = match gate {
            Gate::Closed => (BreakerKind::Closed, None),
            Gate::Open { until } => {
                let probe_in = until.map(|until| until.saturating_duration_since(now));
                (BreakerKind::Open, probe_in)
            }
            Gate::Probe | Gate::Probing { .. } => (BreakerKind::HalfOpen, None),
        };
        let from = std::mem::replace(&mut chronicle.breaker, to);
        if from != to {
            chronicle.news.push(News::Breaker { from, to, probe_in });
        }
        if let Some(lasts) = cooldown.filter(|lasts| !lasts.is_zero()) {
            let end = now + lasts;
            if chronicle.cooldown_end.is_none_or(|known| known < end) {
                chronicle.cooldown_end = Some(end);
                chronicle.news.push(News::Cooldown(lasts));
            }
        }
    }

    #[inline]
    fn has_waiters(&self) -> bool {
        self.queue
            .as_ref()
            .is_some_and(|queue| !queue.waiting.is_empty())
    }

    fn is_front(&self, place: Place) -> bool {
        let queue = self.queue.as_ref();
        let front = queue.and_then(|queue| queue.waiting.first_key_value());
        front.is_some_and(|(front, _)| *front == place)
    }

    /// Whether the front was to ask some time ago and has not: who has noticed that can go in its place.
    fn forget_who_overslept(&mut self, now: Instant, wakers: &mut Wakers) -> bool {
        let Some(queue) = &mut self.queue else {
            return false;
        };
        let overslept = |at: Instant| now.saturating_duration_since(at) >= OVERSLEPT;
        if !queue.ask_at.is_some_and(overslept) {
            return false;
        }
        let Some((front, _)) = queue.waiting.first_key_value() else {
            return false;
        };
        queue.forget(*front, wakers);
        queue.ask_at = None;
        true
    }

    /// What whoever waits now waits for.
    fn waits(&self, now: Instant) -> Wait {
        self.control.waits(now.into_std()).unwrap_or(Wait {
            reason: Reason::Limit,
            until: None,
        })
    }

    fn waits_for_a_permit(&self, now: Instant) -> bool {
        self.has_waiters() && self.waits(now).reason == Reason::Limit
    }

    fn wake_who_leaves(&self, wakers: &mut Wakers) {
        let Some(queue) = self.queue.as_ref().filter(|queue| queue.leaving > 0) else {
            return;
        };
        let leaving = queue.waiting.values().filter(|one| one.leaves_when_open);
        leaving.for_each(|waiter| wakers.push(waiter.waker.clone()));
    }

    fn tidy(&mut self) {
        if self.queue.as_deref().is_some_and(Queue::is_empty) {
            self.queue = None;
        }
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.granted.is_empty() && self.forgotten.is_empty()
    }

    /// One of those who wait.
    fn remove(&mut self, place: &Place) -> Option<Waiter> {
        let waiter = self.waiting.remove(place)?;
        self.leaving -= usize::from(waiter.leaves_when_open);
        Some(waiter)
    }

    /// Somebody polls it; one that was forgotten finds its place again.
    fn see(&mut self, place: Place, now: Instant) {
        if let Some(waiter) = self.forgotten.remove(&place) {
            self.leaving += usize::from(waiter.leaves_when_open);
            self.waiting.insert(place, waiter);
        }
        if let Some(waiter) = self.waiting.get_mut(&place) {
            waiter.seen = now;
        }
    }

    /// Nobody seems to poll it. It is woken, should that be wrong.
    fn forget(&mut self, place: Place, wakers: &mut Wakers) {
        if let Some(waiter) = self.remove(&place) {
            wakers.push(waiter.waker.clone());
            self.forgotten.insert(place, waiter);
        }
    }
}

/// The thread's generator, looked up by who draws from it: a success does not.
struct RandomOnDemand;

impl TryRng for RandomOnDemand {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        rand::rng().try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        rand::rng().try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        rand::rng().try_fill_bytes(bytes)
    }
}

impl Slot {
    /// Whether it is one: where nothing limits what is in flight there are none.
    pub(super) fn is_counted(self) -> bool {
        self.index != NONE
    }
}

impl Segment {
    fn new(size: usize) -> Box<Self> {
        Box::new(Self {
            slots: (0..size).map(|_| AtomicU32::new(word::FREE)).collect(),
            next: OnceLock::new(),
        })
    }
}

/// A task that was woken for so long and has not come is one that nobody polls.
const OVERSLEPT: Duration = Duration::from_secs(1);
const NONE: u16 = u16::MAX;
const FEW: usize = 3;
/// With the few they are as many as a host may bear by default.
const FIRST_SEGMENT: usize = 13;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Poll, Wake};

    use load_control::LimitSettings;
    use proptest::prelude::*;

    use super::super::Parts;
    use super::*;

    const QUARTER: Duration = Duration::from_secs(1);

    /// The gates of a host with nothing but a limit, at one moment.
    struct Line {
        gates: Gates,
        now: Instant,
    }

    impl Line {
        fn of(limit: u32) -> Self {
            let settings = LoadSettings {
                breaker: None,
                retry_after_max: Duration::ZERO,
                limit: LimitSettings::Fixed(limit),
                retry_tokens: false,
            };
            Self {
                gates: Gates::new(Arc::new(settings), Small::new(0, Parts::default())),
                now: Instant::now(),
            }
        }

        fn try_acquire(&self) -> Option<Grant> {
            self.gates.try_admit(self.now).ok()
        }

        fn enter(&self, class: u8, waker: &Waker) -> Result<Grant, Place> {
            let manner = Manner {
                class,
                leaves_when_open: false,
            };
            let (entered, wakers) = self.gates.enter(manner, self.now, waker);
            assert!(woken(wakers).is_empty(), "nobody may go but the newcomer");
            entered
        }

        fn poll(&self, place: Place, waker: &Waker) -> Poll<Grant> {
            let (turn, wakers) = self.gates.poll(place, self.now, waker);
            assert!(woken(wakers).is_empty(), "somebody may go and was not told");
            match turn {
                Turn::Granted(grant) => Poll::Ready(grant),
                Turn::Waits { .. } => Poll::Pending,
            }
        }

        fn leave(&self, place: Place) -> Vec<Waker> {
            woken(self.gates.leave(place, self.now))
        }

        fn release(&self, grant: Grant) -> Vec<Waker> {
            let wakers = self.gates.release(grant, None, self.now);
            wakers.map_or_else(Vec::new, woken)
        }

        /// When all who wait have just been polled: what becomes of others is told where the layers are tested.
        fn sweep(&self, now: Instant) -> Vec<Waker> {
            if let Some(queue) = &mut self.gates.lock().queue {
                queue
                    .waiting
                    .values_mut()
                    .for_each(|waiter| waiter.seen = now);
                queue
                    .granted
                    .values_mut()
                    .for_each(|granted| granted.noticed = None);
            }
            woken(self.gates.sweep(now, QUARTER))
        }

        fn counts(&self) -> Counts {
            self.gates.counts(self.now).0
        }

        fn holds(&self, slot: Slot) -> bool {
            word::is_held(self.gates.word(slot.index), slot.generation)
        }
    }

    fn wake(wakers: Vec<Waker>) {
        assert!(wakers.len() <= 1, "more than one woken by one permit");
        wakers.into_iter().for_each(Waker::wake);
    }

    fn woken(wakers: Wakers) -> Vec<Waker> {
        wakers.first.into_iter().chain(wakers.more).collect()
    }

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_freed_permit_wakes_the_first_in_line_and_nobody_else() {
        let permits = Line::of(1);
        let held = permits.try_acquire().unwrap();
        let wakes: Vec<Arc<Wakes>> = (0..3).map(|_| Arc::default()).collect();
        let places: Vec<Place> = wakes
            .iter()
            .zip([1, 0, 0])
            .map(|(wakes, class)| {
                let waker = Waker::from(Arc::clone(wakes));
                permits.enter(class, &waker).unwrap_err()
            })
            .collect();
        let woken = || -> Vec<usize> {
            wakes
                .iter()
                .map(|wakes| wakes.0.load(Ordering::Relaxed))
                .collect()
        };
        let grant = |place| match permits.poll(place, Waker::noop()) {
            Poll::Ready(grant) => grant,
            Poll::Pending => panic!("no permit yet"),
        };

        wake(permits.release(held));
        assert_eq!(woken(), [0, 1, 0]);
        wake(permits.release(grant(places[1])));
        assert_eq!(woken(), [0, 1, 1]);
        // Leaving with the permit at hand passes it on.
        wake(permits.leave(places[2]));
        assert_eq!(woken(), [1, 1, 1]);
        assert!(permits.release(grant(places[0])).is_empty());
        assert_eq!(permits.counts(), Counts::default());
    }

    #[test]
    fn a_limit_that_has_changed_is_kept_to_and_nobody_overtakes_the_queue() {
        let permits = Line::of(2);
        let limit_to = |limit| {
            let settings = Arc::new(LoadSettings {
                limit: LimitSettings::Fixed(limit),
                ..LoadSettings::default()
            });
            let act = |control: &mut LoadControl, _| control.set_settings(settings);
            woken(permits.gates.control(permits.now, act).1)
        };
        let held = permits.try_acquire().unwrap();
        let held_too = permits.try_acquire().unwrap();
        let place = permits.enter(0, Waker::noop()).unwrap_err();
        let last = permits.enter(0, Waker::noop()).unwrap_err();
        assert!(limit_to(1).is_empty());
        assert!(permits.release(held).is_empty(), "over the new limit");
        assert!(permits.try_acquire().is_none(), "overtook the queue");
        assert_eq!(permits.release(held_too).len(), 1);
        assert!(permits.poll(last, Waker::noop()).is_pending());
        assert!(permits.poll(place, Waker::noop()).is_ready());
        assert_eq!(limit_to(2).len(), 1, "a raised limit lets somebody go");
    }

    #[test]
    fn ten_thousand_waiters_leave_nothing_behind() {
        let permits = Line::of(1);
        let held = permits.try_acquire().unwrap();
        let places: Vec<Place> = (0..10_000)
            .map(|_| permits.enter(0, Waker::noop()).unwrap_err())
            .collect();
        assert_eq!(permits.counts().queued, 10_000);
        for place in places {
            assert!(permits.leave(place).is_empty());
        }
        assert!(permits.release(held).is_empty());
        assert_eq!(permits.counts(), Counts::default());
        assert!(permits.gates.lock().queue.is_none());
    }

    #[test]
    fn a_body_whose_permit_was_reclaimed_never_touches_its_successor() {
        let permits = Line::of(1);
        let old = permits.try_acquire().unwrap();
        permits.gates.note(old.slot, Reader::Handed);
        let place = permits.enter(0, Waker::noop()).unwrap_err();
        let start = Instant::now();
        let woken: usize = (0..=word::OLD)
            .map(|n| permits.sweep(start + QUARTER * n).len())
            .sum();
        assert_eq!(woken, 1);
        let Poll::Ready(new) = permits.poll(place, Waker::noop()) else {
            panic!("no permit yet")
        };
        assert_eq!(new.slot.index, old.slot.index);

        permits.gates.note(old.slot, Reader::Read);
        assert!(permits.holds(new.slot));
        assert_eq!(
            (permits.counts().in_flight, permits.counts().reclaimed),
            (1, 1)
        );
        assert!(permits.release(old).is_empty());
        assert_eq!(
            (permits.counts().in_flight, permits.counts().reclaimed),
            (1, 0)
        );
        assert!(permits.release(new).is_empty());
        assert_eq!(permits.counts(), Counts::default());
    }

    #[test]
    fn a_body_that_waits_for_its_server_is_never_reclaimed() {
        let permits = Line::of(2);
        let slow = permits.try_acquire().unwrap();
        permits.gates.note(slow.slot, Reader::Awaiting);
        let _attempt = permits.try_acquire().unwrap();
        permits.enter(0, Waker::noop()).unwrap_err();
        let start = Instant::now();
        for n in 0..100 {
            assert!(permits.sweep(start + QUARTER * n).is_empty());
        }
    }

    #[test]
    fn a_body_that_is_read_now_and_then_is_never_reclaimed() {
        let permits = Line::of(1);
        let slot = permits.try_acquire().unwrap();
        permits.enter(0, Waker::noop()).unwrap_err();
        let start = Instant::now();
        for n in 0..100 {
            if n % 4 == 0 {
                permits.gates.note(slot.slot, Reader::Read);
            }
            assert!(permits.sweep(start + QUARTER * n).is_empty());
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
        grant: Grant,
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
            let permits = Line::of(u32::from(limit));
            let mut now = Instant::now();
            let mut holders: Vec<Holder> = Vec::new();
            // Whether it was woken, that is, has been granted its permit.
            let mut waiters: BTreeMap<Place, Arc<Wakes>> = BTreeMap::new();
            for step in steps {
                let nth = |index: prop::sample::Index| waiters.keys().nth(index.index(waiters.len().max(1))).copied();
                let mut woken = Vec::new();
                let swept = matches!(step, Step::Sweep { .. });
                match step {
                    Step::TryAcquire => if let Some(grant) = permits.try_acquire() {
                        prop_assert!(waiting(&waiters).next().is_none(), "overtook the queue");
                        holders.push(Holder { grant, reader: None, noted: now, reclaimed: false });
                    }
                    Step::Enter { class } => {
                        let wakes = Arc::<Wakes>::default();
                        match permits.enter(class, &Waker::from(Arc::clone(&wakes))) {
                            Ok(grant) => {
                                prop_assert!(waiting(&waiters).next().is_none(), "overtook the queue");
                                holders.push(Holder { grant, reader: None, noted: now, reclaimed: false });
                            }
                            Err(place) => prop_assert!(waiters.insert(place, wakes).is_none()),
                        }
                    }
                    Step::Poll { waiter } => if let Some(place) = nth(waiter) {
                        let wakes = &waiters[&place];
                        let has_woken = wakes.0.load(Ordering::Relaxed) == 1;
                        match permits.poll(place, &Waker::from(Arc::clone(wakes))) {
                            Poll::Pending => prop_assert!(!has_woken, "woken for nothing"),
                            Poll::Ready(grant) => {
                                prop_assert!(has_woken, "granted and not woken");
                                waiters.remove(&place);
                                holders.push(Holder { grant, reader: None, noted: now, reclaimed: false });
                            }
                        }
                    }
                    Step::Leave { waiter } => if let Some(place) = nth(waiter) {
                        waiters.remove(&place);
                        woken.extend(permits.leave(place));
                    }
                    Step::Release { holder } => if !holders.is_empty() {
                        let holder = holders.remove(holder.index(holders.len()));
                        woken.extend(permits.release(holder.grant));
                    }
                    Step::Note { holder, reader } => if !holders.is_empty() {
                        let holder = holder.index(holders.len());
                        permits.gates.note(holders[holder].grant.slot, reader);
                        holders[holder].reader = Some(reader);
                        holders[holder].noted = now;
                    }
                    Step::Sweep { after_ms } => {
                        now += Duration::from_millis(after_ms);
                        woken.extend(permits.sweep(now));
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
                    let holds = permits.holds(holder.grant.slot);
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
                prop_assert!(permits.gates.lock().used <= limit, "slots are not used again");
            }
            for holder in holders {
                wake(permits.release(holder.grant));
            }
            for place in waiters.into_keys() {
                wake(permits.leave(place));
            }
            prop_assert_eq!(permits.counts(), Counts::default());
            prop_assert!(permits.gates.lock().queue.is_none());
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
