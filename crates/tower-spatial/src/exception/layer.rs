use std::time::Duration;

use service_exception::{Dialects, Recognizer};
use tower_layer::Layer;

use super::ServiceExceptionService;

/// Adds a [`ServiceExceptionService`].
#[derive(Clone, Debug)]
pub struct ServiceExceptionLayer {
    settings: Settings,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) limit: usize,
    pub(super) max_wait: Duration,
    pub(super) becomes: Becomes,
    pub(super) dialects: Dialects,
}

/// What an exception becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Becomes {
    ErrorWhereSuccess,
    Error,
    Extension,
    /// Nobody looks.
    Nothing,
}

impl ServiceExceptionLayer {
    /// Looks at 2 KB, for at most 5 s, and makes an exception with a status 2xx an error.
    pub fn new() -> Self {
        Self {
            settings: Settings {
                limit: Recognizer::DEFAULT_LIMIT,
                max_wait: Duration::from_secs(5),
                becomes: Becomes::ErrorWhereSuccess,
                dialects: Dialects::standard(),
            },
        }
    }

    /// How many (decoded) bytes of the body are looked at. Default 2048; raised to 64, lowered to 1 MiB.
    #[must_use]
    pub fn limit(mut self, bytes: usize) -> Self {
        self.settings.limit = bytes.clamp(64, 1 << 20);
        self
    }

    /// How long the head may be held while its bytes have not arrived. Default 5 s; zero looks only at what is there.
    #[must_use]
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.settings.max_wait = max_wait;
        self
    }

    /// The dialects that answers are read in. Default all that are known; a request that carries [`Dialects`] among its
    /// extensions is read in those, so that an endpoint can have its own.
    #[must_use]
    pub fn dialects(mut self, dialects: Dialects) -> Self {
        self.settings.dialects = dialects;
        self
    }

    /// Leaves every answer a response, with the exception among its extensions: for a proxy.
    #[must_use]
    pub fn annotate(mut self) -> Self {
        self.settings.becomes = Becomes::Extension;
        self
    }

    /// Looks at nothing.
    pub(crate) fn off() -> Self {
        let mut layer = Self::new();
        layer.settings.becomes = Becomes::Nothing;
        layer
    }

    /// Makes every exception an error, whatever its status.
    #[must_use]
    pub fn all_as_errors(mut self) -> Self {
        self.settings.becomes = Becomes::Error;
        self
    }
}

impl Settings {
    pub(super) fn becomes_error(&self, status: http::StatusCode) -> bool {
        match self.becomes {
            Becomes::ErrorWhereSuccess => status.is_success(),
            Becomes::Error => true,
            Becomes::Extension | Becomes::Nothing => false,
        }
    }
}

impl Default for ServiceExceptionLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for ServiceExceptionLayer {
    type Service = ServiceExceptionService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ServiceExceptionService {
            inner,
            settings: self.settings.clone(),
        }
    }
}
