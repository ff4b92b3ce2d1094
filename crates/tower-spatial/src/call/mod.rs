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
pub(crate) use context::{Carried, Clock, Context, Place, latest_start, mark_admitted};
#[cfg(feature = "config")]
pub(crate) use endpoint::Pattern;
pub use endpoint::{
    BreakerState, Endpoint, EndpointName, EndpointSettings, EndpointSnapshot, Endpoints,
    EndpointsBuilder, EndpointsError, EndpointsState, Latency,
};
pub(crate) use endpoint::{EndpointsId, Kind, Part, Permit, Queued, Settings, Waiting};
pub(crate) use outcome::chain;
pub use outcome::{Outcome, Verdict};
pub use too_late::TooLate;
