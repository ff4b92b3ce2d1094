//! A settings file as a tree whose every part knows where it stands.

use std::collections::{HashMap, HashSet};
use std::fmt;

use granit_parser::{Event, Marker, Parser, ScalarStyle, Span};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Where something stands in a file: line and column from 1. 0 where that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: u32,
    pub(super) column: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Switch(bool),
    /// What is larger is a number.
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) node: Node,
}

/// What is wrong with a file before it is a tree.
pub(super) struct Broken {
    pub(super) place: Place,
    pub(super) problem: String,
}

impl Node {
    /// The only document of a YAML 1.2 text; an empty one is [`Value::Null`].
    pub(super) fn of_yaml(text: &str) -> Result<Self, Broken> {
        let mut builder = Builder::default();
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| {
                let place = Place::of(error.marker());
                let mut problem = format!("this is no YAML: {}", error.info());
                if is_reference(text, place) {
                    problem += "; within [] and {} a `${NAME}` needs quotes";
                }
                Broken { place, problem }
            })?;
            builder.take(event, &span)?;
        }
        Ok(builder.root.unwrap_or(Self {
            place: Place { line: 1, column: 1 },
            value: Value::Null,
        }))
    }
}

impl Value {
    /// A plain scalar by YAML 1.2's core schema (YAML 1.2.2 §10.3.2).
    pub(super) fn of_plain(text: &str) -> Self {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return Self::Null,
            "true" | "True" | "TRUE" => return Self::Switch(true),
            "false" | "False" | "FALSE" => return Self::Switch(false),
            _ => {}
        }
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        match digits.as_bytes() {
            [b'0'..=b'9' | b'.', ..] => {}
            _ => return Self::Text(text.to_owned()),
        }
        let integer = match digits.get(..2) {
            Some("0x") => i64::from_str_radix(&text[2..], 16).ok(),
            Some("0o") => i64::from_str_radix(&text[2..], 8).ok(),
            _ if is_decimal(digits) => text.parse().ok(),
            _ => None,
        };
        if let (Some(integer), true) = (integer, is_decimal(digits) || digits.len() == text.len()) {
            return Self::Integer(integer);
        }
        let is_number = digits
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'-' | b'+'));
        match text.parse::<f64>() {
            Ok(number) if is_number => Self::Number(number),
            _ => Self::Text(text.to_owned()),
        }
    }
}

impl Place {
    fn of(marker: &Marker) -> Self {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            line: number(marker.line()),
            column: number(marker.col().saturating_add(1)),
        }
    }
}

/// Builds the tree from the parser's events.
#[derive(Default)]
struct Builder {
    open: Vec<Open>,
    root: Option<Node>,
    /// What aliases stand for, with its size.
    anchored: HashMap<usize, (Node, Size)>,
    /// How many nodes there are, those that aliases stand for counted each time.
    nodes: usize,
    /// How many bytes of text there are more than the file has: in what was copied for anchors and aliases.
    copied: usize,
}

/// A list or a map that has not ended yet.
struct Open {
    node: Node,
    anchor: usize,
    key: Option<(String, Place)>,
    /// What `<<` brought.
    merged: Vec<Entry>,
}

