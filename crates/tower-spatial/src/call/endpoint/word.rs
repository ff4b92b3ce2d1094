//! The word of a permit's slot: who holds it, and what the reader of its body does.
//!
//! It is a generation and a state; a free slot's the next free one and [`FREE`]. Whoever holds the slot writes into it
//! without a lock ([`note`]), all else happens under the lock of the queue. So what may meet is one note and one
//! [`sweep`], or a note that comes too late: of a body whose slot was reclaimed, and that has a successor by now.
//!
//! Nothing else is published by a word, so its accesses are in no order with others.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What a body's reader does. The numbers are the low bits of a slot's word; the last two grow with their age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Reader {
    Awaiting = 2,
    Read = 3,
    Handed = 8,
}

/// Where a word lies. A test puts one there whose accesses are explored in every order.
pub(super) trait Cell {
    fn load(&self) -> u32;
    fn store(&self, word: u32);
    /// `Err` with what it was, where that was not `before`; also at times without a reason.
    fn exchange(&self, before: u32, word: u32) -> Result<u32, u32>;
}

impl Cell for AtomicU32 {
    #[inline]
    fn load(&self) -> u32 {
        self.load(Relaxed)
    }

    #[inline]
    fn store(&self, word: u32) {
        self.store(word, Relaxed);
    }

    #[inline]
    fn exchange(&self, before: u32, word: u32) -> Result<u32, u32> {
        self.compare_exchange_weak(before, word, Relaxed, Relaxed)
    }
}

/// The slot is taken. Under the lock.
#[inline]
pub(super) fn take(cell: &impl Cell, generation: u32) {
    cell.store(generation << STATE_BITS | ATTEMPT);
}

/// The slot is free, and `next` the one after it in the list. Under the lock.
#[inline]
pub(super) fn put_back(cell: &impl Cell, next: u16) {
    cell.store(u32::from(next) << STATE_BITS | FREE);
}

/// The one after a free slot in the list. Under the lock.
#[inline]
pub(super) fn next(cell: &impl Cell) -> u16 {
    (cell.load() >> STATE_BITS) as u16
}

/// Whether it is this generation's still.
#[inline]
pub(super) fn is_held(cell: &impl Cell, generation: u32) -> bool {
    holds(cell.load(), generation)
}

/// What the reader does, where the slot is this generation's still. Free where nothing has changed.
#[inline]
pub(super) fn note(cell: &impl Cell, generation: u32, reader: Reader) {
    let now = generation << STATE_BITS | reader as u32;
    let mut before = cell.load();
    while before != now && holds(before, generation) {
        // Against a sweep, that ages or reclaims it.
        match cell.exchange(before, now) {
            Ok(_) => return,
            Err(other) => before = other,
        }
    }
}

/// Ages a body, or where it is old and `may_reclaim`, takes its slot: then true, and the slot is to be put back. Under
/// the lock.
#[inline]
pub(super) fn sweep(cell: &impl Cell, may_reclaim: impl FnOnce() -> bool) -> bool {
    let before = cell.load();
    match age(before) {
        None => false,
        Some(age) if age < OLD => {
            // A body that was polled in between is young: nothing to do.
            let _ = cell.exchange(before, before + 1);
            false
        }
        Some(_) => may_reclaim() && cell.exchange(before, FREE).is_ok(),
    }
}

/// Whether its body waits for its reader. At age 1 the poll may have been a moment ago, just before a sweep.
pub(super) fn is_unread(cell: &impl Cell) -> bool {
    let word = cell.load();
    age(word).is_some_and(|age| age > 1 || word & STATE_MASK >= Reader::Handed as u32)
}

fn holds(word: u32, generation: u32) -> bool {
    word >> STATE_BITS == generation && word & STATE_MASK != FREE
}

fn age(word: u32) -> Option<u32> {
    match word & STATE_MASK {
        state @ 3..=7 => Some(state - Reader::Read as u32),
        state @ 8..=12 => Some(state - Reader::Handed as u32),
        _ => None,
    }
}

