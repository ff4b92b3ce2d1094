//! Request bodies that can be sent again.

mod body;
mod repeatable;
mod shared;

pub use body::{BodyNotRepeatable, ReplayBody};
pub use repeatable::{JudgeHead, Keep, NotRepeatable, RepeatableBody};
