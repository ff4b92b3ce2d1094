//! What headers and declarations hint at.

use encoding_rs::Encoding;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use memchr::memmem;

use crate::Asked;
use crate::dialect::Hints;
use crate::kvp::find_ignore_case;

/// The encoding that an XML declaration or a page's `meta` names.
pub(super) fn declared(head: &[u8]) -> Option<&[u8]> {
    let start = &head[..head.len().min(1024)];
    let at = if start.trim_ascii_start().starts_with(b"<?xml") {
        let end = memmem::find(start, b"?>")?;
        find_ignore_case(&start[..end], "encoding").map(|at| at + "encoding".len())?
    } else if start.trim_ascii_start().starts_with(b"<") {
        find_ignore_case(start, "charset").map(|at| at + "charset".len())?
    } else {
        return None;
    };
    let rest = start[at..]
        .trim_ascii_start()
        .strip_prefix(b"=")?
        .trim_ascii_start();
    let rest = rest
        .strip_prefix(b"\"")
        .or_else(|| rest.strip_prefix(b"'"))
        .unwrap_or(rest);
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\'' | b' ' | b'>' | b'/' | b';' | b'?'))
        .unwrap_or(rest.len());
    Some(&rest[..end])
}

pub(super) fn of(asked: &Asked, status: StatusCode, headers: &HeaderMap) -> Hints {
    let failed = status.as_u16() >= 400;
    let content_type = headers
        .get(CONTENT_TYPE)
        .map_or(&[][..], HeaderValue::as_bytes);
    let (media_type, parameters) = match memchr::memchr(b';', content_type) {
        Some(at) => (content_type[..at].trim_ascii_end(), &content_type[at + 1..]),
        None => (content_type, &[][..]),
    };
    let is = |name: &[u8]| media_type.eq_ignore_ascii_case(name);
    let is_html = is(b"text/html") || is(b"application/xhtml+xml");
    let path = asked.path().as_bytes();
    Hints {
        problem_json: is(b"application/problem+json"),
        challenge: (failed || is_html)
            && headers
                .get("cf-mitigated")
                .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"challenge")),
        overloaded: path.len() > 6
            && path[..6].eq_ignore_ascii_case(b"/REST/")
            && headers
                .get("x-ms-bm-ws-info")
                .is_some_and(|value| value == "1"),
        retry_after: failed && headers.contains_key(RETRY_AFTER),
        encoding: charset(parameters),
    }
}

/// The encoding that a media type's parameters name, where it is not UTF-8.
fn charset(parameters: &[u8]) -> Option<&'static Encoding> {
    if parameters.is_empty() || parameters.eq_ignore_ascii_case(b" charset=utf-8") {
        return None;
    }
    let at = find_ignore_case(parameters, "charset=")? + "charset=".len();
    let label = parameters[at..]
        .split(|&byte| byte == b';')
        .next()?
        .trim_ascii();
    let quoted = label
        .strip_prefix(b"\"")
        .and_then(|label| label.strip_suffix(b"\""));
    let label = quoted.unwrap_or(label);
    if label.eq_ignore_ascii_case(b"utf-8") {
        None
    } else {
        Encoding::for_label(label)
    }
}
