use std::time::Duration;

/// Retry tokens: retries stay a fraction of the successes, also where no breaker opens.
///
/// A success earns a fifth of a token, a retry costs one, and at most twenty are saved. Where none is left a retry is not
/// refused but waits 5 s at least: the caller's time bounds the work, and refusing only adds calls that gave up.
///
/// ```
/// use load_control::RetryTokens;
///
/// let mut tokens = RetryTokens::default();
/// assert!((0..20).all(|_| tokens.spend().is_zero()));
/// assert_eq!(tokens.spend(), RetryTokens::WAIT);
/// (0..5).for_each(|_| tokens.earn());
/// assert!(tokens.spend().is_zero());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryTokens {
    /// In fifths: sums of 0.2 are never exactly 1.
    fifths: u8,
}

impl RetryTokens {
    /// How long a retry waits at least where no token is left.
    pub const WAIT: Duration = Duration::from_secs(5);

    /// A call has succeeded.
    pub fn earn(&mut self) {
        self.fifths = (self.fifths + 1).min(FULL);
    }

    /// A call is about to be repeated: the shortest delay it may have.
    #[must_use = "a retry without a token waits"]
    pub fn spend(&mut self) -> Duration {
        match self.fifths.checked_sub(5) {
            Some(left) => {
                self.fifths = left;
                Duration::ZERO
            }
            None => Self::WAIT,
        }
    }

    /// How many retries may go now.
    pub fn left(&self) -> u32 {
        u32::from(self.fifths / 5)
    }

    pub(crate) fn export(self) -> u8 {
        self.fifths
    }

    pub(crate) fn import(fifths: u8) -> Self {
        Self {
            fifths: fifths.min(FULL),
        }
    }
}

impl Default for RetryTokens {
    /// Full.
    fn default() -> Self {
        Self { fifths: FULL }
    }
}

const FULL: u8 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_twenty_are_saved() {
        let mut tokens = RetryTokens::default();
        (0..1_000).for_each(|_| tokens.earn());
        assert_eq!(tokens.left(), 20);
        assert_eq!((0..100).filter(|_| tokens.spend().is_zero()).count(), 20);
    }

    #[test]
    fn a_retry_without_a_token_takes_none() {
        let mut tokens = RetryTokens::import(4);
        assert_eq!(tokens.spend(), RetryTokens::WAIT);
        tokens.earn();
        assert_eq!(tokens.spend(), Duration::ZERO);
    }
}
