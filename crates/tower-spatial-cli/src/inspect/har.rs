use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Deserialize;

use super::question::{Question, parse_uri};

/// One entry of a HAR file: the request, and its answer as it would have come over HTTP/1.1.
pub(super) struct Entry {
    pub(super) question: Question,
    pub(super) raw: Bytes,
}

// HAR 1.2, the members that matter here.
#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<HarEntry>,
}

#[derive(Deserialize)]
struct HarEntry {
    request: HarRequest,
    response: HarResponse,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HarRequest {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Header>,
    post_data: Option<PostData>,
}

#[derive(Deserialize)]
struct PostData {
    #[serde(default)]
    text: String,
}

#[derive(Deserialize)]
struct HarResponse {
    status: i64,
    #[serde(default)]
    headers: Vec<Header>,
    #[serde(default)]
    content: Content,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Content {
    text: Option<String>,
    encoding: Option<String>,
    mime_type: String,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

/// What was read, and why the other entries were left out: pages hold `data:` and `blob:` URLs too.
pub(super) struct Entries {
    pub(super) read: Vec<(usize, Entry)>,
    pub(super) skipped: Vec<(usize, String)>,
}

/// # Errors
/// Where and what was expected, where it is no HAR file at all.
pub(super) fn read(bytes: &[u8]) -> Result<Entries, String> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let har: Har =
        serde_json::from_slice(text).map_err(|error| format!("not a HAR file: {error}"))?;
    let mut entries = Entries {
        read: Vec::new(),
        skipped: Vec::new(),
    };
    for (number, entry) in har.log.entries.into_iter().enumerate() {
        match entry.read() {
            Ok(entry) => entries.read.push((number, entry)),
            Err(problem) => entries.skipped.push((number, problem)),
        }
    }
    Ok(entries)
}

impl HarEntry {
    fn read(self) -> Result<Entry, String> {
        let Self { request, response } = self;
        let question = Question {
            method: Method::from_bytes(request.method.as_bytes())
                .map_err(|_| format!("{:?} is no method", request.method))?,
            uri: parse_uri(&request.url)?,
            headers: headers(&request.headers),
            body: request
                .post_data
                .map(|data| data.text)
                .unwrap_or_default()
                .into(),
        };
        Ok(Entry {
            question,
            raw: response.raw()?,
        })
    }
}

impl HarResponse {
    /// Status 0 stands for an answer that never came.
    fn raw(self) -> Result<Bytes, String> {
        if self.status == 0 {
            return Ok(Bytes::new());
        }
        if !(100..=999).contains(&self.status) {
            return Err(format!(
                "status {} is none, expected 100 to 999",
                self.status
            ));
        }
        let body = match (self.content.text, self.content.encoding.as_deref()) {
            (None, _) => Vec::new(),
            (Some(text), Some("base64")) => STANDARD
                .decode(text.trim())
                .map_err(|error| format!("content is not base64: {error}"))?,
            (Some(text), _) => text.into_bytes(),
        };
        let mut headers = headers(&self.headers);
        // The content is decoded, and whole as far as the file knows.
        for name in [
            "content-encoding",
            "transfer-encoding",
            "content-length",
            "connection",
        ] {
            headers.remove(name);
        }
        if !headers.contains_key("content-type")
            && let Ok(label) = HeaderValue::from_str(&self.content.mime_type)
            && !label.is_empty()
        {
            headers.insert("content-type", label);
        }
        let mut raw = format!(
            "HTTP/1.1 {} Recorded\r\nContent-Length: {}\r\n",
            self.status,
            body.len()
        )
        .into_bytes();
        for (name, value) in &headers {
            raw.extend_from_slice(name.as_str().as_bytes());
            raw.extend_from_slice(b": ");
            raw.extend_from_slice(value.as_bytes());
            raw.extend_from_slice(b"\r\n");
        }
        raw.extend_from_slice(b"\r\n");
        raw.extend_from_slice(&body);
        Ok(raw.into())
    }
}

/// Pseudo headers of HTTP/2 and what is no header at all are left out.
fn headers(headers: &[Header]) -> HeaderMap {
    let pairs = headers.iter().filter_map(|header| {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        let value = HeaderValue::from_bytes(header.value.trim().as_bytes()).ok()?;
        Some((name, value))
    });
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(name, value);
    }
    map
}
