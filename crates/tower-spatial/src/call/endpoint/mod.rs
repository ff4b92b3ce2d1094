//! Who is called: the settings and the live state of one host or group of hosts, found by URI.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

mod heads;
mod host;
mod permit;
mod permits;
mod registry;
mod settings;

pub use registry::{Endpoints, EndpointsBuilder};
pub use settings::{EndpointSettings, EndpointsError};

pub(crate) use heads::{Heads, Kind};
pub(crate) use permit::{Permit, Queued};
use permits::Permits;
pub(crate) use settings::Settings;

/// One endpoint: a host and port, or a configured group of hosts. Made by [`Endpoints::find`].
pub struct Endpoint {
    permits: Permits,
    heads: Heads,
    settings: Arc<Settings>,
    name: Box<str>,
    port: u16,
    /// How much of the name is the host; the rest is the port. 0 where settings gave it its name.
    host_len: u8,
    /// [`USED`] and the number of sweeps since.
    use_mark: AtomicU8,
}

/// How one endpoint is doing, at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointSnapshot {
    /// As [`Endpoint::name`].
    pub name: String,
    /// How many answers may be in flight at once.
    pub limit: usize,
    /// How many are, from the admission to the end of the body. Those whose permit was reclaimed do not count.
    pub in_flight: usize,
    /// How many calls wait for a permit.
    pub queued: usize,
    /// How many of those in flight are bodies that nobody reads: never polled yet, or while calls were waiting not for
    /// a good part of the reader's patience.
    pub unread_bodies: usize,
    /// How many bodies live on without their permit, because nobody read them for the whole of the reader's patience.
    pub reclaimed: usize,
}

impl Endpoint {
    fn named(name: &str, settings: Arc<Settings>) -> Self {
        Self {
            permits: Permits::new(),
            heads: Heads::default(),
            settings,
            name: name.into(),
            port: 0,
            host_len: 0,
            use_mark: AtomicU8::new(0),
        }
    }

    /// `host` is at most 253 bytes long.
    fn at(host: &str, port: u16, settings: Arc<Settings>) -> Self {
        let name = match port {
            0 => host.to_owned(),
            port => format!("{host}:{port}"),
        };
        Self {
            port,
            host_len: host.len() as u8,
            ..Self::named(&name, settings)
        }
    }

    /// What errors and metrics call it: the configured name, or `host:port` in lower case. Never user information.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many answers may be in flight at once.
    pub fn limit(&self) -> usize {
        usize::from(self.settings.concurrency)
    }

    /// How it is doing.
    pub fn snapshot(&self) -> EndpointSnapshot {
        let counts = self.permits.counts();
        EndpointSnapshot {
            name: self.name().to_owned(),
            limit: self.limit(),
            in_flight: counts.in_flight,
            queued: counts.queued,
            unread_bodies: counts.unread_bodies,
            reclaimed: counts.reclaimed,
        }
    }

    /// In what time a share `quantile` (0 to 1) of the heads of its last 512 to 1 024 good answers came, queues aside;
    /// `None` before the first. Noted by an [`AttemptTimeoutLayer`](crate::timeout::attempt::AttemptTimeoutLayer) only.
    ///
    /// A read timeout belongs above `head_latency(0.99)`.
    pub fn head_latency(&self, quantile: f64) -> Option<Duration> {
        self.heads.percentile(quantile)
    }

    pub(crate) fn heads(&self) -> &Heads {
        &self.heads
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn host(&self) -> &[u8] {
        let name = self.name.as_bytes();
        name.get(..usize::from(self.host_len)).unwrap_or(name)
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn is(&self, host: &str, port: u16) -> bool {
        self.port == port && self.host() == host.as_bytes()
    }

    fn mark_used(&self) {
        // No store where there is nothing to say: the line stays shared.
        if self.use_mark.load(Ordering::Relaxed) != USED {
            self.use_mark.store(USED, Ordering::Relaxed);
        }
    }

    /// Whether it was used since the last time this was asked.
    fn forget_use(&self) -> bool {
        self.use_mark.fetch_and(!USED, Ordering::Relaxed) & USED != 0
    }

    /// One sweep over an endpoint in the table: whether it saw no use for the two intervals before this one, and nobody
    /// holds it.
    fn sweep(&self, is_held: bool) -> bool {
        let mark = self.use_mark.load(Ordering::Relaxed);
        let unused = if is_held { 0 } else { (mark & !USED) + 1 };
        self.use_mark.store(mark & USED | unused, Ordering::Relaxed);
        unused > 2
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

const USED: u8 = 0x80;
