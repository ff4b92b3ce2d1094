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
    /// Where a ramp ends; 0 where there is none.
    ramp_end: f64,
    /// Made at the first success.
    adaptive: Option<Box<Adaptive>>,
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
            ramp_end: 0.0,
            adaptive: None,
        }
    }

    /// How many may be in flight, at least 1.
    pub fn limit(&self) -> u32 {
        self.limit.max(1.0) as u32
    }

    /// The same with its fraction.
    pub fn exact(&self) -> f64 {
        self.limit
    }

    /// Whether it grows back to what it was before an outage.
    pub fn is_ramping(&self) -> bool {
        self.ramp_end > 0.0
    }

    /// What it measures latency against; `None` where it does not or not yet.
    pub fn baseline(&self) -> Option<Duration> {
        self.adaptive
            .as_ref()
            .and_then(|adaptive| adaptive.baseline())
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
        let at_rest = self.adaptive.as_ref().and_then(|a| a.at_rest());
        self.remembered = match settings {
            LimitSettings::Unlimited => f64::from(in_flight),
            _ => at_rest.unwrap_or(self.limit),
        };
        if self.ramp_end > 0.0 {
            self.limit += 1.0;
            if self.limit >= self.ramp_end {
                self.end_ramp(settings);
            }
        }
        if let (LimitSettings::Adaptive(settings), Some(latency)) = (settings, latency) {
            let adaptive = self
                .adaptive
                .get_or_insert_with(|| Box::new(Adaptive::new(now, settings)));
            let ramping = self.ramp_end > 0.0;
            let limit = adaptive.succeeded(now, latency, in_flight, self.limit, ramping, settings);
            if ramping && limit < self.limit {
                self.ramp_end = 0.0;
            }
            self.limit = limit;
        }
    }

    /// The host could not serve a call, though it is not known to be down.
    pub fn overloaded(&mut self, now: Instant, settings: &LimitSettings) {
        if let LimitSettings::Adaptive(settings) = settings {
            let adaptive = self
                .adaptive
                .get_or_insert_with(|| Box::new(Adaptive::new(now, settings)));
            if let Some(limit) = adaptive.overloaded(now, self.limit) {
                self.limit = limit;
                self.ramp_end = 0.0;
            }
        }
    }

    /// The breaker has tripped: nothing is learnt until it closes.
    pub fn freeze(&mut self) {
        if let Some(resumed) = self.adaptive.as_mut().and_then(|a| a.abandon_measurement()) {
            self.limit = resumed;
        }
        if self.ramp_end == 0.0 {
            self.ramp_end = self.remembered.max(1.0);
        }
    }

    /// The breaker has closed: the ramp begins.
    pub fn thaw(&mut self, now: Instant, settings: &LimitSettings) {
        if self.ramp_end == 0.0 {
            self.ramp_end = self.remembered.max(1.0);
        }
        self.limit = (self.ramp_end / 2.0).max(2.0).min(self.ramp_end.max(1.0));
        if let (LimitSettings::Adaptive(settings), Some(adaptive)) = (settings, &mut self.adaptive)
        {
            adaptive.restart(now, settings);
        }
        if self.limit >= self.ramp_end {
            self.end_ramp(settings);
        }
    }

    pub(crate) fn export(&self, now: Instant) -> (f64, Option<crate::adaptive::State>) {
        let at_rest = self.adaptive.as_ref().and_then(|a| a.at_rest());
        let limit = if self.ramp_end > 0.0 {
            self.ramp_end
        } else {
            at_rest.unwrap_or(self.limit)
        };
        (limit, self.adaptive.as_ref().and_then(|a| a.export(now)))
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
            limiter.adaptive = state
                .and_then(|state| Adaptive::import(now, state, adaptive))
                .map(Box::new);
        }
        if frozen {
            limiter.freeze();
        }
        limiter
    }

    fn end_ramp(&mut self, settings: &LimitSettings) {
        self.limit = match settings {
            LimitSettings::Adaptive(_) => self.ramp_end.min(f64::from(settings.ceiling())),
            _ => f64::from(settings.ceiling()),
        };
        self.ramp_end = 0.0;
    }
}
