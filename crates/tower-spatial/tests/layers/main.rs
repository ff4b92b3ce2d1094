//! The layers by themselves and together, under paused time over in-memory services.

mod attempt_timeout;
#[cfg(feature = "completeness")]
mod completeness;
mod deadline;
mod exception;
mod freshness;
mod gates;
mod hostile;
mod idempotency;
#[cfg(all(feature = "metrics", feature = "completeness"))]
mod metrics;
mod observe;
mod rate;
mod replay;
mod retry;
mod spatial;
mod stagger;
mod support;
mod whole;
