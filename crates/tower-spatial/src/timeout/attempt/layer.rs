use std::{fmt, sync::Arc, time::Duration};

use tower_layer::Layer;

use super::{AttemptTimeoutService, limits::Limits, patience::TooShort};
use crate::call::Endpoints;

/// Adds an [`AttemptTimeoutService`]; see the [module](super).
///
/// ```
/// use std::time::Duration;
/// use tower_spatial::timeout::attempt::AttemptTimeoutLayer;
///
/// let national_wfs = AttemptTimeoutLayer::new().read_timeout(Duration::from_secs(600));
/// let strict = AttemptTimeoutLayer::new()
///     .head(Duration::from_secs(20))
///     .idle(Duration::from_secs(5))
///     .whole(Duration::from_secs(60))
///     .fixed();
/// let never_mind_the_head = AttemptTimeoutLayer::new().head(None);
/// ```
#[derive(Clone, Debug)]
pub struct AttemptTimeoutLayer {
    options: Options,
}

#[derive(Clone)]
pub(super) struct Options {
    pub(super) limits: Limits,
    pub(super) endpoints: Endpoints,
    /// Whether there are none, whatever an endpoint says.
    pub(super) off: bool,
    /// Whether a later attempt never gets more time.
    pub(super) fixed: bool,
    pub(super) on_too_short: Option<Arc<OnTooShort>>,
}

type OnTooShort = dyn Fn(&TooShort) + Send + Sync;

impl AttemptTimeoutLayer {
    /// Head 180 s, idle 60 s, no limit on the whole.
    pub fn new() -> Self {
        Self {
            options: Options {
                limits: Limits {
                    head: Some(Duration::from_secs(180)),
                    idle: Some(Duration::from_secs(60)),
                    whole: None,
                },
                endpoints: Endpoints::default(),
                off: false,
                fixed: false,
                on_too_short: None,
            },
        }
    }

    /// The longest time from the call to the answer's head. Default 180 s; `None` is no limit. Zero lets only an answer
    /// pass that is there at once.
    #[must_use]
    pub fn head(mut self, head: impl Into<Option<Duration>>) -> Self {
        self.options.limits.head = head.into();
        self
    }

    /// The longest time for which the reader waits for the next frame of the body and none comes. Default 60 s; `None`
    /// is no limit. A reader that asks for none is not cut off.
    #[must_use]
    pub fn idle(mut self, idle: impl Into<Option<Duration>>) -> Self {
        self.options.limits.idle = idle.into();
        self
    }

    /// What other clients call the read timeout: the same limit for the head and between frames.
    #[must_use]
    pub fn read_timeout(self, read_timeout: Duration) -> Self {
        self.head(read_timeout).idle(read_timeout)
    }

    /// The longest time from the call to the end of the body, checked whenever the server is waited for. Default none.
    #[must_use]
    pub fn whole(mut self, whole: impl Into<Option<Duration>>) -> Self {
        self.options.limits.whole = whole.into();
        self
    }

    /// Keeps the limits for every attempt, also where they prove to be shorter than good answers take.
    #[must_use]
    pub fn fixed(mut self) -> Self {
        self.options.fixed = true;
        self
    }

    /// Limits nothing but what the caller's deadline does.
    pub(crate) fn off() -> Self {
        let mut layer = Self::new().head(None).idle(None).fixed();
        layer.options.off = true;
        layer
    }

    /// Notes how long answers take in these endpoints, shared with other layers. Default: endpoints of its own, one a
    /// host.
    #[must_use]
    pub fn endpoints(mut self, endpoints: Endpoints) -> Self {
        self.options.endpoints = endpoints;
        self
    }

    /// What is told that a limit is too short, once for each endpoint and limit.
    #[must_use]
    pub fn on_too_short<F>(mut self, on_too_short: F) -> Self
    where
        F: Fn(&TooShort) + Send + Sync + 'static,
    {
        self.options.on_too_short = Some(Arc::new(on_too_short));
        self
    }
}

impl Default for AttemptTimeoutLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for AttemptTimeoutLayer {
    type Service = AttemptTimeoutService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AttemptTimeoutService {
            inner,
            options: Arc::new(self.options.clone()),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("limits", &self.limits)
            .field("fixed", &self.fixed)
            .finish_non_exhaustive()
    }
}
