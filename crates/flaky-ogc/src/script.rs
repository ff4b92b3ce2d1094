use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::request::Asked;
use crate::seed::{hash, lognormal, unit};
use crate::{Fault, Form};

/// All that a server does, told before it starts. The same script and seed give the same costs and faults, whatever
/// the order in which requests arrive.
///
/// Times are the script's; `scale` says how long one of its seconds takes. Rules are asked before windows, each in the
/// order in which they were added; the first that has a fault for a request wins.
///
/// ```
/// use std::time::Duration;
/// use flaky_ogc::{Fault, Rendering, Script, Weather};
///
/// let seconds = Duration::from_secs;
/// let script = Script::default()
///     .seed(7)
///     .scale(0.05)
///     .rendering(Rendering { cores: 8.0, threads: 32, queue: 32, thrash: 0.02, ..Rendering::default() })
///     .during(seconds(20)..seconds(30), Weather::faults(Fault::status(503)))
///     .during(seconds(60)..seconds(90), Weather::Cores(4.0))
///     .when(|asked| asked.visit == 0 && asked.nth % 50 == 0, Fault::reset());
/// assert!(format!("{script:?}").starts_with("Script"));
/// ```
#[derive(Clone)]
pub struct Script {
    pub(crate) seed: u64,
    pub(crate) scale: f64,
    pub(crate) repeat: Option<Duration>,
    pub(crate) rendering: Rendering,
    pub(crate) windows: Vec<(Range<Duration>, Weather)>,
    rules: Vec<Rule>,
    pub(crate) features: u64,
    pub(crate) geocoder_interval: Duration,
    pub(crate) exceptions: Option<Form>,
    pub(crate) exception_status: bool,
    pub(crate) idle_timeout: Option<Duration>,
}

impl Script {
    /// What chance depends on; 0 where it is not set.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How many real seconds one second of the script takes: more than 0, 1 where it is not set.
    ///
    /// # Panics
    ///
    /// Where `scale` is not a positive, finite number.
    pub fn scale(mut self, scale: f64) -> Self {
        assert!(
            scale.is_finite() && scale > 0.0,
            "scale must be more than 0 and finite, not {scale}"
        );
        self.scale = scale;
        self
    }

    /// The windows begin anew after each `period`.
    pub fn repeat(mut self, period: Duration) -> Self {
        self.repeat = (period > Duration::ZERO).then_some(period);
        self
    }

    /// What a map costs.
    pub fn rendering(mut self, rendering: Rendering) -> Self {
        self.rendering = rendering;
        self
    }

    /// What is different from `window.start` on until `window.end`, counted from the start of the server.
    pub fn during(mut self, window: Range<Duration>, weather: Weather) -> Self {
        self.windows.push((window, weather));
        self
    }

    /// A fault for every request for which `matches` holds.
    pub fn when(
        self,
        matches: impl Fn(&Asked) -> bool + Send + Sync + 'static,
        fault: Fault,
    ) -> Self {
        self.decide(move |asked| matches(asked).then(|| fault.clone()))
    }

    /// A fault for the first `n` requests, one each, in the order of their arrival.
    pub fn first(self, faults: impl IntoIterator<Item = Fault>) -> Self {
        let faults: Vec<Fault> = faults.into_iter().collect();
        self.decide(move |asked| {
            usize::try_from(asked.nth)
                .ok()
                .and_then(|nth| faults.get(nth).cloned())
        })
    }

    /// Any rule: the fault for a request, where it is to have one.
    pub fn decide(
        mut self,
        rule: impl Fn(&Asked) -> Option<Fault> + Send + Sync + 'static,
    ) -> Self {
        self.rules.push(Arc::new(rule));
        self
    }

    /// How many features each collection has; 1 000 where it is not set.
    pub fn features(mut self, features: u64) -> Self {
        self.features = features;
        self
    }

