//! Ends an attempt that does not get on: no head, no further byte, or too long in all.
//!
//! A server that is killed while it answers can keep its connection open for minutes, and without a limit the retry never
//! runs. But an answer may take long, as long as it comes: a WFS streams 200 MB over four minutes. So the limits are on
//! the head, which the server renders for, and on the silence between two frames of the body, not on the whole.
//!
//! ```
//! use std::{convert::Infallible, time::Duration};
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{Empty, Full};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//! use tower_spatial::{find, timeout::attempt::{AttemptTimedOut, AttemptTimeoutLayer, TimeoutKind}};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), BoxError> {
//! let hung = service_fn(|_: Request<Empty<Bytes>>| async {
//!     tokio::time::sleep(Duration::from_secs(3_600)).await;
//!     Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
//! });
//! let client = ServiceBuilder::new()
//!     .layer(AttemptTimeoutLayer::new().read_timeout(Duration::from_secs(60)))
//!     .service(hung);
//! let request = Request::get("https://example.org/wms?REQUEST=GetMap").body(Empty::new())?;
//! let error = client.oneshot(request).await.unwrap_err();
//! assert_eq!(find::<AttemptTimedOut>(&error).map(|error| error.kind()), Some(TimeoutKind::Head));
//! # Ok(()) }
//! ```
//!
//! # The limits
//!
//! | | default | counts |
//! |---|---|---|
//! | [`head`](AttemptTimeoutLayer::head) | 180 s | from the call to the head, a look at the answer by layers below included |
//! | [`idle`](AttemptTimeoutLayer::idle) | 60 s | while the reader asks for the next frame and none comes |
//! | [`whole`](AttemptTimeoutLayer::whole) | none | from the call, whenever the attempt waits for the server |
//!
//! Each is cut to the caller's [`Deadline`](crate::Deadline), never to a retry's budget: that bounds when attempts begin,
//! and ends no answer that comes. Connecting is within the head's limit; a shorter one of its own is the connector's,
//! `client::hyper::ClientBuilder::connect_timeout` (feature `client-hyper`) or `HttpConnector::set_connect_timeout` of
//! hyper-util. Put the layer below the retry, the queues and what collects bodies, above
//! [`ServiceExceptionLayer`](crate::exception::ServiceExceptionLayer).
//!
//! # Slow success
//!
//! An answer that takes 400 s when all is well would be cut off at 180 s each time, for ever, and each attempt costs the
//! server all of it. So a later attempt of the same call gets twice the time, at most eight times, where the one before
//! was cut off in less time than the head of one in a hundred good answers of the endpoint took, or where two were cut
//! off while others of their kind (the same operation at the same endpoint) succeeded. Once for each endpoint and limit
//! [`on_too_short`](AttemptTimeoutLayer::on_too_short) is told, and with the feature `tracing` a warning written: the
//! limit should be set above what [`Endpoint::head_latency`](crate::Endpoint::head_latency) says. It needs a
//! [`RetryPolicy`](crate::retry::RetryPolicy) above it, which tells the attempts of one call.
//!
//! # How this differs from tower's `Timeout`
//!
//! tower's ends with the head: a body that stalls hangs for ever. tower-http's `TimeoutBody` covers the body, and hides its
//! length. Here a timer is made only where something is waited for, and is not touched for each frame.

mod body;
mod error;
mod future;
mod layer;
mod limits;
mod patience;
mod service;

pub use body::AttemptBody;
pub use error::{AttemptTimedOut, TimeoutKind};
pub use future::ResponseFuture;
pub use layer::AttemptTimeoutLayer;
pub use patience::TooShort;
pub use service::AttemptTimeoutService;
