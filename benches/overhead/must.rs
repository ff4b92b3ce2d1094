//! What must hold.

use std::fmt;

use crate::timing::Estimate;

/// A promise about a number: it is at most `limit`.
#[derive(Debug)]
pub(crate) struct Must {
    claim: &'static str,
    limit: f64,
    goal: Option<f64>,
    /// What is reached, where the limit is not.
    held: Option<f64>,
    /// `None` where the tool that measures it is missing.
    measured: Option<Estimate>,
}

impl Must {
    pub(crate) fn new(
        claim: &'static str,
        limit: f64,
        measured: impl Into<Option<Estimate>>,
    ) -> Self {
        Self {
            claim,
            limit,
            goal: None,
            held: None,
            measured: measured.into(),
        }
    }

    /// Shown, not required.
    pub(crate) fn with_goal(self, goal: f64) -> Self {
        Self {
            goal: Some(goal),
            ..self
        }
    }

    /// The limit is out of reach so far; said, and no excuse for what is worse than this.
    pub(crate) fn held_at(self, held: f64) -> Self {
        Self {
            held: Some(held),
            ..self
        }
    }

    /// Whether chance alone may decide.
    pub(crate) fn is_close(&self) -> bool {
        self.measured
            .is_some_and(|measured| (measured.value - self.bound()).abs() < measured.noise)
    }

    /// Whether it is worse than what is promised or, where that is out of reach, than what is held.
    ///
    /// A number that nothing measured is broken only where CI promised the tool.
    pub(crate) fn is_broken(&self) -> bool {
        self.exceeds(self.bound())
    }

    fn bound(&self) -> f64 {
        self.held.unwrap_or(self.limit)
    }

    fn exceeds(&self, bound: f64) -> bool {
        match self.measured {
            Some(measured) => measured.value.is_nan() || measured.value > bound,
            None => std::env::var_os("CI").is_some_and(|ci| ci == "true"),
        }
    }
}

impl fmt::Display for Must {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measured = match self.measured {
            None => "not measured".to_owned(),
            Some(Estimate { value, noise: 0.0 }) => short(value),
            Some(Estimate { value, noise }) => format!("{} ±{}", short(value), short(noise)),
        };
        let verdict = if self.exceeds(self.limit) {
            "MISSED"
        } else {
            "ok"
        };
        write!(
            f,
            "must  {:<52} <= {:<6}{measured:>16}  {verdict}",
            self.claim, self.limit
        )?;
        if let Some(goal) = self.goal {
            write!(f, " (goal {goal})")?;
        }
        if let Some(held) = self.held {
            write!(f, " (held at {held})")?;
        }
        Ok(())
    }
}

/// A number with the digits that its noise leaves a meaning.
pub(crate) fn short(value: f64) -> String {
    let digits = match value.abs() {
        whole if whole.fract() == 0.0 => 0,
        part if part < 1.0 => 3,
        small if small < 10.0 => 2,
        middle if middle < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}
