use std::sync::Arc;

use tokio::time::Duration;
use tower_layer::Layer;

use super::Cooldown;
use crate::call::{Endpoints, Part};
use crate::gate::{Gate, Options};

/// Holds calls to a host that asked for peace; see the [module](super).
///
/// ```
/// use tower::ServiceBuilder;
/// use tower_spatial::CooldownLayer;
///
/// let stack = ServiceBuilder::new().layer(CooldownLayer::per_host());
/// ```
#[derive(Clone, Debug)]
pub struct CooldownLayer {
    options: Options,
}

impl CooldownLayer {
    /// For each of these endpoints, with their settings. Everything built from the same [`Endpoints`] shares their state.
    pub fn new(endpoints: Endpoints) -> Self {
        endpoints.add(Part::Cooldown);
        Self {
            options: Options::new(endpoints),
        }
    }

    /// For each host, with the default settings.
    pub fn per_host() -> Self {
        Self::new(Endpoints::default())
    }

    /// How long a call may wait, at every endpoint.
    #[must_use]
    pub fn queue_timeout(mut self, queue_timeout: Duration) -> Self {
        self.options.queue_timeout = Some(queue_timeout);
        self
    }

    /// The endpoints, to see how they are doing or to share them with other layers.
    pub fn endpoints(&self) -> &Endpoints {
        &self.options.endpoints
    }
}

impl<S> Layer<S> for CooldownLayer {
    type Service = Cooldown<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Cooldown {
            gate: Gate::new(inner, Arc::new(self.options.clone())),
        }
    }
}
