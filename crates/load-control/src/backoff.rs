use std::{fmt, time::Duration};

use rand::{Rng, RngExt};

/// Exponential backoff with full jitter under a cap.
///
/// The delay before repeat `n` (the first is 0) is uniform in `[0, min(cap, base * 2^n)]`. Full jitter lets some callers
/// of a crowd come back early and find out cheaply whether the server has recovered, and never lets them come back together.
///
/// ```
/// use std::time::Duration;
/// use load_control::Backoff;
///
/// let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60))?;
/// assert_eq!(backoff.ceiling(3), Duration::from_secs(8));
/// assert_eq!(backoff.ceiling(30), Duration::from_secs(60));
/// assert!(backoff.delay(3, &mut rand::rng()) <= Duration::from_secs(8));
/// # Ok::<(), load_control::InvalidBackoff>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
}

impl Backoff {
    /// A backoff that starts at `base` and never exceeds `cap`.
    ///
    /// # Errors
    /// [`InvalidBackoff`] where `base` is zero or longer than `cap`.
    pub fn new(base: Duration, cap: Duration) -> Result<Self, InvalidBackoff> {
        if base.is_zero() {
            Err(InvalidBackoff::ZeroBase)
        } else if base > cap {
            Err(InvalidBackoff::BaseOverCap { base, cap })
        } else {
            Ok(Self { base, cap })
        }
    }

    /// The longest delay before repeat `repeat` (counted from 0): `min(cap, base * 2^repeat)`.
    pub fn ceiling(&self, repeat: u32) -> Duration {
        let factor = 1u32.checked_shl(repeat).unwrap_or(u32::MAX);
        self.base
            .checked_mul(factor)
            .map_or(self.cap, |ceiling| ceiling.min(self.cap))
    }

    /// A delay before repeat `repeat`, uniform in `[0, ceiling(repeat)]`.
    pub fn delay(&self, repeat: u32, random: &mut impl Rng) -> Duration {
        // In nanoseconds: a fraction of a second counts as much as a whole one.
        let ceiling = u64::try_from(self.ceiling(repeat).as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(random.random_range(0..=ceiling))
    }
}

/// Why a [`Backoff`] was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidBackoff {
    /// The base is zero: every delay would be zero.
    ZeroBase,
    /// The base is longer than the cap.
    BaseOverCap {
        /// The base that was given.
        base: Duration,
        /// The cap that was given.
        cap: Duration,
    },
}

impl fmt::Display for InvalidBackoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroBase => write!(f, "base is zero, expected a duration above zero"),
            Self::BaseOverCap { base, cap } => {
                write!(f, "base {base:?} is longer than cap {cap:?}")
            }
        }
    }
}

impl std::error::Error for InvalidBackoff {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_delay_lies_between_zero_and_the_ceiling(base in 1u64..100_000, over in 0u64..1_000_000, repeat in 0u32..200) {
            let (base, cap) = (Duration::from_millis(base), Duration::from_millis(base + over));
            let backoff = Backoff::new(base, cap).unwrap();
            let ceiling = backoff.ceiling(repeat);
            prop_assert!(ceiling <= cap && ceiling >= base);
            prop_assert_eq!(ceiling, base.saturating_mul(2u32.saturating_pow(repeat)).min(cap));
            prop_assert!(backoff.delay(repeat, &mut rand::rng()) <= ceiling);
        }
    }

    #[test]
    fn delays_fill_the_whole_range() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60)).unwrap();
        let delays: Vec<_> = (0..1_000)
            .map(|_| backoff.delay(3, &mut rand::rng()).as_secs_f64())
            .collect();
        let mean = delays.iter().sum::<f64>() / 1_000.0;
        assert!(
            (3.5..4.5).contains(&mean),
            "mean {mean} of a uniform draw from 0 to 8 s"
        );
        assert!(delays.iter().any(|d| *d < 0.5) && delays.iter().any(|d| *d > 7.5));
    }

    #[test]
    fn a_ceiling_beyond_what_a_duration_holds_is_the_cap() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::MAX).unwrap();
        assert_eq!(
            backoff.ceiling(u32::MAX),
            Duration::from_secs(u64::from(u32::MAX))
        );
        let backoff = Backoff::new(Duration::MAX / 2, Duration::MAX).unwrap();
        assert_eq!(backoff.ceiling(9), Duration::MAX);
        assert!(backoff.delay(9, &mut rand::rng()) <= Duration::MAX);
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let second = Duration::from_secs(1);
        assert_eq!(
            Backoff::new(Duration::ZERO, second),
            Err(InvalidBackoff::ZeroBase)
        );
        let error = Backoff::new(2 * second, second).unwrap_err();
        assert_eq!(error.to_string(), "base 2s is longer than cap 1s");
    }
}
