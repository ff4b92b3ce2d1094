//! What contradicts itself, and what is suspicious though it can be.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use super::block::{Block, Switch};
use super::error::Problem;
use super::tree::Place;
use super::value::show_duration;
use super::{SettingsFile, UnknownHosts};
use crate::call::Pattern;

/// What cannot be, though each value alone can.
pub(super) fn contradictions(file: &SettingsFile, add: &mut dyn FnMut(Place, String)) {
    let mut hosts: HashMap<Pattern, (&str, Place)> = HashMap::new();
    for (name, block) in &file.endpoints {
        let places = block.places.iter().filter(|(key, _)| *key == HOST);
        for (host, (_, place)) in block.hosts.iter().zip(places) {
            let Ok(pattern) = Pattern::parse(host.as_str()) else {
                continue;
            };
            if let Some((other, first)) = hosts.insert(pattern, (name, *place)) {
                let whose = match other == &**name {
                    true => "this endpoint".to_owned(),
                    false => format!("endpoint `{other}`"),
                };
                let first = match first.line {
                    0 => String::new(),
                    line => format!(" in line {line}"),
                };
                add(
                    *place,
                    format!(
                        "endpoint `{name}`: `hosts`: `{host}` is a host of {whose} already{first}"
                    ),
                );
            }
        }
    }
    for (scope, block) in blocks(file) {
        let set_base = block.base.or(file.defaults.base);
        let set_cap = block.cap.or(file.defaults.cap);
        let base = set_base.unwrap_or(Duration::from_secs(1));
        let cap = set_cap.unwrap_or(Duration::from_secs(60));
        if base > cap && (block.base.is_some() || block.cap.is_some()) {
            let key = match block.cap {
                Some(_) => "cap_seconds",
                None => "base_seconds",
            };
            let default = match set_base.is_none() || set_cap.is_none() {
                true => ", which is the default",
                false => "",
            };
            let (base, cap) = (show_duration(base), show_duration(cap));
            let message = match set_cap.is_none() {
                true => format!("base_seconds {base} is longer than cap_seconds {cap}{default}"),
                false => format!("cap_seconds {cap} is shorter than base_seconds {base}{default}"),
            };
            add(block.place(key), format!("{scope}{message}"));
        }
        if let Some(missing) = missing_feature(block, cfg!(feature = "completeness")) {
            add(block.place("completeness"), format!("{scope}{missing}"));
        }
        if block.concurrency.is_some() && block.is_adaptive() {
            add(
                block.place("concurrency"),
                format!(
                    "{scope}`concurrency` and `adaptive` exclude each other, expected one (adaptive.ceiling is its bound)"
                ),
            );
        }
    }
}

/// What is asked for and this build cannot do.
fn missing_feature(block: &Block, can_check: bool) -> Option<&'static str> {
    (matches!(block.completeness, Some(Switch::On(_))) && !can_check).then_some(
        "`completeness` needs the crate's feature `completeness`, which this build is without",
    )
}

/// What can be but is probably not meant.
pub(super) fn warnings(file: &SettingsFile) -> Vec<Problem> {
    let mut warnings = Vec::new();
    for (scope, block) in blocks(file) {
        let effective = block.or(&file.defaults);
        let mut warn = |keys: &[&str], message: String| {
            // A block says only what it makes of it; what it inherits is said of where it comes from.
            if keys.iter().any(|key| block.shown(key).is_some()) {
                let stands = |key: &&&str| block.shown(key).is_some();
                let key = keys.iter().find(stands).copied().unwrap_or_default();
                warnings.push(Problem {
                    file: file.file.clone(),
                    place: block.place(key),
                    message: format!("{scope}{message}").into(),
                });
            }
        };
        suspicious(&effective, &mut warn);
    }
    warnings.sort_by_key(|warning| warning.place);
    warnings
}