#[derive(Clone, Copy)]
struct Size {
    nodes: usize,
    /// Bytes of texts and keys.
    text: usize,
    height: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), Broken> {
        let place = Place::of(&span.start);
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain
                    && tag.is_none_or(|tag| !tag.is_yaml_core_schema_tag("str"));
                let value = match is_plain {
                    true => Value::of_plain(&text),
                    false => Value::Text(text.into_owned()),
                };
                // A key is what is written, whatever it could be read as.
                if let (true, Some(open)) = (self.waits_for_key(), self.open.last_mut()) {
                    let text = match value {
                        Value::Text(text) => text,
                        _ => span_text(&value),
                    };
                    open.key = Some((text, place));
                    return self.count(1, place);
                }
                (value, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                return self.begin(Value::List(Vec::new()), anchor, place);
            }
            Event::MappingStart(_, anchor, _) => {
                return self.begin(Value::Map(Vec::new()), anchor, place);
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(mut open) = self.open.pop() else {
                    return Ok(());
                };
                if let Value::Map(entries) = &mut open.node.value {
                    add_merged(entries, open.merged);
                }
                return self.add(open.node, open.anchor);
            }
            Event::Alias(anchor) => {
                // Taken out, and put back when it is copied.
                let Some((anchored, size)) = self.anchored.remove(&anchor) else {
                    return Err(broken(place, "an alias of what it stands in"));
                };
                if self.open.len() + size.height > DEEPEST {
                    return Err(broken(place, "nested too deeply"));
                }
                self.count_copy(size, place)?;
                let mut node = anchored.clone();
                node.place = place;
                self.anchored.insert(anchor, (anchored, size));
                return self.add(node, 0);
            }
            Event::DocumentStart(..) if self.root.is_some() => {
                return Err(broken(place, "a second document, expected one"));
            }
            _ => return Ok(()),
        };
        self.count(1, place)?;
        self.add(Node { place, value }, anchor)
    }

    fn begin(&mut self, value: Value, anchor: usize, place: Place) -> Result<(), Broken> {
        if self.waits_for_key() {
            return Err(broken(place, "a list or a block as a key, expected a name"));
        }
        if self.open.len() >= DEEPEST {
            return Err(broken(place, "nested too deeply"));
        }
        self.count(1, place)?;
        self.open.push(Open {
            node: Node { place, value },
            anchor,
            key: None,
            merged: Vec::new(),
        });
        Ok(())
    }

    fn waits_for_key(&self) -> bool {
        self.open
            .last()
            .is_some_and(|open| matches!(open.node.value, Value::Map(_)) && open.key.is_none())
    }

    fn add(&mut self, node: Node, anchor: usize) -> Result<(), Broken> {
        if anchor != 0 {
            let size = size(&node);
            self.count_copy(size, node.place)?;
            self.anchored.insert(anchor, (node.clone(), size));
        }
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match &mut open.node.value {
            Value::Map(entries) => match open.key.take() {
                Some((key, place)) if key == "<<" => merge(&mut open.merged, node, place),
                Some((key, place)) => {
                    entries.push(Entry { key, place, node });
                    Ok(())
                }
                None => Err(broken(node.place, "an alias as a key, expected a name")),
            },
            Value::List(nodes) => {
                nodes.push(node);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, nodes: usize, place: Place) -> Result<(), Broken> {
        self.nodes = self.nodes.saturating_add(nodes);
        match self.nodes > MOST_NODES {
            true => Err(broken(
                place,
                "more than 4 million values, those that aliases stand for included",
            )),
            false => Ok(()),
        }
    }

    /// Before it is made.
    fn count_copy(&mut self, size: Size, place: Place) -> Result<(), Broken> {
        self.copied = self.copied.saturating_add(size.text);
        if self.copied > MOST_COPIED {
            return Err(broken(place, "aliases stand for more than 64 MiB of text"));
        }
        self.count(size.nodes, place)
    }
}

/// `<<: *block`, or a list of such.
fn merge(merged: &mut Vec<Entry>, node: Node, place: Place) -> Result<(), Broken> {
    let blocks = match node.value {
        Value::List(nodes) => nodes,
        _ => vec![node],
    };
    for block in blocks {
        let Value::Map(entries) = block.value else {
            return Err(broken(place, "`<<` of what is no block of keys"));
        };
        merged.extend(entries);
    }
    Ok(())
}

/// What stands in a map goes before what was merged into it, and that before what was merged later.
fn add_merged(entries: &mut Vec<Entry>, merged: Vec<Entry>) {
    if merged.is_empty() {
        return;
    }
    let mut keys: HashSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    entries.extend(
        merged
            .into_iter()
            .filter(|entry| keys.insert(entry.key.clone())),
    );
}

/// Whether there stands the `{` of a `${NAME}`, which YAML takes for a map of its own within brackets.
fn is_reference(text: &str, place: Place) -> bool {
    let Some(before) = (place.column as usize).checked_sub(2) else {
        return false;
    };
    let line = text.lines().nth((place.line as usize).saturating_sub(1));
    let mut characters = line.unwrap_or_default().chars().skip(before);
    (characters.next(), characters.next()) == (Some('$'), Some('{'))
}

fn broken(place: Place, problem: &str) -> Broken {
    Broken {
        place,
        problem: problem.to_owned(),
    }
}

/// A key that is no text, as it stands in messages.
fn span_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Switch(switch) => switch.to_string(),
        Value::Integer(integer) => integer.to_string(),
        Value::Number(number) => number.to_string(),
        _ => String::new(),
    }
}

fn size(node: &Node) -> Size {
    let below = |start: Size, sizes: &mut dyn Iterator<Item = Size>| {
        sizes.fold(start, |sum, size| Size {
            nodes: sum.nodes + size.nodes,
            text: sum.text + size.text,
            height: sum.height.max(size.height + 1),
        })
    };
    let of = |nodes, text, height| Size {
        nodes,
        text,
        height,
    };
    match &node.value {
        Value::List(nodes) => below(of(1, 0, 1), &mut nodes.iter().map(size)),
        Value::Map(entries) => {
            let keys = entries.iter().map(|entry| entry.key.len()).sum();
            let start = of(1 + entries.len(), keys, 1);
            below(start, &mut entries.iter().map(|entry| size(&entry.node)))
        }
        Value::Text(text) => of(1, text.len(), 0),
        _ => of(1, 0, 0),
    }
}

