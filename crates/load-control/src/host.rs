use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::Rng;

use crate::breaker::{Quiet, later};
use crate::{
    Breaker, BreakerSettings, Cooldown, Effect, Gate, Health, LatencyRecord, LimitSettings,
    Limiter, RetryTokens,
};

/// All that is known about the load on one host: breaker, cooldown, limit, retry tokens and latency as one state machine.
///
/// They are views of one thing: an open breaker freezes the limit, a breaker that closes starts the limit's ramp, a
/// cooldown holds everybody without touching the limit.
///
/// It takes 72 B (on a 64-bit Linux) until a call succeeds or fails. What failures leave to know is kept apart, and given
/// up by the next success unless the breaker has tripped, the host has asked for peace, or a failure rate is counted.
///
/// It has no queue, lock or clock. Whoever has a call asks [`admit`](Self::admit); a call that has to wait is kept in one
/// queue per host. Its front asks again at [`Wait::until`]; and whatever may let somebody go, or change how long that takes,
/// returns [`Next`], by which the queue goes from then on. Every admission ends in [`release`](Self::release), and before
/// that in [`settle`](Self::settle), once it is known what came of it.
///
/// ```
/// use std::{sync::Arc, time::Duration};
/// use load_control::{Decision, LoadControl, LoadSettings, Outcome};
///
/// # #[allow(clippy::disallowed_methods)]
/// let now = std::time::Instant::now();
/// let mut host = LoadControl::new(Arc::new(LoadSettings::default()));
/// let Decision::Admit(admission) = host.admit(now) else { panic!("nothing is in flight yet") };
/// let latency = Some(Duration::from_secs(3));
/// let answered = now + Duration::from_secs(3);
/// host.settle(answered, &admission, Outcome::Success { latency }, &mut rand::rng());
/// let next = host.release(answered, admission);
/// assert_eq!(next.may_go, 4);
/// ```
#[derive(Clone, Debug)]
pub struct LoadControl {
    settings: Arc<LoadSettings>,
    condition: Condition,
    limiter: Limiter,
    /// Made at the first success.
    latency: Option<Box<LatencyRecord>>,
    in_flight: u32,
    tokens: RetryTokens,
}

/// Which gates there are, and what they go by.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadSettings {
    /// `None`: no breaker.
    pub breaker: Option<BreakerSettings>,
    /// The longest [hint](LoadControl::hint) that is believed; zero where none is. 300 s by default.
    pub retry_after_max: Duration,
    /// How many calls may be in flight. Adaptive by default.
    pub limit: LimitSettings,
    /// Whether a retry takes a token. So by default.
    pub retry_tokens: bool,
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            breaker: Some(BreakerSettings::default()),
            retry_after_max: Duration::from_secs(300),
            limit: LimitSettings::Adaptive(crate::AdaptiveSettings::default()),
            retry_tokens: true,
        }
    }
}

/// Whether a call may go.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may.
    Admit(Admission),
    /// It has to wait.
    Wait(Wait),
}

/// A call that may go, or is on its way. Not `Clone`: it is released once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "an admission holds a permit until it is released"]
pub struct Admission {
    generation: u32,
    is_probe: bool,
}

impl Admission {
    /// Whether it is the one call that finds out whether the host is back.
    #[inline]
    pub fn is_probe(&self) -> bool {
        self.is_probe
    }
}

/// Why a call has to wait, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The first gate that is closed.
    pub reason: Reason,
    /// When to ask again at the latest; `None` where only a call that ends or an operator changes anything.
    pub until: Option<Instant>,
}

/// What a queue of waiting calls goes by until it is told anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// How many may go now, one after the other, from the front. The one behind the last of them asks too: the answer
    /// tells how long it waits.
    pub may_go: u32,
    /// Where none may: when the front asks again. `None` where a call that ends or an operator will tell.
    pub ask_at: Option<Instant>,
}

/// Why a call has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The breaker is open.
    Open,
    /// An operator holds the breaker open.
    Held,
    /// The breaker is half-open and another call is the probe.
    Probing,
    /// The host asked for peace.
    Cooldown,
    /// As many as may be are in flight.
    Limit,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The host did its work; that includes an answer which says that the request was wrong.
    Success {
        /// How long that took; `None` where it says nothing about how fast the host is (an error, a cached answer).
        latency: Option<Duration>,
    },
    /// The host could not serve it.
    Unavailable {
        /// The connection was refused.
        refused: bool,
    },
    /// Sent too often: the host works.
    Throttled,
    /// Answered with something that says nothing about the host's health: ambiguous, truncated, stale.
    Neutral,
    /// Nobody waited for the answer any more.
    Cancelled {
        /// How long it had been under way.
        after: Duration,
    },
}

impl LoadControl {
    /// A host of which nothing is known.
    pub fn new(settings: Arc<LoadSettings>) -> Self {
        Self {
            limiter: Limiter::new(&settings.limit),
            settings,
            condition: Condition::default(),
            latency: None,
            in_flight: 0,
            tokens: RetryTokens::default(),
        }
    }

    /// Whether a call may go now.
    #[inline]
    pub fn admit(&mut self, now: Instant) -> Decision {
        let gate = self.condition.gate(now);
        if let Some(wait) = self.wait(now, gate) {
            return Decision::Wait(wait);
        }
        self.in_flight += 1;
        let is_probe = gate == Gate::Probe;
        if let (true, Some(breaker)) = (is_probe, &self.settings.breaker) {
            let trouble = self.condition.trouble();
            trouble.probes = trouble.probes.wrapping_add(1);
            trouble.breaker.probe(now, breaker);
        }
        Decision::Admit(Admission {
            generation: self.condition.generation(),
            is_probe,
        })
    }

