//! What happened over time, drawn: a panel for each number, a line for each client, what went wrong shaded and named.

use std::fmt::Write;

use super::page::escape;
use super::run::{Outcome, Sample};
use super::script::TROUBLES;

/// An SVG that stands alone: its colours are its own on light and on dark.
pub(super) fn draw(outcomes: &[Outcome]) -> String {
    let seconds = outcomes
        .iter()
        .filter_map(|outcome| outcome.samples.last())
        .map(|sample| sample.at.as_secs_f64())
        .fold(60.0, f64::max);
    let axis = Axis { seconds };
    let height = TOP + PANELS.len() as f64 * PANEL + BOTTOM;
    let mut svg = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Requests, wasted renders, error pages saved and right tiles over time, for each client"><style>{STYLE}</style><rect class="ground" width="{WIDTH}" height="{height}" rx="8"/>"#
    );
    legend(&mut svg, outcomes);
    troubles(&mut svg, &axis, height);
    for (place, panel) in PANELS.iter().enumerate() {
        draw_panel(&mut svg, &axis, panel, outcomes, TOP + place as f64 * PANEL);
    }
    times(&mut svg, &axis, height);
    svg.push_str("</svg>");
    svg
}

/// One number of all clients.
struct Panel {
    title: &'static str,
    value: fn(&Sample) -> u64,
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "requests that reached the server",
        value: |sample| sample.requests,
    },
    Panel {
        title: "renders wasted",
        value: |sample| sample.wasted,
    },
    Panel {
        title: "error pages saved as tiles",
        value: |sample| sample.tally.wrong,
    },
    Panel {
        title: "tiles right",
        value: |sample| sample.tally.right,
    },
];

/// Story time to the right.
struct Axis {
    seconds: f64,
}

impl Axis {
    fn x(&self, at: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * at / self.seconds
    }
}

