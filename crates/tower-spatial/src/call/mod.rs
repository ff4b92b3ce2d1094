//! Who is called, what came of it, and what one call carries with it.

mod attempt;
mod cause;
mod context;
mod outcome;

pub use attempt::{Attempt, Attempts};
pub use cause::Cause;
pub use context::Deadline;
pub(crate) use context::{Context, latest_start};
pub(crate) use outcome::chain;
pub use outcome::{Outcome, Verdict};