const STATE_BITS: u32 = 4;
const STATE_MASK: u32 = (1 << STATE_BITS) - 1;
pub(super) const FREE: u32 = 0;
/// Generations come round after so many.
pub(super) const GENERATIONS: u32 = u32::MAX >> STATE_BITS;
/// On its way: no head yet, so nobody can be blamed for not reading.
const ATTEMPT: u32 = 1;
/// The age, in sweeps, at which the next one may reclaim. The first of them only marks.
pub(super) const OLD: u32 = 4;

#[cfg(test)]
mod tests {
    use shuttle::sync::atomic::{AtomicU32 as Explored, Ordering};
    use shuttle::sync::{Arc, Mutex};
    use shuttle::thread;

    use super::*;

    impl Cell for Explored {
        fn load(&self) -> u32 {
            self.load(Ordering::Relaxed)
        }

        fn store(&self, word: u32) {
            self.store(word, Ordering::Relaxed);
        }

        fn exchange(&self, before: u32, word: u32) -> Result<u32, u32> {
            // Shuttle's weak exchange never fails without a reason.
            self.compare_exchange(before, word, Ordering::Relaxed, Ordering::Relaxed)
        }
    }

    const READERS: [Reader; 3] = [Reader::Awaiting, Reader::Read, Reader::Handed];

    /// One slot, and what its queue keeps under the lock.
    struct Slot {
        word: Explored,
        queue: Mutex<Queue>,
    }

    #[derive(Default)]
    struct Queue {
        generation: u32,
        holder: Option<u32>,
        reclaimed: Vec<u32>,
        put_back: u32,
    }

    impl Slot {
        fn take(&self) -> Option<u32> {
            let mut queue = self.queue.lock().unwrap();
            if queue.holder.is_some() {
                return None;
            }
            queue.generation += 1;
            take(&self.word, queue.generation);
            queue.holder = Some(queue.generation);
            queue.holder
        }

        /// Reclaims it where that may be.
        fn sweep(&self) {
            let mut queue = self.queue.lock().unwrap();
            if sweep(&self.word, || true) {
                let holder = queue.holder.take().expect("nobody's slot was reclaimed");
                queue.reclaimed.push(holder);
                self.put_back(&mut queue);
            }
        }

        fn release(&self, generation: u32) {
            let mut queue = self.queue.lock().unwrap();
            let is_held = is_held(&self.word, generation);
            assert_eq!(is_held, queue.holder == Some(generation));
            assert_ne!(is_held, queue.reclaimed.contains(&generation));
            if is_held {
                queue.holder = None;
                self.put_back(&mut queue);
            }
        }

        fn put_back(&self, queue: &mut Queue) {
            queue.put_back += 1;
            put_back(&self.word, 7);
            assert_eq!(next(&self.word), 7);
        }
    }

    /// Two bodies after each other at one slot, and who sweeps: nobody takes another's slot, or what it says.
    fn two_bodies_and_sweeps() {
        let slot = Arc::new(Slot {
            word: Explored::new(FREE),
            queue: Mutex::default(),
        });
        let first = slot.take().expect("it is free");
        let body = thread::spawn({
            let slot = Arc::clone(&slot);
            move || {
                for reader in [Reader::Handed, Reader::Read, Reader::Awaiting, Reader::Read] {
                    note(&slot.word, first, reader);
                }
                slot.release(first);
            }
        });
        let successor = thread::spawn({
            let slot = Arc::clone(&slot);
            move || {
                let Some(second) = slot.take() else {
                    return false;
                };
                // It waits for its head meanwhile: no note of the first may say otherwise.
                let attempt = second << STATE_BITS | ATTEMPT;
                for _ in 0..4 {
                    assert_eq!(slot.word.load(Ordering::Relaxed), attempt);
                }
                note(&slot.word, second, Reader::Awaiting);
                assert!(
                    is_held(&slot.word, second),
                    "an awaiting body was reclaimed"
                );
                slot.release(second);
                true
            }
        });
        for _ in 0..=2 * OLD {
            slot.sweep();
        }
        body.join().unwrap();
        let took_place = successor.join().unwrap();
        let queue = slot.queue.lock().unwrap();
        assert_eq!(queue.holder, None);
        assert_eq!(queue.put_back, 1 + u32::from(took_place));
        assert!(queue.reclaimed.len() <= 1);
    }

