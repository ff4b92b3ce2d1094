//! Exception code, text or status to [`Disposition`].

use std::sync::LazyLock;
use std::time::Duration;

use aho_corasick::AhoCorasick;
use http::StatusCode;

use crate::Disposition;
use crate::kvp::contains_ignore_case;

mod words;

use words::{
    LIMITS, MAP_FILE, MISTAKES, MISUSED, NOTHING, OUTAGES, PERMANENT, SOURCE_GONE, THROTTLED,
    TRANSIENT, TROUBLE,
};

use Disposition::{Ambiguous, Permanent, Throttled, Transient};

/// What a code says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It decides, whatever the status.
    Decides(Disposition),
    /// It stands for any error: text and status decide.
    SaysNothing,
    /// Not known here.
    No,
}

/// Weighs code, text and status of one failure.
pub(crate) fn disposition(
    code: Option<&str>,
    text: &str,
    status: StatusCode,
    has_retry_after: bool,
) -> Disposition {
    let known = code.map(of_code);
    // MapServer gives such codes to whatever went wrong while it read a parameter's layer.
    if code.is_some_and(|code| MISUSED.contains(&code))
        && any_of(text, SOURCE_GONE)
        && !any_of(text, MAP_FILE)
    {
        return Transient;
    }
    if let Some(Known::Decides(disposition)) = known {
        return disposition;
    }
    let by_text = of_text(text);
    match status.as_u16() {
        429 => Throttled,
        503 if has_retry_after || by_text == Some(Throttled) => Throttled,
        502 | 504 if by_text == Some(Throttled) => Throttled,
        408 | 425 | 502..=504 | 520..=524 | 529 | 530 => Transient,
        // Proxies dress their pages with "try again later" whatever they refuse; only a limit counts against these.
        401..=407 | 410..=421 | 423 | 426 | 428 | 431 | 451 | 498 | 499
            if by_text == Some(Throttled) =>
        {
            Throttled
        }
        404 if by_text == Some(Transient) && known == Some(Known::SaysNothing) => Transient,
        401..=407 | 410..=421 | 423 | 426 | 428 | 431 | 451 | 498 | 499 => Permanent,
        other => by_text.unwrap_or(match (known, other) {
            (_, 501 | 505 | 510 | 511) => Permanent,
            (Some(Known::No), 500..) => Transient,
            (None, 424) => Ambiguous,
            (Some(Known::No), _) | (None, 400..=499) => Permanent,
            _ => Ambiguous,
        }),
    }
}

/// Whether a code asks for other credentials: openEO, OAuth and their kin.
pub(crate) fn wants_credentials(code: &str) -> bool {
    const CODES: &[&str] = &[
        "TokenInvalid",
        "AuthenticationRequired",
        "AuthenticationSchemeInvalid",
        "CredentialsInvalid",
        "invalid_token",
        "ExpiredToken",
        "token_expired",
        "ExpiredTokenException",
        "InvalidToken",
        "TokenExpired",
        "RequestExpired",
    ];
    CODES.iter().any(|known| same_name(known, code))
}

/// A delay that the words name: `in 26 seconds`, `after 5 minutes`.
pub(crate) fn delay_in(text: &str) -> Option<Duration> {
    if !any_of(text, &["again", "retry", "wait", "available"]) {
        return None;
    }
    let mut words = text
        .split(|character: char| !character.is_ascii_alphanumeric() && character != '.')
        .filter(|word| !word.is_empty());
    let mut before = "";
    let mut in_wait = false;
    while let Some(word) = words.next() {
        let is = |known: &[&str]| known.iter().any(|known| word.eq_ignore_ascii_case(known));
        // A time-out `after 26 seconds` is no advice; `try again in`, `retry after`, `slot available after` are.
        in_wait |= is(&["retry", "again", "wait", "available", "retry_after"]);
        if in_wait
            && ["in", "after", "for", "wait"]
                .iter()
                .any(|known| before.eq_ignore_ascii_case(known))
            && let Ok(amount) = word.trim_matches(['s', '.']).parse::<u64>()
        {
            let unit = words.clone().next().unwrap_or_default().trim_matches('.');
            let seconds = match unit.to_ascii_lowercase().as_str() {
                "ms" | "milliseconds" | "millisecond" => {
                    return Some(Duration::from_millis(amount)).filter(|delay| !delay.is_zero());
                }
                "second" | "seconds" | "sec" | "secs" | "s" => amount,
                "minute" | "minutes" | "min" | "mins" => amount.saturating_mul(60),
                "hour" | "hours" => amount.saturating_mul(3600),
                _ if word.ends_with('s') => amount,
                _ => {
                    before = word;
                    continue;
                }
            };
            return Some(Duration::from_secs(seconds))
                .filter(|delay| !delay.is_zero() && *delay <= Duration::from_secs(7 * 86_400));
        }
        before = word;
    }
    None
}

/// A code as the tables spell it.
pub(crate) fn known_name(code: &str) -> Option<&'static str> {
    let code = last_part(code);
    [PERMANENT, NOTHING, TRANSIENT, THROTTLED]
        .into_iter()
        .flatten()
        .copied()
        .find(|name| same_name(name, code))
}

/// Without the namespace that some put before it.
fn last_part(code: &str) -> &str {
    let code = code.trim();
    code.rsplit([':', '/', '#']).next().unwrap_or(code)
}

