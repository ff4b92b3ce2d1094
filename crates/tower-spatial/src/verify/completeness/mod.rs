//! Takes an answer that is not whole for a failed attempt.
//!
//! A worker that is killed in mid-stream leaves perfect chunked framing, a proxy gives a cut file its own length, a servlet
//! appends its exception to half a collection: all of them with status 200, and the retry has long decided. The layer collects
//! an answer within the attempt, checks it, and hands it on when it is whole; the permit of the layers below is free once the
//! transport's body has ended, however slowly the answer is read then.
//!
#![cfg_attr(feature = "completeness", doc = "```")]
#![cfg_attr(not(feature = "completeness"), doc = "```ignore")]
//! use std::{convert::Infallible, sync::atomic::{AtomicU32, Ordering}};
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{BodyExt, Empty, Full};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer, service_fn};
//! use tower_spatial::{retry::RetryPolicy, verify::completeness::CompletenessLayer};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), BoxError> {
//! static CALLS: AtomicU32 = AtomicU32::new(0);
//! let killed_once = service_fn(|_: Request<Empty<Bytes>>| async {
//!     let whole = "<FeatureCollection><featureMember/></FeatureCollection>";
//!     let end = if CALLS.fetch_add(1, Ordering::Relaxed) == 0 { 30 } else { whole.len() };
//!     Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(&whole[..end])))
//! });
//! let client = ServiceBuilder::new()
//!     .layer(RetryLayer::new(RetryPolicy::default()))
//!     .layer(CompletenessLayer::new())
//!     .service(killed_once);
//! let request = Request::get("https://example.org/wfs?service=WFS&request=GetFeature&typeNames=a").body(Empty::new())?;
//! let body = client.oneshot(request).await?.into_body().collect().await?.to_bytes();
//! assert!(body.ends_with(b"</FeatureCollection>"));
//! # Ok(()) }
//! ```
//!
//! # What is checked
//!
//! * The transport's own errors, as everywhere: a cut is a failed attempt now, since the body is read within it.
//! * The bytes against `Content-Length` and `Content-Range`, on every protocol; the range against the one that was asked for.
//! * The document, by [`service_exception::document`]: closed, as long as it says, with the members that it announces, with no
//!   exception in its midst or at its tail. Of an encoded body (feature `decode`: gzip, all of its members, and deflate) the
//!   decoded bytes are checked and the encoded ones handed on; what is encoded otherwise is checked for its length only.
//! * The number of members, where it is known from elsewhere: by [`ExpectedCount`] among a request's extensions, by a question
//!   of its own ([`hits_probe`]), or by the last good answer ([`remember_counts`]).
//!
//! What is not whole is an [`IncompleteError`], which says what was expected and what came. A
//! [`RetryPolicy`](crate::retry::RetryPolicy) takes it for transient, unless an exception in the document says otherwise, and
//! repeats only what is safe to repeat. It is no sign against the host: breaker and limit do not count it.
//!
//! # Which answers
//!
//! Those with a status 2xx and a body, where the request is known as geospatial, the media type is one of geodata, or an
//! [`ExpectedCount`] is there; every answer with [`everything`]. Never event streams, `multipart/x-mixed-replace`, gRPC and
//! upgrades. All others pass as they come.
//!
//! # Where it is kept
//!
//! Up to 1 MiB in memory, beyond that in a temporary file without a name, readable by its owner only, written and read on
//! threads that may block. An answer above [`max_size`], a full disk and an unwritable directory are a `CollectError`; whatever
//! happens, the file is gone with its handle. The body that is handed on knows its exact length and has the trailers that came.
//!
//! [`streaming`] keeps nothing: the frames pass while they are checked, and a body that is not whole ends with an error in place
//! of its end. Nothing is repeated then, as the head has long been handed on.
//!
//! # Where it stands
//!
//! Above what holds permits and counts failures, below `FreshnessLayer` and the retry. Nobody reads while it waits for the disk
//! alone, so its batches bound what is in memory.
//!
//! [`hits_probe`]: CompletenessLayer::hits_probe
//! [`remember_counts`]: CompletenessLayer::remember_counts
//! [`everything`]: CompletenessLayer::everything
//! [`max_size`]: CompletenessLayer::max_size
//! [`streaming`]: CompletenessLayer::streaming
#![cfg_attr(
    not(feature = "completeness"),
    allow(rustdoc::broken_intra_doc_links, reason = "the layer is left out")
)]

#[cfg(feature = "completeness")]
mod blocking;
#[cfg(feature = "completeness")]
mod body;
#[cfg(feature = "completeness")]
mod check;
#[cfg(feature = "completeness")]
mod collect_error;
#[cfg(feature = "completeness")]
mod counts;
#[cfg(all(feature = "completeness", feature = "decode"))]
mod decode;
mod error;
#[cfg(feature = "completeness")]
mod future;
#[cfg(feature = "completeness")]
mod hits;
#[cfg(feature = "completeness")]
mod layer;
#[cfg(feature = "completeness")]
mod service;
#[cfg(feature = "completeness")]
mod store;
#[cfg(all(test, feature = "completeness"))]
mod tests;

pub use error::{IncompleteError, Problem};
pub use service_exception::{
    Asked,
    document::{Format, Incomplete, Whole},
};
#[cfg(feature = "completeness")]
pub use {
    body::CheckedBody,
    check::Check,
    collect_error::CollectError,
    counts::{CountMemory, ExpectedCount, QueryKey, RecentCounts},
    future::ResponseFuture,
    hits::{HitsProbe, HitsProbeFuture, HitsProbeLayer},
    layer::CompletenessLayer,
    service::CompletenessService,
};

/// What is done with answers that can be checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completeness {
    /// Nothing.
    Off,
    /// They are collected and checked before they are handed on.
    #[default]
    Collect,
    /// They are checked while they are read.
    Streaming,
}
