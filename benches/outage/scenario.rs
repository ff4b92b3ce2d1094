//! What happens, when, and to how large a server.

/// One afternoon of one render server and the job that its clients have to get through.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Client processes, each with a stack of its own, and how many workers call each.
    pub(crate) processes: usize,
    pub(crate) workers_each: usize,
    pub(crate) tiles: usize,
    pub(crate) cores: f64,
    pub(crate) threads: usize,
    /// Places in the queue behind the threads; who finds none is answered with 503.
    pub(crate) queue: usize,
    /// How much slower everything gets for each render more than there are cores.
    pub(crate) alpha: f64,
    /// Answers in each full minute of the quota's phase.
    pub(crate) quota: u32,
    /// Seconds of maintenance.
    pub(crate) maintenance: f64,
    /// Where the run ends if the job has not, in seconds.
    pub(crate) horizon: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Up,
    /// Everything is answered with 503; what was running is lost.
    Unavailable,
    /// Nobody listens.
    Refused,
    /// 429 with `Retry-After` for whatever is beyond the quota.
    Quota,
    /// Half of the cores.
    BrownOut,
    /// The clients restart.
    Deploy,
    /// From two fifths of the cores to all of them within two minutes.
    ColdStart,
}

impl Scenario {
    /// A hundred workers in four processes, sixteen cores, two hours of maintenance.
    pub(crate) fn a() -> Self {
        Self {
            name: "A",
            processes: 4,
            workers_each: 25,
            tiles: 27_000,
            cores: 16.0,
            threads: 64,
            queue: 64,
            alpha: 0.02,
            quota: 200,
            maintenance: 7_200.0,
            horizon: 30_000.0,
        }
    }

    /// Ten thousand workers in a hundred processes, sixty-four cores, fifteen minutes of maintenance.
    pub(crate) fn b() -> Self {
        Self {
            name: "B",
            processes: 100,
            workers_each: 100,
            tiles: 108_000,
            cores: 64.0,
            threads: 256,
            queue: 256,
            alpha: 0.005,
            quota: 800,
            maintenance: 900.0,
            horizon: 16_000.0,
        }
    }

    pub(crate) fn with_alpha(self, alpha: f64) -> Self {
        Self { alpha, ..self }
    }

    /// Cut off in the middle.
    pub(crate) fn until(self, horizon: f64) -> Self {
        Self { horizon, ..self }
    }

    pub(crate) fn workers(&self) -> usize {
        self.processes * self.workers_each
    }

    /// When each phase begins, in seconds.
    pub(crate) fn timeline(&self) -> [(f64, Phase); 11] {
        [
            (0.0, Phase::Up),
            (BLIP, Phase::Unavailable),
            (BLIP_ENDS, Phase::Up),
            (QUOTA, Phase::Quota),
            (QUOTA_ENDS, Phase::Up),
            (BROWN_OUT, Phase::BrownOut),
            (BROWN_OUT_ENDS, Phase::Up),
            (DEPLOY, Phase::Deploy),
            (MAINTENANCE, Phase::Refused),
            (MAINTENANCE + 300.0, Phase::Unavailable),
            (self.up_again(), Phase::ColdStart),
        ]
    }

    /// When the maintenance ends.
    pub(crate) fn up_again(&self) -> f64 {
        MAINTENANCE + self.maintenance
    }

    /// Seconds in which nothing could be done.
    pub(crate) fn downtime(&self) -> f64 {
        BLIP_ENDS - BLIP + self.maintenance
    }

    /// Tiles a second with every core at work.
    pub(crate) fn capacity(&self) -> f64 {
        self.cores / MEAN_DEMAND
    }
}

pub(crate) const BLIP: f64 = 600.0;
pub(crate) const BLIP_ENDS: f64 = 660.0;
pub(crate) const QUOTA: f64 = 1_260.0;
pub(crate) const QUOTA_ENDS: f64 = 2_160.0;
pub(crate) const BROWN_OUT: f64 = 2_460.0;
pub(crate) const BROWN_OUT_ENDS: f64 = 3_660.0;
pub(crate) const DEPLOY: f64 = 4_260.0;
pub(crate) const MAINTENANCE: f64 = 4_860.0;

/// Seconds of one core that a tile takes: lognormal.
pub(crate) const MEAN_DEMAND: f64 = 3.0;
pub(crate) const SIGMA: f64 = 0.8;
/// Seconds.
pub(crate) const ROUND_TRIP: f64 = 0.05;
