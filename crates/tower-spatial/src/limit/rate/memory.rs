use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hashbrown::{DefaultHashBuilder, HashTable};
use load_control::{Gcra, NoSlot, Quotas, Reservation};
use tokio::time::{Duration, Instant};

use super::{Ask, RateKey, RateStore, Turn};

/// The rates of one process, in memory: at most so many keys, by default 10 000.
///
/// A key is forgotten 10 minutes after all that went with it has ceased to matter, and sooner where another needs its
/// place: that changes nothing. Where every key still matters, further ones share one rate, so memory stays bounded and
/// no rate is exceeded.
pub struct MemoryStore {
    /// Two hashes of 64 bits for what may be secret: SipHash with random seeds.
    secrets: [RandomState; 2],
    /// The same for names of endpoints: faster, since nobody guesses them.
    names: [DefaultHashBuilder; 2],
    known: Mutex<Known>,
    max_keys: usize,
}

struct Known {
    // Boxed: a table has up to twice as many places as entries.
    table: HashTable<Box<Entry>>,
    overflow: Gcra,
    next_sweep: Option<Instant>,
    /// The bucket at which the search for one that can make room goes on.
    hand: usize,
}

struct Entry {
    key: RateKey,
    rate: Gcra,
}

/// A slot in a [`MemoryStore`].
#[derive(Debug)]
pub struct MemorySlot {
    /// `None`: in the one rate that all share for whom there is no place.
    key: Option<RateKey>,
    reservation: Reservation,
}

impl MemoryStore {
    /// For at most `max_keys`, at least 1.
    pub fn new(max_keys: usize) -> Self {
        Self {
            secrets: Default::default(),
            names: Default::default(),
            known: Mutex::new(Known {
                table: HashTable::new(),
                overflow: Gcra::default(),
                next_sweep: None,
                hand: 0,
            }),
            max_keys: max_keys.max(1),
        }
    }

    /// How many keys are known.
    pub fn keys(&self) -> usize {
        self.known().table.len()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing panics while it is held; a poisoned value would still be whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(MAX_KEYS)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore")
            .field("keys", &self.keys())
            .field("max_keys", &self.max_keys)
            .finish()
    }
}

impl RateStore for MemoryStore {
    type Slot = MemorySlot;

    #[inline]
    fn key(&self, endpoint: &str, secret: Option<&[u8]>) -> RateKey {
        let half = |half: usize| {
            let mut name = self.names[half].build_hasher();
            name.write(endpoint.as_bytes());
            let name = name.finish();
            match secret {
                None => name,
                Some(secret) => {
                    let mut hasher = self.secrets[half].build_hasher();
                    hasher.write_u64(name);
                    hasher.write(secret);
                    hasher.finish()
                }
            }
        };
        RateKey([half(0), half(1)])
    }

    #[inline]
    fn poll_reserve(
        &self,
        ask: &Ask<'_>,
        slot: &mut Option<MemorySlot>,
        _: &mut Context<'_>,
    ) -> Poll<Result<Turn, NoSlot>> {
        let (now, quotas) = (ask.now.into_std(), ask.quotas);
        let mut known = self.known();
        let (rate, key) = known.of(ask.key, ask.now, quotas, self.max_keys);
        let deadline = Some(ask.deadline.into_std());
        let mut reservation = rate.reserve(now, ask.weights, deadline, quotas)?;
        if ask.goes_at_once && reservation.at(quotas) <= now {
            match rate.take(now, reservation, quotas) {
                Ok(()) => return Poll::Ready(Ok(Turn::Now)),
                Err(later) => reservation = later,
            }
        }
        let at = Instant::from_std(reservation.at(quotas));
        *slot = Some(MemorySlot { key, reservation });
        Poll::Ready(Ok(Turn::At(at)))
    }

