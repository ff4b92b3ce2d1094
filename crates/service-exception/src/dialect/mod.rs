//! The forms in which services report failures: one file a family, one row in [`STANDARD`] each.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::StatusCode;

use crate::form::html::Page;
use crate::form::json::Json;
use crate::form::tree::Xml;
use crate::{Asked, Disposition, ServiceException, code, mask};

mod arcgis;
mod catalogue;
mod empty;
mod geocoder;
mod object_store;
mod ogc_json;
mod ogc_xml;
mod overpass;
mod page;
mod problem_json;
mod processing;
mod soap;
mod text;
mod xml;

/// A form in which services report failures.
///
/// [`read`](Self::read) is asked only about answers that are suspected: it may allocate. Its decision must depend on
/// nothing but the [`Answer`], so that the finding is the same however the bytes arrive.
pub trait Dialect: fmt::Debug + Send + Sync {
    /// A short name in kebab case, which [`ServiceException::dialect`] gives.
    fn name(&self) -> &'static str;

    /// What this form reports, with where it is met; a row of the table in the crate's documentation.
    fn summary(&self) -> &'static str;

    /// The failure that the answer reports in this form; `None` where it is not in this form or reports none.
    fn read(&self, answer: &Answer<'_>) -> Option<Report>;
}

/// An answer's head as dialects see it.
#[derive(Debug)]
pub struct Answer<'a> {
    pub(crate) asked: &'a Asked,
    pub(crate) status: StatusCode,
    pub(crate) hints: Hints,
    pub(crate) content: Content<'a>,
    pub(crate) whole: bool,
}

impl<'a> Answer<'a> {
    /// The request.
    pub fn asked(&self) -> &Asked {
        self.asked
    }

    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What the head of the body holds.
    pub fn content(&self) -> &Content<'a> {
        &self.content
    }

    /// Whether the body has ended with what was read.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Whether the status says that the request failed (4xx and 5xx).
    pub fn has_failed(&self) -> bool {
        self.status.as_u16() >= 400
    }

    pub(crate) fn json(&self) -> Option<Json<'a>> {
        match self.content {
            Content::Json(json) => Some(json),
            _ => None,
        }
    }

    pub(crate) fn xml(&self) -> Option<&Xml<'a>> {
        match &self.content {
            Content::Xml(xml) => Some(xml),
            _ => None,
        }
    }

    pub(crate) fn page(&self) -> Option<&Page> {
        match &self.content {
            Content::Html(page) => Some(page),
            _ => None,
        }
    }

    pub(crate) fn path_contains(&self, part: &str) -> bool {
        crate::kvp::contains_ignore_case(self.asked.path().as_bytes(), part)
    }
}

/// What the head of a body holds, by its bytes, not by its label.
#[derive(Debug)]
#[non_exhaustive]
pub enum Content<'a> {
    /// XML.
    Xml(Xml<'a>),
    /// A JSON object or array; the call around it is taken off JSONP.
    Json(Json<'a>),
    /// A page for people.
    Html(Page),
    /// Other text.
    Text(Cow<'a, str>),
    /// Nothing, or nothing but blanks.
    Empty,
}

/// What the response's headers hint at; none of it decides alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hints {
    pub(crate) problem_json: bool,
    pub(crate) challenge: bool,
    pub(crate) overloaded: bool,
    pub(crate) retry_after: bool,
    pub(crate) encoding: Option<&'static encoding_rs::Encoding>,
}

/// A failure as a dialect reads it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    code: Option<String>,
    locator: Option<String>,
    message: String,
    disposition: Option<Disposition>,
    status: Option<u16>,
    fallback: Option<Disposition>,
    credentials: bool,
    retry_after: Option<Duration>,
    retry_at: Option<SystemTime>,
}

impl Report {
    /// A failure with the server's words.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..Self::default()
        }
    }

    /// The code as it stands in the answer; an empty one counts as none.
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into()).filter(|code| !code.trim().is_empty());
        self
    }

    /// Which part of the request the server complains of.
    pub fn with_locator(mut self, locator: impl Into<String>) -> Self {
        self.locator = Some(locator.into()).filter(|locator| !locator.trim().is_empty());
        self
    }

    /// What the failure means, where the form says it; else code, words and status are weighed.
    pub fn with_disposition(mut self, disposition: Disposition) -> Self {
        self.disposition = Some(disposition);
        self
    }

    /// The status that the body gives, which counts where the response's own says success.
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// What it is where neither code, words nor status say.
    pub(crate) fn or_else(mut self, fallback: Disposition) -> Self {
        self.fallback = Some(fallback);
        self
    }

    /// The server wants other credentials.
    pub fn with_credentials_wanted(mut self) -> Self {
        self.credentials = true;
        self.with_disposition(Disposition::Permanent)
    }

    /// How long the body asks to wait.
    pub fn with_retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }

    /// Until when the body asks to wait.
    pub fn with_retry_at(mut self, time: SystemTime) -> Self {
        self.retry_at = Some(time);
        self
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    fn into_exception(
        self,
        dialect: &'static str,
        answer: &Answer<'_>,
        dialects: &Dialects,
    ) -> ServiceException {
        let status = match self.status.map(StatusCode::from_u16) {
            Some(Ok(status)) if !answer.has_failed() => status,
            _ => answer.status,
        };
        let house_rule = self.code.as_deref().and_then(|code| dialects.of_code(code));
        let disposition = house_rule.or(self.disposition).unwrap_or_else(|| {
            let weighed = code::disposition(
                self.code.as_deref(),
                &self.message,
                status,
                answer.hints.retry_after,
            );
            match (weighed, self.fallback) {
                (Disposition::Ambiguous, Some(fallback)) => fallback,
                _ => weighed,
            }
        });
        let credentials =
            self.credentials || self.code.as_deref().is_some_and(code::wants_credentials);
        let advised = || match disposition {
            Disposition::Permanent => None,
            _ => code::delay_in(&self.message),
        };
        let retry_after = self.retry_after.or_else(advised);
        ServiceException {
            dialect,
            code: self.code.as_deref().map(mask::short),
            locator: self.locator.as_deref().map(mask::short),
            message: mask::message(&self.message).into(),
            disposition,
            credentials,
            retry_after,
            retry_at: self.retry_at,
        }
    }
}

