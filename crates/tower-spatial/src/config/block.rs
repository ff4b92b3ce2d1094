use std::fmt;
use std::time::{Duration, SystemTime};

use http::{HeaderName, StatusCode};
use load_control::{AdaptiveSettings, BreakerSettings, Quota};

use super::keys::BLOCK;
use super::tree::Place;
use super::value::show_duration;
use crate::EndpointSettings;
use crate::call::Verdict;
use crate::exception::Dialects;
use crate::limit::rate::KeySource;
use crate::retry::{RetryAfterUnit, RetryPolicy};

/// What a block of a settings file says; `None` and an empty list are what it does not say.
///
/// The units, ranges and defaults stand in the table of the [module](super).
#[derive(Clone, Default)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "each field is the key of its name, and the table describes the keys"
)]
pub struct Block {
    pub hosts: Vec<Text>,
    pub base: Option<Duration>,
    pub cap: Option<Duration>,
    pub budget: Option<Duration>,
    pub attempts: Option<u32>,
    pub honour_retry_after: Option<bool>,
    pub retry_after_max: Option<Duration>,
    pub retry_after_unit: Option<RetryAfterUnit>,
    pub statuses: Vec<(StatusCode, Verdict)>,
    pub ambiguous: Option<u32>,
    pub park: Option<bool>,
    pub max_park: Option<Duration>,
    pub idempotency_keys: Option<bool>,
    pub connect_timeout: Option<Duration>,
    pub read_timeout: Option<Duration>,
    pub head_timeout: Option<Duration>,
    pub idle_timeout: Option<Duration>,
    pub whole_timeout: Option<Duration>,
    pub healthy_p99: Option<Duration>,
    pub concurrency: Option<usize>,
    pub adaptive: Option<Switch<AdaptiveSettings>>,
    pub queue_timeout: Option<Duration>,
    pub reader_patience: Option<Duration>,
    pub rate: Vec<Rate>,
    pub key: Option<Key>,
    pub published_limit: Option<Text>,
    pub breaker: Option<Switch<BreakerSettings>>,
    pub completeness: Option<Switch<Completeness>>,
    pub max_age: Option<Duration>,
    pub not_before: Option<SystemTime>,
    pub cache_busting: Option<Text>,
    pub stagger: Option<Duration>,
    pub dialects: Vec<Text>,
    /// Where its keys stand, by the keys' names.
    pub(super) places: Vec<(&'static str, Place)>,
}

/// Off, or on with settings.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "there is no third")]
pub enum Switch<T> {
    /// `false`.
    Off,
    /// `true`, or a block.
    On(T),
}

/// A text of a settings file. Where it came from the environment, it is never shown: `Debug` and `Display` give the
/// reference, `${NAME}`.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    pub(super) text: Box<str>,
    /// As it stands in the file, where that is a reference to the environment.
    pub(super) reference: Option<Box<str>>,
}

/// A published rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    pub(super) quota: Quota,
    pub(super) limit: u32,
    pub(super) period: Duration,
    pub(super) burst: u32,
}

/// Where a request carries the key that rates are counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Key {
    /// Nowhere: one rate for all.
    None,
    /// In the query, in the parameter of this name.
    Query(Text),
    /// In the header of this name.
    Header(Text),
}

/// How whole answers are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completeness {
    /// They are collected and checked before they are handed on.
    #[default]
    Collect,
    /// They are checked while they are handed on.
    Streaming,
}

impl Text {
    /// What it is.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl Rate {
    /// The quota, as a rate limit takes it.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// How many a second, on average.
    pub(super) fn per_second(&self) -> f64 {
        f64::from(self.limit) / self.period.as_secs_f64()
    }
}

