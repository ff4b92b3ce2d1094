use std::time::{Duration, Instant};

/// What an adaptive limit goes by.
///
/// The signal is the geometric mean of a window of latencies against a baseline; never a minimum, which collapses where
/// requests differ in what they cost. The baseline is measured anew every ten minutes at half the limit, since under load
/// it would drift upwards.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptiveSettings {
    /// The limit that it starts with. 4 by default.
    pub start: u32,
    /// What it never exceeds. 64 by default; the number of the server's cores where that is known. Too high costs
    /// little, half of what the server can bear costs half of its throughput.
    pub ceiling: u32,
    /// How much longer than the baseline calls may take. 1.15 by default.
    pub tolerance: f64,
    /// How often the baseline is measured anew. 600 s by default.
    pub measure_every: Duration,
    /// An instant at which a measurement is due: where several processes call one host and this is, in each of them, the
    /// last full ten minutes of the wall clock, they measure together, and none of them under the load of the others.
    pub measure_in_step_with: Option<Instant>,
}

impl Default for AdaptiveSettings {
    fn default() -> Self {
        Self {
            start: 4,
            ceiling: 64,
            tolerance: 1.15,
            measure_every: Duration::from_secs(600),
            measure_in_step_with: None,
        }
    }
}

impl AdaptiveSettings {
    pub(crate) fn start(&self) -> f64 {
        f64::from(self.start.clamp(1, self.ceiling.max(1)))
    }

    fn next_measurement(&self, now: Instant) -> Instant {
        let every = self.measure_every.max(Duration::from_secs(1));
        let since = self
            .measure_in_step_with
            .map_or(Duration::ZERO, |begin| now.saturating_duration_since(begin));
        let into = Duration::from_nanos((since.as_nanos() % every.as_nanos()) as u64);
        now.checked_add(every - into).unwrap_or(now)
    }
}

/// The state of an adaptive limit, except the limit itself.
#[derive(Clone, Debug)]
pub(crate) struct Adaptive {
    phase: Phase,
    baseline: Option<Baseline>,
    window: Window,
    /// Completions left out before the first window: the first to come are the short ones.
    warm_up: u32,
    /// Nothing is measured before: what comes soon after the limit was raised is short, after it was cut, old.
    skip_until: Instant,
    next_measurement: Instant,
    last_cut: Option<Instant>,
    /// Where latency does not follow a limit that shrinks, the service itself has become slower.
    shrinking: Option<Shrinking>,
    /// Windows in a row in which there was room to grow.
    roomy: u32,
    /// Running variance of the logarithm of a latency.
    variance: f64,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// The limit grows by half a window until latency follows.
    Search(Search),
    Steady,
    /// At half the limit.
    Measure {
        resume: f64,
        began: Instant,
        from: Option<Instant>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Search {
    Confident,
    /// The last window says that latency follows, but not clearly: it goes on until it has twice as many samples.
    InDoubt,
    /// Latency seemed to follow, but the baseline stood for few samples: at the limit of before, what comes is more of them.
    Retreated,
}

#[derive(Clone, Copy, Debug)]
struct Baseline {
    /// Natural logarithm of seconds.
    ln: f64,
    /// How many samples it stands for.
    samples: f64,
}

#[derive(Clone, Copy, Debug)]
struct Shrinking {
    from: f64,
    worst: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    count: u32,
    sum: f64,
    squares: f64,
}

/// What a restart carries over.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct State {
    /// Seconds.
    pub(crate) baseline: f64,
    pub(crate) samples: f64,
    pub(crate) sigma: f64,
    pub(crate) searching: bool,
    /// Seconds.
    pub(crate) next_measurement_in: f64,
}

impl Adaptive {
    pub(crate) fn new(now: Instant, settings: &AdaptiveSettings) -> Self {
        Self {
            phase: Phase::Search(Search::Confident),
            baseline: None,
            window: Window::default(),
            warm_up: 0,
            skip_until: now,
            next_measurement: settings.next_measurement(now),
            last_cut: None,
            shrinking: None,
            roomy: 0,
            variance: SIGMA * SIGMA,
        }
    }