    /// The shortest time between two answers of the geocoder; who comes sooner gets 429. None where it is not set.
    pub fn geocoder_interval(mut self, interval: Duration) -> Self {
        self.geocoder_interval = interval;
        self
    }

    /// The form of every exception, in place of the one that service, version and `EXCEPTIONS` ask for.
    pub fn exceptions(mut self, form: Form) -> Self {
        self.exceptions = Some(form);
        self
    }

    /// Exceptions of WMS and WFS 1 come under 4xx and 5xx and not, as most servers send them, under 200.
    pub fn exception_status(mut self, real: bool) -> Self {
        self.exception_status = real;
        self
    }

    /// HTTP/1 connections that are idle for so long are closed, also while a head is incomplete: hyper has one timer for
    /// both. Not scaled; never where it is not set.
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = Some(timeout);
        self
    }

    pub(crate) fn fault_by_rule(&self, asked: &Asked) -> Option<Fault> {
        self.rules.iter().find_map(|rule| rule(asked))
    }

    /// The windows that are open at `now`, with the time at which each of them ends.
    pub(crate) fn open_windows(
        &self,
        now: Duration,
    ) -> impl Iterator<Item = (usize, &Weather, Duration)> {
        let (round, within) = self.round(now);
        let open = self
            .windows
            .iter()
            .enumerate()
            .filter(move |(_, (window, _))| window.contains(&within));
        open.map(move |(index, (window, weather))| (index, weather, round + window.end))
    }

    /// Cores at `now`, and whether the server is there at all.
    pub(crate) fn capacity(&self, now: Duration) -> Capacity {
        let mut capacity = Capacity {
            cores: self.rendering.cores,
            up: true,
        };
        for (_, weather, _) in self.open_windows(now) {
            match weather {
                Weather::Cores(cores) => capacity.cores = capacity.cores.min(*cores),
                Weather::Outage => capacity.up = false,
                Weather::Faults { .. } | Weather::Quota { .. } => {}
            }
        }
        capacity
    }

    /// The next time after `now` at which a window opens or closes.
    pub(crate) fn next_change(&self, now: Duration) -> Option<Duration> {
        let (round, within) = self.round(now);
        let edges = || {
            self.windows
                .iter()
                .flat_map(|(window, _)| [window.start, window.end])
        };
        let this_round = edges()
            .filter(|edge| *edge > within)
            .min()
            .map(|edge| round + edge);
        this_round
            .into_iter()
            .chain(self.repeat.map(|period| round + period))
            .min()
    }

    /// The chance that a window has a fault for this request: the same for every run.
    pub(crate) fn draw(&self, window: usize, asked: &Asked) -> f64 {
        unit(hash(
            self.seed ^ (window as u64 + 1),
            format!("{}#{}", asked.target, asked.visit).as_bytes(),
        ))
    }

    /// Seconds of one core for this request.
    pub(crate) fn cost(&self, asked: &Asked) -> f64 {
        let mean = self.rendering.mean.as_secs_f64();
        if self.rendering.sigma == 0.0 {
            return mean;
        }
        // The same map costs the same however often it is asked for.
        lognormal(
            hash(self.seed, asked.target.as_bytes()),
            mean,
            self.rendering.sigma,
        )
    }

    fn round(&self, now: Duration) -> (Duration, Duration) {
        match self.repeat {
            Some(period) => {
                let within = Duration::from_nanos((now.as_nanos() % period.as_nanos()) as u64);
                (now - within, within)
            }
            None => (Duration::ZERO, now),
        }
    }
}

impl Default for Script {
    fn default() -> Self {
        Self {
            seed: 0,
            scale: 1.0,
            repeat: None,
            rendering: Rendering::default(),
            windows: Vec::new(),
            rules: Vec::new(),
            features: 1_000,
            geocoder_interval: Duration::ZERO,
            exceptions: None,
            exception_status: false,
            idle_timeout: None,
        }
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("seed", &self.seed)
            .field("scale", &self.scale)
            .field("repeat", &self.repeat)
            .field("rendering", &self.rendering)
            .field("windows", &self.windows)
            .field("rules", &self.rules.len())
            .finish_non_exhaustive()
    }
}

