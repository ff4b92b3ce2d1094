//! What must hold, and what would be better still.

use std::fmt;

use crate::plan::{Results, Table};
use crate::record::{Numbers, mean, median, worst};
use crate::rows::{Limit, Row};

/// A promise about one number of one row.
pub(crate) struct Must {
    pub(crate) scenario: String,
    pub(crate) row: &'static str,
    pub(crate) claim: &'static str,
    relation: Relation,
    pub(crate) bound: f64,
    pub(crate) goal: Option<f64>,
    pub(crate) measured: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Relation {
    AtMost,
    AtLeast,
    Exactly,
}

impl Must {
    fn new(
        table: &Table,
        row: Row,
        claim: &'static str,
        (relation, bound, goal): (Relation, f64, Option<f64>),
        of: impl Fn(&[Numbers]) -> f64,
    ) -> Self {
        let results = table.of(row);
        Self {
            scenario: name(table),
            row: row.name(),
            claim,
            relation,
            bound,
            goal,
            measured: results.map_or(f64::NAN, |results: &Results| of(&results.numbers)),
        }
    }

    pub(crate) fn is_missed(&self) -> bool {
        !self.relation.holds(self.measured, self.bound)
    }

    pub(crate) fn reaches_goal(&self) -> bool {
        let goal = self.goal.unwrap_or(self.bound);
        self.relation.holds(self.measured, goal)
    }

    pub(crate) fn relation(&self) -> &'static str {
        match self.relation {
            Relation::AtMost => "≤",
            Relation::AtLeast => "≥",
            Relation::Exactly => "=",
        }
    }
}

impl Relation {
    fn holds(self, measured: f64, bound: f64) -> bool {
        match self {
            Self::AtMost => measured <= bound,
            Self::AtLeast => measured >= bound,
            Self::Exactly => measured == bound,
        }
    }
}

impl fmt::Display for Must {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.is_missed(), self.reaches_goal()) {
            (true, _) => "MISSED",
            (false, true) if self.goal.is_some() => "ok, and the goal",
            _ => "ok",
        };
        write!(
            f,
            "must  {:<14} {:<28} {:<46} {} {:<8} measured {:<9} {verdict}",
            self.scenario,
            self.row,
            self.claim,
            self.relation(),
            short(self.bound),
            short(self.measured),
        )?;
        match self.goal {
            Some(goal) => write!(f, " (goal {})", short(goal)),
            None => Ok(()),
        }
    }
}

/// What one seed of scenario A can show.
pub(crate) fn quick(a: &Table) -> Vec<Must> {
    let mut musts = attempts(a);
    for (limit, bound) in WORST_X_TIME {
        let row = Row::Ours(limit);
        let bound = (Relation::AtMost, bound, None);
        musts.push(Must::new(a, row, "x-time of this seed", bound, |n| {
            worst(n, |n| n.x_time)
        }));
    }
    musts.push(negative_control(a));
    musts.push(positive_control(a));
    musts
}

/// Scenario A with thrash: everything.
pub(crate) fn full(a: &Table) -> Vec<Must> {
    use Relation::{AtLeast, AtMost};
    let mut musts = attempts(a);
    for limit in [Limit::NoHint, Limit::CeilingIsCores] {
        let row = Row::Ours(limit);
        let mut must = |claim, bound, of: &dyn Fn(&[Numbers]) -> f64| {
            musts.push(Must::new(a, row, claim, bound, of));
        };
        must(
            "brown-out goodput / oracle",
            (AtLeast, 0.88, Some(0.93)),
            &|n| mean(n, |n| n.brown_out),
        );
        must(
            "goodput under the quota / oracle",
            (AtLeast, 0.98, Some(0.99)),
            &|n| mean(n, |n| n.quota),
        );
        must("429 replies in 15 min", (AtMost, 40.0, Some(20.0)), &|n| {
            mean(n, |n| n.throttled)
        });
        must(
            "t90 after the blip, s (median)",
            (AtMost, 45.0, Some(20.0)),
            &|n| median(n, |n| n.t90_blip),
        );
        must(
            "t90 after maintenance - oracle's, s (median)",
            (AtMost, 35.0, Some(10.0)),
            &|n| median(n, |n| n.t90_maintenance),
        );
        must(
            "tiles in 300 s after maintenance / oracle",
            (AtLeast, 0.85, Some(0.91)),
            &|n| mean(n, |n| n.recovery_300),
        );
    }
    musts.extend(x_times(
        a,
        &[
            (Limit::NoHint, 1.11, 1.07),
            (Limit::CeilingIsCores, 1.07, 1.04),
            (Limit::StaticIsCores, 1.04, 1.03),
            (Limit::StartedAt4Cores, 1.20, 1.12),
        ],
    ));
    for ((limit, bound), goal) in WORST_X_TIME.into_iter().zip([1.12, 1.06, 1.04]) {
        musts.push(Must::new(
            a,
            Row::Ours(limit),
            "x-time, worst seed",
            (AtMost, bound, Some(goal)),
            |n| worst(n, |n| n.x_time),
        ));
    }
    musts.push(Must::new(
        a,
        Row::SlowProbes,
        "attempts in maintenance, probes up to 60 s apart",
        (AtMost, 160.0, Some(135.0)),
        |n| mean(n, |n| n.maintenance_attempts),
    ));
    let given_up = a.scenario.workers() as f64 * (a.scenario.maintenance / 300.0).floor();
    for (relation, share) in [(AtLeast, 0.97), (AtMost, 1.03)] {
        musts.push(Must::new(
            a,
            Row::Strict,
            "given up with a strict budget of 300 s",
            (relation, share * given_up, None),
            |n| mean(n, |n| n.gave_up),
        ));
    }
    musts.push(negative_control(a));
    musts.push(positive_control(a));
    musts
}

