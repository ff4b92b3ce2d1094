use std::time::{Duration, Instant};

use rand::{Rng, RngExt};

/// A circuit breaker: closed, open, half-open with exactly one probe on its way.
///
/// **It trips** on 5 unavailable answers in a row (each within a minute of the one before), if besides nothing succeeded
/// for 2 s, or the connection was refused, or the row is as long as `max(10, limit / 2)`: among many answers in flight
/// five failures in a row are no outage. Optionally also on a share of failures within a window, for those whose host fails
/// half of its calls.
///
/// **It stays open** for 5 s, after every failed probe 1.5 times as long up to 15 s, each ±25 % so that processes do not
/// probe in step. Then one call may go as the probe; a success closes the breaker, and so does any other answer that
/// shows a host at work; a failure opens it again. A probe that was cancelled frees its slot, and so does one whose lease
/// has ended.
///
/// **Generations.** Every trip and every probe begins a new one, an admission carries the one it was given in, and what
/// comes of a call of an older one changes nothing.
///
/// ```
/// use std::time::Duration;
/// use load_control::{Breaker, BreakerSettings, Gate, Health};
///
/// # #[allow(clippy::disallowed_methods)]
/// let now = std::time::Instant::now();
/// let (settings, mut breaker) = (BreakerSettings::default(), Breaker::default());
/// for _ in 0..5 {
///     breaker.settle(now, 0, Health::Refused, 16.0, &settings, &mut rand::rng());
/// }
/// let Gate::Open { until: Some(until) } = breaker.gate(now) else { panic!("it has tripped") };
/// assert_eq!(breaker.gate(until), Gate::Probe);
/// let generation = breaker.probe(until, &settings);
/// assert!(matches!(breaker.gate(until), Gate::Probing { .. }));
/// breaker.settle(until, generation, Health::Available, 16.0, &settings, &mut rand::rng());
/// assert_eq!(breaker.gate(until), Gate::Closed);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    state: State,
    generation: u32,
    /// How often in a row it has opened without closing in between.
    openings: u32,
    /// Unavailable answers in a row.
    row: u32,
    last_failure: Option<Instant>,
    last_success: Option<Instant>,
    window: Option<Box<Window>>,
}

/// A [`Breaker`] that is closed and has nothing to remember of failures: all of it in 24 B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quiet {
    generation: u32,
    last_success: Option<Instant>,
}

impl Quiet {
    /// The generation of what is admitted.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// What came of a call of the present generation. False where that takes a whole [`Breaker`].
    #[must_use = "what a quiet breaker cannot take in is lost"]
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        health: Health,
        settings: &BreakerSettings,
    ) -> bool {
        match health {
            Health::Available if settings.failure_rate.is_none() => {
                self.last_success = Some(now);
                true
            }
            Health::Answered | Health::Unknown => true,
            Health::Available | Health::Unavailable | Health::Refused => false,
        }
    }
}

impl From<Quiet> for Breaker {
    fn from(quiet: Quiet) -> Self {
        Self {
            generation: quiet.generation,
            last_success: quiet.last_success,
            ..Self::default()
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Closed,
    Open {
        until: Instant,
    },
    /// By an operator, until he closes it.
    Held,
    HalfOpen {
        lease_end: Instant,
    },
}

/// What a [`Breaker`] goes by.
#[derive(Clone, Debug, PartialEq)]
pub struct BreakerSettings {
    /// How many unavailable answers in a row it takes. 5 by default.
    pub row: u32,
    /// For how long nothing may have succeeded, in the ordinary case. 2 s by default.
    pub quiet: Duration,
    /// How long it is open at first. 5 s by default.
    pub open: Duration,
    /// What a failed probe multiplies that by. 1.5 by default.
    pub growth: f64,
    /// How long it is open at most. 15 s by default, which is right where one probe serves everybody.
    pub open_cap: Duration,
    /// How long a probe may be on its way before another one goes: as long as an attempt may take. 180 s by default.
    pub lease: Duration,
    /// Trips on a share of failures, too. Not by default: without a limit on what is in flight such a breaker flaps.
    pub failure_rate: Option<FailureRate>,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            row: 5,
            quiet: Duration::from_secs(2),
            open: Duration::from_secs(5),
            growth: 1.5,
            open_cap: Duration::from_secs(15),
            lease: Duration::from_secs(180),
            failure_rate: None,
        }
    }
}

