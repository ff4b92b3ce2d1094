use memchr::{memchr2, memmem};

use super::capture::{self, Capture};
use super::{Format, Found, Incomplete, scan};
use crate::exception::Disposition;
use crate::form::text::squeeze;
use crate::{Asked, ServiceException, mask};

/// Reads JSON as far as its end depends on it: brackets and strings, and of the outermost object the members that
/// announce, count or complain.
#[derive(Debug)]
pub(super) struct Json {
    style: Style,
    state: State,
    depth: u32,
    /// The bracket that the outermost value began with.
    top: u8,
    /// Outermost values that were closed.
    values: u64,
    /// The parenthesis of the callback was closed.
    call_closed: bool,
    expects_key: bool,
    reads_key: bool,
    /// The member `context` of STAC is open: its members are read like those of the outermost object.
    within_context: bool,
    key: Key,
    key_text: Vec<u8>,
    /// The value of the member `key`, while it is kept.
    value: Option<Vec<u8>>,
    counted: Option<Array>,
    members: Members,
    seen: Seen,
    malformed: Option<u64>,
    foreign: Option<Capture>,
}

/// What may stand around the value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Style {
    /// One value.
    Value,
    /// One value in the call of a function.
    Call,
    /// One value after the other.
    Sequence,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Plain,
    String { escaped: bool },
    Done,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Key {
    #[default]
    Other,
    Type,
    Returned,
    Matched,
    Features,
    Collections,
    Elements,
    /// Marks Overpass, as `elements` does.
    Osm,
    Context,
    Links,
    Remark,
    Error,
    Exceptions,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Array {
    Features,
    Collections,
}

#[derive(Debug, Default)]
struct Members {
    features: Option<u64>,
    collections: Option<u64>,
    returned: Option<u64>,
    matched: Option<u64>,
    has_next: bool,
}

#[derive(Debug, Default)]
struct Seen {
    is_feature: bool,
    is_overpass: bool,
    remark: Option<(u64, Vec<u8>)>,
    /// An `error` that comes after the members.
    error: Option<(u64, Key, Vec<u8>)>,
}

const LONGEST_KEY: usize = 32;
const LONGEST_VALUE: usize = 4096;
/// Bytes that are looked at together where nothing but their brackets counts.
const BLOCK: usize = 32;
/// Below this depth every bracket counts by itself: the outermost value, its members, and the elements of an array.
const COUNTED_DEPTH: u32 = 3;

impl Json {
    pub(super) fn new(style: Style) -> Self {
        Self {
            style,
            state: State::Plain,
            depth: 0,
            top: 0,
            values: 0,
            call_closed: false,
            expects_key: false,
            reads_key: false,
            within_context: false,
            key: Key::Other,
            key_text: Vec::new(),
            value: None,
            counted: None,
            members: Members::default(),
            seen: Seen::default(),
            malformed: None,
            foreign: None,
        }
    }

    /// `at`: where `bytes` begin.
    pub(super) fn push(&mut self, bytes: &[u8], at: u64) {
        let mut i = 0;
        while i < bytes.len() {
            match self.state {
                State::String { escaped: true } => {
                    self.keep(&bytes[i..=i]);
                    self.state = State::String { escaped: false };
                    i += 1;
                }
                State::String { escaped: false } => {
                    let end = memchr2(b'"', b'\\', &bytes[i..]);
                    let Some(end) = end.map(|end| i + end) else {
                        self.keep(&bytes[i..]);
                        return;
                    };
                    self.keep(&bytes[i..end]);
                    if bytes[end] == b'\\' {
                        self.keep(b"\\");
                        self.state = State::String { escaped: true };
                    } else {
                        self.state = State::Plain;
                        self.end_string();
                    }
                    i = end + 1;
                }
                State::Plain => {
                    if self.depth >= COUNTED_DEPTH && self.value.is_none() {
                        i = self.deep(bytes, i);
                        if i == bytes.len() {
                            return;
                        }
                    }
                    i = self.plain(bytes, i, at);
                }
                State::Done => {
                    if let Some(foreign) = &mut self.foreign {
                        foreign.push(&bytes[i..]);
                    }
                    return;
                }
            }
        }
    }

    pub(super) fn finish(&mut self, came: u64, asked: &Asked) -> Result<Found, Incomplete> {
        let format = Format::Json;
        let is_closed = self.depth == 0 && self.values > 0;
        if let Some(foreign) = &self.foreign {
            let at = foreign.at;
            return Err(match foreign.exception(asked) {
                Some(exception) => Incomplete::Exception { at, exception },
                None if is_closed => Incomplete::Trailing { format, at },
                None => Incomplete::Malformed { format, at },
            });
        }
        if let Some(at) = self.malformed {
            return Err(Incomplete::Malformed { format, at });
        }
        if let Some((at, exception)) = self.tail(asked) {
            return Err(Incomplete::Exception { at, exception });
        }
        if !is_closed || self.style == Style::Call && !self.call_closed {
            return Err(Incomplete::NotClosed { format, came });
        }
        let members = match (self.members.features, self.members.collections) {
            (None, collections) => collections,
            (features, _) => features,
        };
        Ok(Found {
            members,
            announced: self.members.returned,
            matched: self.members.matched,
            has_next: self.members.has_next,
        })
    }

    /// An exception among the outermost members, behind those that were asked for.
    fn tail(&self, asked: &Asked) -> Option<(u64, Box<ServiceException>)> {
        if self.seen.is_overpass
            && let Some((at, remark)) = &self.seen.remark
        {
            let document = [b"{\"elements\":[],\"remark\":", &remark[..], b"}"].concat();
            if let Some(exception) = capture::read(asked, &document) {
                return Some((*at, exception));
            }
        }
        let (at, key, value) = self.seen.error.as_ref()?;
        let name: &[u8] = match key {
            Key::Exceptions => b"{\"exceptions\":",
            _ => b"{\"error\":",
        };
        let value = value.trim_ascii();
        if matches!(
            value,
            b"" | b"null" | b"false" | b"\"\"" | b"{}" | b"[]" | b"0"
        ) {
            return None;
        }
        let exception = capture::read(asked, &[name, value, b"}"].concat()).unwrap_or_else(|| {
            Box::new(ServiceException {
                dialect: "json",
                code: None,
                locator: None,
                message: mask::message(&squeeze(&String::from_utf8_lossy(value))).into(),
                disposition: Disposition::Transient,
                credentials: false,
                retry_after: None,
                retry_at: None,
            })
        });
        Some((*at, exception))
    }

    /// Passes over all that lies within an element of an array or deeper: nothing there is kept or counted.
    #[inline]
    fn deep(&mut self, bytes: &[u8], mut i: usize) -> usize {
        while i < bytes.len() {
            match bytes[i] {
                b'"' => {
                    i += 1;
                    loop {
                        let Some(end) = scan::either(&bytes[i..], b'"', b'\\') else {
                            self.state = State::String { escaped: false };
                            return bytes.len();
                        };
                        i += end + 1;
                        if bytes[i - 1] == b'"' {
                            break;
                        }
                        if i == bytes.len() {
                            self.state = State::String { escaped: true };
                            return i;
                        }
                        i += 1;
                    }
                }
                b'{' => {
                    self.depth = self.depth.saturating_add(1);
                    i += 1;
                }
                b'[' => {
                    self.depth = self.depth.saturating_add(1);
                    i = self.skip_blocks(bytes, i + 1);
                }
                b'}' | b']' if self.depth > COUNTED_DEPTH => {
                    self.depth -= 1;
                    i += 1;
                }
                b'}' | b']' | b'<' => return i,
                _ => i += 1,
            }
        }
        i
    }

    /// Passes over blocks without a string in which nothing is closed that counts by itself: coordinates.
    #[inline]
    fn skip_blocks(&mut self, bytes: &[u8], mut i: usize) -> usize {
        while let Some(block) = bytes[i..].first_chunk::<BLOCK>() {
            let (mut opened, mut closed, mut special) = (0_u8, 0_u8, 0_u8);
            for &byte in block {
                // `[` and `{`, `]` and `}` differ in this bit alone.
                let folded = byte | 0x20;
                opened += u8::from(folded == b'{');
                closed += u8::from(folded == b'}');
                special |= u8::from(byte == b'"') | u8::from(byte == b'<');
            }
            let (opened, closed) = (u32::from(opened), u32::from(closed));
            if special != 0 || self.depth < closed + COUNTED_DEPTH {
                break;
            }
            self.depth = self.depth.saturating_add(opened) - closed;
            i += BLOCK;
        }
        i
    }

    /// Reads up to the next bracket, string or comma.
    #[inline]
    fn plain(&mut self, bytes: &[u8], i: usize, at: u64) -> usize {
        let rest = &bytes[i..];
        let found = rest.iter().position(|&byte| IS_MARK[usize::from(byte)]);
        let end = found.unwrap_or(rest.len());
        if self.depth == 0
            && let Some(foreign) = rest[..end].iter().position(|&byte| !is_filling(byte))
        {
            return self.outside(bytes, i + foreign, at);
        }
        if self.value.is_some() {
            self.keep(&rest[..end]);
        }
        if end == rest.len() {
            return bytes.len();
        }
        let i = i + end;
        let byte = bytes[i];
        match byte {
            b'{' | b'[' => {
                if self.depth == 0 && self.values > 0 && self.style != Style::Sequence {
                    if !self.seen.is_feature {
                        return self.outside(bytes, i, at);
                    }
                    self.style = Style::Sequence;
                }
                self.open(byte);
            }
            b'}' | b']' => {
                if self.depth == 0 {
                    return self.outside(bytes, i, at);
                }
                self.close(byte, at + i as u64);
            }
            b'"' if self.depth == 0 => return self.outside(bytes, i, at),
            b'"' => {
                if self.expects_key && (self.depth == 1 || self.depth == 2 && self.within_context) {
                    self.reads_key = true;
                    self.key_text.clear();
                } else {
                    self.keep(b"\"");
                }
                self.state = State::String { escaped: false };
            }
            b',' if self.depth <= 2 => self.comma(),
            b':' if self.depth <= 2 => self.colon(at + i as u64),
            b'<' => return self.outside(bytes, i, at),
            _ => self.keep(&[byte]),
        }
        i + 1
    }

    /// Something at `i` that stands outside of every value, or that is no JSON.
    #[cold]
    fn outside(&mut self, bytes: &[u8], i: usize, at: u64) -> usize {
        if self.depth == 0 {
            match (self.style, bytes[i]) {
                (Style::Call, b')') if !self.call_closed && self.values > 0 => {
                    self.call_closed = true;
                    return i + 1;
                }
                (Style::Call, b';') if self.call_closed => return i + 1,
                // RFC 8142: each text of a sequence begins with a record separator.
                (_, 0x1E) => {
                    self.style = Style::Sequence;
                    return i + 1;
                }
                (Style::Sequence, b',') => return i + 1,
                _ => {}
            }
        }
        self.foreign = Some(Capture::new(at + i as u64));
        self.state = State::Done;
        i
    }

    fn open(&mut self, bracket: u8) {
        match self.depth {
            0 => {
                self.top = bracket;
                self.expects_key = bracket == b'{';
            }
            1 if self.top == b'{' => {
                match (self.key, bracket) {
                    (Key::Features, b'[') => {
                        self.counted = Some(Array::Features);
                        self.members.features = Some(0);
                    }
                    (Key::Collections, b'[') => {
                        self.counted = Some(Array::Collections);
                        self.members.collections = Some(0);
                    }
                    (Key::Context, b'{') => {
                        self.within_context = true;
                        self.expects_key = true;
                        self.value = None;
                    }
                    _ => {}
                }
                self.keep(&[bracket]);
            }
            2 => {
                let count = match (self.counted, bracket) {
                    (Some(Array::Features), b'{') => self.members.features.as_mut(),
                    (Some(Array::Collections), b'{') => self.members.collections.as_mut(),
                    _ => None,
                };
                if let Some(count) = count {
                    *count += 1;
                }
                self.keep(&[bracket]);
            }
            _ => self.keep(&[bracket]),
        }
        self.depth = self.depth.saturating_add(1);
    }

    fn close(&mut self, bracket: u8, at: u64) {
        match self.depth {
            1 => {
                self.end_value();
                self.values += 1;
                if (self.top == b'{') != (bracket == b'}') {
                    self.malformed = Some(at);
                    self.state = State::Done;
                }
            }
            2 if self.within_context => {
                self.end_value();
                self.within_context = false;
                self.expects_key = false;
            }
            2 => {
                self.counted = None;
                self.keep(&[bracket]);
            }
            _ => self.keep(&[bracket]),
        }
        self.depth -= 1;
    }

    fn comma(&mut self) {
        if self.depth == 1 && self.top == b'{' || self.depth == 2 && self.within_context {
            self.end_value();
            self.expects_key = true;
        } else {
            self.keep(b",");
        }
    }

    fn colon(&mut self, at: u64) {
        if !(self.expects_key && (self.depth == 1 || self.within_context)) {
            self.keep(b":");
            return;
        }
        self.expects_key = false;
        let has_members = self.members.features.is_some() || self.seen.is_overpass;
        let wanted = match self.key {
            Key::Type | Key::Returned | Key::Matched | Key::Links => true,
            Key::Remark => {
                self.seen.remark = Some((at, Vec::new()));
                true
            }
            Key::Error | Key::Exceptions if has_members => {
                self.seen.error = Some((at, self.key, Vec::new()));
                true
            }
            Key::Elements | Key::Osm => {
                self.seen.is_overpass = true;
                false
            }
            _ => false,
        };
        self.value = wanted.then(Vec::new);
    }

    fn end_string(&mut self) {
        if !std::mem::take(&mut self.reads_key) {
            self.keep(b"\"");
            return;
        }
        self.key = match (&self.key_text[..], self.depth) {
            (b"returned", 2) => Key::Returned,
            (b"matched", 2) => Key::Matched,
            (_, 2) => Key::Other,
            (b"type", _) => Key::Type,
            (b"numberReturned", _) => Key::Returned,
            (b"numberMatched", _) => Key::Matched,
            (b"features", _) => Key::Features,
            (b"collections", _) => Key::Collections,
            (b"elements", _) => Key::Elements,
            (b"osm3s", _) => Key::Osm,
            (b"context" | b"search:metadata", _) => Key::Context,
            (b"links", _) => Key::Links,
            (b"remark", _) => Key::Remark,
            (b"error", _) => Key::Error,
            (b"exceptions", _) => Key::Exceptions,
            _ => Key::Other,
        };
    }

    fn end_value(&mut self) {
        let Some(value) = self.value.take() else {
            return;
        };
        let text = value.trim_ascii();
        let number = || {
            let text = text.strip_prefix(b"\"").unwrap_or(text);
            let text = text.strip_suffix(b"\"").unwrap_or(text);
            std::str::from_utf8(text).ok()?.trim().parse().ok()
        };
        match self.key {
            Key::Type => self.seen.is_feature = text == b"\"Feature\"",
            Key::Returned => self.members.returned = number(),
            Key::Matched => self.members.matched = number(),
            // RFC 8288: the relation of a link.
            Key::Links => self.members.has_next = memmem::find(text, b"\"next\"").is_some(),
            Key::Remark => {
                if let Some((_, remark)) = &mut self.seen.remark {
                    *remark = value;
                }
            }
            Key::Error | Key::Exceptions => {
                if let Some((_, _, error)) = &mut self.seen.error {
                    *error = value;
                }
            }
            _ => {}
        }
    }

    /// Adds to the key or the value that is being read.
    #[inline]
    fn keep(&mut self, bytes: &[u8]) {
        if self.reads_key {
            // A longer key is none that is known; one byte more tells.
            let room = LONGEST_KEY - self.key_text.len();
            self.key_text
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
        } else if let Some(value) = &mut self.value {
            let room = LONGEST_VALUE - value.len();
            value.extend_from_slice(&bytes[..bytes.len().min(room)]);
            if value.len() == LONGEST_VALUE {
                // A string that goes on is closed, so that what is kept can be read.
                if value[0] == b'"' {
                    value.push(b'"');
                }
                self.end_value();
            }
        }
    }
}

/// Blanks, and the terminating zero that some programs write.
fn is_filling(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0 | 0x0C)
}

/// Bytes that mean something outside of strings.
const IS_MARK: [bool; 256] = {
    let mut marks = [false; 256];
    let mut i = 0;
    while i < MARKS.len() {
        marks[MARKS[i] as usize] = true;
        i += 1;
    }
    marks
};

const MARKS: &[u8] = b"{}[]\",:<";
