//! reqwest's client under the layers.
//!
//! ```no_run
//! use std::time::Duration;
//! use bytes::Bytes;
//! use http::Request;
//! use http_body_util::{BodyExt, Empty};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer};
//! use tower_spatial::{ConcurrencyLimitLayer, client::reqwest::ReqwestClient, exception::ServiceExceptionLayer, retry::RetryPolicy};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
//! let builder = reqwest::Client::builder().connect_timeout(Duration::from_secs(10));
//! let client = ServiceBuilder::new()
//!     .layer(RetryLayer::new(RetryPolicy::default()))
//!     .layer(ConcurrencyLimitLayer::per_host(16))
//!     .timeout(Duration::from_secs(60))
//!     .layer(ServiceExceptionLayer::new())
//!     .service(ReqwestClient::build(builder)?);
//! let request = Request::get("http://example.org/wms?SERVICE=WMS&REQUEST=GetCapabilities").body(Empty::<Bytes>::new())?;
//! let capabilities = client.oneshot(request).await?.into_body().collect().await?.to_bytes();
//! # Ok(()) }
//! ```
//!
//! `text()`, `json()` and the like: `reqwest::Response::from(response.map(reqwest::Body::wrap))`.
//!
//! # What reqwest does by itself
//!
//! | | [`ReqwestClient::build`] | a `Client` of your own, by `From` |
//! |---|---|---|
//! | repeats of what HTTP/2 refused | off | reqwest's, up to two and without a pause, for requests without a body |
//! | redirects | off: they come back as responses | reqwest's, up to ten by default. Another host's load is counted at the host that was asked |
//! | `timeout` of its builder | as it was set | the same: one attempt with its body, from here |
//! | decompression, cookies, proxies, TLS | as they were set | the same |
//!
//! With its decompression on, `Content-Length` and `Content-Encoding` are gone, and the exception layer sees decoded bytes.
//!
//! reqwest parses a URL anew, as browsers do: `'` in a query leaves as `%27`, dots in a path are resolved.
//!
//! reqwest's errors print the URL that was asked for, with what keys it holds. From here they come without: see
//! [`ReqwestClient`].

mod body;
mod future;
mod service;

pub use future::ResponseFuture;
pub use service::ReqwestClient;