impl Block {
    /// This block, completed from `defaults`.
    #[must_use]
    pub fn or(&self, defaults: &Self) -> Self {
        macro_rules! completed {
            ($($option:ident),*; $($list:ident),*) => {
                Self {
                    $($option: self.$option.clone().or_else(|| defaults.$option.clone()),)*
                    $($list: match self.$list.is_empty() {
                        true => defaults.$list.clone(),
                        false => self.$list.clone(),
                    },)*
                    hosts: self.hosts.clone(),
                    places: self.places.clone(),
                }
            };
        }
        let mut completed = completed!(
            base, cap, budget, attempts, honour_retry_after, retry_after_max, retry_after_unit, ambiguous, park,
            max_park, idempotency_keys, connect_timeout, read_timeout, head_timeout, idle_timeout, whole_timeout,
            healthy_p99, concurrency, adaptive, queue_timeout, reader_patience, key, published_limit, breaker,
            completeness, max_age, not_before, cache_busting, stagger;
            statuses, rate, dialects
        );
        // The nearer of two that exclude each other wins.
        if self.concurrency.is_some() && self.adaptive.is_none() {
            completed.adaptive = None;
        }
        if self.is_adaptive() {
            completed.concurrency = None;
        }
        if self.read_timeout.is_some() {
            completed.head_timeout = self.head_timeout;
            completed.idle_timeout = self.idle_timeout;
        }
        completed
    }

    /// Puts what it says into settings. It is complete: what it does not say is not inherited by a retry policy either, so
    /// it is best asked of what [`or`](Self::or) gives.
    #[must_use]
    pub fn apply(&self, mut settings: EndpointSettings) -> EndpointSettings {
        macro_rules! set {
            ($($setter:ident($value:expr);)*) => {
                $(if let Some(value) = $value { settings = settings.$setter(value); })*
            };
        }
        let quotas: Vec<_> = self.rate.iter().map(Rate::quota).collect();
        set! {
            concurrency(self.concurrency);
            queue_timeout(self.queue_timeout.or(self.budget));
            reader_patience(self.reader_patience);
            retry_after_max(self.retry_after_max);
            retry(self.retry_policy());
            connect_timeout(self.connect_timeout);
            read_timeout(self.read_timeout);
            head_timeout(self.head_timeout);
            idle_timeout(self.idle_timeout);
            whole_timeout(self.whole_timeout);
            dialects(self.read_dialects());
            honours_idempotency_keys(self.idempotency_keys);
            // As it stands in the file: it is there to be shown.
            published_limit(self.published_limit.as_ref().map(Text::to_string));
            stagger(self.stagger);
            key(self.key_source());
            max_age(self.max_age);
            not_before(self.not_before);
            cache_busting_parameter(self.cache_busting.as_ref().map(Text::as_str));
            rate((!quotas.is_empty()).then_some(quotas));
        }
        if let Some(Switch::On(adaptive)) = &self.adaptive {
            settings = settings.adaptive(adaptive.clone());
        }
        match &self.breaker {
            Some(Switch::On(breaker)) => settings = settings.breaker(breaker.clone()),
            Some(Switch::Off) => settings = settings.no_breaker(),
            None => {}
        }
        #[cfg(feature = "completeness")]
        if let Some(completeness) = &self.completeness {
            use crate::verify::completeness::Completeness as Mode;
            settings = settings.completeness(match completeness {
                Switch::Off => Mode::Off,
                Switch::On(Completeness::Collect) => Mode::Collect,
                Switch::On(Completeness::Streaming) => Mode::Streaming,
            });
        }
        settings
    }

    /// How calls are repeated; `None` where it says nothing of it.
    pub fn retry_policy(&self) -> Option<RetryPolicy> {
        let says_nothing = self.base.or(self.cap).or(self.budget).is_none()
            && self.attempts.or(self.ambiguous).is_none()
            && self.honour_retry_after.or(self.park).is_none()
            && self.retry_after_max.is_none()
            && self.retry_after_unit.is_none()
            && self.statuses.is_empty();
        if says_nothing {
            return None;
        }
        let mut policy = RetryPolicy::builder();
        macro_rules! set {
            ($($setter:ident($value:expr);)*) => {
                $(if let Some(value) = $value { policy = policy.$setter(value); })*
            };
        }
        set! {
            base(self.base);
            cap(self.cap);
            budget(self.budget);
            attempts(self.attempts);
            ambiguous_repeats(self.ambiguous);
            honour_retry_after(self.honour_retry_after);
            retry_after_max(self.retry_after_max);
            retry_after_unit(self.retry_after_unit);
        }
        if self.park == Some(true) {
            policy = policy.park(self.max_park.unwrap_or(Duration::from_secs(21_600)));
        }
        for (status, verdict) in &self.statuses {
            policy = policy.status(*status, *verdict);
        }
        // A file was checked when it was read; of a block that was not, nothing is better than what cannot be.
        policy.build().ok()
    }

