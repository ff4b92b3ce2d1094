use std::{path::PathBuf, sync::Arc};

use tower_layer::Layer;

use super::{
    Completeness, CompletenessService, CountMemory, HitsProbeLayer, RecentCounts,
    store::{Limits, Place},
};

/// Adds a [`CompletenessService`]; see the [module](super).
///
/// ```
/// use tower_spatial::verify::completeness::CompletenessLayer;
///
/// let downloads = CompletenessLayer::new().memory(4 << 20).max_size(64 << 30).directory("/var/tmp");
/// let proxy = CompletenessLayer::streaming();
/// # let _ = (downloads, proxy);
/// ```
#[derive(Clone, Debug)]
pub struct CompletenessLayer {
    options: Options,
}

#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) mode: Completeness,
    pub(super) limits: Arc<Limits>,
    pub(super) everything: bool,
    pub(super) memory: Option<Arc<dyn CountMemory>>,
    pub(super) drop: f64,
}

impl CompletenessLayer {
    /// Collects an answer, checks it, and hands it on: a cut one is a failed attempt, which a retry above repeats.
    pub fn new() -> Self {
        Self {
            options: Options {
                mode: Completeness::Collect,
                limits: Arc::new(Limits {
                    memory: 1 << 20,
                    total: 16 << 30,
                    place: Place::Temporary,
                }),
                everything: false,
                memory: None,
                drop: 0.2,
            },
        }
    }

    /// Checks an answer while it is read, and ends the body of one that is not whole with an
    /// [`IncompleteError`](super::IncompleteError). Nothing is kept and nothing repeated: for those who must not wait.
    pub fn streaming() -> Self {
        Self::new().mode(Completeness::Streaming)
    }

    /// What is done, where the settings of the request's endpoint do not say.
    #[must_use]
    pub fn mode(mut self, mode: Completeness) -> Self {
        self.options.mode = mode;
        self
    }

    /// Bytes of an answer that are collected in memory; beyond them, a temporary file. Default 1 MiB.
    ///
    /// As much again is on its way to the file while more comes. The file has no name and is readable by its owner only.
    #[must_use]
    pub fn memory(self, bytes: usize) -> Self {
        self.with_limits(|limits| limits.memory = bytes)
    }

    /// Bytes that a collected answer may have at all; a larger one is a [`CollectError`](super::CollectError). Default 16 GiB.
    #[must_use]
    pub fn max_size(self, bytes: u64) -> Self {
        self.with_limits(|limits| limits.total = bytes)
    }

    /// The directory of the temporary files. Default the system's.
    #[must_use]
    pub fn directory(self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        self.with_limits(|limits| limits.place = Place::Directory(directory))
    }

    /// Checks every answer with a body, not only those that request or media type show to be geodata. Never event streams,
    /// `multipart/x-mixed-replace`, gRPC and upgrades.
    #[must_use]
    pub fn everything(mut self) -> Self {
        self.options.everything = true;
        self
    }

    /// Takes an answer with far fewer members than the last good one to the same URI for a failed attempt. Default off, since
    /// a query for what happens now may rightly have fewer: it fails as long as the memory holds more.
    ///
    /// The numbers of the last 10 000 queries are kept in memory; see [`count_memory`](Self::count_memory).
    #[must_use]
    pub fn remember_counts(self) -> Self {
        self.count_memory(RecentCounts::default())
    }

    /// As [`remember_counts`](Self::remember_counts), with a memory of one's own: one that outlives the process.
    #[must_use]
    pub fn count_memory(mut self, memory: impl CountMemory + 'static) -> Self {
        self.options.memory = Some(Arc::new(memory));
        self
    }

    /// The share of the remembered members that may be missing, from 0 to 1. Default 0.2.
    #[must_use]
    pub fn max_drop(mut self, share: f64) -> Self {
        // A share that is no number becomes the strictest.
        self.options.drop = if share.is_nan() {
            0.0
        } else {
            share.clamp(0.0, 1.0)
        };
        self
    }

    /// Asks a WFS for the number of members first, and takes an answer with fewer for a failed attempt; see
    /// [`HitsProbe`](super::HitsProbe).
    #[must_use]
    pub fn hits_probe(self) -> HitsProbeLayer {
        HitsProbeLayer::new(self)
    }

    fn with_limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(Arc::make_mut(&mut self.options.limits));
        self
    }

    #[cfg(test)]
    pub(super) fn place(self, place: Place) -> Self {
        self.with_limits(|limits| limits.place = place)
    }
}

impl Default for CompletenessLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Layer<S> for CompletenessLayer {
    type Service = CompletenessService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        CompletenessService {
            inner,
            options: Arc::new(self.options.clone()),
        }
    }
}
