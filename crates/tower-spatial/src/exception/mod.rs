//! Finds the exceptions that geospatial services hide in answers that look good.
//!
//! A WMS that cannot draw says so in an XML document, often with status 200 and sometimes under an image's label; a proxy
//! in front of it answers with a page. The layer looks at the first 2 KB of each answer, no more, and hands on what it
//! looked at together with the rest: byte for byte, trailers included, without waiting for anything that is not needed.
//!
//! ```
//! use std::convert::Infallible;
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::{Empty, Full};
//! use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//! use tower_spatial::{exception::{ServiceException, ServiceExceptionLayer}, find};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), BoxError> {
//! let wms = service_fn(|_: Request<Empty<Bytes>>| async {
//!     let report = r#"<?xml version="1.0"?><ServiceExceptionReport version="1.3.0" xmlns="http://www.opengis.net/ogc">
//!         <ServiceException code="LayerNotDefined">no such layer: roads</ServiceException></ServiceExceptionReport>"#;
//!     Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(report)))
//! });
//! let client = ServiceBuilder::new().layer(ServiceExceptionLayer::new()).service(wms);
//! let request = Request::get("https://example.org/wms?SERVICE=WMS&REQUEST=GetMap&FORMAT=image/png").body(Empty::new())?;
//! let error = client.oneshot(request).await.unwrap_err();
//! assert_eq!(find::<ServiceException>(&error).and_then(|found| found.code()), Some("LayerNotDefined"));
//! # Ok(()) }
//! ```
//!
//! # What becomes of an exception
//!
//! | | status 2xx | any other status |
//! |---|---|---|
//! | default | the error [`ServiceExceptionError`] | the response, with [`ServiceException`] among its extensions |
//! | [`annotate`](ServiceExceptionLayer::annotate) | the response, with the extension | the same |
//! | [`all_as_errors`](ServiceExceptionLayer::all_as_errors) | the error | the error |
//!
//! # What is not waited for
//!
//! Answers that have no body (1xx, 204, 304, to HEAD and CONNECT) or are not about data (to OPTIONS and TRACE), event
//! streams, `multipart/x-mixed-replace`, gRPC, and answers with a label that is not text to a request that is not known as
//! geospatial. Nor is any further frame read once the limit is reached, the recognizer has decided, or [`max_wait`](ServiceExceptionLayer::max_wait) has passed.
//!
//! # What was asked
//!
//! is read from the method, the path, the query and `Accept`, the first time an answer raises the question: a page is fine
//! where a page was asked for. What a POST asks for stands in its body, which this layer does not read; a caller who has it
//! puts an [`Operation`] among the request's extensions, made with the body's head.
//!
//! With the feature `decode` a copy of the head of a gzip or deflate answer is decoded, never beyond the limit. What is
//! encoded otherwise passes: nothing can be told of it.

mod body;
#[cfg(feature = "decode")]
mod decode;
mod error;
mod future;
mod inspection;
mod layer;
mod service;

pub use body::InspectedBody;
pub use error::ServiceExceptionError;
pub use future::ResponseFuture;
#[cfg(feature = "completeness")]
pub(crate) use inspection::{Encoding, is_answered_with_data, is_endless};
pub use layer::ServiceExceptionLayer;
pub use service::ServiceExceptionService;
pub use service_exception::{Dialects, Disposition, Operation, ServiceException};