    /// Why, and until when, a call would have to wait now; `None` where it may go.
    pub fn waits(&self, now: Instant) -> Option<Wait> {
        self.wait(now, self.condition.gate(now))
    }

    /// What the breaker says now.
    #[inline]
    pub fn gate(&self, now: Instant) -> Gate {
        self.condition.gate(now)
    }

    /// How many may be in flight now.
    pub fn limit(&self) -> u32 {
        self.limiter.limit()
    }

    /// Whether anything limits how many may be in flight.
    #[inline]
    pub fn has_limit(&self) -> bool {
        !matches!(self.settings.limit, LimitSettings::Unlimited)
    }

    /// How many are in flight.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// What it goes by from now on; what it has learnt stays, within them.
    pub fn set_settings(&mut self, settings: Arc<LoadSettings>) {
        if settings.limit != self.settings.limit {
            self.limiter.set_settings(&settings.limit);
        }
        self.settings = settings;
    }

    /// A call keeps on without its permit, which is free from now on: its admission is not released any more.
    pub fn reclaim(&mut self, now: Instant) -> Next {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.next(now)
    }

    /// What a queue of waiting calls goes by now.
    #[inline]
    pub fn next(&self, now: Instant) -> Next {
        let gate = self.condition.gate(now);
        match self.wait(now, gate) {
            Some(wait) => Next {
                may_go: 0,
                ask_at: wait.until,
            },
            None if gate == Gate::Probe => Next {
                may_go: 1,
                ask_at: None,
            },
            None => Next {
                may_go: self.limiter.limit().saturating_sub(self.in_flight),
                ask_at: None,
            },
        }
    }

    /// Tells what came of a call, as soon as that is known; again where its body fails later. The permit stays with it.
    #[inline]
    pub fn settle(
        &mut self,
        now: Instant,
        admission: &Admission,
        outcome: Outcome,
        random: &mut impl Rng,
    ) -> Next {
        if admission.generation == self.condition.generation() {
            self.settle_current(now, outcome, random);
        }
        self.next(now)
    }

    /// Ends a call: its permit is free. A probe that nothing was told of is lost, and frees its slot.
    #[inline]
    pub fn release(&mut self, now: Instant, admission: Admission) -> Next {
        self.in_flight = self.in_flight.saturating_sub(1);
        if admission.is_probe && admission.generation == self.condition.generation() {
            // Probes are counted, so that there is none without trouble.
            if let Condition::Trouble(trouble) = &mut self.condition {
                trouble.breaker.free_probe(now);
            }
        }
        self.next(now)
    }

    /// The host asks everybody to wait: `Retry-After` of a 503, or of a 429 where limits are not per key.
    pub fn hint(&mut self, now: Instant, retry_after: Duration, random: &mut impl Rng) -> Next {
        let trouble = self.condition.trouble();
        trouble.account(now);
        let clamp = self.settings.retry_after_max;
        if !clamp.is_zero() {
            trouble.cooldown.extend(now, retry_after, clamp, random);
        }
        trouble.account(now);
        self.condition.calm();
        self.next(now)
    }

    /// A call is about to be repeated: the shortest delay it may have.
    #[must_use = "a retry without a token waits"]
    pub fn retry(&mut self) -> Duration {
        if self.settings.retry_tokens {
            self.tokens.spend()
        } else {
            Duration::ZERO
        }
    }

    /// For how long in all the host was closed (breaker not closed, or cooldown), up to `now`: what a budget that stops
    /// meanwhile leaves out is the difference of two of these.
    pub fn closed_for(&self, now: Instant) -> Duration {
        match &self.condition {
            Condition::Well(_) => Duration::ZERO,
            Condition::Trouble(trouble) => trouble.closed_for(now),
        }
    }

    /// Whether it is closed now: the breaker is not closed, or a cooldown runs.
    pub fn is_closed(&self, now: Instant) -> bool {
        match &self.condition {
            Condition::Well(_) => false,
            Condition::Trouble(trouble) => trouble.is_closed(now),
        }
    }

    /// Whether an operator holds the breaker open.
    pub fn is_held(&self) -> bool {
        self.condition
            .known()
            .is_some_and(|trouble| trouble.breaker.is_held())
    }

    /// Whether a cancelled call that had been under way for so long counts as unavailable: for longer than twice the 99th
    /// percentile of the successes, and than 30 s.
    pub fn is_overdue(&self, after: Duration) -> bool {
        let p99 = || {
            self.latency
                .as_ref()
                .and_then(|record| record.percentile(0.99))
        };
        after > YOUNG && p99().is_none_or(|p99| after > 2 * p99)
    }

    /// How long the successes took; `None` before the first.
    pub fn latency(&self) -> Option<&LatencyRecord> {
        self.latency.as_deref()
    }

    /// An operator's order: nothing goes until he [closes](Self::close) or [resets](Self::reset) it. What is on its way
    /// is not cut.
    pub fn open(&mut self, now: Instant) -> Next {
        let trouble = self.condition.trouble();
        trouble.account(now);
        if trouble.breaker.is_closed() {
            self.limiter.freeze();
        }
        trouble.breaker.hold_open();
        trouble.account(now);
        self.next(now)
    }

    /// An operator's order: closed, as if a probe had succeeded, and no cooldown.
    pub fn close(&mut self, now: Instant) -> Next {
        let trouble = self.condition.trouble();
        trouble.account(now);
        trouble.cooldown.clear();
        if !trouble.breaker.is_closed() {
            trouble.breaker.close(now);
            self.limiter.thaw(now, &self.settings.limit);
        }
        trouble.account(now);
        self.condition.calm();
        self.next(now)
    }

