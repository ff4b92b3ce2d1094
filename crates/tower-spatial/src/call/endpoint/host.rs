use std::io::Write;
use std::net::Ipv6Addr;
use std::sync::Arc;

use hashbrown::HashMap;
use http::Uri;

use super::Endpoint;

/// Host and effective port of a URI, borrowed from it as written there.
pub(super) struct Origin<'a> {
    pub(super) host: &'a str,
    /// 0 where neither the URI nor its scheme tells one.
    pub(super) port: u16,
    /// Whether the host is written the way keys are.
    pub(super) is_normal: bool,
}

impl<'a> Origin<'a> {
    /// `None` where the URI has no authority (origin form).
    pub(super) fn of(uri: &'a Uri) -> Option<Self> {
        let mut authority = uri.authority()?.as_str();
        // No early exit: this way it is a handful of vector instructions, and most authorities need no second look.
        let is_normal = authority
            .bytes()
            .fold(true, |normal, byte| normal & !matches!(byte, b'@'..=b'['));
        if !is_normal && let Some(userinfo) = authority.rfind('@') {
            authority = &authority[userinfo + 1..];
        }
        let (host, port) = split_port(authority);
        Some(Self {
            host: host.strip_suffix('.').unwrap_or(host),
            port: match port {
                Some(port) => port.parse().unwrap_or_else(|_| default_port(uri)),
                None => default_port(uri),
            },
            is_normal,
        })
    }
}

/// A host of at most [`LONGEST_HOST`] bytes in lower case, IPv6 addresses in the form of RFC 5952.
pub(super) fn normalize<'a>(host: &str, buffer: &'a mut [u8; LONGEST_HOST]) -> &'a str {
    let length = match address(host) {
        Some(address) => {
            let mut rest = &mut buffer[..];
            // An address in brackets is at most 47 bytes long: it fits.
            let _ = write!(rest, "[{address}]");
            LONGEST_HOST - rest.len()
        }
        None => {
            let lower = &mut buffer[..host.len()];
            lower.copy_from_slice(host.as_bytes());
            lower.make_ascii_lowercase();
            host.len()
        }
    };
    std::str::from_utf8(&buffer[..length]).unwrap_or_default()
}

/// The address in brackets.
fn address(host: &str) -> Option<Ipv6Addr> {
    let address = host.strip_prefix('[')?.strip_suffix(']')?;
    address.parse().ok()
}

/// Which configured endpoint a request belongs to. The most specific pattern wins: an exact host before `*.`, a longer
/// `*.` before a shorter one, then one with a port before one without, then the longer path.
#[derive(Default)]
pub(super) struct Hosts {
    exact: HashMap<Box<str>, Rules>,
    /// By what follows `*.`.
    suffixes: HashMap<Box<str>, Rules>,
}

/// Of one host.
#[derive(Default)]
struct Rules {
    ports: HashMap<u16, Paths>,
    any_port: Paths,
}

/// Of one host and port.
#[derive(Default)]
struct Paths {
    /// By the path, which is not empty.
    below: HashMap<Box<str>, Arc<Endpoint>>,
    /// The length of the longest of them.
    longest: usize,
    all: Option<Arc<Endpoint>>,
}

impl Hosts {
    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.suffixes.is_empty()
    }

    /// # Errors
    /// The endpoint that has the same pattern already.
    pub(super) fn insert(
        &mut self,
        pattern: Pattern,
        endpoint: &Arc<Endpoint>,
    ) -> Result<(), Arc<Endpoint>> {
        let map = if pattern.any_subdomain {
            &mut self.suffixes
        } else {
            &mut self.exact
        };
        let rules = map.entry(pattern.host).or_default();
        let paths = match pattern.port {
            Some(port) => rules.ports.entry(port).or_default(),
            None => &mut rules.any_port,
        };
        let before = match pattern.path.len() {
            0 => paths.all.replace(Arc::clone(endpoint)),
            length => {
                paths.longest = paths.longest.max(length);
                paths.below.insert(pattern.path, Arc::clone(endpoint))
            }
        };
        before.map_or(Ok(()), Err)
    }

    /// `host` is normal.
    pub(super) fn find(&self, host: &str, port: u16, uri: &Uri) -> Option<&Arc<Endpoint>> {
        if let Some(endpoint) = self.exact.get(host).and_then(|rules| rules.find(port, uri)) {
            return Some(endpoint);
        }
        if self.suffixes.is_empty() {
            return None;
        }
        let mut rest = host;
        while let Some((_, suffix)) = rest.split_once('.') {
            if let Some(endpoint) = self
                .suffixes
                .get(suffix)
                .and_then(|rules| rules.find(port, uri))
            {
                return Some(endpoint);
            }
            rest = suffix;
        }
        None
    }
}