fn legend(svg: &mut String, outcomes: &[Outcome]) {
    for (place, outcome) in outcomes.iter().enumerate() {
        let x = LEFT + 150.0 * place as f64;
        let _ = write!(svg, r#"<path class="line client{place}" d="M{x} 20h26"/>"#);
        text(svg, x + 34.0, 24.0, "name", outcome.name);
    }
}

fn troubles(svg: &mut String, axis: &Axis, height: f64) {
    for (place, trouble) in TROUBLES.iter().enumerate() {
        let (from, to) = (trouble.seconds.start as f64, trouble.seconds.end as f64);
        if from >= axis.seconds {
            continue;
        }
        let (x, end) = (axis.x(from), axis.x(to.min(axis.seconds)));
        let (y, width) = (TOP - 8.0, end - x);
        let bottom = height - BOTTOM;
        let _ = write!(
            svg,
            r#"<rect class="trouble" x="{x:.1}" y="{y}" width="{width:.1}" height="{:.1}"/>"#,
            bottom - y
        );
        let number = (place + 1).to_string();
        text(svg, x + width / 2.0, TOP - 14.0, "number", &number);
    }
}

fn draw_panel(svg: &mut String, axis: &Axis, panel: &Panel, outcomes: &[Outcome], top: f64) {
    let (ceiling, floor) = (top + TITLE, top + PANEL - GAP);
    let most = outcomes.iter().flat_map(|outcome| &outcome.samples);
    let most = most.map(panel.value).max().unwrap_or_default().max(1);
    let y = |value: u64| floor - (floor - ceiling) * value as f64 / most as f64;
    text(svg, LEFT, top + 12.0, "panel", panel.title);
    let end = axis.x(axis.seconds);
    let _ = write!(
        svg,
        r#"<path class="grid" d="M{LEFT} {ceiling:.1}H{end:.1}M{LEFT} {floor:.1}H{end:.1}"/>"#
    );
    text(svg, LEFT - 6.0, ceiling + 4.0, "tick", &most.to_string());
    text(svg, LEFT - 6.0, floor + 4.0, "tick", "0");
    let mut labels = Vec::new();
    // The last one, ours, is drawn over the others.
    for (place, outcome) in outcomes.iter().enumerate() {
        let mut path = String::new();
        for (n, sample) in outcome.samples.iter().enumerate() {
            let step = if n == 0 { 'M' } else { 'L' };
            let at = axis.x(sample.at.as_secs_f64());
            let _ = write!(path, "{step}{at:.1} {:.1}", y((panel.value)(sample)));
        }
        let Some(last) = outcome.samples.last() else {
            continue;
        };
        let (value, at) = ((panel.value)(last), axis.x(last.at.as_secs_f64()));
        let _ = write!(
            svg,
            r#"<path class="line client{place}" d="{path}"/><circle class="end client{place}" cx="{at:.1}" cy="{:.1}" r="3"/>"#,
            y(value)
        );
        labels.push((y(value), place, value));
    }
    for (y, place, value) in apart(labels) {
        let class = format!("value client{place}");
        text(svg, end + 12.0, y + 4.0, &class, &value.to_string());
    }
}

/// The labels from the top, none nearer to the next than a line of text.
fn apart(mut labels: Vec<(f64, usize, u64)>) -> Vec<(f64, usize, u64)> {
    labels.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    // From below, since the floor of a panel is where the next one's title is near.
    for n in (1..labels.len()).rev() {
        let lowest = labels[n].0 - LINE;
        labels[n - 1].0 = labels[n - 1].0.min(lowest);
    }
    labels
}

fn times(svg: &mut String, axis: &Axis, height: f64) {
    let y = height - BOTTOM + 16.0;
    let step = [30.0, 60.0, 120.0, 300.0, 600.0]
        .into_iter()
        .find(|step| axis.seconds / step <= 12.0)
        .unwrap_or(1_200.0);
    let mut at = 0.0;
    while at <= axis.seconds {
        text(svg, axis.x(at), y, "time", &format!("{at:.0} s"));
        at += step;
    }
}

fn text(svg: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let _ = write!(
        svg,
        r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#,
        escape(text)
    );
}

const WIDTH: f64 = 860.0;
const TOP: f64 = 66.0;
const BOTTOM: f64 = 30.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 64.0;
/// Height of a panel with its title, and the space below its floor.
const PANEL: f64 = 132.0;
const TITLE: f64 = 24.0;
const GAP: f64 = 14.0;
/// Height of a line of text.
const LINE: f64 = 13.0;

const STYLE: &str = "\
svg{font:12px system-ui,sans-serif}\
.ground{fill:#fff}text{fill:#333}\
.panel,.name{font-weight:600}.tick{text-anchor:end;fill:#666;font-size:11px}\
.number,.time{text-anchor:middle;fill:#666;font-size:11px}\
.value{font-weight:600;font-size:11px}\
.grid{stroke:#ccc;fill:none}.trouble{fill:#d9a400;fill-opacity:.16}\
.line{fill:none;stroke-width:1.8;stroke-linejoin:round}.end{stroke:none}\
.line.client0{stroke:#c8501e;stroke-dasharray:2 3}.line.client1{stroke:#3a6fb0;stroke-dasharray:7 3}.line.client2{stroke:#0b7a53;stroke-width:2.4}\
circle.client0,text.client0{fill:#c8501e}circle.client1,text.client1{fill:#3a6fb0}circle.client2,text.client2{fill:#0b7a53}\
@media(prefers-color-scheme:dark){.ground{fill:#16191d}text{fill:#ddd}.tick,.number,.time{fill:#9aa}.grid{stroke:#444}\
.line.client0{stroke:#ff9166}.line.client1{stroke:#86b6f5}.line.client2{stroke:#4fd6a0}\
circle.client0,text.client0{fill:#ff9166}circle.client1,text.client1{fill:#86b6f5}circle.client2,text.client2{fill:#4fd6a0}}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_equal_values_stand_apart_and_in_their_order() {
        let labels = apart(vec![(100.0, 0, 7), (100.0, 1, 7), (40.0, 2, 9)]);
        assert_eq!(labels, [(40.0, 2, 9), (100.0 - LINE, 0, 7), (100.0, 1, 7)]);
    }
}
