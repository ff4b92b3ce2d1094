use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tower_layer::Layer;

use super::{FreshnessService, InvalidParameter, Parameter, sign::Expected};
use crate::call::Endpoints;

/// Adds a [`FreshnessService`]; see the [module](super).
///
/// ```
/// use std::time::Duration;
/// use tower_spatial::verify::freshness::FreshnessLayer;
///
/// let tiles = FreshnessLayer::new()
///     .max_age(Duration::from_secs(7 * 86_400))
///     .cache_busting_parameter("_fresh")?;
/// # Ok::<(), tower_spatial::verify::freshness::InvalidParameter>(())
/// ```
#[derive(Clone, Debug)]
pub struct FreshnessLayer {
    options: Options,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) expected: Expected,
    pub(super) cache_busting: Option<Parameter>,
    pub(super) annotate: bool,
    /// Whether nothing is judged, whatever an endpoint says.
    pub(super) off: bool,
    pub(super) endpoints: Option<Endpoints>,
}

impl FreshnessLayer {
    /// With nothing expected: only what a cache says of its own answers counts.
    pub fn new() -> Self {
        Self {
            options: Options::default(),
        }
    }

    /// How old an answer may be, by its `Age` or its `Date`. Default any age.
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.options.expected.max_age = Some(max_age);
        self
    }

    /// Since when the sources are as they are: what was modified or made before is stale. Default any time.
    #[must_use]
    pub fn not_before(mut self, not_before: SystemTime) -> Self {
        self.options.expected.not_before = Some(not_before);
        self
    }

    /// The name of a parameter that one repeat of a call has in its query, with a random value: for caches that do not
    /// heed `no-cache`. Default none. Left out where the query is signed or has it already.
    ///
    /// OGC's older services ignore what they do not know; OGC API asks servers to refuse it with 400.
    ///
    /// # Errors
    /// Where the name is empty or has characters that would have to be encoded.
    pub fn cache_busting_parameter(mut self, name: &str) -> Result<Self, InvalidParameter> {
        self.options.cache_busting = Some(Parameter::new(name)?);
        Ok(self)
    }

    /// Leaves a stale answer a response, with [`Stale`](super::Stale) among its extensions. A retry above repeats it all the
    /// same, and hands on the last one where it gives up.
    #[must_use]
    pub fn annotate(mut self) -> Self {
        self.options.annotate = true;
        self
    }

    /// Judges nothing.
    pub(crate) fn off() -> Self {
        let mut layer = Self::new();
        layer.options.off = true;
        layer
    }

    /// Expects what the settings of these endpoints say, and where they say nothing, what the layer's do.
    #[must_use]
    pub fn endpoints(mut self, endpoints: Endpoints) -> Self {
        self.options.endpoints = Some(endpoints);
        self
    }
}

impl Default for FreshnessLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for FreshnessLayer {
    type Service = FreshnessService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FreshnessService {
            inner,
            options: Arc::new(self.options.clone()),
        }
    }
}
