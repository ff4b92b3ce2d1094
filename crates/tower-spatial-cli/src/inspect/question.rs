use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use tower_spatial::replay::ReplayBody;

/// The request that an answer was given to.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Question {
    pub(super) fn unknown() -> Self {
        Self {
            method: Method::GET,
            uri: Uri::from_static("http://unknown.invalid/"),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    /// `METHOD URL [Name: value] [Name: value]…`
    ///
    /// # Errors
    /// What was expected where.
    pub(super) fn parse(text: &str, body: Bytes) -> Result<Self, String> {
        let (method, rest) = text
            .trim()
            .split_once(char::is_whitespace)
            .ok_or("expected METHOD URL, such as 'GET https://example.org/wms?REQUEST=GetMap'")?;
        let method = Method::from_bytes(method.as_bytes())
            .map_err(|_| format!("{method:?} is no method"))?;
        let rest = rest.trim_start();
        // A URL holds no blank; brackets stand in it only where an IPv6 address or a careless query has them.
        let (url, mut rest) = match rest.find(" [") {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let uri = parse_uri(url.trim())?;
        let mut headers = HeaderMap::new();
        while let Some(header) = rest.trim_start().strip_prefix('[') {
            let end = end_of_header(header)
                .ok_or("a header has no closing bracket, expected [Name: value]")?;
            let (name, value) = header[..end]
                .split_once(':')
                .ok_or("a header has no colon, expected [Name: value]")?;
            let name = HeaderName::from_bytes(name.trim().as_bytes())
                .map_err(|_| format!("{:?} is no header name", name.trim()))?;
            let value = HeaderValue::from_bytes(value.trim().as_bytes())
                .map_err(|_| format!("the value of {name} has characters that no header has"))?;
            headers.append(name, value);
            rest = &header[end + 1..];
        }
        if !rest.trim().is_empty() {
            return Err("text after the last header, expected [Name: value]".into());
        }
        Ok(Self {
            method,
            uri,
            headers,
            body,
        })
    }

    pub(super) fn request(&self) -> Request<ReplayBody<Full<Bytes>>> {
        let mut request = Request::new(ReplayBody::buffered(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }
}

/// A bracket closes a header where the next one opens or nothing follows.
fn end_of_header(header: &str) -> Option<usize> {
    header.match_indices(']').map(|(at, _)| at).find(|at| {
        let rest = header[at + 1..].trim_start();
        rest.is_empty() || rest.starts_with('[')
    })
}

/// What people and browsers write as a URL; what the `http` crate does not take is percent-encoded.
///
/// # Errors
/// What was expected. The URL itself is not repeated: it can hold a key.
pub(super) fn parse_uri(text: &str) -> Result<Uri, String> {
    let without_fragment = text.split('#').next().unwrap_or_default();
    let mut encoded = String::with_capacity(text.len());
    for character in without_fragment.chars() {
        match character {
            '!' | '$'..=';' | '=' | '?'..='Z' | '_' | 'a'..='z' | '~' | '[' | ']' | '|' => {
                encoded.push(character);
            }
            _ => {
                let mut buffer = [0; 4];
                for byte in character.encode_utf8(&mut buffer).bytes() {
                    encoded.push_str(&format!("%{byte:02X}"));
                }
            }
        }
    }
    let uri: Uri = encoded
        .parse()
        .map_err(|_| "not a URL, expected one with scheme and host".to_owned())?;
    if uri.scheme().is_none() || uri.authority().is_none() {
        return Err("not an absolute URL, expected one with scheme and host".into());
    }
    Ok(uri)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_with_its_headers() {
        let text = "POST https://example.org/wfs?a=[1]  [Content-Type: text/xml; charset=utf-8] [X-A: b]c]";
        let question = Question::parse(text, Bytes::from("<a/>")).unwrap();
        assert_eq!(
            (question.method.as_str(), question.uri.query()),
            ("POST", Some("a=[1]"))
        );
        assert_eq!(question.headers["content-type"], "text/xml; charset=utf-8");
        assert_eq!(question.headers["x-a"], "b]c");
        assert_eq!(question.request().method(), Method::POST);
    }

    #[test]
    fn what_browsers_write_is_taken() {
        let uri = parse_uri("https://example.org/a b?q={\"x\":\"é\"}|<y>#part").unwrap();
        assert_eq!(uri.query(), Some("q=%7B%22x%22:%22%C3%A9%22%7D|%3Cy%3E"));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let error = |text: &str| Question::parse(text, Bytes::new()).unwrap_err();
        assert!(error("").contains("METHOD URL"));
        assert!(error("G@T https://example.org/").contains("no method"));
        assert!(error("GET /relative?key=secret").contains("absolute"));
        assert!(!error("GET /relative?key=secret").contains("secret"));
        assert!(error("GET https://example.org/ [a: b").contains("closing bracket"));
        assert!(error("GET https://example.org/ [a b]").contains("colon"));
        assert!(error("GET https://example.org/ [a b: c]").contains("header name"));
        assert!(error("GET https://example.org/ [a: b] c").contains("closing bracket"));
    }
}
