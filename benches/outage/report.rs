//! The report: one page that needs nothing else.

use std::fmt::Write;

use crate::chart::{self, Block, escape, thousands};
use crate::must::{Must, short};
use crate::plan::{Results, Table};
use crate::record::{Numbers, mean, median, worst};
use crate::rows::Row;

/// One column of a table: its title, and what it says of a row.
type Column = (&'static str, fn(&[Numbers]) -> String);

/// The whole page.
pub(crate) fn page(tables: &[Table], musts: &[Must]) -> String {
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>What outages cost</title><style>{STYLE}</style><main><h1>What outages cost</h1>{INTRODUCTION}"
    );
    musts_table(&mut html, musts);
    for table in tables {
        let Table {
            scenario, seeds, ..
        } = table;
        let heading = format!("Scenario {}, alpha {}", scenario.name, scenario.alpha);
        let _ = write!(
            html,
            "<h2>{}</h2><p>{} workers in {} processes, {} cores, {} tiles, {} s of maintenance. Seeds {} to {}; rows with one \
             seed say so.</p>",
            escape(&heading),
            thousands(scenario.workers() as u64),
            scenario.processes,
            scenario.cores,
            thousands(scenario.tiles as u64),
            thousands(scenario.maintenance as u64),
            seeds.first().copied().unwrap_or_default(),
            seeds.last().copied().unwrap_or_default(),
        );
        results_table(&mut html, table);
        if scenario.alpha == 0.0 {
            html.push_str(TIES);
        }
        let blocks: Vec<_> = table
            .rows
            .iter()
            .map(|results| Block {
                name: results.row.name(),
                record: &results.first,
            })
            .collect();
        let title = format!(
            "{heading}, seed {}",
            seeds.first().copied().unwrap_or_default()
        );
        html.push_str("<figure>");
        html.push_str(&chart::draw(&title, scenario, &table.oracle, &blocks));
        html.push_str("</figure>");
    }
    html.push_str("</main></html>\n");
    html
}

/// The picture of the README: ours, the article's and fixed repeats over scenario A.
pub(crate) fn picture(a: &Table) -> String {
    let rows = [
        (
            Row::Ours(crate::rows::Limit::NoHint),
            "tower-spatial, knowing nothing of the server",
        ),
        (
            Row::Article,
            "full jitter, a budget of 300 s, 16 in flight in each process",
        ),
        (Row::Fixed, "three repeats, a second apart"),
    ];
    let blocks: Vec<_> = rows
        .into_iter()
        .filter_map(|(row, name)| {
            let record = &a.of(row)?.first;
            Some(Block { name, record })
        })
        .collect();
    let title = "Five hours of a render server with 16 cores, 27 000 tiles, 100 workers";
    chart::draw(title, &a.scenario, &a.oracle, &blocks)
}

/// A table for the terminal.
pub(crate) fn plain(table: &Table) -> String {
    let mut text = format!(
        "\nscenario {}, alpha {}\n{:<58}",
        table.scenario.name, table.scenario.alpha, ""
    );
    for (title, _) in columns() {
        let _ = write!(text, "| {title} ");
    }
    text.push('\n');
    for results in &table.rows {
        let _ = write!(text, "{:<58}", name(results));
        for (title, of) in columns() {
            let width = title.chars().count();
            let _ = write!(text, "| {:>width$} ", of(&results.numbers));
        }
        text.push('\n');
    }
    text
}

fn musts_table(html: &mut String, musts: &[Must]) {
    html.push_str(
        "<h2>What must hold</h2><div class=\"wide\"><table><thead><tr><th>scenario<th>row<th>number<th>must<th>goal<th>measured<th>\
         </thead><tbody>",
    );
    for must in musts {
        let (class, verdict) = match (must.is_missed(), must.reaches_goal()) {
            (true, _) => ("missed", "missed"),
            (false, true) if must.goal.is_some() => ("goal", "goal reached"),
            (false, _) => ("ok", "holds"),
        };
        let _ = write!(
            html,
            "<tr><td>{}<td>{}<td>{}<td class=\"n\">{} {}<td class=\"n\">{}<td class=\"n\">{}<td class=\"{class}\">{verdict}",
            escape(&must.scenario),
            escape(must.row),
            escape(must.claim),
            must.relation(),
            short(must.bound),
            must.goal.map(short).unwrap_or_default(),
            short(must.measured),
        );
    }
    html.push_str("</tbody></table></div>");
}

fn results_table(html: &mut String, table: &Table) {
    html.push_str("<div class=\"wide\"><table><thead><tr><th>row");
    for (title, _) in columns() {
        let _ = write!(html, "<th>{}", escape(title));
    }
    html.push_str("</thead><tbody>");
    for results in &table.rows {
        let _ = write!(html, "<tr><td>{}", escape(&name(results)));
        for (_, of) in columns() {
            let _ = write!(html, "<td class=\"n\">{}", escape(&of(&results.numbers)));
        }
    }
    html.push_str("</tbody></table></div>");
}