/// What a map costs, and what the machine behind the server can bear.
///
/// With n maps in work each of them progresses at `min(1, cores / n) / (1 + thrash * max(0, n - cores))`. A map that
/// nobody waits for any more is finished all the same: renderers cannot be interrupted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rendering {
    /// Maps that can be worked on without slowing each other down.
    pub cores: f64,
    /// Maps in work at once.
    pub threads: usize,
    /// Maps that wait for a thread; who comes when it is full gets 503.
    pub queue: usize,
    /// What each map beyond `cores` costs all the others.
    pub thrash: f64,
    /// Mean time of one core for one map.
    pub mean: Duration,
    /// Sigma of the logarithm of the time; 0 = all maps cost the same.
    pub sigma: f64,
}

impl Default for Rendering {
    /// A renderer that costs nothing.
    fn default() -> Self {
        Self {
            cores: 16.0,
            threads: 64,
            queue: 64,
            thrash: 0.0,
            mean: Duration::ZERO,
            sigma: 0.0,
        }
    }
}

/// What is different while a window of the script is open.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Weather {
    /// A brown-out: only so many cores.
    Cores(f64),
    /// The server is not there: connections are reset, new ones refused, what was in work is lost.
    Outage,
    /// A fault for a share of the requests.
    Faults {
        /// From 0 to 1.
        share: f64,
        /// What happens to them.
        fault: Fault,
    },
    /// Only so many requests in each period; the rest gets 429 and a `Retry-After` that tells when the period ends.
    Quota {
        /// Requests let through in a period.
        requests: u64,
        /// The period, counted from the start of the server.
        per: Duration,
    },
}

impl Weather {
    /// A fault for every request.
    pub fn faults(fault: Fault) -> Self {
        Self::Faults { share: 1.0, fault }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Capacity {
    pub(crate) cores: f64,
    pub(crate) up: bool,
}

/// The script's time: since the start of the server, unscaled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    scale: f64,
}

impl Clock {
    pub(crate) fn starting_now(scale: f64) -> Self {
        Self {
            start: Instant::now(),
            scale,
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed().div_f64(self.scale)
    }

    pub(crate) fn instant(&self, at: Duration) -> Instant {
        self.start + self.real(at)
    }

    /// How long a span of the script takes.
    pub(crate) fn real(&self, span: Duration) -> Duration {
        span.mul_f64(self.scale)
    }
}

type Rule = Arc<dyn Fn(&Asked) -> Option<Fault> + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_repeated_script_has_the_same_windows_in_each_round() {
        let script = Script::default()
            .repeat(s(100))
            .during(s(20)..s(30), Weather::Cores(1.0))
            .during(s(90)..s(100), Weather::Outage);
        assert_eq!(
            script.capacity(s(225)),
            Capacity {
                cores: 1.0,
                up: true
            }
        );
        assert_eq!(
            script.capacity(s(230)),
            Capacity {
                cores: 16.0,
                up: true
            }
        );
        assert!(!script.capacity(s(395)).up);
        assert_eq!(script.next_change(s(225)), Some(s(230)));
        assert_eq!(script.next_change(s(295)), Some(s(300)));
        assert_eq!(
            script
                .open_windows(s(225))
                .map(|(_, _, end)| end)
                .collect::<Vec<_>>(),
            [s(230)]
        );
    }

    #[test]
    fn a_script_that_does_not_repeat_ends() {
        let script = Script::default().during(s(20)..s(30), Weather::Outage);
        assert_eq!(script.next_change(s(0)), Some(s(20)));
        assert_eq!(script.next_change(s(20)), Some(s(30)));
        assert_eq!(script.next_change(s(30)), None);
    }
}
