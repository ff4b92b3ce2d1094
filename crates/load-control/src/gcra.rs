use std::fmt;
use std::time::{Duration, Instant};

/// A published rate: at most so many, calls or weighted units, in every window of a period.
///
/// In every window, wherever it begins: a quota with a burst spaces what comes after it a little wider than
/// `period / limit`, so that burst and flow together stay within the limit.
///
/// ```
/// use std::time::Duration;
/// use load_control::Quota;
///
/// let day = Duration::from_secs(86_400);
/// let evenly = Quota::new(2_500, day)?;
/// assert_eq!(evenly.spacing(), Duration::from_micros(34_560_000));
/// let half_at_once = evenly.with_burst(1_250)?;
/// assert!(half_at_once.spacing() < Duration::from_secs(70));
/// # Ok::<(), load_control::InvalidQuota>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    limit: u32,
    burst: u32,
    /// Nanoseconds.
    period: u64,
    spacing: u64,
}

impl Quota {
    /// At most `limit` in every `period`, evenly spaced.
    ///
    /// # Errors
    /// [`InvalidQuota`] where the limit is zero, or the period is zero or longer than a century.
    pub fn new(limit: u32, period: Duration) -> Result<Self, InvalidQuota> {
        let Ok(nanoseconds @ 1..=CENTURY) = u64::try_from(period.as_nanos()) else {
            return Err(InvalidQuota::Period(period));
        };
        if limit == 0 {
            return Err(InvalidQuota::ZeroLimit);
        }
        Ok(Self {
            limit,
            burst: 1,
            period: nanoseconds,
            spacing: nanoseconds.div_ceil(u64::from(limit)),
        })
    }

    /// The same where `burst` may go at once after a pause.
    ///
    /// # Errors
    /// [`InvalidQuota::Burst`] where it is zero or above the limit.
    pub fn with_burst(self, burst: u32) -> Result<Self, InvalidQuota> {
        if burst == 0 || burst > self.limit {
            let limit = self.limit;
            return Err(InvalidQuota::Burst { burst, limit });
        }
        let spacing = self.period.div_ceil(u64::from(self.limit - burst + 1));
        Ok(Self {
            burst,
            spacing,
            ..self
        })
    }

    /// How far apart units of weight 1 go once the burst is used up.
    pub fn spacing(&self) -> Duration {
        Duration::from_nanos(self.spacing)
    }

    /// How many may go in every period.
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// How many may go at once after a pause.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// The period.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// When something of this weight may go, where what went before has been paid for at `arrival`.
    fn earliest(&self, arrival: u64, weight: u32) -> u64 {
        match weight.checked_sub(self.burst) {
            Some(over) => arrival.saturating_add(self.cost(over)),
            None => arrival.saturating_sub(self.cost(self.burst - weight)),
        }
    }

    fn cost(&self, weight: u32) -> u64 {
        self.spacing.saturating_mul(u64::from(weight))
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:?}", self.limit, self.period())
    }
}

/// Why a [`Quota`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidQuota {
    /// Nothing would ever go.
    ZeroLimit,
    /// Zero, or longer than a century.
    Period(Duration),
    /// Zero, or above the limit.
    Burst {
        /// The burst that was given.
        burst: u32,
        /// The limit of the quota.
        limit: u32,
    },
    /// More than [`Quotas::MOST`] of them, or none.
    Count(usize),
}

impl fmt::Display for InvalidQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroLimit => write!(f, "limit is zero, expected at least 1"),
            Self::Period(period) => {
                write!(
                    f,
                    "period is {period:?}, expected one above zero and up to a century"
                )
            }
            Self::Burst { burst, limit } => {
                write!(
                    f,
                    "burst is {burst}, expected 1 to the limit, which is {limit}"
                )
            }
            Self::Count(count) => {
                write!(f, "{count} quotas, expected 1 to {}", Quotas::MOST)
            }
        }
    }
}