impl Rules {
    fn find(&self, port: u16, uri: &Uri) -> Option<&Arc<Endpoint>> {
        let with_port = self.ports.get(&port).and_then(|paths| paths.find(uri));
        with_port.or_else(|| self.any_port.find(uri))
    }
}

impl Paths {
    fn find(&self, uri: &Uri) -> Option<&Arc<Endpoint>> {
        if !self.below.is_empty() {
            let path = uri.path();
            let slash = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte == b'/');
            // Where a path that is set could end: at the end, or before a slash.
            let mut end = match path.as_bytes().get(..=self.longest) {
                Some(beginning) => slash(beginning),
                None => Some(path.len()),
            };
            while let Some(at) = end {
                if let Some(endpoint) = self.below.get(&path[..at]) {
                    return Some(endpoint);
                }
                end = slash(&path.as_bytes()[..at]);
            }
        }
        self.all.as_ref()
    }
}

/// `[*.]host[:port][/path]`
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pattern {
    any_subdomain: bool,
    host: Box<str>,
    port: Option<u16>,
    /// Without a slash at its end, so the empty one is every path.
    path: Box<str>,
}

impl Pattern {
    /// # Errors
    /// What is wrong with it. It names the pattern only where that cannot hold a secret.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.contains(['@', '?', '#']) {
            return Err(
                "a pattern with userinfo, query or fragment, expected [*.]host[:port][/path]"
                    .to_owned(),
            );
        }
        let refuse = |problem: &str| Err(format!("{text:?} {problem}"));
        if text.contains("://") {
            return refuse("has a scheme, expected [*.]host[:port][/path]");
        }
        let (authority, path) = match text.find('/') {
            Some(slash) => text.split_at(slash),
            None => (text, ""),
        };
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refuse(
                "has a path with characters that a request's path never has; percent-encode them",
            );
        }
        let (host, port) = split_port(authority);
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port > 0 => Some(port),
            Some(_) => return refuse("has no valid port, expected 1 to 65535"),
        };
        let host = host.strip_suffix('.').unwrap_or(host);
        let (any_subdomain, host) = match host.strip_prefix("*.") {
            Some(suffix) => (true, suffix),
            None => (false, host),
        };
        if host.is_empty() {
            return refuse("has no host");
        }
        if host.contains('*') {
            return refuse("has a `*` that is not the whole first label, expected *.host");
        }
        if host.len() > LONGEST_HOST {
            return refuse("has a host of more than 253 bytes");
        }
        let is_address = host.starts_with('[');
        let fits = |byte: u8| match byte {
            b'-' | b'_' | b'.' => true,
            b':' | b'[' | b']' => is_address,
            byte => byte.is_ascii_alphanumeric(),
        };
        if !host.bytes().all(fits) || (is_address && any_subdomain) {
            return refuse(
                "has a host with characters that no host name has (international names as punycode, IPv6 in brackets)",
            );
        }
        if is_address && address(host).is_none() {
            return refuse("has brackets without an IPv6 address in them, expected [2001:db8::1]");
        }
        if host.split('.').any(str::is_empty) {
            return refuse("has a host with nothing between two dots");
        }
        let mut buffer = [0; LONGEST_HOST];
        Ok(Self {
            any_subdomain,
            host: normalize(host, &mut buffer).into(),
            port,
            path: path.trim_end_matches('/').into(),
        })
    }
}

