//! Who is called: the settings and the live state of one host or group of hosts, found by URI.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

mod gates;
mod heads;
mod host;
mod permit;
mod registry;
mod settings;
mod state;
mod word;

pub(crate) use registry::EndpointsId;
pub use registry::{EndpointName, Endpoints, EndpointsBuilder};
pub use settings::{EndpointSettings, EndpointsError};
pub use state::EndpointsState;

use arc_swap::ArcSwap;
use gates::{BreakerKind, Gates, News, Wakers};
pub(crate) use heads::{Heads, Kind};
#[cfg(feature = "config")]
pub(crate) use host::Pattern;
use load_control::{Gate, LatencyRecord, LoadControl, Outcome, Reason};
pub(crate) use permit::{Permit, Queued, Waiting};
pub(crate) use settings::{Part, Parts, Settings};
use tokio::time::{Duration, Instant};

use crate::observe::{self, Observers};

/// One endpoint: a host and port, or a configured group of hosts. Made by [`Endpoints::find`].
pub struct Endpoint {
    gates: Gates,
    /// They change where settings are loaded anew.
    settings: ArcSwap<Settings>,
    name: Box<str>,
}

/// What is small about an endpoint. It stands among its gates, where there is room that would otherwise be lost.
struct Small {
    /// That of the name; 0 where it has none.
    port: u16,
    /// [`USED`] and the number of sweeps since.
    use_mark: AtomicU8,
    /// [`Parts`].
    parts: AtomicU8,
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
    /// How many calls wait for their turn.
    pub queued: usize,
    /// How many of those in flight are bodies that nobody reads: never polled yet, or while calls were waiting not for
    /// a good part of the reader's patience.
    pub unread_bodies: usize,
    /// How many bodies live on without their permit, because nobody read them for the whole of the reader's patience.
    pub reclaimed: usize,
    /// The circuit breaker; closed where there is none.
    pub breaker: BreakerState,
    /// How much longer the host has asked for peace.
    pub cooldown: Option<Duration>,
    /// For how long in all it was closed to calls, by its breaker or because it asked for peace.
    pub closed_for: Duration,
    /// How often the breaker has tripped.
    pub trips: u32,
    /// How many probes went out.
    pub probes: u32,
    /// What an adaptive limit measures latency against; `None` where it does not or not yet.
    pub baseline: Option<Duration>,
}

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls go.
    Closed,
    /// No call goes.
    Open {
        /// How long until the next probe; `None` where an operator holds it open.
        probe_in: Option<Duration>,
    },
    /// One probe is to go or on its way.
    HalfOpen,
}

/// How long the answers of an endpoint took that were asked for, from the request to the first part of their body. The
/// last few hundred count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// Half of them took no longer.
    pub p50: Duration,
    /// Nine of ten took no longer.
    pub p90: Duration,
    /// Ninety-nine of a hundred took no longer.
    pub p99: Duration,
}

impl Endpoint {
    fn named(name: &str, settings: Arc<Settings>, parts: Parts) -> Self {
        Self::with_port(name, 0, settings, parts)
    }

    /// `host` is at most 253 bytes long.
    fn at(host: &str, port: u16, settings: Arc<Settings>, parts: Parts) -> Self {
        let name = match port {
            0 => host.to_owned(),
            port => format!("{host}:{port}"),
        };
        Self::with_port(&name, port, settings, parts)
    }

    fn with_port(name: &str, port: u16, settings: Arc<Settings>, parts: Parts) -> Self {
        let parts = parts.of(&settings);
        let gates = Gates::new(settings.load(parts), Small::new(port, parts));
        if parts.has(Part::Observed) {
            gates.observe();
        }
        Self {
            gates,
            settings: ArcSwap::new(settings),
            name: name.into(),
        }
    }

    /// What errors and metrics call it: the configured name, or `host:port` in lower case. Never user information.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many answers may be in flight at once.
    pub fn limit(&self) -> usize {
        let limit = self
            .gates
            .read(|control| control.has_limit().then(|| control.limit()));
        match (limit, &self.settings().limit) {
            (Some(limit), _) => usize::try_from(limit).unwrap_or(usize::MAX),
            (None, settings::Limit::Fixed(limit)) => *limit,
            (None, settings::Limit::Adaptive(adaptive)) => adaptive.ceiling as usize,
        }
    }

