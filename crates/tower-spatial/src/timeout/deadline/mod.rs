//! Ends a call at the caller's deadline, whatever it is doing: waiting, sleeping, or reading its answer.
//!
//! The outermost layer of a stack. It starts each call's context, so that the retry further inside counts its budget from
//! the first admission, and so that a call which is cut in mid-attempt still says what was tried.
//!
//! ```
//! use std::{convert::Infallible, time::Duration};
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{Empty, Full};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//! use tower_spatial::{Deadline, find, timeout::deadline::{DeadlineElapsed, DeadlineLayer}};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), BoxError> {
//! let slow = service_fn(|_: Request<Empty<Bytes>>| async {
//!     tokio::time::sleep(Duration::from_secs(400)).await;
//!     Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
//! });
//! let client = ServiceBuilder::new().layer(DeadlineLayer::new()).service(slow);
//! let mut request = Request::get("https://example.org/wfs").body(Empty::new())?;
//! request.extensions_mut().insert(Deadline::after(Duration::from_secs(30)));
//! let error = client.oneshot(request).await.unwrap_err();
//! assert!(find::<DeadlineElapsed>(&error).is_some());
//! # Ok(()) }
//! ```
//!
//! # How this differs from tower's `Timeout`
//!
//! The deadline is an absolute time that the caller sets on the request, and it holds for the answer's body too.
//! tower's `Timeout` counts from the call of the service below it, and ends with its head. Both can be in one stack:
//! tower's inside the retry bounds one attempt, outside the retry the whole (then what was tried is lost with it).

mod body;
mod error;
mod future;
mod layer;
mod service;

pub use body::DeadlineBody;
pub use error::DeadlineElapsed;
pub use future::ResponseFuture;
pub use layer::DeadlineLayer;
pub use service::DeadlineService;
