//! Counts, through the `metrics` facade, what an observer is told.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use metrics::{
    Label, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
};
use service_exception::ServiceException;

use super::{BreakerChange, Call, CallEnd, EndedCall, FailedAttempt, Observer, QueueWait};
use crate::call::{BreakerState, EndpointSnapshot, Endpoints, Verdict};
use crate::retry::StopReason;
use crate::verify::completeness::Problem;

/// An [`Observer`] that counts through the [`metrics`](https://docs.rs/metrics) facade, whatever recorder is installed.
///
/// What happens is counted as it happens. How the endpoints are doing (the gauges) is written by [`refresh`](Self::refresh),
/// which is to be called before each scrape: limits and calls in flight change with every call, so events for each change
/// would cost every call something, and a scraper sees one moment anyway.
///
/// Install the recorder first: descriptions and units are registered in [`new`](Self::new). Most recorders need to be told
/// the buckets of the histograms, for which [`BUCKETS`](Self::BUCKETS) is a proposal.
///
/// ```
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use tower::{BoxError, Layer, ServiceExt, service_fn};
/// use tower_spatial::{Endpoints, SpatialLayer, observe::Metrics};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> Result<(), BoxError> {
/// let metrics = Metrics::new();
/// let layer = SpatialLayer::new(Endpoints::default()).observer(metrics.clone());
/// let client = layer.layer(service_fn(|_: Request<Full<&'static [u8]>>| async {
///     Ok::<_, BoxError>(Response::new(Full::new(&b"\x89PNG\r\n\x1a\n"[..])))
/// }));
/// client.oneshot(Request::get("https://wms.example/?REQUEST=GetMap").body(Full::default())?).await?;
///
/// // Where `/metrics` is served, before the recorder is asked for its text:
/// metrics.refresh(layer.endpoints());
/// # Ok(()) }
/// ```
///
/// # What there is
///
/// Times are in seconds.
///
#[doc = include_str!("metrics.md")]
///
/// Each value of a label is one of a closed set: words of this crate ([`Cause::kind`](crate::call::Cause::kind),
/// [`StopReason::kind`]), codes that are [known](ServiceException::known_code) (all others are `other`), and the names of
/// the first hundred endpoints ([`max_endpoints`](Self::max_endpoints); those after them are one endpoint `other`). No URL,
/// query, header or text of a server is among them.
///
/// Each thing that happens is a look-up in the recorder. A call that succeeds at once has three of them: about 2 µs of a
/// processor with metrics-exporter-prometheus.
///
/// Several [`Endpoints`] whose endpoints have the same names want a recorder each: their gauges would overwrite each other.
#[derive(Clone, Debug)]
pub struct Metrics {
    max_endpoints: usize,
    /// The endpoints that are known by their own names. Shared with all clones.
    named: Arc<RwLock<HashSet<Arc<str>>>>,
}

/// One metric of [`Metrics`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What kind it is of.
    pub kind: MetricKind,
    /// In what it is measured; `None` where it is a state.
    pub unit: Option<Unit>,
    /// The names of its labels, all of which it always has.
    pub labels: &'static [&'static str],
    /// What it says.
    pub meaning: &'static str,
}

/// The kind of a [`Metric`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How many were how long.
    Histogram,
}

impl Metrics {
    /// Upper bounds for the buckets of all its histograms, in seconds: from a tile of a cache to a whole budget.
    pub const BUCKETS: [f64; 15] = [
        0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
    ];

