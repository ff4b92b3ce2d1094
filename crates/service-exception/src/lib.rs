//! What a geospatial request asked for, and what the answer really means.
//!
//! Pure and synchronous: this crate knows the protocols (WMS, WFS, OGC API, ArcGIS and their kin) and nothing of
//! time, retries, tower or tokio.

mod code;
mod exception;
mod operation;
mod recognizer;

pub use exception::{Disposition, ServiceException};
pub use operation::{Asked, Expected, Operation, Protocol};
pub use recognizer::{Finding, Recognizer};