/// Trip where this share of at least so many answers within a window were failures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureRate {
    /// 0 to 1.
    pub share: f64,
    /// How many answers it takes to tell.
    pub minimum: u32,
    /// Counted in ten buckets of time.
    pub window: Duration,
}

/// What an answer says about its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It succeeded.
    Available,
    /// Nobody was there to serve it.
    Unavailable,
    /// The connection was refused: nobody is there at all.
    Refused,
    /// Answered, but no success: throttled, ambiguous. Changes nothing, except that a probe which got that far closes.
    Answered,
    /// Nothing: it was cancelled.
    Unknown,
}

/// Whether a call may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// Yes.
    Closed,
    /// As the probe.
    Probe,
    /// Not before then; `None` where an operator holds it open.
    Open {
        /// When a probe may go.
        until: Option<Instant>,
    },
    /// Another call is the probe.
    Probing {
        /// When it counts as lost.
        lease_end: Instant,
    },
}

/// What an outcome did to a [`Breaker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it belongs to an older generation.
    Stale,
    /// No change of state.
    None,
    /// It was closed and has opened.
    Tripped,
    /// The probe failed: it has opened again.
    Reopened,
    /// The probe succeeded.
    Closed,
    /// The probe was lost: another may go at once.
    ProbeFreed,
}

impl Breaker {
    /// Whether a call may go now.
    #[inline]
    pub fn gate(&self, now: Instant) -> Gate {
        match self.state {
            State::Closed => Gate::Closed,
            State::Open { until } if now < until => Gate::Open { until: Some(until) },
            State::Held => Gate::Open { until: None },
            State::HalfOpen { lease_end } if now < lease_end => Gate::Probing { lease_end },
            State::Open { .. } | State::HalfOpen { .. } => Gate::Probe,
        }
    }

    /// Sends the probe that [`Breaker::gate`] asks for: the generation of its admission.
    pub fn probe(&mut self, now: Instant, settings: &BreakerSettings) -> u32 {
        self.generation = self.generation.wrapping_add(1);
        let lease_end = later(now, settings.lease);
        self.state = State::HalfOpen { lease_end };
        self.generation
    }

    /// What came of a call of this generation. `limit` is how many may be in flight.
    pub fn settle(
        &mut self,
        now: Instant,
        generation: u32,
        health: Health,
        limit: f64,
        settings: &BreakerSettings,
        random: &mut impl Rng,
    ) -> Effect {
        if generation != self.generation {
            return Effect::Stale;
        }
        match (self.state, health) {
            // Nothing is admitted in these states, so no call is of their generation.
            (State::Open { .. } | State::Held, _) => Effect::Stale,
            (State::HalfOpen { .. }, Health::Available | Health::Answered) => {
                self.close(now);
                Effect::Closed
            }
            (State::HalfOpen { .. }, Health::Unavailable | Health::Refused) => {
                self.open(now, settings, random);
                Effect::Reopened
            }
            (State::HalfOpen { .. }, Health::Unknown) => {
                self.free_probe(now);
                Effect::ProbeFreed
            }
            (State::Closed, Health::Available) => {
                self.row = 0;
                self.last_success = Some(now);
                if let Some(rate) = settings.failure_rate {
                    self.count(now, false, rate);
                }
                Effect::None
            }
            (State::Closed, Health::Unavailable | Health::Refused) => {
                let continues = self
                    .last_failure
                    .is_some_and(|last| now.saturating_duration_since(last) <= FORGOTTEN);
                self.row = if continues { self.row + 1 } else { 1 };
                self.last_failure = Some(now);
                let in_row = self.row >= settings.row
                    && (health == Health::Refused
                        || f64::from(self.row) >= (limit / 2.0).max(10.0)
                        || self.last_success.is_none_or(|last| {
                            now.saturating_duration_since(last) > settings.quiet
                        }));
                let too_many = match settings.failure_rate {
                    Some(rate) => self.count(now, true, rate),
                    None => false,
                };
                if in_row || too_many {
                    self.openings = 0;
                    self.open(now, settings, random);
                    Effect::Tripped
                } else {
                    Effect::None
                }
            }
            (State::Closed, Health::Answered | Health::Unknown) => Effect::None,
        }
    }

