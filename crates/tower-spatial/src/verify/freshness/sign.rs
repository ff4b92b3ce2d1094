use std::{
    error::Error,
    fmt,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AGE, DATE, LAST_MODIFIED, WARNING},
};

/// An answer that is older than was expected: the source of a [`StaleError`](super::StaleError), or an extension of the
/// response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    pub(super) sign: Sign,
}

/// What shows that an answer is stale.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sign {
    /// It is older than it may be, by its `Age` or its `Date`.
    Age {
        /// How old it is.
        age: Duration,
        /// How old it may be.
        max_age: Duration,
    },
    /// What it shows was last modified before the source was.
    Modified {
        /// Its `Last-Modified`.
        modified: SystemTime,
        /// When the source was.
        not_before: SystemTime,
    },
    /// It was made before the source was modified, by its `Age` or its `Date`.
    Made {
        /// When it was made.
        made: SystemTime,
        /// When the source was modified.
        not_before: SystemTime,
    },
    /// A cache says so, in this header.
    Said(HeaderName),
}

impl Stale {
    /// What shows it.
    pub fn sign(&self) -> &Sign {
        &self.sign
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.sign {
            Sign::Age { age, max_age } => {
                write!(f, "the answer is {age:?} old, expected at most {max_age:?}")
            }
            Sign::Modified {
                modified,
                not_before,
            } => write!(
                f,
                "what the answer shows was last modified {}, expected not before {}",
                Date(*modified),
                Date(*not_before)
            ),
            Sign::Made { made, not_before } => write!(
                f,
                "the answer was made {}, expected not before {}",
                Date(*made),
                Date(*not_before)
            ),
            Sign::Said(header) => write!(f, "a cache says in {header} that the answer is stale"),
        }
    }
}

impl Error for Stale {}

/// What is expected of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) max_age: Option<Duration>,
    pub(crate) not_before: Option<SystemTime>,
}

impl Expected {
    /// What `self` leaves open is taken from `other`.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            max_age: self.max_age.or(other.max_age),
            not_before: self.not_before.or(other.not_before),
        }
    }
}

impl Sign {
    /// Whether an answer with these headers, received at `now`, is older than expected.
    #[inline]
    pub(super) fn of(
        headers: &HeaderMap,
        expected: &Expected,
        now: impl FnOnce() -> SystemTime,
    ) -> Option<Self> {
        // Most answers have none of these, and one look at each name is cheaper than a search for each of them.
        let is_known = *expected != Expected::default();
        headers
            .keys()
            .any(|name| is_sign(name, is_known))
            .then(|| Self::among(headers, expected, now()))
            .flatten()
    }

    fn among(headers: &HeaderMap, expected: &Expected, now: SystemTime) -> Option<Self> {
        let not_before = expected.not_before.map(whole_seconds);
        let modified = not_before.and_then(|_| date(headers, &LAST_MODIFIED));
        if let (Some(modified), Some(not_before)) = (modified, not_before)
            && modified < not_before
        {
            return Some(Self::Modified {
                modified,
                not_before,
            });
        }
        let age = age(headers);
        let too_old = |age, slack| {
            let max_age = expected.max_age?;
            (age > max_age.saturating_add(slack)).then_some(Self::Age { age, max_age })
        };
        let made_before = |made: SystemTime, slack| {
            // What is modified late enough cannot have been made too early.
            let not_before = not_before.filter(|_| modified.is_none())?;
            (made.checked_add(slack)? < not_before).then_some(Self::Made { made, not_before })
        };
        match (age, date(headers, &DATE)) {
            (Some(age), _) => {
                let by_age = too_old(age, Duration::ZERO);
                // An age is told in whole seconds, and the answer was a while on its way.
                let made = now.checked_sub(age).map(whole_seconds);
                let slack = Duration::from_secs(1);
                let stale = by_age.or_else(|| made_before(made?, slack));
                let is_known = expected.max_age.is_some() || expected.not_before.is_some();
                if stale.is_some() || is_known {
                    return stale;
                }
            }
            (None, Some(made)) => {
                let age = now.duration_since(made).unwrap_or_default();
                let stale = too_old(age, SKEW).or_else(|| made_before(made, SKEW));
                if stale.is_some() {
                    return stale;
                }
            }
            (None, None) => {}
        }
        if modified.is_some() && expected.max_age.is_none() {
            return None;
        }
        said(headers).map(Self::Said)
    }
}

/// Whether a header with this name can show that an answer is stale, where the age of answers is judged or not.
#[inline]
fn is_sign(name: &HeaderName, is_age_judged: bool) -> bool {
    match name {
        &AGE | &DATE | &LAST_MODIFIED => is_age_judged,
        &WARNING => true,
        name => {
            let name = name.as_str();
            // Before four comparisons: few names end as theirs do.
            matches!(name.as_bytes(), [b'x' | b'c', .., b'e' | b's'])
                && (SAID.contains(&name) || name == CACHE_STATUS)
        }
    }
}

