//! A resumable JSON reader: the members of one object, or the elements of one array, without a tree and without a copy.

use std::borrow::Cow;
use std::ops::Range;

/// What the scanner meets at the top level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The value of `key` (empty in an array) begins with this byte.
    Opened { key: Range<usize>, first: u8 },
    /// A member, or an element where the key is empty, is complete.
    Member {
        key: Range<usize>,
        value: Range<usize>,
    },
    /// The object or array is closed; what follows is not looked at.
    Closed,
    /// This is no JSON.
    Broken,
}

/// Reads the top level of a buffer that grows at its end; no byte is read twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scanner {
    at: usize,
    state: State,
    array: bool,
    depth: u32,
    key: Range<usize>,
    value: usize,
    in_string: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Before,
    Key,
    InKey,
    Colon,
    Value,
    String,
    Scalar,
    Nested,
    Closed,
    Broken,
}

impl Scanner {
    pub(crate) fn starting_at(at: usize) -> Self {
        Self {
            at,
            ..Self::default()
        }
    }

    /// Whether the top level is an array.
    pub(crate) fn is_array(&self) -> bool {
        self.array
    }

    /// How far it has read.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn next(&mut self, bytes: &[u8]) -> Option<Event> {
        loop {
            match self.state {
                State::Before => match self.skip_blanks(bytes)? {
                    b'{' => self.enter(State::Key),
                    b'[' => {
                        self.array = true;
                        self.enter(State::Value);
                    }
                    _ => return Some(self.broken()),
                },
                State::Key => match self.skip_blanks(bytes)? {
                    b'"' => {
                        self.enter(State::InKey);
                        self.key = self.at..self.at;
                    }
                    b',' => self.at += 1,
                    b'}' => return Some(self.closed()),
                    _ => return Some(self.broken()),
                },
                State::InKey => {
                    self.string_end(bytes)?;
                    self.key.end = self.at - 1;
                    self.state = State::Colon;
                }
                State::Colon => match self.skip_blanks(bytes)? {
                    b':' => self.enter(State::Value),
                    _ => return Some(self.broken()),
                },
                State::Value => {
                    let first = self.skip_blanks(bytes)?;
                    if self.array && first == b',' {
                        self.at += 1;
                        continue;
                    }
                    if self.array && first == b']' {
                        return Some(self.closed());
                    }
                    self.value = self.at;
                    self.state = match first {
                        b'"' => State::String,
                        b'{' | b'[' => State::Nested,
                        b'-' | b'0'..=b'9' | b'a'..=b'z' | b'N' | b'I' => State::Scalar,
                        _ => return Some(self.broken()),
                    };
                    self.at += 1;
                    self.depth = 1;
                    return Some(Event::Opened {
                        key: self.key.clone(),
                        first,
                    });
                }
                State::String => {
                    self.string_end(bytes)?;
                    return Some(self.member(self.at));
                }
                State::Scalar => {
                    let rest = bytes.get(self.at..)?;
                    let Some(end) = rest.iter().position(|byte| {
                        matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')
                    }) else {
                        self.at = bytes.len();
                        return None;
                    };
                    self.at += end;
                    return Some(self.member(self.at));
                }
                State::Nested => {
                    self.nested_end(bytes)?;
                    return Some(self.member(self.at));
                }
                State::Closed | State::Broken => return None,
            }
        }
    }

    /// The member whose value is not complete where the buffer ends.
    pub(crate) fn open_member(&self, bytes: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
        matches!(self.state, State::String | State::Scalar | State::Nested)
            .then(|| (self.key.clone(), self.value..bytes.len()))
    }

    fn enter(&mut self, state: State) {
        self.at += 1;
        self.state = state;
    }

    fn closed(&mut self) -> Event {
        self.at += 1;
        self.state = State::Closed;
        Event::Closed
    }

    fn broken(&mut self) -> Event {
        self.state = State::Broken;
        Event::Broken
    }

    fn member(&mut self, end: usize) -> Event {
        self.state = if self.array { State::Value } else { State::Key };
        Event::Member {
            key: self.key.clone(),
            value: self.value..end,
        }
    }

    fn skip_blanks(&mut self, bytes: &[u8]) -> Option<u8> {
        while let Some(&byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Moves past the quote that ends the string the cursor stands in.
    fn string_end(&mut self, bytes: &[u8]) -> Option<()> {
        loop {
            let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(self.at..)?) else {
                self.at = bytes.len();
                return None;
            };
            let at = self.at + found;
            if bytes[at] == b'"' {
                self.at = at + 1;
                return Some(());
            }
            self.at = at;
            if at + 1 >= bytes.len() {
                return None;
            }
            self.at += 2;
        }
    }

    fn nested_end(&mut self, bytes: &[u8]) -> Option<()> {
        loop {
            if self.in_string {
                self.string_end(bytes)?;
                self.in_string = false;
            }
            let rest = bytes.get(self.at..)?;
            let mut closed = None;
            for (offset, byte) in rest.iter().enumerate() {
                match byte {
                    b'"' => {
                        self.in_string = true;
                        closed = Some(offset);
                        break;
                    }
                    b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            closed = Some(offset);
                            break;
                        }
                    }
                    _ => {}
                }
            }
            let Some(offset) = closed else {
                self.at = bytes.len();
                return None;
            };
            self.at += offset + 1;
            if !self.in_string {
                return Some(());
            }
        }
    }
}

