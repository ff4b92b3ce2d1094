//! When to try again, and what one host can bear.
//!
//! Pure: nothing of HTTP, XML, tower or tokio. Whatever depends on the time takes it as an argument and returns a
//! decision, so that a test, a simulator and a store shared by a fleet run the same code as a client does.

mod backoff;
mod budget;

pub use backoff::{Backoff, InvalidBackoff};
pub use budget::{Budget, Exceeded};