/// The dialects that an answer is read in, and house rules for codes.
///
/// Cloning is cheap; give each endpoint its own where they differ.
///
/// ```
/// use service_exception::{Dialects, Disposition};
///
/// let dialects = Dialects::standard().without("html-page").with_code("E-4711", Disposition::Transient);
/// assert!(dialects.names().all(|name| name != "html-page"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Dialects {
    changed: Option<Arc<Changed>>,
}

#[derive(Clone, Debug, Default)]
struct Changed {
    own: Vec<Arc<dyn Dialect>>,
    without: Vec<String>,
    codes: Vec<(String, Disposition)>,
}

impl Dialects {
    /// All that this crate knows.
    pub fn standard() -> Self {
        Self::default()
    }

    /// Asks `dialect` first, about every answer that is XML, JSON, a page, text or empty.
    ///
    /// With a dialect of one's own the head of such answers is read up to the limit before it counts as good.
    pub fn with(self, dialect: impl Dialect + 'static) -> Self {
        self.change(|changed| changed.own.push(Arc::new(dialect)))
    }

    /// Leaves out the dialect of this name.
    pub fn without(self, name: impl Into<String>) -> Self {
        self.change(|changed| changed.without.push(name.into()))
    }

    /// A house rule: what `code` means, whatever else is known of it. Upper and lower case are the same.
    pub fn with_code(self, code: impl Into<String>, disposition: Disposition) -> Self {
        self.change(|changed| changed.codes.push((code.into(), disposition)))
    }

    /// The names of all dialects, in the order they are asked.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.all().map(Dialect::name)
    }

    /// Name and summary of each dialect, as the table in the crate's documentation shows them.
    pub fn table(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.all()
            .map(|dialect| (dialect.name(), dialect.summary()))
    }

    pub(crate) fn has_own(&self) -> bool {
        self.changed
            .as_ref()
            .is_some_and(|changed| !changed.own.is_empty())
    }

    pub(crate) fn read(&self, answer: &Answer<'_>) -> Option<ServiceException> {
        self.all().find_map(|dialect| {
            let report = dialect.read(answer)?;
            Some(report.into_exception(dialect.name(), answer, self))
        })
    }

    fn all(&self) -> impl Iterator<Item = &dyn Dialect> {
        let changed = self.changed.as_deref();
        let own = changed
            .into_iter()
            .flat_map(|changed| &changed.own)
            .map(|dialect| &**dialect);
        let standard = STANDARD.iter().copied();
        own.chain(standard).filter(move |dialect| {
            !changed
                .is_some_and(|changed| changed.without.iter().any(|name| name == dialect.name()))
        })
    }

    fn of_code(&self, code: &str) -> Option<Disposition> {
        let codes = &self.changed.as_deref()?.codes;
        codes
            .iter()
            .rev()
            .find(|(known, _)| known.eq_ignore_ascii_case(code))
            .map(|&(_, disposition)| disposition)
    }

    fn change(mut self, change: impl FnOnce(&mut Changed)) -> Self {
        change(Arc::make_mut(self.changed.get_or_insert_default()));
        self
    }
}

/// Asked in this order: what has a form of its own before what is only a page or a text.
const STANDARD: &[&dyn Dialect] = &[
    &ogc_xml::OgcXml,
    &soap::Soap,
    &processing::ProcessFailed,
    &processing::TransactionFailed,
    &catalogue::OaiPmh,
    &catalogue::Sru,
    &ogc_json::OwsJson,
    &overpass::Overpass,
    &geocoder::GeoNames,
    &geocoder::Google,
    &geocoder::Bing,
    &geocoder::MapQuest,
    &geocoder::ChineseMaps,
    &geocoder::OpenCage,
    &arcgis::ArcGis,
    &arcgis::ArcGisPage,
    &object_store::ObjectStore,
    &problem_json::ProblemJson,
    &problem_json::CodeAndDescription,
    &problem_json::ErrorMember,
    &problem_json::Processing,
    &problem_json::AnyJson,
    &page::HtmlPage,
    &xml::AnyXml,
    &text::PlainText,
    &empty::Empty,
];
