use super::{Answer, Dialect, Report};
use crate::code::{self, Known};
use crate::form::json::Json;
use crate::{Disposition, Expected};

/// RFC 9457 problem details, which OGC API asks for.
#[derive(Debug)]
pub(super) struct ProblemJson;

impl Dialect for ProblemJson {
    fn name(&self) -> &'static str {
        "problem-json"
    }

    fn summary(&self) -> &'static str {
        "RFC 9457 {\"type\",\"title\",\"status\",\"detail\"} (OGC API, HERE), result-not-ready of OGC API Processes"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let json = answer.json().filter(|json| json.is_object())?;
        let text = |name: &str| json.get(name).and_then(Json::as_str);
        let status = json
            .get("status")
            .and_then(Json::as_i64)
            .and_then(|status| u16::try_from(status).ok());
        let kind = text("type");
        let (title, detail) = (text("title"), text("detail"));
        let is_problem = match kind.as_deref() {
            Some(kind) => title.is_some() || detail.is_some() || kind.contains("/exceptions/"),
            None => title.is_some() && (status.is_some() || detail.is_some()),
        };
        let says_failure = status.is_some_and(|status| (400..600).contains(&status))
            && (title.is_some() || detail.is_some() || answer.hints.problem_json);
        // At 200 the body itself has to say that it failed.
        let shows = is_problem && (answer.has_failed() || says_failure);
        if !shows && !answer.hints.problem_json {
            return None;
        }
        let named = kind
            .as_deref()
            .filter(|kind| kind.contains("/exceptions/"))
            .and_then(|kind| kind.trim_end_matches('/').rsplit('/').next());
        let code = named
            .map(str::to_owned)
            .or_else(|| {
                json.get("code")
                    .and_then(Json::as_code)
                    .map(|code| code.into_owned())
            })
            .or_else(|| {
                // Older servers put the exception's name there.
                kind.as_deref()
                    .filter(|kind| {
                        kind.len() < 64 && kind.bytes().all(|byte| byte.is_ascii_alphanumeric())
                    })
                    .map(str::to_owned)
            });
        let mut words = String::new();
        for part in [
            title.as_deref(),
            detail.as_deref(),
            text("cause").as_deref(),
            text("action").as_deref(),
        ]
        .into_iter()
        .flatten()
        {
            push(&mut words, part);
        }
        let mut report = Report::new(words);
        if let Some(code) = code {
            report = report.with_code(code);
        } else if let Some(name) = title.as_deref().filter(|title| !title.contains(' ')) {
            // Servers that have only a name for it put it there.
            report = report.with_weight_of(name);
        }
        let delay = [
            "retry_after",
            "retryAfter",
            "retry-after",
            "retryAfterSeconds",
        ]
        .iter()
        .find_map(|name| json.get(name))
        .and_then(Json::as_i64);
        if let Some(delay) = delay
            .and_then(|delay| u64::try_from(delay).ok())
            .filter(|delay| (1..=86_400).contains(delay))
        {
            report = report.with_retry_after(std::time::Duration::from_secs(delay));
        }
        Some(match status {
            Some(status) => report.with_status(status),
            None => report,
        })
    }
}

/// OGC API of older servers, STAC, openEO, QGIS.
#[derive(Debug)]
pub(super) struct CodeAndDescription;

impl Dialect for CodeAndDescription {
    fn name(&self) -> &'static str {
        "ogc-api"
    }

    fn summary(&self) -> &'static str {
        "{\"code\",\"description\"} and {\"code\",\"message\"} with a 4xx or 5xx (OGC API of pygeoapi, MapServer, QGIS; PyWPS, STAC, openEO)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        if !answer.has_failed() {
            return None;
        }
        let json = answer.json()?;
        let json = if json.is_array() {
            json.members().next()?.1
        } else {
            json
        };
        let code = ["code", "exceptionCode"]
            .into_iter()
            .find_map(|name| json.get(name))?
            .as_code()?;
        // PyWPS repeats the status there, and gives the exception its name beside it.
        let name = json.get("name").and_then(Json::as_str);
        let code = name
            .filter(|_| code == answer.status().as_str())
            .unwrap_or(code);
        let mut words = String::new();
        for name in ["description", "message", "title", "detail", "details"] {
            if let Some(value) = json.get(name) {
                let mut more = String::new();
                value.all_text(3, &mut more);
                push(&mut words, &more);
            }
        }
        Some(Report::new(words).with_code(code))
    }
}

