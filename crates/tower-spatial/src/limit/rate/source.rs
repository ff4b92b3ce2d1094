use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::{Extensions, HeaderMap, HeaderName, Method, Request, Uri};
use memchr::{memchr, memchr_iter, memrchr};

/// Where a request tells which key, account or token it belongs to. The key is hashed at once and never kept.
///
/// ```
/// use tower_spatial::limit::rate::KeySource;
///
/// let one_rate_for_all = KeySource::none();
/// let by_parameter = KeySource::query(["subscription-key"]);
/// let by_tenant = KeySource::by(|request| request.headers.get("x-tenant").map(|t| t.as_bytes().to_vec()));
/// # let _ = (one_rate_for_all, by_parameter, by_tenant);
/// ```
#[derive(Clone, Debug)]
pub struct KeySource(Source);

#[derive(Clone)]
enum Source {
    None,
    Common,
    Query(Arc<[Box<str>]>),
    Header(HeaderName),
    Extension,
    By(Arc<KeyOf>),
}

type KeyOf = dyn Fn(&RequestHead<'_>) -> Option<Vec<u8>> + Send + Sync;

/// The head of a request, as a caller's own rule sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RequestHead<'a> {
    /// The method.
    pub method: &'a Method,
    /// The URI.
    pub uri: &'a Uri,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The extensions.
    pub extensions: &'a Extensions,
}

impl<'a> RequestHead<'a> {
    pub(super) fn of<B>(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

/// Whose call it is, as a request extension. It is printed nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct CallerKey(Arc<[u8]>);

impl CallerKey {
    /// A key, an account, a tenant.
    pub fn new(key: impl AsRef<[u8]>) -> Self {
        Self(key.as_ref().into())
    }
}

impl fmt::Debug for CallerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CallerKey(..)")
    }
}

impl KeySource {
    /// No key: every endpoint has one rate. For limits per address or application, and for tokens that change.
    pub fn none() -> Self {
        Self(Source::None)
    }

    /// Where keys usually are: a [`CallerKey`], a parameter (`key`, `apikey`, `api_key`, `access_token`, `token`,
    /// `subscription-key`, `appid` and the like, in any case), a header (`Authorization`, `X-Api-Key` and the like). A
    /// request without one counts in the endpoint's own rate.
    pub fn common() -> Self {
        Self(Source::Common)
    }

    /// The first parameter of the query with one of these names, in any case.
    pub fn query<N: Into<Box<str>>>(names: impl IntoIterator<Item = N>) -> Self {
        Self(Source::Query(names.into_iter().map(Into::into).collect()))
    }

    /// A header.
    pub fn header(name: HeaderName) -> Self {
        Self(Source::Header(name))
    }

    /// A [`CallerKey`].
    pub fn extension() -> Self {
        Self(Source::Extension)
    }

    /// A rule of one's own.
    pub fn by(key: impl Fn(&RequestHead<'_>) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self(Source::By(Arc::new(key)))
    }

    #[inline]
    pub(super) fn read<'a>(&self, request: RequestHead<'a>) -> Option<Cow<'a, [u8]>> {
        let key = match &self.0 {
            Source::None => None,
            Source::Common => common(request),
            Source::Query(names) => {
                let names = || names.iter().map(|name| name.as_bytes());
                let may_end = |last: u8| {
                    names().any(|of| of.last().is_some_and(|of| of.eq_ignore_ascii_case(&last)))
                };
                let is_key = |name: &[u8]| names().any(|of| name.eq_ignore_ascii_case(of));
                in_query(request.uri, may_end, is_key)
            }
            Source::Header(name) => in_header(request.headers, name),
            Source::Extension => in_extension(request.extensions),
            Source::By(key) => key(&request).map(Cow::Owned),
        };
        key.filter(|key| !key.is_empty())
    }
}

impl Default for KeySource {
    fn default() -> Self {
        Self::common()
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Common => f.write_str("common"),
            Self::Query(names) => f.debug_tuple("query").field(names).finish(),
            Self::Header(name) => f.debug_tuple("header").field(name).finish(),
            Self::Extension => f.write_str("extension"),
            Self::By(_) => f.write_str("by"),
        }
    }
}