/// The header in which a cache says of its own answer that it is stale.
fn said(headers: &HeaderMap) -> Option<HeaderName> {
    for value in headers.get_all(WARNING) {
        // RFC 7234 section 5.5: warn-code, warn-agent, warn-text; several may stand in one line.
        let mut codes = value.as_bytes().split(|byte| *byte == b',');
        if codes.any(|warning| {
            let warning = warning.trim_ascii_start();
            warning.starts_with(b"110 ") || warning.starts_with(b"111 ")
        }) {
            return Some(WARNING);
        }
    }
    for name in SAID {
        let name = HeaderName::from_static(name);
        // Squid and Akamai: TCP_STALE_HIT, TCP_REFRESH_FAIL_HIT; nginx and Cloudflare: STALE, UPDATING.
        let says = |value: &HeaderValue| {
            let value = value.as_bytes();
            let (word, _host) = split_at_blank(value);
            [&b"stale"[..], b"updating", b"refresh_fail"]
                .iter()
                .any(|sign| contains_ignore_case(word, sign))
        };
        if headers.get_all(&name).iter().any(says) {
            return Some(name);
        }
    }
    let name = HeaderName::from_static(CACHE_STATUS);
    let negative = |value: &HeaderValue| {
        let value = value.as_bytes();
        let mut parameters = value.split(|byte| matches!(byte, b';' | b','));
        parameters.any(|parameter| {
            let ttl = parameter.trim_ascii().strip_prefix(b"ttl=-");
            ttl.and_then(<[u8]>::first).is_some_and(u8::is_ascii_digit)
        })
    };
    let says = headers.get_all(&name).iter().any(negative);
    says.then_some(name)
}

/// RFC 9111 section 5.1; of several the first, as it says.
fn age(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(AGE)?.to_str().ok()?;
    let value = value.split(',').next()?.trim();
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // RFC 9111 section 1.2.2: what is too large counts as 2^31.
    Some(Duration::from_secs(value.parse().unwrap_or(1 << 31)))
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

fn whole_seconds(time: SystemTime) -> SystemTime {
    time.duration_since(UNIX_EPOCH).map_or(time, |since| {
        UNIX_EPOCH + Duration::from_secs(since.as_secs())
    })
}

/// `HIT from stale.example.org` says nothing by its host's name.
fn split_at_blank(value: &[u8]) -> (&[u8], &[u8]) {
    let value = value.trim_ascii();
    let at = value.iter().position(u8::is_ascii_whitespace);
    value.split_at(at.unwrap_or(value.len()))
}

fn contains_ignore_case(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len())
        .any(|part| part.eq_ignore_ascii_case(word))
}

/// An HTTP date, or the seconds since 1970 where it has none (before 1970, or from the year 10000 on).
struct Date(SystemTime);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.duration_since(UNIX_EPOCH) {
            Ok(since) if since.as_secs() < YEAR_10000 => httpdate::HttpDate::from(self.0).fmt(f),
            Ok(since) => write!(f, "{} s after 1970", since.as_secs()),
            Err(before) => write!(f, "{} s before 1970", before.duration().as_secs()),
        }
    }
}

