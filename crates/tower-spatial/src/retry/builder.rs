use std::{
    error::Error,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::{Extensions, HeaderMap, StatusCode};
use load_control::{Backoff, InvalidBackoff};
use service_exception::ServiceException;

use super::{RetryAfter, RetryPolicy, decision::Limits, policy::Config};
use crate::call::{Clock, Endpoints, Verdict};

/// Sets the numbers of a [`RetryPolicy`].
///
/// ```
/// use std::time::Duration;
/// use tower_spatial::retry::RetryPolicy;
///
/// let policy = RetryPolicy::builder()
///     .base(Duration::from_secs(2))
///     .cap(Duration::from_secs(120))
///     .budget(Duration::from_secs(1_800))
///     .build()?;
/// let error = RetryPolicy::builder().base(Duration::from_secs(90)).build().unwrap_err();
/// assert_eq!(error.to_string(), "retry policy: base 90s is longer than cap 60s");
/// # Ok::<(), tower_spatial::retry::InvalidRetryPolicy>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct RetryPolicyBuilder {
    base: Duration,
    cap: Duration,
    budget: Duration,
    max_park: Option<Duration>,
    retry_after_max: Duration,
    retry_after_unit: RetryAfterUnit,
    honour_retry_after: bool,
    attempts: Option<u32>,
    ambiguous_repeats: u32,
    statuses: Vec<(StatusCode, Verdict)>,
    classify: Classify,
    honour_idempotency_keys: Option<bool>,
    endpoints: Option<Endpoints>,
}

/// The caller's own rules, asked before ours.
#[derive(Clone, Default)]
pub(crate) struct Classify {
    pub(crate) response: Option<Arc<ClassifyResponse>>,
    pub(crate) error: Option<Arc<ClassifyError>>,
}

