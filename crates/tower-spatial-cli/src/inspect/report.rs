use std::io;

use serde::Serialize;
use tower_spatial::call::Verdict;

use super::{answer::Judged, question::Question};

/// What is printed of one answer; null where unknown.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    file: String,
    /// Method and URL without its query, where a file holds many; for people.
    #[serde(skip)]
    request: Option<String>,
    status: Option<u16>,
    verdict: &'static str,
    dialect: Option<&'static str>,
    code: Option<String>,
    locator: Option<String>,
    message: Option<String>,
    retry_after_ms: Option<u64>,
    safe_to_repeat: bool,
    complete: Option<bool>,
    /// What is missing.
    missing: Option<String>,
    why: String,
}

impl Report {
    pub(super) fn new(file: String, judged: Judged) -> Self {
        let Judged {
            status,
            outcome,
            exception,
            retry_after,
            safe_to_repeat,
            complete,
            missing,
        } = judged;
        let verdict = match outcome.verdict() {
            Verdict::Success => "ok",
            Verdict::Transient => "transient",
            Verdict::Throttled => "throttled",
            Verdict::Permanent => "permanent",
            Verdict::Ambiguous => "ambiguous",
        };
        let what_follows = match (outcome.verdict(), safe_to_repeat) {
            (Verdict::Success, _) => "the answer that was asked for",
            (Verdict::Permanent, _) => "it fails however often it is sent",
            (_, false) => "the request is not safe to repeat, and goes out once",
            (Verdict::Transient, true) => "it is repeated after a growing pause",
            (Verdict::Throttled, true) => "it is repeated no sooner than the server asks",
            (Verdict::Ambiguous, true) => "it is repeated twice at most",
        };
        Self {
            file,
            request: None,
            status: status.map(|status| status.as_u16()),
            verdict,
            dialect: exception.as_ref().map(|exception| exception.dialect()),
            code: exception
                .as_ref()
                .and_then(|exception| exception.code())
                .map(str::to_owned),
            locator: exception
                .as_ref()
                .and_then(|exception| exception.locator())
                .map(str::to_owned),
            message: exception
                .as_ref()
                .map(|exception| exception.message().to_owned())
                .filter(|message| !message.is_empty()),
            retry_after_ms: retry_after
                .map(|hint| u64::try_from(hint.as_millis()).unwrap_or(u64::MAX)),
            safe_to_repeat,
            complete,
            missing,
            why: format!("{}: {what_follows}", outcome.cause()),
        }
    }

    /// Names the request that it answers. The query stays out: it can hold a key.
    pub(super) fn to(self, question: &Question) -> Self {
        let Question { method, uri, .. } = question;
        let host = uri.host().unwrap_or_default();
        let request = format!("{method} {host}{}", uri.path());
        Self {
            request: Some(request),
            ..self
        }
    }

    pub(super) fn write_json(&self, out: &mut impl io::Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, self)?;
        out.write_all(b"\n")
    }

    pub(super) fn write_text(&self, out: &mut impl io::Write) -> io::Result<()> {
        writeln!(out, "{}: {}", self.file, self.verdict)?;
        let mut line = |name: &str, value: Option<String>| match value {
            Some(value) => writeln!(out, "  {name:<15} {value}"),
            None => Ok(()),
        };
        let yes_or_no = |yes| if yes { "yes" } else { "no" }.to_owned();
        line("request", self.request.clone())?;
        line("why", Some(self.why.clone()))?;
        line("status", self.status.map(|status| status.to_string()))?;
        line("dialect", self.dialect.map(str::to_owned))?;
        line("code", self.code.clone())?;
        line("locator", self.locator.clone())?;
        line("message", self.message.clone())?;
        line(
            "retry after",
            self.retry_after_ms.map(|ms| format!("{ms} ms")),
        )?;
        line("safe to repeat", Some(yes_or_no(self.safe_to_repeat)))?;
        line(
            "complete",
            Some(match &self.missing {
                Some(missing) => format!("no: {missing}"),
                None => self
                    .complete
                    .map_or_else(|| "unknown".to_owned(), yes_or_no),
            }),
        )
    }
}
