use super::{Answer, Dialect, Report};
use crate::form::json::Json;

/// OWS exceptions as JSON.
#[derive(Debug)]
pub(super) struct OwsJson;

impl Dialect for OwsJson {
    fn name(&self) -> &'static str {
        "ows-json"
    }

    fn summary(&self) -> &'static str {
        "{\"exceptions\":[{\"code\",\"locator\",\"text\"}]}, plain or as JSONP (GeoServer, MapServer, 52°North)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let json = answer.json()?;
        let holder = json
            .get("ExceptionReport")
            .or_else(|| json.get("ServiceExceptionReport"))
            .unwrap_or(json);
        let list = ["exceptions", "Exception", "exception", "ServiceException"]
            .into_iter()
            .find_map(|name| holder.get(name))?;
        let first = if list.is_array() {
            list.members().next()?.1
        } else {
            list
        };
        if !first.is_object() {
            return None;
        }
        let text = |names: &[&str]| {
            names
                .iter()
                .find_map(|name| first.get(name))
                .and_then(any_text)
        };
        let code = text(&["code", "exceptionCode", "@exceptionCode"]);
        let words = text(&[
            "text",
            "exceptionText",
            "ExceptionText",
            "message",
            "description",
        ]);
        if code.is_none() && words.is_none() {
            return None;
        }
        let report = Report::new(words.unwrap_or_default()).with_code(code.unwrap_or_default());
        Some(
            match text(&["locator", "@locator"]).filter(|locator| locator != "noLocator") {
                Some(locator) => report.with_locator(locator),
                None => report,
            },
        )
    }
}

fn any_text(json: Json<'_>) -> Option<String> {
    let mut words = String::new();
    match json.as_code() {
        Some(text) => words.push_str(&text),
        None => json.all_text(3, &mut words),
    }
    Some(words).filter(|words| !words.is_empty())
}
