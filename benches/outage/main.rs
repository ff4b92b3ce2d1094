//! What outages cost: a render server through an afternoon of them, and clients with one policy or another.
//!
//! `cargo bench -p benches --features paused --bench outage -- --quick` runs scenario A with one seed, and exits with 1 where
//! something that must hold does not. Without `--quick` all scenarios run with twenty seeds, which takes its time.
//! `--report FILE` writes a page with tables and pictures, `--svg FILE` the picture of the README, `--seeds N` asks for
//! fewer seeds.
//!
//! The stacks are real, on tokio's paused clock; the server ([`server`]) is a model. What cannot run on a paused clock is a
//! model of the published algorithm ([`models`]), and marked so. The oracle ([`oracle`]) is computed.
#![expect(
    clippy::print_stdout,
    reason = "a report on standard output is what this program is for"
)]

mod chart;
mod job;
mod models;
mod must;
mod oracle;
mod plan;
mod record;
mod renderer;
mod report;
mod rows;
mod scenario;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;

use must::Must;
use plan::{Plan, Table};
use rows::{Limit, Row};
use scenario::Scenario;

fn main() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            println!("{problem}");
            return ExitCode::from(2);
        }
    };
    if cfg!(debug_assertions) && !arguments.is_quick {
        println!("not optimised: use cargo bench");
        return ExitCode::SUCCESS;
    }
    let (tables, musts) = if arguments.is_quick {
        quick()
    } else {
        full(arguments.seeds)
    };
    for must in &musts {
        println!("{must}");
    }
    let files = [
        (arguments.report, report::page(&tables, &musts)),
        (arguments.svg, report::picture(&tables[0])),
    ];
    for (path, content) in files {
        if let Some(path) = path
            && let Err(error) = std::fs::write(&path, content)
        {
            println!("{}: {error}", path.display());
            return ExitCode::from(2);
        }
    }
    ExitCode::from(u8::from(musts.iter().any(Must::is_missed)))
}

fn quick() -> (Vec<Table>, Vec<Must>) {
    let a = Plan {
        scenario: Scenario::a(),
        seeds: vec![FIRST_SEED],
        rows: OURS.to_vec(),
        rivals: vec![Row::Article, Row::Fixed],
        rivals_until: None,
    };
    let a = run(a);
    let musts = must::quick(&a);
    (vec![a], musts)
}

fn full(seeds: u64) -> (Vec<Table>, Vec<Must>) {
    let seeds: Vec<_> = (FIRST_SEED..FIRST_SEED + seeds).collect();
    let mut rows = OURS.to_vec();
    rows.push(Row::Unshared);
    let rivals = [
        Row::Article,
        Row::TowerResilience,
        Row::ReqwestRetry,
        Row::Tower,
        Row::Fixed,
    ];
    let plan = |scenario, rivals| Plan {
        scenario,
        seeds: seeds.clone(),
        rows: rows.clone(),
        rivals,
        rivals_until: None,
    };
    let a = run(plan(
        Scenario::a(),
        [&[Row::Strict, Row::SlowProbes], &rivals[..]].concat(),
    ));
    let no_thrash = run(plan(Scenario::a().with_alpha(0.0), rivals.to_vec()));
    let much_thrash = run(plan(Scenario::a().with_alpha(0.05), rivals.to_vec()));
    let b = run(Plan {
        rivals_until: Some(780.0),
        ..plan(Scenario::b(), rivals.to_vec())
    });
    let mut musts = must::full(&a);
    let bounds = [
        (Limit::NoHint, 1.03, 1.02),
        (Limit::CeilingIsCores, 1.05, 1.03),
    ];
    musts.extend(must::x_times(&no_thrash, &bounds));
    let bounds = [
        (Limit::NoHint, 1.18, 1.12),
        (Limit::CeilingIsCores, 1.07, 1.045),
    ];
    musts.extend(must::x_times(&much_thrash, &bounds));
    musts.extend(must::scenario_b(&b));
    (vec![a, no_thrash, much_thrash, b], musts)
}

fn run(plan: Plan) -> Table {
    let table = plan.run();
    println!("{}", report::plain(&table));
    table
}

struct Arguments {
    is_quick: bool,
    seeds: u64,
    report: Option<PathBuf>,
    svg: Option<PathBuf>,
}

impl Arguments {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut read = Self {
            is_quick: false,
            seeds: 20,
            report: None,
            svg: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.ok_or_else(|| format!("{argument}: a value is missing"))
            };
            match argument.as_str() {
                "--quick" => read.is_quick = true,
                "--seeds" => {
                    let value = value()?;
                    let seeds = value.parse().ok().filter(|seeds| *seeds > 0);
                    read.seeds =
                        seeds.ok_or_else(|| format!("--seeds: {value} is no number from 1"))?;
                }
                "--report" => read.report = Some(value()?.into()),
                "--svg" => read.svg = Some(value()?.into()),
                // As cargo calls every bench.
                "--bench" => {}
                other => {
                    return Err(format!(
                        "{other} is not known: --quick, --seeds N, --report FILE, --svg FILE"
                    ));
                }
            }
        }
        Ok(read)
    }
}

const OURS: [Row; 4] = [
    Row::Ours(Limit::NoHint),
    Row::Ours(Limit::CeilingIsCores),
    Row::Ours(Limit::StaticIsCores),
    Row::Ours(Limit::StartedAt4Cores),
];

/// No seed from here on was used in tuning.
const FIRST_SEED: u64 = 9_001;