    /// How it is doing.
    pub fn snapshot(&self) -> EndpointSnapshot {
        let (counts, load) = self.gates.counts(Instant::now());
        EndpointSnapshot {
            name: self.name().to_owned(),
            limit: self.limit(),
            in_flight: counts.in_flight,
            queued: counts.queued,
            unread_bodies: counts.unread_bodies,
            reclaimed: counts.reclaimed,
            breaker: match load.gate {
                Gate::Closed => BreakerState::Closed,
                Gate::Open { until } => BreakerState::Open {
                    probe_in: until.map(|until| Instant::from_std(until) - Instant::now()),
                },
                Gate::Probe | Gate::Probing { .. } => BreakerState::HalfOpen,
            },
            cooldown: load.cooldown,
            closed_for: load.closed_for,
            trips: load.trips,
            probes: load.probes,
            baseline: load.baseline,
        }
    }

    /// In what time a share `quantile` (0 to 1) of the heads of its last 512 to 1 024 good answers came, queues aside;
    /// `None` before the first. Noted by an [`AttemptTimeoutLayer`](crate::timeout::attempt::AttemptTimeoutLayer) only.
    ///
    /// A read timeout belongs above `head_latency(0.99)`.
    pub fn head_latency(&self, quantile: f64) -> Option<Duration> {
        self.heads().percentile(quantile)
    }

    pub(crate) fn observers(&self) -> Arc<Observers> {
        Arc::clone(&self.settings.load().observers)
    }

    pub(crate) fn heads(&self) -> &Heads {
        self.gates.heads()
    }

    /// How long its answers take; `None` before the first, and where no layer looks at that: a breaker, a cooldown or an
    /// adaptive limit does.
    pub fn latency(&self) -> Option<Latency> {
        self.gates.read(|control| {
            let record: &LatencyRecord = control.latency()?;
            Some(Latency {
                p50: record.percentile(0.5)?,
                p90: record.percentile(0.9)?,
                p99: record.percentile(0.99)?,
            })
        })
    }

    /// An operator's order: no call goes out until it is [closed](Self::close) or [reset](Self::reset). What is on its
    /// way goes on.
    pub fn open(&self) {
        self.order(|control, now| _ = control.open(now));
    }

    /// An operator's order: the breaker closes, as after a probe that succeeded, and a cooldown ends.
    pub fn close(&self) {
        self.order(|control, now| _ = control.close(now));
    }

    /// An operator's order: all that was learnt about it is forgotten, except what is in flight.
    pub fn reset(&self) {
        self.order(|control, now| _ = control.reset(now));
    }

    /// The host asks everybody to wait.
    pub(crate) fn hint(&self, retry_after: Duration) {
        self.order(|control, now| _ = control.hint(now, retry_after, &mut rand::rng()));
    }

    /// For how long in all it was closed to calls.
    pub(crate) fn closed_for(&self, now: Instant) -> Duration {
        self.gates
            .read(|control| control.closed_for(now.into_std()))
    }

    /// Where it is closed to calls: until when at least, as far as that is known.
    pub(crate) fn closed_until(&self, now: Instant) -> Option<Option<Instant>> {
        let wait = self.gates.read(|control| control.waits(now.into_std()))?;
        match wait.reason {
            Reason::Limit => None,
            Reason::Open | Reason::Cooldown => Some(wait.until.map(Instant::from_std)),
            Reason::Held | Reason::Probing => Some(None),
        }
    }

    /// A call is about to be repeated: how long it has to wait at least.
    pub(crate) fn spend_retry_token(&self) -> Duration {
        let now = self.now();
        let (wait, wakers) = self.gates.control(now, |control, _| control.retry());
        self.wake(wakers);
        wait
    }

    fn order(&self, act: impl FnOnce(&mut LoadControl, std::time::Instant)) {
        let ((), wakers) = self.gates.control(Instant::now(), act);
        self.wake(wakers);
    }

    /// Whether it knows what must not be forgotten now: an operator's order, or that nobody is to ask for some time yet.
    fn is_closed(&self) -> bool {
        let now = Instant::now().into_std();
        self.gates.read(|control| {
            control.is_held() || control.waits(now).is_some_and(|wait| wait.until.is_some())
        })
    }

    /// Goes by these settings from now on, and by the gates of these layers. What has been learnt stays.
    fn adopt(&self, settings: Arc<Settings>, parts: Parts) -> Wakers {
        let parts = parts.of(&settings);
        let load = settings.load(parts);
        if parts.has(Part::Observed) {
            self.gates.observe();
        }
        self.settings.store(settings);
        self.gates.small.parts.store(parts.0, Ordering::Relaxed);
        let act = |control: &mut LoadControl, _| control.set_settings(load);
        let ((), wakers) = self.gates.control(Instant::now(), act);
        wakers
    }

