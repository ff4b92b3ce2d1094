use std::time::{Duration, Instant};

use load_control::{Backoff, Budget, Exceeded};
use rand::Rng;

use super::StopReason;
use crate::{
    call::{Cause, Outcome, Verdict},
    replay::NotRepeatable,
};

/// The numbers of a policy.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) backoff: Backoff,
    pub(crate) retry_after_max: Duration,
    pub(crate) attempts: Option<u32>,
    pub(crate) ambiguous_repeats: u32,
}

/// All that a decision depends on.
pub(crate) struct Situation<'a> {
    /// What came of the attempt that has just ended.
    pub(crate) outcome: &'a Outcome,
    /// What came of the one before.
    pub(crate) previous: Option<&'a Cause>,
    /// Attempts made, the one that has just ended included: 1 or more.
    pub(crate) attempts: u32,
    /// How many ambiguous failures were repeated already.
    pub(crate) ambiguous_repeats: u32,
    /// What the server asked for, before any clamp.
    pub(crate) hint: Option<Duration>,
    pub(crate) now: Instant,
    pub(crate) budget: Budget,
    /// For how long the budget is known to stand still from now on.
    pub(crate) stands_still_for: Duration,
    /// How often the backoff has doubled.
    pub(crate) backoff_step: u32,
    pub(crate) safe_to_repeat: bool,
    /// Why the request's body cannot be sent again; `None` where it can.
    pub(crate) body: Option<NotRepeatable>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Decision {
    /// The outcome is not for a retry: it passes unchanged.
    Pass,
    /// It is, but the retry ends.
    Stop(StopReason),
    /// Another attempt follows after this sleep.
    Wait(Duration),
}

impl Decision {
    pub(crate) fn of(limits: &Limits, situation: &Situation<'_>, random: &mut impl Rng) -> Self {
        let Situation {
            outcome,
            now,
            budget,
            ..
        } = *situation;
        if *outcome.cause() == Cause::NotAdmitted && situation.attempts > 1 {
            return Self::Stop(match budget.fits(now, Duration::ZERO) {
                Ok(()) => StopReason::NotAdmitted,
                Err(exceeded) => exceeded.into(),
            });
        }
        match outcome.verdict() {
            Verdict::Success | Verdict::Permanent => return Self::Pass,
            Verdict::Transient | Verdict::Throttled | Verdict::Ambiguous => {}
        }
        // What a breaker refused has not left this process: law 3 does not ask about it.
        if !situation.safe_to_repeat && *outcome.cause() != Cause::CircuitOpen {
            return Self::Stop(StopReason::Unsafe);
        }
        if let Some(why) = situation.body {
            return Self::Stop(match why {
                NotRepeatable::TooLong { cap } => StopReason::BodyTooLong { cap },
                _ => StopReason::BodyNotRepeatable,
            });
        }
        if outcome.verdict() == Verdict::Ambiguous {
            let same_again = situation.previous == Some(outcome.cause());
            if same_again || situation.ambiguous_repeats >= limits.ambiguous_repeats {
                return Self::Stop(StopReason::Ambiguous);
            }
        }
        if limits
            .attempts
            .is_some_and(|attempts| situation.attempts >= attempts)
        {
            return Self::Stop(StopReason::Attempts);
        }
        // A floor: a hundred callers that were told "30" do not come back in the same instant.
        let floor = situation.hint.map(|hint| hint.min(limits.retry_after_max));
        let fits = |delay: Duration| {
            let still = delay.min(situation.stands_still_for);
            budget.standing_still(still).fits(now, delay)
        };
        if floor.is_some_and(|floor| fits(floor).is_err()) {
            return Self::Stop(StopReason::HintTooLong);
        }
        let jitter = limits.backoff.delay(situation.backoff_step, random);
        let delay = floor.unwrap_or_default().saturating_add(jitter);
        match fits(delay) {
            Ok(()) => Self::Wait(delay),
            Err(exceeded) => Self::Stop(exceeded.into()),
        }
    }
}

