//! What the texts of a settings file mean: times, rates, dates, references to the environment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use load_control::{InvalidQuota, Quota};

use super::block::Rate;

/// `500ms`, `10s`, `5m`, `1h`, `7d`, and sums of them: `1h30m`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_end);
        let unit_end = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        let number: f64 = number.parse().ok()?;
        sum = sum.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(sum)
}

/// As [`duration`] reads it.
pub(super) fn show_duration(duration: Duration) -> String {
    let milliseconds = duration.as_secs_f64() * 1000.0;
    match duration.as_millis() {
        ..1000 => format!("{}ms", (milliseconds * 1000.0).round() / 1000.0),
        _ => format!("{}s", (milliseconds * 1000.0).round() / 1_000_000.0),
    }
}

/// `1/s`, `300/5min`, `2500/day`, `10/s burst 5`.
pub(super) fn rate(text: &str) -> Result<Rate, Option<InvalidQuota>> {
    let (rate, burst) = match text.split_once(" burst ") {
        Some((rate, burst)) => (rate, Some(burst.trim())),
        None => (text, None),
    };
    let (limit, per) = rate.split_once('/').ok_or(None)?;
    let limit = limit.trim().parse().map_err(|_| None)?;
    let period = period(per.trim()).ok_or(None)?;
    let burst = match burst {
        None => 1,
        Some(burst) => burst.parse().map_err(|_| None)?,
    };
    let quota = Quota::new(limit, period).and_then(|quota| quota.with_burst(burst));
    Ok(Rate {
        quota: quota.map_err(Some)?,
        limit,
        period,
        burst,
    })
}

/// What stands behind the stroke of a rate.
fn period(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "s" | "sec" | "second" => 1,
        "min" | "minute" => 60,
        "h" | "hour" => 3_600,
        "d" | "day" => 86_400,
        _ => return None,
    };
    let count: u64 = match count {
        "" => 1,
        count => count.parse().ok()?,
    };
    count.checked_mul(seconds).map(Duration::from_secs)
}

/// A date (`2026-03-01`, its beginning in UTC) or a date and time of RFC 3339 (`2026-03-01T06:00:00Z`, `…+01:00`), from
/// 1970 on.
pub(super) fn moment(text: &str) -> Option<SystemTime> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
        all_digits.then(|| digits.parse().ok())?
    };
    let byte = |at: usize| text.as_bytes().get(at).copied();
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let longest = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if byte(4)? != b'-' || byte(7)? != b'-' || !(1..=longest).contains(&day) {
        return None;
    }
    // Days from civil, after Howard Hinnant's `chrono`-compatible date algorithms.
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    let mut seconds = days * 86_400;
    if text.len() > 10 {
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        let is_time = matches!(byte(10)?, b'T' | b't' | b' ')
            && (byte(13)?, byte(16)?) == (b':', b':')
            && hour < 24
            && minute < 60
            && second <= 60;
        if !is_time {
            return None;
        }
        seconds += hour * 3_600 + minute * 60 + second;
        let mut zone = &text[19..];
        if let Some(fraction) = zone.strip_prefix('.') {
            let end = fraction.find(|c: char| !c.is_ascii_digit())?;
            zone = &fraction[end..];
        }
        seconds -= match zone.as_bytes() {
            [b'Z' | b'z'] => 0,
            [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2]
                if [h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()) =>
            {
                let two =
                    |tens: &u8, ones: &u8| i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
                let offset = two(h1, h2) * 3_600 + two(m1, m2) * 60;
                if *sign == b'+' { offset } else { -offset }
            }
            _ => return None,
        };
    }
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// Puts the environment's values for `${NAME}`; `$${` stands for `${`. `None` where there is nothing to put.
///
/// # Errors
/// The name of a variable that is not set, or what is no reference.
pub(super) fn expand(
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, NotExpanded> {
    if !text.contains("${") {
        return Ok(None);
    }
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let before = &rest[..at];
        let after = &rest[at + 2..];
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = after;
            continue;
        }
        expanded.push_str(before);
        let (name, after) = after.split_once('}').ok_or(NotExpanded::NoReference)?;
        let is_name = !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            return Err(NotExpanded::NoReference);
        }
        let value = environment(name).ok_or_else(|| NotExpanded::NotSet(name.to_owned()))?;
        expanded.push_str(&value);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(Some(expanded))
}

pub(super) enum NotExpanded {
    NotSet(String),
    NoReference,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_with_units() {
        for (text, seconds) in [
            ("500ms", 0.5),
            ("10s", 10.0),
            ("1.5s", 1.5),
            ("5m", 300.0),
            ("5min", 300.0),
            ("1h30m", 5_400.0),
            ("7d", 604_800.0),
        ] {
            assert_eq!(
                duration(text),
                Some(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "10",
            "s",
            "10 s",
            "10sec",
            "1..5s",
            "-1s",
            "1e300h",
            "1m1",
            "99999999999999999999d",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
        for text in ["500ms", "10s", "1800s", "1.5s", "0.25ms"] {
            assert_eq!(show_duration(duration(text).unwrap()), text);
        }
    }

    #[test]
    fn rates_have_a_period_and_perhaps_a_burst() {
        let second = Duration::from_secs(1);
        for (text, limit, period, burst) in [
            ("1/s", 1, second, 1),
            ("600/min", 600, second * 60, 1),
            ("300/5min", 300, second * 300, 1),
            ("2500/day", 2_500, second * 86_400, 1),
            ("100/h burst 10", 100, second * 3_600, 10),
        ] {
            let expected = Quota::new(limit, period)
                .unwrap()
                .with_burst(burst)
                .unwrap();
            let rate = rate(text).unwrap();
            assert_eq!(rate.quota, expected, "{text}");
        }
        for text in [
            "",
            "1",
            "1/",
            "/s",
            "1/m",
            "1/fortnight",
            "x/s",
            "1/s burst",
            "1/s burst x",
            "-1/s",
        ] {
            assert_eq!(rate(text), Err(None), "{text}");
        }
        assert_eq!(rate("0/s"), Err(Some(InvalidQuota::ZeroLimit)));
        assert_eq!(
            rate("2/s burst 3"),
            Err(Some(InvalidQuota::Burst { burst: 3, limit: 2 }))
        );
    }

    #[test]
    fn dates_are_those_of_rfc_3339() {
        for (text, seconds) in [
            ("1970-01-01", 0),
            ("2026-03-01", 1_772_323_200),
            ("2024-02-29", 1_709_164_800),
            ("2026-03-01T06:00:00Z", 1_772_344_800),
            ("2026-03-01 06:00:00.25Z", 1_772_344_800),
            ("2026-03-01T06:00:00+01:00", 1_772_341_200),
            ("2026-03-01T06:00:00-01:30", 1_772_350_200),
        ] {
            let expected = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(moment(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "2026-03-01T",
            "2026-03-01T25:00:00Z",
            "1969-12-31",
            "2026-03-01T06:00:00",
            "2026-03-01T06:00:00+1",
            "2026/03/01",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }
}