    /// The probe is lost: another one may go.
    pub(crate) fn free_probe(&mut self, now: Instant) {
        if matches!(self.state, State::HalfOpen { .. }) {
            self.generation = self.generation.wrapping_add(1);
            self.state = State::Open { until: now };
        }
    }

    /// The generation of what is admitted while closed.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Holds it open, whatever the host does, until it is [closed](Self::close).
    pub fn hold_open(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Held;
    }

    /// Closes it.
    pub fn close(&mut self, now: Instant) {
        // A probe keeps its generation: what becomes of its body later still counts.
        if !matches!(self.state, State::HalfOpen { .. }) {
            self.generation = self.generation.wrapping_add(1);
        }
        *self = Self {
            generation: self.generation,
            last_success: Some(now),
            ..Self::default()
        };
    }

    /// Whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether an operator holds it open.
    pub fn is_held(&self) -> bool {
        self.state == State::Held
    }

    /// All there is to it, where that is so little. A last failure that begins no row changes nothing.
    pub(crate) fn quiet(&self) -> Option<Quiet> {
        let is_quiet =
            self.is_closed() && self.row == 0 && self.openings == 0 && self.window.is_none();
        is_quiet.then_some(Quiet {
            generation: self.generation,
            last_success: self.last_success,
        })
    }

    /// How many unavailable answers came in a row while it is closed, and how often in a row it has opened while it is not.
    pub(crate) fn export(&self) -> (u32, u32) {
        (self.row, self.openings)
    }

    /// `open`: it is, with so long to go; a probe on its way in the other process is none of this one.
    pub(crate) fn import(
        now: Instant,
        held: bool,
        open: Option<Duration>,
        row: u32,
        openings: u32,
        settings: &BreakerSettings,
    ) -> Self {
        let longest = settings.open_cap.max(settings.open).mul_f64(1.0 + JITTER);
        let state = match open {
            _ if held => State::Held,
            Some(left) => State::Open {
                until: later(now, left.min(longest)),
            },
            None => State::Closed,
        };
        Self {
            state,
            openings,
            row: row.min(settings.row.saturating_sub(1)),
            last_failure: (row > 0).then_some(now),
            last_success: Some(now),
            ..Self::default()
        }
    }

    fn open(&mut self, now: Instant, settings: &BreakerSettings, random: &mut impl Rng) {
        let growth = settings.growth.max(1.0).powf(f64::from(self.openings));
        let open = (settings.open.as_secs_f64() * growth).min(settings.open_cap.as_secs_f64());
        let jitter = 1.0 - JITTER + 2.0 * JITTER * random.random::<f64>();
        let open = Duration::try_from_secs_f64(open * jitter).unwrap_or(settings.open_cap);
        self.openings = self.openings.saturating_add(1);
        self.generation = self.generation.wrapping_add(1);
        self.row = 0;
        self.window = None;
        self.state = State::Open {
            until: later(now, open),
        };
    }

    /// Whether there are too many failures in the window.
    fn count(&mut self, now: Instant, failed: bool, rate: FailureRate) -> bool {
        let window = self
            .window
            .get_or_insert_with(|| Box::new(Window::new(now)));
        window.add(now, failed, rate.window);
        let (answers, failures) = window.totals();
        answers >= rate.minimum && f64::from(failures) >= rate.share * f64::from(answers)
    }
}

/// Answers and failures in ten buckets of time, the newest last.
#[derive(Clone, Debug)]
struct Window {
    newest_began: Instant,
    buckets: [(u32, u32); BUCKETS],
}

impl Window {
    fn new(now: Instant) -> Self {
        Self {
            newest_began: now,
            buckets: [(0, 0); BUCKETS],
        }
    }

