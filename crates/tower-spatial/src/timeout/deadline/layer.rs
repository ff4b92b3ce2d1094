use std::time::Duration;

use tower_layer::Layer;

use super::DeadlineService;
use crate::call::Endpoints;
use crate::observe::Observer;

/// Adds a [`DeadlineService`].
#[derive(Clone, Debug, Default)]
pub struct DeadlineLayer {
    default: Option<Duration>,
    endpoints: Option<Endpoints>,
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
            endpoints: None,
        }
    }

    /// Finds the endpoint of a call, once for all layers further inside that were built from the same [`Endpoints`]. They
    /// go by its settings then, each by its own part.
    #[must_use]
    pub fn endpoints(mut self, endpoints: Endpoints) -> Self {
        if let Some(before) = self.endpoints.take() {
            let observers = before.observers().all();
            observers.iter().for_each(|one| endpoints.observe_with(one));
        }
        self.endpoints = Some(endpoints);
        self
    }

    /// Has `observer` told of every call, and of all that happens at the [`endpoints`](Self::endpoints): where none are
    /// set, of each host's calls. See [`observe`](crate::observe).
    #[must_use]
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.endpoints
            .get_or_insert_with(Endpoints::default)
            .observe(observer);
        self
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = DeadlineService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DeadlineService {
            inner,
            default: self.default,
            endpoints: self.endpoints.clone(),
        }
    }
}