    fn poll_take(
        &self,
        ask: &Ask<'_>,
        slot: &mut Option<MemorySlot>,
        _: &mut Context<'_>,
    ) -> Poll<Turn> {
        let Some(MemorySlot { key, reservation }) = slot.take() else {
            return Poll::Pending;
        };
        let mut known = self.known();
        let rate = known.with_slot(key, ask.now, ask.quotas, self.max_keys);
        let taken = rate.take(ask.now.into_std(), reservation, ask.quotas);
        Poll::Ready(match taken {
            Ok(()) => Turn::Now,
            Err(reservation) => {
                let at = Instant::from_std(reservation.at(ask.quotas));
                *slot = Some(MemorySlot { key, reservation });
                Turn::At(at)
            }
        })
    }

    fn cancel(&self, slot: MemorySlot, quotas: &Quotas) {
        let mut known = self.known();
        let rate = match slot.key {
            None => &mut known.overflow,
            Some(key) => match known.find(key) {
                Some(rate) => rate,
                None => return,
            },
        };
        rate.cancel(slot.reservation, quotas);
    }

    fn hold(&self, key: RateKey, until: Instant, quotas: &Quotas) {
        let mut known = self.known();
        let now = Instant::now();
        let (rate, _) = known.of(key, now, quotas, self.max_keys);
        rate.hold(until.into_std(), quotas);
    }
}

impl Known {
    fn find(&mut self, key: RateKey) -> Option<&mut Gcra> {
        let found = self.table.find_mut(key.0[0], |entry| entry.key == key);
        found.map(|entry| &mut entry.rate)
    }

    /// The rate of a key, and where its slots are.
    #[inline]
    fn of(
        &mut self,
        key: RateKey,
        now: Instant,
        quotas: &Quotas,
        max_keys: usize,
    ) -> (&mut Gcra, Option<RateKey>) {
        if self
            .table
            .find(key.0[0], |entry| entry.key == key)
            .is_none()
            && !self.insert(key, now, quotas, max_keys)
        {
            return (&mut self.overflow, None);
        }
        match self.table.find_mut(key.0[0], |entry| entry.key == key) {
            Some(entry) => (&mut entry.rate, Some(key)),
            None => (&mut self.overflow, None),
        }
    }

    /// The rate in which a slot was given: it has not been forgotten, since somebody waits.
    fn with_slot(
        &mut self,
        key: Option<RateKey>,
        now: Instant,
        quotas: &Quotas,
        max_keys: usize,
    ) -> &mut Gcra {
        match key {
            None => &mut self.overflow,
            Some(key) => self.of(key, now, quotas, max_keys).0,
        }
    }

    #[cold]
    fn insert(&mut self, key: RateKey, now: Instant, quotas: &Quotas, max_keys: usize) -> bool {
        if self.next_sweep.is_some_and(|next| next <= now)
            && let Some(since) = now.checked_sub(IDLE_TIMEOUT)
        {
            self.table
                .retain(|entry| !entry.rate.is_idle(since.into_std(), quotas));
            self.table.shrink_to_fit(|entry| entry.key.0[0]);
        }
        if self.next_sweep.is_none_or(|next| next <= now) {
            self.next_sweep = now.checked_add(IDLE_TIMEOUT / 2);
        }
        if self.table.len() >= max_keys && !self.make_room(now, quotas) {
            return false;
        }
        let rate = Gcra::default();
        let entry = Box::new(Entry { key, rate });
        self.table
            .insert_unique(key.0[0], entry, |entry| entry.key.0[0]);
        true
    }

    /// Forgets one key of which nothing matters any more. Looks at a bounded number of them.
    fn make_room(&mut self, now: Instant, quotas: &Quotas) -> bool {
        let buckets = self.table.num_buckets();
        for _ in 0..buckets.min(LOOKED_AT) {
            self.hand = (self.hand + 1) % buckets;
            if let Some(entry) = self.table.get_bucket(self.hand)
                && entry.rate.is_idle(now.into_std(), quotas)
                && let Ok(entry) = self.table.get_bucket_entry(self.hand)
            {
                entry.remove();
                return true;
            }
        }
        false
    }
}

