use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AGE, DATE, RETRY_AFTER},
};

/// When the server says to come back: what an answer's headers say, before any clamp.
///
/// Read from `Retry-After` (RFC 9110 section 10.2.3) in either form, else from a millisecond header of an API gateway,
/// else from the rate headers of a spent quota. `0`, negative, overflowing and unreadable values are no hint, and so are
/// the headers of an answer that a cache kept for a while (`Age` above 0).
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tower_spatial::retry::RetryAfter;
///
/// let mut headers = http::HeaderMap::new();
/// headers.insert("retry-after", "120".parse()?);
/// let hint = RetryAfter::read(&headers, SystemTime::now());
/// assert_eq!(hint.map(RetryAfter::duration), Some(Duration::from_secs(120)));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryAfter(Duration);

impl RetryAfter {
    /// Reads the hint from an answer's headers. `now` stands in where the answer has no `Date` of its own.
    pub fn read(headers: &HeaderMap, now: SystemTime) -> Option<Self> {
        let seconds = |value: &str| Some(Duration::from_secs_f64(seconds(value)?));
        Self::read_in(headers, now, &seconds)
    }

    /// The same for a service whose `Retry-After` counts milliseconds, as Sentinel Hub's does.
    pub fn read_milliseconds(headers: &HeaderMap, now: SystemTime) -> Option<Self> {
        Self::read_in(headers, now, &milliseconds)
    }

    /// Until a quota is renewed of which this answer, throttled or not, says that nothing is left.
    pub(crate) fn of_spent_quota(headers: &HeaderMap, now: SystemTime) -> Option<Self> {
        let says = |name: &HeaderName| {
            let name = name.as_str();
            name.ends_with("-remaining") || name == "ratelimit"
        };
        // Most answers say nothing; this costs less than asking for each name.
        if !headers.keys().any(says) || is_cached(headers) {
            return None;
        }
        let sent = text(headers, DATE).and_then(date::parse).unwrap_or(now);
        quota::until_reset_of_spent(headers, sent)
            .filter(|hint| !hint.is_zero())
            .map(Self)
    }

    /// How long to wait from the arrival of the answer.
    pub fn duration(self) -> Duration {
        self.0
    }

    fn read_in(
        headers: &HeaderMap,
        now: SystemTime,
        delta: &dyn Fn(&str) -> Option<Duration>,
    ) -> Option<Self> {
        if is_cached(headers) {
            return None;
        }
        // Against the server's own clock a skew between the two does not matter.
        let sent = text(headers, DATE).and_then(date::parse).unwrap_or(now);
        let retry_after = |value: &str| delta(value).or_else(|| until(date::parse(value)?, sent));
        longest(headers, RETRY_AFTER, retry_after)
            .or_else(|| {
                MILLISECOND_HEADERS
                    .into_iter()
                    .find_map(|name| longest(headers, name, milliseconds))
            })
            .or_else(|| quota::until_reset(headers, sent))
            .filter(|hint| !hint.is_zero())
            .map(Self)
    }
}

/// Headers of API gateways and object stores that count milliseconds.
const MILLISECOND_HEADERS: [&str; 3] =
    ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"];

fn is_cached(headers: &HeaderMap) -> bool {
    text(headers, AGE)
        .and_then(|age| age.parse::<u64>().ok())
        .is_some_and(|age| age > 0)
}

fn text(headers: &HeaderMap, name: impl http::header::AsHeaderName) -> Option<&str> {
    headers.get(name).and_then(readable)
}

fn readable(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok().map(str::trim)
}

fn longest(
    headers: &HeaderMap,
    name: impl http::header::AsHeaderName,
    read: impl Fn(&str) -> Option<Duration>,
) -> Option<Duration> {
    headers
        .get_all(name)
        .iter()
        .filter_map(readable)
        .filter_map(read)
        .filter(|d| !d.is_zero())
        .max()
}

fn until(then: SystemTime, sent: SystemTime) -> Option<Duration> {
    then.duration_since(sent).ok()
}

/// A plain decimal number of seconds above zero that a clock can count: no sign, no exponent.
fn seconds(value: &str) -> Option<f64> {
    let plain = value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number = value.parse::<f64>().ok().filter(|_| plain)?;
    (number > 0.0 && number < MAX_SECONDS).then_some(number)
}

