use std::error::Error;
use std::fmt;
use std::time::SystemTime;

use tokio::time::Duration;

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
    concurrency: Option<usize>,
    queue_timeout: Option<Duration>,
    reader_patience: Option<Duration>,
    fresh: Expected,
    cache_busting: Option<String>,
}

impl EndpointSettings {
    /// Nothing set.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many answers may be in flight at once, bodies included: 1 to 65 535, by default 16.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = Some(concurrency);
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

    /// Checked, and completed from `defaults`. `endpoint` is for the error; `None` are the defaults themselves.
    pub(super) fn resolve(
        &self,
        endpoint: Option<&str>,
        defaults: &Settings,
    ) -> Result<Settings, EndpointsError> {
        let concurrency = match self.concurrency {
            None => defaults.concurrency,
            Some(n) => u16::try_from(n).ok().filter(|n| *n > 0).ok_or_else(|| {
                EndpointsError::new(
                    endpoint,
                    "concurrency",
                    format!("{n} is out of range, expected 1 to 65535"),
                )
            })?,
        };
        let duration = |setting, value: Option<Duration>, default| match value {
            Some(Duration::ZERO) => Err(EndpointsError::new(
                endpoint,
                setting,
                "zero, expected a time greater than zero",
            )),
            value => Ok(value.unwrap_or(default)),
        };
        Ok(Settings {
            concurrency,
            queue_timeout: duration("queue_timeout", self.queue_timeout, defaults.queue_timeout)?,
            reader_patience: duration(
                "reader_patience",
                self.reader_patience,
                defaults.reader_patience,
            )?,
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

/// Settings with every value known.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) concurrency: u16,
    pub(crate) queue_timeout: Duration,
    pub(crate) reader_patience: Duration,
    pub(crate) fresh: Expected,
    pub(crate) cache_busting: Option<Parameter>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            concurrency: 16,
            queue_timeout: Duration::from_secs(600),
            reader_patience: Duration::from_secs(30),
            fresh: Expected::default(),
            cache_busting: None,
        }
    }
}
