//! A limit on the answers in flight at one host, each from its admission until its body has ended.
//!
//! ```
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Full};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//! use tower_spatial::ConcurrencyLimitLayer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower::BoxError> {
//! let limit = ConcurrencyLimitLayer::per_host(16);
//! let endpoints = limit.endpoints().clone();
//! let client = ServiceBuilder::new()
//!     .layer(limit)
//!     .service(service_fn(|_: Request<Full<&'static [u8]>>| async {
//!         Ok::<_, std::io::Error>(Response::new(Full::new(&b"a tile"[..])))
//!     }));
//!
//! let request = Request::get("http://wms.example/?REQUEST=GetMap").body(Full::default())?;
//! let host = endpoints.find(request.uri());
//!
//! let answer = client.oneshot(request).await?;
//! assert_eq!(host.snapshot().in_flight, 1); // the head is here, the body is not read
//! answer.into_body().collect().await?;
//! assert_eq!(host.snapshot().in_flight, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Waiting
//!
//! A call that finds no permit waits in its own future, in the order in which the calls were first polled. It waits no
//! longer than `queue_timeout` (600 s) and the request's [`Deadline`](crate::Deadline), and then ends with
//! [`QueueTimeout`]. The wait uses tokio's timer, so it needs a tokio runtime with time enabled.
//!
//! A future that nobody polls keeps its permit, or its place and then its permit, as with any semaphore. A call made
//! from within a loop over `buffer_unordered` on the same host can therefore wait for calls that the loop itself keeps
//! from going on; it ends with the queue timeout. Poll them elsewhere, or spawn them.
//!
//! # Answers that nobody reads
//!
//! A body keeps its permit, so a client that holds sixteen answers without reading them would wait for the seventeenth
//! for ever. Therefore a body that nobody has polled for `reader_patience` (30 s, counted from when somebody waits)
//! loses its permit to a waiting call. The body itself goes on; [`EndpointSnapshot::reclaimed`] counts it, and the limit
//! is exceeded by that many. A body whose last poll was pending waits for the server, and keeps its permit: an idle
//! timeout is what ends that. Where bodies are none of the host's cost, [`PermitScope::Head`] ends the permit with the
//! head.
//!
//! # How this differs from tower's `ConcurrencyLimit`
//!
//! * It is one limit a host (or configured group of hosts), and a host's queue delays no other host's calls. tower's
//!   waits in `poll_ready`, where nobody knows yet which host is asked.
//! * The permit lives until the body has ended; tower's ends when the future is dropped, that is with the head.
//! * It is always ready. Readiness of the service below is awaited with the permit in hand, on a clone, so no readiness
//!   below is held while waiting.
//! * Waiting is bounded, and errors say what was waited for.
//! * Clones and everything built from the same [`Endpoints`] share the limits. tower's layer makes a limit of its own
//!   for each service it builds.
//!
//! [`EndpointSnapshot::reclaimed`]: crate::EndpointSnapshot::reclaimed
//! [`Endpoints`]: crate::Endpoints

mod layer;
mod service;

pub use crate::gate::{PermitScope, QueueTimeout, ResponseBody, ResponseFuture};
pub use layer::ConcurrencyLimitLayer;
pub use service::ConcurrencyLimit;

#[cfg(test)]
mod tests;
