//! From the tree to blocks: everything that is wrong is noted, and the rest read on.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use http::{HeaderName, StatusCode};
use load_control::{AdaptiveSettings, BreakerSettings, FailureRate, Quotas};
use service_exception::Dialects;

use super::block::{Block, Completeness, Key, Rate, Switch, Text};
use super::check::HOST;
use super::error::{Problem, SettingsError};
use super::keys::{
    ADAPTIVE, BLOCK, BREAKER, COMPLETENESS, FAILURE_RATE, FILE, FRESHNESS, KEY, Kind, Row,
    VERDICTS, nearest,
};
use super::tree::{Entry, Node, Place, Value};
use super::value::{self, NotExpanded};
use super::{SettingsFile, UnknownHosts};
use crate::call::{Pattern, Verdict};
use crate::retry::RetryAfterUnit;
use crate::verify::freshness::{EXPECTED_NAME, Parameter};

type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(super) fn read(
    root: &Node,
    file: Option<&str>,
    environment: Environment<'_>,
) -> Result<SettingsFile, SettingsError> {
    let mut reader = Reader {
        file,
        environment,
        problems: Vec::new(),
        more: 0,
        scope: String::new(),
        path: Vec::new(),
        has_secrets: false,
    };
    let settings = reader.file(root);
    super::check::contradictions(&settings, &mut |place, message| {
        reader.add(place, message);
    });
    reader.problems.sort_by_key(|problem| problem.place);
    if reader.more > 0 {
        let message = format!("and {} more problems", reader.more);
        reader.problems.push(Problem {
            file: file.map(Box::from),
            place: Place::default(),
            message: message.into(),
        });
    }
    match reader.problems.is_empty() {
        true => Ok(settings),
        false => Err(SettingsError {
            problems: reader.problems,
        }),
    }
}

struct Reader<'a> {
    file: Option<&'a str>,
    environment: Environment<'a>,
    problems: Vec<Problem>,
    /// Problems that were not kept.
    more: usize,
    /// ``endpoint `a`: ``, or empty.
    scope: String,
    /// The keys within the scope.
    path: Vec<&'static str>,
    /// Whether what stands here may be a secret by mistake: it is not repeated in messages.
    has_secrets: bool,
}

