//! Rows that are measured together, and their table.

use std::collections::HashMap;
use std::time::Duration;

use crate::instructions;
use crate::memory::Allocations;
use crate::must::short;
use crate::stacks::Row;
use crate::timing::Timing;

pub(crate) struct Series {
    title: &'static str,
    make: fn() -> Vec<Row>,
    rows: Vec<Row>,
    pub(crate) timing: Timing,
    /// Of a unit; empty where they were not counted.
    allocations: HashMap<&'static str, Allocations>,
    /// Of a unit; empty where they were not counted.
    instructions: HashMap<&'static str, f64>,
}

impl Series {
    pub(crate) fn new(title: &'static str, make: fn() -> Vec<Row>) -> Self {
        let rows = make();
        Self {
            title,
            make,
            timing: Timing::new(&rows),
            rows,
            allocations: HashMap::new(),
            instructions: HashMap::new(),
        }
    }

    /// Takes rounds of samples for so long.
    pub(crate) fn sample(&mut self, duration: Duration) {
        self.timing.sample(self.make, duration);
    }

    pub(crate) fn count_allocations(&mut self) {
        self.allocations = self
            .rows
            .iter_mut()
            .map(|row| (row.name, Allocations::of(row)))
            .collect();
    }

    pub(crate) fn count_instructions(&mut self) {
        let names: Vec<_> = self.rows.iter().map(|row| row.name).collect();
        self.instructions = instructions::of(&names).unwrap_or_default();
    }

    /// Instructions that a row adds to its bare row; `None` where they were not counted.
    pub(crate) fn instructions(&self, name: &str) -> Option<f64> {
        let bare = self.row(name).bare;
        Some(self.instructions.get(name)? - self.instructions.get(bare)?)
    }

    /// Allocations that a row adds to its bare row; `None` where they were not counted.
    pub(crate) fn allocations(&self, name: &str) -> Option<Allocations> {
        let bare = self.allocations.get(self.row(name).bare)?;
        let here = self.allocations.get(name)?;
        Some(Allocations {
            count: here.count - bare.count,
            bytes: here.bytes - bare.bytes,
        })
    }

    pub(crate) fn print(&self) {
        println!("\n{} ({} rounds)", self.title, self.timing.rounds());
        println!(
            "{:<28}{:>8}    over bare: {:>8}{:>8}{:>14}{:>13}{:>8}",
            "", "ns", "ns", "±", "instructions", "allocations", "bytes"
        );
        for row in &self.rows {
            let ns = short(self.timing.median(row.name));
            if row.name == row.bare {
                println!("{:<28}{ns:>8}", row.name);
                continue;
            }
            let over = self.timing.over_bare(row.name);
            let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), short);
            let allocations = self.allocations(row.name);
            println!(
                "{:<28}{ns:>8}{:>23}{:>8}{:>14}{:>13}{:>8}",
                row.name,
                short(over.value),
                short(over.noise),
                or_dash(self.instructions(row.name)),
                or_dash(allocations.map(|allocations| allocations.count)),
                or_dash(allocations.map(|allocations| allocations.bytes)),
            );
        }
    }

    fn row(&self, name: &str) -> &Row {
        self.rows
            .iter()
            .find(|row| row.name == name)
            .expect("a row of this series")
    }
}
