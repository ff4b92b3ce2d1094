//! Spreads the calls of a client that has just started, so that a restarted fleet does not meet a host in one instant.
//!
//! ```
//! use std::time::Duration;
//! use http::{Request, Response};
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//! use tower_spatial::stagger::StaggerLayer;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), tower::BoxError> {
//! let client = ServiceBuilder::new()
//!     .layer(StaggerLayer::new(Duration::from_secs(5))) // counted from here
//!     // tower's RetryLayer and the rest stand below: a repeat is not delayed again
//!     .service(service_fn(|_: Request<()>| async {
//!         Ok::<_, std::io::Error>(Response::new("a tile"))
//!     }));
//! let response = client.oneshot(Request::new(())).await?; // after 0 to 5 s
//! assert_eq!(*response.body(), "a tile");
//! # Ok(())
//! # }
//! ```
//!
//! # Who waits, and for how long
//!
//! The window begins when the layer is made. A call within it waits a uniform random share of what is left of the window.
//! So calls that are all there at the start are spread evenly over it. A worker that comes back for its next item is
//! delayed again, by less and less: the rate of N such workers begins at N a window, and rises without a step to what
//! they reach unhindered. After the window a call goes at once; a window of zero is no window.
//!
//! A request's [`Deadline`](crate::Deadline) shortens the wait to at most half of what is left until then, so that the
//! other half is left for the work. A call that wakes after its deadline (a laptop was closed meanwhile) is not made, and
//! ends with [`TooLate`](crate::call::TooLate).
//!
//! It belongs above the retry: only first attempts wait, and the retry's budget has not begun.
//!
//! # Readiness
//!
//! Within the window it is always ready and readies a clone of the service below after the wait, so no readiness is held
//! while waiting. That takes at most until the deadline, without one 600 s. After the window it hands on the readiness
//! of the service below and costs a branch. tower has no namesake.

mod future;
mod layer;
mod service;

pub use future::ResponseFuture;
pub use layer::StaggerLayer;
pub use service::Stagger;
