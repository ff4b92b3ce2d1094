use std::sync::Arc;

use tokio::time::Duration;
use tower_layer::Layer;

use super::{CircuitBreaker, OnOpen};
use crate::BreakerSettings;
use crate::call::{EndpointSettings, Endpoints, EndpointsError, Part};
use crate::gate::{Gate, Options};

/// Keeps calls from a host that is down; see the [module](super).
///
/// ```
/// use tower::ServiceBuilder;
/// use tower_spatial::{CircuitBreakerLayer, Endpoints, OnOpen};
///
/// let alone = ServiceBuilder::new().layer(CircuitBreakerLayer::per_host());
///
/// let endpoints = Endpoints::default();
/// let waiting = ServiceBuilder::new()
///     .layer(CircuitBreakerLayer::new(endpoints.clone()).on_open(OnOpen::Wait));
/// let host = endpoints.find(&"https://wms.example/".parse()?);
/// host.open(); // an operator's order
/// # Ok::<(), http::uri::InvalidUri>(())
/// ```
#[derive(Clone, Debug)]
pub struct CircuitBreakerLayer {
    options: Options,
}

impl CircuitBreakerLayer {
    /// A breaker for each of these endpoints, with their settings. Everything built from the same [`Endpoints`] shares
    /// their state.
    pub fn new(endpoints: Endpoints) -> Self {
        endpoints.add(Part::Breaker);
        Self {
            options: Options {
                on_open: OnOpen::Fail,
                ..Options::new(endpoints)
            },
        }
    }

    /// A breaker for each host, with the default settings.
    pub fn per_host() -> Self {
        Self::new(Endpoints::default())
    }

    /// A breaker for each host.
    ///
    /// # Errors
    /// The setting that makes no sense.
    ///
    /// ```
    /// use tower_spatial::{BreakerSettings, CircuitBreakerLayer};
    ///
    /// let error = CircuitBreakerLayer::with(BreakerSettings { row: 0, ..Default::default() }).unwrap_err();
    /// assert_eq!(error.to_string(), "breaker: row: zero, expected at least 1");
    /// ```
    pub fn with(breaker: BreakerSettings) -> Result<Self, EndpointsError> {
        Endpoints::builder()
            .defaults(EndpointSettings::new().breaker(breaker))
            .build()
            .map(Self::new)
    }

    /// What a call does that finds the breaker open. By default it fails.
    #[must_use]
    pub fn on_open(mut self, on_open: OnOpen) -> Self {
        self.options.on_open = on_open;
        self
    }

    /// How long a call may wait, at every endpoint, where it waits.
    #[must_use]
    pub fn queue_timeout(mut self, queue_timeout: Duration) -> Self {
        self.options.queue_timeout = Some(queue_timeout);
        self
    }

    /// The endpoints, to see how they are doing, to give orders, or to share them with other layers.
    pub fn endpoints(&self) -> &Endpoints {
        &self.options.endpoints
    }
}

impl<S> Layer<S> for CircuitBreakerLayer {
    type Service = CircuitBreaker<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CircuitBreaker {
            gate: Gate::new(inner, Arc::new(self.options.clone())),
        }
    }
}
