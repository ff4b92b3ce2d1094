use super::{Answer, Dialect, Report};
use crate::Disposition;
use crate::form::json::Json;
use crate::kvp::contains_ignore_case;

/// Errors of ArcGIS REST services, nearly all of which come with status 200.
#[derive(Debug)]
pub(super) struct ArcGis;

impl Dialect for ArcGis {
    fn name(&self) -> &'static str {
        "arcgis"
    }

    fn summary(&self) -> &'static str {
        "{\"error\":{\"code\",\"message\",\"details\"}} and {\"status\":\"error\",\"messages\",\"code\"}, plain or as JSONP (ArcGIS Server, \
         Online, platform; Nominatim, Sentinel Hub, what3words use the first form as well)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let json = answer.json()?;
        if let Some(error) = json.get("error").filter(|error| error.is_object()) {
            return classic(answer, error);
        }
        let is_error = json
            .get("status")
            .and_then(Json::as_str)
            .is_some_and(|status| status.eq_ignore_ascii_case("error"));
        let messages = json
            .get("messages")
            .filter(|messages| messages.is_array())?;
        if !is_error {
            return None;
        }
        let mut words = String::new();
        messages.all_text(3, &mut words);
        Some(judged(
            json.get("code")
                .and_then(Json::as_code)
                .map(|code| code.into_owned()),
            words,
            answer,
        ))
    }
}

fn classic(answer: &Answer<'_>, error: Json<'_>) -> Option<Report> {
    let code = ["code", "errorCode", "error_code"]
        .iter()
        .find_map(|name| error.get(name))
        .and_then(Json::as_code);
    let mut words = String::new();
    for name in [
        "message",
        "description",
        "details",
        "error_description",
        "reason",
        "info",
    ] {
        let mut more = String::new();
        if let Some(value) = error.get(name) {
            value.all_text(3, &mut more);
        }
        if !more.is_empty() && !words.contains(more.as_str()) {
            if !words.is_empty() {
                words.push(' ');
            }
            words.push_str(&more);
        }
    }
    if code.is_none() && words.is_empty() {
        return None;
    }
    let report = judged(code.map(|code| code.into_owned()), words, answer);
    // Sentinel Hub and Google's newer services repeat the status within.
    let status = error
        .get("status")
        .and_then(Json::as_i64)
        .and_then(|status| u16::try_from(status).ok());
    let word = error
        .get("status")
        .and_then(Json::as_str)
        .filter(|word| word.contains('_'));
    Some(match (status, word) {
        (Some(status), _) => report.with_status(status),
        (None, Some(word)) if crate::code::of_code(&word) != crate::code::Known::No => {
            report.with_weight_of(&word)
        }
        _ => report,
    })
}

/// Codes are HTTP's, and ArcGIS's own 498 and 499.
fn judged(code: Option<String>, words: String, answer: &Answer<'_>) -> Report {
    let number = code.as_deref().and_then(|code| code.parse::<u16>().ok());
    let limit = crate::code::of_text(&words) == Some(Disposition::Throttled);
    let disposition = match number {
        Some(_) if answer.has_failed() && answer.status().as_u16() == 429 => {
            Some(Disposition::Throttled)
        }
        Some(429) => Some(Disposition::Throttled),
        Some(400..=499) if limit => Some(Disposition::Throttled),
        Some(498 | 499) => {
            return Report::new(words)
                .with_code(code.unwrap_or_default())
                .with_credentials_wanted();
        }
        Some(408) => Some(Disposition::Transient),
        Some(400..=499) => Some(Disposition::Permanent),
        Some(501 | 505) => Some(Disposition::Permanent),
        // 500 also stands for mistakes, such as a layer that is not there; only the words tell.
        Some(500) if crate::code::of_text(&words) == Some(Disposition::Permanent) => {
            Some(Disposition::Permanent)
        }
        Some(500..=599) => Some(Disposition::Transient),
        _ => None,
    };
    let report = Report::new(words).with_code(code.unwrap_or_default());
    match disposition {
        Some(disposition) => report.with_disposition(disposition),
        None => report,
    }
}

/// The page that ArcGIS sends in place of a tile.
#[derive(Debug)]
pub(super) struct ArcGisPage;

impl Dialect for ArcGisPage {
    fn name(&self) -> &'static str {
        "arcgis-page"
    }

    fn summary(&self) -> &'static str {
        "the page titled Error: with a Code: that ArcGIS sends in place of a tile or an export"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let page = answer.page()?;
        let text = page.text();
        let after = |word: &str| {
            text.find(word)
                .map(|at| text[at + word.len()..].trim_start())
        };
        let error = after("Error:")?;
        let title = page.title();
        if !contains_ignore_case(title.as_bytes(), "error")
            && !contains_ignore_case(title.as_bytes(), "token")
        {
            return None;
        }
        let code: String = after("Code:")
            .unwrap_or_default()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let words = error.split("Code:").next().unwrap_or(error).trim();
        let token = contains_ignore_case(words.as_bytes(), "token");
        let code = Some(code).filter(|code| !code.is_empty());
        if code.is_none() && !token {
            return None;
        }
        let report = judged(code, words.to_owned(), answer);
        Some(if token {
            report.with_credentials_wanted()
        } else {
            report
        })
    }
}
