//! Tower middleware that gives any tower-based HTTP client spatial-aware retries.

pub mod call;
pub mod limit;