fn suspicious(of: &Block, warn: &mut dyn FnMut(&[&str], String)) {
    let head = of.head();
    if let Some(p99) = of.healthy_p99
        && head.as_secs_f64() < 1.2 * p99.as_secs_f64()
    {
        let least = Duration::from_secs_f64(1.2 * p99.as_secs_f64());
        let name = match of.head_timeout.is_some() {
            true => "head_timeout",
            false => "read_timeout",
        };
        warn(
            &["read_timeout", "head_timeout", "healthy_p99"],
            format!(
                "{name} {} is below 1.2 x healthy_p99 {}: good answers are cut off and rendered again; at least {}",
                show_duration(head),
                show_duration(p99),
                show_duration(least)
            ),
        );
    }
    let budget = of.budget.unwrap_or(Duration::from_secs(600));
    if budget < head {
        warn(
            &["budget_seconds", "read_timeout", "head_timeout"],
            format!(
                "budget_seconds {} is shorter than one attempt may take, {}: nothing that times out is repeated",
                show_duration(budget),
                show_duration(head)
            ),
        );
    }
    if let (Some(whole), true) = (
        of.whole_timeout,
        of.whole_timeout.is_some_and(|whole| whole < head),
    ) {
        warn(
            &["whole_timeout", "read_timeout", "head_timeout"],
            format!(
                "whole_timeout {} is shorter than the head alone may take, {}",
                show_duration(whole),
                show_duration(head)
            ),
        );
    }
    if let Some(cap) = of.cap
        && cap > budget
    {
        warn(
            &["cap_seconds", "budget_seconds"],
            format!(
                "cap_seconds {} is longer than budget_seconds {}: it is never reached",
                show_duration(cap),
                show_duration(budget)
            ),
        );
    }
    if of.max_park.is_some() && of.park != Some(true) {
        warn(
            &["max_park", "park"],
            "max_park has no effect without `park: true`".to_owned(),
        );
    }
    limits(of, warn);
}

fn limits(of: &Block, warn: &mut dyn FnMut(&[&str], String)) {
    let in_flight = of.in_flight();
    let answer = of
        .healthy_p99
        .unwrap_or(Duration::from_secs(1))
        .as_secs_f64();
    let answers_of = match of.healthy_p99 {
        Some(p99) => format!("{} (healthy_p99)", show_duration(p99)),
        None => "1s".to_owned(),
    };
    let slowest = of
        .rate
        .iter()
        .min_by(|a, b| a.per_second().total_cmp(&b.per_second()));
    if let Some(rate) = slowest
        && rate.burst == 1
        && of.concurrency.is_some()
        && in_flight as f64 > 4.0 * (rate.per_second() * answer).max(1.0)
    {
        warn(
            &["concurrency", "rate", "healthy_p99"],
            format!(
                "concurrency {in_flight} is far above what a rate of {rate} without a burst keeps in flight with answers \
                 of {answers_of}: the rest of it only waits"
            ),
        );
    }
    let Some(text) = &of.published_limit else {
        return;
    };
    match published(text.as_str()) {
        Some(Published::InFlight(limit)) if in_flight as f64 > limit => warn(
            &["concurrency", "adaptive", "published_limit"],
            format!(
                "concurrency {in_flight} is over the published limit (`{text}`), read as {limit} answers in flight"
            ),
        ),
        Some(Published::PerSecond(limit)) => match slowest {
            Some(rate) if rate.per_second() > limit * 1.000_001 => warn(
                &["rate", "published_limit"],
                format!(
                    "rate {rate} is over the published limit (`{text}`), read as {} a second",
                    rounded(limit)
                ),
            ),
            None if in_flight as f64 > (limit * answer).max(1.0) => warn(
                &["concurrency", "adaptive", "published_limit"],
                format!(
                    "concurrency {in_flight} is over the published limit (`{text}`), read as {} a second: with answers of \
                     {answers_of} it asks for {} a second, and there is no `rate`",
                    rounded(limit),
                    rounded(in_flight as f64 / answer)
                ),
            ),
            _ => {}
        },
        _ => {}
    }
}

#[derive(Debug, PartialEq)]
enum Published {
    InFlight(f64),
    PerSecond(f64),
}

/// What the beginning of a published limit says, where it begins with a number.
///
/// `1/s`, `1 rps`, `60 req/min`, `2500 requests per day`, `300 per 5 min`: a rate. `2`, `2 slots`, `4 concurrent …`: in flight.
fn published(text: &str) -> Option<Published> {
    let text = text.trim().to_ascii_lowercase();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let rest = &text[end..];
    let mut words = rest
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '/')
        .flat_map(|word| word.split_inclusive('/'))
        .filter(|word| !word.is_empty())
        .peekable();
    let is_bare = rest.trim_start().starts_with(['(', ',', ';', ':']);
    let Some(first) = words.peek().copied().filter(|_| !is_bare) else {
        return Some(Published::InFlight(number));
    };
    let per = match first {
        "rps" | "qps" | "tps" => return Some(Published::PerSecond(number)),
        "rpm" | "qpm" => return Some(Published::PerSecond(number / 60.0)),
        "/" => first,
        _ => {
            let first = words.next()?;
            let of_calls = ["req", "quer", "call", "tile", "r/"];
            let is_calls = of_calls.iter().any(|word| first.starts_with(word));
            let in_flight = [
                "concurrent",
                "parallel",
                "simultaneous",
                "slot",
                "connection",
                "thread",
                "worker",
                "at",
                "in",
            ];
            match first {
                "per" | "a" | "an" => return rate(number, words),
                _ if first.ends_with('/') => return rate(number, words),
                _ if is_calls => words.peek().copied()?,
                _ if in_flight.iter().any(|word| first.starts_with(word)) => {
                    return Some(Published::InFlight(number));
                }
                _ => return None,
            }
        }
    };
    match per {
        "/" | "per" | "a" | "an" => {
            words.next();
            rate(number, words)
        }
        "in" | "at" | "concurrently" => Some(Published::InFlight(number)),
        _ => None,
    }
}

