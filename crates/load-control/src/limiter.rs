use std::time::{Duration, Instant};

use crate::adaptive::{Adaptive, AdaptiveSettings};

/// How many calls may be in flight at one host.
///
/// What it was before an outage it remembers: when the host is back, the limit starts at half of that and grows by one a
/// success until it is there (a ramp in time would only cost throughput). That holds for a fixed limit too, and where
/// there is no limit, for as many as were in flight before.
#[derive(Clone, Debug)]
pub struct Limiter {
    limit: f64,
    /// The limit at the last success: before the failures that tripped the breaker.
    remembered: f64,
    /// `None` while nothing moves the limit.
    moving: Option<Box<Moving>>,
}

/// What moves a limit. Most hosts never ramp, and many have not been called yet.
#[derive(Clone, Debug, Default)]
struct Moving {
    /// Where a ramp ends; 0 where there is none.
    ramp_end: f64,
    /// Made at the first success.
    adaptive: Option<Adaptive>,
}

/// How the limit of a [`Limiter`] comes about.
#[derive(Clone, Debug, PartialEq)]
pub enum LimitSettings {
    /// No limit.
    Unlimited,
    /// So many, at least 1.
    Fixed(u32),
    /// As many as the host can bear, found from its latency.
    Adaptive(AdaptiveSettings),
}

impl LimitSettings {
    /// What is never exceeded.
    #[inline]
    pub fn ceiling(&self) -> u32 {
        match self {
            Self::Unlimited => u32::MAX,
            Self::Fixed(limit) => (*limit).max(1),
            Self::Adaptive(settings) => settings.ceiling.max(1),
        }
    }

    fn start(&self) -> f64 {
        match self {
            Self::Adaptive(settings) => settings.start(),
            _ => f64::from(self.ceiling()),
        }
    }
}

impl Limiter {
    /// The limit that it starts with.
    pub fn new(settings: &LimitSettings) -> Self {
        let limit = settings.start();
        Self {
            limit,
            remembered: limit,
            moving: None,
        }
    }

    /// What it goes by from now on: a limit that was learnt stays, within the new ceiling.
    pub fn set_settings(&mut self, settings: &LimitSettings) {
        match settings {
            LimitSettings::Adaptive(_) if self.adaptive().is_some() => {
                let ceiling = f64::from(settings.ceiling());
                self.limit = self.limit.min(ceiling);
                self.remembered = self.remembered.min(ceiling);
                if let Some(moving) = &mut self.moving {
                    moving.ramp_end = moving.ramp_end.min(ceiling);
                }
            }
            _ => *self = Self::new(settings),
        }
    }

    /// How many may be in flight, at least 1.
    #[inline]
    pub fn limit(&self) -> u32 {
        self.limit.max(1.0) as u32
    }

    /// The same with its fraction.
    pub fn exact(&self) -> f64 {
        self.limit
    }

    /// Whether it grows back to what it was before an outage.
    pub fn is_ramping(&self) -> bool {
        self.ramp_end() > 0.0
    }

    /// What it measures latency against; `None` where it does not or not yet.
    pub fn baseline(&self) -> Option<Duration> {
        self.adaptive().and_then(|adaptive| adaptive.baseline())
    }

    /// A call has succeeded. `latency`: how long it took, where that says something about the host; `in_flight`: how many
    /// were, this one included.
    pub fn succeeded(
        &mut self,
        now: Instant,
        latency: Option<Duration>,
        in_flight: u32,
        settings: &LimitSettings,
    ) {
        let at_rest = self.adaptive().and_then(|a| a.at_rest());
        self.remembered = match settings {
            LimitSettings::Unlimited => f64::from(in_flight),
            _ => at_rest.unwrap_or(self.limit),
        };
        let ramp_end = self.ramp_end();
        if ramp_end > 0.0 {
            self.limit += 1.0;
            if self.limit >= ramp_end {
                self.end_ramp(settings);
            }
        }
        if let (LimitSettings::Adaptive(settings), Some(latency)) = (settings, latency) {
            let moving = self.moving.get_or_insert_default();
            let adaptive = moving
                .adaptive
                .get_or_insert_with(|| Adaptive::new(now, settings));
            let ramping = moving.ramp_end > 0.0;
            let limit = adaptive.succeeded(now, latency, in_flight, self.limit, ramping, settings);
            if ramping && limit < self.limit {
                moving.ramp_end = 0.0;
            }
            self.limit = limit;
        }
    }