/// Scenario A at another strength of thrash, mean x-times: must and goal by row.
pub(crate) fn x_times(a: &Table, bounds: &[(Limit, f64, f64)]) -> Vec<Must> {
    let must = |(limit, bound, goal): &(Limit, f64, f64)| {
        let bound = (Relation::AtMost, *bound, Some(*goal));
        Must::new(a, Row::Ours(*limit), "x-time, mean", bound, |n| {
            mean(n, |n| n.x_time)
        })
    };
    bounds.iter().map(must).collect()
}

pub(crate) fn scenario_b(b: &Table) -> Vec<Must> {
    use Relation::{AtMost, Exactly};
    let mut musts = Vec::new();
    for limit in [Limit::NoHint, Limit::CeilingIsCores] {
        let row = Row::Ours(limit);
        let mut must = |claim, bound, of: &dyn Fn(&[Numbers]) -> f64| {
            musts.push(Must::new(b, row, claim, bound, of));
        };
        must("attempts in the blip", (AtMost, 250.0, Some(100.0)), &|n| {
            mean(n, |n| n.blip_attempts)
        });
        must(
            "waste, share of render-seconds",
            (AtMost, 0.01, Some(0.005)),
            &|n| mean(n, |n| n.waste),
        );
        must("x-time, mean", (AtMost, 1.10, Some(1.065)), &|n| {
            mean(n, |n| n.x_time)
        });
        must("given up (worst seed)", (Exactly, 0.0, None), &|n| {
            worst(n, |n| n.gave_up)
        });
        must(
            "in flight at once while down (worst seed)",
            (Exactly, 1.0, None),
            &|n| worst(n, |n| n.in_flight_while_down),
        );
    }
    musts
}

/// On attempts, probes, give-ups and waste.
fn attempts(a: &Table) -> Vec<Must> {
    use Relation::{AtMost, Exactly};
    let mut musts = Vec::new();
    for limit in [
        Limit::NoHint,
        Limit::CeilingIsCores,
        Limit::StaticIsCores,
        Limit::StartedAt4Cores,
    ] {
        let row = Row::Ours(limit);
        let mut must = |claim, bound, of: &dyn Fn(&[Numbers]) -> f64| {
            musts.push(Must::new(a, row, claim, bound, of));
        };
        must(
            "in flight at once while down (worst seed)",
            (Exactly, 1.0, None),
            &|n| worst(n, |n| n.in_flight_while_down),
        );
        must("given up (worst seed)", (Exactly, 0.0, None), &|n| {
            worst(n, |n| n.gave_up)
        });
        if limit == Limit::StartedAt4Cores {
            continue; // what is in flight when the blip comes is lost, and more than the cores is
        }
        must("attempts in the blip", (AtMost, 25.0, Some(15.0)), &|n| {
            mean(n, |n| n.blip_attempts)
        });
        must(
            "attempts in maintenance",
            (AtMost, 550.0, Some(500.0)),
            &|n| mean(n, |n| n.maintenance_attempts),
        );
        must(
            "most attempts in a second while down",
            (AtMost, a.scenario.cores, Some(10.0)),
            &|n| mean(n, |n| n.peak),
        );
        must(
            "waste, share of render-seconds",
            (AtMost, 0.01, Some(0.005)),
            &|n| mean(n, |n| n.waste),
        );
    }
    musts
}

/// The server model still punishes what it should.
fn negative_control(a: &Table) -> Must {
    Must::new(
        a,
        Row::Fixed,
        "attempts in maintenance: stays bad",
        (Relation::AtLeast, 500_000.0, None),
        |n| mean(n, |n| n.maintenance_attempts),
    )
}

/// And serves who is kind to it: its cores are busy, none of them with anything else.
fn positive_control(a: &Table) -> Must {
    let minutes = (120.0, crate::scenario::BLIP);
    let rate = a.oracle.tiles(minutes.0, minutes.1) / (minutes.1 - minutes.0);
    Must {
        scenario: name(a),
        row: "the oracle",
        claim: "tiles/s while healthy / what the cores can do",
        relation: Relation::AtLeast,
        bound: 0.94,
        goal: None,
        measured: rate / a.scenario.capacity(),
    }
}

fn name(table: &Table) -> String {
    format!("{}, alpha {}", table.scenario.name, table.scenario.alpha)
}

/// A number with the digits that it takes to tell.
pub(crate) fn short(value: f64) -> String {
    if value.is_infinite() {
        return "never".to_owned();
    }
    let digits = match value.abs() {
        whole if whole.fract() == 0.0 => 0,
        part if part < 0.1 => 4,
        small if small < 3.0 => 3,
        middle if middle < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

const WORST_X_TIME: [(Limit, f64); 3] = [
    (Limit::NoHint, 1.30),
    (Limit::CeilingIsCores, 1.25),
    (Limit::StaticIsCores, 1.06),
];
