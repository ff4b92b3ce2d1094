//! Instructions: the bench runs itself under callgrind, which counts only inside [`collected`].

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use allocation_counter::opt_out;

use crate::stacks::Row;

/// The argument under which the bench only makes the calls of the row named next.
pub(crate) const COUNT: &str = "--count";

/// Instructions a unit, by row; `None` where valgrind is missing.
///
/// # Panics
///
/// When valgrind is there but fails.
pub(crate) fn of(names: &[&'static str]) -> Option<HashMap<&'static str, f64>> {
    Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .ok()?;
    let program = std::env::current_exe().expect("the path of this program");
    let mut counts = HashMap::new();
    // Two at a time: counts, unlike times, do not suffer from company.
    for pair in names.chunks(2) {
        let children: Vec<_> = pair
            .iter()
            .map(|row| (*row, spawn(&program, row)))
            .collect();
        for (row, child) in children {
            let output = child.wait_with_output().expect("valgrind's output");
            let report = String::from_utf8_lossy(&output.stderr);
            let total = report.lines().find_map(collected_total);
            let total =
                total.unwrap_or_else(|| panic!("callgrind counted nothing for {row}:\n{report}"));
            counts.insert(row, total / f64::from(UNITS));
        }
    }
    Some(counts)
}

/// What the bench does under callgrind: warms up uncounted, then makes [`UNITS`] calls.
pub(crate) fn count(row: &mut Row) {
    opt_out(|| {
        (row.run)(UNITS);
        collected(row);
    });
}

/// Counting starts when this is entered and ends when it is left.
#[inline(never)]
fn collected(row: &mut Row) {
    std::hint::black_box((row.run)(std::hint::black_box(UNITS)));
}

fn spawn(program: &Path, row: &str) -> Child {
    // Kept for `callgrind_annotate`, which says which functions the instructions went to.
    let profile = format!(
        "{}/callgrind.{}",
        env!("CARGO_TARGET_TMPDIR"),
        row.replace(", ", "-").replace(' ', "-")
    );
    Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=overhead::instructions::collected",
        ])
        .arg(format!("--callgrind-out-file={profile}"))
        .arg(program)
        .args([COUNT, row])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("valgrind starts")
}

/// Reads callgrind's closing `==1== Collected : 12345`.
fn collected_total(line: &str) -> Option<f64> {
    let (_, total) = line.split_once("Collected :")?;
    total.trim().parse().ok().filter(|total| *total > 0.0)
}

/// Calls of one row under callgrind.
const UNITS: u32 = 500;
