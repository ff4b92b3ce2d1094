use tokio::time::{Duration, Instant};
use tower_layer::Layer;

use super::Stagger;

/// Spreads the calls that come soon after a start; see the [module](super). Without a window it passes everything on.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaggerLayer {
    /// `None`: there is no window.
    end: Option<Instant>,
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
        let end = match window {
            Duration::ZERO => None,
            window => Instant::now().checked_add(window),
        };
        Self { end }
    }
}

impl<S> Layer<S> for StaggerLayer {
    type Service = Stagger<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Stagger::new(inner, self.end)
    }
}