    /// The host could not serve a call, though it is not known to be down.
    pub fn overloaded(&mut self, now: Instant, settings: &LimitSettings) {
        if let LimitSettings::Adaptive(settings) = settings {
            let moving = self.moving.get_or_insert_default();
            let adaptive = moving
                .adaptive
                .get_or_insert_with(|| Adaptive::new(now, settings));
            if let Some(limit) = adaptive.overloaded(now, self.limit) {
                self.limit = limit;
                moving.ramp_end = 0.0;
            }
        }
    }

    /// The breaker has tripped: nothing is learnt until it closes.
    pub fn freeze(&mut self) {
        let moving = self.moving.get_or_insert_default();
        if let Some(resumed) = moving
            .adaptive
            .as_mut()
            .and_then(|a| a.abandon_measurement())
        {
            self.limit = resumed;
        }
        if moving.ramp_end == 0.0 {
            moving.ramp_end = self.remembered.max(1.0);
        }
    }

    /// The breaker has closed: the ramp begins.
    pub fn thaw(&mut self, now: Instant, settings: &LimitSettings) {
        let moving = self.moving.get_or_insert_default();
        if moving.ramp_end == 0.0 {
            moving.ramp_end = self.remembered.max(1.0);
        }
        let ramp_end = moving.ramp_end;
        self.limit = (ramp_end / 2.0).max(2.0).min(ramp_end.max(1.0));
        if let (LimitSettings::Adaptive(settings), Some(adaptive)) =
            (settings, &mut moving.adaptive)
        {
            adaptive.restart(now, settings);
        }
        if self.limit >= ramp_end {
            self.end_ramp(settings);
        }
    }

    pub(crate) fn export(&self, now: Instant) -> (f64, Option<crate::adaptive::State>) {
        let at_rest = self.adaptive().and_then(|a| a.at_rest());
        let limit = if self.is_ramping() {
            self.ramp_end()
        } else {
            at_rest.unwrap_or(self.limit)
        };
        (limit, self.adaptive().and_then(|a| a.export(now)))
    }

    pub(crate) fn import(
        now: Instant,
        limit: f64,
        state: Option<&crate::adaptive::State>,
        frozen: bool,
        settings: &LimitSettings,
    ) -> Self {
        let mut limiter = Self::new(settings);
        if let LimitSettings::Adaptive(adaptive) = settings
            && limit.is_finite()
        {
            limiter.limit = limit.clamp(1.0, f64::from(settings.ceiling()));
            limiter.remembered = limiter.limit;
            limiter.moving = state
                .and_then(|state| Adaptive::import(now, state, adaptive))
                .map(|adaptive| {
                    Box::new(Moving {
                        ramp_end: 0.0,
                        adaptive: Some(adaptive),
                    })
                });
        }
        if frozen {
            limiter.freeze();
        }
        limiter
    }

    fn end_ramp(&mut self, settings: &LimitSettings) {
        self.limit = match settings {
            LimitSettings::Adaptive(_) => self.ramp_end().min(f64::from(settings.ceiling())),
            _ => f64::from(settings.ceiling()),
        };
        match &mut self.moving {
            Some(moving) if moving.adaptive.is_some() => moving.ramp_end = 0.0,
            moving => *moving = None,
        }
    }

    fn ramp_end(&self) -> f64 {
        self.moving.as_ref().map_or(0.0, |moving| moving.ramp_end)
    }

