//! A parameter that makes a request new to every cache on its way.

use std::{error::Error, fmt, sync::Arc};

use http::{HeaderMap, Uri, header::AUTHORIZATION, uri::PathAndQuery};

/// The name of a cache-busting parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parameter(Arc<str>);

impl Parameter {
    pub(crate) fn new(name: &str) -> Result<Self, InvalidParameter> {
        // RFC 3986 section 2.3: what never needs to be encoded.
        let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        match !name.is_empty() && name.bytes().all(is_unreserved) {
            true => Ok(Self(name.into())),
            false => Err(InvalidParameter { name: name.into() }),
        }
    }

    /// `uri` with the parameter after all that its query has; `None` where that is signed, or has the parameter.
    pub(super) fn added_to(&self, uri: &Uri, headers: &HeaderMap, value: u64) -> Option<Uri> {
        let query = uri.query();
        if is_signed(query.unwrap_or_default(), headers)
            || names(query.unwrap_or_default())
                .any(|name| name.eq_ignore_ascii_case(self.0.as_bytes()))
        {
            return None;
        }
        let before = match query {
            None => "?",
            Some("") => "",
            Some(query) if query.ends_with('&') => "",
            Some(_) => "&",
        };
        let path_and_query = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let longer = format!("{path_and_query}{before}{}={value:016x}", self.0);
        let mut parts = uri.clone().into_parts();
        // Refused where it is too long for a URI.
        parts.path_and_query = Some(longer.parse().ok()?);
        Uri::from_parts(parts).ok()
    }
}

/// Whether a parameter more would make a signature wrong: of AWS, Google, Azure, CloudFront, or of any other kind that
/// calls it so.
fn is_signed(query: &str, headers: &HeaderMap) -> bool {
    let has = |wanted: &[u8]| names(query).any(|name| name.eq_ignore_ascii_case(wanted));
    let begins = |wanted: &[u8]| {
        names(query).any(|name| {
            let prefix = name.get(..wanted.len());
            prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(wanted))
        })
    };
    // RFC 9421, and AWS's signature in a header: both can cover the query.
    let in_header = headers.contains_key("signature-input")
        || headers
            .get(AUTHORIZATION)
            .is_some_and(|value| value.as_bytes().starts_with(b"AWS4-"));
    in_header
        || begins(b"x-amz-")
        || begins(b"x-goog-")
        || has(b"signature")
        || (has(b"sig") && has(b"se"))
}

/// The decoded names of a query's parameters.
fn names(query: &str) -> impl Iterator<Item = Vec<u8>> {
    query.split(['&', ';']).map(|pair| {
        let name = pair.split('=').next().unwrap_or_default().as_bytes();
        let mut decoded = Vec::with_capacity(name.len());
        let mut at = 0;
        while let Some(&byte) = name.get(at) {
            let hex = |at: usize| name.get(at).and_then(|digit| (*digit as char).to_digit(16));
            match (byte, hex(at + 1), hex(at + 2)) {
                (b'%', Some(high), Some(low)) => {
                    decoded.push((high * 16 + low) as u8);
                    at += 3;
                }
                _ => {
                    decoded.push(byte);
                    at += 1;
                }
            }
        }
        decoded
    })
}

/// A name that a query's parameter cannot have without being encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidParameter {
    name: Box<str>,
}

impl InvalidParameter {
    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for InvalidParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cache_busting_parameter: {:?} is not {EXPECTED_NAME}",
            self.name
        )
    }
}

impl Error for InvalidParameter {}

/// Of a name, as an error says it.
pub(crate) const EXPECTED_NAME: &str = "one or more of A-Z a-z 0-9 - . _ ~";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn added(uri: &str) -> Option<String> {
        let uri: Uri = uri.parse().unwrap();
        let parameter = Parameter::new("_fresh").unwrap();
        let added = parameter.added_to(&uri, &HeaderMap::new(), 0xABC)?;
        Some(added.to_string())
    }

    #[test]
    fn it_stands_after_all_that_was_there() {
        for (uri, expected) in [
            (
                "https://a.example/t/1/2/3.png",
                "https://a.example/t/1/2/3.png?_fresh=0000000000000abc",
            ),
            (
                "https://a.example",
                "https://a.example/?_fresh=0000000000000abc",
            ),
            (
                "https://a.example/?",
                "https://a.example/?_fresh=0000000000000abc",
            ),
            (
                "https://a.example/?a=%2F&",
                "https://a.example/?a=%2F&_fresh=0000000000000abc",
            ),
            (
                "/ows?B=2&b=1&A=a+b%20c#x",
                "/ows?B=2&b=1&A=a+b%20c&_fresh=0000000000000abc",
            ),
            (
                "https://u:p@a.example:8/?a;b",
                "https://u:p@a.example:8/?a;b&_fresh=0000000000000abc",
            ),
        ] {
            assert_eq!(added(uri).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_signed_query_is_left_alone() {
        for query in [
            "X-Amz-Signature=a&x=1",
            "x-amz-date=1",
            "X-Goog-Algorithm=GOOG4",
            "x%2Dgoog%2Ddate=1",
            "sv=1&se=2&sig=3",
            "Signature=a&Key-Pair-Id=b",
            "size=1x1&signature=abc",
            "_FRESH=1",
        ] {
            assert_eq!(
                added(&format!("https://a.example/?{query}")),
                None,
                "{query}"
            );
        }
        for query in ["sig=3", "se=2", "designature=1", "v=X-Amz-Date"] {
            assert!(
                added(&format!("https://a.example/?{query}")).is_some(),
                "{query}"
            );
        }
        let parameter = Parameter::new("_fresh").unwrap();
        let uri = Uri::from_static("https://a.example/");
        for (name, value) in [
            ("authorization", "AWS4-HMAC-SHA256 Credential=a"),
            ("signature-input", "a=()"),
        ] {
            let name = http::HeaderName::from_static(name);
            let headers = HeaderMap::from_iter([(name, value.parse().unwrap())]);
            assert_eq!(parameter.added_to(&uri, &headers, 1), None);
        }
    }

    #[test]
    fn a_name_that_needs_encoding_is_refused() {
        let error = Parameter::new("a b").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cache_busting_parameter: \"a b\" is not one or more of A-Z a-z 0-9 - . _ ~"
        );
        assert!(Parameter::new("").is_err());
    }

    proptest! {
        #[test]
        fn what_was_there_is_never_disturbed(path in "/[a-z0-9/%A-F]{0,20}", query in "[ -~&&[^# \"<>`{}|\\\\^]]{0,60}") {
            let Ok(uri) = format!("https://a.example{path}?{query}").parse::<Uri>() else { return Ok(()) };
            let parameter = Parameter::new("_fresh").unwrap();
            if let Some(added) = parameter.added_to(&uri, &HeaderMap::new(), 1) {
                let added = added.to_string();
                prop_assert!(added.starts_with(&uri.to_string()));
                prop_assert!(added.ends_with("_fresh=0000000000000001"));
            }
        }
    }
}