/// What follows on `per`.
fn rate<'a>(number: f64, mut words: impl Iterator<Item = &'a str>) -> Option<Published> {
    let mut unit = words.next()?.trim_end_matches('/');
    let mut count = 1.0;
    let digits = unit.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        count = unit[..digits].parse().ok()?;
        unit = match &unit[digits..] {
            "" => words.next()?,
            unit => unit,
        };
    }
    let seconds = match unit {
        "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    };
    (count > 0.0).then(|| Published::PerSecond(number / (count * seconds)))
}

fn rounded(number: f64) -> f64 {
    match number {
        0.01.. => (number * 100.0).round() / 100.0,
        _ => (number * 1e6).round() / 1e6,
    }
}

/// Every block, with whom messages are about.
fn blocks(file: &SettingsFile) -> impl Iterator<Item = (Scope<'_>, &Block)> {
    let unknown = match &file.unknown_hosts {
        UnknownHosts::Block(block) => Some((Scope::UnknownHosts, &**block)),
        _ => None,
    };
    let endpoints = file
        .endpoints
        .iter()
        .map(|(name, block)| (Scope::Endpoint(name), block));
    std::iter::once((Scope::Defaults, &file.defaults))
        .chain(unknown)
        .chain(endpoints)
}

#[derive(Clone, Copy)]
enum Scope<'a> {
    Defaults,
    UnknownHosts,
    Endpoint(&'a str),
}

impl fmt::Display for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defaults => f.write_str("defaults: "),
            Self::UnknownHosts => f.write_str("unknown_hosts: "),
            Self::Endpoint(name) => write!(f, "endpoint `{name}`: "),
        }
    }
}

/// What a block's places call one of its hosts.
pub(super) const HOST: &str = "host";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Completeness;

    #[test]
    fn what_this_build_cannot_check_is_refused() {
        let asked = |completeness| Block {
            completeness,
            ..Block::default()
        };
        let on = asked(Some(Switch::On(Completeness::Streaming)));
        assert!(missing_feature(&on, false).is_some());
        assert_eq!(missing_feature(&on, true), None);
        for off in [asked(None), asked(Some(Switch::Off))] {
            assert_eq!(missing_feature(&off, false), None);
        }
    }

    #[test]
    fn what_a_published_limit_begins_with_is_a_rate_or_a_number_in_flight() {
        let day = 86_400.0;
        for (text, expected) in [
            ("1/s", Published::PerSecond(1.0)),
            ("1 rps on a shared key", Published::PerSecond(1.0)),
            (
                "1 req/s per application (operations.osmfoundation.org)",
                Published::PerSecond(1.0),
            ),
            ("600/min per token", Published::PerSecond(10.0)),
            ("3000 QPM", Published::PerSecond(50.0)),
            ("2500 requests per day", Published::PerSecond(2_500.0 / day)),
            ("500 a day", Published::PerSecond(500.0 / day)),
            ("300 per 5 min", Published::PerSecond(1.0)),
            ("300/5min", Published::PerSecond(1.0)),
            ("2 slots per IP", Published::InFlight(2.0)),
            ("2 concurrent requests", Published::InFlight(2.0)),
            ("4 requests at once", Published::InFlight(4.0)),
            ("4", Published::InFlight(4.0)),
            ("4 (the operator's mail of 3 May)", Published::InFlight(4.0)),
        ] {
            assert_eq!(published(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "none",
            "about 1/s",
            "10 GB a day",
            "5 stars",
            "1 request per blue moon",
        ] {
            assert_eq!(published(text), None, "{text}");
        }
    }
}