    fn adaptive(&self) -> Option<&Adaptive> {
        self.moving.as_ref()?.adaptive.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::origin;

    /// Calls that are always as many as may be in flight, and take as long as `slowness` of that number says, with the
    /// spread of a render server.
    struct Load {
        limiter: Limiter,
        settings: LimitSettings,
        random: SmallRng,
        now: Instant,
    }

    impl Load {
        fn new(settings: AdaptiveSettings, seed: u64) -> Self {
            let settings = LimitSettings::Adaptive(settings);
            Self {
                limiter: Limiter::new(&settings),
                settings,
                random: SmallRng::seed_from_u64(seed),
                now: origin(),
            }
        }

        /// The mean limit over the second half.
        fn run(&mut self, calls: u32, slowness: impl Fn(f64) -> f64) -> f64 {
            let mut sum = 0.0;
            for call in 0..calls {
                let in_flight = self.limiter.limit();
                let (u, v): (f64, f64) = (self.random.random(), self.random.random());
                let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
                let seconds = 3.0 * slowness(f64::from(in_flight)) * (0.8 * normal - 0.32).exp();
                let between = 3.0 * slowness(f64::from(in_flight)) / f64::from(in_flight);
                self.now += Duration::from_secs_f64(between);
                let latency = Some(Duration::from_secs_f64(seconds));
                self.limiter
                    .succeeded(self.now, latency, in_flight, &self.settings);
                if call >= calls / 2 {
                    sum += f64::from(self.limiter.limit());
                }
            }
            sum / f64::from(calls - calls / 2)
        }
    }

    fn sixteen_cores(in_flight: f64) -> f64 {
        (in_flight / 16.0).max(1.0) * (1.0 + 0.02 * (in_flight - 16.0).max(0.0))
    }

    #[test]
    fn the_limit_of_a_server_that_slows_down_under_load_is_found() {
        for seed in 0..10 {
            for start in [4, 16, 48] {
                let settings = AdaptiveSettings {
                    start,
                    ..AdaptiveSettings::default()
                };
                let limit = Load::new(settings, seed).run(20_000, sixteen_cores);
                assert!(
                    (12.0..24.0).contains(&limit),
                    "{limit} from {start}, seed {seed}"
                );
            }
        }
    }

    #[test]
    fn requests_that_differ_in_cost_do_not_shrink_the_limit() {
        for seed in 0..10 {
            let limit = Load::new(AdaptiveSettings::default(), seed).run(20_000, |_| 1.0);
            assert!(limit > 50.0, "{limit}, seed {seed}");
        }
    }

    #[test]
    fn noise_does_not_end_the_search() {
        let found = |seed| Load::new(AdaptiveSettings::default(), seed).run(1_500, |_| 1.0);
        let low = (0..300).filter(|seed| found(*seed) < 24.0).count();
        assert!(low <= 3, "{low} of 300");
    }

    #[test]
    fn a_service_that_became_slower_is_no_overload() {
        for seed in 0..10 {
            let settings = AdaptiveSettings {
                measure_every: Duration::from_secs(1_000_000),
                ..AdaptiveSettings::default()
            };
            let mut load = Load::new(settings, seed);
            load.run(3_000, |_| 1.0);
            let limit = load.run(10_000, |_| 4.0);
            assert!(limit > 30.0, "{limit}, seed {seed}");
        }
    }

    #[test]
    fn a_limit_with_a_fraction_is_used_to_the_full_by_whole_calls() {
        for limit in [1.3, 1.95, 2.69, 2.95, 3.9] {
            let settings = AdaptiveSettings {
                measure_every: Duration::from_secs(1_000_000),
                ..AdaptiveSettings::default()
            };
            let mut load = Load::new(settings, 3);
            let state = crate::adaptive::State {
                baseline: 3.0 * (-0.32f64).exp(),
                samples: 1_000.0,
                sigma: 0.8,
                searching: false,
                next_measurement_in: 1_000_000.0,
            };
            load.limiter = Limiter::import(load.now, limit, Some(&state), false, &load.settings);
            let found = load.run(2_000, |_| 1.0);
            assert!(found > 8.0, "{found} from {limit}");
        }
    }

    #[test]
    fn overload_cuts_once_in_five_seconds_and_never_below_one() {
        let settings = AdaptiveSettings {
            start: 10,
            ..AdaptiveSettings::default()
        };
        let mut load = Load::new(settings, 1);
        let second = Duration::from_secs(1);
        for _ in 0..5 {
            load.limiter.overloaded(load.now, &load.settings);
            load.now += second;
            assert_eq!(load.limiter.limit(), 7);
        }
        load.now += second;
        load.limiter.overloaded(load.now, &load.settings);
        assert!((load.limiter.exact() - 4.9).abs() < 1e-9);
        for _ in 0..100 {
            load.now += 6 * second;
            load.limiter.overloaded(load.now, &load.settings);
        }
        assert_eq!(load.limiter.limit(), 1);
    }

    #[test]
    fn answers_that_say_nothing_about_speed_change_nothing() {
        let mut load = Load::new(AdaptiveSettings::default(), 1);
        (0..1_000).for_each(|_| load.limiter.succeeded(load.now, None, 4, &load.settings));
        assert_eq!(load.limiter.limit(), 4);
        assert_eq!(load.limiter.baseline(), None);
    }

    #[test]
    fn the_baseline_is_measured_at_half_the_limit_in_step_with_other_processes() {
        let step = origin();
        let settings = AdaptiveSettings {
            start: 16,
            ceiling: 16,
            measure_in_step_with: Some(step),
            ..AdaptiveSettings::default()
        };
        let mut load = Load::new(settings, 1);
        load.now += Duration::from_secs(250);
        let mut measured = Vec::new();
        while load.now < step + Duration::from_secs(3_000) {
            let before = load.limiter.exact();
            load.run(1, sixteen_cores);
            if load.limiter.exact() <= before / 2.0 {
                measured.push((load.now - step).as_secs());
            }
        }
        assert_eq!(measured.len(), 4, "{measured:?}");
        for (at, due) in measured.iter().zip([600, 1_200, 1_800, 2_400]) {
            assert!((due..due + 40).contains(at), "{measured:?}");
        }
    }

    #[test]
    fn an_outage_during_a_measurement_does_not_halve_what_is_remembered() {
        let mut load = Load::new(
            AdaptiveSettings {
                start: 16,
                ceiling: 16,
                ..AdaptiveSettings::default()
            },
            1,
        );
        while load.limiter.exact() > 8.0 {
            load.run(1, sixteen_cores);
        }
        load.run(1, sixteen_cores);
        load.limiter.freeze();
        load.limiter.thaw(load.now, &load.settings);
        assert!(load.limiter.ramp_end() > 12.0);
        assert_eq!(load.limiter.adaptive().unwrap().at_rest(), None);
    }

    #[test]
    fn a_ramp_leaves_nothing_behind_where_nothing_is_learnt() {
        let settings = LimitSettings::Fixed(4);
        let mut limiter = Limiter::new(&settings);
        limiter.freeze();
        limiter.thaw(origin(), &settings);
        (0..2).for_each(|_| {
            assert!(limiter.is_ramping());
            limiter.succeeded(origin(), None, 1, &settings);
        });
        assert_eq!(limiter.limit(), 4);
        assert!(limiter.moving.is_none());
    }

    #[test]
    fn what_was_learnt_outlives_a_ramp() {
        let mut load = Load::new(AdaptiveSettings::default(), 1);
        load.run(500, |_| 1.0);
        let baseline = load.limiter.baseline();
        assert!(baseline.is_some());
        load.limiter.freeze();
        load.limiter.thaw(load.now, &load.settings);
        while load.limiter.is_ramping() {
            load.limiter.succeeded(load.now, None, 1, &load.settings);
        }
        assert_eq!(load.limiter.baseline(), baseline);
    }
}