fn milliseconds(value: &str) -> Option<Duration> {
    seconds(value).map(|number| Duration::from_secs_f64(number / 1000.0))
}

/// Holds epochs in milliseconds for some centuries; what is longer is an overflow, not a hint.
const MAX_SECONDS: f64 = 1e13;

mod quota {
    use super::*;

    /// Until a spent quota is renewed, by the headers in use (facts: seconds, epoch in seconds or milliseconds, dates).
    pub(super) fn until_reset(headers: &HeaderMap, sent: SystemTime) -> Option<Duration> {
        structured(headers).or_else(|| {
            FAMILIES
                .iter()
                .filter(|family| is_spent(headers, family))
                .find_map(|family| longest(headers, family.reset, |value| moment(value, sent)))
        })
    }

    /// The same where it must say itself that nothing is left.
    pub(super) fn until_reset_of_spent(headers: &HeaderMap, sent: SystemTime) -> Option<Duration> {
        structured(headers).or_else(|| {
            FAMILIES
                .iter()
                .filter(|family| left(headers, family).is_some_and(|left| left <= 0.0))
                .find_map(|family| longest(headers, family.reset, |value| moment(value, sent)))
        })
    }

    struct Family {
        remaining: &'static str,
        reset: &'static str,
    }

    const FAMILIES: [Family; 4] = [
        Family {
            remaining: "ratelimit-remaining",
            reset: "ratelimit-reset",
        },
        Family {
            remaining: "x-ratelimit-remaining",
            reset: "x-ratelimit-reset",
        },
        Family {
            remaining: "x-rate-limit-remaining",
            reset: "x-rate-limit-reset",
        },
        Family {
            remaining: "x-processingunits-remaining",
            reset: "x-processingunits-reset",
        },
    ];

    /// Something that is left says that this limit is not what was hit.
    fn is_spent(headers: &HeaderMap, family: &Family) -> bool {
        left(headers, family).is_none_or(|left| left <= 0.0)
    }

    fn left(headers: &HeaderMap, family: &Family) -> Option<f64> {
        text(headers, family.remaining)?.parse().ok()
    }

    /// A number above 10^9 is an epoch, one above 10^12 an epoch in milliseconds, a smaller one a delta in seconds;
    /// letters are a date.
    fn moment(value: &str, sent: SystemTime) -> Option<Duration> {
        match seconds(value) {
            Some(number) if number >= 1e12 => {
                until(UNIX_EPOCH + Duration::from_secs_f64(number / 1e3), sent)
            }
            Some(number) if number >= 1e9 => {
                until(UNIX_EPOCH + Duration::from_secs_f64(number), sent)
            }
            Some(number) => Some(Duration::from_secs_f64(number)),
            None => until(date::parse(value)?, sent),
        }
    }

    /// `RateLimit` of the IETF httpapi drafts: `"default";r=0;t=30`, and before `limit=10, remaining=0, reset=30`.
    fn structured(headers: &HeaderMap) -> Option<Duration> {
        let field = HeaderName::from_static("ratelimit");
        headers
            .get_all(field)
            .iter()
            .filter_map(readable)
            .filter_map(longest_of_field)
            .max()
    }

    fn longest_of_field(field: &str) -> Option<Duration> {
        let old = field.contains("remaining=");
        let items = if old {
            vec![field]
        } else {
            field.split(',').collect()
        };
        let spent = items.into_iter().filter_map(|item| {
            let parameter = |names: [&str; 2]| {
                item.split([';', ','])
                    .filter_map(|pair| pair.split_once('='))
                    .find_map(|(name, value)| names.contains(&name.trim()).then(|| value.trim()))
            };
            let left = parameter(["r", "remaining"])?.parse::<f64>().ok()?;
            let reset = seconds(parameter(["t", "reset"])?)?;
            (left <= 0.0).then(|| Duration::from_secs_f64(reset))
        });
        spent.max()
    }
}

mod date {
    use super::*;

    /// The three forms of RFC 9110 section 5.6.7, the one of RFC 3339, and the one that JavaScript prints.
    pub(super) fn parse(value: &str) -> Option<SystemTime> {
        httpdate::parse_http_date(value)
            .ok()
            .or_else(|| rfc3339(value))
            .or_else(|| javascript(value))
    }

