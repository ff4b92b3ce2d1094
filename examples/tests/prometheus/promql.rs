//! As much of PromQL as tells which series a query asks for: its selectors with their matchers, and the labels that its
//! aggregations keep.
//!
//! Not evaluated, and not checked for types: functions, operators and ranges. So nothing says that a sum is a number a
//! reader wants, nor that a `rate` has two scrapes to look at. What this does not know it refuses, such as other functions,
//! `on`, `without`, and regular expressions beyond alternatives of words; or takes it for a metric, which no list has.

use std::collections::BTreeSet;

#[derive(Debug, Default)]
pub(crate) struct Query {
    pub(crate) selectors: Vec<Selector>,
    /// The labels of each `by (…)`.
    pub(crate) groups: Vec<BTreeSet<String>>,
}

#[derive(Debug)]
pub(crate) struct Selector {
    pub(crate) metric: String,
    pub(crate) matchers: Vec<Matcher>,
}

#[derive(Debug)]
pub(crate) struct Matcher {
    pub(crate) label: String,
    is_negated: bool,
    /// `None`: Grafana's variable, all of which may be chosen.
    any_of: Option<Vec<String>>,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut query = Self::default();
        let mut left = text.trim_start();
        while let Some(first) = left.chars().next() {
            if is_word(first) && !first.is_ascii_digit() {
                let (word, after) = split_word(left);
                left = after.trim_start();
                if word == "by" {
                    let inner = take(&mut left, '(', ')')?;
                    let labels = inner.split(',').map(|label| label.trim().to_owned());
                    query.groups.push(labels.collect());
                } else if FUNCTIONS.contains(&word) {
                    if !left.starts_with('(') && !left.starts_with("by") {
                        return Err(format!("`{word}` without arguments in {text}"));
                    }
                } else if left.starts_with('(') {
                    return Err(format!("the function `{word}` is not known"));
                } else {
                    let matchers = match left.starts_with('{') {
                        true => matchers(take(&mut left, '{', '}')?)?,
                        false => Vec::new(),
                    };
                    let metric = word.to_owned();
                    query.selectors.push(Selector { metric, matchers });
                }
            } else if first == '[' {
                let range = take(&mut left, '[', ']')?;
                if range != "$__rate_interval" && range != "5m" {
                    return Err(format!("the range `{range}`"));
                }
            } else if first.is_ascii_digit() || "()+-*/<>,. ".contains(first) {
                left = &left[1..];
            } else {
                return Err(format!("`{first}` in {text}"));
            }
        }
        Ok(query)
    }
}

impl Matcher {
    pub(crate) fn matches(&self, value: &str) -> bool {
        match &self.any_of {
            None => true,
            Some(any_of) => any_of.iter().any(|one| one == value) != self.is_negated,
        }
    }
}

fn matchers(text: &str) -> Result<Vec<Matcher>, String> {
    let parse = |matcher: &str| {
        let (label, rest) = split_word(matcher.trim());
        let (operator, value) = rest.split_once('"').ok_or(matcher)?;
        let value = value.strip_suffix('"').ok_or(matcher)?;
        let (is_negated, is_regex) = match operator.trim() {
            "=" => (false, false),
            "!=" => (true, false),
            "=~" => (false, true),
            "!~" => (true, true),
            _ => return Err(matcher.to_owned()),
        };
        let is_words = value
            .chars()
            .all(|c| is_word(c) || c == '-' || is_regex && c == '|');
        let any_of = match value {
            "$endpoint" if label == "endpoint" && is_regex && !is_negated => None,
            _ if is_words => Some(value.split('|').map(str::to_owned).collect()),
            _ => return Err(matcher.to_owned()),
        };
        Ok(Matcher {
            label: label.to_owned(),
            is_negated,
            any_of,
        })
    };
    text.split(',').map(parse).collect()
}

/// What stands between two brackets at the begin of `left`, which goes on behind them.
fn take<'a>(left: &mut &'a str, open: char, close: char) -> Result<&'a str, String> {
    let inside = left.strip_prefix(open).and_then(|it| it.split_once(close));
    let (inside, after) = inside.ok_or_else(|| format!("`{open}` … `{close}` at {left}"))?;
    *left = after.trim_start();
    Ok(inside)
}

fn split_word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c| !is_word(c)).unwrap_or(text.len()))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

const FUNCTIONS: [&str; 4] = ["sum", "max", "rate", "histogram_quantile"];

#[test]
fn selectors_and_labels_are_read_and_what_is_not_known_is_refused() {
    let query = Query::parse(
        "histogram_quantile(0.9, sum by (le, a) (rate(b_bucket{c=~\"$endpoint\"}[5m]))) / max(d{e!~\"f|g\"})",
    );
    query.unwrap_err();
    let query = Query::parse(
        "histogram_quantile(0.9, sum by (le, a) (rate(b_bucket{endpoint=~\"$endpoint\"}[5m]))) / max(d{e!~\"f|g\"})",
    )
    .unwrap();
    let names: Vec<_> = query.selectors.iter().map(|it| &*it.metric).collect();
    assert_eq!(names, ["b_bucket", "d"]);
    assert_eq!(query.groups, [["le".to_owned(), "a".to_owned()].into()]);
    let negated = &query.selectors[1].matchers[0];
    assert!(negated.matches("h") && !negated.matches("f") && !negated.matches("g"));
    for unknown in [
        "topk(3, a)",
        "sum without (a) (b)",
        "a{b=~\"c.*\"}",
        "a[1h]",
        "a{b=\"c\"",
    ] {
        assert!(Query::parse(unknown).is_err(), "{unknown}");
    }
}