impl From<Exceeded> for StopReason {
    fn from(exceeded: Exceeded) -> Self {
        match exceeded {
            Exceeded::Budget => Self::Budget,
            Exceeded::Deadline => Self::Deadline,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use proptest::prelude::*;

    use super::*;

    fn limits() -> Limits {
        Limits {
            backoff: Backoff::new(SECOND, 60 * SECOND).unwrap(),
            retry_after_max: 300 * SECOND,
            attempts: None,
            ambiguous_repeats: 2,
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn outcome(verdict: Verdict) -> Outcome {
        Outcome::of_response(&http::Response::new(())).with_verdict(verdict)
    }

    fn situation(outcome: &Outcome) -> Situation<'_> {
        let now = tokio::time::Instant::now().into_std();
        Situation {
            outcome,
            previous: None,
            attempts: 1,
            ambiguous_repeats: 0,
            hint: None,
            now,
            budget: Budget::starting(now, 600 * SECOND),
            stands_still_for: Duration::ZERO,
            backoff_step: 0,
            safe_to_repeat: true,
            body: None,
        }
    }

    fn decide(situation: &Situation<'_>) -> Decision {
        Decision::of(&limits(), situation, &mut rand::rng())
    }

    proptest! {
        #[test]
        fn a_wait_keeps_its_bounds_and_the_budget(
            attempts in 1u32..40, elapsed in 0u64..700, total in 1u64..700, hint in prop::option::of(1u64..1_000),
        ) {
            let outcome = outcome(Verdict::Transient);
            let mut situation = situation(&outcome);
            let start = situation.now;
            situation.budget = Budget::starting(start, Duration::from_secs(total));
            situation.now = start + Duration::from_secs(elapsed);
            situation.attempts = attempts;
            situation.hint = hint.map(Duration::from_secs);
            let floor = situation.hint.unwrap_or_default().min(300 * SECOND);
            let ceiling = (60 * SECOND).min(SECOND.saturating_mul(1u32.checked_shl(attempts - 1).unwrap_or(u32::MAX)));
            match decide(&situation) {
                Decision::Wait(delay) => {
                    prop_assert!(delay >= floor && delay <= floor + ceiling);
                    prop_assert!(situation.now + delay <= start + Duration::from_secs(total));
                }
                Decision::Stop(StopReason::HintTooLong) => {
                    prop_assert!(situation.hint.is_some() && situation.now + floor > start + Duration::from_secs(total));
                }
                Decision::Stop(StopReason::Budget) => {
                    prop_assert!(situation.now + floor + ceiling > start + Duration::from_secs(total));
                }
                other => prop_assert!(false, "{other:?}"),
            }
        }
    }

    #[test]
    fn what_is_not_retryable_passes_whatever_else_holds() {
        for verdict in [Verdict::Success, Verdict::Permanent] {
            let outcome = outcome(verdict);
            let situation = Situation {
                safe_to_repeat: false,
                body: Some(NotRepeatable::Sent),
                ..situation(&outcome)
            };
            assert_eq!(decide(&situation), Decision::Pass);
        }
    }

    #[test]
    fn an_unsafe_request_and_a_spent_body_stop_by_name() {
        let outcome = outcome(Verdict::Transient);
        let unsafe_one = Situation {
            safe_to_repeat: false,
            ..situation(&outcome)
        };
        assert_eq!(decide(&unsafe_one), Decision::Stop(StopReason::Unsafe));
        let spent = Situation {
            body: Some(NotRepeatable::Sent),
            ..situation(&outcome)
        };
        assert_eq!(
            decide(&spent),
            Decision::Stop(StopReason::BodyNotRepeatable)
        );
    }

    #[test]
    fn an_ambiguous_failure_is_repeated_twice_unless_it_comes_back_the_same() {
        let outcome = outcome(Verdict::Ambiguous);
        let again = outcome.cause().clone();
        let other = Cause::Status(StatusCode::INTERNAL_SERVER_ERROR);
        let at = |repeats, previous| {
            decide(&Situation {
                ambiguous_repeats: repeats,
                previous,
                ..situation(&outcome)
            })
        };
        assert!(matches!(at(0, None), Decision::Wait(_)));
        assert!(matches!(at(1, Some(&other)), Decision::Wait(_)));
        assert_eq!(at(1, Some(&again)), Decision::Stop(StopReason::Ambiguous));
        assert_eq!(at(2, Some(&other)), Decision::Stop(StopReason::Ambiguous));
    }

    #[test]
    fn attempts_end_where_a_limit_was_asked_for() {
        let outcome = outcome(Verdict::Transient);
        let limits = Limits {
            attempts: Some(3),
            ..limits()
        };
        let at = |attempts| {
            let situation = Situation {
                attempts,
                ..situation(&outcome)
            };
            Decision::of(&limits, &situation, &mut rand::rng())
        };
        assert!(matches!(at(2), Decision::Wait(_)));
        assert_eq!(at(3), Decision::Stop(StopReason::Attempts));
    }

    #[test]
    fn a_hint_that_is_longer_than_what_is_left_ends_the_retry_now() {
        let outcome = outcome(Verdict::Throttled);
        let base = situation(&outcome);
        let deadline = base.budget.with_deadline(base.now + 30 * SECOND);
        let short = Situation {
            hint: Some(31 * SECOND),
            budget: deadline,
            ..base
        };
        assert_eq!(decide(&short), Decision::Stop(StopReason::HintTooLong));
        let clamped = Situation {
            hint: Some(Duration::MAX),
            ..situation(&outcome)
        };
        assert!(matches!(decide(&clamped), Decision::Wait(delay) if delay >= 300 * SECOND));
    }

    #[test]
    fn a_queue_that_admits_no_repeat_says_which_clock_ended_it() {
        let outcome = Outcome::new(Verdict::Permanent, Cause::NotAdmitted);
        let first = situation(&outcome);
        assert_eq!(decide(&first), Decision::Pass);
        let second = Situation {
            attempts: 2,
            ..situation(&outcome)
        };
        assert_eq!(decide(&second), Decision::Stop(StopReason::NotAdmitted));
        let late = Situation {
            attempts: 2,
            now: first.now + 601 * SECOND,
            ..situation(&outcome)
        };
        assert_eq!(decide(&late), Decision::Stop(StopReason::Budget));
    }
}
