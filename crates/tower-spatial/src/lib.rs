#![cfg_attr(docsrs, feature(doc_cfg))]
//! Tower middleware that gives any tower-based HTTP client spatial-aware retries.
//!
//! Outermost first: [`DeadlineLayer`](timeout::deadline::DeadlineLayer), [`StaggerLayer`](stagger::StaggerLayer), tower's
//! `RetryLayer` with a [`RetryPolicy`](retry::RetryPolicy), [`FreshnessLayer`](verify::freshness::FreshnessLayer),
//! `CompletenessLayer` (feature `completeness`, [`verify::completeness`]), [`ConcurrencyLimitLayer`],
//! [`RateLimitLayer`], [`AttemptTimeoutLayer`](timeout::attempt::AttemptTimeoutLayer) or tower's `TimeoutLayer`,
//! [`ServiceExceptionLayer`](exception::ServiceExceptionLayer), the client. [`SpatialLayer`] is all of them in this order; see
//! [`stack`]. Each layer works alone, and its module says what it promises. The [`guide`] has a page for each task. A ready
//! client is in `client` (features `client-hyper` and `reqwest`), the settings file in `config` (feature `config`).

pub mod breaker;
pub mod call;
#[cfg(any(feature = "client-hyper", feature = "reqwest"))]
pub mod client;
#[cfg(feature = "config")]
pub mod config;
pub mod cooldown;
mod drain;
pub mod exception;
mod gate;
pub mod guide;
pub mod limit;
pub mod observe;
pub mod replay;
pub mod retry;
mod size_hint;
pub mod stack;
pub mod stagger;
pub mod timeout;
pub mod verify;

pub use breaker::{CircuitBreaker, CircuitBreakerLayer, CircuitOpen, OnOpen};
pub use call::{
    BreakerState, Deadline, Endpoint, EndpointName, EndpointSettings, EndpointSnapshot, Endpoints,
    EndpointsBuilder, EndpointsError, EndpointsState, Latency,
};
pub use cooldown::{Cooldown, CooldownLayer};
pub use gate::UnknownHost;
pub use limit::concurrency::{ConcurrencyLimit, ConcurrencyLimitLayer, PermitScope, QueueTimeout};
pub use limit::rate::{RateLimit, RateLimitLayer, RateLimited};
pub use load_control::{AdaptiveSettings, BreakerSettings, FailureRate, InvalidQuota, Quota};
pub use stack::{ServiceBuilderExt, Spatial, SpatialLayer};
pub use tower::BoxError;

/// The first error of type `T` in an error's chain of causes, itself included.
///
/// ```
/// use tower_spatial::find;
///
/// let error: tower::BoxError = Box::new(tower::timeout::error::Elapsed::new());
/// assert!(find::<tower::timeout::error::Elapsed>(&error).is_some());
/// assert!(find::<std::io::Error>(&error).is_none());
/// ```
pub fn find<T: std::error::Error + 'static>(error: &BoxError) -> Option<&T> {
    call::chain(error.as_ref()).find_map(|error| error.downcast_ref())
}

/// The README's stack compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
