//! What must hold of the headers that say when to come back: one `name: value` a line.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use tower_spatial::retry::RetryAfter;

pub(crate) fn hold(data: &[u8]) {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&line[..colon]), value) {
            headers.append(name, value);
        }
    }
    let now = UNIX_EPOCH + Duration::from_secs(1_773_480_600);
    for hint in [
        RetryAfter::read(&headers, now),
        RetryAfter::read_milliseconds(&headers, now),
    ]
    .into_iter()
    .flatten()
    {
        assert!(hint.duration() > Duration::ZERO);
    }
}
