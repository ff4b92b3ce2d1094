//! More time for an attempt that follows one which was cut off too early.

use std::time::Duration;

use http::Extensions;
use tokio::time::Instant;

use super::{layer::Options, limits::Limits};
use crate::call::{Attempt, Cause, Context, Endpoint, Kind};

/// A limit that is shorter than good answers take: each attempt that it ends costs the server all of the work for
/// nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooShort {
    endpoint: Box<str>,
    limit: Duration,
    p99: Option<Duration>,
    next: Duration,
}

impl TooShort {
    /// The endpoint's [name](Endpoint::name).
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The limit: on the head, or where there is none the shortest of the others.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// In what time 99 of 100 heads of the endpoint's good answers came, as far as they came; `None` before the first.
    pub fn p99(&self) -> Option<Duration> {
        self.p99
    }

    /// What the next attempt gets in its place.
    pub fn next(&self) -> Duration {
        self.next
    }
}

impl Options {
    /// The limits of an attempt at an endpoint where attempts were cut off lately.
    #[cold]
    pub(super) fn patient(
        &self,
        endpoint: &Endpoint,
        kind: &Kind,
        extensions: &Extensions,
    ) -> Limits {
        let limits = self.limits.of(extensions);
        let attempts = Context::of(extensions).map(|context| context.attempts());
        // What took less, such as a connect timeout, was not cut off by us.
        let cut_off: Vec<Duration> = attempts
            .iter()
            .flatten()
            .filter(|attempt| *attempt.cause() == Cause::TimedOut)
            .map(Attempt::took)
            .filter(|took| *took >= limits.shortest())
            .collect();
        let Some(last) = cut_off.last() else {
            return limits;
        };
        let heads = endpoint.heads();
        let p99 = heads.percentile(0.99);
        let others_succeed =
            heads.has_succeeded_within(kind, last.saturating_mul(2), Instant::now());
        let factor = factor(&cut_off, p99, others_succeed);
        let more = limits.times(factor);
        let limit = limits.head.unwrap_or_else(|| limits.shortest());
        if factor > 1 && heads.is_first_warning(limit) {
            self.warn(&TooShort {
                endpoint: endpoint.name().into(),
                limit,
                p99,
                next: more.head.unwrap_or_else(|| more.shortest()),
            });
        }
        more
    }

    fn warn(&self, too_short: &TooShort) {
        #[cfg(feature = "tracing")]
        tracing::warn!(
            endpoint = too_short.endpoint(),
            timeout = ?too_short.limit,
            p99 = ?too_short.p99,
            next = ?too_short.next,
            "attempts are cut off that would have succeeded: set the read timeout above the p99",
        );
        if let Some(on_too_short) = &self.on_too_short {
            on_too_short(too_short);
        }
    }
}

/// By how much the next attempt of a call has more time, after attempts that took `cut_off` and were cut off.
fn factor(cut_off: &[Duration], p99: Option<Duration>, others_succeed: bool) -> u32 {
    let mut factor = 1;
    for (before, took) in cut_off.iter().enumerate() {
        let below_p99 = p99.is_some_and(|p99| *took < p99);
        if below_p99 || (before > 0 && others_succeed) {
            factor = (factor * 2).min(MOST);
        }
    }
    factor
}

const MOST: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_attempt_cut_off_below_the_p99_is_followed_by_a_longer_one() {
        let p99 = Some(seconds(400));
        for (cut_off, expected) in [
            (&[180][..], 2),
            (&[180, 360], 4),
            (&[180, 360, 720], 4),
            (&[600], 1),
        ] {
            let cut_off: Vec<_> = cut_off.iter().map(|s| seconds(*s)).collect();
            assert_eq!(factor(&cut_off, p99, false), expected, "{cut_off:?}");
        }
        assert_eq!(factor(&[seconds(180)], None, false), 1);
    }

    #[test]
    fn one_that_is_cut_off_twice_while_others_succeed_too_and_never_past_eight_times() {
        let p99 = Some(seconds(1));
        for (times, expected) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 8), (99, 8)] {
            assert_eq!(factor(&vec![seconds(180); times], p99, true), expected);
            assert_eq!(factor(&vec![seconds(180); times], p99, false), 1);
        }
    }
}