impl std::error::Error for InvalidQuota {}

/// The quotas that hold for a call at once, such as one a second and 2 500 a day.
#[derive(Clone, Debug)]
pub struct Quotas {
    quotas: Box<[Quota]>,
    /// What times count from: a key's state then takes half the memory.
    epoch: Instant,
}

impl Quotas {
    /// How many may hold at once.
    pub const MOST: usize = 3;

    /// All of these. `now`: any instant before the first call.
    ///
    /// # Errors
    /// [`InvalidQuota::Count`] where there are none or too many.
    pub fn new(quotas: &[Quota], now: Instant) -> Result<Self, InvalidQuota> {
        if quotas.is_empty() || quotas.len() > Self::MOST {
            return Err(InvalidQuota::Count(quotas.len()));
        }
        Ok(Self {
            quotas: quotas.into(),
            epoch: now,
        })
    }

    /// Each of them.
    pub fn as_slice(&self) -> &[Quota] {
        &self.quotas
    }

    fn nanoseconds(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.epoch);
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    fn instant(&self, nanoseconds: u64) -> Instant {
        let since = Duration::from_nanos(nanoseconds.min(CENTURY));
        self.epoch.checked_add(since).unwrap_or(self.epoch)
    }
}

/// The generic cell rate algorithm over the calls with one key: every call reserves a slot and waits for exactly that one.
///
/// First come, first served, and no polling: the slot says when. When the time has come the call
/// [takes](Self::take) its slot, which is where the rate is enforced: against when calls really went, not against when
/// they were to go. So what was saved up behind a stall (a suspended laptop, a blocked thread) does not leave in one
/// burst; whoever has missed its slot gets a new one, ahead of those who came later.
///
/// With a burst of 1 a call that goes a millisecond late delays the next by as much. With more, the burst absorbs it.
///
/// ```
/// use std::time::Duration;
/// use load_control::{Gcra, Quota, Quotas};
///
/// # #[allow(clippy::disallowed_methods)]
/// let now = std::time::Instant::now();
/// let second = Duration::from_secs(1);
/// let quotas = Quotas::new(&[Quota::new(1, second)?], now)?;
/// let mut key = Gcra::default();
/// let first = key.reserve(now, &[1], None, &quotas).unwrap();
/// let second_slot = key.reserve(now, &[1], None, &quotas).unwrap();
/// assert!(key.take(now, first, &quotas).is_ok());
/// assert_eq!(second_slot.at(&quotas), now + second);
/// let early = key.take(now, second_slot, &quotas).unwrap_err();
/// assert!(key.take(now + second, early, &quotas).is_ok());
/// # Ok::<(), load_control::InvalidQuota>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Gcra {
    clocks: [Clock; Quotas::MOST],
    /// The server asked that nothing goes before.
    held_until: u64,
}

/// Theoretical arrival times of one quota, in nanoseconds: until when is paid for.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// What went.
    gone: u64,
    /// What went, and what missed its slot and was given a new one.
    missed: u64,
    /// What went or has a slot.
    planned: u64,
    /// Weight of what has a slot.
    waiting: u32,
}

/// A slot. It ends in [`Gcra::take`] or [`Gcra::cancel`].
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a slot is taken or cancelled"]
pub struct Reservation {
    at: u64,
    weights: [u32; Quotas::MOST],
    has_missed: bool,
}

impl Reservation {
    /// When it is time.
    pub fn at(&self, quotas: &Quotas) -> Instant {
        quotas.instant(self.at)
    }
}

/// Why there is no slot. Nothing was consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSlot {
    /// The first one lies past the deadline.
    TooLate {
        /// When it would be.
        earliest: Instant,
    },
    /// A weight is above its quota's limit: it would never go.
    TooHeavy {
        /// The weight.
        weight: u32,
        /// The limit.
        limit: u32,
    },
}