    /// An operator's order: forgets everything but what is in flight.
    pub fn reset(&mut self, now: Instant) -> Next {
        let trouble = self.condition.trouble();
        trouble.account(now);
        // Answers to what was sent before belong to what is forgotten.
        trouble.breaker.hold_open();
        trouble.breaker.close(now);
        trouble.cooldown.clear();
        trouble.account(now);
        self.condition.calm();
        self.limiter = Limiter::new(&self.settings.limit);
        self.tokens = RetryTokens::default();
        self.latency = None;
        self.next(now)
    }

    /// What metrics and operators see.
    pub fn snapshot(&self, now: Instant) -> Snapshot {
        let trouble = self.condition.known();
        Snapshot {
            gate: self.condition.gate(now),
            cooldown: self
                .condition
                .cooldown(now)
                .map(|until| until.saturating_duration_since(now)),
            limit: self.limiter.limit(),
            is_ramping: self.limiter.is_ramping(),
            in_flight: self.in_flight,
            baseline: self.limiter.baseline(),
            retry_tokens: self.tokens.left(),
            trips: trouble.map_or(0, |trouble| trouble.trips),
            probes: trouble.map_or(0, |trouble| trouble.probes),
            closed_for: self.closed_for(now),
        }
    }

    /// What a restart carries over.
    pub fn export(&self, now: Instant) -> State {
        let breaker = self.condition.known().map(|trouble| &trouble.breaker);
        let (row, openings) = breaker.map(Breaker::export).unwrap_or_default();
        let (limit, adaptive) = self.limiter.export(now);
        let left = |until: Option<Instant>| {
            until.map(|until| until.saturating_duration_since(now).as_secs_f64())
        };
        State {
            version: VERSION,
            limit,
            adaptive,
            held: breaker.is_some_and(Breaker::is_held),
            open: match self.condition.gate(now) {
                Gate::Open { until } => left(until),
                Gate::Probe | Gate::Probing { .. } => Some(0.0),
                Gate::Closed => None,
            },
            row,
            openings,
            cooldown: left(self.condition.cooldown(now)),
            retry_tokens: self.tokens.export(),
            latency: self
                .latency
                .as_ref()
                .map(|r| r.export())
                .unwrap_or_default(),
        }
    }

    /// A host as it was `age` ago in another process. What in it makes no sense is left out.
    ///
    /// # Errors
    /// [`UnknownVersion`] where it was written by a version that knew more or less than this one.
    pub fn import(
        settings: Arc<LoadSettings>,
        now: Instant,
        state: &State,
        age: Duration,
    ) -> Result<Self, UnknownVersion> {
        if state.version != VERSION {
            return Err(UnknownVersion(state.version));
        }
        let left = |seconds: Option<f64>| {
            let left = Duration::try_from_secs_f64(seconds?).ok()?;
            Some(left.saturating_sub(age))
        };
        let mut host = Self::new(settings);
        let (settings, trouble) = (&host.settings, host.condition.trouble());
        if let Some(breaker) = &settings.breaker {
            let (open, held) = (left(state.open), state.held);
            trouble.breaker = Breaker::import(now, held, open, state.row, state.openings, breaker);
        }
        host.limiter = Limiter::import(
            now,
            state.limit,
            state.adaptive.as_ref(),
            !trouble.breaker.is_closed(),
            &settings.limit,
        );
        let cooldown = left(state.cooldown)
            .map(|left| left.min(settings.retry_after_max))
            .filter(|left| !left.is_zero());
        trouble.cooldown = Cooldown::import(cooldown.map(|left| later(now, left)));
        trouble.account(now);
        host.condition.calm();
        host.tokens = RetryTokens::import(state.retry_tokens);
        host.latency = LatencyRecord::import(&state.latency);
        Ok(host)
    }

    #[inline]
    fn wait(&self, now: Instant, gate: Gate) -> Option<Wait> {
        let cooldown = self.condition.cooldown(now);
        let (reason, until) = match gate {
            Gate::Open { until: Some(until) } => (Reason::Open, Some(until)),
            Gate::Open { until: None } => {
                return Some(Wait {
                    reason: Reason::Held,
                    until: None,
                });
            }
            Gate::Probing { lease_end } => (Reason::Probing, Some(lease_end)),
            Gate::Closed | Gate::Probe if cooldown.is_some() => (Reason::Cooldown, cooldown),
            // A probe may exceed a limit that was cut, so that calls which hang do not keep it from finding out.
            Gate::Probe if self.in_flight < self.settings.limit.ceiling() => return None,
            Gate::Closed if self.in_flight < self.limiter.limit() => return None,
            Gate::Closed | Gate::Probe => {
                return Some(Wait {
                    reason: Reason::Limit,
                    until: None,
                });
            }
        };
        Some(Wait {
            reason,
            until: until.max(cooldown),
        })
    }