    fn key_source(&self) -> Option<KeySource> {
        match self.key.as_ref()? {
            Key::None => Some(KeySource::none()),
            Key::Query(name) => Some(KeySource::query([name.as_str()])),
            // It was checked when the file was read.
            Key::Header(name) => HeaderName::try_from(name.as_str())
                .ok()
                .map(KeySource::header),
        }
    }

    /// The named dialects, or all without those with a `-`.
    fn read_dialects(&self) -> Option<Dialects> {
        let first = self.dialects.first()?;
        let mut dialects = Dialects::standard();
        let names: Vec<_> = dialects.names().collect();
        for name in names {
            let is_without = first.as_str().starts_with('-');
            let is_named = self
                .dialects
                .iter()
                .any(|one| one.as_str().trim_start_matches('-') == name);
            if is_named == is_without {
                dialects = dialects.without(name);
            }
        }
        Some(dialects)
    }

    /// Whether the limit is looked for.
    pub(super) fn is_adaptive(&self) -> bool {
        matches!(self.adaptive, Some(Switch::On(_)))
    }

    /// Where a key stands, or else the block.
    pub(super) fn place(&self, key: &str) -> Place {
        let of_key = self.places.iter().find(|(name, _)| *name == key);
        let block = self.places.first();
        of_key
            .or(block)
            .map(|(_, place)| *place)
            .unwrap_or_default()
    }

    /// The longest time for the head of an answer.
    pub(super) fn head(&self) -> Duration {
        let timeout = self.head_timeout.or(self.read_timeout);
        timeout.unwrap_or(Duration::from_secs(180))
    }

    pub(super) fn in_flight(&self) -> usize {
        match (&self.adaptive, self.concurrency) {
            (Some(Switch::On(adaptive)), _) => adaptive.ceiling as usize,
            (_, concurrency) => concurrency.unwrap_or(16),
        }
    }

