//! Who is called, what came of it, and what one call carries with it.
mod context;
pub(crate) use context::Context;
pub use context::Deadline;
