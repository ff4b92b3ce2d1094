//! Who is called, what came of it, and what one call carries with it.

mod attempt;
mod cause;
mod context;
mod endpoint;
mod outcome;
mod too_late;

pub use attempt::{Attempt, Attempts};
pub use cause::Cause;
pub use context::Deadline;
pub(crate) use context::{Context, latest_start};
pub use endpoint::{
    Endpoint, EndpointSettings, EndpointSnapshot, Endpoints, EndpointsBuilder, EndpointsError,
};
pub(crate) use endpoint::{Kind, Permit, Queued};
pub(crate) use outcome::chain;
pub use outcome::{Outcome, Verdict};
pub use too_late::TooLate;