/// From any other format: the places are not known.
impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_any(ValueVisitor)?;
        Ok(Self {
            place: Place::default(),
            value,
        })
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("settings")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Switch(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(i64::try_from(value).map_or(Value::Number(value as f64), Value::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Value::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, node)) = map.next_entry()? {
            entries.push(Entry {
                key,
                place: Place::default(),
                node,
            });
        }
        Ok(Value::Map(entries))
    }
}

const DEEPEST: usize = 64;
const MOST_NODES: usize = 4_000_000;
const MOST_COPIED: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_are_what_the_core_schema_says() {
        for (text, expected) in [
            ("12", "Integer(12)"),
            ("-3", "Integer(-3)"),
            ("9223372036854775807", "Integer(9223372036854775807)"),
            ("9223372036854775808", "Number(9.223372036854776e18)"),
            ("0x1f", "Integer(31)"),
            ("0o17", "Integer(15)"),
            ("1.50", "Number(1.5)"),
            (".5", "Number(0.5)"),
            ("1e3", "Number(1000.0)"),
            ("1.2.3", "Text(\"1.2.3\")"),
            ("10s", "Text(\"10s\")"),
            ("1/s", "Text(\"1/s\")"),
            (".", "Text(\".\")"),
            ("+", "Text(\"+\")"),
            ("-0x1f", "Text(\"-0x1f\")"),
            ("yes", "Text(\"yes\")"),
            ("True", "Switch(true)"),
            ("~", "Null"),
            (
                "99999999999999999999999999999999999999999999",
                "Number(1e44)",
            ),
        ] {
            assert_eq!(format!("{:?}", Value::of_plain(text)), expected, "{text}");
        }
    }

    #[test]
    fn what_is_merged_goes_behind_what_stands_there() {
        for text in [
            "a: &x {b: 1, c: 2}\nd: {<<: *x, b: 3}",
            "a: &x {b: 1, c: 2}\nd: {b: 3, <<: [*x]}",
        ] {
            let Ok(Node {
                value: Value::Map(entries),
                ..
            }) = Node::of_yaml(text)
            else {
                panic!("{text}");
            };
            let Value::Map(merged) = &entries[1].node.value else {
                panic!("{text}");
            };
            let mut keys: Vec<_> = merged
                .iter()
                .map(|entry| format!("{}={:?}", entry.key, entry.node.value))
                .collect();
            keys.sort();
            assert_eq!(keys, ["b=Integer(3)", "c=Integer(2)"]);
        }
    }

    #[test]
    fn aliases_of_aliases_do_not_explode() {
        let mut text = "a0: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n".to_owned();
        for n in 1..20 {
            let before = n - 1;
            let ten = format!("*a{before}, ").repeat(10);
            text += &format!("a{n}: &a{n} [{ten}]\n");
        }
        let error = Node::of_yaml(&text).err().map(|broken| broken.problem);
        assert!(error.unwrap_or_default().contains("more than 4 million"));
    }

    /// Law 10: a file of a few megabytes asked for terabytes.
    #[test]
    fn aliases_of_a_long_text_do_not_explode() {
        let text = "t".repeat(1_000_000);
        for begin in [format!("x: &a {text}"), format!("x: &a {{? {text} : 1}}")] {
            let text = format!("{begin}\ny: [{}]", "*a, ".repeat(1_000));
            let error = Node::of_yaml(&text).err().map(|broken| broken.problem);
            assert!(error.unwrap_or_default().contains("more than 64 MiB"));
        }
    }

    #[test]
    fn anchors_within_anchors_do_not_multiply_what_they_hold() {
        let open: String = (0..60).map(|n| format!("&a{n} [")).collect();
        let text = format!("x: {open}{}{}", "1,".repeat(200_000), "]".repeat(60));
        let error = Node::of_yaml(&text).err().map(|broken| broken.problem);
        assert!(error.unwrap_or_default().contains("more than 4 million"));
    }

    #[test]
    fn aliases_do_not_nest_without_end() {
        let mut text = "a0: &a0 []\n".to_owned();
        for n in 1..100_000 {
            text += &format!("a{n}: &a{n} [*a{}]\n", n - 1);
        }
        let error = Node::of_yaml(&text).err().map(|broken| broken.problem);
        assert_eq!(error.as_deref(), Some("nested too deeply"));
    }
}
