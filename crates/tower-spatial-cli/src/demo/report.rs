//! What people see: bars on a terminal, lines elsewhere, and the table.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use flaky_ogc::Counts;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use super::run::{Outcome, Story, Tally};
use super::script::{SECONDS_IN_ONE, TROUBLES, WORKERS, trouble_at};

#[derive(Debug)]
pub(super) struct Report {
    bar: Option<ProgressBar>,
    terminal: bool,
    last_line: Instant,
    story: Story,
}

impl Report {
    pub(super) fn begin(story: Story) -> io::Result<Self> {
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "{WORKERS} workers fetch {} tiles from a map server that has a bad day:",
            story.tiles
        )?;
        for trouble in &TROUBLES {
            writeln!(
                out,
                "  {:>3} .. {:>3} s  {}",
                trouble.seconds.start, trouble.seconds.end, trouble.name
            )?;
        }
        writeln!(
            out,
            "All times are the story's; one of its seconds takes 1/{SECONDS_IN_ONE} s, for server and clients alike. Seed {}.\n",
            story.seed
        )?;
        out.flush()?;
        Ok(Self {
            bar: None,
            terminal: io::stdout().is_terminal(),
            last_line: Instant::now(),
            story,
        })
    }

    pub(super) fn start(&mut self, name: &str, what: &str, tiles: u64) -> io::Result<()> {
        if self.terminal {
            let bar = ProgressBar::with_draw_target(Some(tiles), ProgressDrawTarget::stdout());
            if let Ok(style) =
                ProgressStyle::with_template("{prefix:<13} {bar:14} {pos:>4}/{len} {wide_msg}")
            {
                bar.set_style(style);
            }
            bar.set_prefix(name.to_owned());
            self.bar = Some(bar);
            return Ok(());
        }
        self.last_line = Instant::now();
        self.line(&format!("{name}: {what}"))
    }

    pub(super) fn progress(
        &mut self,
        name: &str,
        tally: Tally,
        counts: &Counts,
        elapsed: Duration,
    ) -> io::Result<()> {
        let now = trouble_at(elapsed).unwrap_or("all is well");
        let state = format!(
            "{} requests, {} wasted, {:.0} s: {now}",
            counts.requests,
            counts.renders_wasted,
            elapsed.as_secs_f64()
        );
        if let Some(bar) = &self.bar {
            bar.set_position(tally.done());
            bar.set_message(state);
        } else if self.last_line.elapsed() >= LINE {
            self.last_line = Instant::now();
            self.line(&format!("{name}: {} tiles done, {state}", tally.done()))?;
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, outcome: &Outcome) -> io::Result<()> {
        let Tally {
            right,
            wrong,
            missing,
        } = outcome.tally;
        let result = format!(
            "{right} right, {wrong} wrong, {missing} missing, {:.0} s",
            outcome.took.as_secs_f64()
        );
        match self.bar.take() {
            Some(bar) => {
                bar.set_position(outcome.tally.done());
                bar.finish_with_message(result);
                // A finished bar leaves the cursor on its line.
                self.line("")
            }
            None => self.line(&format!("{}: {result}", outcome.name)),
        }
    }

    /// The table, and whether the last of the outcomes kept what is promised against the first.
    pub(super) fn end(self, outcomes: &[Outcome; 3]) -> io::Result<bool> {
        let mut out = io::stdout().lock();
        writeln!(out)?;
        write!(out, "{:<38}", "")?;
        for outcome in outcomes {
            write!(out, "{:>15}", outcome.name)?;
        }
        writeln!(out)?;
        for (title, value) in ROWS {
            write!(out, "{title:<38}")?;
            for outcome in outcomes {
                write!(out, "{:>15}", value(outcome))?;
            }
            writeln!(out)?;
        }
        writeln!(out)?;
        let promises = promises(outcomes);
        for (kept, promise) in promises {
            writeln!(
                out,
                "{} {}: {promise}",
                if kept { "kept  " } else { "MISSED" },
                outcomes[2].name
            )?;
        }
        let all = promises.iter().all(|(kept, _)| *kept);
        if !all {
            writeln!(
                out,
                "Seed {0}: the same again with --seed {0}",
                self.story.seed
            )?;
        }
        out.flush()?;
        Ok(all)
    }

    fn line(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()
    }
}

/// What the last client promises, against the first, and whether it was kept.
pub(super) fn promises([plain, _, ours]: &[Outcome; 3]) -> [(bool, &'static str); 3] {
    let wasted = |outcome: &Outcome| outcome.counts.renders_wasted;
    [
        (ours.tally.right == ours.tiles, "every tile right"),
        (ours.tally.wrong == 0, "no error page saved"),
        (
            wasted(ours) * 5 <= wasted(plain),
            "at most a fifth of the plain client's wasted renders",
        ),
    ]
}

/// What a row is called, and its value for one client.
pub(super) type Row = (&'static str, fn(&Outcome) -> String);

/// The rows of the table.
pub(super) const ROWS: [Row; 7] = [
    ("requests that reached the server", |o| {
        o.counts.requests.to_string()
    }),
    ("renders", |o| o.counts.renders_finished.to_string()),
    ("renders wasted", |o| o.counts.renders_wasted.to_string()),
    ("error pages saved as tiles", |o| o.tally.wrong.to_string()),
    ("tiles right", |o| o.tally.right.to_string()),
    ("tiles missing", |o| o.tally.missing.to_string()),
    ("time, story seconds", |o| {
        format!("{:.0}", o.took.as_secs_f64())
    }),
];

/// Real time between two lines where there is no terminal.
const LINE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(right: u64, wrong: u64, wasted: u64) -> Outcome {
        let mut counts = Counts::default();
        counts.renders_wasted = wasted;
        let tally = Tally {
            right,
            wrong,
            missing: 10 - right - wrong,
        };
        Outcome {
            name: "x",
            what: "",
            counts,
            tally,
            tiles: 10,
            took: Duration::ZERO,
            samples: Vec::new(),
        }
    }

    fn kept(plain: Outcome, ours: Outcome) -> [bool; 3] {
        promises(&[plain, outcome(10, 0, 0), ours]).map(|(kept, _)| kept)
    }

    #[test]
    fn each_promise_is_missed_by_the_least_that_misses_it() {
        assert_eq!(kept(outcome(0, 0, 50), outcome(10, 0, 10)), [true; 3]);
        assert_eq!(
            kept(outcome(0, 0, 49), outcome(10, 0, 10)),
            [true, true, false]
        );
        assert_eq!(
            kept(outcome(0, 0, 50), outcome(9, 0, 10)),
            [false, true, true]
        );
        assert_eq!(
            kept(outcome(0, 0, 50), outcome(9, 1, 10)),
            [false, false, true]
        );
    }
}