    /// Wakes, and tells who observes what has happened. To be called while nothing is locked.
    #[inline]
    fn wake(&self, wakers: Wakers) {
        wakers.wake();
        self.tell();
    }

    /// The same, where there may be nobody to wake.
    #[inline]
    fn wake_any(&self, wakers: Option<Wakers>) {
        if let Some(wakers) = wakers {
            wakers.wake();
        }
        self.tell();
    }

    /// Whether anybody is to be told what happens here.
    #[inline]
    pub(crate) fn is_observed(&self) -> bool {
        self.parts().has(Part::Observed) || observe::is_traced()
    }

    #[inline]
    fn tell(&self) {
        if self.is_observed() {
            self.tell_news();
        }
    }

    #[cold]
    fn tell_news(&self) {
        let news = self.gates.take_news(Instant::now());
        if news.is_empty() {
            return;
        }
        let settings = self.settings();
        for news in news {
            match news {
                News::Breaker { from, to, probe_in } => {
                    let change = observe::BreakerChange {
                        from: from.state(None),
                        to: to.state(probe_in),
                    };
                    observe::breaker_changed(&settings.observers, self.name(), &change);
                }
                News::Cooldown(lasts) => {
                    observe::cooldown_began(&settings, self.name(), lasts);
                }
                News::Reclaimed => observe::permit_reclaimed(&settings.observers, self.name()),
            }
        }
    }

    #[inline]
    fn tell_latency(&self, outcome: Outcome) {
        if self.parts().has(Part::Observed)
            && let Outcome::Success {
                latency: Some(latency),
            } = outcome
        {
            let settings = self.settings();
            settings
                .observers
                .tell(|observer| observer.answered(self.name(), latency));
        }
    }

    #[inline]
    fn gates(&self) -> &Gates {
        &self.gates
    }

    /// The time, or where nothing of this depends on it, some instant.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self.parts().learns() {
            true => Instant::now(),
            false => some_instant(),
        }
    }

    /// Which layers have been built before it.
    #[inline]
    pub(crate) fn parts(&self) -> Parts {
        Parts(self.gates.small.parts.load(Ordering::Relaxed))
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    fn host(&self) -> &[u8] {
        let name = self.name.as_bytes();
        match self.port() {
            0 => name,
            _ => {
                let colon = name.iter().rposition(|byte| *byte == b':');
                &name[..colon.unwrap_or(name.len())]
            }
        }
    }

    fn port(&self) -> u16 {
        self.gates.small.port
    }

    fn is(&self, host: &str, port: u16) -> bool {
        self.port() == port && self.host() == host.as_bytes()
    }

    fn mark_used(&self) {
        // No store where there is nothing to say: the line stays shared.
        if self.gates.small.use_mark.load(Ordering::Relaxed) != USED {
            self.gates.small.use_mark.store(USED, Ordering::Relaxed);
        }
    }

    /// Whether it was used since the last time this was asked.
    fn forget_use(&self) -> bool {
        self.gates
            .small
            .use_mark
            .fetch_and(!USED, Ordering::Relaxed)
            & USED
            != 0
    }

    /// One sweep over an endpoint in the table: whether it saw no use for the two intervals before this one, and nobody
    /// holds it.
    fn sweep(&self, is_held: bool) -> bool {
        let mark = self.gates.small.use_mark.load(Ordering::Relaxed);
        let unused = if is_held { 0 } else { (mark & !USED) + 1 };
        self.gates
            .small
            .use_mark
            .store(mark & USED | unused, Ordering::Relaxed);
        unused > 2
    }
}

impl BreakerKind {
    fn state(self, probe_in: Option<Duration>) -> BreakerState {
        match self {
            Self::Closed => BreakerState::Closed,
            Self::Open => BreakerState::Open { probe_in },
            Self::HalfOpen => BreakerState::HalfOpen,
        }
    }
}

impl Small {
    fn new(port: u16, parts: Parts) -> Self {
        Self {
            port,
            use_mark: AtomicU8::new(0),
            parts: AtomicU8::new(parts.0),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

fn some_instant() -> Instant {
    static SOME: OnceLock<Instant> = OnceLock::new();
    *SOME.get_or_init(Instant::now)
}

const USED: u8 = 0x80;