const MAX_KEYS: usize = 10_000;
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
const LOOKED_AT: usize = 128;

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use load_control::Quota;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn quotas() -> Quotas {
        Quotas::new(&[Quota::new(1, SECOND).unwrap()], Instant::now().into_std()).unwrap()
    }

    fn hashed(key: u128) -> RateKey {
        RateKey::new(key.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    }

    fn go(store: &MemoryStore, key: u128, quotas: &Quotas, now: Instant) -> Turn {
        let mut slot = None;
        let ask = Ask {
            key: hashed(key),
            quotas,
            weights: &[],
            now,
            deadline: now + 100 * SECOND,
            goes_at_once: true,
        };
        let cx = &mut Context::from_waker(Waker::noop());
        let Poll::Ready(turn) = store.poll_reserve(&ask, &mut slot, cx) else {
            panic!("memory is never pending")
        };
        if let Some(slot) = slot {
            store.cancel(slot, quotas);
        }
        turn.unwrap()
    }

    #[test]
    fn a_flood_of_keys_does_not_grow_memory_and_none_goes_too_often() {
        let (store, quotas, now) = (MemoryStore::default(), quotas(), Instant::now());
        let mut gone = 0;
        for key in 0..50_000 {
            if go(&store, key, &quotas, now) == Turn::Now {
                gone += 1;
            }
        }
        assert_eq!(store.keys(), MAX_KEYS);
        assert_eq!(gone, MAX_KEYS + 1, "one more by the rate of all others");
        assert_ne!(go(&store, 7, &quotas, now), Turn::Now);
        // A second later none of it matters, and there is room.
        for key in 0..50_000 {
            let later = now + (1 + key as u32 / 5_000) * SECOND;
            assert_eq!(go(&store, key + 1_000_000, &quotas, later), Turn::Now);
        }
        assert_eq!(store.keys(), MAX_KEYS);
    }

    #[test]
    fn a_million_keys_are_bounded_by_what_is_kept_of_them() {
        let (store, quotas, now) = (MemoryStore::default(), quotas(), Instant::now());
        for key in 0..1_000_000 {
            // A thousand a second: by then room for one can be made.
            go(
                &store,
                key,
                &quotas,
                now + Duration::from_millis(key as u64),
            );
        }
        let known = store.known();
        assert!(known.table.len() <= MAX_KEYS, "{}", known.table.len());
        // A table doubles once where its places are worn by what was forgotten, and then uses them again.
        let places = known.table.capacity();
        assert!(places <= 3 * MAX_KEYS, "{places}");
    }

    #[test]
    fn idle_keys_are_forgotten_and_others_are_not() {
        let (store, quotas, now) = (MemoryStore::default(), quotas(), Instant::now());
        (0..100).for_each(|key| _ = go(&store, key, &quotas, now));
        let held = now + 10_000 * SECOND;
        store.hold(hashed(0), held, &quotas);
        go(&store, 1_000, &quotas, now + 300 * SECOND);
        let later = now + 700 * SECOND;
        go(&store, 1_001, &quotas, later);
        assert_eq!(store.keys(), 3);
        let at = match go(&store, 0, &quotas, held - 50 * SECOND) {
            Turn::At(at) => at,
            Turn::Now => panic!("it is held"),
        };
        assert_eq!(at, held);
    }

    #[test]
    fn a_key_is_one_of_its_endpoint_and_told_by_nothing() {
        let store = MemoryStore::default();
        let key = |endpoint, secret: Option<&str>| store.key(endpoint, secret.map(str::as_bytes));
        assert_eq!(key("a", Some("s")), key("a", Some("s")));
        let all = [
            key("a", Some("s")),
            key("b", Some("s")),
            key("a", Some("t")),
            key("a", None),
        ];
        for (n, one) in all.iter().enumerate() {
            assert!(!all[n + 1..].contains(one));
        }
        let other = MemoryStore::default();
        assert_ne!(
            other.key("a", Some(b"s")),
            key("a", Some("s")),
            "it is keyed"
        );
        assert_eq!(format!("{:?}", all[0]), "RateKey(..)");
    }
}