/// An `error` that is a text.
#[derive(Debug)]
pub(super) struct ErrorMember;

impl Dialect for ErrorMember {
    fn name(&self) -> &'static str {
        "error-member"
    }

    fn summary(&self) -> &'static str {
        "{\"error\":\"…\"}, {\"errors\":[…]}, {\"fault\":{…}}, {\"success\":false} (Nominatim, LocationIQ, Geocodio, OAuth, CMR, gateways)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let json = answer.json().filter(|json| json.is_object())?;
        let get = |name: &str| json.get(name);
        let error = ["error", "errors", "fault", "Fault", "Error"]
            .into_iter()
            .find_map(get)
            .filter(|error| {
                !matches!(error.0, b"null" | b"false" | b"\"\"" | b"0") && !error.is_empty()
            });
        let refused = ["success", "ok"]
            .into_iter()
            .find_map(get)
            .is_some_and(Json::is_false)
            || get("status").and_then(Json::as_str).is_some_and(|status| {
                matches!(status.to_ascii_lowercase().as_str(), "error" | "fail")
            }) && (error.is_some()
                || ["message", "msg", "error_message", "detail"]
                    .into_iter()
                    .find_map(get)
                    .is_some());
        let error = match error {
            Some(error) => error,
            None if refused => json,
            None => return None,
        };
        // Beside data it is a part of a good answer (GraphQL's partial results, batch answers).
        let has_data = [
            "data",
            "results",
            "features",
            "result",
            "items",
            "elements",
            "collections",
            "links",
            "routes",
        ]
        .into_iter()
        .filter_map(get)
        .any(|data| data.0 != b"null" && !data.is_empty());
        if has_data && !answer.has_failed() {
            return None;
        }
        let first = if error.is_array() {
            error.members().next()?.1
        } else {
            error
        };
        let code = ["code", "errorCode", "error_code", "errorcode"]
            .iter()
            .find_map(|name| first.get(name))
            .or_else(|| {
                first
                    .get("detail")
                    .and_then(|detail| detail.get("errorcode"))
            })
            .or_else(|| {
                if first.is_object() {
                    None
                } else {
                    ["code", "errorCode", "error_code"]
                        .into_iter()
                        .find_map(get)
                }
            })
            .and_then(Json::as_code)
            .map(|code| code.into_owned());
        let explained = [
            "error_description",
            "message",
            "detail",
            "msg",
            "error_message",
            "description",
        ]
        .into_iter()
        .find_map(get)
        .and_then(Json::as_str);
        let mut words = String::new();
        error.all_text(4, &mut words);
        // OAuth (RFC 6749 §5.2) and its kin: the error is a word, and its explanation stands beside it.
        let word = first.as_str().filter(|word| {
            explained.is_some() && !word.contains(' ') && word.contains('_') && word.len() < 64
        });
        let code = code.or_else(|| word.map(|word| word.into_owned()));
        if let Some(explained) = explained.filter(|explained| !words.contains(&**explained)) {
            push(&mut words, &explained);
        }
        let status = ["status", "statusCode", "status_code"]
            .into_iter()
            .find_map(get)
            .and_then(Json::as_i64)
            .and_then(|status| u16::try_from(status).ok());
        let report = Report::new(words).with_code(code.unwrap_or_default());
        Some(match status.filter(|status| (400..600).contains(status)) {
            Some(status) => report.with_status(status),
            None => report,
        })
    }
}