    fn add(&mut self, now: Instant, failed: bool, window: Duration) {
        let width = (window / BUCKETS as u32).max(Duration::from_nanos(1));
        let elapsed = now.saturating_duration_since(self.newest_began);
        let passed = elapsed.as_nanos() / width.as_nanos();
        if passed >= BUCKETS as u128 {
            // Idle for longer than the window: what was before says nothing about now.
            *self = Self::new(now);
        } else {
            let passed = passed as usize;
            self.buckets.rotate_left(passed);
            self.buckets[BUCKETS - passed..].fill((0, 0));
            self.newest_began += width * passed as u32;
        }
        let newest = &mut self.buckets[BUCKETS - 1];
        newest.0 = newest.0.saturating_add(1);
        newest.1 = newest.1.saturating_add(u32::from(failed));
    }

    fn totals(&self) -> (u32, u32) {
        self.buckets.iter().fold((0, 0), |(answers, failures), b| {
            (answers.saturating_add(b.0), failures.saturating_add(b.1))
        })
    }
}

/// An instant so far away that it cannot be told is a century off.
pub(crate) fn later(now: Instant, by: Duration) -> Instant {
    now.checked_add(by.min(CENTURY)).unwrap_or(now)
}

const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
/// A failure so long after the one before begins a new row.
const FORGOTTEN: Duration = Duration::from_secs(60);
const JITTER: f64 = 0.25;
const BUCKETS: usize = 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;
    use crate::origin;

    struct Case {
        breaker: Breaker,
        settings: BreakerSettings,
        random: SmallRng,
        now: Instant,
    }

    impl Case {
        fn new(settings: BreakerSettings) -> Self {
            let (breaker, random) = (Breaker::default(), SmallRng::seed_from_u64(1));
            Self {
                breaker,
                settings,
                random,
                now: origin(),
            }
        }

        fn after(&mut self, milliseconds: u64, health: Health) -> Effect {
            self.now += Duration::from_millis(milliseconds);
            let generation = self.breaker.generation();
            self.settle(generation, health)
        }

        fn settle(&mut self, generation: u32, health: Health) -> Effect {
            self.breaker.settle(
                self.now,
                generation,
                health,
                16.0,
                &self.settings,
                &mut self.random,
            )
        }

        /// How long it stays open from now, going there.
        fn wait(&mut self) -> Duration {
            let Gate::Open { until: Some(until) } = self.breaker.gate(self.now) else {
                panic!("{:?}", self.breaker);
            };
            std::mem::replace(&mut self.now, until).abs_diff(until)
        }
    }

    trait AbsoluteDifference {
        fn abs_diff(self, other: Self) -> Duration;
    }

    impl AbsoluteDifference for Instant {
        fn abs_diff(self, other: Self) -> Duration {
            self.max(other) - self.min(other)
        }
    }

    fn tripped() -> Case {
        let mut case = Case::new(BreakerSettings::default());
        (0..5).for_each(|_| {
            case.after(1, Health::Refused);
        });
        case
    }

    #[test]
    fn five_failures_in_a_row_trip_it_once_nothing_succeeded_for_two_seconds() {
        let mut case = Case::new(BreakerSettings::default());
        case.after(0, Health::Available);
        (0..6).for_each(|_| assert_eq!(case.after(300, Health::Unavailable), Effect::None));
        assert_eq!(case.after(201, Health::Unavailable), Effect::Tripped);
    }

    #[test]
    fn refused_connections_trip_it_at_once() {
        let mut case = Case::new(BreakerSettings::default());
        case.after(0, Health::Available);
        (0..4).for_each(|_| assert_eq!(case.after(1, Health::Refused), Effect::None));
        assert_eq!(case.after(1, Health::Refused), Effect::Tripped);
    }

    #[test]
    fn a_row_of_half_the_limit_trips_it_at_once() {
        let mut case = Case::new(BreakerSettings::default());
        case.after(0, Health::Available);
        (0..9).for_each(|_| assert_eq!(case.after(1, Health::Unavailable), Effect::None));
        assert_eq!(case.after(1, Health::Unavailable), Effect::Tripped);
    }

    #[test]
    fn a_success_ends_the_row_and_what_only_answered_does_not_count() {
        let mut case = Case::new(BreakerSettings::default());
        for _ in 0..100 {
            (0..4).for_each(|_| assert_eq!(case.after(1, Health::Refused), Effect::None));
            (0..9).for_each(|_| assert_eq!(case.after(1, Health::Answered), Effect::None));
            case.after(1, Health::Available);
        }
    }

    #[test]
    fn failures_minutes_apart_are_no_row() {
        let mut case = Case::new(BreakerSettings::default());
        (0..100).for_each(|_| assert_eq!(case.after(60_001, Health::Refused), Effect::None));
    }

    #[test]
    fn it_opens_for_five_seconds_and_half_as_long_again_after_every_failed_probe_up_to_the_cap() {
        for seed in 0..50 {
            let mut case = tripped();
            case.random = SmallRng::seed_from_u64(seed);
            // Golden: 5 s, × 1.5, cap 15 s.
            let golden = [5.0, 7.5, 11.25, 15.0, 15.0, 15.0];
            for (n, nominal) in golden.into_iter().enumerate() {
                let open = case.wait().as_secs_f64();
                assert!(
                    (0.75 * nominal..=1.25 * nominal).contains(&open),
                    "{n}: {open}"
                );
                let probe = case.breaker.probe(case.now, &case.settings);
                assert_eq!(case.settle(probe, Health::Unavailable), Effect::Reopened);
            }
            case.wait();
            let probe = case.breaker.probe(case.now, &case.settings);
            assert_eq!(case.settle(probe, Health::Available), Effect::Closed);
            (0..5).for_each(|_| {
                case.after(1, Health::Refused);
            });
            assert!(case.wait() <= Duration::from_millis(6_250), "starts anew");
        }
    }

    #[test]
    fn one_probe_goes_and_a_lost_one_frees_its_slot() {
        let mut case = tripped();
        case.wait();
        let first = case.breaker.probe(case.now, &case.settings);
        let Gate::Probing { lease_end } = case.breaker.gate(case.now) else {
            panic!("one probe only");
        };
        assert_eq!(case.settle(first, Health::Unknown), Effect::ProbeFreed);
        assert_eq!(case.breaker.gate(case.now), Gate::Probe);
        let second = case.breaker.probe(case.now, &case.settings);
        assert_eq!(case.settle(first, Health::Available), Effect::Stale);
        assert_eq!(case.breaker.gate(lease_end), Gate::Probe);
        case.now = lease_end;
        let third = case.breaker.probe(case.now, &case.settings);
        assert_eq!(case.settle(second, Health::Available), Effect::Stale);
        assert_eq!(case.settle(third, Health::Available), Effect::Closed);
        assert_eq!(case.settle(second, Health::Refused), Effect::Stale);
    }

    #[test]
    fn a_probe_that_is_throttled_has_found_a_host_at_work() {
        let mut case = tripped();
        case.wait();
        let probe = case.breaker.probe(case.now, &case.settings);
        assert_eq!(case.settle(probe, Health::Answered), Effect::Closed);
    }

    #[test]
    fn answers_from_before_the_trip_change_nothing() {
        let mut case = Case::new(BreakerSettings::default());
        let old = case.breaker.generation();
        (0..5).for_each(|_| {
            case.after(1, Health::Refused);
        });
        assert_eq!(case.settle(old, Health::Available), Effect::Stale);
        case.wait();
        let probe = case.breaker.probe(case.now, &case.settings);
        assert_eq!(case.settle(old, Health::Available), Effect::Stale);
        assert_eq!(case.settle(probe, Health::Available), Effect::Closed);
        (0..100).for_each(|_| assert_eq!(case.settle(old, Health::Refused), Effect::Stale));
    }

    #[test]
    fn an_operator_holds_it_open_until_he_closes_it() {
        let mut case = Case::new(BreakerSettings::default());
        case.breaker.hold_open();
        let year = case.now + Duration::from_secs(365 * 86_400);
        assert_eq!(case.breaker.gate(year), Gate::Open { until: None });
        assert_eq!(case.after(1, Health::Available), Effect::Stale);
        case.breaker.close(case.now);
        assert_eq!(case.breaker.gate(case.now), Gate::Closed);
    }

    #[test]
    fn a_share_of_failures_trips_it_where_asked_for() {
        let half_of_ten = FailureRate {
            share: 0.5,
            minimum: 10,
            window: Duration::from_secs(10),
        };
        let mut case = Case::new(BreakerSettings {
            failure_rate: Some(half_of_ten),
            ..BreakerSettings::default()
        });
        for _ in 0..100 {
            // Two of ten every 10 s.
            (0..8).for_each(|_| assert_eq!(case.after(1_000, Health::Available), Effect::None));
            (0..2).for_each(|_| assert_eq!(case.after(1_000, Health::Unavailable), Effect::None));
        }
        let effects: Vec<_> = (0..10)
            .flat_map(|_| {
                [
                    case.after(400, Health::Unavailable),
                    case.after(400, Health::Available),
                ]
            })
            .collect();
        assert!(effects.contains(&Effect::Tripped));
    }

    #[test]
    fn a_window_forgets() {
        let window = Duration::from_secs(10);
        let mut counts = Window::new(origin());
        (0..50).for_each(|n| counts.add(origin() + n * Duration::from_secs(1), true, window));
        assert_eq!(counts.totals(), (10, 10));
        counts.add(origin() + Duration::from_secs(3_600), false, window);
        assert_eq!(counts.totals(), (1, 0));
    }

    /// Milliseconds, and what came of a call then.
    fn answers() -> impl Strategy<Value = (u64, Health)> {
        let health = prop_oneof![
            4 => Just(Health::Available),
            4 => Just(Health::Unavailable),
            2 => Just(Health::Refused),
            1 => Just(Health::Answered),
            1 => Just(Health::Unknown),
        ];
        (0u64..700, health)
    }

    proptest! {
        #[test]
        fn a_breaker_that_is_made_quiet_whenever_it_can_be_does_as_one_that_is_not(
            answers in prop::collection::vec(answers(), 1..200), rate in any::<bool>(),
        ) {
            let failure_rate = rate.then_some(FailureRate {
                share: 0.7, minimum: 10, window: Duration::from_secs(5),
            });
            let settings = BreakerSettings { failure_rate, row: 2, quiet: Duration::from_secs(1), ..BreakerSettings::default() };
            let (mut whole, mut slim) = (Case::new(settings.clone()), Case::new(settings));
            for (after, health) in answers {
                let gate = whole.breaker.gate(whole.now);
                if matches!(gate, Gate::Open { .. }) {
                    prop_assert_eq!(whole.wait(), slim.wait());
                }
                if gate != Gate::Closed {
                    whole.breaker.probe(whole.now, &whole.settings);
                    slim.breaker.probe(slim.now, &slim.settings);
                }
                let effect = whole.after(after, health);
                let mut quiet = slim.breaker.quiet();
                let is_settled = quiet
                    .as_mut()
                    .is_some_and(|quiet| quiet.settle(whole.now, health, &slim.settings));
                if let Some(quiet) = quiet {
                    slim.breaker = quiet.into();
                }
                if is_settled {
                    prop_assert_eq!(effect, Effect::None);
                    slim.now = whole.now;
                } else {
                    prop_assert_eq!(effect, slim.after(after, health));
                }
                prop_assert_eq!(whole.breaker.gate(whole.now), slim.breaker.gate(slim.now));
                prop_assert_eq!(whole.breaker.generation(), slim.breaker.generation());
            }
        }
    }

    #[test]
    fn settings_beyond_measure_do_not_overflow() {
        let mut case = tripped();
        case.settings.open = Duration::MAX;
        case.settings.open_cap = Duration::MAX;
        case.settings.lease = Duration::MAX;
        case.wait();
        let probe = case.breaker.probe(case.now, &case.settings);
        assert_eq!(case.settle(probe, Health::Refused), Effect::Reopened);
        assert!(matches!(case.breaker.gate(case.now), Gate::Open { .. }));
    }
}
