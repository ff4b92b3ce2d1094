use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use load_control::{AdaptiveSettings, BreakerSettings, LimitSettings, LoadSettings, Quota, Quotas};
use tokio::time::{Duration, Instant};

use crate::exception::Dialects;
use crate::limit::rate::KeySource;
use crate::observe::Observers;
use crate::retry::{RetryAfterUnit, RetryPolicy};
use crate::verify::completeness::Completeness;
use crate::verify::freshness::{EXPECTED_NAME, Expected, Parameter};

/// What one endpoint, or every unknown one, is asked to bear. What is not set is inherited: an endpoint's from the
/// defaults, those from the table of defaults.
///
/// Values are checked by [`EndpointsBuilder::build`](super::EndpointsBuilder::build).
///
/// ```
/// use std::time::Duration;
/// use tower_spatial::EndpointSettings;
///
/// let settings = EndpointSettings::new()
///     .concurrency(4)
///     .queue_timeout(Duration::from_secs(60));
/// ```
#[derive(Clone, Debug, Default)]
pub struct EndpointSettings {
    limit: Option<Limit>,
    /// The inner `None` is no breaker.
    breaker: Option<Option<BreakerSettings>>,
    stagger: Option<Duration>,
    key: Option<KeySource>,
    retry_after_max: Option<Duration>,
    queue_timeout: Option<Duration>,
    reader_patience: Option<Duration>,
    retry: Option<RetryPolicy>,
    timeouts: Timeouts,
    dialects: Option<Dialects>,
    completeness: Option<Completeness>,
    published_limit: Option<Arc<str>>,
    fresh: Expected,
    cache_busting: Option<String>,
    rate: Option<Vec<Quota>>,
    honours_idempotency_keys: Option<bool>,
}