    pub(crate) fn baseline(&self) -> Option<Duration> {
        let seconds = self.baseline?.ln.exp();
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// The limit outside of a measurement, while there is one.
    pub(crate) fn at_rest(&self) -> Option<f64> {
        match self.phase {
            Phase::Measure { resume, .. } => Some(resume),
            _ => None,
        }
    }

    /// The new limit.
    pub(crate) fn succeeded(
        &mut self,
        now: Instant,
        latency: Duration,
        in_flight: u32,
        limit: f64,
        ramping: bool,
        settings: &AdaptiveSettings,
    ) -> f64 {
        let ln = latency.max(SHORTEST).as_secs_f64().ln();
        if let Phase::Measure {
            resume,
            began,
            from,
        } = self.phase
        {
            return self.measure(now, ln, in_flight, limit, (resume, began, from), settings);
        }
        if now < self.skip_until && !ramping {
            return limit;
        }
        if self.baseline.is_none() && f64::from(self.warm_up) < 1.5 * limit.max(8.0) {
            self.warm_up += 1;
            return limit;
        }
        self.window.add(ln);
        let wanted = if ramping || self.baseline.is_none() || matches!(self.phase, Phase::Search(_))
        {
            (2.0 * limit).clamp(16.0, 96.0)
        } else {
            (3.0 * limit).clamp(24.0, 128.0)
        };
        let in_doubt = matches!(self.phase, Phase::Search(Search::InDoubt));
        if self.window.count < wanted as u32 * (1 + u32::from(in_doubt)) {
            return limit;
        }
        let window = std::mem::take(&mut self.window);
        self.variance += VARIANCE_STEP * (window.variance() - self.variance);
        let ceiling = f64::from(settings.ceiling.max(1));
        let limit = match self.phase {
            Phase::Search(search) if !ramping => {
                self.search(now, window, search, limit, ceiling, settings)
            }
            _ => self.steer(now, &window, in_flight, limit, ceiling, ramping, settings),
        };
        if !ramping && !matches!(self.phase, Phase::Search(_)) && now >= self.next_measurement {
            self.phase = Phase::Measure {
                resume: limit,
                began: now,
                from: None,
            };
            return (limit / 2.0).max(1.0);
        }
        limit
    }

    /// The new limit, where it is cut.
    pub(crate) fn overloaded(&mut self, now: Instant, limit: f64) -> Option<f64> {
        let recently = |cut: Instant| now.saturating_duration_since(cut) <= BETWEEN_CUTS;
        if self.last_cut.is_some_and(recently) {
            return None;
        }
        self.last_cut = Some(now);
        let limit = match self.abandon_measurement() {
            Some(resumed) => {
                self.next_measurement = now + AFTER_ABANDONED;
                resumed
            }
            None => limit,
        };
        Some((limit * CUT).max(1.0))
    }

    /// The limit to resume with, where there was a measurement.
    pub(crate) fn abandon_measurement(&mut self) -> Option<f64> {
        let resume = self.at_rest()?;
        self.phase = Phase::Steady;
        self.window = Window::default();
        Some(resume)
    }

    /// After an outage.
    pub(crate) fn restart(&mut self, now: Instant, settings: &AdaptiveSettings) {
        self.window = Window::default();
        self.skip_until = now;
        self.next_measurement = settings.next_measurement(now);
    }

    pub(crate) fn export(&self, now: Instant) -> Option<State> {
        let baseline = self.baseline?;
        Some(State {
            baseline: baseline.ln.exp(),
            samples: baseline.samples,
            sigma: self.variance.sqrt(),
            searching: matches!(self.phase, Phase::Search(_)),
            next_measurement_in: self
                .next_measurement
                .saturating_duration_since(now)
                .as_secs_f64(),
        })
    }

    pub(crate) fn import(now: Instant, state: &State, settings: &AdaptiveSettings) -> Option<Self> {
        let ln = state.baseline.ln();
        if !ln.is_finite() {
            return None;
        }
        let phase = if state.searching {
            Phase::Search(Search::Confident)
        } else {
            Phase::Steady
        };
        let due = settings.next_measurement(now);
        let left = Duration::try_from_secs_f64(state.next_measurement_in).ok();
        Some(Self {
            phase,
            baseline: Some(Baseline {
                ln,
                samples: if state.samples.is_finite() {
                    state.samples.clamp(1.0, 1e9)
                } else {
                    1.0
                },
            }),
            skip_until: now + AFTER_IMPORT,
            next_measurement: left
                .and_then(|left| now.checked_add(left))
                .map_or(due, |next| next.min(due)),
            variance: if state.sigma.is_finite() {
                state.sigma.clamp(0.05, 3.0).powi(2)
            } else {
                SIGMA * SIGMA
            },
            ..Self::new(now, settings)
        })
    }

    fn measure(
        &mut self,
        now: Instant,
        ln: f64,
        in_flight: u32,
        limit: f64,
        (resume, began, from): (f64, Instant, Option<Instant>),
        settings: &AdaptiveSettings,
    ) -> f64 {
        // What was sent under the full limit has to end first.
        let from = from.or_else(|| {
            let settled = f64::from(in_flight) <= limit + 1.0;
            settled.then(|| now + self.typical(2.5))
        });
        if from.is_some_and(|from| now >= from) {
            self.window.add(ln);
        }
        let wanted = (2.0 * limit).clamp(24.0, 96.0) as u32;
        if self.window.count < wanted && now.saturating_duration_since(began) <= LONGEST_MEASUREMENT
        {
            self.phase = Phase::Measure {
                resume,
                began,
                from,
            };
            return limit;
        }
        let window = std::mem::take(&mut self.window);
        let mut next = settings.next_measurement(now);
        if window.count >= 8 {
            let (mean, samples) = (window.mean(), f64::from(window.count));
            let measured = Baseline { ln: mean, samples };
            self.baseline = Some(match self.baseline {
                // It was no baseline but latency under load.
                Some(base) if mean < base.ln - MUCH_FASTER - 3.0 * self.error(samples, base) => {
                    next = now + SOON;
                    measured
                }
                Some(base) => {
                    let weight = samples / (samples + base.samples.min(96.0));
                    Baseline {
                        ln: base.ln + weight * (mean - base.ln),
                        samples: base.samples + samples,
                    }
                }
                None => measured,
            });
        }
        self.phase = Phase::Steady;
        self.skip_until = now + self.typical(2.0);
        self.next_measurement = next;
        resume
    }

    fn search(
        &mut self,
        now: Instant,
        window: Window,
        search: Search,
        limit: f64,
        ceiling: f64,
        settings: &AdaptiveSettings,
    ) -> f64 {
        let (mean, count) = (window.mean(), f64::from(window.count));
        let base = self.baseline.unwrap_or(Baseline {
            ln: mean,
            samples: 0.0,
        });
        let samples = base.samples + count;
        self.skip_until = now + seconds(2.0 * mean.exp());
        self.next_measurement = settings.next_measurement(now);
        if base.samples > 0.0 && search != Search::Retreated {
            // The first windows are small, and so is what the baseline stands for: what looks like latency that follows
            // may be noise, and a search that noise ends leaves a limit far too low.
            let error = self.error(count, base);
            let excess = mean - base.ln - SEARCH_ENDS.ln() - error;
            if excess > 0.0 && search == Search::Confident && excess < 2.0 * error {
                self.window = window;
                self.skip_until = now;
                self.phase = Phase::Search(Search::InDoubt);
                return limit;
            }
            if excess > 0.0 {
                let limit = (limit / SEARCH_STEP).max(1.0);
                if base.samples < FEW_SAMPLES {
                    self.phase = Phase::Search(Search::Retreated);
                    return limit;
                }
                self.phase = Phase::Steady;
                if limit <= settings.start() {
                    // Nothing better than the start: that may have been too high already.
                    self.next_measurement = now + SOON;
                }
                return limit;
            }
        }
        self.baseline = Some(Baseline {
            ln: (base.ln * base.samples + mean * count) / samples,
            samples,
        });
        self.phase = if limit >= ceiling && samples >= FEW_SAMPLES {
            Phase::Steady
        } else {
            Phase::Search(Search::Confident)
        };
        (limit * SEARCH_STEP).min(ceiling)
    }

    #[allow(clippy::too_many_arguments)] // one decision sees everything
    fn steer(
        &mut self,
        now: Instant,
        window: &Window,
        in_flight: u32,
        limit: f64,
        ceiling: f64,
        ramping: bool,
        settings: &AdaptiveSettings,
    ) -> f64 {
        let (mean, count, sigma) = (window.mean(), f64::from(window.count), self.sigma());
        let base = self.baseline.get_or_insert(Baseline {
            ln: mean,
            samples: count,
        });
        if !ramping && limit < 3.0 {
            base.ln += 0.3 * (mean - base.ln);
        }
        let rho = (mean - base.ln).exp();
        // One standard deviation of the window's mean: without it, noise shrinks the limit.
        let upper = settings.tolerance * (sigma / count.sqrt()).exp();
        if rho > upper {
            self.roomy = 0;
            let slow = mean.exp();
            let streak = self.shrinking.get_or_insert(Shrinking {
                from: limit,
                worst: 0.0,
            });
            streak.worst = streak.worst.max(slow);
            if limit <= 0.5 * streak.from && slow > 0.8 * streak.worst {
                let resume = (0.8 * streak.from).max(1.0);
                *base = Baseline {
                    ln: mean,
                    samples: count,
                };
                self.shrinking = None;
                self.skip_until = now + seconds(2.0 * slow);
                return resume.min(ceiling);
            }
            self.skip_until = now + seconds(slow);
            return (limit * (upper / rho).sqrt().max(0.7)).max(1.0);
        }
        // As many as may be are whole calls: 2 of a limit of 2.9 use it to the full.
        let is_used = f64::from(in_flight) >= 0.8 * limit.floor();
        if rho < 1.08 {
            self.shrinking = None;
        }
        if !is_used || ramping || rho >= settings.tolerance {
            self.roomy = 0;
            return limit;
        }
        self.roomy = if rho < 1.05 { self.roomy + 1 } else { 0 };
        let factor = if self.roomy >= ROOMY { 1.13 } else { 1.03 };
        (limit * factor + 0.3).min(ceiling)
    }

    /// Standard error of the logarithm of what so many samples are relative to the baseline.
    fn error(&self, samples: f64, base: Baseline) -> f64 {
        self.sigma() * (1.0 / samples + 1.0 / base.samples.min(96.0)).sqrt()
    }

    fn sigma(&self) -> f64 {
        self.variance.sqrt().clamp(0.2, 1.5)
    }

    /// So many times the baseline.
    fn typical(&self, times: f64) -> Duration {
        self.baseline
            .map_or(Duration::ZERO, |base| seconds(times * base.ln.exp()))
    }
}

impl Window {
    fn add(&mut self, ln: f64) {
        self.count += 1;
        self.sum += ln;
        self.squares += ln * ln;
    }