/// A value as it stands in the text, cut off or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'a>(pub(crate) &'a [u8]);

impl<'a> Json<'a> {
    /// The members of an object, or the elements of an array with empty keys; none for other values.
    pub fn members(self) -> impl Iterator<Item = (&'a [u8], Json<'a>)> {
        let bytes = self.0;
        let mut scanner = Scanner::default();
        let mut ended = !matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'['));
        std::iter::from_fn(move || {
            while !ended {
                match scanner.next(bytes) {
                    Some(Event::Member { key, value }) => {
                        return Some((&bytes[key], Json(&bytes[value])));
                    }
                    Some(Event::Opened { .. }) => {}
                    Some(Event::Closed | Event::Broken) => ended = true,
                    None => {
                        ended = true;
                        return scanner
                            .open_member(bytes)
                            .map(|(key, value)| (&bytes[key], Json(&bytes[value])));
                    }
                }
            }
            None
        })
    }

    /// The member of this name.
    pub fn get(self, name: &str) -> Option<Self> {
        if !self.is_object() {
            return None;
        }
        self.members()
            .find(|(key, _)| *key == name.as_bytes())
            .map(|(_, value)| value)
    }

    /// Whether it is an object.
    pub fn is_object(self) -> bool {
        self.0.trim_ascii_start().first() == Some(&b'{')
    }

    /// Whether it is an array.
    pub fn is_array(self) -> bool {
        self.0.trim_ascii_start().first() == Some(&b'[')
    }

    /// Whether it is an array or object without anything in it.
    pub fn is_empty(self) -> bool {
        (self.is_object() || self.is_array()) && self.members().next().is_none()
    }

    /// The text of a string, with its escapes replaced; a string that is cut off ends where it was cut.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        let inner = self.0.trim_ascii().strip_prefix(b"\"")?;
        let complete = {
            let mut scanner = Scanner {
                state: State::String,
                ..Scanner::default()
            };
            scanner.string_end(inner).map(|()| scanner.at - 1)
        };
        let text = String::from_utf8_lossy(&inner[..complete.unwrap_or(inner.len())]);
        Some(if memchr::memchr(b'\\', text.as_bytes()).is_some() {
            Cow::Owned(unescape(&text))
        } else {
            text
        })
    }

    /// A number, or a string that holds one.
    pub fn as_i64(self) -> Option<i64> {
        let text = self.0.trim_ascii();
        let text = text
            .strip_prefix(b"\"")
            .and_then(|text| text.strip_suffix(b"\""))
            .unwrap_or(text);
        std::str::from_utf8(text).ok()?.parse().ok()
    }

    /// What a code looks like: the text of a string or a number as it stands.
    pub fn as_code(self) -> Option<Cow<'a, str>> {
        let text = self.0.trim_ascii();
        match text.first()? {
            b'"' => self.as_str().filter(|text| !text.is_empty()),
            b'-' | b'0'..=b'9' => Some(String::from_utf8_lossy(text)),
            _ => None,
        }
    }

    /// Whether it is the literal `true`.
    pub fn is_true(self) -> bool {
        self.0.trim_ascii() == b"true"
    }

    /// Whether it is the literal `false`.
    pub fn is_false(self) -> bool {
        self.0.trim_ascii() == b"false"
    }

    /// Every text in it, joined: what an error with nested details says.
    pub(crate) fn all_text(self, depth: u8, into: &mut String) {
        if into.len() > 1024 || depth == 0 {
            return;
        }
        if let Some(text) = self.as_str() {
            if !into.is_empty() {
                into.push(' ');
            }
            into.push_str(&text);
        } else {
            for (_, value) in self.members() {
                value.all_text(depth - 1, into);
            }
        }
    }
}