impl EndpointSettings {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many answers may be in flight at once, bodies included: 1 to 65 535, by default 16.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.limit = Some(Limit::Fixed(concurrency));
        self
    }

    /// As many answers in flight as the host can bear, found from its latency, instead of a fixed number: start and
    /// ceiling 1 to 65 535, tolerance 1 to 10, a measurement at most once a second.
    #[must_use]
    pub fn adaptive(mut self, adaptive: AdaptiveSettings) -> Self {
        self.limit = Some(Limit::Adaptive(adaptive));
        self
    }

    /// What a [`CircuitBreakerLayer`](crate::CircuitBreakerLayer) goes by: a row of at least 1, times not zero, growth
    /// at least 1, a share within 0 to 1.
    #[must_use]
    pub fn breaker(mut self, breaker: BreakerSettings) -> Self {
        self.breaker = Some(Some(breaker));
        self
    }

    /// No breaker, whatever layer there is.
    #[must_use]
    pub fn no_breaker(mut self) -> Self {
        self.breaker = Some(None);
        self
    }

    /// Over how long first attempts are spread after the start, instead of what a
    /// [`StaggerLayer`](crate::stagger::StaggerLayer) says; zero is not at all.
    #[must_use]
    pub fn stagger(mut self, window: Duration) -> Self {
        self.stagger = Some(window);
        self
    }

    /// Where requests have their key, instead of where a [`RateLimitLayer`](crate::RateLimitLayer) looks for it.
    #[must_use]
    pub fn key(mut self, key: KeySource) -> Self {
        self.key = Some(key);
        self
    }

    /// The longest pause a host can ask everybody for, by `Retry-After` to a
    /// [`CooldownLayer`](crate::CooldownLayer); not zero, by default 300 s.
    #[must_use]
    pub fn retry_after_max(mut self, retry_after_max: Duration) -> Self {
        self.retry_after_max = Some(retry_after_max);
        self
    }

    /// How calls are repeated, instead of as the layer's own [`RetryPolicy`] says. Read where a
    /// [`DeadlineLayer`](crate::timeout::deadline::DeadlineLayer) with endpoints, or a stack of all layers, is outside.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = Some(retry);
        self
    }

    /// How long an attempt may take to the answer's head, instead of what an
    /// [`AttemptTimeoutLayer`](crate::timeout::attempt::AttemptTimeoutLayer) says; `None` is no limit.
    #[must_use]
    pub fn head_timeout(mut self, head: impl Into<Option<Duration>>) -> Self {
        self.timeouts.head = Some(head.into());
        self
    }

    /// How long the reader of a body may wait for its next part, likewise; `None` is no limit.
    #[must_use]
    pub fn idle_timeout(mut self, idle: impl Into<Option<Duration>>) -> Self {
        self.timeouts.idle = Some(idle.into());
        self
    }

    /// What other clients call the read timeout: the same limit for the head and between parts of the body.
    #[must_use]
    pub fn read_timeout(self, read_timeout: Duration) -> Self {
        self.head_timeout(read_timeout).idle_timeout(read_timeout)
    }

    /// How long an attempt may take from the call to the end of the body, likewise; `None` is no limit.
    #[must_use]
    pub fn whole_timeout(mut self, whole: impl Into<Option<Duration>>) -> Self {
        self.timeouts.whole = Some(whole.into());
        self
    }

    /// How long a connection may take to come about, name and TLS included: what the ready client of `client::hyper` keeps
    /// to where it knows these endpoints.
    #[must_use]
    pub fn connect_timeout(mut self, connect_timeout: Duration) -> Self {
        self.timeouts.connect = Some(connect_timeout);
        self
    }

    /// The dialects that answers are read in, instead of what a
    /// [`ServiceExceptionLayer`](crate::exception::ServiceExceptionLayer) says.
    #[must_use]
    pub fn dialects(mut self, dialects: Dialects) -> Self {
        self.dialects = Some(dialects);
        self
    }

    /// What is done to know that answers are whole, instead of what a
    /// [`CompletenessLayer`](crate::verify::completeness::CompletenessLayer) says.
    #[cfg(feature = "completeness")]
    #[must_use]
    pub fn completeness(mut self, completeness: Completeness) -> Self {
        self.completeness = Some(completeness);
        self
    }

    /// What the operator of the service has published, and where: shown beside the numbers that follow from it. With the
    /// feature `tracing` it stands in the events of a cooldown and of waits for a permit or for the rate.
    #[must_use]
    pub fn published_limit(mut self, published_limit: impl Into<Arc<str>>) -> Self {
        self.published_limit = Some(published_limit.into());
        self
    }

    /// How long a call may wait for a permit; not zero, by default 600 s.
    #[must_use]
    pub fn queue_timeout(mut self, queue_timeout: Duration) -> Self {
        self.queue_timeout = Some(queue_timeout);
        self
    }

    /// For how long nobody may poll a body before its permit can go to a waiting call; not zero, by default 30 s.
    #[must_use]
    pub fn reader_patience(mut self, reader_patience: Duration) -> Self {
        self.reader_patience = Some(reader_patience);
        self
    }

    /// How old an answer may be; by default any age. For a [`FreshnessLayer`](crate::verify::freshness::FreshnessLayer).
    #[must_use]
    pub fn max_age(mut self, max_age: Duration) -> Self {
        self.fresh.max_age = Some(max_age);
        self
    }

    /// Since when the sources are as they are: what was modified or made before is stale; by default any time. For a
    /// [`FreshnessLayer`](crate::verify::freshness::FreshnessLayer).
    #[must_use]
    pub fn not_before(mut self, not_before: SystemTime) -> Self {
        self.fresh.not_before = Some(not_before);
        self
    }

    /// The name of a parameter that gets a repeat past the caches; by default none. For a
    /// [`FreshnessLayer`](crate::verify::freshness::FreshnessLayer).
    #[must_use]
    pub fn cache_busting_parameter(mut self, name: impl Into<String>) -> Self {
        self.cache_busting = Some(name.into());
        self
    }

    /// How often it may be asked with one key: one to three quotas that hold at once, or none, which is any rate; by
    /// default any. For a [`RateLimitLayer`](crate::RateLimitLayer).
    #[must_use]
    pub fn rate(mut self, quotas: impl IntoIterator<Item = Quota>) -> Self {
        self.rate = Some(quotas.into_iter().collect());
        self
    }

    /// Whether the servers tell a repeat from a second request by its `Idempotency-Key`, so that an unsafe request that has
    /// one may be repeated; by default those of JSON protocols do. For a [`RetryPolicy`](crate::retry::RetryPolicy) that
    /// [knows the endpoints](crate::retry::RetryPolicyBuilder::endpoints).
    #[must_use]
    pub fn honours_idempotency_keys(mut self, honours_idempotency_keys: bool) -> Self {
        self.honours_idempotency_keys = Some(honours_idempotency_keys);
        self
    }

    /// Checked, and completed from `defaults`. `endpoint` is for the error; `None` are the defaults themselves.
    pub(super) fn resolve(
        &self,
        endpoint: Option<&str>,
        defaults: &Settings,
    ) -> Result<Settings, EndpointsError> {
        let refuse = |setting, problem: String| EndpointsError::new(endpoint, setting, problem);
        let number = |setting, n: usize| {
            let n = u16::try_from(n).ok().filter(|n| *n > 0);
            n.ok_or(setting)
        };
        let limit = match &self.limit {
            None => defaults.limit.clone(),
            Some(Limit::Fixed(n)) => Limit::Fixed(usize::from(number("concurrency", *n).map_err(
                |setting| refuse(setting, format!("{n} is out of range, expected 1 to 65535")),
            )?)),
            Some(Limit::Adaptive(adaptive)) => {
                checked_adaptive(adaptive)
                    .map_err(|(setting, problem)| refuse(setting, problem))?;
                Limit::Adaptive(in_step(adaptive))
            }
        };
        if let Some(Some(breaker)) = &self.breaker {
            checked_breaker(breaker).map_err(|problem| refuse("breaker", problem))?;
        }
        let duration = |setting, value: Option<Duration>, default| match value {
            Some(Duration::ZERO) => Err(EndpointsError::new(
                endpoint,
                setting,
                "zero, expected a time greater than zero",
            )),
            value => Ok(value.unwrap_or(default)),
        };
        let timeouts = Timeouts {
            head: self.timeouts.head.or(defaults.timeouts.head),
            idle: self.timeouts.idle.or(defaults.timeouts.idle),
            whole: self.timeouts.whole.or(defaults.timeouts.whole),
            connect: self.timeouts.connect.or(defaults.timeouts.connect),
        };
        for (setting, timeout) in [
            ("head_timeout", timeouts.head.flatten()),
            ("idle_timeout", timeouts.idle.flatten()),
            ("whole_timeout", timeouts.whole.flatten()),
            ("connect_timeout", timeouts.connect),
        ] {
            duration(setting, timeout, Duration::MAX)?;
        }
        Ok(Settings {
            limit,
            retry: self.retry.as_ref().or(defaults.retry.as_ref()).cloned(),
            timeouts,
            dialects: self
                .dialects
                .as_ref()
                .or(defaults.dialects.as_ref())
                .cloned(),
            completeness: self.completeness.or(defaults.completeness),
            published_limit: self
                .published_limit
                .as_ref()
                .or(defaults.published_limit.as_ref())
                .cloned(),
            breaker: match &self.breaker {
                Some(breaker) => breaker.clone(),
                None => defaults.breaker.clone(),
            },
            stagger: self.stagger.or(defaults.stagger),
            key: self.key.as_ref().or(defaults.key.as_ref()).cloned(),
            retry_after_max: duration(
                "retry_after_max",
                self.retry_after_max,
                defaults.retry_after_max,
            )?,
            load: Default::default(),
            queue_timeout: duration("queue_timeout", self.queue_timeout, defaults.queue_timeout)?,
            reader_patience: duration(
                "reader_patience",
                self.reader_patience,
                defaults.reader_patience,
            )?,
            rate: match self.rate.as_deref() {
                None => defaults.rate.clone(),
                Some([]) => None,
                Some(quotas) => Some(
                    Quotas::new(quotas, rate_epoch())
                        .map_err(|invalid| refuse("rate", invalid.to_string()))?,
                ),
            },
            fresh: self.fresh.or(defaults.fresh),
            cache_busting: match &self.cache_busting {
                None => defaults.cache_busting.clone(),
                Some(name) => Some(Parameter::new(name).map_err(|invalid| {
                    EndpointsError::new(
                        endpoint,
                        "cache_busting_parameter",
                        format!("{:?} is not {EXPECTED_NAME}", invalid.name()),
                    )
                })?),
            },
            honours_idempotency_keys: self
                .honours_idempotency_keys
                .or(defaults.honours_idempotency_keys),
            observers: Arc::clone(&defaults.observers),
        })
    }
}

