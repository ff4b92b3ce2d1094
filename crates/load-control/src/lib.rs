//! When to try again, and what one host can bear.
//!
//! Pure: nothing of HTTP, XML, tower or tokio. Every function that depends on the time takes it as an argument and returns a decision.
