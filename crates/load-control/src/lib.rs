//! When to try again, and what one host can bear.
//!
//! Pure: nothing of HTTP, XML, tower or tokio. Whatever depends on the time takes it as an argument and returns a
//! decision, so that a test, a simulator and a store shared by a fleet run the same code as a client does.

mod adaptive;
mod backoff;
mod breaker;
mod budget;
mod cooldown;
mod gcra;
mod host;
mod latency;
mod limiter;
mod tokens;

pub use adaptive::AdaptiveSettings;
pub use backoff::{Backoff, InvalidBackoff};
pub use breaker::{Breaker, BreakerSettings, Effect, FailureRate, Gate, Health};
pub use budget::{Budget, Exceeded};
pub use cooldown::Cooldown;
pub use gcra::{Gcra, InvalidQuota, NoSlot, Quota, Quotas, Reservation};
pub use host::{
    Admission, Decision, LoadControl, LoadSettings, Next, Outcome, Reason, Snapshot, State,
    UnknownVersion, Wait,
};
pub use latency::LatencyRecord;
pub use limiter::{LimitSettings, Limiter};
pub use tokens::RetryTokens;

/// An origin for the arithmetic of tests; none depends on its value.
#[cfg(test)]
#[allow(clippy::disallowed_methods)]
fn origin() -> std::time::Instant {
    static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    *ORIGIN.get_or_init(std::time::Instant::now)
}