/// What was wrong with the settings of endpoints: where, which, and what was expected.
///
/// ```
/// use tower_spatial::{EndpointSettings, Endpoints};
///
/// let error = Endpoints::builder()
///     .endpoint("cadastre", ["wms.example"], EndpointSettings::new().concurrency(0))
///     .build()
///     .unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "endpoint `cadastre`: concurrency: 0 is out of range, expected 1 to 65535",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointsError {
    endpoint: Option<Box<str>>,
    setting: &'static str,
    problem: Box<str>,
}

impl EndpointsError {
    pub(super) fn new(
        endpoint: Option<&str>,
        setting: &'static str,
        problem: impl Into<Box<str>>,
    ) -> Self {
        Self {
            endpoint: endpoint.map(Box::from),
            setting,
            problem: problem.into(),
        }
    }

    /// The endpoint it is about; `None` where it is about all of them.
    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    /// The name of the setting.
    pub fn setting(&self) -> &str {
        self.setting
    }
}

impl fmt::Display for EndpointsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(endpoint) = &self.endpoint {
            write!(f, "endpoint `{}`: ", endpoint.escape_debug())?;
        }
        write!(f, "{}: {}", self.setting, self.problem)
    }
}

impl Error for EndpointsError {}

/// How the limit on what is in flight comes about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Limit {
    /// 1 to 65 535 once resolved.
    Fixed(usize),
    Adaptive(AdaptiveSettings),
}

