//! What must hold of a request, whatever it is: a head as in HTTP/1.1, a blank line, a body.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use service_exception::{Asked, Operation};

pub(crate) fn hold(data: &[u8]) {
    let at = data
        .windows(2)
        .position(|pair| pair == b"\n\n")
        .unwrap_or(data.len());
    let (head, body) = (&data[..at], data.get(at + 2..));
    let mut lines = head.split(|byte| *byte == b'\n');
    let line = lines.next().unwrap_or_default();
    let at = line
        .iter()
        .position(|byte| *byte == b' ')
        .unwrap_or(line.len());
    let (Ok(method), Ok(uri)) = (
        Method::from_bytes(&line[..at]),
        Uri::try_from(line.get(at + 1..).unwrap_or_default()),
    ) else {
        return;
    };
    let mut headers = HeaderMap::new();
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&line[..colon]), value) {
            headers.append(name, value);
        }
    }
    let operation = Operation::of(&method, &uri, &headers, body);
    let reading = [
        Method::GET,
        Method::HEAD,
        Method::OPTIONS,
        Method::TRACE,
        Method::POST,
    ];
    assert!(reading.contains(&method) || !operation.is_safe_to_repeat());
    let _ = Asked::new(&method, &uri, &headers).operation().name();

    let separator = if uri.query().is_some() { '&' } else { '?' };
    if let Ok(uri) = format!("{uri}{separator}REQUEST=Transac%74ion").parse::<Uri>() {
        assert!(!Operation::of(&method, &uri, &headers, body).is_safe_to_repeat());
    }
}