    /// What it says of a key, as a file could say it; `None` where it says nothing.
    pub(super) fn shown(&self, key: &str) -> Option<String> {
        let time = |value: Option<Duration>| value.map(show_duration);
        let list = |texts: Vec<String>| (!texts.is_empty()).then(|| texts.join(", "));
        let texts = |texts: &[Text]| list(texts.iter().map(Text::to_string).collect());
        match key {
            "hosts" => texts(&self.hosts),
            "base_seconds" => time(self.base),
            "cap_seconds" => time(self.cap),
            "budget_seconds" => time(self.budget),
            "attempts" => self.attempts.map(|n| n.to_string()),
            "honour_retry_after" => self.honour_retry_after.map(|on| on.to_string()),
            "retry_after_max" => time(self.retry_after_max),
            "retry_after_unit" => self.retry_after_unit.map(|unit| match unit {
                RetryAfterUnit::Seconds => "seconds".to_owned(),
                RetryAfterUnit::Milliseconds => "milliseconds".to_owned(),
            }),
            "statuses" => list(show_statuses(&self.statuses)),
            "ambiguous" => self.ambiguous.map(|n| n.to_string()),
            "park" => self.park.map(|on| on.to_string()),
            "max_park" => time(self.max_park),
            "idempotency_keys" => self.idempotency_keys.map(|on| match on {
                true => "honoured".to_owned(),
                false => "ignored".to_owned(),
            }),
            "connect_timeout" => time(self.connect_timeout),
            "read_timeout" => time(self.read_timeout),
            "head_timeout" => time(self.head_timeout),
            "idle_timeout" => time(self.idle_timeout),
            "whole_timeout" => time(self.whole_timeout),
            "healthy_p99" => time(self.healthy_p99),
            "concurrency" => self.concurrency.map(|n| n.to_string()),
            "adaptive" => self.adaptive.as_ref().map(|adaptive| {
                adaptive.shown(|on| {
                    format!(
                        "start {}, ceiling {}, tolerance {}, measure_every {}",
                        on.start,
                        on.ceiling,
                        on.tolerance,
                        show_duration(on.measure_every)
                    )
                })
            }),
            "queue_timeout" => time(self.queue_timeout),
            "reader_patience" => time(self.reader_patience),
            "rate" => list(self.rate.iter().map(Rate::to_string).collect()),
            "key" => self.key.as_ref().map(|key| match key {
                Key::None => "none".to_owned(),
                Key::Query(name) => format!("query {name}"),
                Key::Header(name) => format!("header {name}"),
            }),
            "published_limit" => self.published_limit.as_ref().map(Text::to_string),
            "breaker" => self.breaker.as_ref().map(|breaker| {
                breaker.shown(|on| {
                    let rate = match on.failure_rate {
                        None => String::new(),
                        Some(rate) => format!(
                            ", failure_rate {} of {} in {}",
                            rate.share,
                            rate.minimum,
                            show_duration(rate.window)
                        ),
                    };
                    format!(
                        "row {}, quiet {}, open {} x{} up to {}, lease {}{rate}",
                        on.row,
                        show_duration(on.quiet),
                        show_duration(on.open),
                        on.growth,
                        show_duration(on.open_cap),
                        show_duration(on.lease)
                    )
                })
            }),
            "completeness" => self.completeness.as_ref().map(|completeness| {
                completeness.shown(|on| match on {
                    Completeness::Collect => "collect".to_owned(),
                    Completeness::Streaming => "streaming".to_owned(),
                })
            }),
            "freshness" => list(
                [
                    self.max_age
                        .map(|age| format!("max_age {}", show_duration(age))),
                    self.not_before.map(|time| {
                        let since = time.duration_since(SystemTime::UNIX_EPOCH);
                        let seconds = since.unwrap_or_default().as_secs();
                        format!("not_before {seconds} s after 1970")
                    }),
                    self.cache_busting
                        .as_ref()
                        .map(|name| format!("cache_busting {name}")),
                ]
                .into_iter()
                .flatten()
                .collect(),
            ),
            "stagger" => time(self.stagger),
            "dialects" => texts(&self.dialects),
            _ => None,
        }
    }
}

impl<T> Switch<T> {
    fn shown(&self, on: impl FnOnce(&T) -> String) -> String {
        match self {
            Self::Off => "false".to_owned(),
            Self::On(settings) => on(settings),
        }
    }
}

/// `500 ambiguous`, `520-524 transient`.
fn show_statuses(statuses: &[(StatusCode, Verdict)]) -> Vec<String> {
    let mut ranges: Vec<(u16, u16, Verdict)> = Vec::new();
    for (status, verdict) in statuses {
        let status = status.as_u16();
        match ranges.last_mut() {
            Some((_, last, of)) if of == verdict && last.checked_add(1) == Some(status) => {
                *last = status;
            }
            _ => ranges.push((status, status, *verdict)),
        }
    }
    let show = |(first, last, verdict): (u16, u16, Verdict)| {
        let verdict = format!("{verdict:?}").to_ascii_lowercase();
        match first == last {
            true => format!("{first} {verdict}"),
            false => format!("{first}-{last} {verdict}"),
        }
    };
    ranges.into_iter().map(show).collect()
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for row in BLOCK {
            if let Some(shown) = self.shown(row.name) {
                map.entry(&format_args!("{}", row.name), &format_args!("{shown}"));
            }
        }
        map.finish()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reference.as_deref().unwrap_or(&self.text))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.reference.as_deref().unwrap_or(&self.text), f)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.period.as_secs() {
            1 => "s".to_owned(),
            60 => "min".to_owned(),
            3_600 => "h".to_owned(),
            86_400 => "day".to_owned(),
            seconds => format!("{seconds}s"),
        };
        write!(f, "{}/{unit}", self.limit)?;
        match self.burst {
            1 => Ok(()),
            burst => write!(f, " burst {burst}"),
        }
    }
}
