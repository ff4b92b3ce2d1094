use std::fmt;
use std::time::{Duration, SystemTime};

/// What a failure means for a repeat of the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// The server could not answer now; the same request may succeed later.
    Transient,
    /// The server asked for fewer requests; the same request succeeds once the limit allows it.
    Throttled,
    /// The request itself is wrong; it fails however often it is sent.
    Permanent,
    /// Nothing in the answer tells which of the others it is.
    Ambiguous,
}

/// An exception found in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceException {
    pub(crate) dialect: &'static str,
    pub(crate) code: Option<Box<str>>,
    pub(crate) locator: Option<Box<str>>,
    pub(crate) message: Box<str>,
    pub(crate) disposition: Disposition,
    pub(crate) credentials: bool,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) retry_at: Option<SystemTime>,
}

impl ServiceException {
    /// Characters a message has at most.
    pub const LONGEST_MESSAGE: usize = 400;

    /// The family of the answer's form, such as `ogc-xml`.
    pub fn dialect(&self) -> &'static str {
        self.dialect
    }

    /// The code as it stands in the answer.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// The code as one of the few hundred known ones, spelled as their documents do; `None` where it is none of these.
    ///
    /// A bounded set, which holds nothing that a server makes up: fit for the label of a metric.
    pub fn known_code(&self) -> Option<&'static str> {
        crate::code::known_name(self.code.as_deref()?)
    }

    /// Which part of the request the server complains of, as it stands in the answer.
    pub fn locator(&self) -> Option<&str> {
        self.locator.as_deref()
    }

    /// The server's words, at most 400 characters, without control characters and without the values of credentials.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What it means for a repeat.
    pub fn disposition(&self) -> Disposition {
        self.disposition
    }

    /// Whether the server wants other credentials, such as a new token (ArcGIS 498 and 499, openEO `TokenInvalid`).
    ///
    /// The request fails as it is, so its [`Disposition`] is permanent; a layer that can authenticate anew may send it again.
    pub fn wants_credentials(&self) -> bool {
        self.credentials
    }

    /// How long the body asks to wait; what the headers ask is not read here.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// How long that is from `now`, whether the body says a duration or a time; `None` where it has passed.
    pub fn pause(&self, now: SystemTime) -> Option<Duration> {
        let until = || self.retry_at?.duration_since(now).ok();
        self.retry_after.or_else(until)
    }

    /// Until when the body asks to wait.
    pub fn retry_at(&self) -> Option<SystemTime> {
        self.retry_at
    }
}

impl fmt::Display for ServiceException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("service exception")?;
        if let Some(code) = &self.code {
            write!(f, " {code}")?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for ServiceException {}
