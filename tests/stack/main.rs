//! The layers together, over real sockets.

mod clients;
mod composition;
mod connections;
mod failures;
mod idempotency;
mod laws;
mod streams;
mod support;
