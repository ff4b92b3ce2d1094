//! The layers together, over real sockets.

mod composition;
mod connections;
mod failures;
mod streams;
mod support;