/// What the code says: by its name, else by the words its name is made of.
pub(crate) fn of_code(code: &str) -> Known {
    let code = last_part(code);
    let is = |names: &[&str]| names.iter().any(|name| same_name(name, code));
    if is(PERMANENT) {
        return Known::Decides(Permanent);
    }
    if is(NOTHING) {
        return Known::SaysNothing;
    }
    if is(TRANSIENT) {
        return Known::Decides(Transient);
    }
    if is(THROTTLED) {
        return Known::Decides(Throttled);
    }
    let has = |words: &[&str]| {
        words
            .iter()
            .any(|word| contains_ignore_case(code.as_bytes(), word))
    };
    if has(&[
        "ratelimit",
        "rate_limit",
        "rate limit",
        "rate-limit",
        "throttl",
        "toomanyrequest",
        "too_many_request",
        "too-many-request",
        "quota",
        "over_query",
        "over_rate",
        "slowdown",
    ]) {
        return Known::Decides(Throttled);
    }
    if has(&[
        "timeout",
        "timedout",
        "timed_out",
        "time_out",
        "busy",
        "unavailable",
        "overload",
        "temporar",
        "maintenance",
        "database",
        "outofmemory",
        "notready",
        "not-ready",
        "connection",
    ]) {
        return Known::Decides(Transient);
    }
    if has(&["internal"]) {
        return Known::SaysNothing;
    }
    if has(&[
        "invalid",
        "missing",
        "notfound",
        "not_found",
        "not found",
        "not-found",
        "notdefined",
        "notsupported",
        "not_supported",
        "not supported",
        "unsupported",
        "unknown",
        "denied",
        "forbidden",
        "unauthorized",
        "nosuch",
        "no-such",
        "no_such",
        "illegal",
        "malformed",
        "outofrange",
        "notallowed",
        "not_allowed",
        "bad request",
        "badrequest",
        "bad_request",
        "duplicate",
        "notwellformed",
        "exceed",
        "wrong",
        "expired",
        "required",
        "validation",
    ]) {
        return Known::Decides(Permanent);
    }
    Known::No
}

/// What the words say; `None` where they say nothing, or say both.
pub(crate) fn of_text(text: &str) -> Option<Disposition> {
    let mut said = [false; LISTS.len()];
    for found in WORDS.0.find_overlapping_iter(text) {
        said[usize::from(WORDS.1[found.pattern().as_usize()])] = true;
    }
    let [limit, map_file, outage, trouble, mistake] = said;
    match () {
        () if limit => Some(Throttled),
        () if map_file => Some(Permanent),
        () if outage => Some(Transient),
        () if trouble && !mistake => Some(Transient),
        () if mistake && !trouble => Some(Permanent),
        () => None,
    }
}

/// All words as one automaton, and the list that each stands in.
static WORDS: LazyLock<(AhoCorasick, Vec<u8>)> = LazyLock::new(|| {
    let lists = (0_u8..)
        .zip(LISTS)
        .flat_map(|(list, words)| words.iter().map(move |word| (list, *word)));
    let (lists, words): (Vec<u8>, Vec<&str>) = lists.unzip();
    let automaton = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(words);
    (automaton.expect("a few hundred short words"), lists)
});

const LISTS: [&[&str]; 5] = [LIMITS, MAP_FILE, OUTAGES, TROUBLE, MISTAKES];

fn any_of(text: &str, words: &[&str]) -> bool {
    words
        .iter()
        .any(|word| contains_ignore_case(text.as_bytes(), word))
}

/// `LayerNotDefined`, `layer-not-defined`, `LAYER_NOT_DEFINED` and `Layer not defined` are one name.
fn same_name(name: &str, code: &str) -> bool {
    fn plain(text: &str) -> impl Iterator<Item = u8> {
        let letters = text.bytes().filter(u8::is_ascii_alphanumeric);
        letters.map(|byte| byte.to_ascii_lowercase())
    }
    name.len() <= code.len() && plain(name).eq(plain(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_code_beats_the_status() {
        let judge = |code, status| {
            disposition(Some(code), "", StatusCode::from_u16(status).unwrap(), false)
        };
        assert_eq!(judge("LayerNotDefined", 500), Permanent);
        assert_eq!(judge("ServerBusy", 400), Throttled);
        assert_eq!(judge("DatabaseError", 424), Transient);
        assert_eq!(
            judge(
                "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/result-not-ready",
                404
            ),
            Transient
        );
    }

    #[test]
    fn a_delay_is_read_where_the_words_advise_one() {
        for (text, seconds) in [
            ("Rate limit is exceeded. Try again in 53 seconds.", Some(53)),
            (
                "Slot available after: 2026-03-14T09:30:00Z, in 7 seconds.",
                Some(7),
            ),
            ("Please retry after 2 minutes", Some(120)),
            (
                "Query timed out in \"query\" at line 3 after 26 seconds.",
                None,
            ),
            ("try again in 0 seconds", None),
            ("try again in 99999999999999999999 seconds", None),
        ] {
            assert_eq!(delay_in(text), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn without_a_code_the_text_decides() {
        let judge =
            |text, status| disposition(None, text, StatusCode::from_u16(status).unwrap(), false);
        assert_eq!(
            judge(
                "java.io.IOException: canceling statement due to statement timeout",
                200
            ),
            Transient
        );
        assert_eq!(
            judge(
                "msShapefileOpen(): Unable to access file. (/srv/a.shp)",
                200
            ),
            Transient
        );
        assert_eq!(
            judge("msLoadMap(): Unable to access file. (/srv/a.map)", 200),
            Permanent
        );
        assert_eq!(judge("All backends (1) failed", 400), Transient);
        assert_eq!(judge("rendering style refers to a symbol", 200), Ambiguous);
        assert_eq!(judge("Developer Over Qps", 403), Throttled);
        assert_eq!(judge("Request blocked. Try again later", 403), Permanent);
    }
}
