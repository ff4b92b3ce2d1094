//! Request bodies that can be sent again.

mod body;
mod repeatable;

pub use body::{BodyNotRepeatable, ReplayBody};
pub use repeatable::RepeatableBody;