impl Reader<'_> {
    fn file(&mut self, root: &Node) -> SettingsFile {
        let mut settings = SettingsFile {
            file: self.file.map(Box::from),
            ..SettingsFile::default()
        };
        let Value::Map(entries) = &root.value else {
            let found = self.found(&root.value);
            self.add(
                root.place,
                format!("the file is {found}, expected a block with the key `endpoints`"),
            );
            return settings;
        };
        let mut has_endpoints = false;
        self.keys(entries, FILE, |reader, row, entry| match row.name {
            "version" => _ = reader.count::<u64>(row, &entry.node),
            "endpoints" => {
                has_endpoints = true;
                settings.endpoints = reader.endpoints(&entry.node);
            }
            "defaults" => {
                "defaults: ".clone_into(&mut reader.scope);
                reader.path.clear();
                settings.defaults = reader.block(entry.place, &entry.node, &["hosts"]);
                reader.scope.clear();
            }
            _ => settings.unknown_hosts = reader.unknown_hosts(row, entry),
        });
        if !has_endpoints && settings.defaults.places.is_empty() && self.problems.is_empty() {
            self.add(
                root.place,
                "no `endpoints`, expected at least these or `defaults`".to_owned(),
            );
        }
        settings
    }

    fn unknown_hosts(&mut self, row: &'static Row, entry: &Entry) -> UnknownHosts {
        if let Value::Map(_) = entry.node.value {
            "unknown_hosts: ".clone_into(&mut self.scope);
            self.path.clear();
            let block = self.block(entry.place, &entry.node, &["hosts"]);
            self.scope.clear();
            return UnknownHosts::Block(Box::new(block));
        }
        match self.text_of(&entry.node).as_ref().map(Text::as_str) {
            Some("refuse") => UnknownHosts::Refuse,
            _ => {
                let _: Option<()> = self.expected(row, &entry.node);
                UnknownHosts::Defaults
            }
        }
    }

    fn endpoints(&mut self, node: &Node) -> Vec<(Box<str>, Block)> {
        let entries = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => return Vec::new(),
            _ => {
                let _: Option<()> = self.expected_text(node, "names with a block each");
                return Vec::new();
            }
        };
        self.path.clear();
        let mut endpoints = Vec::with_capacity(entries.len());
        let mut seen: HashMap<&str, Place> = HashMap::with_capacity(entries.len());
        for Entry { key, place, node } in entries {
            self.scope.clear();
            if key.is_empty() || key.chars().any(char::is_control) || key.contains("${") {
                self.add(
                    *place,
                    format!("{key:?} is no name of an endpoint, expected printable characters"),
                );
                continue;
            }
            if let Some(first) = seen.insert(key, *place) {
                let message = format!("endpoint `{key}` stands a second time{}", at(first));
                self.add(*place, message);
                continue;
            }
            self.scope = format!("endpoint `{key}`: ");
            let block = self.block(*place, node, &[]);
            endpoints.push((key.as_str().into(), block));
        }
        self.scope.clear();
        endpoints
    }

    /// `place` is that of the block's name.
    fn block(&mut self, place: Place, node: &Node, not_here: &[&str]) -> Block {
        let mut block = Block {
            places: vec![("", place)],
            ..Block::default()
        };
        let entries = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => return block,
            _ => {
                let _: Option<()> = self.expected_text(node, "a block of keys");
                return block;
            }
        };
        self.keys(entries, BLOCK, |reader, row, entry| {
            if not_here.contains(&row.name) {
                let message = format!("`{}` belongs to an endpoint, not here", row.name);
                reader.add(entry.place, message);
                return;
            }
            block.places.push((row.name, entry.node.place));
            reader.setting(row, &entry.node, &mut block);
        });
        block
    }

    fn setting(&mut self, row: &'static Row, node: &Node, block: &mut Block) {
        match row.name {
            "hosts" => {
                let (places, hosts): (Vec<_>, _) = self.hosts(row, node).into_iter().unzip();
                block.hosts = hosts;
                let places = places.into_iter().map(|place| (HOST, place));
                block.places.extend(places);
            }
            "base_seconds" => block.base = self.time(row, node),
            "cap_seconds" => block.cap = self.time(row, node),
            "budget_seconds" => block.budget = self.time(row, node),
            "attempts" => block.attempts = self.count(row, node),
            "honour_retry_after" => block.honour_retry_after = self.switch(row, node),
            "retry_after_max" => block.retry_after_max = self.time(row, node),
            "retry_after_unit" => {
                block.retry_after_unit = self.word(row, node).map(|word| match word {
                    "milliseconds" => RetryAfterUnit::Milliseconds,
                    _ => RetryAfterUnit::Seconds,
                });
            }
            "statuses" => block.statuses = self.statuses(node),
            "ambiguous" => block.ambiguous = self.count(row, node),
            "park" => block.park = self.switch(row, node),
            "max_park" => block.max_park = self.time(row, node),
            "idempotency_keys" => {
                block.idempotency_keys = self.word(row, node).map(|word| word == "honoured");
            }
            "connect_timeout" => block.connect_timeout = self.time(row, node),
            "read_timeout" => block.read_timeout = self.time(row, node),
            "head_timeout" => block.head_timeout = self.time(row, node),
            "idle_timeout" => block.idle_timeout = self.time(row, node),
            "whole_timeout" => block.whole_timeout = self.time(row, node),
            "healthy_p99" => block.healthy_p99 = self.time(row, node),
            "concurrency" => block.concurrency = self.count(row, node),
            "adaptive" => block.adaptive = self.choice(row, node, Self::adaptive),
            "queue_timeout" => block.queue_timeout = self.time(row, node),
            "reader_patience" => block.reader_patience = self.time(row, node),
            "rate" => block.rate = self.rates(row, node),
            "key" => {
                self.has_secrets = true;
                block.key = self.key(row, node);
                self.has_secrets = false;
            }
            "published_limit" => block.published_limit = self.text(row, node),
            "breaker" => block.breaker = self.choice(row, node, Self::breaker),
            "completeness" => {
                block.completeness = match self.text_of(node).as_ref().map(Text::as_str) {
                    Some("streaming") => Some(Switch::On(Completeness::Streaming)),
                    _ => self.choice(row, node, Self::completeness),
                };
            }
            "freshness" => self.freshness(row, node, block),
            "stagger" => block.stagger = self.time(row, node),
            "dialects" => block.dialects = self.dialects(row, node),
            _ => {}
        }
    }

    /// Each key that is one, once; what is none is noted.
    fn keys(
        &mut self,
        entries: &[Entry],
        rows: &'static [Row],
        mut each: impl FnMut(&mut Self, &'static Row, &Entry),
    ) {
        let mut seen: Vec<Option<Place>> = vec![None; rows.len()];
        for entry in entries {
            let found = rows.iter().position(|row| row.name == entry.key);
            let Some(at_row) = found else {
                self.no_key(entry, rows);
                continue;
            };
            let row = &rows[at_row];
            if let Some(first) = seen[at_row] {
                let message = format!("`{}` stands a second time{}", row.name, at(first));
                self.add(entry.place, message);
                continue;
            }
            seen[at_row] = Some(entry.place);
            self.path.push(row.name);
            each(self, row, entry);
            self.path.pop();
        }
    }

    fn no_key(&mut self, entry: &Entry, rows: &'static [Row]) {
        // For anchors, and for what other programs keep in the file.
        if std::ptr::eq(rows, FILE) && entry.key.starts_with("x-") {
            return;
        }
        // To find what was meant takes time, and nobody would read it.
        if self.problems.len() >= MOST_PROBLEMS {
            self.more += 1;
            return;
        }
        let key = match is_perhaps_secret(&entry.key) {
            true => "a text".to_owned(),
            false => format!("`{}`", shortened(&entry.key)),
        };
        let mut message = match self.path.last() {
            Some(parent) => format!("`{parent}`: {key} is no key here"),
            None => format!("{key} is no key here"),
        };
        match nearest(&entry.key, rows.iter().map(|row| row.name)) {
            Some(near) => message += &format!("; did you mean `{near}`?"),
            None if std::ptr::eq(rows, FILE) && BLOCK.iter().any(|row| row.name == entry.key) => {
                message += "; it belongs to an endpoint, or to `defaults`";
            }
            None if rows.len() <= 8 => {
                let names: Vec<_> = rows.iter().map(|row| format!("`{}`", row.name)).collect();
                message += &format!(", expected {}", names.join(", "));
            }
            None => {}
        }
        self.add(entry.place, message);
    }

    fn time(&mut self, row: &'static Row, node: &Node) -> Option<Duration> {
        let (value, _) = self.expanded(node)?;
        let time = match &value {
            Value::Integer(seconds) => u64::try_from(*seconds).ok().map(Duration::from_secs),
            Value::Number(seconds) => Duration::try_from_secs_f64(*seconds).ok(),
            Value::Text(text) => value::duration(text.trim()),
            _ => None,
        };
        match time {
            None if matches!(value, Value::Integer(_) | Value::Number(_)) => {
                self.expected_text(node, "a time from above zero to 3650 d")
            }
            None => self.expected(row, node),
            Some(time) if time.is_zero() || time > LONGEST => {
                self.expected_text(node, "a time from above zero to 3650 d")
            }
            time => time,
        }
    }

    fn count<N: TryFrom<u64>>(&mut self, row: &'static Row, node: &Node) -> Option<N> {
        let (value, _) = self.expanded(node)?;
        let Kind::Count { least, most } = row.kind else {
            return None;
        };
        let count = match value {
            Value::Integer(count) => u64::try_from(count).ok(),
            // `1e3`, `16.0`
            Value::Number(count) if count.fract() == 0.0 && (0.0..9e15).contains(&count) => {
                Some(count as u64)
            }
            _ => None,
        };
        match count
            .filter(|count| (least..=most).contains(count))
            .map(N::try_from)
        {
            Some(Ok(count)) => Some(count),
            _ => self.expected(row, node),
        }
    }

    fn number(&mut self, row: &'static Row, node: &Node) -> Option<f64> {
        let (value, _) = self.expanded(node)?;
        let Kind::Number { least, most } = row.kind else {
            return None;
        };
        let number = match value {
            Value::Integer(number) => Some(number as f64),
            Value::Number(number) => Some(number),
            _ => None,
        };
        match number.filter(|number| (least..=most).contains(number)) {
            None => self.expected(row, node),
            number => number,
        }
    }

    fn switch(&mut self, row: &'static Row, node: &Node) -> Option<bool> {
        match self.expanded(node)?.0 {
            Value::Switch(switch) => Some(switch),
            Value::Text(text) if matches!(&*text, "yes" | "no" | "on" | "off") => {
                let meant = matches!(&*text, "yes" | "on");
                self.expected_text(
                    node,
                    &format!("`{meant}` (in YAML 1.2 `{text}` is a text like any other)"),
                )
            }
            _ => self.expected(row, node),
        }
    }

    fn word(&mut self, row: &'static Row, node: &Node) -> Option<&'static str> {
        let Kind::Words(words) = row.kind else {
            return None;
        };
        let text = self.text_of(node);
        let found = words
            .iter()
            .find(|word| text.as_ref().is_some_and(|text| text.as_str() == **word));
        match found {
            Some(word) => Some(word),
            None => self.expected(row, node),
        }
    }

    fn text(&mut self, row: &'static Row, node: &Node) -> Option<Text> {
        match self.text_of(node) {
            Some(text) if !text.as_str().trim().is_empty() => Some(text),
            _ if self.is_broken(node) => None,
            _ => self.expected(row, node),
        }
    }

    /// One or a list.
    fn texts(&mut self, row: &'static Row, node: &Node) -> Vec<(Place, Text)> {
        let nodes = match &node.value {
            Value::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        if nodes.is_empty() {
            let _: Option<()> = self.expected(row, node);
        }
        nodes
            .iter()
            .filter_map(|node| Some((node.place, self.text(row, node)?)))
            .collect()
    }

    fn hosts(&mut self, row: &'static Row, node: &Node) -> Vec<(Place, Text)> {
        let mut hosts = self.texts(row, node);
        hosts.retain(|(place, host)| match Pattern::parse(host.as_str()) {
            Ok(_) => true,
            Err(problem) => {
                let problem = match &host.reference {
                    None => problem,
                    Some(reference) => format!("`{reference}` is no [*.]host[:port][/path]"),
                };
                self.add(*place, format!("`hosts`: {problem}"));
                false
            }
        });
        hosts
    }

    fn dialects(&mut self, row: &'static Row, node: &Node) -> Vec<Text> {
        let mut dialects = self.texts(row, node);
        let all = Dialects::standard();
        let names: Vec<_> = all.names().collect();
        dialects.retain(|(place, dialect)| {
            let name = dialect.as_str();
            let name = name.strip_prefix('-').unwrap_or(name);
            if names.contains(&name) {
                return true;
            }
            let mut message = format!("`dialects`: `{}` is none", shortened(&dialect.to_string()));
            message += &match nearest(name, names.iter().copied()) {
                Some(near) if dialect.reference.is_none() => format!("; did you mean `{near}`?"),
                _ => format!(", expected some of {}", names.join(", ")),
            };
            self.add(*place, message);
            false
        });
        let is_without = |dialect: &(Place, Text)| dialect.1.as_str().starts_with('-');
        if let [first, rest @ ..] = &*dialects
            && let Some((place, _)) = rest.iter().find(|one| is_without(one) != is_without(first))
        {
            let message = "`dialects`: some with `-` and some without, expected either".to_owned();
            self.add(*place, message);
        }
        dialects.into_iter().map(|(_, dialect)| dialect).collect()
    }

    fn rates(&mut self, row: &'static Row, node: &Node) -> Vec<Rate> {
        let texts = self.texts(row, node);
        if texts.len() > Quotas::MOST {
            let message = format!(
                "`rate`: {} rates, expected up to {}",
                texts.len(),
                Quotas::MOST
            );
            self.add(node.place, message);
        }
        let rates =
            texts
                .into_iter()
                .filter_map(|(place, text)| match value::rate(text.as_str().trim()) {
                    Ok(rate) => Some(rate),
                    Err(None) => {
                        self.add(
                            place,
                            format!(
                                "`rate` is `{}`, expected {}",
                                shortened(&text.to_string()),
                                wanted(row)
                            ),
                        );
                        None
                    }
                    Err(Some(invalid)) => {
                        self.add(place, format!("`rate`: {invalid}"));
                        None
                    }
                });
        rates.collect()
    }

    fn statuses(&mut self, node: &Node) -> Vec<(StatusCode, Verdict)> {
        let Value::Map(entries) = &node.value else {
            let _: Option<()> =
                self.expected_text(node, "statuses with what they mean (500: transient)");
            return Vec::new();
        };
        let mut statuses: Vec<(StatusCode, Verdict)> = Vec::new();
        let mut seen = [None; 600];
        for entry in entries {
            let (first, last) = entry
                .key
                .split_once('-')
                .unwrap_or((entry.key.as_str(), entry.key.as_str()));
            let range = match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
                (Ok(first @ 100..=599), Ok(last @ 100..=599)) if first <= last => first..=last,
                _ => {
                    let key = shortened(&entry.key);
                    let message = format!(
                        "`statuses`: `{key}` is none, expected 100 to 599 or a range (520-524)"
                    );
                    self.add(entry.place, message);
                    continue;
                }
            };
            let text = self.text_of(&entry.node);
            let verdict = match text.as_ref().map(Text::as_str) {
                Some("success") => Verdict::Success,
                Some("transient") => Verdict::Transient,
                Some("throttled") => Verdict::Throttled,
                Some("permanent") => Verdict::Permanent,
                Some("ambiguous") => Verdict::Ambiguous,
                _ if self.is_broken(&entry.node) => continue,
                word => {
                    let found = self.found(&entry.node.value);
                    let near = word.and_then(|word| nearest(word, VERDICTS.iter().copied()));
                    let message = match near {
                        Some(near) => format!(
                            "`statuses`: {} is {found}; did you mean `{near}`?",
                            entry.key
                        ),
                        None => format!(
                            "`statuses`: {} is {found}, expected one of {}",
                            entry.key,
                            VERDICTS.join(", ")
                        ),
                    };
                    self.add(entry.node.place, message);
                    continue;
                }
            };
            for status in range {
                let before = seen[usize::from(status)].replace(entry.place);
                if let Some(first) = before {
                    let message = format!("`statuses`: {status} stands a second time{}", at(first));
                    self.add(entry.place, message);
                    break;
                }
                if let Ok(status) = StatusCode::from_u16(status) {
                    statuses.push((status, verdict));
                }
            }
        }
        statuses.sort_by_key(|(status, _)| *status);
        statuses
    }

    fn key(&mut self, row: &'static Row, node: &Node) -> Option<Key> {
        let Value::Map(entries) = &node.value else {
            return match self.text_of(node).as_ref().map(Text::as_str) {
                Some("none") => Some(Key::None),
                _ => self.expected(row, node),
            };
        };
        let mut key = None;
        let mut is_clear = true;
        self.keys(entries, KEY, |reader, row, entry| {
            let Some(name) = reader.text(row, &entry.node) else {
                is_clear = false;
                return;
            };
            let found = match row.name {
                "header" if HeaderName::try_from(name.as_str()).is_err() => {
                    is_clear = false;
                    return reader.add(
                        entry.node.place,
                        "`key.header` is no name of a header (X-Api-Key)".to_owned(),
                    );
                }
                "header" => Key::Header(name),
                _ => Key::Query(name),
            };
            is_clear &= key.replace(found).is_none();
        });
        match key {
            Some(key) if is_clear => Some(key),
            _ if !is_clear && key.is_none() => None,
            _ => self.expected_text(node, "exactly one of `query` and `header`"),
        }
    }

    fn adaptive(&mut self, entries: &[Entry]) -> AdaptiveSettings {
        let mut adaptive = AdaptiveSettings::default();
        let mut ceiling_at = None;
        self.keys(entries, ADAPTIVE, |reader, row, entry| {
            let node = &entry.node;
            match row.name {
                "start" => set(&mut adaptive.start, reader.count(row, node)),
                "ceiling" => {
                    ceiling_at = Some(node.place);
                    set(&mut adaptive.ceiling, reader.count(row, node));
                }
                "tolerance" => set(&mut adaptive.tolerance, reader.number(row, node)),
                _ => {
                    let every = reader.time(row, node);
                    match every {
                        Some(every) if every < Duration::from_secs(1) => {
                            reader.expected_text::<()>(node, "1 s or more");
                        }
                        every => set(&mut adaptive.measure_every, every),
                    }
                }
            }
        });
        if adaptive.start > adaptive.ceiling {
            let message = format!(
                "`adaptive`: start {} is above the ceiling, {}",
                adaptive.start, adaptive.ceiling
            );
            self.add(ceiling_at.unwrap_or_else(|| first(entries)), message);
        }
        adaptive
    }

    fn breaker(&mut self, entries: &[Entry]) -> BreakerSettings {
        let mut breaker = BreakerSettings::default();
        self.keys(entries, BREAKER, |reader, row, entry| {
            let node = &entry.node;
            match row.name {
                "row" => set(&mut breaker.row, reader.count(row, node)),
                "quiet" => set(&mut breaker.quiet, reader.time(row, node)),
                "open" => set(&mut breaker.open, reader.time(row, node)),
                "growth" => set(&mut breaker.growth, reader.number(row, node)),
                "open_cap" => set(&mut breaker.open_cap, reader.time(row, node)),
                "lease" => set(&mut breaker.lease, reader.time(row, node)),
                _ => breaker.failure_rate = reader.failure_rate(node),
            }
        });
        if breaker.open > breaker.open_cap {
            let message = format!(
                "`breaker`: open {} is longer than open_cap {}",
                value::show_duration(breaker.open),
                value::show_duration(breaker.open_cap)
            );
            self.add(first(entries), message);
        }
        breaker
    }

    fn failure_rate(&mut self, node: &Node) -> Option<FailureRate> {
        let Value::Map(entries) = &node.value else {
            return self.expected_text(node, "a block with `share`");
        };
        let mut share = None;
        let mut rate = FailureRate {
            share: 1.0,
            minimum: 20,
            window: Duration::from_secs(60),
        };
        let mut names_share = false;
        self.keys(entries, FAILURE_RATE, |reader, row, entry| match row.name {
            "share" => {
                names_share = true;
                share = reader.number(row, &entry.node);
            }
            "minimum" => set(&mut rate.minimum, reader.count(row, &entry.node)),
            _ => set(&mut rate.window, reader.time(row, &entry.node)),
        });
        if !names_share {
            self.add(
                node.place,
                "`breaker.failure_rate` has no `share`, expected 0 to 1".to_owned(),
            );
        }
        share.map(|share| FailureRate { share, ..rate })
    }

    fn completeness(&mut self, entries: &[Entry]) -> Completeness {
        let mut completeness = Completeness::default();
        self.keys(entries, COMPLETENESS, |reader, row, entry| {
            if reader.word(row, &entry.node) == Some("streaming") {
                completeness = Completeness::Streaming;
            }
        });
        completeness
    }

    fn freshness(&mut self, row: &'static Row, node: &Node, block: &mut Block) {
        let Value::Map(entries) = &node.value else {
            let _: Option<()> = self.expected(row, node);
            return;
        };
        self.keys(entries, FRESHNESS, |reader, row, entry| {
            let node = &entry.node;
            match row.name {
                "max_age" => block.max_age = reader.time(row, node),
                "not_before" => block.not_before = reader.moment(row, node),
                _ => {
                    let Some(name) = reader.text(row, node) else {
                        return;
                    };
                    if Parameter::new(name.as_str()).is_err() {
                        let _: Option<()> = reader.expected_text(node, EXPECTED_NAME);
                    } else {
                        block.cache_busting = Some(name);
                    }
                }
            }
        });
    }

    fn moment(&mut self, row: &'static Row, node: &Node) -> Option<SystemTime> {
        let text = self.text_of(node);
        match text.and_then(|text| value::moment(text.as_str().trim())) {
            None => self.expected(row, node),
            moment => moment,
        }
    }

    /// `true`, `false` or a block.
    fn choice<T: Default>(
        &mut self,
        row: &'static Row,
        node: &Node,
        read: impl FnOnce(&mut Self, &[Entry]) -> T,
    ) -> Option<Switch<T>> {
        if let Value::Map(entries) = &node.value {
            return Some(Switch::On(read(self, entries)));
        }
        match self.expanded(node)?.0 {
            Value::Switch(true) => Some(Switch::On(T::default())),
            Value::Switch(false) => Some(Switch::Off),
            _ => self.expected(row, node),
        }
    }

    /// The value with the environment's in it, and whether there are any.
    fn expanded(&mut self, node: &Node) -> Option<(Value, bool)> {
        let Value::Text(text) = &node.value else {
            return match &node.value {
                // Of no use here, and what is large is not to be copied.
                Value::List(_) | Value::Map(_) => Some((Value::Null, false)),
                value => Some((value.clone(), false)),
            };
        };
        match value::expand(text, self.environment) {
            Ok(None) => Some((node.value.clone(), false)),
            // What stands in the file stands for a plain value.
            Ok(Some(text)) => Some((Value::of_plain(&text), true)),
            Err(problem) => {
                let key = self.key_path();
                let message = match problem {
                    NotExpanded::NotSet(name) => {
                        format!(
                            "{key}the environment variable `{}` is not set",
                            shortened(&name)
                        )
                    }
                    NotExpanded::NoReference => format!(
                        "{key}`${{` without a name and `}}`, expected ${{NAME}}, or $${{ for the characters themselves"
                    ),
                };
                self.add(node.place, message);
                None
            }
        }
    }

    /// Whether it was noted already that its reference leads nowhere.
    fn is_broken(&self, node: &Node) -> bool {
        match &node.value {
            Value::Text(text) => value::expand(text, self.environment).is_err(),
            _ => false,
        }
    }

    fn text_of(&mut self, node: &Node) -> Option<Text> {
        let Value::Text(written) = &node.value else {
            return None;
        };
        match value::expand(written, self.environment) {
            Ok(None) => Some(Text {
                text: written.as_str().into(),
                reference: None,
            }),
            Ok(Some(text)) => Some(Text {
                text: text.into(),
                reference: Some(written.as_str().into()),
            }),
            Err(_) => {
                self.expanded(node);
                None
            }
        }
    }

    fn expected<T>(&mut self, row: &'static Row, node: &Node) -> Option<T> {
        if self.is_broken(node) && self.problems.iter().any(|one| one.place == node.place) {
            return None;
        }
        let mut wanted = wanted(row);
        if let (Kind::Words(words) | Kind::Choice(words, _), Value::Text(text)) =
            (&row.kind, &node.value)
            && let Some(near) = nearest(text, words.iter().copied())
            && !self.has_secrets
        {
            wanted += &format!("; did you mean `{near}`?");
        }
        self.expected_text(node, &wanted)
    }

    fn expected_text<T>(&mut self, node: &Node, wanted: &str) -> Option<T> {
        let found = self.found(&node.value);
        let key = self.path.join(".");
        let message = match self.path.is_empty() {
            true => format!("this is {found}, expected {wanted}"),
            false => format!("`{key}` is {found}, expected {wanted}"),
        };
        self.add(node.place, message);
        None
    }

    /// What stands there, in words. What comes from the environment is shown as its reference.
    fn found(&self, value: &Value) -> String {
        match value {
            Value::Null => "empty".to_owned(),
            Value::Switch(switch) => format!("`{switch}`"),
            Value::List(nodes) if nodes.is_empty() => "an empty list".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a block of keys".to_owned(),
            _ if self.has_secrets => "something else".to_owned(),
            Value::Integer(integer) => format!("`{integer}`"),
            Value::Number(number) => format!("`{number}`"),
            Value::Text(text) if text.is_empty() => "an empty text".to_owned(),
            Value::Text(text) if is_perhaps_secret(text) => "a text".to_owned(),
            Value::Text(text) => match Value::of_plain(text) {
                Value::Text(_) => format!("`{}`", shortened(text)),
                _ => format!("the text `{}`, since it is in quotes", shortened(text)),
            },
        }
    }

    fn key_path(&self) -> String {
        match self.path.is_empty() {
            true => String::new(),
            false => format!("`{}`: ", self.path.join(".")),
        }
    }

    fn add(&mut self, place: Place, message: String) {
        if self.problems.len() >= MOST_PROBLEMS {
            self.more += 1;
            return;
        }
        self.problems.push(Problem {
            file: self.file.map(Box::from),
            place,
            message: format!("{}{message}", self.scope).into(),
        });
    }
}

/// What a key expects, in words.
pub(super) fn wanted(row: &Row) -> String {
    match &row.kind {
        Kind::Time => "seconds (60) or a time with its unit (500ms, 60s, 5m, 1h, 7d)".to_owned(),
        Kind::Count { least, most } if least == most => least.to_string(),
        Kind::Count { least, most } => format!("a whole number from {least} to {most}"),
        Kind::Number { least, most } => format!("a number from {least} to {most}"),
        Kind::Switch => "`true` or `false`".to_owned(),
        Kind::Words(words) => one_of(words, None),
        Kind::Text => "a text".to_owned(),
        Kind::Texts => "a text or a list of texts".to_owned(),
        Kind::Statuses => "statuses with what they mean (500: transient)".to_owned(),
        Kind::Rates => {
            "a rate or a list of rates (1/s, 60/min, 1000/h, 2500/day, 10/s burst 5)".to_owned()
        }
        Kind::Moment => "a date (2026-03-01) or a date and time (2026-03-01T06:00:00Z)".to_owned(),
        Kind::Block(_) => "a block of keys".to_owned(),
        Kind::Choice(words, rows) if rows.len() <= 2 => {
            let names: Vec<_> = rows.iter().map(|row| format!("`{}`", row.name)).collect();
            one_of(words, Some(&format!("a block with {}", names.join(" or "))))
        }
        Kind::Choice(words, _) => one_of(words, Some("a block of keys")),
        Kind::Endpoints => "names with a block each".to_owned(),
    }
}

fn one_of(words: &[&str], other: Option<&str>) -> String {
    let mut all: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    all.extend(other.map(str::to_owned));
    match all.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => all.concat(),
    }
}

/// `, first at line 3`
fn at(place: Place) -> String {
    match place.line {
        0 => String::new(),
        line => format!(", first in line {line}"),
    }
}

fn first(entries: &[Entry]) -> Place {
    entries.first().map(|entry| entry.place).unwrap_or_default()
}

fn set<T>(to: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *to = value;
    }
}

/// A URL, and who knows what is in it.
fn is_perhaps_secret(text: &str) -> bool {
    text.contains(['@', '?', '=']) && !text.contains("${")
}

/// At most 40 characters on one line.
fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
    if text.chars().nth(40).is_some() {
        shown.push('…');
    }
    shown
}

const LONGEST: Duration = Duration::from_secs(3_650 * 86_400);
const MOST_PROBLEMS: usize = 100;
