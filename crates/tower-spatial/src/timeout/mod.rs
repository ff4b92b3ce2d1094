//! Limits on the time that a call and its parts take.
pub mod attempt;
pub mod deadline;