fn common<'a>(request: RequestHead<'a>) -> Option<Cow<'a, [u8]>> {
    in_extension(request.extensions)
        .or_else(|| in_query(request.uri, may_end_a_common_one, is_common))
        .or_else(|| {
            let mut found = None;
            for (name, value) in request.headers {
                let place = HEADERS.iter().position(|of| *of == name.as_str());
                if let Some(place) = place
                    && found.is_none_or(|(best, _)| place < best)
                {
                    found = Some((place, value.as_bytes()));
                }
            }
            found.map(|(_, key)| Cow::Borrowed(key))
        })
}

fn in_extension(extensions: &Extensions) -> Option<Cow<'_, [u8]>> {
    let key = extensions.get::<CallerKey>()?;
    Some(Cow::Borrowed(&key.0))
}

fn in_header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<Cow<'a, [u8]>> {
    Some(Cow::Borrowed(headers.get(name)?.as_bytes()))
}

/// The first parameter with a name that `is_key` and a value. Only names that end in a byte that `may_end` one, or are
/// percent-encoded there, are looked at as a whole: most of a query's parameters are not keys.
fn in_query(
    uri: &Uri,
    may_end: impl Fn(u8) -> bool,
    is_key: impl Fn(&[u8]) -> bool,
) -> Option<Cow<'_, [u8]>> {
    let query = uri.query()?.as_bytes();
    for equals in memchr_iter(b'=', query) {
        let before = &query[..equals];
        let Some(&last) = before.last() else {
            continue;
        };
        let is_encoded = equals >= 3 && before[equals - 3] == b'%';
        if !may_end(last) && !is_encoded {
            continue;
        }
        // With a second `=` in the parameter this is no name of any.
        let name = memrchr(b'&', before).map_or(before, |start| &before[start + 1..]);
        let value = &query[equals + 1..];
        let value = memchr(b'&', value).map_or(value, |end| &value[..end]);
        let is_key = is_key(name) || name.contains(&b'%') && is_key(&decoded(name));
        if is_key && !value.is_empty() {
            return Some(decoded(value));
        }
    }
    None
}

/// What percent-encoded text stands for: two spellings of a key are one key.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let encoded = after.first_chunk::<2>().and_then(|digits| {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            Some((digit(digits[0])? << 4 | digit(digits[1])?) as u8)
        });
        let (byte, length) = match (byte, encoded) {
            (b'%', Some(encoded)) => (encoded, 3),
            (b'+', _) => (b' ', 1),
            (byte, _) => (byte, 1),
        };
        plain.push(byte);
        rest = &rest[length..];
    }
    Cow::Owned(plain)
}

/// Whether one of [`PARAMETERS`] ends in it.
fn may_end_a_common_one(last: u8) -> bool {
    matches!(last.to_ascii_lowercase(), b'y' | b'n' | b'd' | b'k')
}

fn is_common(name: &[u8]) -> bool {
    let has_their_length = name.len() < 32 && LENGTHS >> name.len() & 1 == 1;
    let is_it = |of: &&str| name.eq_ignore_ascii_case(of.as_bytes());
    has_their_length && PARAMETERS.iter().any(is_it)
}