/// What an endpoint says of the times of an attempt; the outer `None` says nothing, the inner one no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timeouts {
    pub(crate) head: Option<Option<Duration>>,
    pub(crate) idle: Option<Option<Duration>>,
    pub(crate) whole: Option<Option<Duration>>,
    pub(crate) connect: Option<Duration>,
}

/// Settings with every value known, and which gates there are.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) limit: Limit,
    pub(crate) breaker: Option<BreakerSettings>,
    pub(crate) stagger: Option<Duration>,
    pub(crate) key: Option<KeySource>,
    pub(crate) retry_after_max: Duration,
    pub(crate) queue_timeout: Duration,
    pub(crate) reader_patience: Duration,
    pub(crate) retry: Option<RetryPolicy>,
    pub(crate) timeouts: Timeouts,
    pub(crate) dialects: Option<Dialects>,
    pub(crate) completeness: Option<Completeness>,
    pub(crate) published_limit: Option<Arc<str>>,
    pub(crate) rate: Option<Quotas>,
    pub(crate) fresh: Expected,
    pub(crate) cache_busting: Option<Parameter>,
    /// `None`: as the protocol says.
    pub(crate) honours_idempotency_keys: Option<bool>,
    pub(crate) observers: Arc<Observers>,
    /// By which of the three gates there are.
    load: [OnceLock<Arc<LoadSettings>>; 8],
}

/// A layer that has been built from an [`Endpoints`](super::Endpoints).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Breaker = 1,
    Cooldown = 2,
    Limit = 4,
    Rate = 8,
    /// Not a layer: somebody observes.
    Observed = 16,
}

/// Which layers have been built, and what follows from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(pub(super) u8);

impl Parts {
    /// The same for an endpoint with these settings.
    #[must_use]
    pub(super) fn of(self, settings: &Settings) -> Self {
        let mut parts = self.0 & !(LEARNS | SHARED);
        if settings.rate.is_none() {
            parts &= !(Part::Rate as u8);
        }
        let is_adaptive = matches!(settings.limit, Limit::Adaptive(_));
        if parts & (Part::Breaker as u8 | Part::Cooldown as u8) != 0
            || is_adaptive && parts & Part::Limit as u8 != 0
        {
            parts |= LEARNS;
        }
        if (parts & ADMITTING).count_ones() > 1 {
            parts |= SHARED;
        }
        Self(parts)
    }

    #[inline]
    pub(crate) fn has(self, part: Part) -> bool {
        self.0 & part as u8 != 0
    }

    /// Whether anything depends on what comes of a call and when.
    #[inline]
    pub(crate) fn learns(self) -> bool {
        self.0 & LEARNS != 0
    }

    /// For an endpoint that nobody may call.
    #[must_use]
    pub(super) fn refusing(self) -> Self {
        Self(self.0 | REFUSED)
    }

    /// Whether nobody may call it.
    #[inline]
    pub(crate) fn refuses(self) -> bool {
        self.0 & REFUSED != 0
    }

    /// Whether more than one layer could admit a call.
    #[inline]
    pub(crate) fn is_shared(self) -> bool {
        self.0 & SHARED != 0
    }
}

impl Settings {
    /// How the endpoint's own policy reads `Retry-After`, or where it has none, `otherwise`. `None`: hints do not count.
    pub(crate) fn retry_after_unit(&self, otherwise: RetryAfterUnit) -> Option<RetryAfterUnit> {
        let own = self.retry.as_ref();
        own.map_or(Some(otherwise), RetryPolicy::retry_after_unit)
    }

    pub(super) fn observed_by(observers: Arc<Observers>) -> Self {
        Self {
            observers,
            ..Self::default()
        }
    }

