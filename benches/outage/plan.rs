//! Which rows are run over which scenario with which seeds, on as many threads as there are cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::record::{Numbers, Record};
use crate::rows::Row;
use crate::scenario::Scenario;
use crate::{job, oracle};

/// One scenario and what came of each row.
pub(crate) struct Table {
    pub(crate) scenario: Scenario,
    pub(crate) seeds: Vec<u64>,
    /// With the first seed.
    pub(crate) oracle: Record,
    pub(crate) rows: Vec<Results>,
}

pub(crate) struct Results {
    pub(crate) row: Row,
    /// By seed; the first only, for some rows.
    pub(crate) numbers: Vec<Numbers>,
    /// With the first seed.
    pub(crate) first: Record,
}

/// What is to be run.
pub(crate) struct Plan {
    pub(crate) scenario: Scenario,
    pub(crate) seeds: Vec<u64>,
    /// With every seed.
    pub(crate) rows: Vec<Row>,
    /// With the first seed only.
    pub(crate) rivals: Vec<Row>,
    /// Where the rivals are cut off, in seconds, if they are too many attempts to see them to their end.
    pub(crate) rivals_until: Option<f64>,
}

impl Plan {
    pub(crate) fn run(self) -> Table {
        let oracles = on_all_cores(&self.seeds, |seed| oracle::run(&self.scenario, *seed));
        let rivals_scenario = match self.rivals_until {
            Some(until) => self.scenario.clone().until(until),
            None => self.scenario.clone(),
        };
        // The long ones first, so that no core waits for one at the end.
        let rivals = self.rivals.iter().map(|row| (*row, 0, &rivals_scenario));
        let with_each_seed = self.rows.iter().flat_map(|row| {
            let seeds = 0..self.seeds.len();
            seeds.map(|seed| (*row, seed, &self.scenario))
        });
        let runs: Vec<_> = rivals.chain(with_each_seed).collect();
        let all = on_all_cores(&runs, |(row, place, scenario)| {
            let seed = self.seeds[*place];
            let record = job::run(scenario, seed, row);
            let numbers = Numbers::of(scenario, &record, &oracles[*place]);
            (*row, numbers, (*place == 0).then_some(record))
        });
        let mut results: Vec<Results> = Vec::new();
        for (row, numbers, first) in all {
            match first {
                Some(first) => results.push(Results {
                    row,
                    numbers: vec![numbers],
                    first,
                }),
                None => {
                    if let Some(results) = results.iter_mut().find(|results| results.row == row) {
                        results.numbers.push(numbers);
                    }
                }
            }
        }
        // As they are listed: ours, then the others.
        results.rotate_left(self.rivals.len());
        Table {
            scenario: self.scenario,
            oracle: oracles.into_iter().next().unwrap_or_default(),
            seeds: self.seeds,
            rows: results,
        }
    }
}

impl Table {
    pub(crate) fn of(&self, row: Row) -> Option<&Results> {
        self.rows.iter().find(|results| results.row == row)
    }
}

/// In the order of `items`.
fn on_all_cores<T: Sync, R: Send>(items: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let place = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(place)
                {
                    let result = run(item);
                    let mut done = done.lock().unwrap_or_else(|e| e.into_inner());
                    done.push((place, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}
