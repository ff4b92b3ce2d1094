use std::time::{Duration, Instant};

use rand::{Rng, RngExt};

/// Until when everybody waits because the server asked for it (`Retry-After`, RFC 9110 §10.2.3, or a rate header).
///
/// It is only ever extended: a shorter hint that comes later was sent earlier, or by a server that knows less. A hint is
/// clamped, and its end lies up to 0.5 s later, so that processes which were told the same do not return in one instant.
///
/// ```
/// use std::time::Duration;
/// use load_control::Cooldown;
///
/// # #[allow(clippy::disallowed_methods)]
/// let now = std::time::Instant::now();
/// let mut cooldown = Cooldown::default();
/// let second = Duration::from_secs(1);
/// cooldown.extend(now, 30 * second, 300 * second, &mut rand::rng());
/// let until = cooldown.until(now).unwrap();
/// assert!(until >= now + 30 * second && until <= now + 31 * second);
/// assert_eq!(cooldown.until(until), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cooldown {
    until: Option<Instant>,
}

impl Cooldown {
    /// The server asks for `retry_after`, of which at most `clamp` is believed. Zero asks for nothing.
    pub fn extend(
        &mut self,
        now: Instant,
        retry_after: Duration,
        clamp: Duration,
        random: &mut impl Rng,
    ) {
        if retry_after.is_zero() {
            return;
        }
        let spread = SPREAD.mul_f64(random.random());
        let until = now.checked_add(retry_after.min(clamp).saturating_add(spread));
        // Farther away than an `Instant` can tell takes an unlimited clamp: then it is believed no more than nonsense is.
        self.until = self.until.max(until);
    }

    /// When it ends; `None` where there is none.
    #[inline]
    pub fn until(&self, now: Instant) -> Option<Instant> {
        self.until.filter(|until| now < *until)
    }

    /// Ends it.
    pub fn clear(&mut self) {
        self.until = None;
    }

    /// When the last one ended or will end.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.until
    }

    pub(crate) fn import(until: Option<Instant>) -> Self {
        Self { until }
    }
}

const SPREAD: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::origin;

    proptest! {
        #[test]
        fn it_is_only_ever_extended_and_never_past_the_clamp(
            hints in prop::collection::vec((0u64..1_000, 0u64..2_000), 1..50), clamp in 1u64..500,
        ) {
            let (mut now, mut cooldown, clamp) = (origin(), Cooldown::default(), Duration::from_secs(clamp));
            for (elapsed, hint) in hints {
                now += Duration::from_secs(elapsed);
                let (before, hint) = (cooldown.until(now), Duration::from_secs(hint));
                cooldown.extend(now, hint, clamp, &mut rand::rng());
                let after = cooldown.until(now);
                prop_assert!(after >= before);
                prop_assert!(hint.is_zero() || after >= Some(now + hint.min(clamp)));
                prop_assert!(after.is_none_or(|until| until <= before.unwrap_or(now).max(now + clamp + SPREAD)));
            }
        }
    }

    #[test]
    fn ends_are_spread() {
        let now = origin();
        let ends: Vec<_> = (0..100)
            .map(|_| {
                let mut cooldown = Cooldown::default();
                let second = Duration::from_secs(1);
                cooldown.extend(now, second, second, &mut rand::rng());
                cooldown.until(now).unwrap()
            })
            .collect();
        let spread = *ends.iter().max().unwrap() - *ends.iter().min().unwrap();
        assert!(spread > SPREAD / 2 && spread <= SPREAD, "{spread:?}");
    }

    #[test]
    fn a_hint_without_end_does_not_overflow() {
        let mut cooldown = Cooldown::default();
        cooldown.extend(origin(), Duration::MAX, Duration::MAX, &mut rand::rng());
        assert_eq!(cooldown.until(origin()), None);
    }
}
