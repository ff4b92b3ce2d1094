//! What breaker, cooldown and concurrency limit have in common: one admission through all the gates of a host.
//!
//! Whichever of their layers a call meets first admits it through all the gates there are, in one queue; the others see
//! that and let it pass. See [`Endpoints`](crate::Endpoints).

mod body;
mod error;
mod future;
mod outcome;
mod service;

pub use body::ResponseBody;
pub use error::{CircuitOpen, QueueTimeout, UnknownHost};
pub use future::ResponseFuture;
pub(crate) use outcome::KeyPaused;
pub(crate) use service::{Gate, Options};

/// What ends a permit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermitScope {
    /// The end of the response's body: read to its end, failed, or dropped.
    #[default]
    Body,
    /// The response's head.
    Head,
}

/// What a call does that finds the breaker open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOpen {
    /// Fails at once with [`CircuitOpen`].
    #[default]
    Fail,
    /// Waits for its turn, in order, no longer than any other wait.
    Wait,
}