    #[test]
    fn no_order_of_notes_sweeps_and_releases_gives_a_slot_to_two() {
        shuttle::check_random(two_bodies_and_sweeps, 20_000);
        shuttle::check_pct(two_bodies_and_sweeps, 10_000, 4);
    }

    /// The word as one note sees it.
    struct Noting<'a> {
        word: &'a Explored,
        took_effect: std::cell::Cell<bool>,
    }

    impl Cell for Noting<'_> {
        fn load(&self) -> u32 {
            Cell::load(self.word)
        }

        fn store(&self, word: u32) {
            self.took_effect.set(true);
            Cell::store(self.word, word);
        }

        fn exchange(&self, before: u32, word: u32) -> Result<u32, u32> {
            let exchanged = Cell::exchange(self.word, before, word);
            self.took_effect.set(exchanged.is_ok());
            exchanged
        }
    }

    /// Whatever order: a body that was polled between two sweeps has its whole patience again.
    #[test]
    fn a_note_beside_a_sweep_makes_a_body_young_or_comes_after_it_is_gone() {
        for age in 0..=OLD {
            for reader in READERS {
                let run = move || {
                    let word = Arc::new(Explored::new(FREE));
                    take(&*word, 1);
                    note(&*word, 1, Reader::Handed);
                    (0..age).for_each(|_| assert!(!sweep(&*word, || true)));
                    let noted = thread::spawn({
                        let word = Arc::clone(&word);
                        move || {
                            let noting = Noting {
                                word: &word,
                                took_effect: false.into(),
                            };
                            note(&noting, 1, reader);
                            noting.took_effect.get()
                        }
                    });
                    let reclaimed = sweep(&*word, || true);
                    let took_effect = noted.join().unwrap();
                    if reclaimed {
                        assert_eq!(age, OLD);
                        assert!(!took_effect, "a body that was polled was reclaimed");
                        assert!(!is_held(&*word, 1), "a late note took it again");
                        return;
                    }
                    assert!(is_held(&*word, 1));
                    let left = (0..=OLD).take_while(|_| !sweep(&*word, || true)).count();
                    let least = match reader {
                        Reader::Awaiting => OLD + 1,
                        // One sweep may have come after the note.
                        _ => OLD - 1,
                    };
                    assert!(left >= least as usize, "{age} {reader:?}: {left}");
                };
                // Every order there is.
                shuttle::check_dfs(run, None);
            }
        }
    }

    #[test]
    fn each_state_goes_to_each_other_as_told() {
        let states: Vec<u32> = (0..=STATE_MASK).collect();
        for state in states {
            let word = 5 << STATE_BITS | state;
            for reader in READERS {
                let cell = AtomicU32::new(word);
                note(&cell, 5, reader);
                let expected = match state {
                    FREE => word,
                    _ => 5 << STATE_BITS | reader as u32,
                };
                assert_eq!(Cell::load(&cell), expected, "{state} {reader:?}");
                let others = AtomicU32::new(word);
                note(&others, 4, reader);
                assert_eq!(Cell::load(&others), word, "of another's");
            }
            for may_reclaim in [true, false] {
                let cell = AtomicU32::new(word);
                let reclaimed = sweep(&cell, || may_reclaim);
                let is_old = matches!(state, 7 | 12);
                assert_eq!(reclaimed, is_old && may_reclaim, "{state}");
                let expected = match state {
                    _ if reclaimed => FREE,
                    3..=6 | 8..=11 => word + 1,
                    _ => word,
                };
                assert_eq!(Cell::load(&cell), expected, "{state}");
            }
        }
    }
}