pub(crate) type ClassifyResponse = dyn Fn(&AnswerHead<'_>) -> Option<Verdict> + Send + Sync;
pub(crate) type ClassifyError = dyn Fn(&(dyn Error + 'static)) -> Option<Verdict> + Send + Sync;

/// The head of a response, as a caller's own rule sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AnswerHead<'a> {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The extensions; [`ServiceException`](crate::exception::ServiceException) among them where one was found.
    pub extensions: &'a Extensions,
}

/// What `Retry-After` counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryAfterUnit {
    /// Seconds, as RFC 9110 section 10.2.3 says.
    #[default]
    Seconds,
    /// Milliseconds, as Sentinel Hub sends them.
    Milliseconds,
}

impl RetryAfterUnit {
    /// The hint in these headers.
    pub(crate) fn read(self, headers: &HeaderMap, now: SystemTime) -> Option<RetryAfter> {
        match self {
            Self::Seconds => RetryAfter::read(headers, now),
            Self::Milliseconds => RetryAfter::read_milliseconds(headers, now),
        }
    }

    /// For how long the server asks to be left in peace, by its headers or its exception.
    pub(crate) fn asked_pause(
        self,
        headers: &HeaderMap,
        exception: Option<&ServiceException>,
    ) -> Option<Duration> {
        let now = SystemTime::now();
        self.read(headers, now)
            .map(RetryAfter::duration)
            .or_else(|| exception.and_then(|exception| exception.pause(now)))
    }
}

impl Default for RetryPolicyBuilder {
    fn default() -> Self {
        Self {
            base: Duration::from_secs(1),
            cap: Duration::from_secs(60),
            budget: Duration::from_secs(600),
            max_park: None,
            retry_after_max: Duration::from_secs(300),
            retry_after_unit: RetryAfterUnit::Seconds,
            honour_retry_after: true,
            attempts: None,
            ambiguous_repeats: 2,
            statuses: Vec::new(),
            classify: Classify::default(),
            honour_idempotency_keys: None,
            endpoints: None,
        }
    }
}

impl RetryPolicyBuilder {
    /// The longest delay before the first repeat; it doubles from there. Default 1 s; above zero, at most `cap`.
    pub fn base(self, base: Duration) -> Self {
        Self { base, ..self }
    }

    /// The longest delay without a hint of the server. Default 60 s (batch 300 s); at least `base`.
    pub fn cap(self, cap: Duration) -> Self {
        Self { cap, ..self }
    }

    /// Both from seconds, as a settings file has them.
    ///
    /// # Errors
    /// Names the one that is negative, not a number or too large.
    pub fn seconds(self, base: f64, cap: f64, budget: f64) -> Result<Self, InvalidRetryPolicy> {
        let of = |setting, value| {
            Duration::try_from_secs_f64(value)
                .map_err(|_| InvalidRetryPolicy(Kind::NotADuration { setting, value }))
        };
        Ok(self
            .base(of("base", base)?)
            .cap(of("cap", cap)?)
            .budget(of("budget", budget)?))
    }

    /// From the call (from its first admission, where a [`DeadlineLayer`](crate::timeout::deadline::DeadlineLayer) is
    /// outside) to the start of its last attempt. Default 600 s (interactive 60 s, batch 1 800 s); above zero.
    ///
    /// It bounds the start of attempts and the end of sleeps; an answer that has started is never cut by it.
    pub fn budget(self, budget: Duration) -> Self {
        Self { budget, ..self }
    }

    /// Stops the budget while the host is known to be closed, by a [breaker](crate::breaker) or a
    /// [cooldown](crate::cooldown), for at most `max_park`; above zero. A host's maintenance then costs the job its time and
    /// no answer. Default: the budget never stops (batch: 6 h).
    ///
    /// It wants a [`DeadlineLayer`](crate::timeout::deadline::DeadlineLayer) outside: without one the first attempt waits
    /// no longer than `queue_timeout`, and only from the first failure on the budget can stop.
    pub fn park(self, max_park: Duration) -> Self {
        Self {
            max_park: Some(max_park),
            ..self
        }
    }

    /// The opposite of [`park`](Self::park): the budget never stops. The default.
    pub fn strict(self) -> Self {
        Self {
            max_park: None,
            ..self
        }
    }

    /// The clamp of `Retry-After`: what the server asks beyond it is not believed. Default 300 s; above zero.
    pub fn retry_after_max(self, retry_after_max: Duration) -> Self {
        Self {
            retry_after_max,
            ..self
        }
    }

    /// What the service's `Retry-After` counts. Default seconds.
    pub fn retry_after_unit(self, retry_after_unit: RetryAfterUnit) -> Self {
        Self {
            retry_after_unit,
            ..self
        }
    }

    /// Whether the server's hints count at all. Default true.
    pub fn honour_retry_after(self, honour_retry_after: bool) -> Self {
        Self {
            honour_retry_after,
            ..self
        }
    }

    /// At most so many attempts, the first included; without it only time bounds them. Default none; above zero.
    pub fn attempts(self, attempts: u32) -> Self {
        Self {
            attempts: Some(attempts),
            ..self
        }
    }

    /// How often an answer of which nothing tells whether a repeat can help is repeated. Default 2; 0 never repeats it.
    ///
    /// Two answers in a row with the same status, code and message end it at once.
    pub fn ambiguous_repeats(self, ambiguous_repeats: u32) -> Self {
        Self {
            ambiguous_repeats,
            ..self
        }
    }

    /// What a status means where the answer holds no code that tells.
    ///
    /// | status | default |
    /// |---|---|
    /// | 408, 425, 502, 503, 504, 520 to 524, 529, 530 | transient |
    /// | 429, and 503 with `Retry-After` | throttled |
    /// | 500 | ambiguous: MapProxy, titiler and others send it for the client's own mistakes |
    /// | any other from 400 | permanent |
    /// | below 400 | success |
    pub fn status(mut self, status: StatusCode, verdict: Verdict) -> Self {
        self.statuses.retain(|(of, _)| *of != status);
        self.statuses.push((status, verdict));
        self
    }

    /// The caller's own rule for responses, asked first; `None` leaves the answer to ours.
    pub fn classify_response<F>(mut self, rule: F) -> Self
    where
        F: Fn(&AnswerHead<'_>) -> Option<Verdict> + Send + Sync + 'static,
    {
        self.classify.response = Some(Arc::new(rule));
        self
    }

    /// The caller's own rule for errors, asked first; `None` leaves the error to ours.
    pub fn classify_error<F>(mut self, rule: F) -> Self
    where
        F: Fn(&(dyn Error + 'static)) -> Option<Verdict> + Send + Sync + 'static,
    {
        self.classify.error = Some(Arc::new(rule));
        self
    }

    /// Whether the servers tell a repeat from a second request by its `Idempotency-Key`: an unsafe request that has one is
    /// then repeated. Default: that of a JSON protocol is, that of any other, such as a WFS Transaction, is not, since the
    /// servers of OGC's older protocols do not look at the header.
    ///
    /// What an endpoint's settings say ([`honours_idempotency_keys`]) is heard first.
    ///
    /// [`honours_idempotency_keys`]: crate::EndpointSettings::honours_idempotency_keys
    pub fn honour_idempotency_keys(self, honour_idempotency_keys: bool) -> Self {
        Self {
            honour_idempotency_keys: Some(honour_idempotency_keys),
            ..self
        }
    }

    /// Where the settings of endpoints are found. Default none are.
    pub fn endpoints(self, endpoints: Endpoints) -> Self {
        Self {
            endpoints: Some(endpoints),
            ..self
        }
    }

    /// The policy.
    ///
    /// # Errors
    /// Names the setting that makes no sense, and what was expected.
    pub fn build(self) -> Result<RetryPolicy, InvalidRetryPolicy> {
        let positive = |setting, duration: Duration| {
            if duration.is_zero() {
                Err(InvalidRetryPolicy(Kind::Zero { setting }))
            } else {
                Ok(duration)
            }
        };
        if self.attempts == Some(0) {
            return Err(InvalidRetryPolicy(Kind::Zero {
                setting: "attempts",
            }));
        }
        Ok(RetryPolicy::from_config(Config {
            limits: Limits {
                backoff: Backoff::new(self.base, self.cap)
                    .map_err(|invalid| InvalidRetryPolicy(Kind::Backoff(invalid)))?,
                retry_after_max: positive("retry_after_max", self.retry_after_max)?,
                attempts: self.attempts,
                ambiguous_repeats: self.ambiguous_repeats,
            },
            clock: Clock {
                budget: positive("budget", self.budget)?,
                max_park: match self.max_park {
                    Some(max_park) => Some(positive("max_park", max_park)?),
                    None => None,
                },
            },
            retry_after_unit: self.honour_retry_after.then_some(self.retry_after_unit),
            statuses: self.statuses,
            classify: self.classify,
            honour_idempotency_keys: self.honour_idempotency_keys,
            endpoints: self.endpoints,
        }))
    }
}

impl fmt::Debug for RetryPolicyBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryPolicyBuilder")
            .field("base", &self.base)
            .field("cap", &self.cap)
            .field("budget", &self.budget)
            .field("max_park", &self.max_park)
            .field("retry_after_max", &self.retry_after_max)
            .field("attempts", &self.attempts)
            .finish_non_exhaustive()
    }
}

/// A setting of a [`RetryPolicy`] that makes no sense.
#[derive(Clone, Debug, PartialEq)]
pub struct InvalidRetryPolicy(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Backoff(InvalidBackoff),
    Zero { setting: &'static str },
    NotADuration { setting: &'static str, value: f64 },
}

impl fmt::Display for InvalidRetryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("retry policy: ")?;
        match &self.0 {
            Kind::Backoff(invalid) => invalid.fmt(f),
            Kind::Zero { setting } => write!(f, "{setting} is zero, expected more"),
            Kind::NotADuration { setting, value } => {
                write!(f, "{setting} is {value}, expected seconds from 0")
            }
        }
    }
}

impl Error for InvalidRetryPolicy {}
