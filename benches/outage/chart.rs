//! What happened over time, drawn: one block of panels a row, phases shaded and named.

use std::fmt::Write;

use crate::must::short;
use crate::record::{Gate, Record, State};
use crate::scenario::{
    BLIP, BLIP_ENDS, BROWN_OUT, BROWN_OUT_ENDS, DEPLOY, MAINTENANCE, QUOTA, QUOTA_ENDS, Scenario,
};

/// One block of the picture.
pub(crate) struct Block<'a> {
    pub(crate) name: &'a str,
    pub(crate) record: &'a Record,
}

/// An SVG that stands alone: 900 units wide, its colours its own on light and on dark.
pub(crate) fn draw(
    title: &str,
    scenario: &Scenario,
    oracle: &Record,
    blocks: &[Block<'_>],
) -> String {
    let ends = |record: &Record| record.done.last().copied().unwrap_or(0.0);
    let last = blocks.iter().map(|block| ends(block.record));
    let last = last.fold(scenario.up_again() + 600.0, f64::max);
    let axis = Axis::new(scenario, last);
    let height = TOP + blocks.len() as f64 * BLOCK + BOTTOM;
    let mut svg = String::new();
    let _ = write!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}"><style>{STYLE}</style><rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>"#,
        escape(title)
    );
    text(&mut svg, LEFT, 22.0, "title", title);
    phases(&mut svg, scenario, &axis, height);
    for (place, block) in blocks.iter().enumerate() {
        let top = TOP + place as f64 * BLOCK;
        draw_block(&mut svg, scenario, &axis, oracle, block, top);
    }
    hours(&mut svg, &axis, height);
    svg.push_str("</svg>");
    svg
}

/// Time to the right; the long maintenance, in which little happens, drawn narrower.
struct Axis {
    squeezed: (f64, f64),
    scale: f64,
}

impl Axis {
    fn new(scenario: &Scenario, last: f64) -> Self {
        // A quarter of an hour at either end of it stays as wide as the rest.
        let squeezed = (MAINTENANCE + 450.0, scenario.up_again() - 450.0);
        let narrow = (squeezed.1 - squeezed.0).max(0.0);
        let seconds = last * 1.01 - narrow + narrow / SQUEEZE;
        Self {
            squeezed,
            scale: (WIDTH - LEFT - RIGHT) / seconds,
        }
    }

    fn x(&self, at: f64) -> f64 {
        let (from, to) = self.squeezed;
        let narrow = (at.min(to) - from).max(0.0);
        LEFT + self.scale * (at - narrow + narrow / SQUEEZE)
    }

    fn at(&self, x: f64) -> f64 {
        let (from, to) = self.squeezed;
        let wide = (x - LEFT) / self.scale;
        let narrow = ((wide - from) * SQUEEZE).clamp(0.0, (to - from).max(0.0));
        wide + narrow - narrow / SQUEEZE
    }

    /// The seconds that each column of pixels stands for, up to `end`.
    fn columns(&self, end: f64) -> impl Iterator<Item = (f64, f64, f64)> {
        let count = ((self.x(end) - LEFT) / COLUMN).ceil() as usize;
        (0..count).map(move |column| {
            let x = LEFT + column as f64 * COLUMN;
            (x, self.at(x), self.at(x + COLUMN).min(end))
        })
    }
}

