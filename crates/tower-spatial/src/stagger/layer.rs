use tokio::time::{Duration, Instant};
use tower_layer::Layer;

use super::Stagger;
use super::service::Window;
use crate::call::Endpoints;

/// Spreads the calls that come soon after a start; see the [module](super). Without a window it passes everything on.
#[derive(Clone, Debug, Default)]
pub struct StaggerLayer {
    /// `None`: nobody has said that there is one.
    window: Option<Window>,
    endpoints: Option<Endpoints>,
}

impl StaggerLayer {
    /// Spreads over `window`, which begins now. Zero, and what is farther away than a clock can tell, is no window.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tower_spatial::stagger::StaggerLayer;
    ///
    /// let batch = StaggerLayer::new(Duration::from_secs(5));
    /// let off = StaggerLayer::default();
    /// ```
    pub fn new(window: Duration) -> Self {
        Self {
            window: Some(Window::beginning(Instant::now(), window)),
            endpoints: None,
        }
    }

    /// Spreads over the windows that the settings of these endpoints say, where they do; they begin with this one, or else
    /// now. Read where a [`DeadlineLayer`](crate::timeout::deadline::DeadlineLayer) that knows them too is outside.
    #[must_use]
    pub fn endpoints(mut self, endpoints: Endpoints) -> Self {
        self.window
            .get_or_insert_with(|| Window::beginning(Instant::now(), Duration::ZERO));
        self.endpoints = Some(endpoints);
        self
    }
}

impl<S> Layer<S> for StaggerLayer {
    type Service = Stagger<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let longest = self.endpoints.as_ref().map(Endpoints::longest_stagger);
        let window = self.window.map(|window| window.lasting(longest));
        Stagger::new(inner, window.filter(|window| !window.is_none()))
    }
}