impl Gcra {
    /// Reserves the next slot for a call. `weights`: what it costs of each quota; 1 where there are fewer. `deadline`: where
    /// the slot would lie past it, nothing is reserved.
    ///
    /// # Errors
    /// [`NoSlot`] where there is none in time.
    pub fn reserve(
        &mut self,
        now: Instant,
        weights: &[u32],
        deadline: Option<Instant>,
        quotas: &Quotas,
    ) -> Result<Reservation, NoSlot> {
        let now = quotas.nanoseconds(now).max(self.held_until);
        let mut slot = now;
        let mut planned = [0; Quotas::MOST];
        let mut costs = [0; Quotas::MOST];
        for (index, quota) in quotas.quotas.iter().enumerate() {
            let weight = weights.get(index).copied().unwrap_or(1);
            if weight > quota.limit {
                let limit = quota.limit;
                return Err(NoSlot::TooHeavy { weight, limit });
            }
            let clock = &self.clocks[index];
            // Who waits should have gone by then; who is late has not, and goes first.
            let behind_all = match clock.waiting {
                0 => clock.gone,
                waiting => clock.gone.max(now).saturating_add(quota.cost(waiting)),
            };
            planned[index] = clock.planned.max(behind_all);
            costs[index] = weight;
            if weight > 0 {
                slot = slot.max(quota.earliest(planned[index], weight));
            }
        }
        if deadline.is_some_and(|deadline| slot > quotas.nanoseconds(deadline)) {
            let earliest = quotas.instant(slot);
            return Err(NoSlot::TooLate { earliest });
        }
        for (index, quota) in quotas
            .quotas
            .iter()
            .enumerate()
            .filter(|(i, _)| costs[*i] > 0)
        {
            let clock = &mut self.clocks[index];
            let cost = quota.cost(costs[index]);
            clock.planned = planned[index].max(slot).saturating_add(cost);
            clock.waiting = clock.waiting.saturating_add(costs[index]);
        }
        Ok(Reservation {
            at: slot,
            weights: costs,
            has_missed: false,
        })
    }

    /// The call goes now.
    ///
    /// # Errors
    /// It may not: the slot to wait for instead. It is the same one where it was too early, and a later one where
    /// calls behind it have gone meanwhile, the server asked for peace, or a stall has made several late.
    pub fn take(
        &mut self,
        now: Instant,
        reservation: Reservation,
        quotas: &Quotas,
    ) -> Result<(), Reservation> {
        let now = quotas.nanoseconds(now);
        let mut earliest = self.held_until;
        for (index, quota, weight) in reservation.costs(quotas) {
            let clock = &self.clocks[index];
            let gone = if reservation.has_missed {
                clock.gone
            } else {
                clock.gone.max(clock.missed)
            };
            earliest = earliest.max(quota.earliest(gone, weight));
        }
        if earliest.max(reservation.at) <= now {
            for (index, quota, weight) in reservation.costs(quotas) {
                let clock = &mut self.clocks[index];
                clock.gone = clock.gone.max(now).saturating_add(quota.cost(weight));
                clock.planned = clock.planned.max(clock.gone);
                clock.waiting = clock.waiting.saturating_sub(weight);
            }
            return Ok(());
        }
        if earliest <= reservation.at {
            return Err(reservation);
        }
        let at = earliest.max(now);
        if !reservation.has_missed {
            for (index, quota, weight) in reservation.costs(quotas) {
                let clock = &mut self.clocks[index];
                clock.missed = clock
                    .missed
                    .max(clock.gone)
                    .max(at)
                    .saturating_add(quota.cost(weight));
                clock.planned = clock.planned.max(clock.missed);
            }
        }
        Err(Reservation {
            at,
            has_missed: true,
            ..reservation
        })
    }

