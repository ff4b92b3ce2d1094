//! The keys of a settings file, in one table: what reads them, suggests them, describes them and makes the schema.

/// One key: a row of the table in the module's documentation.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// What holds where it is not set anywhere.
    pub(super) default: &'static str,
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for the documentation and the schema")
    )]
    pub(super) meaning: &'static str,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// Above zero, at most ten years.
    Time,
    Count {
        least: u64,
        most: u64,
    },
    Number {
        least: f64,
        most: f64,
    },
    Switch,
    Words(&'static [&'static str]),
    Text,
    /// One or a list.
    Texts,
    /// A status or a range of them, each with one of [`VERDICTS`].
    Statuses,
    /// One or a list of at most three.
    Rates,
    Moment,
    /// The block's name in messages is the key's.
    Block(
        #[cfg_attr(
            not(test),
            expect(dead_code, reason = "for the documentation and the schema")
        )]
        &'static [Row],
    ),
    /// The block, or one of these words; `true` and `false` are written so.
    Choice(&'static [&'static str], &'static [Row]),
    /// Names with blocks of [`BLOCK`].
    Endpoints,
}

const fn row(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Row {
    Row {
        name,
        kind,
        default,
        meaning,
    }
}

const fn count(least: u64, most: u64) -> Kind {
    Kind::Count { least, most }
}

pub(super) static FILE: &[Row] = &[
    row("version", count(1, 1), "1", "The version of this format."),
    row(
        "endpoints",
        Kind::Endpoints,
        "none",
        "A block for each endpoint, under its name.",
    ),
    row(
        "defaults",
        Kind::Block(BLOCK),
        "none",
        "What holds where an endpoint's own block says nothing.",
    ),
    row(
        "unknown_hosts",
        Kind::Choice(&["refuse"], BLOCK),
        "the defaults",
        "What holds for hosts that no endpoint names, where it is not the defaults; `refuse` lets no request to them out.",
    ),
];

pub(super) static BLOCK: &[Row] = &[
    row(
        "hosts",
        Kind::Texts,
        "none: chosen by name",
        "Whose requests these are: `host`, `host:port`, `*.host`, each with a path as a prefix where wanted. The most specific wins.",
    ),
    row(
        "base_seconds",
        Kind::Time,
        "1s",
        "The longest delay before the first repeat; it doubles from there.",
    ),
    row(
        "cap_seconds",
        Kind::Time,
        "60s",
        "The longest delay without a hint of the server; at least `base_seconds`.",
    ),
    row(
        "budget_seconds",
        Kind::Time,
        "600s",
        "From the first admission to the start of the last attempt; no started answer is cut by it.",
    ),
    row(
        "attempts",
        count(1, 1_000_000),
        "no limit",
        "At most so many attempts, the first included.",
    ),
    row(
        "honour_retry_after",
        Kind::Switch,
        "true",
        "Whether `Retry-After` and rate headers are a floor under the delay.",
    ),
    row(
        "retry_after_max",
        Kind::Time,
        "300s",
        "The clamp of `Retry-After`.",
    ),
    row(
        "retry_after_unit",
        Kind::Words(&["seconds", "milliseconds"]),
        "seconds",
        "What the service's `Retry-After` counts; Sentinel Hub sends milliseconds.",
    ),
    row(
        "statuses",
        Kind::Statuses,
        "see `retry`",
        "What a status (`500`) or a range of them (`520-524`) means: `success`, `transient`, `throttled`, `permanent` or `ambiguous`.",
    ),
    row(
        "ambiguous",
        count(0, 1_000),
        "2",
        "How often an answer is repeated of which nothing tells whether that helps.",
    ),
    row(
        "park",
        Kind::Switch,
        "false",
        "Whether the budget stops while the host is known to be closed.",
    ),
    row(
        "max_park",
        Kind::Time,
        "21600s",
        "For how long it stops at most.",
    ),
    row(
        "idempotency_keys",
        Kind::Words(&["honoured", "ignored"]),
        "ignored",
        "Whether the service heeds `Idempotency-Key`, so that a write that carries one can be repeated.",
    ),
    row(
        "connect_timeout",
        Kind::Time,
        "10s",
        "For a connection, TLS included. Holds where the client is built with `client::hyper`'s `ClientBuilder::endpoints`: another client's connector does not know it.",
    ),
    row(
        "read_timeout",
        Kind::Time,
        "180s for the head, 60s between frames",
        "For the head of an answer, and between two frames of its body.",
    ),
    row(
        "head_timeout",
        Kind::Time,
        "as `read_timeout`",
        "For the head alone.",
    ),
    row(
        "idle_timeout",
        Kind::Time,
        "as `read_timeout`",
        "Between two frames alone; it counts while the reader waits.",
    ),
    row(
        "whole_timeout",
        Kind::Time,
        "no limit",
        "From the request to the end of the body.",
    ),
    row(
        "healthy_p99",
        Kind::Time,
        "not known",
        "How long 99 of 100 good answers take at most, as measured; `check` holds the timeouts against it.",
    ),
    row(
        "concurrency",
        count(1, 65_535),
        "16",
        "How many answers may be in flight at once, bodies included. Not together with `adaptive`.",
    ),
    row(
        "adaptive",
        Kind::Choice(&["true", "false"], ADAPTIVE),
        "false",
        "Finds that number from the host's latency instead.",
    ),
    row(
        "queue_timeout",
        Kind::Time,
        "as `budget_seconds`",
        "How long a call may wait for its turn.",
    ),
    row(
        "reader_patience",
        Kind::Time,
        "30s",
        "For how long nobody may read a body before its turn goes to a waiting call.",
    ),
    row(
        "rate",
        Kind::Rates,
        "no limit",
        "A published rate, or up to three: `1/s`, `60/min`, `300/5min`, `1000/h`, `2500/day`, with a burst where allowed: `10/s burst 5`.",
    ),
    row(
        "key",
        Kind::Choice(&["none"], KEY),
        "the usual places",
        "Where a request carries the key that rates are counted by: the name of the place, never the key itself.",
    ),
    row(
        "published_limit",
        Kind::Text,
        "not known",
        "The limit as the service publishes it, with its source; shown in logs and by `check`.",
    ),
    row(
        "breaker",
        Kind::Choice(&["true", "false"], BREAKER),
        "true",
        "The circuit breaker.",
    ),
    row(
        "completeness",
        Kind::Choice(&["true", "false", "streaming"], COMPLETENESS),
        "false",
        "Whether whole answers are checked: before they are handed on (`true`), or while they are (`streaming`). Needs the feature `completeness`.",
    ),
    row(
        "freshness",
        Kind::Block(FRESHNESS),
        "any age",
        "How old an answer may be.",
    ),
    row(
        "stagger",
        Kind::Time,
        "none",
        "The window over which first attempts are spread after a start.",
    ),
    row(
        "dialects",
        Kind::Texts,
        "all",
        "The forms in which this service reports failures, by the names in `service-exception`; `-name` leaves one out of all.",
    ),
];

pub(super) static ADAPTIVE: &[Row] = &[
    row(
        "start",
        count(1, 65_535),
        "4",
        "The limit that it starts with.",
    ),
    row(
        "ceiling",
        count(1, 65_535),
        "64",
        "What it never exceeds; at least `start`.",
    ),
    row(
        "tolerance",
        Kind::Number {
            least: 1.0,
            most: 10.0,
        },
        "1.15",
        "How much longer than the baseline answers may take.",
    ),
    row(
        "measure_every",
        Kind::Time,
        "600s",
        "How often the baseline is measured anew; at least 1 s.",
    ),
];

pub(super) static BREAKER: &[Row] = &[
    row(
        "row",
        count(1, 1_000_000),
        "5",
        "How many failures in a row trip it.",
    ),
    row(
        "quiet",
        Kind::Time,
        "2s",
        "For how long nothing may have succeeded before.",
    ),
    row("open", Kind::Time, "5s", "How long it is open at first."),
    row(
        "growth",
        Kind::Number {
            least: 1.0,
            most: 100.0,
        },
        "1.5",
        "What a failed probe multiplies that by.",
    ),
    row(
        "open_cap",
        Kind::Time,
        "15s",
        "How long it is open at most; at least `open`.",
    ),
    row(
        "lease",
        Kind::Time,
        "180s",
        "How long a probe may be on its way before another one goes.",
    ),
    row(
        "failure_rate",
        Kind::Block(FAILURE_RATE),
        "none",
        "Trips on a share of failures, too.",
    ),
];

pub(super) static FAILURE_RATE: &[Row] = &[
    row(
        "share",
        Kind::Number {
            least: 0.0,
            most: 1.0,
        },
        "required",
        "From which share of failures.",
    ),
    row(
        "minimum",
        count(1, 1_000_000),
        "20",
        "How many answers it takes to tell.",
    ),
    row("window", Kind::Time, "60s", "Within which time."),
];

pub(super) static KEY: &[Row] = &[
    row(
        "query",
        Kind::Text,
        "none",
        "The name of a query parameter.",
    ),
    row("header", Kind::Text, "none", "The name of a header."),
];

pub(super) static COMPLETENESS: &[Row] = &[row(
    "mode",
    Kind::Words(&["collect", "streaming"]),
    "collect",
    "Before the answer is handed on, or while it is.",
)];

pub(super) static FRESHNESS: &[Row] = &[
    row(
        "max_age",
        Kind::Time,
        "any age",
        "How old an answer may be, by its `Age` or its `Date`.",
    ),
    row(
        "not_before",
        Kind::Moment,
        "any time",
        "Since when the sources are as they are: a date, or a date and time of RFC 3339 in quotes or without.",
    ),
    row(
        "cache_busting",
        Kind::Text,
        "none",
        "The name of a parameter that gets a repeat past the caches.",
    ),
];

pub(super) static VERDICTS: &[&str] = &[
    "success",
    "transient",
    "throttled",
    "permanent",
    "ambiguous",
];

/// What other clients call it, and people who come from them.
static ELSEWHERE: &[(&str, &str)] = &[
    ("timeout", "read_timeout"),
    ("timeouts", "read_timeout"),
    ("response_timeout", "head_timeout"),
    ("total_timeout", "whole_timeout"),
    ("retries", "attempts"),
    ("max_retries", "attempts"),
    ("max_attempts", "attempts"),
    ("stop_after_attempt", "attempts"),
    ("stop_after_delay", "budget_seconds"),
    ("deadline", "budget_seconds"),
    ("backoff", "base_seconds"),
    ("backoff_factor", "base_seconds"),
    ("initial_delay", "base_seconds"),
    ("min_delay", "base_seconds"),
    ("retry_delay_seconds", "base_seconds"),
    ("max_delay", "cap_seconds"),
    ("backoff_max", "cap_seconds"),
    ("respect_retry_after", "honour_retry_after"),
    ("status_forcelist", "statuses"),
    ("max_connections", "concurrency"),
    ("workers", "concurrency"),
    ("max_concurrency", "concurrency"),
    ("rate_limit", "rate"),
    ("rps", "rate"),
    ("api_key", "key"),
    ("apikey", "key"),
    ("circuit_breaker", "breaker"),
    ("host", "hosts"),
    ("url", "hosts"),
    ("urls", "hosts"),
    ("p99", "healthy_p99"),
    ("base", "base_seconds"),
    ("cap", "cap_seconds"),
    ("budget", "budget_seconds"),
    ("retry_policies", "endpoints"),
    ("services", "endpoints"),
    ("default", "defaults"),
];

/// The right name for one that is none: what other clients' is called here, or else the nearest.
pub(super) fn nearest<'a>(
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Option<&'a str> {
    // What is longer is no mistyped key, and costs nothing to compare.
    if name.len() > 64 {
        return None;
    }
    let plain = name.to_ascii_lowercase().replace(['-', ' '], "_");
    if let Some((_, ours)) = ELSEWHERE.iter().find(|(theirs, _)| *theirs == plain)
        && let Some(found) = names.clone().find(|name| name == ours)
    {
        return Some(found);
    }
    let (distance, found) = names
        .map(|candidate| (edits(&plain, candidate), candidate))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= (found.len().max(plain.len()) / 3).max(1)).then_some(found)
}

/// Edits from one to the other: a letter more, less, another one, or two neighbours swapped.
fn edits(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let mut cost = (last[j] + usize::from(a != b))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                cost = cost.min(before_last[j - 1] + 1);
            }
            row.push(cost);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_key_is_the_one_that_was_meant() {
        let names = BLOCK.iter().map(|row| row.name);
        for (written, meant) in [
            ("concurency", Some("concurrency")),
            ("read_timout", Some("read_timeout")),
            ("honor_retry_after", Some("honour_retry_after")),
            ("Concurrency", Some("concurrency")),
            ("budget", Some("budget_seconds")),
            ("base", Some("base_seconds")),
            ("cap", Some("cap_seconds")),
            ("retry-after-max", Some("retry_after_max")),
            ("raet", Some("rate")),
            ("max_retries", Some("attempts")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, names.clone()), meant, "{written}");
        }
    }

    #[test]
    fn every_name_from_elsewhere_leads_to_a_key() {
        for (theirs, ours) in ELSEWHERE {
            let is_key = |rows: &[Row]| rows.iter().any(|row| row.name == *ours);
            assert!(is_key(BLOCK) || is_key(FILE), "{theirs}");
        }
    }
}
