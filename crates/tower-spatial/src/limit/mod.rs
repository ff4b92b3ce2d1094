//! Limits on what one host is asked to bear.
pub mod concurrency;
pub mod rate;