    /// The call goes no more. What comes later gets an earlier slot; those who wait keep theirs.
    pub fn cancel(&mut self, reservation: Reservation, quotas: &Quotas) {
        for (index, quota, weight) in reservation.costs(quotas) {
            let clock = &mut self.clocks[index];
            let cost = quota.cost(weight);
            clock.waiting = clock.waiting.saturating_sub(weight);
            clock.planned = clock.planned.saturating_sub(cost).max(clock.gone);
            if reservation.has_missed {
                clock.missed = clock.missed.saturating_sub(cost);
            }
        }
    }

    /// The server asks that nothing goes before `until`: a 429 with `Retry-After`, or nothing remaining until a reset.
    /// It is only ever extended.
    pub fn hold(&mut self, until: Instant, quotas: &Quotas) {
        self.held_until = self.held_until.max(quotas.nanoseconds(until));
    }

    /// Whether nothing waits and all that went is forgotten: dropping it then changes nothing.
    pub fn is_idle(&self, now: Instant, quotas: &Quotas) -> bool {
        let now = quotas.nanoseconds(now);
        let is_idle = |clock: &Clock| clock.waiting == 0 && clock.gone <= now;
        self.held_until <= now && self.clocks.iter().all(is_idle)
    }
}

impl Reservation {
    fn costs<'a>(
        &self,
        quotas: &'a Quotas,
    ) -> impl Iterator<Item = (usize, &'a Quota, u32)> + use<'a> {
        let weights = self.weights;
        let all = quotas.quotas.iter().enumerate();
        all.map(move |(index, quota)| (index, quota, weights[index]))
            .filter(|(_, _, weight)| *weight > 0)
    }
}