/// Where caches say in words of their own what became of a request.
const SAID: [&str; 3] = ["x-cache", "x-cache-status", "cf-cache-status"];
/// RFC 9211.
const CACHE_STATUS: &str = "cache-status";
/// By how much clocks of servers are off without anybody's notice.
const SKEW: Duration = Duration::from_secs(300);
/// Seconds since 1970; httpdate panics beyond.
const YEAR_10000: u64 = 253_402_300_800;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: &str = "Sun, 06 Sep 2026 12:00:00 GMT";

    fn time(date: &str) -> SystemTime {
        httpdate::parse_http_date(date).unwrap()
    }

    fn sign(headers: &[(&'static str, &str)], expected: Expected) -> Option<Sign> {
        let headers = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        Sign::of(&headers, &expected, || time(NOW))
    }

    fn max_age(seconds: u64) -> Expected {
        Expected {
            max_age: Some(Duration::from_secs(seconds)),
            not_before: None,
        }
    }

    fn not_before(date: &str) -> Expected {
        Expected {
            max_age: None,
            not_before: Some(time(date)),
        }
    }

    #[test]
    fn an_age_beyond_what_is_allowed_is_stale() {
        assert_eq!(sign(&[("age", "60")], max_age(60)), None);
        assert!(matches!(
            sign(&[("age", "61")], max_age(60)),
            Some(Sign::Age { age, .. }) if age == Duration::from_secs(61)
        ));
        let huge = [("age", "99999999999999999999999")];
        assert!(sign(&huge, max_age(60)).is_some());
        for nonsense in ["", "-5", "1.5", "old"] {
            assert_eq!(sign(&[("age", nonsense)], max_age(0)), None, "{nonsense}");
        }
    }

    #[test]
    fn a_date_counts_where_there_is_no_age_beyond_the_skew_of_clocks() {
        let date = |minutes: u64| {
            let at = time(NOW) - Duration::from_secs(60 * minutes);
            httpdate::fmt_http_date(at)
        };
        assert_eq!(sign(&[("date", &date(6))], max_age(60)), None);
        assert!(sign(&[("date", &date(7))], max_age(60)).is_some());
        assert_eq!(sign(&[("date", &date(7)), ("age", "3")], max_age(60)), None);
        let later = httpdate::fmt_http_date(time(NOW) + Duration::from_secs(86_400));
        assert_eq!(sign(&[("date", &later)], max_age(0)), None);
    }

    #[test]
    fn what_was_modified_before_the_source_is_stale() {
        let expected = not_before("Sun, 06 Sep 2026 11:00:00 GMT");
        let modified = |date| sign(&[("last-modified", date), ("x-cache", "STALE")], expected);
        assert!(matches!(
            modified("Sun, 06 Sep 2026 10:59:59 GMT"),
            Some(Sign::Modified { .. })
        ));
        assert_eq!(modified("Sun, 06 Sep 2026 11:00:00 GMT"), None);
        let fine = Expected {
            not_before: expected.not_before.map(|at| at + Duration::from_nanos(5)),
            ..expected
        };
        let header = [("last-modified", "Sun, 06 Sep 2026 11:00:00 GMT")];
        assert_eq!(sign(&header, fine), None, "HTTP knows whole seconds only");
    }

    #[test]
    fn what_was_made_before_the_source_was_modified_is_stale() {
        let expected = not_before("Sun, 06 Sep 2026 11:00:00 GMT");
        assert!(matches!(
            sign(&[("age", "3602")], expected),
            Some(Sign::Made { .. })
        ));
        assert_eq!(
            sign(&[("age", "3600"), ("x-cache", "STALE")], expected),
            None
        );
        let date = |date| sign(&[("date", date)], expected);
        assert!(date("Sun, 06 Sep 2026 10:54:00 GMT").is_some());
        assert_eq!(date("Sun, 06 Sep 2026 10:56:00 GMT"), None, "clocks differ");
    }

    #[test]
    fn what_a_cache_says_counts_where_the_age_is_not_known_to_be_good() {
        let none = Expected::default();
        for (name, value) in [
            ("warning", "110 - \"Response is Stale\""),
            ("warning", "299 - \"x\", 111 cache \"Revalidation Failed\""),
            ("x-cache", "STALE"),
            (
                "x-cache",
                "TCP_REFRESH_FAIL_HIT from a.example (AkamaiGHost)",
            ),
            ("x-cache-status", "UPDATING"),
            ("cf-cache-status", "stale"),
            ("cache-status", "Edge; hit; ttl=-412"),
        ] {
            let expected = Some(Sign::Said(HeaderName::from_static(name)));
            assert_eq!(sign(&[(name, value)], none), expected, "{value}");
            assert_eq!(sign(&[(name, value), ("age", "5")], none), expected);
            assert_eq!(sign(&[(name, value), ("age", "5")], max_age(60)), None);
        }
        for (name, value) in [
            ("warning", "199 - \"misc 110 m\""),
            ("x-cache", "HIT"),
            ("x-cache", "HIT from stale.example.org"),
            ("x-cache", "Miss from cloudfront"),
            ("cf-cache-status", "HIT"),
            ("cf-cache-status", "DYNAMIC"),
            ("cache-status", "Edge; hit; ttl=412"),
            ("cache-status", "Edge; fwd=stale"),
        ] {
            assert_eq!(sign(&[(name, value)], none), None, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_headers_are_read_and_told_without_a_panic(
            age in "[0-9]{0,25}|\\PC{0,9}", date in prop::option::of(0u64..300_000_000_000), max in any::<u64>(), before in any::<u32>(),
        ) {
            let mut headers = HeaderMap::new();
            if let Ok(age) = HeaderValue::from_bytes(age.as_bytes()) {
                headers.insert(AGE, age);
            }
            if let Some(seconds) = date.filter(|seconds| *seconds < YEAR_10000) {
                let at = UNIX_EPOCH + Duration::from_secs(seconds);
                headers.insert(DATE, httpdate::fmt_http_date(at).parse().unwrap());
                headers.insert(LAST_MODIFIED, httpdate::fmt_http_date(at).parse().unwrap());
            }
            let not_before = UNIX_EPOCH + Duration::from_secs(u64::from(before) * 1_000);
            for expected in [max_age(max), Expected { max_age: None, not_before: Some(not_before) }] {
                if let Some(sign) = Sign::of(&headers, &expected, || time(NOW)) {
                    let _ = Stale { sign }.to_string();
                }
            }
        }
    }
}
