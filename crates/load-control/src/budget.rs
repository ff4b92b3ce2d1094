use std::time::{Duration, Instant};

/// Until when a call may go on: a budget of time for its attempts and sleeps, and the caller's deadline for everything.
///
/// A budget bounds when work *begins*: no sleep begins that would end after it, so no attempt starts after it, but an
/// answer that has started is never cut by it. A deadline, which is the caller's, ends whichever comes first.
///
/// ```
/// use std::time::Duration;
/// use load_control::{Budget, Exceeded};
///
/// # #[allow(clippy::disallowed_methods)]
/// let now = std::time::Instant::now();
/// let budget = Budget::starting(now, Duration::from_secs(600)).with_deadline(now + Duration::from_secs(60));
/// assert_eq!(budget.fits(now, Duration::from_secs(60)), Ok(()));
/// assert_eq!(budget.fits(now, Duration::from_secs(61)), Err(Exceeded::Deadline));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// `None`: farther away than an [`Instant`] can tell.
    end: Option<Instant>,
    deadline: Option<Instant>,
}

impl Budget {
    /// A budget of `total`, counted from `start`.
    pub fn starting(start: Instant, total: Duration) -> Self {
        Self {
            end: start.checked_add(total),
            deadline: None,
        }
    }

    /// The same under a deadline.
    #[must_use]
    pub fn with_deadline(self, deadline: impl Into<Option<Instant>>) -> Self {
        Self {
            deadline: deadline.into(),
            ..self
        }
    }

    /// The same, with its end `by` later: for so long it stands still. The deadline does not.
    #[must_use]
    pub fn standing_still(self, by: Duration) -> Self {
        Self {
            end: self.end.and_then(|end| end.checked_add(by)),
            ..self
        }
    }

    /// Whether an attempt may start after a sleep of `delay` from `now`.
    ///
    /// # Errors
    /// What it would exceed; where it would exceed both, the one that ends first.
    pub fn fits(&self, now: Instant, delay: Duration) -> Result<(), Exceeded> {
        let Some(limit) = self.latest_start() else {
            return Ok(());
        };
        if now.checked_add(delay).is_some_and(|start| start <= limit) {
            Ok(())
        } else if self.deadline == Some(limit) {
            Err(Exceeded::Deadline)
        } else {
            Err(Exceeded::Budget)
        }
    }

    /// The last instant at which an attempt may start; `None` where there is no end to speak of.
    pub fn latest_start(&self) -> Option<Instant> {
        match (self.end, self.deadline) {
            (Some(end), Some(deadline)) => Some(end.min(deadline)),
            (end, deadline) => end.or(deadline),
        }
    }
}

/// What a sleep would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    /// The budget.
    Budget,
    /// The caller's deadline.
    Deadline,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[allow(clippy::disallowed_methods)] // an origin for the arithmetic; no test depends on its value
    fn origin() -> Instant {
        Instant::now()
    }

    proptest! {
        #[test]
        fn no_attempt_starts_after_budget_or_deadline(
            total in 0u64..10_000, deadline in prop::option::of(0u64..10_000), elapsed in 0u64..20_000, delay in 0u64..20_000,
        ) {
            let start = origin();
            let ms = Duration::from_millis;
            let budget = Budget::starting(start, ms(total)).with_deadline(deadline.map(|d| start + ms(d)));
            let verdict = budget.fits(start + ms(elapsed), ms(delay));
            let end = deadline.map_or(total, |d| d.min(total));
            prop_assert_eq!(verdict.is_ok(), elapsed + delay <= end);
            if let Err(exceeded) = verdict {
                prop_assert_eq!(exceeded == Exceeded::Deadline, deadline.is_some_and(|d| d <= total));
            }
        }
    }

    #[test]
    fn an_endless_budget_is_still_under_the_deadline() {
        let now = origin();
        let endless = Budget::starting(now, Duration::MAX);
        assert_eq!(endless.fits(now, Duration::from_secs(1 << 30)), Ok(()));
        assert_eq!(
            endless.with_deadline(now).fits(now, Duration::MAX),
            Err(Exceeded::Deadline)
        );
    }
}
