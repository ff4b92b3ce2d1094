//! Nanoseconds: short samples of every row, interleaved, and medians of what differs within one round.

use std::time::Duration;

use allocation_counter::opt_out;
use rand::RngExt;
use rand::seq::SliceRandom;
use tokio::time::Instant;

use crate::stacks::Row;

/// Samples of one series: a round takes one sample of each row, so that whatever slows the machine meets all of them.
pub(crate) struct Timing {
    names: Vec<&'static str>,
    bares: Vec<usize>,
    rounds: Vec<Round>,
    placements: usize,
}

struct Round {
    placement: usize,
    /// Nanoseconds a unit, by row.
    rows: Vec<f64>,
}

/// A value and how far chance may have moved it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    /// Two standard errors.
    pub(crate) noise: f64,
}

impl Timing {
    pub(crate) fn new(rows: &[Row]) -> Self {
        let names: Vec<_> = rows.iter().map(|row| row.name).collect();
        let place = |name| {
            names
                .iter()
                .position(|other| *other == name)
                .expect("a row of this series")
        };
        let bares = rows.iter().map(|row| place(row.bare)).collect();
        Self {
            names,
            bares,
            rounds: Vec::new(),
            placements: 0,
        }
    }

    /// Adds rounds for so long.
    ///
    /// Rows are made anew for every [`ROUNDS`], at other addresses, since what shares a cache line or an alias with what
    /// is worth more nanoseconds than some musts allow. Each round has an order of its own, so that no row always finds
    /// the caches that another one left, and each sample begins with an eighth of its units unmeasured.
    pub(crate) fn sample(&mut self, make: fn() -> Vec<Row>, duration: Duration) {
        let mut rng = rand::rng();
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        let started = Instant::now();
        while started.elapsed() < duration {
            let padding = Vec::<u8>::with_capacity(rng.random_range(0..16 * 1024));
            let mut rows = make();
            for _ in 0..ROUNDS {
                let mut round = vec![0.0; rows.len()];
                order.shuffle(&mut rng);
                for place in order.iter().copied() {
                    let row = &mut rows[place];
                    opt_out(|| {
                        (row.run)(row.units / 8);
                        round[place] =
                            (row.run)(row.units).as_nanos() as f64 / f64::from(row.units);
                    });
                }
                self.rounds.push(Round {
                    placement: self.placements,
                    rows: round,
                });
            }
            self.placements += 1;
            drop(padding);
        }
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// The median of a row.
    pub(crate) fn median(&self, name: &str) -> f64 {
        let row = self.place(name);
        median(self.rounds.iter().map(|round| round.rows[row]).collect())
    }

    /// What a row adds to its bare row: the median of the differences within one round.
    pub(crate) fn over_bare(&self, name: &str) -> Estimate {
        self.estimate(|rounds| self.added(rounds, name))
    }

    /// What `name` adds, as a multiple of what `peer` adds.
    pub(crate) fn ratio(&self, name: &str, peer: &str) -> Estimate {
        self.estimate(|rounds| self.added(rounds, name) / self.added(rounds, peer))
    }

    /// How much more `name` adds than `other` does: the median of the differences within one round.
    pub(crate) fn more_than(&self, name: &str, other: &str) -> Estimate {
        let [name, other] = [name, other].map(|name| self.place(name));
        let over = |round: &Round, row: usize| round.rows[row] - round.rows[self.bares[row]];
        let more = |round: &Round| over(round, name) - over(round, other);
        self.estimate(|rounds| median(rounds.iter().copied().map(more).collect()))
    }

    fn added(&self, rounds: &[&Round], name: &str) -> f64 {
        let row = self.place(name);
        let bare = self.bares[row];
        median(
            rounds
                .iter()
                .map(|round| round.rows[row] - round.rows[bare])
                .collect(),
        )
    }

    /// The value over all rounds, its noise from the spread of the same value over groups of placements.
    fn estimate(&self, value: impl Fn(&[&Round]) -> f64) -> Estimate {
        let rounds: Vec<&Round> = self.rounds.iter().collect();
        let groups: Vec<f64> = (0..GROUPS.min(self.placements))
            .map(|group| {
                let of_group = |round: &&Round| round.placement % GROUPS == group;
                value(&rounds.iter().copied().filter(of_group).collect::<Vec<_>>())
            })
            .collect();
        let count = groups.len() as f64;
        let mean = groups.iter().sum::<f64>() / count;
        let spread = groups
            .iter()
            .map(|group| (group - mean).powi(2))
            .sum::<f64>();
        Estimate {
            value: value(&rounds),
            noise: 2.0 * (spread / (count - 1.0).max(1.0) / count).sqrt(),
        }
    }

    fn place(&self, name: &str) -> usize {
        self.names
            .iter()
            .position(|other| *other == name)
            .expect("a row of this series")
    }
}

impl From<f64> for Estimate {
    fn from(value: f64) -> Self {
        Self { value, noise: 0.0 }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 {
        values[middle]
    } else {
        (values[middle - 1] + values[middle]) / 2.0
    }
}

/// Rounds from one making of the rows to the next.
const ROUNDS: usize = 20;
const GROUPS: usize = 10;
