//! What one run was, and what is asked of it.

use crate::scenario::{BLIP_ENDS, BROWN_OUT, BROWN_OUT_ENDS, QUOTA, QUOTA_ENDS, Scenario};

/// What came of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) blip_attempts: u64,
    pub(crate) maintenance_attempts: u64,
    /// By second.
    pub(crate) attempts: Vec<u32>,
    /// By second, while it was down.
    pub(crate) attempts_while_down: Vec<u32>,
    /// On their way at once, from ten seconds after the server went down to the first tile after.
    pub(crate) most_in_flight_while_down: u32,
    pub(crate) throttled: u64,
    /// Answered with 503 because threads and queue were full.
    pub(crate) turned_away: u64,
    /// Seconds of rendering that somebody, and that nobody, waited for.
    pub(crate) useful: f64,
    pub(crate) wasted: f64,
    /// When each tile was done, in order, and how long it took from when a worker took it up.
    pub(crate) done: Vec<f64>,
    pub(crate) tile_times: Vec<f64>,
    pub(crate) gave_up: u64,
    /// What the clients' own state was, by second.
    pub(crate) states: Vec<State>,
    /// Whether all tiles were done before the horizon.
    pub(crate) is_complete: bool,
}

/// What the clients of a row say about themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    /// Answers that may be in flight at once, of all stacks together; `None` where nothing limits them.
    pub(crate) limit: Option<u32>,
    /// Running or queued there, whoever waits for it.
    pub(crate) at_server: u32,
    pub(crate) gate: Gate,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gate {
    /// The row has no breaker.
    #[default]
    None,
    Closed,
    Open,
    HalfOpen,
}

impl Record {
    pub(crate) fn arrived(&mut self, now: f64, is_down: bool, is_blip: bool) {
        let second = now as usize;
        for (seconds, counts) in [
            (&mut self.attempts, true),
            (&mut self.attempts_while_down, is_down),
        ] {
            if counts {
                if seconds.len() <= second {
                    seconds.resize(second + 1, 0);
                }
                seconds[second] += 1;
            }
        }
        match (is_down, is_blip) {
            (true, true) => self.blip_attempts += 1,
            (true, false) => self.maintenance_attempts += 1,
            _ => {}
        }
    }

    /// Tiles done within these seconds.
    pub(crate) fn tiles(&self, from: f64, to: f64) -> f64 {
        let before = |t| self.done.partition_point(|done| *done < t);
        (before(to) - before(from)) as f64
    }

    pub(crate) fn peak_while_down(&self) -> f64 {
        f64::from(self.attempts_while_down.iter().copied().max().unwrap_or(0))
    }

    pub(crate) fn waste_share(&self) -> f64 {
        self.wasted / (self.wasted + self.useful).max(1.0)
    }

    /// When the last tile was done.
    pub(crate) fn makespan(&self) -> Option<f64> {
        self.is_complete
            .then(|| self.done.last().copied())
            .flatten()
    }

    /// Seconds after `from` until the first minute begins that has 90 % of what a healthy server can do.
    pub(crate) fn t90(&self, from: f64, at_most: u32, scenario: &Scenario) -> Option<f64> {
        let enough = 0.9 * 60.0 * scenario.capacity();
        (0..at_most)
            .map(f64::from)
            .find(|t| self.tiles(from + t, from + t + 60.0) >= enough)
    }

    pub(crate) fn tile_time(&self, share: f64) -> f64 {
        let mut times = self.tile_times.clone();
        times.sort_by(f64::total_cmp);
        let place = (times.len() as f64 * share) as usize;
        times
            .get(place)
            .or_else(|| times.last())
            .copied()
            .unwrap_or(0.0)
    }
}

/// A run in numbers, next to the oracle's with the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    pub(crate) blip_attempts: f64,
    pub(crate) maintenance_attempts: f64,
    pub(crate) peak: f64,
    pub(crate) in_flight_while_down: f64,
    pub(crate) waste: f64,
    /// Goodput relative to the oracle's.
    pub(crate) healthy: f64,
    pub(crate) brown_out: f64,
    pub(crate) quota: f64,
    pub(crate) blip_120: f64,
    pub(crate) recovery_300: f64,
    pub(crate) throttled: f64,
    /// Infinite where never.
    pub(crate) t90_blip: f64,
    pub(crate) t90_maintenance: f64,
    /// Infinite where the job was not done by the horizon.
    pub(crate) x_time: f64,
    pub(crate) gave_up: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Numbers {
    pub(crate) fn of(scenario: &Scenario, record: &Record, oracle: &Record) -> Self {
        // Not a number where the run was cut off before.
        let seen = |until: f64, value: f64| {
            if until <= scenario.horizon {
                value
            } else {
                f64::NAN
            }
        };
        let goodput = |from, to| seen(to, record.tiles(from, to) / oracle.tiles(from, to));
        let up_again = scenario.up_again();
        let t90 = |record: &Record, from, at_most| record.t90(from, at_most, scenario);
        let up = |record: &Record| {
            record
                .makespan()
                .map_or(f64::INFINITY, |last| last - scenario.downtime())
        };
        Self {
            blip_attempts: record.blip_attempts as f64,
            maintenance_attempts: seen(up_again, record.maintenance_attempts as f64),
            peak: record.peak_while_down(),
            in_flight_while_down: f64::from(record.most_in_flight_while_down),
            waste: record.waste_share(),
            healthy: goodput(120.0, 600.0),
            brown_out: goodput(BROWN_OUT, BROWN_OUT_ENDS),
            quota: goodput(QUOTA, QUOTA_ENDS),
            blip_120: goodput(BLIP_ENDS, BLIP_ENDS + 120.0),
            recovery_300: goodput(up_again, up_again + 300.0),
            throttled: seen(QUOTA_ENDS, record.throttled as f64),
            t90_blip: seen(QUOTA, t90(record, BLIP_ENDS, 540).unwrap_or(f64::INFINITY)),
            t90_maintenance: seen(
                up_again,
                t90(record, up_again, 900).unwrap_or(f64::INFINITY)
                    - t90(oracle, up_again, 900).unwrap_or(0.0),
            ),
            x_time: seen(up_again, up(record) / up(oracle)),
            gave_up: record.gave_up as f64,
            p50: record.tile_time(0.5),
            p99: record.tile_time(0.99),
        }
    }
}

/// The mean over seeds, but the median of what can be infinite.
pub(crate) fn mean(numbers: &[Numbers], of: impl Fn(&Numbers) -> f64) -> f64 {
    numbers.iter().map(of).sum::<f64>() / numbers.len().max(1) as f64
}

pub(crate) fn median(numbers: &[Numbers], of: impl Fn(&Numbers) -> f64) -> f64 {
    let mut all: Vec<_> = numbers.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(0.0)
}

pub(crate) fn worst(numbers: &[Numbers], of: impl Fn(&Numbers) -> f64) -> f64 {
    numbers.iter().map(of).fold(0.0, f64::max)
}
