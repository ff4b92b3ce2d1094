//! What the layers do, told as it happens: to an [`Observer`] of one's own, to metrics (`Metrics`, feature `metrics`), to
//! `tracing` (feature `tracing`).
//!
//! An observer is set on [`Endpoints`](crate::Endpoints::observe), on
//! [`SpatialLayer`](crate::SpatialLayer::observer) or on
//! [`DeadlineLayer`](crate::timeout::deadline::DeadlineLayer::observer). It hears of every call and every host of these.
//!
//! ```
//! use std::sync::{Arc, atomic::{AtomicU32, Ordering}};
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use tower::{BoxError, Layer, ServiceExt, service_fn};
//! use tower_spatial::{Endpoints, SpatialLayer, observe::{Call, FailedAttempt, Observer}};
//!
//! #[derive(Clone, Default)]
//! struct Failures(Arc<AtomicU32>);
//!
//! impl Observer for Failures {
//!     fn attempt_failed(&self, call: &Call<'_>, failed: &FailedAttempt<'_>) {
//!         println!("{}: {}, next in {:?}", call.endpoint, failed.cause, failed.next_in);
//!         self.0.fetch_add(1, Ordering::Relaxed);
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), BoxError> {
//! let failures = Failures::default();
//! let layer = SpatialLayer::new(Endpoints::default()).observer(failures.clone());
//! let client = layer.layer(service_fn(|_: Request<Full<&'static [u8]>>| async {
//!     Ok::<_, BoxError>(Response::builder().status(404).body(Full::new(&b""[..]))?)
//! }));
//! client.oneshot(Request::get("https://wms.example/?REQUEST=GetMap").body(Full::default())?).await?;
//! assert_eq!(failures.0.load(Ordering::Relaxed), 1);
//! # Ok(()) }
//! ```
//!
//! # What is told by whom
//!
//! Calls are told of by a `DeadlineLayer` that knows the endpoints, attempts by a `RetryPolicy` inside it (or one that
//! knows the endpoints itself), waits and hosts by the gates and the rate limit, latency wherever a breaker, a cooldown or
//! an adaptive limit learns from it. [`SpatialLayer`](crate::SpatialLayer) has them all. A wait that is cancelled is not
//! told of.
//!
//! No secret is in any of it: endpoints are names or `host:port`, and nothing holds a URL, a header or a foreign error.
//!
//! # What `tracing` is told
//!
//! | span or event | level | fields |
//! |---|---|---|
//! | span `call` | info | `endpoint`, `method`, `status`, `repeats` |
//! | `attempt failed` | info; debug where no repeat mends it | `endpoint`, `method`, `attempt`, `cause`, `status`, `code`, `took_seconds`, `delay_seconds`, `remaining_seconds` |
//! | `gave up` | warn | `endpoint`, `method`, `attempts`, `reason` |
//! | `queued` | debug | `endpoint`, `waited_seconds`, `waited_for`, `admitted`, and of a wait for a permit `published_limit` |
//! | `waited for the rate` | debug | `endpoint`, `waited_seconds`, `published_limit` |
//! | `cooldown` | info | `endpoint`, `seconds`, `published_limit` |
//! | `circuit breaker` | info | `endpoint`, `from`, `to` |
//! | an answer was not whole, a body that nobody reads, a timeout that is too short | warn | `endpoint`, and what is known |
//!
//! [`published_limit`](crate::EndpointSettings::published_limit) is the text of the settings, where they have one.
//!
//! # What it costs
//!
//! Without an observer and a subscriber, a look at a byte. Nothing is told while anything is locked.

mod event;
#[cfg(feature = "metrics")]
mod metrics;
mod observers;
mod telling;
#[cfg(feature = "tracing")]
mod tracing;

pub use event::{
    BreakerChange, Call, CallEnd, EndedCall, FailedAttempt, Observer, QueueWait, WaitedFor,
};
#[cfg(feature = "metrics")]
pub use metrics::{Metric, MetricKind, Metrics};
pub(crate) use observers::Observers;
#[cfg(feature = "completeness")]
pub(crate) use telling::truncated;
pub(crate) use telling::{
    AttemptEnd, Heard, ToldCall, attempt_succeeded, breaker_changed, cooldown_began, is_traced,
    permit_reclaimed, queue_waited, rate_waited,
};