fn phases(svg: &mut String, scenario: &Scenario, axis: &Axis, height: f64) {
    let up_again = scenario.up_again();
    let hours = scenario.maintenance / 3_600.0;
    let maintenance = format!("maintenance, {} h", short(hours));
    let shaded = [
        (BLIP, BLIP_ENDS, "down", "503 for 60 s"),
        (QUOTA, QUOTA_ENDS, "slow", "quota: 429"),
        (
            BROWN_OUT,
            BROWN_OUT_ENDS,
            "slow",
            "brown-out: half the cores",
        ),
        (DEPLOY, DEPLOY + 10.0, "deploy", "clients restart"),
        (MAINTENANCE, up_again, "down", maintenance.as_str()),
        (up_again, up_again + 120.0, "slow", "cold start"),
    ];
    for (place, (from, to, class, name)) in shaded.into_iter().enumerate() {
        let (x, end) = (axis.x(from), axis.x(to));
        let width = (end - x).max(1.5);
        let _ = write!(
            svg,
            r#"<rect class="{class}" x="{x:.1}" y="{:.1}" width="{width:.1}" height="{:.1}"/>"#,
            TOP - 6.0,
            height - BOTTOM - TOP + 6.0
        );
        // One below the other in turn, so that no name meets the next.
        let y = TOP - 41.0 + 15.0 * (place % 3) as f64;
        text(svg, x, y, "phase", name);
    }
}

fn draw_block(
    svg: &mut String,
    scenario: &Scenario,
    axis: &Axis,
    oracle: &Record,
    block: &Block<'_>,
    top: f64,
) {
    let record = block.record;
    let end = record.done.last().copied().unwrap_or(0.0);
    text(svg, LEFT, top + 14.0, "name", block.name);
    let outcome = format!(
        "{} attempts while the server was down, {:.1} % of its work for nobody, {} tiles given up, done after {}",
        thousands(record.blip_attempts + record.maintenance_attempts),
        100.0 * record.waste_share(),
        thousands(record.gave_up),
        clock(end),
    );
    text(svg, LEFT, top + 29.0, "outcome", &outcome);

    let attempts = Panel::new(
        top + 38.0,
        52.0,
        Scale::Log {
            from: 0.01,
            to: 1_000.0,
        },
    );
    attempts.frame(
        svg,
        "attempts/s",
        &[(0.1, "0.1"), (1.0, "1"), (10.0, "10"), (100.0, "100")],
    );
    attempts.area(
        svg,
        "attempts",
        axis.columns(end)
            .map(|(x, from, to)| (x, by_second(&record.attempts, from, to))),
    );

    let capacity = scenario.capacity();
    let goodput = Panel::new(
        top + 98.0,
        42.0,
        Scale::Linear {
            to: 1.25 * capacity,
        },
    );
    goodput.frame(
        svg,
        "tiles/s",
        &[(0.0, "0"), (capacity, &format!("{capacity:.1}"))],
    );
    let oracle_end = oracle.done.last().copied().unwrap_or(0.0);
    // Over a minute, or chance is all that one sees.
    let smooth = |record: &Record, from: f64, to: f64| {
        let (from, to) = ((from + to) / 2.0 - 30.0, (from + to) / 2.0 + 30.0);
        record.tiles(from, to) / 60.0
    };
    goodput.area(
        svg,
        "goodput",
        axis.columns(end)
            .map(|(x, from, to)| (x, smooth(record, from, to))),
    );
    goodput.line(
        svg,
        "oracle",
        axis.columns(oracle_end)
            .map(|(x, from, to)| (x, smooth(oracle, from, to))),
    );

    let limits = || record.states.iter().filter_map(|state| state.limit);
    let most = f64::from(limits().max().unwrap_or(0));
    let in_hand = record.states.iter().map(|state| state.at_server).max();
    let most = most
        .max(f64::from(in_hand.unwrap_or(0)))
        .max(2.0 * scenario.cores);
    let limit = Panel::new(top + 148.0, 42.0, Scale::Linear { to: 1.1 * most });
    limit.frame(
        svg,
        "limit, running",
        &[
            (scenario.cores, &short(scenario.cores)),
            (most, &short(most)),
        ],
    );
    let state = |at: f64| -> Option<&State> { record.states.get(at as usize) };
    limit.area(
        svg,
        "running",
        axis.columns(end).map(|(x, from, _)| {
            (
                x,
                state(from)
                    .map_or(0.0, |state| f64::from(state.at_server))
                    .min(most),
            )
        }),
    );
    if limits().next().is_some() {
        limit.line(
            svg,
            "limit",
            axis.columns(end).map(|(x, from, _)| {
                (
                    x,
                    state(from)
                        .and_then(|state| state.limit)
                        .map_or(0.0, f64::from),
                )
            }),
        );
    } else {
        text(svg, LEFT + 4.0, top + 159.0, "phase", "no limit");
    }
    breaker(svg, axis, record, end, top + 198.0);
}

