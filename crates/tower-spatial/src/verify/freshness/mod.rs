//! Takes an answer that is too old for a failed attempt.
//!
//! A cache in front of a service that is down serves what it has, with status 200: last month's tile lands in today's
//! mosaic, and nothing has failed. The layer compares what an answer says of its age with what was expected. A stale one
//! is an error that a retry repeats, and the repeat asks the caches on its way to go and look.
//!
//! ```
//! use std::{convert::Infallible, time::Duration};
//! use bytes::Bytes;
//! use http::{Request, Response, header};
//! use http_body_util::{Empty, Full};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer, service_fn};
//! use tower_spatial::{retry::RetryPolicy, verify::freshness::FreshnessLayer};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), BoxError> {
//! let cache = service_fn(|request: Request<Empty<Bytes>>| async move {
//!     let asks_the_origin = request.headers().contains_key(header::CACHE_CONTROL);
//!     let age = if asks_the_origin { "0" } else { "2592000" };
//!     Ok::<_, Infallible>(Response::builder().header(header::AGE, age).body(Full::<Bytes>::default()).unwrap())
//! });
//! let client = ServiceBuilder::new()
//!     .layer(RetryLayer::new(RetryPolicy::default()))
//!     .layer(FreshnessLayer::new().max_age(Duration::from_secs(86_400)))
//!     .service(cache);
//! let response = client.oneshot(Request::get("https://tiles.example.org/1/2/3.png").body(Empty::new())?).await?;
//! assert_eq!(response.headers()[header::AGE], "0");
//! # Ok(()) }
//! ```
//!
//! # What is stale
//!
//! An answer to GET or HEAD with a status 2xx, by the first row that tells:
//!
//! | | stale where | fresh where |
//! |---|---|---|
//! | `Last-Modified`, with a [`not_before`](FreshnessLayer::not_before) | before it | not before it, and `max_age` is kept or not set |
//! | `Age`, with a [`max_age`](FreshnessLayer::max_age) or a `not_before` | older than `max_age`; made before `not_before` | not |
//! | `Date`, with either, where there is no `Age` | the same, by more than 5 minutes, since clocks differ | |
//! | `Warning` 110 and 111; `stale`, `updating` or `refresh_fail` in `X-Cache`, `X-Cache-Status` or `CF-Cache-Status`; `Cache-Status` with a negative `ttl` (RFC 9211) | always | |
//!
//! So a cache may call stale what is young enough for the caller. What should be there is known to the one who asks:
//! [`ExpectedModified`] among a request's extensions is that request's `not_before`. An endpoint's settings beat the
//! layer's, the request's extension beats both.
//!
//! # What becomes of it
//!
//! The error [`StaleError`], whose source is [`Stale`]; with [`annotate`](FreshnessLayer::annotate) the response, with
//! [`Stale`] among its extensions. A [`RetryPolicy`](crate::retry::RetryPolicy) above takes both for a failed attempt, and
//! where it gives up, or where there is none, the caller gets the one that was chosen.
//!
//! Repeats carry `Cache-Control: no-cache`. Caches that do not heed it are passed by with a
//! [parameter that no earlier request had](FreshnessLayer::cache_busting_parameter), where one is named: at most one attempt
//! of a call has it, since each such answer is kept by those caches for nobody.

mod cache_busting;
mod error;
mod future;
mod layer;
mod service;
mod sign;

pub use cache_busting::InvalidParameter;
pub use error::StaleError;
pub use future::ResponseFuture;
pub use layer::FreshnessLayer;
pub use service::FreshnessService;
pub use sign::{Sign, Stale};

pub(crate) use cache_busting::{EXPECTED_NAME, Parameter};
pub(crate) use sign::Expected;

use std::time::SystemTime;

/// Since when the source is known to be as it is: an answer made from an older one is stale. A request's extension.
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tower_spatial::verify::freshness::ExpectedModified;
///
/// let published = SystemTime::now() - Duration::from_secs(3_600);
/// let mut request = http::Request::get("https://example.org/wms?REQUEST=GetMap").body(())?;
/// request.extensions_mut().insert(ExpectedModified(published));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedModified(
    /// In whole seconds, as `Last-Modified` is; what is finer is dropped.
    pub SystemTime,
);
