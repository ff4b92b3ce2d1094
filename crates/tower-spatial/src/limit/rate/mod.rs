//! The published rate of a service, kept for each endpoint and key: one call a second, 2 500 a day.
//!
//! ```
//! use std::time::Duration;
//! use http::{Request, Response};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//! use tower_spatial::{Quota, RateLimitLayer};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), tower::BoxError> {
//! let one_a_second = Quota::new(1, Duration::from_secs(1))?;
//! let client = ServiceBuilder::new()
//!     .layer(RateLimitLayer::per_host(one_a_second))
//!     .service(service_fn(|_: Request<()>| async {
//!         Ok::<_, std::io::Error>(Response::new("a place"))
//!     }));
//! let search = |key| Request::get(format!("https://geocoder.example/search?key={key}")).body(());
//!
//! let started = tokio::time::Instant::now();
//! client.clone().oneshot(search("mine")?).await?;
//! client.clone().oneshot(search("yours")?).await?; // each key has a rate of its own
//! assert!(started.elapsed() < Duration::from_millis(100));
//! client.clone().oneshot(search("mine")?).await?;
//! assert!(started.elapsed() >= Duration::from_secs(1));
//! # Ok(())
//! # }
//! ```
//!
//! # Waiting
//!
//! A call reserves its slot when it is made and sleeps until exactly then, first come, first served. It takes the slot when
//! it goes: after a stall (a closed laptop, a service below that was not ready) nothing that was saved up leaves in one
//! burst; the calls that missed their slots get new ones, ahead of later calls. A slot past `queue_timeout` (600 s), the
//! request's [`Deadline`](crate::Deadline) or its budget fails the call at once with [`RateLimited`] and consumes nothing.
//! A dropped call gives its slot back: those who come later go sooner, those who wait keep theirs.
//!
//! # Keys
//!
//! Where the key is, [`KeySource`] says. It is kept only as 128 bits of SipHash (two of the standard library's, with
//! random seeds) and printed nowhere. A token that changes by the hour is a new key each time: take [`KeySource::none`] or
//! a [`CallerKey`] then. At most 10 000 keys are known; see [`MemoryStore`].
//!
//! # What the server says
//!
//! A 429, or an exception that throttles, with `Retry-After` holds the request's key at its endpoint; so does any answer
//! that says with its rate headers that nothing remains until a reset. At most `retry_after_max` (300 s) of it is
//! believed, nothing of an answer from a cache (`Age` above 0). An endpoint without a rate is not held.
//!
//! # With a permit
//!
//! Inside a [`ConcurrencyLimitLayer`](crate::ConcurrencyLimitLayer) or another gate that is built from the same
//! [`Endpoints`](crate::Endpoints), the slot is reserved with the permit in hand. A call whose slot is more than 1 s away
//! gives the permit back and asks for one again at its slot's time. Alone in a stack it holds no permit.
//!
//! # How this differs from tower's `RateLimit`
//!
//! * One rate for each host and key; tower's has one for its service, and is not `Clone`.
//! * The rate holds in every window. tower counts in fixed windows: twice the rate can leave around a border.
//! * It is always ready, waits in the call, and the wait is bounded. The service below is readied with the slot in hand.

mod error;
mod future;
mod hint;
mod layer;
mod memory;
mod permit;
mod service;
mod source;
mod store;
mod weight;

pub use error::RateLimited;
pub use future::ResponseFuture;
pub use layer::RateLimitLayer;
pub use load_control::{InvalidQuota, NoSlot, Quota, Quotas};
pub use memory::{MemorySlot, MemoryStore};
pub use service::RateLimit;
pub use source::{CallerKey, KeySource, RequestHead};
pub use store::{Ask, RateKey, RateStore, Turn};
pub use weight::Weight;