/// A download that is still being prepared.
#[derive(Debug)]
pub(super) struct Processing;

impl Dialect for Processing {
    fn name(&self) -> &'static str {
        "processing"
    }

    fn summary(&self) -> &'static str {
        "202 for a download that is still being prepared (ArcGIS Hub and Open Data)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let is_download = answer.status().as_u16() == 202
            && answer.asked().method() == http::Method::GET
            && (answer.path_contains("download")
                || answer.path_contains("/datasets/")
                || answer.path_contains("opendata"));
        is_download.then(|| {
            Report::new("the download is being prepared").with_disposition(Disposition::Transient)
        })
    }
}

/// Any JSON that is no answer: with a status that says so, or where an image was asked for.
#[derive(Debug)]
pub(super) struct AnyJson;

impl Dialect for AnyJson {
    fn name(&self) -> &'static str {
        "json"
    }

    fn summary(&self) -> &'static str {
        "other JSON with a 4xx or 5xx (\"message\" of API gateways, \"detail\" of FastAPI), or where an image was asked for"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let json = answer.json()?;
        let json = match json.is_array() {
            true => {
                json.members().next().map_or(
                    json,
                    |(_, first)| if first.is_object() { first } else { json },
                )
            }
            false => json,
        };
        let mut words = String::new();
        for name in NAMES {
            if let Some(value) = json.get(name) {
                let mut more = String::new();
                value.all_text(4, &mut more);
                push(&mut words, &more);
            }
        }
        let status = json
            .get("status")
            .or_else(|| json.get("statusCode"))
            .and_then(Json::as_i64)
            .and_then(|status| u16::try_from(status).ok());
        if !answer.has_failed() {
            let image = matches!(
                answer.asked().operation().expected(),
                Expected::Image | Expected::VectorTile
            );
            // A lone message that speaks of an outage or a limit.
            let lone = !words.is_empty()
                && !json.is_array()
                && json.members().all(|(key, _)| {
                    NAMES
                        .iter()
                        .chain(&["status", "statusCode", "requestId", "request_id"])
                        .any(|name| name.as_bytes() == key)
                })
                && (json
                    .get("message")
                    .or_else(|| json.get("Message"))
                    .is_some())
                && matches!(
                    code::of_text(&words),
                    Some(Disposition::Transient | Disposition::Throttled)
                );
            let in_status = status.is_some_and(|status| (400..600).contains(&status))
                && json.get("message").is_some()
                && json.get("id").is_none();
            if !image && !lone && !in_status {
                return None;
            }
        }
        let code = ["code", "errorCode", "error_code", "__type", "Code"]
            .iter()
            .find_map(|name| json.get(name))
            .and_then(Json::as_code)
            .map(|code| code.rsplit('#').next().unwrap_or(&code).to_owned());
        let report = Report::new(words).with_code(code.unwrap_or_default());
        Some(match status.filter(|status| (400..600).contains(status)) {
            Some(status) => report.with_status(status),
            None => report,
        })
    }
}

const NAMES: &[&str] = &[
    "message",
    "Message",
    "errorMessage",
    "error_message",
    "msg",
    "title",
    "detail",
    "details",
    "description",
    "reason",
    "error",
    "errors",
    "error_description",
    "statusDescription",
    "text",
    "info",
];

fn push(words: &mut String, more: &str) {
    if more.is_empty() || words.contains(more) {
        return;
    }
    if !words.is_empty() {
        words.push_str(": ");
    }
    words.push_str(more);
}

impl Report {
    /// Lets a second word decide where the form itself does not.
    pub(super) fn with_weight_of(self, word: &str) -> Self {
        match (self.disposition, code::of_code(word)) {
            (None, Known::Decides(disposition)) => self.with_disposition(disposition),
            _ => self,
        }
    }

    /// The words around, where the report has none of its own.
    pub(super) fn with_reason(mut self, reason: &str) -> Self {
        if self.message.trim().is_empty() {
            self.message = reason.to_owned();
        }
        self
    }
}
