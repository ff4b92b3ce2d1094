//! A circuit breaker for each host: while it is down, one probe at a time finds out whether it is back, and nobody else
//! asks.
//!
//! ```
//! use http::{Request, Response, StatusCode};
//! use tower::{Service, ServiceBuilder, ServiceExt, service_fn};
//! use tower_spatial::{BreakerState, CircuitBreakerLayer, CircuitOpen, find};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower::BoxError> {
//! let breaker = CircuitBreakerLayer::per_host();
//! let endpoints = breaker.endpoints().clone();
//! let mut client = ServiceBuilder::new()
//!     .layer(breaker)
//!     .service(service_fn(|_: Request<String>| async {
//!         Err::<Response<String>, _>(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))
//!     }));
//!
//! let get_map = || Request::get("http://wms.example/?REQUEST=GetMap").body(String::new());
//! for _ in 0..5 {
//!     let refused = client.ready().await?.call(get_map()?).await.unwrap_err();
//!     assert!(find::<std::io::Error>(&refused).is_some());
//! }
//! let refused = client.ready().await?.call(get_map()?).await.unwrap_err();
//! assert!(find::<CircuitOpen>(&refused).is_some());
//!
//! let host = endpoints.find(get_map()?.uri());
//! assert!(matches!(host.snapshot().breaker, BreakerState::Open { .. }));
//! # Ok(())
//! # }
//! ```
//!
//! # When it opens
//!
//! After five answers in a row that say that nobody is there to serve, if besides nothing succeeded for 2 s, or the
//! connection was refused, or the row is half as long as the limit is high: see [`BreakerSettings`](crate::BreakerSettings).
//! Unavailable are connections that fail, 502, 503, 504 and their like, exceptions that mean overload, timeouts of an
//! attempt, bodies that break off. An answer that says that the request is wrong is a success of the host. Whoever is
//! asked to send less (429, 503 with `Retry-After`) is talking to a host that works: that changes nothing, and neither
//! does an answer of which nobody can tell.
//! A call that is dropped says nothing when it is young; later than twice the 99th percentile of the answers and than 30 s
//! it counts as one that nobody answered: a server that hangs under somebody else's timeout.
//!
//! It stays open for 5 s, after each probe that fails half as long again, up to 15 s, each within a quarter at random.
//! Then exactly one call goes, as the probe. It closes with its success, and the limit on what is in flight grows back
//! from half of what it was.
//!
//! # Failing or waiting
//!
//! [`OnOpen::Fail`], the default here, refuses at once with [`CircuitOpen`]; a
//! [`RetryPolicy`](crate::retry::RetryPolicy) outside knows how long to sleep then. [`OnOpen::Wait`] holds calls in order,
//! within `queue_timeout` (600 s), the request's [`Deadline`](crate::Deadline) and the budget of its retry.
//!
//! # Operators
//!
//! [`Endpoint`](crate::Endpoint) is the handle: [`open`](crate::Endpoint::open), [`close`](crate::Endpoint::close),
//! [`reset`](crate::Endpoint::reset), [`snapshot`](crate::Endpoint::snapshot).
//!
//! # How this differs from other breakers
//!
//! One breaker is one host, and everything built from one [`Endpoints`](crate::Endpoints) shares it with the limit and the
//! cooldown of that host. Nothing is refused in `poll_ready`. An answer to a call of before a change of state changes
//! nothing any more. A probe that is lost frees its place.

mod layer;
mod service;

pub use crate::gate::{CircuitOpen, OnOpen, ResponseBody, ResponseFuture};
pub use layer::CircuitBreakerLayer;
pub use service::CircuitBreaker;