fn name(results: &Results) -> String {
    match results.numbers.len() {
        1 => format!("{} (1 seed)", results.row.name()),
        _ => results.row.name().to_owned(),
    }
}

fn columns() -> [Column; 17] {
    fn count(value: f64) -> String {
        if value.is_nan() {
            "-".to_owned()
        } else {
            thousands(value.round() as u64)
        }
    }
    fn share(value: f64) -> String {
        if value.is_finite() {
            format!("{value:.3}")
        } else {
            "-".to_owned()
        }
    }
    fn seconds(value: f64) -> String {
        match value {
            value if value.is_nan() => "-".to_owned(),
            value if value.is_infinite() => "never".to_owned(),
            value => format!("{value:.0}"),
        }
    }
    [
        ("attempts in blip", |n| count(mean(n, |n| n.blip_attempts))),
        ("in maintenance", |n| {
            count(mean(n, |n| n.maintenance_attempts))
        }),
        ("peak/s while down", |n| count(mean(n, |n| n.peak))),
        ("at once while down", |n| {
            count(worst(n, |n| n.in_flight_while_down))
        }),
        ("waste %", |n| {
            format!("{:.2}", 100.0 * mean(n, |n| n.waste))
        }),
        ("healthy", |n| share(mean(n, |n| n.healthy))),
        ("brown-out", |n| share(mean(n, |n| n.brown_out))),
        ("quota", |n| share(mean(n, |n| n.quota))),
        ("429s", |n| count(mean(n, |n| n.throttled))),
        ("first 120 s after blip", |n| share(mean(n, |n| n.blip_120))),
        ("first 300 s after maintenance", |n| {
            share(mean(n, |n| n.recovery_300))
        }),
        ("t90 blip", |n| seconds(median(n, |n| n.t90_blip))),
        ("t90 maintenance - oracle", |n| {
            seconds(median(n, |n| n.t90_maintenance))
        }),
        ("x-time (worst)", |n| {
            let (mean, worst) = (mean(n, |n| n.x_time), worst(n, |n| n.x_time));
            match mean {
                mean if mean.is_nan() => "-".to_owned(),
                mean if mean.is_infinite() => "not done".to_owned(),
                mean => format!("{mean:.3} ({worst:.3})"),
            }
        }),
        ("given up", |n| count(mean(n, |n| n.gave_up))),
        ("p50 s", |n| format!("{:.1}", mean(n, |n| n.p50))),
        ("p99 s", |n| format!("{:.0}", mean(n, |n| n.p99))),
    ]
}

const INTRODUCTION: &str = "<p>Real tower stacks on tokio's paused clock, in front of a render server that is a model: cores \
are shared by all renders that run, more renders than cores slow everybody down by alpha for each, demand is lognormal (mean \
3 s, sigma 0.8), nothing is cancelled (what nobody waits for is rendered to its end, and wasted), a round trip takes 50 ms. \
Attempts time out after 60 s, a budget is 300 s. A tile that is given up counts, and goes to the end of the queue.</p>\
<p>The oracle sees the server's state, loses nothing and waits for nothing: a bound, not a rival. Goodput (healthy, brown-out, \
quota, first seconds) is relative to it; x-time is the time that the job took while the server was up, relative to the \
oracle's. Rows marked as a model are the published algorithm at its published defaults, since their clocks cannot be paused; \
the others are the code itself. At once while down: the most attempts on their way at once, from ten seconds after the \
server went down to the first tile after, worst seed. t90: seconds until the first minute with 90 % of what a healthy server \
can do, median. Everything else is the mean over seeds. The server is deterministic by seed, the clients' jitter is not.</p>";

const TIES: &str = "<p><strong>Where crowding costs a server nothing (alpha 0), simple policies tie in x-time.</strong> What \
still tells them apart is what they ask of a server that is down, what they have rendered for nobody, and what they give \
up.</p>";

const STYLE: &str = "\
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:0;background:#f6f7f9;color:#1f2530}\
main{max-width:1200px;margin:auto;padding:24px}h1{font-size:26px}h2{font-size:19px;margin-top:36px}p{max-width:75ch}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;background:#fff}\
th,td{padding:4px 8px;border:1px solid #d5d9e0;text-align:left;vertical-align:bottom}.n{text-align:right;white-space:nowrap;\
font-variant-numeric:tabular-nums}.missed{background:#e5484d33;font-weight:600}.goal{background:#15803d26}\
figure{margin:20px 0;max-width:1100px}svg{width:100%;height:auto}\
@media(prefers-color-scheme:dark){body{background:#0e1116;color:#d7dce5}table{background:#14181f}th,td{border-color:#333a45}}";