/// A bar where it is open, a line where it is closed; half-open in between.
fn breaker(svg: &mut String, axis: &Axis, record: &Record, end: f64, y: f64) {
    end_text(svg, LEFT - 6.0, y + 8.0, "label", "breaker");
    if record.states.iter().all(|state| state.gate == Gate::None) {
        text(svg, LEFT + 4.0, y + 8.0, "phase", "none");
        return;
    }
    let mut path = [String::new(), String::new()];
    for (x, from, to) in axis.columns(end) {
        let seconds = from as usize..(to as usize + 1).min(record.states.len());
        let worst = record.states[seconds.start.min(seconds.end)..seconds.end]
            .iter()
            .fold(Gate::Closed, |worst, state| match (worst, state.gate) {
                (Gate::Open, _) | (_, Gate::Open) => Gate::Open,
                (Gate::HalfOpen, _) | (_, Gate::HalfOpen) => Gate::HalfOpen,
                _ => Gate::Closed,
            });
        let (place, height) = match worst {
            Gate::Open => (1, 9.0),
            Gate::HalfOpen => (1, 5.0),
            _ => (0, 1.5),
        };
        let _ = write!(
            path[place],
            "M{x:.1} {:.1}h{COLUMN}v{height}h-{COLUMN}z",
            y + 9.0 - height
        );
    }
    let [closed, open] = path;
    let _ = write!(
        svg,
        r#"<path class="closed" d="{closed}"/><path class="open" d="{open}"/>"#
    );
}