    pub(super) fn load(&self, parts: Parts) -> Arc<LoadSettings> {
        let gates = parts.0 & ADMITTING;
        let has = |part| gates & part as u8 != 0;
        let made = self.load[usize::from(gates)].get_or_init(|| {
            Arc::new(LoadSettings {
                breaker: self.breaker.clone().filter(|_| has(Part::Breaker)),
                retry_after_max: match has(Part::Cooldown) {
                    true => self.retry_after_max,
                    false => Duration::ZERO,
                },
                limit: match &self.limit {
                    _ if !has(Part::Limit) => LimitSettings::Unlimited,
                    Limit::Fixed(limit) => {
                        LimitSettings::Fixed(u32::try_from(*limit).unwrap_or(u32::MAX))
                    }
                    Limit::Adaptive(adaptive) => LimitSettings::Adaptive(adaptive.clone()),
                },
                retry_tokens: has(Part::Breaker),
            })
        });
        Arc::clone(made)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            limit: Limit::Fixed(16),
            breaker: Some(BreakerSettings::default()),
            stagger: None,
            key: None,
            retry_after_max: Duration::from_secs(300),
            queue_timeout: Duration::from_secs(600),
            reader_patience: Duration::from_secs(30),
            retry: None,
            timeouts: Timeouts::default(),
            dialects: None,
            completeness: None,
            published_limit: None,
            rate: None,
            fresh: Expected::default(),
            cache_busting: None,
            honours_idempotency_keys: None,
            observers: Arc::default(),
            load: Default::default(),
        }
    }
}

/// What the times of all rates count from, so that what is counted outlives new settings.
fn rate_epoch() -> std::time::Instant {
    static EPOCH: OnceLock<std::time::Instant> = OnceLock::new();
    *EPOCH.get_or_init(|| {
        #[expect(
            clippy::disallowed_methods,
            reason = "an origin: no time is told by it"
        )]
        let now = std::time::Instant::now();
        // Before any clock of a test that was paused a little earlier.
        now.checked_sub(Duration::from_secs(3600)).unwrap_or(now)
    })
}

fn checked_adaptive(adaptive: &AdaptiveSettings) -> Result<(), (&'static str, String)> {
    let range = 1..=u32::from(u16::MAX);
    for (what, n) in [("start", adaptive.start), ("ceiling", adaptive.ceiling)] {
        if !range.contains(&n) {
            let problem = format!("{what} {n} is out of range, expected 1 to 65535");
            return Err(("adaptive", problem));
        }
    }
    let (tolerance, every) = (adaptive.tolerance, adaptive.measure_every);
    if !(1.0..=10.0).contains(&tolerance) {
        let problem = format!("tolerance {tolerance} is out of range, expected 1 to 10");
        return Err(("adaptive", problem));
    }
    if every < Duration::from_secs(1) {
        let problem = format!("measure_every {every:?} is too short, expected 1s or more");
        return Err(("adaptive", problem));
    }
    Ok(())
}

fn checked_breaker(breaker: &BreakerSettings) -> Result<(), String> {
    if breaker.row == 0 {
        return Err("row: zero, expected at least 1".to_owned());
    }
    for (what, time) in [
        ("open", breaker.open),
        ("open_cap", breaker.open_cap),
        ("lease", breaker.lease),
    ] {
        if time.is_zero() {
            return Err(format!("{what}: zero, expected a time greater than zero"));
        }
    }
    if breaker.growth.is_nan() || breaker.growth < 1.0 {
        return Err(format!("growth: {}, expected 1 or more", breaker.growth));
    }
    if let Some(rate) = breaker.failure_rate {
        if !(0.0..=1.0).contains(&rate.share) {
            return Err(format!("share: {}, expected 0 to 1", rate.share));
        }
        if rate.window.is_zero() {
            return Err("window: zero, expected a time greater than zero".to_owned());
        }
    }
    Ok(())
}

/// Processes that were not told otherwise measure at full multiples of the wall clock, and so together.
fn in_step(adaptive: &AdaptiveSettings) -> AdaptiveSettings {
    let mut adaptive = adaptive.clone();
    adaptive.start = adaptive.start.min(adaptive.ceiling);
    if adaptive.measure_in_step_with.is_none() {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let every = adaptive.measure_every.as_nanos().max(1);
        let into = since_epoch.unwrap_or_default().as_nanos() % every;
        let into = Duration::from_nanos(u64::try_from(into).unwrap_or_default());
        adaptive.measure_in_step_with = Instant::now().checked_sub(into).map(Instant::into_std);
    }
    adaptive
}

/// The parts that admit calls.
const ADMITTING: u8 = 7;
const REFUSED: u8 = 0x20;
const SHARED: u8 = 0x40;
const LEARNS: u8 = 0x80;