const PARAMETERS: [&str; 20] = [
    "key",
    "apikey",
    "api_key",
    "api-key",
    "access_token",
    "access-token",
    "accesstoken",
    "token",
    "subscription-key",
    "subscription_key",
    "ocp-apim-subscription-key",
    "x-api-key",
    "appid",
    "app_id",
    "app_key",
    "appkey",
    "map_key",
    "ak",
    "tk",
    "auth_key",
];
/// A bit for each length that one of them has.
const LENGTHS: u32 = {
    let (mut lengths, mut n) = (0, 0);
    while n < PARAMETERS.len() {
        lengths |= 1 << PARAMETERS[n].len();
        n += 1;
    }
    lengths
};
/// The most telling first.
const HEADERS: [&str; 8] = [
    "x-api-key",
    "api-key",
    "apikey",
    "ocp-apim-subscription-key",
    "x-subscription-key",
    "x-auth-token",
    "x-access-token",
    "authorization",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(source: &KeySource, uri: &str, headers: &[(&'static str, &str)]) -> Option<String> {
        let mut request = Request::get(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).unwrap();
        let key = source.read(RequestHead::of(&request))?;
        Some(String::from_utf8(key.into_owned()).unwrap())
    }

    #[test]
    fn a_key_is_found_in_any_spelling_of_its_parameter() {
        for query in [
            "key=abc",
            "KEY=abc",
            "q=1&ApiKey=abc&x",
            "api_key=abc",
            "%61pi%5Fkey=abc",
            "ke%79=abc",
            "a=b=c&key=abc&key=def",
            "TOKEN=%61bc",
            "access_token=abc",
            "Subscription-Key=abc",
            "&&appid=abc",
            "keyword=k&key=&token=abc",
        ] {
            let uri = format!("https://maps.example/wms?{query}");
            assert_eq!(
                key(&KeySource::common(), &uri, &[]).as_deref(),
                Some("abc"),
                "{query}"
            );
        }
        for query in [
            "",
            "?",
            "?keys=abc",
            "?REQUEST=GetMap&LAYERS=key",
            "?key",
            "?key=",
            "?x=key=abc",
            "?%=abc",
        ] {
            let uri = format!("https://maps.example/wms{query}");
            assert_eq!(key(&KeySource::common(), &uri, &[]), None, "{query}");
        }
    }

    proptest! {
        /// As a reader would take a query apart: parameter by parameter.
        #[test]
        fn the_first_key_is_found_wherever_it_stands(query in "(key|KEY|ke%79|sky|b|%|%4|=|&|&|a%20c){0,12}") {
            let expected = query.split('&').find_map(|parameter| {
                let (name, value) = parameter.split_once('=')?;
                let name = name.replace("%79", "y").to_lowercase();
                (name == "key" && !value.is_empty()).then_some(value)
            });
            let uri = format!("https://maps.example/wms?{query}").parse::<Uri>();
            prop_assume!(uri.is_ok());
            let request = Request::get(uri.unwrap()).body(()).unwrap();
            let found = KeySource::query(["key"]).read(RequestHead::of(&request));
            prop_assert_eq!(found, expected.map(|value| decoded(value.as_bytes())));
        }
    }

    #[test]
    fn every_common_name_may_end_as_it_does() {
        for name in PARAMETERS {
            let last = name.bytes().last().unwrap();
            assert!(may_end_a_common_one(last), "{name}");
            assert!(may_end_a_common_one(last.to_ascii_uppercase()), "{name}");
        }
    }

    #[test]
    fn a_key_is_found_in_headers_extensions_and_where_one_says() {
        let uri = "https://maps.example/wms";
        let headers = [("authorization", "Bearer abc"), ("x-api-key", "def")];
        assert_eq!(key(&KeySource::common(), uri, &headers).unwrap(), "def");
        let one = KeySource::header(http::header::AUTHORIZATION);
        assert_eq!(key(&one, uri, &headers).unwrap(), "Bearer abc");
        assert_eq!(key(&KeySource::none(), uri, &headers), None);
        let mut request = Request::get(uri).body(()).unwrap();
        request.extensions_mut().insert(CallerKey::new("tenant"));
        for source in [KeySource::common(), KeySource::extension()] {
            let key = source.read(RequestHead::of(&request)).unwrap();
            assert_eq!(&*key, b"tenant");
        }
        assert_eq!(format!("{:?}", CallerKey::new("tenant")), "CallerKey(..)");
        let own = KeySource::by(|request| Some(request.uri.path().as_bytes().to_vec()));
        assert_eq!(key(&own, uri, &[]).unwrap(), "/wms");
        let query = KeySource::query(["mine"]);
        assert_eq!(
            key(&query, "https://maps.example/?key=a&MINE=b+%2B", &[]).unwrap(),
            "b +"
        );
    }
}