/// RFC 8259 §7.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let mut after = rest[at + 1..].chars();
        let escaped = after.next();
        rest = after.as_str();
        match escaped {
            Some('n' | 'r' | 't' | 'b' | 'f') => plain.push(' '),
            Some('u') => {
                let (unit, length) = hex4(rest);
                rest = &rest[length..];
                let character = match unit {
                    Some(high @ 0xD800..=0xDBFF) => {
                        let low = rest
                            .strip_prefix("\\u")
                            .map(hex4)
                            .and_then(|(low, length)| low.zip(Some(length)));
                        match low {
                            Some((low @ 0xDC00..=0xDFFF, length)) => {
                                rest = &rest[2 + length..];
                                char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
                            }
                            _ => None,
                        }
                    }
                    Some(unit) => char::from_u32(unit),
                    None => None,
                };
                plain.push(character.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    plain.push_str(rest);
    plain
}

fn hex4(text: &str) -> (Option<u32>, usize) {
    match text
        .get(..4)
        .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        Some(digits) => (u32::from_str_radix(digits, 16).ok(), 4),
        None => (None, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &[u8] =
        b" { \"a\\\"\" : [1,{\"x\":\"]}\\\\\"}], \"b\":\"t\\u00fc\\ud83d\\ude00\", \"c\" : 12 ,\"d\":{}, \"e\":null}  tail";

    #[test]
    fn members_of_the_top_level_are_found_whatever_is_nested_in_them() {
        let members: Vec<_> = Json(DOCUMENT)
            .members()
            .map(|(key, value)| [key, b"=", value.0].concat())
            .collect();
        let members: Vec<_> = members
            .iter()
            .map(|member| String::from_utf8_lossy(member))
            .collect();
        assert_eq!(
            members,
            [
                "a\\\"=[1,{\"x\":\"]}\\\\\"}]",
                "b=\"t\\u00fc\\ud83d\\ude00\"",
                "c=12",
                "d={}",
                "e=null"
            ]
        );
        assert_eq!(Json(DOCUMENT).get("b").unwrap().as_str().unwrap(), "tü😀");
        assert_eq!(Json(DOCUMENT).get("c").unwrap().as_i64(), Some(12));
    }

    #[test]
    fn the_events_are_the_same_when_the_bytes_come_one_at_a_time() {
        let read = |ends: &mut dyn Iterator<Item = usize>| {
            let mut scanner = Scanner::default();
            let mut events = Vec::new();
            for end in ends {
                while let Some(event) = scanner.next(&DOCUMENT[..end]) {
                    events.push(event);
                }
            }
            events
        };
        assert_eq!(
            read(&mut (0..=DOCUMENT.len())),
            read(&mut std::iter::once(DOCUMENT.len()))
        );
    }

    #[test]
    fn a_text_that_is_cut_off_gives_what_there_is() {
        let cut = Json(br#"{"error":{"code":500,"message":"Could not re\"#);
        let error = cut.get("error").unwrap();
        assert_eq!(error.get("code").unwrap().as_code().unwrap(), "500");
        assert_eq!(
            error.get("message").unwrap().as_str().unwrap(),
            "Could not re"
        );
    }
}
