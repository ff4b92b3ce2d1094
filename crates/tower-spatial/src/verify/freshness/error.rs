use std::{error::Error, fmt};

use http::response::Parts;

use super::Stale;

/// An answer that is older than was expected; its [`source`](Error::source) is what shows it.
pub struct StaleError {
    pub(super) stale: Stale,
    pub(super) parts: Parts,
}

impl StaleError {
    /// What shows that it is stale.
    pub fn stale(&self) -> &Stale {
        &self.stale
    }

    /// The response's status, headers and extensions.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }
}

impl fmt::Display for StaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer is stale")
    }
}

impl fmt::Debug for StaleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers can hold cookies.
        f.debug_struct("StaleError")
            .field("status", &self.parts.status)
            .field("stale", &self.stale)
            .finish_non_exhaustive()
    }
}

impl Error for StaleError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.stale)
    }
}
