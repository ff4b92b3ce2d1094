//! Checks that an answer is what was asked for.

pub mod completeness;
pub mod freshness;