    /// `Tue Dec 01 2026 17:05:00 GMT+0000 (Coordinated Universal Time)`
    fn javascript(value: &str) -> Option<SystemTime> {
        let mut words = value.split_ascii_whitespace();
        let (weekday, month, day) = (words.next()?, words.next()?, words.next()?);
        let (year, time, zone) = (words.next()?, words.next()?, words.next()?);
        let fixdate = format!("{weekday}, {day} {month} {year} {time} GMT");
        shifted(
            httpdate::parse_http_date(&fixdate).ok()?,
            zone.strip_prefix("GMT")?,
        )
    }

    /// `2026-12-01T17:05:00.25Z`, `2026-12-01 17:05:00+01:00`
    fn rfc3339(value: &str) -> Option<SystemTime> {
        let (day, time) = value.split_once(['T', 't', ' '])?;
        let (time, zone) = time.split_at(time.find(['Z', 'z', '+', '-'])?);
        let [year, month, day] = numbers(day, '-')?;
        let [hour, minute, second] = numbers(time.split('.').next()?, ':')?;
        let sensible = (1970..=9999).contains(&year) && hour < 24 && minute < 60 && second <= 60;
        if !sensible || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        let seconds =
            days_since_epoch(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
        shifted(UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?, zone)
    }

    fn numbers(value: &str, separator: char) -> Option<[u64; 3]> {
        let mut parts = value.split(separator).map(|part| part.parse().ok());
        let numbers = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(numbers)
    }

    /// Of the proleptic Gregorian calendar, from 1970 on; a year counts from March, so that a leap day is its last.
    fn days_since_epoch(year: u64, month: u64, day: u64) -> u64 {
        let (year, month) = if month > 2 {
            (year, month - 3)
        } else {
            (year - 1, month + 9)
        };
        year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468
    }

    /// `time` read in a zone `+0100`, `+01:00`, `Z` or nothing.
    fn shifted(time: SystemTime, zone: &str) -> Option<SystemTime> {
        let Some(sign) = zone.chars().next().filter(|sign| "+-".contains(*sign)) else {
            return Some(time);
        };
        let digits: String = zone[1..]
            .chars()
            .filter(char::is_ascii_digit)
            .take(4)
            .collect();
        let (hours, minutes) = (
            digits.get(..2)?.parse::<u64>().ok()?,
            digits.get(2..4)?.parse::<u64>().ok()?,
        );
        let offset = Duration::from_secs(hours * 3600 + minutes * 60);
        if sign == '+' {
            time.checked_sub(offset)
        } else {
            time.checked_add(offset)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: &str = "Tue, 01 Dec 2026 17:00:00 GMT";

    fn read(headers: &[(&'static str, &str)]) -> Option<u64> {
        hint(headers).map(|hint| hint.duration().as_millis() as u64)
    }

    fn hint(headers: &[(&'static str, &str)]) -> Option<RetryAfter> {
        let map = headers.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_bytes(value.as_bytes()).unwrap(),
            )
        });
        RetryAfter::read(&map.collect(), httpdate::parse_http_date(NOW).unwrap())
    }

    #[test]
    fn seconds_and_dates_are_read() {
        assert_eq!(read(&[("retry-after", "120")]), Some(120_000));
        assert_eq!(read(&[("retry-after", " 1.5 ")]), Some(1_500));
        assert_eq!(
            read(&[("retry-after", "Tue, 01 Dec 2026 17:01:00 GMT")]),
            Some(60_000)
        );
        assert_eq!(
            read(&[("retry-after", "Tuesday, 01-Dec-26 17:01:00 GMT")]),
            Some(60_000)
        );
        assert_eq!(
            read(&[("retry-after", "Tue Dec  1 17:01:00 2026")]),
            Some(60_000)
        );
    }

    #[test]
    fn a_date_is_measured_against_the_clock_that_wrote_it() {
        let skewed = [
            ("date", "Mon, 30 Nov 2026 09:00:00 GMT"),
            ("retry-after", "Mon, 30 Nov 2026 09:00:45 GMT"),
        ];
        assert_eq!(read(&skewed), Some(45_000));
    }

    #[test]
    fn nonsense_is_no_hint() {
        for value in [
            "0",
            "0.0",
            "-1",
            "+5",
            "1e3",
            "soon",
            "",
            "NaN",
            "inf",
            "99999999999999999999999",
            "12 s",
            "\u{e9}",
            "Tue, 01 Dec 2026 16:00:00 GMT",
            "Tue, 99 Dec 2026 17:01:00 GMT",
            "2026-13-01T00:00:00Z",
            "1.2.3",
        ] {
            assert_eq!(read(&[("retry-after", value)]), None, "{value:?}");
        }
    }

    #[test]
    fn a_cached_answer_is_not_believed() {
        assert_eq!(read(&[("retry-after", "5"), ("age", "240524")]), None);
        assert_eq!(read(&[("retry-after", "5"), ("age", "0")]), Some(5_000));
    }

    #[test]
    fn the_longest_of_several_counts_and_a_useless_one_gives_way() {
        assert_eq!(
            read(&[("retry-after", "5"), ("retry-after", "9")]),
            Some(9_000)
        );
        assert_eq!(
            read(&[("retry-after", "0"), ("x-ratelimit-reset", "30")]),
            Some(30_000)
        );
        assert_eq!(
            read(&[("retry-after", "0"), ("retry-after-ms", "250")]),
            Some(250)
        );
    }

    #[test]
    fn a_spent_quota_says_when_it_is_renewed_in_any_unit_in_use() {
        let now: u64 = 1_796_144_400; // NOW
        for reset in [
            "60",
            "60.0",
            &(now + 60).to_string(),
            &((now + 60) * 1000).to_string(),
            "Tue, 01 Dec 2026 17:01:00 GMT",
            "Tue Dec 01 2026 17:01:00 GMT+0000 (Coordinated Universal Time)",
            "Tue Dec 01 2026 18:01:00 GMT+0100 (Central European Standard Time)",
            "2026-12-01T17:01:00Z",
            "2026-12-01T18:01:00.000+01:00",
        ] {
            for name in ["x-ratelimit-reset", "x-rate-limit-reset", "ratelimit-reset"] {
                assert_eq!(read(&[(name, reset)]), Some(60_000), "{name}: {reset}");
            }
        }
        assert_eq!(
            read(&[("x-ratelimit-reset", "60"), ("x-ratelimit-remaining", "0")]),
            Some(60_000)
        );
        assert_eq!(
            read(&[("x-ratelimit-reset", "60"), ("x-ratelimit-remaining", "7")]),
            None
        );
        assert_eq!(
            read(&[("x-rate-limit-reset", &(now - 9).to_string())]),
            None
        );
    }

    #[test]
    fn the_ietf_drafts_are_read() {
        assert_eq!(
            read(&[("ratelimit", r#""default";r=0;t=30"#)]),
            Some(30_000)
        );
        assert_eq!(
            read(&[("ratelimit", r#""burst";r=0;t=3, "day";r=0;t=300"#)]),
            Some(300_000)
        );
        assert_eq!(
            read(&[("ratelimit", r#""burst";r=0;t=3, "day";r=12;t=300"#)]),
            Some(3_000)
        );
        assert_eq!(
            read(&[("ratelimit", "limit=10, remaining=0, reset=30")]),
            Some(30_000)
        );
        assert_eq!(
            read(&[("ratelimit", "limit=10, remaining=3, reset=30")]),
            None
        );
    }

    #[test]
    fn milliseconds_are_read_where_the_service_sends_them() {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static("1500"))]);
        let hint = RetryAfter::read_milliseconds(&headers, UNIX_EPOCH).unwrap();
        assert_eq!(hint.duration(), Duration::from_millis(1_500));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(value in prop::collection::vec(prop_oneof![9u8..10, 32u8..127, 128u8..=255], 0..64)) {
            let value = HeaderValue::from_bytes(&value).unwrap();
            for name in ["retry-after", "x-ratelimit-reset", "ratelimit", "date", "age", "retry-after-ms"] {
                let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value.clone())]);
                let hint = RetryAfter::read(&headers, UNIX_EPOCH);
                prop_assert!(hint.is_none_or(|hint| !hint.duration().is_zero()));
            }
        }

        #[test]
        fn dates_with_hostile_parts_do_not_panic(value in "[0-9]{0,5}[-T :+Z.0-9]{0,30}|[A-Z][a-z]{2} [A-Z][a-z]{2} [0-9]{1,3} [0-9]{1,6} [0-9:]{1,9} GMT[+-]?[0-9:é]{0,6}") {
            let _ = date::parse(&value);
        }
    }
}
