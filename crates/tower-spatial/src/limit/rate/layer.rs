use std::fmt;
use std::sync::Arc;

use load_control::Quota;
use tokio::time::Duration;
use tower_layer::Layer;

use super::{KeySource, MemoryStore, RateLimit, RateStore, RequestHead, Weight};
use crate::call::{EndpointSettings, Endpoints, Part};
use crate::retry::RetryAfterUnit;

/// Keeps the published rate of each endpoint and key; see the [module](super).
///
/// ```
/// use std::time::Duration;
/// use tower::ServiceBuilder;
/// use tower_spatial::{EndpointSettings, Endpoints, Quota, RateLimitLayer, limit::rate::KeySource};
///
/// let one_a_second = Quota::new(1, Duration::from_secs(1))?;
/// let simple = ServiceBuilder::new().layer(RateLimitLayer::per_host(one_a_second));
///
/// let daily = Quota::new(2_500, Duration::from_secs(86_400))?.with_burst(1_000)?;
/// let endpoints = Endpoints::builder()
///     .endpoint("geocoder", ["api.geocoder.example"], EndpointSettings::new().rate([one_a_second, daily]))
///     .build()?; // other hosts have no rate
/// let by_endpoint = ServiceBuilder::new()
///     .layer(RateLimitLayer::new(endpoints).key(KeySource::query(["key"])));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RateLimitLayer<T = MemoryStore> {
    options: Options<T>,
}

/// What layer and service share.
pub(super) struct Options<T> {
    /// Whether no endpoint has a rate, whatever it says.
    pub(super) off: bool,
    pub(super) endpoints: Endpoints,
    pub(super) store: Arc<T>,
    pub(super) key: KeySource,
    pub(super) weight: Option<Arc<WeightOf>>,
    pub(super) queue_timeout: Option<Duration>,
    pub(super) retry_after_max: Option<Duration>,
    pub(super) retry_after_unit: RetryAfterUnit,
}

type WeightOf = dyn Fn(&RequestHead<'_>) -> Weight + Send + Sync;

impl<T> Options<T> {
    fn new(endpoints: Endpoints, store: Arc<T>) -> Self {
        Self {
            off: false,
            endpoints,
            store,
            key: KeySource::default(),
            weight: None,
            queue_timeout: None,
            retry_after_max: None,
            retry_after_unit: RetryAfterUnit::default(),
        }
    }
}

impl RateLimitLayer {
    /// [Rates](EndpointSettings::rate) and timeouts by endpoint. All that is built from the same [`Endpoints`] counts
    /// together.
    pub fn new(endpoints: Endpoints) -> Self {
        let store = Arc::clone(endpoints.rates());
        Self::with_store(endpoints, store)
    }

    /// Keeps no rate.
    pub(crate) fn off(endpoints: Endpoints) -> Self {
        let store = Arc::clone(endpoints.rates());
        Self {
            options: Options {
                off: true,
                ..Options::new(endpoints, store)
            },
        }
    }

    /// One rate at each host, for each key.
    pub fn per_host(quota: Quota) -> Self {
        let settings = EndpointSettings::new().rate([quota]);
        let endpoints = Endpoints::builder().defaults(settings).build();
        // Nothing of it can be refused.
        Self::new(endpoints.unwrap_or_default())
    }
}

impl<T: RateStore> RateLimitLayer<T> {
    /// The same with a store of one's own.
    ///
    /// A [`MemoryStore`] counts from when its `Endpoints` were built: not to be shared with others.
    pub fn with_store(endpoints: Endpoints, store: Arc<T>) -> Self {
        endpoints.add(Part::Rate);
        Self {
            options: Options::new(endpoints, store),
        }
    }

    /// Where a request's key is, by default in the [usual places](KeySource::common).
    #[must_use]
    pub fn key(mut self, key: KeySource) -> Self {
        self.options.key = key;
        self
    }

    /// What a call costs, where its request has no [`Weight`] among its extensions; by default 1 of each quota.
    #[must_use]
    pub fn weight(
        mut self,
        weight: impl Fn(&RequestHead<'_>) -> Weight + Send + Sync + 'static,
    ) -> Self {
        self.options.weight = Some(Arc::new(weight));
        self
    }

    /// How long a call may wait for its slot, at every endpoint. With zero a call that would wait fails at once.
    #[must_use]
    pub fn queue_timeout(mut self, queue_timeout: Duration) -> Self {
        self.options.queue_timeout = Some(queue_timeout);
        self
    }

    /// How much of a server's hint is believed, at every endpoint. Zero is none of it.
    #[must_use]
    pub fn retry_after_max(mut self, retry_after_max: Duration) -> Self {
        self.options.retry_after_max = Some(retry_after_max);
        self
    }

    /// What `Retry-After` counts, by default seconds.
    #[must_use]
    pub fn retry_after_unit(mut self, retry_after_unit: RetryAfterUnit) -> Self {
        self.options.retry_after_unit = retry_after_unit;
        self
    }

    /// The endpoints, to share them with other layers.
    pub fn endpoints(&self) -> &Endpoints {
        &self.options.endpoints
    }
}

impl<S, T> Layer<S> for RateLimitLayer<T> {
    type Service = RateLimit<S, T>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, Arc::new(self.options.clone()))
    }
}

// Written out, since a store need not be `Clone`.
impl<T> Clone for RateLimitLayer<T> {
    fn clone(&self) -> Self {
        let options = self.options.clone();
        Self { options }
    }
}

impl<T> Clone for Options<T> {
    fn clone(&self) -> Self {
        Self {
            off: self.off,
            endpoints: self.endpoints.clone(),
            store: Arc::clone(&self.store),
            key: self.key.clone(),
            weight: self.weight.clone(),
            queue_timeout: self.queue_timeout,
            retry_after_max: self.retry_after_max,
            retry_after_unit: self.retry_after_unit,
        }
    }
}

impl<T> fmt::Debug for Options<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("endpoints", &self.endpoints)
            .field("key", &self.key)
            .field("queue_timeout", &self.queue_timeout)
            .field("retry_after_max", &self.retry_after_max)
            .field("retry_after_unit", &self.retry_after_unit)
            .finish_non_exhaustive()
    }
}
