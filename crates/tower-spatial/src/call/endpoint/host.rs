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
}

impl<'a> Origin<'a> {
    /// `None` where the URI has no authority (origin form).
    pub(super) fn of(uri: &'a Uri) -> Option<Self> {
        let authority = uri.authority()?.as_str();
        let authority = match authority.rfind('@') {
            Some(userinfo) => &authority[userinfo + 1..],
            None => authority,
        };
        let (host, port) = split_port(authority);
        Some(Self {
            host: host.strip_suffix('.').unwrap_or(host),
            port: port
                .and_then(|port| port.parse().ok())
                .unwrap_or_else(|| default_port(uri)),
        })
    }

    /// Whether the host is written the way keys are.
    pub(super) fn is_normal(&self) -> bool {
        // No early exit: this way it is a handful of vector instructions.
        let upper = self.host.bytes().fold(false, |upper, byte| {
            upper | byte.is_ascii_uppercase() | (byte == b'[')
        });
        !upper
    }
}

/// A host of at most [`LONGEST_HOST`] bytes in lower case, IPv6 addresses in the form of RFC 5952.
pub(super) fn normalize<'a>(host: &str, buffer: &'a mut [u8; LONGEST_HOST]) -> &'a str {
    let address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .and_then(|host| host.parse::<Ipv6Addr>().ok());
    let length = match address {
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

/// Which configured endpoint a request belongs to. The most specific pattern wins: an exact host before `*.`, a longer
/// `*.` before a shorter one, then one with a port before one without, then the longer path.
#[derive(Default)]
pub(super) struct Hosts {
    exact: HashMap<Box<str>, Vec<Rule>>,
    /// By what follows `*.`.
    suffixes: HashMap<Box<str>, Vec<Rule>>,
}

struct Rule {
    port: Option<u16>,
    path: Box<str>,
    endpoint: Arc<Endpoint>,
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
        let rank = |port: Option<u16>, path: &str| (port.is_some(), path.len());
        let rank_here = rank(pattern.port, &pattern.path);
        for rule in &*rules {
            if rule.port == pattern.port && rule.path == pattern.path {
                return Err(Arc::clone(&rule.endpoint));
            }
        }
        let at = rules.partition_point(|rule| rank(rule.port, &rule.path) >= rank_here);
        rules.insert(
            at,
            Rule {
                port: pattern.port,
                path: pattern.path,
                endpoint: Arc::clone(endpoint),
            },
        );
        Ok(())
    }

    /// `host` is normal.
    pub(super) fn find(&self, host: &str, port: u16, uri: &Uri) -> Option<&Arc<Endpoint>> {
        if let Some(endpoint) = first(self.exact.get(host), port, uri) {
            return Some(endpoint);
        }
        if self.suffixes.is_empty() {
            return None;
        }
        let mut rest = host;
        while let Some((_, suffix)) = rest.split_once('.') {
            if let Some(endpoint) = first(self.suffixes.get(suffix), port, uri) {
                return Some(endpoint);
            }
            rest = suffix;
        }
        None
    }
}

fn first<'a>(rules: Option<&'a Vec<Rule>>, port: u16, uri: &Uri) -> Option<&'a Arc<Endpoint>> {
    rules?
        .iter()
        .find(|rule| rule.matches(port, uri))
        .map(|rule| &rule.endpoint)
}

impl Rule {
    fn matches(&self, port: u16, uri: &Uri) -> bool {
        self.port.is_none_or(|expected| expected == port)
            && (self.path.is_empty()
                || uri
                    .path()
                    .strip_prefix(&*self.path)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    }
}

/// `[*.]host[:port][/path]`
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    any_subdomain: bool,
    host: Box<str>,
    port: Option<u16>,
    /// Without a slash at its end, so the empty one is every path.
    path: Box<str>,
}

impl Pattern {
    /// # Errors
    /// What is wrong with it. It names the pattern only where that cannot hold a secret.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
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
    match authority.rfind([':', ']']) {
        Some(at) if authority.as_bytes()[at] == b':' => {
            (&authority[..at], Some(&authority[at + 1..]))
        }
        _ => (authority, None),
    }
}

fn default_port(uri: &Uri) -> u16 {
    match uri.scheme_str() {
        Some("https" | "wss") => 443,
        Some("http" | "ws") => 80,
        _ => 0,
    }
}
