//! A hyper-util client that is ready for slow servers and large answers.
//!
//! ```no_run
//! use std::time::Duration;
//! use bytes::Bytes;
//! use http::Request;
//! use http_body_util::Empty;
//! use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer};
//! use tower_spatial::{ConcurrencyLimitLayer, client, exception::ServiceExceptionLayer, retry::RetryPolicy};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
//! let client = ServiceBuilder::new()
//!     .layer(RetryLayer::new(RetryPolicy::default()))
//!     .layer(ConcurrencyLimitLayer::per_host(16))
//!     .timeout(Duration::from_secs(60))
//!     .layer(ServiceExceptionLayer::new())
//!     .map_err(BoxError::from)
//!     .service(client::hyper::ClientBuilder::new().build()?);
//! let request = Request::get("https://example.org/wms?SERVICE=WMS&REQUEST=GetCapabilities").body(Empty::<Bytes>::new())?;
//! let response = client.oneshot(request).await?;
//! # Ok(()) }
//! ```
//!
//! # How this differs from hyper-util's own defaults
//!
//! | | here | hyper-util |
//! |---|---|---|
//! | connecting (name, TCP and TLS together) | at most 10 s | no limit |
//! | TLS | rustls with ring; what the machine trusts, or [`ClientBuilder::tls`] | none |
//! | HTTP/2 | where the server offers it over TLS | only by prior knowledge |
//! | HTTP/2 keep-alive | a PING after 20 s of silence with an answer outstanding, 10 s for its answer | none |
//! | HTTP/2 windows | 1 MiB a stream, 64 MiB a connection: 64 unread answers | 2 MB and 5 MB: two unread answers |
//! | idle connections | at most 16 a host, for 60 s | any number, for 90 s |
//!
//! What the machine trusts, and not a list compiled in: an office's own servers have certificates of the office's own
//! authority, and such a list ages with the program.
//!
//! Redirects come back as the responses they are: a redirect to another host would escape the limit and the pace of the
//! one that was asked. No proxy is taken from the environment. A request that was handed back unsent, since its pooled
//! connection had gone, is sent again on another one, as hyper-util does by default.

mod builder;
mod connector;

pub use builder::{ClientBuilder, InvalidClient};
pub use connector::Connector;

/// hyper-util's client over a [`Connector`]; what [`ClientBuilder`] builds. Clones share the connections.
pub type Client<B> = hyper_util::client::legacy::Client<Connector, B>;
