//! What a geospatial request asked for, and what the answer really means.
//!
//! Pure and synchronous: this crate knows the protocols (WMS, WFS, OGC API, ArcGIS and their kin) and nothing of
//! time, retries, tower or tokio.

mod code;
mod dialect;
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