    /// Describes all metrics to the recorder that is installed now.
    #[allow(
        clippy::new_without_default,
        reason = "it speaks to the global recorder"
    )]
    pub fn new() -> Self {
        for Metric {
            name,
            kind,
            unit,
            meaning,
            ..
        } in ALL
        {
            match (kind, unit) {
                (MetricKind::Counter, Some(unit)) => describe_counter!(name, unit, meaning),
                (MetricKind::Counter, None) => describe_counter!(name, meaning),
                (MetricKind::Gauge, Some(unit)) => describe_gauge!(name, unit, meaning),
                (MetricKind::Gauge, None) => describe_gauge!(name, meaning),
                (MetricKind::Histogram, Some(unit)) => describe_histogram!(name, unit, meaning),
                (MetricKind::Histogram, None) => describe_histogram!(name, meaning),
            }
        }
        Self {
            max_endpoints: 100,
            named: Arc::default(),
        }
    }

    /// How many endpoints have a label of their own; all others share `other`. Default 100.
    ///
    /// First come, first served. A [`refresh`](Self::refresh) before the first call gives the configured endpoints theirs.
    #[must_use]
    pub fn max_endpoints(mut self, max_endpoints: usize) -> Self {
        self.max_endpoints = max_endpoints;
        self
    }

    /// Writes how the endpoints are doing now. To be called before each scrape.
    ///
    /// An endpoint that is forgotten by `endpoints` has zeros from then on. `other` has the sum of what it stands for, and of
    /// breakers and cooldowns the worst.
    pub fn refresh(&self, endpoints: &Endpoints) {
        let snapshot = endpoints.snapshot();
        let mut gauges: BTreeMap<SharedString, Gauges> = BTreeMap::new();
        for endpoint in &snapshot {
            // What is no host and is not configured, such as `(overflow)`, where nobody has needed it.
            let is_idle = endpoint.in_flight == 0 && endpoint.queued == 0;
            if is_idle && endpoint.name.starts_with('(') && !self.is_named(&endpoint.name) {
                continue;
            }
            let label = self.label(&endpoint.name);
            gauges.entry(label).or_default().add(endpoint);
        }
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        for name in &*named {
            gauges.entry(Arc::clone(name).into()).or_default();
        }
        if named.len() >= self.max_endpoints {
            gauges.entry(OTHER.into()).or_default();
        }
        drop(named);
        for (endpoint, gauges) in gauges {
            for (metric, value) in gauges.values() {
                let labels = metric.labelled([endpoint.clone()]);
                gauge!(metric.name, labels).set(value);
            }
        }
    }

    /// All metrics there are.
    ///
    /// ```
    /// # use tower_spatial::observe::Metrics;
    /// assert!(Metrics::all().iter().all(|metric| metric.name.starts_with("tower_spatial_")));
    /// ```
    pub fn all() -> &'static [Metric] {
        &ALL
    }

    fn is_named(&self, endpoint: &str) -> bool {
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        named.contains(endpoint)
    }

    /// What the endpoint of this name is called in labels.
    fn label(&self, endpoint: &str) -> SharedString {
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = named.get(endpoint) {
            return Arc::clone(name).into();
        }
        let is_full = named.len() >= self.max_endpoints;
        drop(named);
        if is_full {
            return OTHER.into();
        }
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been here meanwhile.
        if let Some(name) = named.get(endpoint) {
            return Arc::clone(name).into();
        }
        if named.len() >= self.max_endpoints {
            return OTHER.into();
        }
        let name: Arc<str> = endpoint.into();
        named.insert(Arc::clone(&name));
        name.into()
    }

    fn count<const N: usize>(&self, metric: &Metric, endpoint: &str, others: [&'static str; N]) {
        let labels = metric.labelled_with(self.label(endpoint), others);
        counter!(metric.name, labels).increment(1);
    }

    fn record<const N: usize>(
        &self,
        metric: &Metric,
        endpoint: &str,
        others: [&'static str; N],
        time: Duration,
    ) {
        let labels = metric.labelled_with(self.label(endpoint), others);
        histogram!(metric.name, labels).record(time);
    }
}

impl Observer for Metrics {
    fn call_ended(&self, call: &Call<'_>, ended: &EndedCall) {
        let outcome = match ended.end {
            CallEnd::Answer(_) => "answer",
            CallEnd::Error => "error",
            CallEnd::Cancelled => "cancelled",
        };
        self.count(&CALLS, call.endpoint, [outcome]);
    }

    fn attempt_succeeded(&self, call: &Call<'_>) {
        self.count(&ATTEMPTS, call.endpoint, ["success", "none"]);
    }

    fn attempt_failed(&self, call: &Call<'_>, failed: &FailedAttempt<'_>) {
        let outcome = match failed.verdict {
            Verdict::Success => "success",
            Verdict::Transient => "transient",
            Verdict::Throttled => "throttled",
            Verdict::Permanent => "permanent",
            Verdict::Ambiguous => "ambiguous",
        };
        let cause = failed.cause.kind();
        self.count(&ATTEMPTS, call.endpoint, [outcome, cause]);
        if let Some(delay) = failed.next_in {
            self.count(&RETRIES, call.endpoint, [cause]);
            self.record(&BACKOFF, call.endpoint, [], delay);
        }
    }

    fn gave_up(&self, call: &Call<'_>, reason: StopReason, _attempts: u32) {
        self.count(&GIVE_UPS, call.endpoint, [reason.kind()]);
    }

    fn exception_seen(&self, call: &Call<'_>, exception: &ServiceException) {
        let code = exception.known_code().unwrap_or(OTHER);
        self.count(&EXCEPTIONS, call.endpoint, [code]);
    }

    fn truncated(&self, call: &Call<'_>, _problem: &Problem) {
        self.count(&TRUNCATED, call.endpoint, []);
    }

    fn stale(&self, call: &Call<'_>) {
        self.count(&STALE, call.endpoint, []);
    }

    fn queue_waited(&self, endpoint: &str, wait: &QueueWait) {
        let admitted = if wait.admitted { "true" } else { "false" };
        let labels = [wait.waited_for.kind(), admitted];
        self.record(&QUEUE, endpoint, labels, wait.waited);
    }

    fn rate_waited(&self, endpoint: &str, waited: Duration) {
        self.record(&RATE_WAIT, endpoint, [], waited);
    }

    fn breaker_changed(&self, endpoint: &str, change: &BreakerChange) {
        let to = match change.to {
            BreakerState::Closed => "closed",
            BreakerState::HalfOpen => "half-open",
            BreakerState::Open { .. } => "open",
        };
        self.count(&BREAKER_CHANGES, endpoint, [to]);
    }

    fn cooldown_began(&self, endpoint: &str, _lasts: Duration) {
        self.count(&COOLDOWNS, endpoint, []);
    }

    fn permit_reclaimed(&self, endpoint: &str) {
        self.count(&RECLAIMED, endpoint, []);
    }

    fn answered(&self, endpoint: &str, latency: Duration) {
        self.record(&LATENCY, endpoint, [], latency);
    }
}

impl Metric {
    fn labelled_with<const N: usize>(
        &self,
        endpoint: SharedString,
        others: [&'static str; N],
    ) -> Vec<Label> {
        let others = others.into_iter().map(SharedString::const_str);
        self.labelled([endpoint].into_iter().chain(others))
    }

    fn labelled(&self, values: impl IntoIterator<Item = SharedString>) -> Vec<Label> {
        let names = self.labels.iter().copied();
        let labels = names.zip(values);
        labels
            .map(|(name, value)| Label::new(name, value))
            .collect()
    }
}

/// The gauges of one endpoint, or of all that share a label.
#[derive(Default)]
struct Gauges {
    in_flight: usize,
    queued: usize,
    limit: usize,
    breaker: u8,
    cooldown: Duration,
}

impl Gauges {
    fn add(&mut self, endpoint: &EndpointSnapshot) {
        self.in_flight = self.in_flight.saturating_add(endpoint.in_flight);
        self.queued = self.queued.saturating_add(endpoint.queued);
        self.limit = self.limit.saturating_add(endpoint.limit);
        let breaker = match endpoint.breaker {
            BreakerState::Closed => 0,
            BreakerState::HalfOpen => 1,
            BreakerState::Open { .. } => 2,
        };
        self.breaker = self.breaker.max(breaker);
        self.cooldown = self.cooldown.max(endpoint.cooldown.unwrap_or_default());
    }

    #[allow(clippy::cast_precision_loss, reason = "counts of calls in one process")]
    fn values(&self) -> [(&'static Metric, f64); 5] {
        [
            (&IN_FLIGHT, self.in_flight as f64),
            (&QUEUED, self.queued as f64),
            (&LIMIT, self.limit as f64),
            (&BREAKER, f64::from(self.breaker)),
            (&COOLDOWN, self.cooldown.as_secs_f64()),
        ]
    }
}

const OTHER: &str = "other";

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> Metric {
    Metric {
        name,
        kind: MetricKind::Counter,
        unit: Some(Unit::Count),
        labels,
        meaning,
    }
}

const fn gauge(name: &'static str, unit: Option<Unit>, meaning: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricKind::Gauge,
        unit,
        labels: &["endpoint"],
        meaning,
    }
}

const fn seconds(
    name: &'static str,
    labels: &'static [&'static str],
    meaning: &'static str,
) -> Metric {
    Metric {
        name,
        kind: MetricKind::Histogram,
        unit: Some(Unit::Seconds),
        labels,
        meaning,
    }
}

static CALLS: Metric = counter(
    "tower_spatial_calls_total",
    &["endpoint", "outcome"],
    "Calls that ended: with an `answer` (its head), an `error`, or `cancelled` by their caller.",
);
static ATTEMPTS: Metric = counter(
    "tower_spatial_attempts_total",
    &["endpoint", "outcome", "cause"],
    "Attempts that ended: `success` (cause `none`), or what their failure means for a repeat, and why they failed. \
     Those that were `not-admitted` or met `circuit-open` never reached the host.",
);
static RETRIES: Metric = counter(
    "tower_spatial_retries_total",
    &["endpoint", "reason"],
    "Attempts that are repeated, by why they failed.",
);
static GIVE_UPS: Metric = counter(
    "tower_spatial_give_ups_total",
    &["endpoint", "reason"],
    "Calls that failed although a repeat could have helped, by what ended them.",
);
static BACKOFF: Metric = seconds(
    "tower_spatial_backoff_seconds",
    &["endpoint"],
    "The sleep before a repeat.",
);
static QUEUE: Metric = seconds(
    "tower_spatial_queue_seconds",
    &["endpoint", "waited_for", "admitted"],
    "Waits for a turn at an endpoint, of the attempts that had to wait, by what held them last, and whether their turn \
     came. Where it could not come in time, it is refused at once, after 0 s.",
);
static RATE_WAIT: Metric = seconds(
    "tower_spatial_rate_wait_seconds",
    &["endpoint"],
    "Waits for a slot under the endpoint's rate, of the attempts that had to wait and went.",
);
static LATENCY: Metric = seconds(
    "tower_spatial_latency_seconds",
    &["endpoint"],
    "Good answers, queues aside: from the request to the first part of the body.",
);
static EXCEPTIONS: Metric = counter(
    "tower_spatial_exceptions_total",
    &["endpoint", "code"],
    "Attempts whose answer was an exception, by its code; `other` where it has none or an unknown one.",
);
static TRUNCATED: Metric = counter(
    "tower_spatial_truncated_answers_total",
    &["endpoint"],
    "Answers that were not whole.",
);
static STALE: Metric = counter(
    "tower_spatial_stale_answers_total",
    &["endpoint"],
    "Answers that were older than expected.",
);
static BREAKER_CHANGES: Metric = counter(
    "tower_spatial_breaker_changes_total",
    &["endpoint", "to"],
    "Changes of a circuit breaker, to `open`, `half-open` or `closed`.",
);
static COOLDOWNS: Metric = counter(
    "tower_spatial_cooldowns_total",
    &["endpoint"],
    "Times that an endpoint asked everybody to wait, or to wait longer.",
);
static RECLAIMED: Metric = counter(
    "tower_spatial_reclaimed_permits_total",
    &["endpoint"],
    "Permits that a body lost because nobody read it while calls waited.",
);
static IN_FLIGHT: Metric = gauge(
    "tower_spatial_in_flight",
    Some(Unit::Count),
    "Answers in flight, from the admission to the end of the body.",
);
static QUEUED: Metric = gauge(
    "tower_spatial_queued",
    Some(Unit::Count),
    "Attempts that wait for their turn.",
);
static LIMIT: Metric = gauge(
    "tower_spatial_limit",
    Some(Unit::Count),
    "How many answers may be in flight at once.",
);
static BREAKER: Metric = gauge(
    "tower_spatial_breaker_state",
    None,
    "The circuit breaker: 0 closed, 1 half-open, 2 open.",
);
static COOLDOWN: Metric = gauge(
    "tower_spatial_cooldown_remaining_seconds",
    Some(Unit::Seconds),
    "For how much longer the endpoint has asked for peace.",
);

static ALL: [Metric; 19] = [
    CALLS,
    ATTEMPTS,
    RETRIES,
    GIVE_UPS,
    BACKOFF,
    QUEUE,
    RATE_WAIT,
    LATENCY,
    EXCEPTIONS,
    TRUNCATED,
    STALE,
    BREAKER_CHANGES,
    COOLDOWNS,
    RECLAIMED,
    IN_FLIGHT,
    QUEUED,
    LIMIT,
    BREAKER,
    COOLDOWN,
];

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_table_in_the_documentation_is_the_list_in_the_code() {
        let mut table =
            "| name | kind | unit | labels | what it says |\n|---|---|---|---|---|\n".to_owned();
        for metric in Metrics::all() {
            let kind = match metric.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
                MetricKind::Histogram => "histogram",
            };
            let unit = metric.unit.map_or("", |unit| unit.as_str());
            let labels: Vec<_> = metric.labels.iter().map(|it| format!("`{it}`")).collect();
            let (name, labels, meaning) = (metric.name, labels.join(", "), metric.meaning);
            writeln!(
                table,
                "| `{name}` | {kind} | {unit} | {labels} | {meaning} |"
            )
            .unwrap();
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/observe/metrics.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &table).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap_or_default() == table,
            "metrics.md is out of date: run the test again with UPDATE=1"
        );
    }

    #[test]
    fn names_say_what_they_are_as_prometheus_wants_it() {
        let mut names = HashSet::new();
        for Metric {
            name, kind, unit, ..
        } in ALL
        {
            assert!(names.insert(name), "{name} is there twice");
            let rest = name.strip_prefix("tower_spatial_").unwrap();
            assert!(rest.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
            let is_counter = kind == MetricKind::Counter;
            assert_eq!(name.ends_with("_total"), is_counter, "{name}");
            let is_time = unit == Some(Unit::Seconds);
            assert_eq!(name.ends_with("_seconds"), is_time, "{name}");
        }
    }
}