/// Nanoseconds.
const CENTURY: u64 = 100 * 365 * 86_400 * 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::num::NonZeroU32;

    use governor::clock::{Clock as _, FakeRelativeClock, Reference};
    use governor::{NotUntil, RateLimiter};
    use proptest::prelude::*;

    use super::*;
    use crate::origin;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    fn quotas(all: &[(u32, Duration, u32)]) -> Quotas {
        let quota = |&(limit, period, burst)| Quota::new(limit, period)?.with_burst(burst);
        let all: Result<Vec<_>, _> = all.iter().map(quota).collect();
        Quotas::new(&all.unwrap(), origin()).unwrap()
    }

    fn one_a_second() -> Quotas {
        quotas(&[(1, SECOND, 1)])
    }

    /// Callers who wake when their slot comes, each by so much late, until all have gone.
    struct Callers {
        key: Gcra,
        quotas: Quotas,
        now: Instant,
        /// In order of arrival, with a name.
        waiting: VecDeque<(usize, Reservation)>,
        /// Who went when, and what it cost.
        gone: Vec<(usize, Instant, [u32; Quotas::MOST])>,
    }

    impl Callers {
        fn new(quotas: Quotas) -> Self {
            Self {
                key: Gcra::default(),
                now: quotas.epoch,
                quotas,
                waiting: VecDeque::new(),
                gone: Vec::new(),
            }
        }

        fn come(&mut self, name: usize, weights: &[u32]) -> Instant {
            let reservation = self
                .key
                .reserve(self.now, weights, None, &self.quotas)
                .unwrap();
            let at = reservation.at(&self.quotas);
            self.waiting.push_back((name, reservation));
            at
        }

        /// Everybody whose time has come tries, the latest first where `reversed`.
        fn wake(&mut self, reversed: bool) {
            let mut due: Vec<_> = std::mem::take(&mut self.waiting).into();
            if reversed {
                due.reverse();
            }
            for (name, reservation) in due {
                if reservation.at(&self.quotas) > self.now {
                    self.waiting.push_back((name, reservation));
                    continue;
                }
                let weights = reservation.weights;
                match self.key.take(self.now, reservation, &self.quotas) {
                    Ok(()) => self.gone.push((name, self.now, weights)),
                    Err(later) => {
                        assert!(later.at(&self.quotas) > self.now, "no polling");
                        self.waiting.push_back((name, later));
                    }
                }
            }
            let slot = |waiting: &(usize, Reservation)| waiting.1.at;
            self.waiting.make_contiguous().sort_by_key(slot);
        }

        /// Until nobody waits.
        fn run(&mut self) {
            for _ in 0..100_000 {
                let next = self.waiting.iter().map(|(_, r)| r.at(&self.quotas)).min();
                let Some(next) = next else { return };
                self.now = self.now.max(next);
                self.wake(false);
            }
            panic!("they wait for ever");
        }

        fn names(&self) -> Vec<usize> {
            self.gone.iter().map(|(name, ..)| *name).collect()
        }

        /// Law 11: in no window is there more than the limit.
        fn check(&self) {
            for (index, quota) in self.quotas.quotas.iter().enumerate() {
                for (first, (_, began, _)) in self.gone.iter().enumerate() {
                    let within = self.gone[first..].iter();
                    let within = within
                        .take_while(|(_, at, _)| *at < *began + Duration::from_nanos(quota.period));
                    let weight: u32 = within.map(|(.., weights)| weights[index]).sum();
                    assert!(weight <= quota.limit, "{weight} of {quota:?}");
                }
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Come(u32, u32),
        Cancel(usize),
        Pass(u64),
        Wake(bool),
        Hold(u64),
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0u32..4, 1u32..4).prop_map(|(a, b)| Step::Come(a, b)),
            2 => (0usize..50).prop_map(Step::Cancel),
            6 => (0u64..3_000).prop_map(Step::Pass),
            1 => (0u64..10_000_000).prop_map(Step::Pass),
            6 => any::<bool>().prop_map(Step::Wake),
            1 => (0u64..100_000).prop_map(Step::Hold),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]
        #[test]
        fn the_rate_holds_in_every_window_whatever_happens(
            limits in prop::collection::vec((3u32..20, 1u64..20_000, 1u32..20), 1..4), steps in prop::collection::vec(steps(), 1..200),
        ) {
            let limits: Vec<_> = limits.into_iter().map(|(limit, ms, burst)| (limit, ms as u32 * MS, burst.min(limit))).collect();
            let mut callers = Callers::new(quotas(&limits));
            for (name, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Come(a, b) => { callers.come(name, &[1, a, b]); }
                    Step::Cancel(index) if !callers.waiting.is_empty() => {
                        let index = index % callers.waiting.len();
                        let (_, reservation) = callers.waiting.remove(index).unwrap();
                        callers.key.cancel(reservation, &callers.quotas);
                    }
                    Step::Cancel(_) => {}
                    Step::Pass(ms) => callers.now += Duration::from_millis(ms),
                    Step::Wake(reversed) => callers.wake(reversed),
                    Step::Hold(ms) => callers.key.hold(callers.now + Duration::from_millis(ms), &callers.quotas),
                }
            }
            callers.run();
            callers.check();
            prop_assert!(callers.key.clocks.iter().all(|clock| clock.waiting == 0));
            let forgotten = callers.now + Duration::from_secs(1_000_000);
            prop_assert!(callers.key.is_idle(forgotten, &callers.quotas));
        }

        #[test]
        fn governor_decides_the_same(
            spacing in 1u64..10_000, burst in 1u32..20, calls in prop::collection::vec((0u64..20_000, 1u32..20), 1..100),
        ) {
            let spacing = Duration::from_millis(spacing);
            let ours = Quota { limit: u32::MAX, burst, period: CENTURY, spacing: spacing.as_nanos() as u64 };
            let quotas = Quotas::new(&[ours], origin()).unwrap();
            let mut key = Gcra::default();
            let clock = FakeRelativeClock::default();
            let theirs = governor::Quota::with_period(spacing).unwrap().allow_burst(NonZeroU32::new(burst).unwrap());
            let governor = RateLimiter::direct_with_clock(theirs, clock.clone());
            let start = clock.now();
            for (elapsed, weight) in calls {
                clock.advance(Duration::from_millis(elapsed));
                let since: Duration = clock.now().duration_since(start).into();
                let now = origin() + since;
                let weight = weight.min(burst);
                let decided = key.reserve(now, &[weight], Some(now), &quotas).map(|r| key.take(now, r, &quotas).unwrap());
                let theirs = governor.check_n(NonZeroU32::new(weight).unwrap()).unwrap();
                let theirs = theirs.map_err(|until: NotUntil<_>| {
                    let since: Duration = until.earliest_possible().duration_since(start).into();
                    NoSlot::TooLate { earliest: origin() + since }
                });
                prop_assert_eq!(decided, theirs);
            }
        }
    }

    #[test]
    fn calls_go_in_the_order_in_which_they_came() {
        let mut callers = Callers::new(one_a_second());
        for name in 0..10 {
            let at = callers.come(name, &[1]);
            assert_eq!(at, callers.now + name as u32 * SECOND);
        }
        callers.run();
        assert_eq!(callers.names(), (0..10).collect::<Vec<_>>());
        assert_eq!(callers.now, callers.quotas.epoch + 9 * SECOND);
    }

    #[test]
    fn after_a_stall_no_burst_leaves_and_the_order_stays() {
        for latecomer_before in [false, true] {
            let mut callers = Callers::new(one_a_second());
            (0..100).for_each(|name| {
                callers.come(name, &[1]);
            });
            callers.now += 60 * SECOND;
            if latecomer_before {
                callers.come(100, &[1]);
            }
            callers.wake(false);
            assert_eq!(callers.gone.len(), 1);
            if !latecomer_before {
                callers.come(100, &[1]);
            }
            callers.run();
            callers.check();
            assert_eq!(callers.names(), (0..=100).collect::<Vec<_>>());
            let all = callers.quotas.epoch + 160 * SECOND;
            assert_eq!(callers.now, all, "and no slot stays empty");
        }
    }

    #[test]
    fn who_comes_after_a_stall_does_not_overtake_who_is_late() {
        let mut callers = Callers::new(one_a_second());
        (0..10).for_each(|name| {
            callers.come(name, &[1]);
        });
        callers.now += 60 * SECOND;
        let at = callers.come(10, &[1]);
        assert_eq!(at, callers.now + 10 * SECOND);
        callers.run();
        callers.check();
        assert_eq!(callers.names(), (0..=10).collect::<Vec<_>>());
        assert_eq!(callers.now, at);
    }

    #[test]
    fn a_slot_past_the_deadline_consumes_nothing() {
        let (quotas, mut key) = (one_a_second(), Gcra::default());
        let now = quotas.epoch;
        let first = key.reserve(now, &[1], None, &quotas).unwrap();
        key.take(now, first, &quotas).unwrap();
        let earliest = now + SECOND;
        for _ in 0..10 {
            let refused = key.reserve(now, &[1], Some(now + 999 * MS), &quotas);
            assert_eq!(refused, Err(NoSlot::TooLate { earliest }));
        }
        let next = key.reserve(now, &[1], Some(earliest), &quotas).unwrap();
        assert_eq!(next.at(&quotas), earliest);
    }

    #[test]
    fn ten_thousand_cancelled_at_once_leave_the_next_slot_to_the_next() {
        let (quotas, mut key) = (one_a_second(), Gcra::default());
        let now = quotas.epoch;
        let first = key.reserve(now, &[1], None, &quotas).unwrap();
        key.take(now, first, &quotas).unwrap();
        let all: Vec<_> = (0..10_000)
            .map(|_| key.reserve(now, &[1], None, &quotas).unwrap())
            .collect();
        all.into_iter().for_each(|r| key.cancel(r, &quotas));
        let next = key.reserve(now, &[1], None, &quotas).unwrap();
        assert_eq!(next.at(&quotas), now + SECOND);
    }

    #[test]
    fn who_waits_beside_cancelled_calls_still_goes() {
        let mut callers = Callers::new(one_a_second());
        (0..100).for_each(|name| {
            callers.come(name, &[1]);
        });
        let (odd, even) = std::mem::take(&mut callers.waiting)
            .into_iter()
            .partition(|(name, _)| name % 2 == 1);
        callers.waiting = even;
        for (_, reservation) in odd {
            callers.key.cancel(reservation, &callers.quotas);
        }
        (100..150).for_each(|name| {
            callers.come(name, &[1]);
        });
        callers.run();
        callers.check();
        assert_eq!(callers.gone.len(), 100);
        assert!(
            callers.now <= callers.quotas.epoch + 125 * SECOND,
            "{:?}",
            callers.now - callers.quotas.epoch
        );
    }

    #[test]
    fn a_hint_moves_who_waits_and_who_comes() {
        let mut callers = Callers::new(one_a_second());
        (0..5).for_each(|name| {
            callers.come(name, &[1]);
        });
        let until = callers.now + 30 * SECOND;
        callers.key.hold(until, &callers.quotas);
        callers.key.hold(callers.now, &callers.quotas);
        (5..8).for_each(|name| {
            callers.come(name, &[1]);
        });
        callers.run();
        callers.check();
        assert_eq!(callers.names(), (0..8).collect::<Vec<_>>());
        assert_eq!(callers.gone[0].1, until);
        assert_eq!(callers.now, until + 7 * SECOND);
    }

    #[test]
    fn several_quotas_hold_at_once() {
        let day = Duration::from_secs(86_400);
        let mut callers = Callers::new(quotas(&[(1, SECOND, 1), (100, day, 50)]));
        (0..60).for_each(|name| {
            callers.come(name, &[]);
        });
        callers.run();
        callers.check();
        assert_eq!(callers.gone[49].1, callers.quotas.epoch + 49 * SECOND);
        assert!(callers.gone[50].1 > callers.quotas.epoch + day / 51 - SECOND);
    }

    #[test]
    fn a_weight_is_paid_for() {
        let (quotas, mut key) = (
            quotas(&[(10, 10 * SECOND, 1), (10, 10 * SECOND, 1)]),
            Gcra::default(),
        );
        let now = quotas.epoch;
        let heavy = key.reserve(now, &[0, 4], None, &quotas).unwrap();
        assert_eq!(heavy.at(&quotas), now + 3 * SECOND);
        let light = key.reserve(now, &[1, 0], None, &quotas).unwrap();
        assert_eq!(
            light.at(&quotas),
            now,
            "it costs nothing of the quota that is used up"
        );
        let both = key.reserve(now, &[1, 1], None, &quotas).unwrap();
        assert_eq!(both.at(&quotas), now + 7 * SECOND);
        let (weight, limit) = (11, 10);
        let refused = key.reserve(now, &[1, 11], None, &quotas);
        assert_eq!(refused, Err(NoSlot::TooHeavy { weight, limit }));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        assert_eq!(Quota::new(0, SECOND), Err(InvalidQuota::ZeroLimit));
        assert_eq!(
            Quota::new(1, Duration::MAX),
            Err(InvalidQuota::Period(Duration::MAX))
        );
        let error = Quota::new(5, SECOND).unwrap().with_burst(6).unwrap_err();
        assert_eq!(
            error.to_string(),
            "burst is 6, expected 1 to the limit, which is 5"
        );
        assert_eq!(
            Quotas::new(&[], origin()).unwrap_err(),
            InvalidQuota::Count(0)
        );
    }

    #[test]
    fn a_key_takes_at_most_135_bytes_with_its_hash() {
        assert!(
            size_of::<(u128, Gcra)>() <= 135,
            "{}",
            size_of::<(u128, Gcra)>()
        );
    }
}