    fn settle_current(&mut self, now: Instant, outcome: Outcome, random: &mut impl Rng) {
        let health = match outcome {
            Outcome::Success { .. } => Health::Available,
            Outcome::Unavailable { refused: true } => Health::Refused,
            Outcome::Unavailable { refused: false } => Health::Unavailable,
            Outcome::Cancelled { after } if self.is_overdue(after) => Health::Unavailable,
            Outcome::Cancelled { .. } => Health::Unknown,
            Outcome::Throttled | Outcome::Neutral => Health::Answered,
        };
        let breaker = self.settings.breaker.as_ref();
        // Where there is no limit, as many answers are in flight as there happen to be.
        let limit = match self.settings.limit {
            LimitSettings::Unlimited => f64::from(self.in_flight),
            _ => self.limiter.exact(),
        };
        let effect = self.condition.settle(now, health, limit, breaker, random);
        match effect {
            Effect::Tripped => self.limiter.freeze(),
            Effect::Closed => self.limiter.thaw(now, &self.settings.limit),
            Effect::None | Effect::Stale | Effect::Reopened | Effect::ProbeFreed => {}
        }
        if self.condition.gate(now) != Gate::Closed {
            return;
        }
        match health {
            Health::Available => {
                self.tokens.earn();
                let latency = match outcome {
                    Outcome::Success { latency } => latency,
                    _ => None,
                };
                if let Some(latency) = latency {
                    self.latency.get_or_insert_default().add(latency);
                }
                self.limiter
                    .succeeded(now, latency, self.in_flight, &self.settings.limit);
            }
            Health::Unavailable => self.limiter.overloaded(now, &self.settings.limit),
            Health::Refused | Health::Answered | Health::Unknown => {}
        }
    }
}

/// What is known of a host's failures. Most hosts are well, so that this takes no more than it has to.
#[derive(Clone, Debug)]
enum Condition {
    /// Nothing has gone wrong of which anything is left to know.
    Well(Quiet),
    Trouble(Box<Trouble>),
}

impl Default for Condition {
    fn default() -> Self {
        Self::Well(Quiet::default())
    }
}

impl Condition {
    #[inline]
    fn gate(&self, now: Instant) -> Gate {
        match self {
            Self::Well(_) => Gate::Closed,
            Self::Trouble(trouble) => trouble.breaker.gate(now),
        }
    }

    #[inline]
    fn generation(&self) -> u32 {
        match self {
            Self::Well(quiet) => quiet.generation(),
            Self::Trouble(trouble) => trouble.breaker.generation(),
        }
    }

    #[inline]
    fn cooldown(&self, now: Instant) -> Option<Instant> {
        self.known()?.cooldown.until(now)
    }

    #[inline]
    fn known(&self) -> Option<&Trouble> {
        match self {
            Self::Well(_) => None,
            Self::Trouble(trouble) => Some(trouble),
        }
    }

    /// What is known, or room for it. Whoever is not sure to have used that ends with [`calm`](Self::calm).
    fn trouble(&mut self) -> &mut Trouble {
        match self {
            Self::Trouble(trouble) => trouble,
            Self::Well(quiet) => {
                *self = Self::Trouble(Box::new(Trouble::from(*quiet)));
                self.trouble()
            }
        }
    }

    /// Back to [`Well`](Self::Well) where nothing is left to know.
    fn calm(&mut self) {
        if let Some(quiet) = self.known().and_then(Trouble::quiet) {
            *self = Self::Well(quiet);
        }
    }

    /// What came of a call of the present generation.
    fn settle(
        &mut self,
        now: Instant,
        health: Health,
        limit: f64,
        settings: Option<&BreakerSettings>,
        random: &mut impl Rng,
    ) -> Effect {
        if let Self::Well(quiet) = self
            && settings.is_none_or(|settings| quiet.settle(now, health, settings))
        {
            return Effect::None;
        }
        let effect = self.trouble().settle(now, health, limit, settings, random);
        self.calm();
        effect
    }
}

#[derive(Clone, Debug)]
struct Trouble {
    breaker: Breaker,
    cooldown: Cooldown,
    trips: u32,
    probes: u32,
    /// For how long in all it was closed to calls, up to `closed_since`.
    closed_before: Duration,
    closed_since: Option<Instant>,
}

impl Trouble {
    fn settle(
        &mut self,
        now: Instant,
        health: Health,
        limit: f64,
        settings: Option<&BreakerSettings>,
        random: &mut impl Rng,
    ) -> Effect {
        // A cooldown may have ended since, and nobody said so.
        if self.closed_since.is_some() {
            self.account(now);
        }
        let generation = self.breaker.generation();
        let effect = settings.map_or(Effect::None, |settings| {
            self.breaker
                .settle(now, generation, health, limit, settings, random)
        });
        if effect != Effect::None {
            self.account(now);
        }
        if effect == Effect::Tripped {
            self.trips = self.trips.wrapping_add(1);
        }
        effect
    }

    fn closed_for(&self, now: Instant) -> Duration {
        let current = self.closed_since.map(|since| {
            let end = match self.cooldown.end() {
                _ if !self.breaker.is_closed() => now,
                Some(end) => end.min(now),
                None => since,
            };
            end.saturating_duration_since(since)
        });
        self.closed_before
            .saturating_add(current.unwrap_or_default())
    }

    fn is_closed(&self, now: Instant) -> bool {
        !self.breaker.is_closed() || self.cooldown.until(now).is_some()
    }

    /// Adds up the time for which it was closed: before and after whatever may change that.
    fn account(&mut self, now: Instant) {
        self.closed_before = self.closed_for(now);
        self.closed_since = self.is_closed(now).then_some(now);
    }

    /// All there is to know, where that is so little. What was counted, and the time it was closed, is never forgotten.
    fn quiet(&self) -> Option<Quiet> {
        let is_over = self.trips == 0
            && self.probes == 0
            && self.closed_before.is_zero()
            && self.closed_since.is_none()
            && self.cooldown.end().is_none();
        if is_over { self.breaker.quiet() } else { None }
    }
}