/// The longest name there is (RFC 1035 §2.3.4). A longer one reaches no server, so it gets no state either.
pub(super) const LONGEST_HOST: usize = 253;

fn split_port(authority: &str) -> (&str, Option<&str>) {
    // From the end: a port is short, and without one the first look tells.
    for (at, byte) in authority.bytes().enumerate().rev() {
        match byte {
            b':' => return (&authority[..at], Some(&authority[at + 1..])),
            b'0'..=b'9' => {}
            _ => break,
        }
    }
    (authority, None)
}

fn default_port(uri: &Uri) -> u16 {
    match uri.scheme_str() {
        Some("https" | "wss") => 443,
        Some("http" | "ws") => 80,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{EndpointSettings, Endpoints};
    use super::*;

    fn name(endpoints: &Endpoints, uri: &str) -> String {
        endpoints.find(&uri.parse().unwrap()).name().to_owned()
    }

    fn keys(uri: &str) -> String {
        name(&Endpoints::default(), uri)
    }

    #[test]
    fn a_key_is_the_lower_case_host_and_the_effective_port() {
        for (uri, key) in [
            ("http://WMS.Example", "wms.example:80"),
            ("http://wms.example.:80/a", "wms.example:80"),
            ("https://wms.example:/a", "wms.example:443"),
            ("wss://wms.example", "wms.example:443"),
            ("ftp://wms.example", "wms.example"),
            ("http://user:p%40ss@wms.example:8080/", "wms.example:8080"),
            ("wms.example:443", "wms.example:443"),
            ("http://127.0.0.1", "127.0.0.1:80"),
            ("http://[2001:DB8:0::1]/", "[2001:db8::1]:80"),
            ("http://[2001:db8:0:0:0:0:0:1]:80/", "[2001:db8::1]:80"),
        ] {
            assert_eq!(keys(uri), key, "{uri}");
        }
    }

    #[test]
    fn requests_in_origin_form_share_a_key_whatever_their_host_header_says() {
        let endpoints = Endpoints::default();
        let one = endpoints.find(&Uri::from_static("/wms"));
        let other = endpoints.find(&Uri::from_static("/wfs"));
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(one.name(), "(no authority)");
    }

    #[test]
    fn a_host_too_long_to_be_one_gets_no_state_of_its_own() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", &label[..61]);
        assert_eq!(keys(&format!("http://{longest}")), format!("{longest}:80"));
        assert_eq!(keys(&format!("http://{longest}a")), "(overflow)");
        assert_eq!(
            keys(&format!("http://{}", "A".repeat(60_000))),
            "(overflow)"
        );
    }

    #[test]
    fn the_most_specific_pattern_wins() {
        let endpoint = |builder: crate::EndpointsBuilder, pattern: &str| {
            builder.endpoint(pattern, [pattern], EndpointSettings::new())
        };
        let endpoints = [
            "a.example",
            "a.example:8080",
            "a.example:8080/cadastre",
            "A.Example/geoserver",
            "a.example/geoserver/wms/",
            "*.example",
            "*.tiles.example",
            "*.tiles.example/old",
            "*.tiles.example/old/*/new",
            "[2001:DB8::0:1]",
        ]
        .into_iter()
        .fold(Endpoints::builder(), endpoint)
        .build()
        .unwrap();
        for (uri, expected) in [
            ("http://a.example/", "a.example"),
            ("https://a.example/geoserver2", "a.example"),
            ("http://a.example:8080/geoserver", "a.example:8080"),
            ("http://a.example:8080/cadastre", "a.example:8080/cadastre"),
            ("https://a.example/geoserver", "A.Example/geoserver"),
            ("https://a.example/geoserver/wfs", "A.Example/geoserver"),
            (
                "http://a.EXAMPLE./geoserver/wms?x",
                "a.example/geoserver/wms/",
            ),
            ("http://b.example", "*.example"),
            ("http://c.b.example", "*.example"),
            ("http://tiles.example", "*.example"),
            ("http://1.a.tiles.example/older", "*.tiles.example"),
            ("http://1.a.tiles.example/old/2", "*.tiles.example/old"),
            (
                "http://1.tiles.example/old/*/new?x",
                "*.tiles.example/old/*/new",
            ),
            (
                "http://1.tiles.example/old/*/new/\u{e9}\u{e9}",
                "*.tiles.example/old/*/new",
            ),
            (
                "http://1.tiles.example/old/*/n\u{e9}w",
                "*.tiles.example/old",
            ),
            ("http://1.tiles.example//old", "*.tiles.example"),
            ("http://example", "example:80"),
            ("http://[2001:db8:0:0::1]", "[2001:DB8::0:1]"),
        ] {
            assert_eq!(name(&endpoints, uri), expected, "{uri}");
        }
    }

    /// One at a time, each was compared with all before it, and so was every request.
    #[test]
    fn a_hundred_thousand_paths_of_one_host_take_no_longer_than_as_many_hosts() {
        let paths = (0..100_000).map(|n| format!("a.example/{n}"));
        let endpoints = Endpoints::builder()
            .endpoint("tenants", paths, EndpointSettings::new())
            .endpoint("other", ["a.example"], EndpointSettings::new())
            .build()
            .unwrap();
        for _ in 0..1_000 {
            assert_eq!(name(&endpoints, "http://a.example/99999/wms"), "tenants");
            assert_eq!(name(&endpoints, "http://a.example/100000"), "other");
        }
    }

    #[test]
    fn a_pattern_that_is_none_is_refused_with_what_was_expected() {
        for (pattern, problem) in [
            ("", "\"\" has no host"),
            (":80", "\":80\" has no host"),
            ("*.", "expected *.host"),
            ("/wms", "\"/wms\" has no host"),
            ("https://a.example", "has a scheme"),
            ("a.example:0", "has no valid port, expected 1 to 65535"),
            ("a.example:70000", "has no valid port"),
            ("a*.example", "expected *.host"),
            ("*", "expected *.host"),
            ("a b.example", "characters that no host name has"),
            ("münchen.example", "as punycode"),
            ("a:b.example", "characters that no host name has"),
            ("a.example/a b", "percent-encode"),
            ("[zz::1]", "without an IPv6 address"),
            ("[::1", "without an IPv6 address"),
            ("[::1]x:80", "without an IPv6 address"),
            ("a..example", "nothing between two dots"),
            ("*..example", "nothing between two dots"),
            ("..", "nothing between two dots"),
        ] {
            let error = Pattern::parse(pattern).unwrap_err();
            assert!(error.contains(problem), "{pattern}: {error}");
        }
    }

    #[test]
    fn a_secret_in_a_pattern_reaches_no_error() {
        for pattern in [
            "user:hunter2@a.example",
            "a.example/wms?key=hunter2",
            "a.example#hunter2",
        ] {
            let error = Pattern::parse(pattern).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    proptest! {
        /// The fast way to a key against the URI's own accessors.
        #[test]
        fn every_key_is_what_the_uri_says(
            userinfo in "([a-zA-Z0-9.:%]{1,8}@)?",
            host in "[a-zA-Z0-9.-]{1,20}|\\[[0-9a-fA-F:]{1,20}\\]",
            port in "(:[0-9]{0,6})?",
            scheme in "http|https",
        ) {
            let Ok(uri) = format!("{scheme}://{userinfo}{host}{port}/").parse::<Uri>() else {
                return Ok(());
            };
            let host = uri.host().unwrap().to_ascii_lowercase();
            let host = host.strip_suffix('.').unwrap_or(&host);
            let address = host.trim_matches(['[', ']']).parse::<Ipv6Addr>();
            let host = address.map_or_else(|_| host.to_owned(), |address| format!("[{address}]"));
            let port = uri.port_u16().unwrap_or(if scheme == "http" { 80 } else { 443 });
            prop_assume!(port != 0);
            prop_assert_eq!(keys(&uri.to_string()), format!("{host}:{port}"));
        }

        #[test]
        fn no_pattern_panics(pattern in "\\PC{0,40}|[*.\\[\\]:/a0]{0,12}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                prop_assert!(!pattern.host.is_empty());
            }
        }
    }
}