    fn mean(&self) -> f64 {
        self.sum / f64::from(self.count.max(1))
    }

    fn variance(&self) -> f64 {
        let mean = self.mean();
        (self.squares / f64::from(self.count.max(1)) - mean * mean).max(0.0)
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.min(600.0)).unwrap_or_default()
}

const SHORTEST: Duration = Duration::from_millis(1);
const SIGMA: f64 = 0.8;
const VARIANCE_STEP: f64 = 0.2;
const SEARCH_STEP: f64 = 1.5;
/// A limit is too high where latency is clearly above so many times the baseline.
const SEARCH_ENDS: f64 = 1.25;
/// A baseline of fewer does not end a search.
const FEW_SAMPLES: f64 = 64.0;
/// In the logarithm, on top of three standard errors.
const MUCH_FASTER: f64 = 0.2;
const SOON: Duration = Duration::from_secs(60);
/// After so many windows in a row with room, the limit grows faster: one alone is noise.
const ROOMY: u32 = 3;
const CUT: f64 = 0.7;
const BETWEEN_CUTS: Duration = Duration::from_secs(5);
const AFTER_ABANDONED: Duration = Duration::from_secs(60);
const LONGEST_MEASUREMENT: Duration = Duration::from_secs(60);
const AFTER_IMPORT: Duration = Duration::from_secs(10);
