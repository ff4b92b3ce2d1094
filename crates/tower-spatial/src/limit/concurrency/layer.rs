use std::sync::Arc;

use tokio::time::Duration;
use tower_layer::Layer;

use super::{ConcurrencyLimit, PermitScope};
use crate::AdaptiveSettings;
use crate::call::{EndpointSettings, Endpoints, EndpointsError, Part};
use crate::gate::{Gate, Options};

/// Limits the answers in flight at each host; see the [module](super).
///
/// ```
/// use std::time::Duration;
/// use tower::ServiceBuilder;
/// use tower_spatial::{ConcurrencyLimitLayer, EndpointSettings, Endpoints};
///
/// let simple = ServiceBuilder::new().layer(ConcurrencyLimitLayer::per_host(16));
///
/// let endpoints = Endpoints::builder()
///     .defaults(EndpointSettings::new().concurrency(16))
///     .endpoint("cadastre", ["wms.cadastre.example"], EndpointSettings::new().concurrency(4))
///     .build()?;
/// let by_endpoint = ServiceBuilder::new()
///     .layer(ConcurrencyLimitLayer::new(endpoints).queue_timeout(Duration::from_secs(60)));
/// # Ok::<(), tower_spatial::EndpointsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConcurrencyLimitLayer {
    options: Options,
}

impl ConcurrencyLimitLayer {
    /// Limits, timeouts and state by endpoint. Everything built from the same [`Endpoints`] shares them.
    pub fn new(endpoints: Endpoints) -> Self {
        endpoints.add(Part::Limit);
        Self {
            options: Options::new(endpoints),
        }
    }

    /// At most `limit` answers in flight at each host. A number that is no limit is taken as the nearest that is one, 1
    /// to 65 535: zero would be a client that waits and never asks. [`try_per_host`](Self::try_per_host) refuses it.
    pub fn per_host(limit: usize) -> Self {
        let limit = limit.clamp(1, usize::from(u16::MAX));
        Self::try_per_host(limit).unwrap_or_else(|_| Self::new(Endpoints::default()))
    }

    /// As many answers in flight at each host as it can bear, found from how long they take: it starts at 4 and goes up
    /// to a ceiling, by default 64. Settings that make no sense are taken as the nearest that do;
    /// [`EndpointSettings::adaptive`] refuses them.
    ///
    /// A ceiling that is too high costs little; one of half of what the host can bear costs half of its throughput. Where
    /// its number of cores is known, that is a good one.
    ///
    /// ```
    /// use tower_spatial::{AdaptiveSettings, ConcurrencyLimitLayer};
    ///
    /// let layer = ConcurrencyLimitLayer::adaptive(AdaptiveSettings {
    ///     ceiling: 16,
    ///     ..AdaptiveSettings::default()
    /// });
    /// ```
    pub fn adaptive(adaptive: AdaptiveSettings) -> Self {
        let range = |n: u32| n.clamp(1, u32::from(u16::MAX));
        let adaptive = AdaptiveSettings {
            start: range(adaptive.start),
            ceiling: range(adaptive.ceiling),
            tolerance: match adaptive.tolerance {
                tolerance if tolerance.is_nan() => AdaptiveSettings::default().tolerance,
                tolerance => tolerance.clamp(1.0, 10.0),
            },
            measure_every: adaptive.measure_every.max(Duration::from_secs(1)),
            ..adaptive
        };
        Endpoints::builder()
            .defaults(EndpointSettings::new().adaptive(adaptive))
            .build()
            .map_or_else(|_| Self::new(Endpoints::default()), Self::new)
    }

    /// As [`per_host`](Self::per_host), for numbers from elsewhere.
    ///
    /// # Errors
    /// Where `limit` is not within 1 to 65 535.
    ///
    /// ```
    /// use tower_spatial::ConcurrencyLimitLayer;
    ///
    /// let error = ConcurrencyLimitLayer::try_per_host(0).unwrap_err();
    /// assert_eq!(error.to_string(), "concurrency: 0 is out of range, expected 1 to 65535");
    /// ```
    pub fn try_per_host(limit: usize) -> Result<Self, EndpointsError> {
        Endpoints::builder()
            .defaults(EndpointSettings::new().concurrency(limit))
            .build()
            .map(Self::new)
    }

    /// What admits calls through all the gates that have been built, and adds none.
    pub(crate) fn gates(endpoints: Endpoints) -> Self {
        Self {
            options: Options::new(endpoints),
        }
    }

    /// How long a call may wait for its permit, at every endpoint. With zero a call that finds none fails at once.
    #[must_use]
    pub fn queue_timeout(mut self, queue_timeout: Duration) -> Self {
        self.options.queue_timeout = Some(queue_timeout);
        self
    }

    /// For how long nobody may poll a body before its permit can go to a waiting call, at every endpoint. Times under 4
    /// ms are taken as 4 ms, [`Duration::MAX`] as never.
    #[must_use]
    pub fn reader_patience(mut self, reader_patience: Duration) -> Self {
        self.options.reader_patience = Some(reader_patience);
        self
    }

    /// What ends a permit, by default the end of the body.
    #[must_use]
    pub fn permit_scope(mut self, permit_scope: PermitScope) -> Self {
        self.options.permit_scope = permit_scope;
        self
    }

    /// The endpoints, to see how they are doing or to share them with other layers.
    pub fn endpoints(&self) -> &Endpoints {
        &self.options.endpoints
    }
}

impl<S> Layer<S> for ConcurrencyLimitLayer {
    type Service = ConcurrencyLimit<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ConcurrencyLimit {
            gate: Gate::new(inner, Arc::new(self.options.clone())),
        }
    }
}
