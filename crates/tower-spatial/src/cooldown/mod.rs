//! A pause that one answer asks for holds every call to its host.
//!
//! ```
//! use std::time::Duration;
//! use http::{Request, Response};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_spatial::CooldownLayer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower::BoxError> {
//! let cooldown = CooldownLayer::per_host().queue_timeout(Duration::from_millis(10));
//! let mut client = ServiceBuilder::new()
//!     .layer(cooldown)
//!     .service(service_fn(|_: Request<String>| async {
//!         Response::builder().status(503).header("retry-after", "120").body(String::new())
//!     }));
//!
//! let get_map = || Request::get("http://wms.example/?REQUEST=GetMap").body(String::new());
//! assert_eq!(client.ready().await?.call(get_map()?).await?.status(), 503);
//! // The host is not asked again before its time; 120 s is more than this call may wait.
//! let error = client.ready().await?.call(get_map()?).await.unwrap_err();
//! assert!(error.to_string().contains("it asked for peace for another 1"), "{error}");
//! # Ok(())
//! # }
//! ```
//!
//! What is believed: `Retry-After` in either form, the headers of a spent quota and an exception's own text, of an answer
//! that throttles (429, 503 with `Retry-After`), clamped to `retry_after_max` (300 s). It is only ever extended, and its end
//! is spread over half a second, so that many who were told the same do not come back in one instant. Where a
//! [`RateLimitLayer`](crate::limit::rate) knows whose key was throttled, a 429 pauses that key and not the host.
//!
//! A call waits in its own future, no longer than `queue_timeout` (600 s), the request's [`Deadline`](crate::Deadline) and
//! the budget of its retry; where the pause is known to be longer it fails at once with
//! [`QueueTimeout`].

mod layer;
mod service;

pub use crate::gate::{QueueTimeout, ResponseBody, ResponseFuture};
pub use layer::CooldownLayer;
pub use service::Cooldown;