impl From<Quiet> for Trouble {
    fn from(quiet: Quiet) -> Self {
        Self {
            breaker: Breaker::from(quiet),
            cooldown: Cooldown::default(),
            trips: 0,
            probes: 0,
            closed_before: Duration::ZERO,
            closed_since: None,
        }
    }
}

/// What metrics and operators see of a [`LoadControl`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The breaker.
    pub gate: Gate,
    /// How much longer the host has asked for peace.
    pub cooldown: Option<Duration>,
    /// How many may be in flight.
    pub limit: u32,
    /// Whether the limit grows back to what it was before an outage.
    pub is_ramping: bool,
    /// How many are in flight.
    pub in_flight: u32,
    /// What latency is measured against.
    pub baseline: Option<Duration>,
    /// How many retries may go.
    pub retry_tokens: u32,
    /// How often the breaker has tripped.
    pub trips: u32,
    /// How many probes went.
    pub probes: u32,
    /// For how long in all it was closed.
    pub closed_for: Duration,
}

/// What a restart carries over of a [`LoadControl`]. Times are relative to when it was written.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct State {
    version: u32,
    limit: f64,
    adaptive: Option<crate::adaptive::State>,
    held: bool,
    /// Seconds.
    open: Option<f64>,
    row: u32,
    openings: u32,
    /// Seconds.
    cooldown: Option<f64>,
    retry_tokens: u8,
    latency: Vec<(u16, u16)>,
}

/// A [`State`] of a version that this one cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownVersion(u32);

impl std::fmt::Display for UnknownVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "state has version {}, expected {VERSION}", self.0)
    }
}

impl std::error::Error for UnknownVersion {}