fn hours(svg: &mut String, axis: &Axis, height: f64) {
    let y = height - BOTTOM;
    let mut last_x = f64::NEG_INFINITY;
    for half_hour in 0..24 {
        let at = f64::from(half_hour) * 1_800.0;
        let x = axis.x(at);
        if x > WIDTH - RIGHT || x - last_x < 34.0 {
            continue;
        }
        last_x = x;
        let _ = write!(svg, r#"<path class="grid" d="M{x:.1} {y:.1}v4"/>"#);
        middle_text(svg, x, y + 16.0, "label", &clock(at));
    }
    let legend = "hours:minutes. Attempts on a logarithmic scale. Line over tiles/s: the oracle. Maintenance is drawn narrower.";
    text(svg, LEFT, y + 32.0, "label", legend);
    let legend = "Third panel: the line is the limit of all clients together, the area what the server has in hand. Breaker: high is open.";
    text(svg, LEFT, y + 46.0, "label", legend);
}

struct Panel {
    top: f64,
    height: f64,
    scale: Scale,
}

enum Scale {
    Linear { to: f64 },
    Log { from: f64, to: f64 },
}

impl Panel {
    fn new(top: f64, height: f64, scale: Scale) -> Self {
        Self { top, height, scale }
    }

    fn y(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear { to } => value / to,
            Scale::Log { from, .. } if value <= from => 0.0,
            Scale::Log { from, to } => (value / from).ln() / (to / from).ln(),
        };
        self.top + self.height * (1.0 - share.clamp(0.0, 1.0))
    }

    fn frame(&self, svg: &mut String, name: &str, marks: &[(f64, &str)]) {
        let _ = write!(svg, r#"<g class="label">"#);
        let mut free_above = f64::INFINITY;
        for (value, mark) in marks {
            let y = self.y(*value);
            let end = WIDTH - RIGHT;
            let _ = write!(svg, r#"<path class="grid" d="M{LEFT} {y:.1}H{end:.1}"/>"#);
            if y <= free_above {
                end_text(svg, LEFT - 6.0, y + 3.5, "label", mark);
                free_above = y - 10.0;
            }
        }
        let _ = write!(
            svg,
            r#"<text class="label axis" x="8" y="{:.1}">{}</text></g>"#,
            self.top + self.height / 2.0 + 3.5,
            escape(name)
        );
    }

    fn area(&self, svg: &mut String, class: &str, values: impl Iterator<Item = (f64, f64)>) {
        let bottom = self.top + self.height;
        let mut path = format!("M{LEFT} {bottom:.1}");
        let mut end = LEFT;
        let mut last = String::new();
        for (x, value) in values {
            let y = format!("{:.1}", self.y(value));
            // Only where it changes.
            if y != last {
                let _ = write!(path, "H{x:.1}V{y}");
                last = y;
            }
            end = x + COLUMN;
        }
        let _ = write!(
            svg,
            r#"<path class="{class}" d="{path}H{end:.1}V{bottom:.1}z"/>"#
        );
    }

    fn line(&self, svg: &mut String, class: &str, values: impl Iterator<Item = (f64, f64)>) {
        let mut path = String::new();
        for (x, value) in values {
            let step = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{step}{x:.1} {:.1}", self.y(value));
        }
        let _ = write!(svg, r#"<path class="{class}" d="{path}"/>"#);
    }
}

/// The mean, from whole seconds.
fn by_second(counts: &[u32], from: f64, to: f64) -> f64 {
    let seconds = from.floor() as usize..(to.ceil() as usize).max(from.floor() as usize + 1);
    let length = seconds.len() as f64;
    let within = counts.get(seconds.start.min(counts.len())..seconds.end.min(counts.len()));
    within.map_or(0.0, |counts| {
        counts.iter().copied().map(f64::from).sum::<f64>() / length
    })
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, what: &str) {
    let what = escape(what);
    let _ = write!(
        svg,
        r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{what}</text>"#
    );
}

fn end_text(svg: &mut String, x: f64, y: f64, class: &str, what: &str) {
    text(svg, x, y, &format!("{class} end"), what);
}

fn middle_text(svg: &mut String, x: f64, y: f64, class: &str, what: &str) {
    text(svg, x, y, &format!("{class} middle"), what);
}

/// Hours and minutes.
fn clock(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    format!("{}:{:02}", minutes / 60, minutes % 60)
}

pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

const WIDTH: f64 = 900.0;
const LEFT: f64 = 112.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 90.0;
const BLOCK: f64 = 226.0;
const BOTTOM: f64 = 58.0;
const COLUMN: f64 = 2.0;
/// How much narrower the middle of the maintenance is drawn.
const SQUEEZE: f64 = 6.0;

const STYLE: &str = "\
text{font:11px system-ui,sans-serif;fill:#3b4252}\
.title{font-size:15px;font-weight:600;fill:#111827}\
.name{font-size:13px;font-weight:600;fill:#111827}\
.end{text-anchor:end}.middle{text-anchor:middle}\
.ground{fill:#fff;stroke:#d5d9e0}\
.down{fill:#e5484d;fill-opacity:.13}.slow{fill:#d98e04;fill-opacity:.13}.deploy{fill:#6b7280;fill-opacity:.45}\
.grid{stroke:#8b93a1;stroke-opacity:.35;fill:none}\
.attempts{fill:#c2410c;fill-opacity:.85}.goodput{fill:#15803d;fill-opacity:.75}\
.running{fill:#64748b;fill-opacity:.45}\
.oracle,.limit{fill:none;stroke:#111827;stroke-width:1}.limit{stroke:#1d4ed8;stroke-width:1.6}\
.closed{fill:#15803d}.open{fill:#c2410c}\
@media(prefers-color-scheme:dark){text{fill:#c3cad6}.title,.name{fill:#f3f4f6}\
.ground{fill:#14181f;stroke:#333a45}.oracle{stroke:#f3f4f6}.limit{stroke:#7aa2ff}\
.attempts{fill:#fb923c}.goodput{fill:#4ade80;fill-opacity:.7}.closed{fill:#4ade80}.open{fill:#fb923c}}";
