use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, Method};

/// One request, as a rule of the script sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Asked {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: String,
    /// Path and query, as they came.
    pub target: String,
    /// The headers.
    pub headers: HeaderMap,
    /// What is asked for: `GetMap`, `GetFeature`, `Transaction`, `search` …, from the query or a body's root element.
    pub operation: String,
    /// How many requests the server had seen before this one.
    pub nth: u64,
    /// How many requests for this operation it had seen before this one.
    pub nth_of_operation: u64,
    /// How often this very target had been asked for before.
    pub visit: u64,
    /// The script's time.
    pub elapsed: Duration,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Asked {
    /// A parameter of the query or of a form; its name in any case.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters
            .get(&name.to_ascii_lowercase())
            .map(String::as_str)
    }

    pub(crate) fn new(head: &http::request::Parts, body: String) -> Self {
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default();
        let target = head
            .uri
            .path_and_query()
            .map_or_else(|| path.clone(), ToString::to_string);
        let mut parameters = BTreeMap::new();
        let is_form = body
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic())
            && body.contains('=');
        for encoded in [query, if is_form { &body } else { "" }] {
            for (name, value) in form_urlencoded::parse(encoded.as_bytes()) {
                parameters.insert(name.to_ascii_lowercase(), value.into_owned());
            }
        }
        let operation = parameters
            .get("request")
            .cloned()
            .or_else(|| root_element(&body).map(str::to_owned))
            .unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default().to_owned());
        Self {
            method: head.method.clone(),
            path,
            target,
            headers: head.headers.clone(),
            operation,
            nth: 0,
            nth_of_operation: 0,
            visit: 0,
            elapsed: Duration::ZERO,
            parameters,
            body,
        }
    }
}

/// The local name of the root element, without prefix.
fn root_element(xml: &str) -> Option<&str> {
    let start = xml
        .match_indices('<')
        .find(|(at, _)| !xml[at + 1..].starts_with(['?', '!']))?
        .0
        + 1;
    let name = xml[start..]
        .split(|c: char| c.is_whitespace() || c == '>' || c == '/')
        .next()?;
    Some(name.rsplit(':').next().unwrap_or(name)).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(uri: &str, body: &str) -> Asked {
        let head = http::Request::get(uri)
            .body(())
            .expect("a request")
            .into_parts()
            .0;
        Asked::new(&head, body.to_owned())
    }

    #[test]
    fn the_operation_comes_from_query_body_or_path() {
        assert_eq!(
            asked("/wms?request=GetMap&BBOX=1%2C2", "").operation,
            "GetMap"
        );
        assert_eq!(
            asked("/wms?request=GetMap&BBOX=1%2C2", "").parameter("Bbox"),
            Some("1,2")
        );
        assert_eq!(
            asked(
                "/wfs",
                "<?xml version='1.0'?>\n<wfs:Transaction service='WFS'/>"
            )
            .operation,
            "Transaction"
        );
        assert_eq!(
            asked("/wfs", "request=GetFeature&count=3").parameter("count"),
            Some("3")
        );
        assert_eq!(asked("/search?q=x", "").operation, "search");
    }
}
