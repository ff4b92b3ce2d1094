//! Reads a stored answer, raw HTTP/1.1, as far as it goes.

use std::io::Read;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

pub(crate) struct Stored {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// Chunks joined and gzip unpacked, as far as they go.
    pub(crate) body: Vec<u8>,
    /// The transport shows that something is missing.
    pub(crate) cut: bool,
}

/// `None` where not a whole head came.
pub(crate) fn read(raw: &[u8]) -> Option<Stored> {
    let mut rest = raw;
    loop {
        let end = memchr::memmem::find(rest, b"\r\n\r\n")?;
        let (head, body) = (&rest[..end], &rest[end + 4..]);
        let mut lines = head
            .split(|&byte| byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let line = std::str::from_utf8(lines.next()?).ok()?;
        let status = StatusCode::from_u16(line.split(' ').nth(1)?.parse().ok()?).ok()?;
        if status.is_informational() {
            rest = body;
            continue;
        }
        let mut headers = HeaderMap::new();
        for line in lines {
            let Some(colon) = memchr::memchr(b':', line) else {
                continue;
            };
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            {
                headers.append(name, value);
            }
        }
        let is = |name: &str, value: &str| {
            headers.get(name).is_some_and(|found| {
                found
                    .to_str()
                    .unwrap_or_default()
                    .to_ascii_lowercase()
                    .contains(value)
            })
        };
        let length = headers
            .get("content-length")
            .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let (mut body, mut cut) = if is("transfer-encoding", "chunked") {
            dechunk(body)
        } else {
            (
                body[..body.len().min(length.unwrap_or(body.len()))].to_vec(),
                length.is_some_and(|length| body.len() < length),
            )
        };
        if is("content-encoding", "gzip") {
            let mut plain = Vec::new();
            let mut buffer = [0; 4096];
            let mut decoder = flate2::read::GzDecoder::new(body.as_slice());
            loop {
                match decoder.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(length) => plain.extend_from_slice(&buffer[..length]),
                    Err(_) => {
                        cut = true;
                        break;
                    }
                }
            }
            body = plain;
        }
        return Some(Stored {
            status,
            headers,
            body,
            cut,
        });
    }
}

fn dechunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    loop {
        let Some(end) = memchr::memmem::find(rest, b"\r\n") else {
            return (body, true);
        };
        let size = std::str::from_utf8(&rest[..end]).ok().and_then(|line| {
            usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16).ok()
        });
        rest = &rest[end + 2..];
        match size {
            Some(0) => return (body, !rest.starts_with(b"\r\n")),
            Some(size) if size <= rest.len() => {
                body.extend_from_slice(&rest[..size]);
                rest = rest[size..]
                    .strip_prefix(b"\r\n")
                    .unwrap_or_else(|| &rest[size..]);
            }
            _ => {
                body.extend_from_slice(rest);
                return (body, true);
            }
        }
    }
}
