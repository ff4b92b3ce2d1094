use std::time::Duration;

use tower_layer::Layer;

use super::DeadlineService;

/// Adds a [`DeadlineService`].
#[derive(Clone, Debug, Default)]
pub struct DeadlineLayer {
    default: Option<Duration>,
}

impl DeadlineLayer {
    /// Keeps the [`Deadline`](crate::Deadline) that a request carries; without one a call has none.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a request without a [`Deadline`](crate::Deadline) one of `duration` from its call.
    pub fn after(duration: Duration) -> Self {
        Self {
            default: Some(duration),
        }
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = DeadlineService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadlineService {
            inner,
            default: self.default,
        }
    }
}
