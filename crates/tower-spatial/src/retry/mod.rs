//! Repeats what is worth repeating: a [`Policy`](tower::retry::Policy) for tower's own
//! [`RetryLayer`](tower::retry::RetryLayer).
//!
//! A repeat of a rendering request costs the server the whole render again. So the policy repeats only what can succeed
//! later, waits longer each time (full jitter under a cap), comes back no sooner than the server asked, and stops when
//! the time that the caller gave is up, not after a count.
//!
//! ```
//! use std::{convert::Infallible, time::Duration};
//! use http::{Request, Response};
//! use http_body_util::{Empty, Full};
//! use bytes::Bytes;
//! use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer, service_fn};
//! use tower_spatial::retry::RetryPolicy;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), BoxError> {
//! let mut answers = [503, 200].into_iter();
//! let server = service_fn(move |_: Request<Empty<Bytes>>| {
//!     let status = answers.next().unwrap_or(200);
//!     async move { Response::builder().status(status).body(Full::<Bytes>::default()) }
//! });
//! # let server = tower::util::BoxCloneService::new(tower::buffer::Buffer::new(server, 1));
//! let client = ServiceBuilder::new().layer(RetryLayer::new(RetryPolicy::default())).service(server);
//! let response = client.oneshot(Request::get("https://example.org/wms?REQUEST=GetMap").body(Empty::new())?).await?;
//! assert_eq!(response.status(), 200);
//! # Ok(()) }
//! ```
//!
//! # What it needs around it
//!
//! * The errors of the service below are [`BoxError`](tower::BoxError). Straight on a client with an error type of its
//!   own, put `.map_err(BoxError::from)` between.
//! * Request bodies are [`RepeatableBody`](crate::replay::RepeatableBody): those of http-body-util, strings and bytes are.
//!   A streaming one (axum's, hyper's, reqwest's) is wrapped in [`ReplayBody`](crate::replay::ReplayBody).
//! * Response bodies are `Unpin`; `MapResponseBodyLayer::new(Box::pin)` makes one so.
//! * Without a [`DeadlineLayer`](crate::timeout::deadline::DeadlineLayer) outside, the budget runs from the call, queues
//!   included. A [`Deadline`](crate::Deadline) in the request's extensions is kept either way.
//! * A [`ServiceExceptionLayer`](crate::exception::ServiceExceptionLayer) below it, or an answer with status 200 that holds an
//!   exception counts as a success.
//!
//! # How this differs from tower's `TpsBudget` and `ExponentialBackoff`
//!
//! Theirs count retries against a rate for all hosts together, and every session draws the same jitter. Here two
//! sessions never share a sequence, whole seconds keep their jitter, a delay never exceeds the cap, and a sleep that
//! would end after the budget is never begun.

mod builder;
pub(crate) mod decision;
mod future;
mod gave_up;
mod policy;
mod retry_after;

pub use builder::{AnswerHead, InvalidRetryPolicy, RetryAfterUnit, RetryPolicyBuilder};
pub use future::RetryFuture;
pub use gave_up::{GaveUp, StopReason};
pub use policy::{RetryPolicy, is_safe_to_repeat};
pub use retry_after::RetryAfter;

/// Lets a request be repeated that is not safe to repeat: an extension, set by a caller who knows that the server
/// tells a repeat from a second request.
///
/// ```
/// use tower_spatial::retry::RepeatUnsafe;
///
/// let mut request = http::Request::post("https://example.org/jobs").body(())?;
/// request.extensions_mut().insert(RepeatUnsafe);
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RepeatUnsafe;