const VERSION: u32 = 1;
/// A call cancelled before says nothing.
const YOUNG: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;
    use crate::{AdaptiveSettings, origin};

    /// What a shell does: one queue, one timer.
    struct Shell {
        host: LoadControl,
        settings: Arc<LoadSettings>,
        random: SmallRng,
        now: Instant,
        waiting: u32,
        timer: Option<Instant>,
        /// With whether it has been settled, and whether it came before a trip.
        in_flight: VecDeque<(Admission, bool)>,
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arrive(u32),
        GiveUp,
        Settle(usize, Outcome),
        Release(usize),
        ReleaseAll,
        Hint(u64),
        Pass(u64),
        /// Until the timer fires, if it is set.
        Fire,
        Open,
        Close,
        Reset,
        Restart,
    }

    fn outcomes() -> impl Strategy<Value = Outcome> {
        prop_oneof![
            6 => (1u64..10_000).prop_map(|ms| Outcome::Success { latency: Some(Duration::from_millis(ms)) }),
            1 => Just(Outcome::Success { latency: None }),
            4 => any::<bool>().prop_map(|refused| Outcome::Unavailable { refused }),
            1 => Just(Outcome::Throttled),
            1 => Just(Outcome::Neutral),
            1 => (0u64..100).prop_map(|s| Outcome::Cancelled { after: Duration::from_secs(s) }),
        ]
    }

    fn steps() -> impl Strategy<Value = Step> {
        prop_oneof![
            20 => (1u32..30).prop_map(Step::Arrive),
            3 => Just(Step::GiveUp),
            40 => (0usize..100, outcomes()).prop_map(|(i, outcome)| Step::Settle(i, outcome)),
            40 => (0usize..100).prop_map(Step::Release),
            1 => Just(Step::ReleaseAll),
            2 => (0u64..1_000).prop_map(Step::Hint),
            20 => (0u64..3_000).prop_map(Step::Pass),
            1 => (0u64..100_000_000).prop_map(Step::Pass),
            10 => Just(Step::Fire),
            1 => Just(Step::Open),
            2 => Just(Step::Close),
            1 => Just(Step::Reset),
            1 => Just(Step::Restart),
        ]
    }

    fn settings() -> impl Strategy<Value = LoadSettings> {
        let limits = prop_oneof![
            Just(LimitSettings::Unlimited),
            (1u32..20).prop_map(LimitSettings::Fixed),
            (1u32..20, 1u32..20).prop_map(|(start, ceiling)| LimitSettings::Adaptive(
                AdaptiveSettings {
                    start,
                    ceiling,
                    ..AdaptiveSettings::default()
                }
            )),
        ];
        (limits, any::<bool>()).prop_map(|(limit, breaks)| LoadSettings {
            limit,
            breaker: breaks.then(BreakerSettings::default),
            ..LoadSettings::default()
        })
    }

    impl Shell {
        fn new(settings: LoadSettings) -> Self {
            let settings = Arc::new(settings);
            Self {
                host: LoadControl::new(Arc::clone(&settings)),
                settings,
                random: SmallRng::seed_from_u64(5),
                now: origin(),
                waiting: 0,
                timer: None,
                in_flight: VecDeque::new(),
            }
        }

        fn step(&mut self, step: Step) {
            match step {
                Step::Arrive(calls) => (0..calls).for_each(|_| self.arrive()),
                Step::GiveUp => self.waiting = self.waiting.saturating_sub(1),
                Step::Settle(index, outcome) if !self.in_flight.is_empty() => {
                    let index = index % self.in_flight.len();
                    let admission = &self.in_flight[index].0;
                    let is_stale = admission.generation != self.host.condition.generation();
                    let before = is_stale.then(|| format!("{:?}", self.host));
                    let next = self
                        .host
                        .settle(self.now, admission, outcome, &mut self.random);
                    if let Some(before) = before {
                        assert_eq!(before, format!("{:?}", self.host));
                    }
                    self.in_flight[index].1 = true;
                    self.go(next);
                }
                Step::Release(index) if !self.in_flight.is_empty() => {
                    let index = index % self.in_flight.len();
                    if let Some((admission, _)) = self.in_flight.remove(index) {
                        let next = self.host.release(self.now, admission);
                        self.go(next);
                    }
                }
                Step::ReleaseAll => {
                    while let Some((admission, _)) = self.in_flight.pop_back() {
                        let next = self.host.release(self.now, admission);
                        self.go(next);
                    }
                }
                Step::Settle(..) | Step::Release(_) => {}
                Step::Hint(seconds) => {
                    let hint = Duration::from_secs(seconds);
                    let next = self.host.hint(self.now, hint, &mut self.random);
                    self.go(next);
                }
                Step::Pass(ms) => {
                    self.now += Duration::from_millis(ms);
                    self.fire();
                }
                Step::Fire => {
                    self.now = self.timer.unwrap_or(self.now).max(self.now);
                    self.fire();
                }
                Step::Open => {
                    let next = self.host.open(self.now);
                    self.go(next);
                }
                Step::Close => {
                    let next = self.host.close(self.now);
                    self.go(next);
                }
                Step::Reset => {
                    let next = self.host.reset(self.now);
                    self.go(next);
                }
                Step::Restart => {
                    // The process ends: whatever was in flight or waited is gone with it.
                    let state = self.host.export(self.now);
                    let (settings, age) = (Arc::clone(&self.settings), Duration::ZERO);
                    self.host = LoadControl::import(settings, self.now, &state, age).unwrap();
                    self.in_flight.clear();
                    self.waiting = 0;
                    self.timer = None;
                }
            }
        }

        fn arrive(&mut self) {
            if self.waiting > 0 {
                self.waiting += 1;
                return;
            }
            match self.admit() {
                None => {}
                Some(wait) => {
                    self.waiting = 1;
                    self.timer = wait.until;
                }
            }
        }

        fn admit(&mut self) -> Option<Wait> {
            match self.host.admit(self.now) {
                Decision::Admit(admission) => {
                    self.in_flight.push_back((admission, false));
                    self.check_in_flight();
                    None
                }
                Decision::Wait(wait) => Some(wait),
            }
        }

        fn check_in_flight(&self) {
            let (last, _) = self.in_flight.back().unwrap();
            let limit = if last.is_probe {
                self.settings.limit.ceiling()
            } else {
                self.host.limiter.limit()
            };
            assert!(self.in_flight.len() <= limit as usize);
        }

        /// Goes by what it was told: nothing else wakes a waiting call.
        fn go(&mut self, next: Next) {
            self.timer = next.ask_at;
            let may_go = next.may_go.min(self.waiting);
            for _ in 0..may_go {
                assert_eq!(self.admit(), None, "told that it may go");
                self.waiting -= 1;
            }
            if may_go > 0 && self.waiting > 0 {
                self.timer = self.admit().expect("no more than it was told").until;
            }
        }

        fn fire(&mut self) {
            if self.timer.is_some_and(|at| at <= self.now) {
                let next = self.host.next(self.now);
                self.go(next);
            }
        }

        fn check(&mut self) {
            let limit = self.host.limiter.limit();
            assert!(
                (1..=self.settings.limit.ceiling()).contains(&limit),
                "{limit}"
            );
            assert_eq!(self.host.in_flight as usize, self.in_flight.len());
            if self.host.condition.gate(self.now) != Gate::Closed {
                let generation = self.host.condition.generation();
                let probes = self.in_flight.iter();
                let probes = probes.filter(|(a, _)| a.is_probe && a.generation == generation);
                assert!(probes.count() <= 1);
            }
            if self.waiting > 0 && self.timer.is_none_or(|at| at > self.now) {
                let next = self.host.next(self.now);
                let told = self.timer.is_some() || !self.in_flight.is_empty();
                assert_eq!(next.may_go, 0, "somebody may go and nobody was told");
                assert!(
                    told || self.host.export(self.now).held,
                    "nobody will ever be told"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
        #[test]
        fn no_sequence_of_events_breaks_a_law(settings in settings(), steps in prop::collection::vec(steps(), 1..300)) {
            let mut shell = Shell::new(settings);
            for step in steps {
                let (closed_for, now) = (shell.host.closed_for(shell.now), shell.now);
                let restarts = matches!(step, Step::Restart);
                shell.step(step);
                shell.check();
                if !restarts {
                    let closed = shell.host.closed_for(shell.now).checked_sub(closed_for);
                    prop_assert!(closed.is_some_and(|closed| closed <= shell.now - now));
                }
            }
        }

        #[test]
        fn state_that_nobody_wrote_is_no_harm(
            limit in any::<f64>(), baseline in any::<f64>(), samples in any::<f64>(), sigma in any::<f64>(), next in any::<f64>(),
            open in any::<Option<f64>>(), cooldown in any::<Option<f64>>(), row in any::<u32>(), openings in any::<u32>(),
            tokens in any::<u8>(), held in any::<bool>(), age in any::<u64>(), settings in settings(),
        ) {
            let state = State {
                version: VERSION, limit, held, open, row, openings, cooldown, retry_tokens: tokens, latency: vec![(row as u16, openings as u16)],
                adaptive: Some(crate::adaptive::State { baseline, samples, sigma, searching: held, next_measurement_in: next }),
            };
            let (settings, now) = (Arc::new(settings), origin());
            let host = LoadControl::import(Arc::clone(&settings), now, &state, Duration::from_secs(age)).unwrap();
            let limit = host.limiter.limit();
            prop_assert!((1..=settings.limit.ceiling()).contains(&limit));
            prop_assert!(held || host.next(now + Duration::from_secs(302)).may_go > 0);
            let mut shell = Shell::new((*settings).clone());
            shell.host = host;
            for _ in 0..200 {
                shell.step(Step::Arrive(1));
                shell.step(Step::Settle(0, Outcome::Success { latency: Some(Duration::from_secs(1)) }));
                shell.step(Step::Release(0));
                shell.step(Step::Pass(100));
                shell.check();
            }
        }
    }

    fn host(settings: LoadSettings) -> Shell {
        Shell::new(settings)
    }

    fn trip(shell: &mut Shell) {
        for _ in 0..5 {
            shell.step(Step::Arrive(1));
            shell.step(Step::Settle(0, Outcome::Unavailable { refused: true }));
            shell.step(Step::Release(0));
        }
        assert_ne!(shell.host.snapshot(shell.now).gate, Gate::Closed);
    }

    fn success() -> Outcome {
        Outcome::Success {
            latency: Some(Duration::from_secs(1)),
        }
    }

    fn fixed(limit: u32) -> LoadSettings {
        LoadSettings {
            limit: LimitSettings::Fixed(limit),
            ..LoadSettings::default()
        }
    }

    #[test]
    fn after_an_outage_the_limit_starts_at_half_and_grows_by_one_a_success() {
        let mut shell = host(fixed(16));
        trip(&mut shell);
        shell.step(Step::Arrive(100));
        shell.step(Step::Fire);
        assert_eq!(shell.in_flight.len(), 1, "the probe");
        shell.step(Step::Settle(0, success()));
        for limit in 9..=16 {
            assert_eq!(shell.host.limiter.limit(), limit);
            assert_eq!(shell.in_flight.len(), limit as usize);
            let current = shell.in_flight.len() - 1;
            shell.step(Step::Settle(current, success()));
            shell.step(Step::Release(current));
        }
        assert!(!shell.host.snapshot(shell.now).is_ramping);
    }

    #[test]
    fn an_outage_without_a_limit_does_not_end_in_a_herd() {
        let mut shell = host(LoadSettings {
            limit: LimitSettings::Unlimited,
            ..LoadSettings::default()
        });
        shell.step(Step::Arrive(20));
        shell.step(Step::Settle(0, success()));
        shell.step(Step::ReleaseAll);
        trip(&mut shell);
        shell.step(Step::Arrive(10_000));
        shell.step(Step::Fire);
        shell.step(Step::Settle(0, success()));
        assert_eq!(
            shell.in_flight.len(),
            11,
            "half of the 20 before, and one for the probe"
        );
    }

    #[test]
    fn a_second_outage_during_the_ramp_does_not_halve_what_is_remembered() {
        let mut shell = host(fixed(16));
        for _ in 0..3 {
            trip(&mut shell);
            shell.step(Step::Arrive(1));
            shell.step(Step::Fire);
            shell.step(Step::Settle(0, success()));
            shell.step(Step::ReleaseAll);
            assert_eq!(shell.host.limiter.limit(), 9);
        }
    }

    #[test]
    fn a_cooldown_holds_everybody_and_leaves_the_limit_alone() {
        let mut shell = host(fixed(16));
        shell.step(Step::Hint(30));
        shell.step(Step::Arrive(20));
        assert_eq!(shell.in_flight.len(), 0);
        let wait = shell.admit().unwrap();
        assert_eq!(wait.reason, Reason::Cooldown);
        shell.step(Step::Fire);
        assert_eq!(shell.in_flight.len(), 16);
        assert_eq!(
            shell.admit().unwrap(),
            Wait {
                reason: Reason::Limit,
                until: None
            }
        );
    }

    #[test]
    fn a_hint_longer_than_its_clamp_is_clamped() {
        let mut shell = host(fixed(16));
        shell.step(Step::Hint(86_400));
        let wait = shell.admit().unwrap().until.unwrap() - shell.now;
        assert!(wait >= Duration::from_secs(300) && wait <= Duration::from_millis(300_500));
    }

    #[test]
    fn a_call_cancelled_young_says_nothing_and_one_overdue_counts_as_unavailable() {
        let cancelled = |seconds| Outcome::Cancelled {
            after: Duration::from_secs(seconds),
        };
        for (latency, after, trips) in [(1, 30, 0), (1, 31, 1), (60, 115, 0), (60, 130, 1)] {
            let mut shell = host(fixed(16));
            let latency = Some(Duration::from_secs(latency));
            shell.step(Step::Arrive(1));
            shell.step(Step::Settle(0, Outcome::Success { latency }));
            shell.step(Step::Release(0));
            shell.step(Step::Pass(3_000));
            for _ in 0..5 {
                shell.step(Step::Arrive(1));
                shell.step(Step::Settle(0, cancelled(after)));
                shell.step(Step::Release(0));
            }
            assert_eq!(
                shell.host.snapshot(shell.now).trips,
                trips,
                "{after} s with a p99 of {latency:?}"
            );
        }
    }

    #[test]
    fn a_probe_released_without_a_word_is_lost_and_the_next_one_goes() {
        let mut shell = host(fixed(16));
        trip(&mut shell);
        shell.step(Step::Arrive(3));
        shell.step(Step::Fire);
        for _ in 0..3 {
            assert_eq!(shell.in_flight.len(), 1);
            assert!(shell.in_flight[0].0.is_probe());
            shell.step(Step::Release(0));
        }
    }

    #[test]
    fn calls_that_hang_do_not_keep_the_probe_from_going() {
        let mut shell = host(LoadSettings::default());
        shell.step(Step::Arrive(4));
        (0..4).for_each(|_| shell.step(Step::Settle(0, Outcome::Unavailable { refused: true })));
        shell.step(Step::Settle(0, Outcome::Unavailable { refused: true }));
        shell.step(Step::Arrive(1));
        shell.step(Step::Fire);
        assert_eq!(shell.in_flight.len(), 5);
    }

    #[test]
    fn the_time_it_was_closed_is_told() {
        let mut shell = host(fixed(16));
        let second = Duration::from_secs(1);
        shell.step(Step::Hint(10));
        shell.now += 5 * second;
        assert_eq!(shell.host.closed_for(shell.now), 5 * second);
        shell.now += 95 * second;
        let closed = shell.host.closed_for(shell.now);
        assert!(closed >= 10 * second && closed <= 11 * second);
        trip(&mut shell);
        shell.now += 100 * second;
        shell.step(Step::Arrive(1));
        shell.step(Step::Settle(0, success()));
        shell.now += 100 * second;
        assert_eq!(shell.host.closed_for(shell.now), closed + 100 * second);
    }

    #[test]
    fn an_operator_opens_closes_and_resets() {
        let mut shell = host(fixed(16));
        shell.step(Step::Open);
        shell.step(Step::Arrive(20));
        assert_eq!(
            shell.admit().unwrap(),
            Wait {
                reason: Reason::Held,
                until: None
            }
        );
        shell.step(Step::Close);
        assert_eq!(shell.in_flight.len(), 8, "as after a probe");
        shell.step(Step::Reset);
        assert_eq!(shell.in_flight.len(), 16);
        shell.step(Step::Settle(0, Outcome::Unavailable { refused: true }));
        assert_eq!(
            shell.host.export(shell.now).row,
            0,
            "what was sent before is forgotten"
        );
    }

    #[test]
    fn a_restart_goes_on_where_the_other_process_stopped() {
        let mut shell = host(LoadSettings::default());
        for _ in 0..400 {
            shell.step(Step::Arrive(20));
            shell.step(Step::Pass(100));
            shell.step(Step::Settle(0, success()));
            shell.step(Step::Release(0));
        }
        let limit = shell.host.limiter.limit();
        assert!(limit > 4);
        trip(&mut shell);
        let before = shell.host.export(shell.now);
        assert_eq!(before.limit as u32, limit);
        let age = Duration::from_secs(1);
        let later = shell.now + age;
        let host = LoadControl::import(Arc::clone(&shell.settings), later, &before, age).unwrap();
        let mut after = host.export(later);
        let open = |state: &State| state.open.unwrap();
        assert!((open(&before) - open(&after) - 1.0).abs() < 1e-3);
        after.open = before.open;
        let (a, b) = (
            before.adaptive.as_ref().unwrap(),
            after.adaptive.as_ref().unwrap(),
        );
        assert!((a.baseline / b.baseline - 1.0).abs() < 1e-9);
        after.adaptive = before.adaptive.clone();
        assert_eq!(before, after);
    }

    #[test]
    fn state_of_another_version_is_refused() {
        let shell = host(LoadSettings::default());
        let mut state = shell.host.export(shell.now);
        state.version = 2;
        let error = LoadControl::import(shell.settings, shell.now, &state, Duration::ZERO);
        assert_eq!(
            error.unwrap_err().to_string(),
            "state has version 2, expected 1"
        );
    }

    #[cfg(feature = "serde")]
    #[test]
    fn state_survives_a_file() {
        let mut shell = host(LoadSettings::default());
        shell.step(Step::Arrive(1));
        shell.step(Step::Settle(0, success()));
        let state = shell.host.export(shell.now);
        let json = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<State>(&json).unwrap(), state);
    }

    #[test]
    fn a_host_that_failed_and_did_not_trip_is_as_small_as_before_once_it_succeeds() {
        let mut shell = host(LoadSettings::default());
        let is_well = |shell: &Shell| matches!(shell.host.condition, Condition::Well(_));
        for _ in 0..2 {
            shell.step(Step::Arrive(2));
            shell.step(Step::Settle(0, Outcome::Unavailable { refused: true }));
            assert!(!is_well(&shell), "a row has begun");
            shell.step(Step::Settle(1, success()));
            assert!(is_well(&shell));
            shell.step(Step::ReleaseAll);
        }
        for order in [Step::Hint(0), Step::Close, Step::Reset, Step::Restart] {
            shell.step(order);
            assert!(is_well(&shell));
        }
    }

    #[test]
    fn what_was_counted_outlives_the_outage() {
        let mut shell = host(fixed(1));
        trip(&mut shell);
        shell.step(Step::Arrive(1));
        shell.step(Step::Fire);
        for step in [Step::Settle(0, success()), Step::Reset, Step::Close] {
            shell.step(step);
            let seen = shell.host.snapshot(shell.now);
            assert_eq!((seen.gate, seen.trips, seen.probes), (Gate::Closed, 1, 1));
            assert!(seen.closed_for >= Duration::from_secs(3));
        }
        let mut closed_at_once = host(fixed(1));
        trip(&mut closed_at_once);
        closed_at_once.step(Step::Close);
        assert_eq!(closed_at_once.host.snapshot(closed_at_once.now).trips, 1);
    }

    #[test]
    fn a_host_takes_at_most_72_bytes_while_all_is_well() {
        const { assert!(size_of::<LoadControl>() <= 72) };
    }
}
