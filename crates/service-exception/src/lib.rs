//! What a geospatial request asked for, and what the answer really means.
//!
//! Pure and synchronous: this crate knows the protocols (WMS, WFS, OGC API, ArcGIS and their kin) and nothing of
//! time, retries, tower or tokio. [`Operation`] reads a request; [`Recognizer`] reads the first bytes of its answer and
//! finds a [`ServiceException`] in them, whatever status and media type say.
//!
//! ```
//! use http::{HeaderMap, Method, StatusCode, Uri};
//! use service_exception::{Asked, Disposition, Finding, Recognizer};
//!
//! let uri = Uri::from_static("https://gis.example.org/arcgis/rest/services/a/MapServer/0/query?f=json");
//! let asked = Asked::new(&Method::GET, &uri, &HeaderMap::new());
//! assert!(asked.operation().is_safe_to_repeat());
//!
//! let mut recognizer = Recognizer::new(asked, StatusCode::OK, &HeaderMap::new());
//! let body = br#"{"error":{"code":498,"message":"Invalid Token","details":[]}}"#;
//! let Finding::Exception(exception) = recognizer.push_last(body) else { panic!("it is one") };
//! assert_eq!((exception.dialect(), exception.code()), ("arcgis", Some("498")));
//! assert_eq!(exception.disposition(), Disposition::Permanent);
//! assert!(exception.wants_credentials());
//! ```
//!
#![doc = include_str!("dialects.md")]

mod code;
mod dialect;
pub mod document;
mod exception;
mod form;
mod kvp;
mod mask;
mod operation;
mod range;
mod recognizer;

pub use dialect::{Answer, Content, Dialect, Dialects, Report};
pub use exception::{Disposition, ServiceException};
pub use form::html::Page;
pub use form::json::Json;
pub use form::tree::{Element, Xml};
pub use operation::{Asked, Expected, Operation, Protocol};
pub use recognizer::{Finding, Recognizer};
