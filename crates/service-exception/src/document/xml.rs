use std::sync::LazyLock;

use memchr::{memchr, memchr3, memmem};

use super::capture::{self, Capture};
use super::{Format, Found, Incomplete, scan};
use crate::Asked;
use crate::form::xml::{Attributes, is_blank, local_name, prefix};

/// Reads XML as far as its end depends on it: which elements are open, how many members a collection has, and whether
/// a report stands in its midst. It is no validator: names of inner elements are not compared.
#[derive(Debug)]
pub(super) struct Xml {
    state: State,
    /// The markup that began in an earlier piece, from its `<` on, as much of it as is needed.
    held: Vec<u8>,
    /// Where that markup begins.
    held_at: u64,
    depth: u64,
    root: Option<Root>,
    closed: bool,
    collections: Vec<Level>,
    members: u64,
    announced: Option<u64>,
    matched: Option<u64>,
    has_next: bool,
    /// The words of an Overpass remark.
    remark: Option<Remark>,
    malformed: Option<u64>,
    foreign: Option<Capture>,
    /// The name of a report stands somewhere in this piece.
    names_report: bool,
    /// A page for people, or text that merely begins like markup: nothing is checked.
    unchecked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Text,
    /// After `<`, until it shows what begins there.
    Markup,
    StartTag {
        quote: u8,
        last: u8,
    },
    EndTag,
    Until {
        what: Until,
        last: [u8; 2],
    },
    Doctype {
        quote: u8,
        depth: u32,
        last: [u8; 3],
    },
    /// Nothing more is read but the capture.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Until {
    Comment,
    CData,
    Instruction,
}

#[derive(Debug)]
struct Root {
    /// Without the brackets.
    tag: Vec<u8>,
    name: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Collection,
    Osm,
    /// Holds reports by its nature, or is one.
    Report,
    Other,
}

#[derive(Debug)]
struct Level {
    /// The depth of its children.
    depth: u64,
    what: Part,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Collection,
    /// Holds one feature, or a collection of its own.
    Member,
    /// A member that holds collections: they count, it does not.
    Collections,
    /// Holds any number of features.
    Members,
}

#[derive(Debug)]
struct Remark {
    at: u64,
    words: Vec<u8>,
    open: bool,
}

/// Bytes of one tag that are kept where it comes in pieces, and of the root's.
const MAX_HELD: usize = 64 * 1024;
static REPORT: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new("ExceptionReport"));
const MAX_REMARK: usize = 1024;
/// Collections within collections; WFS knows two levels.
const MAX_LEVELS: usize = 32;

impl Xml {
    pub(super) fn new(announced: Option<u64>) -> Self {
        Self {
            state: State::Text,
            held: Vec::new(),
            held_at: 0,
            depth: 0,
            root: None,
            closed: false,
            collections: Vec::new(),
            members: 0,
            announced,
            matched: None,
            has_next: false,
            remark: None,
            malformed: None,
            foreign: None,
            names_report: false,
            unchecked: false,
        }
    }

    /// `at`: where `bytes` begin.
    pub(super) fn push(&mut self, bytes: &[u8], at: u64) {
        // A tag that began in an earlier piece is looked at in any case.
        self.names_report = REPORT.find(bytes).is_some();
        let mut i = 0;
        while i < bytes.len() {
            match self.state {
                State::Text => {
                    let end = scan::one(&bytes[i..], b'<').map_or(bytes.len(), |n| i + n);
                    if (self.depth == 0 || self.remark.as_ref().is_some_and(|remark| remark.open))
                        && let Some(foreign) = self.text(&bytes[i..end], at + i as u64)
                    {
                        i += foreign;
                        continue;
                    }
                    i = end;
                    if i < bytes.len() {
                        i = self.markup(bytes, i, at);
                    }
                }
                State::Markup => i = self.classify(bytes, i),
                State::StartTag { quote, last } => i = self.start_tag(bytes, i, quote, last),
                State::EndTag => {
                    let end = memchr(b'>', &bytes[i..]).map(|n| i + n);
                    self.hold(&bytes[i..end.unwrap_or(bytes.len())]);
                    i = end.map_or(bytes.len(), |end| end + 1);
                    if end.is_some() {
                        let held = std::mem::take(&mut self.held);
                        self.state = State::Text;
                        self.end(&held[2.min(held.len())..], self.held_at);
                        self.reuse(held);
                    }
                }
                State::Until { what, last } => i = self.until(bytes, i, what, last),
                State::Doctype { .. } => i = self.doctype(bytes, i),
                State::Done => {
                    self.capture(&bytes[i..]);
                    return;
                }
            }
        }
    }

    pub(super) fn finish(&mut self, came: u64, asked: &Asked) -> Result<Found, Incomplete> {
        let format = Format::Xml;
        if self.unchecked {
            return Ok(Found::default());
        }
        if let Some(foreign) = &self.foreign {
            let at = foreign.at;
            return Err(match foreign.exception(asked) {
                Some(exception) => Incomplete::Exception { at, exception },
                None if self.closed => Incomplete::Trailing { format, at },
                None => Incomplete::Malformed { format, at },
            });
        }
        if let Some(Remark { at, words, .. }) = &self.remark {
            let document = [b"<osm><remark>", &words[..], b"</remark></osm>"].concat();
            if let Some(exception) = capture::read(asked, &document) {
                return Err(Incomplete::Exception { at: *at, exception });
            }
        }
        if let Some(at) = self.malformed {
            return Err(Incomplete::Malformed { format, at });
        }
        if !self.closed || self.state != State::Text {
            return Err(Incomplete::NotClosed { format, came });
        }
        let is_collection = self
            .root
            .as_ref()
            .is_some_and(|root| root.kind == Kind::Collection);
        Ok(Found {
            members: is_collection.then_some(self.members),
            announced: self.announced.filter(|_| is_collection),
            matched: self.matched,
            has_next: self.has_next,
        })
    }

    /// A `<` at `i`: reads a whole tag where it lies in `bytes`, which nearly all do.
    #[inline]
    fn markup(&mut self, bytes: &[u8], i: usize, at: u64) -> usize {
        let rest = &bytes[i..];
        let begin = at + i as u64;
        match rest.get(1) {
            Some(b'/') => {
                if let Some(end) = scan::one(&rest[2..], b'>') {
                    self.end(&rest[2..2 + end], begin);
                    return i + end + 3;
                }
                self.held_at = begin;
                self.hold(rest);
                self.state = State::EndTag;
                bytes.len()
            }
            None | Some(b'!' | b'?') => {
                self.held_at = begin;
                self.hold(b"<");
                self.state = State::Markup;
                i + 1
            }
            Some(_) => {
                let mut end = 1;
                let mut open = 0;
                while let Some(found) = scan::any(&rest[end..], b'>', b'"', b'\'') {
                    end += found;
                    let quote = rest[end];
                    if quote == b'>' {
                        let tag = &rest[1..end];
                        self.start(tag, tag.last() == Some(&b'/'), begin);
                        if self.state == State::Done {
                            self.capture(&rest[..=end]);
                        }
                        return i + end + 1;
                    }
                    end += 1;
                    let Some(close) = scan::one(&rest[end..], quote) else {
                        open = quote;
                        break;
                    };
                    end += close + 1;
                }
                self.held_at = begin;
                self.hold(rest);
                let last = rest[rest.len() - 1];
                self.state = State::StartTag { quote: open, last };
                bytes.len()
            }
        }
    }

    /// What begins with the held `<`, byte by byte until it shows.
    fn classify(&mut self, bytes: &[u8], i: usize) -> usize {
        self.hold(&bytes[i..=i]);
        let until = |what| State::Until { what, last: [0; 2] };
        self.state = match &self.held[..] {
            b"<!" | b"<!-" => State::Markup,
            b"<!--" => until(Until::Comment),
            b"<![CDATA[" if self.depth == 0 && self.closed => {
                self.foreign = Some(Capture::new(self.held_at));
                State::Done
            }
            b"<![CDATA[" => until(Until::CData),
            [b'<', b'!', rest @ ..] if b"[CDATA[".starts_with(rest) => State::Markup,
            [b'<', b'!', ..] => State::Doctype {
                quote: 0,
                depth: 0,
                last: [0; 3],
            },
            b"<?" | b"<?x" | b"<?xm" | b"<?xml" => State::Markup,
            [b'<', b'?', rest @ ..] => {
                let ended = *rest == b"xml?"[..];
                let is_declaration =
                    rest.len() == 4 && rest.starts_with(b"xml") && (is_blank(rest[3]) || ended);
                if is_declaration && self.root.is_some() {
                    // A second document begins within the first.
                    self.state = State::Done;
                    let held = std::mem::take(&mut self.held);
                    self.foreign = Some(Capture::new(self.held_at));
                    self.capture(&held);
                    return i + 1;
                }
                let last = *rest.last().unwrap_or(&0);
                State::Until {
                    what: Until::Instruction,
                    last: [0, last],
                }
            }
            b"</" => State::EndTag,
            // The rest may end the tag at once; the scan starts with this byte.
            _ => {
                self.held.pop();
                State::StartTag { quote: 0, last: 0 }
            }
        };
        match self.state {
            State::Markup | State::EndTag | State::Doctype { .. } => {}
            State::StartTag { .. } => return i,
            _ => self.held.clear(),
        }
        i + 1
    }

    fn start_tag(&mut self, bytes: &[u8], i: usize, quote: u8, last: u8) -> usize {
        let rest = &bytes[i..];
        let found = match quote {
            0 => memchr3(b'>', b'"', b'\'', rest),
            quote => memchr(quote, rest),
        };
        let Some(end) = found else {
            self.hold(rest);
            let last = rest.last().copied().unwrap_or(last);
            self.state = State::StartTag { quote, last };
            return bytes.len();
        };
        if rest[end] == b'>' && quote == 0 {
            self.hold(&rest[..end]);
            let last = if end > 0 { rest[end - 1] } else { last };
            let held = std::mem::take(&mut self.held);
            self.state = State::Text;
            self.names_report = true;
            self.start(&held[1..], last == b'/', self.held_at);
            if self.state == State::Done {
                self.capture(&held);
                self.capture(b">");
            }
            self.reuse(held);
        } else {
            self.hold(&rest[..=end]);
            self.state = State::StartTag {
                quote: if quote == 0 { rest[end] } else { 0 },
                last: rest[end],
            };
        }
        i + end + 1
    }

    fn until(&mut self, bytes: &[u8], i: usize, what: Until, mut last: [u8; 2]) -> usize {
        let rest = &bytes[i..];
        let mut from = 0;
        while let Some(found) = memchr(b'>', &rest[from..]) {
            let end = from + found;
            let before = match end {
                0 => last,
                1 => [last[1], rest[0]],
                end => [rest[end - 2], rest[end - 1]],
            };
            if match what {
                Until::Comment => before == *b"--",
                Until::CData => before == *b"]]",
                Until::Instruction => before[1] == b'?',
            } {
                self.state = State::Text;
                return i + end + 1;
            }
            from = end + 1;
        }
        last = match rest {
            [one] => [last[1], *one],
            [.., one, two] => [*one, *two],
            [] => last,
        };
        self.state = State::Until { what, last };
        bytes.len()
    }

    /// `<!DOCTYPE name … [internal subset]>`, with quotes and comments inside (XML 1.0, section 2.8).
    fn doctype(&mut self, bytes: &[u8], i: usize) -> usize {
        let State::Doctype {
            mut quote,
            mut depth,
            mut last,
        } = self.state
        else {
            return i;
        };
        for (n, &byte) in bytes[i..].iter().enumerate() {
            if self.held.len() < 64 {
                self.held.push(byte);
            }
            match (quote, byte) {
                (b'-', b'>') if last[1..] == *b"--" => quote = 0,
                (0, b'"' | b'\'') => quote = byte,
                (0, b'-') if last == *b"<!-" => quote = b'-',
                (0, b'[') => depth = depth.saturating_add(1),
                (0, b']') => depth = depth.saturating_sub(1),
                (0, b'>') if depth == 0 => {
                    let name = self.held[2..].get(b"DOCTYPE".len()..).unwrap_or_default();
                    let name = name.trim_ascii_start();
                    self.unchecked |= name.len() >= 4 && name[..4].eq_ignore_ascii_case(b"html");
                    self.held.clear();
                    self.state = if self.unchecked {
                        State::Done
                    } else {
                        State::Text
                    };
                    return i + n + 1;
                }
                // A dash that opened a comment closes none by itself.
                (b'"' | b'\'', byte) if byte == quote => quote = 0,
                _ => {}
            }
            last = [last[1], last[2], byte];
        }
        self.state = State::Doctype { quote, depth, last };
        bytes.len()
    }

    /// Text outside of the root, and the words of a remark. Answers where text stands that belongs nowhere.
    fn text(&mut self, text: &[u8], at: u64) -> Option<usize> {
        if self.depth > 0 {
            if let Some(remark) = &mut self.remark {
                let taken = (MAX_REMARK - remark.words.len()).min(text.len());
                remark.words.extend_from_slice(&text[..taken]);
            }
            return None;
        }
        // A terminating zero is what some CGI programs write behind their documents.
        let foreign = text
            .iter()
            .position(|&byte| !is_blank(byte) && byte != 0 && byte != 0x0C)?;
        if self.closed {
            self.foreign = Some(Capture::new(at + foreign as u64));
        } else {
            self.unchecked = true;
        }
        self.state = State::Done;
        Some(foreign)
    }

    #[inline]
    fn start(&mut self, tag: &[u8], empty: bool, at: u64) {
        // Names count only where something is counted or suspected.
        let is_member = self
            .collections
            .last()
            .is_some_and(|level| level.depth == self.depth);
        if (self.depth <= 1 || is_member || self.names_report) && !self.named(tag, empty, at) {
            return;
        }
        if !empty {
            self.depth += 1;
        } else if self.depth == 0 {
            self.closed = true;
        }
    }

    /// Whether the document goes on with this element.
    fn named(&mut self, tag: &[u8], empty: bool, at: u64) -> bool {
        let name = tag
            .iter()
            .position(|&byte| is_blank(byte) || byte == b'/')
            .unwrap_or(tag.len());
        let local = local_name(&tag[..name]);
        if self.depth == 0 {
            if self.closed {
                self.foreign = Some(Capture::new(at));
                self.state = State::Done;
                return false;
            }
            self.begin(tag, name);
            return !self.unchecked;
        }
        if local.ends_with(b"ExceptionReport") && self.is_report(tag, &tag[..name]) {
            self.foreign = Some(Capture::new(at));
            self.state = State::Done;
            return false;
        }
        if let Some(level) = self.collections.last()
            && level.depth == self.depth
        {
            let what = level.what;
            self.count(what, local, empty);
        }
        if self.depth == 1
            && local == b"remark"
            && self
                .root
                .as_ref()
                .is_some_and(|root| root.kind == Kind::Osm)
        {
            self.remark = Some(Remark {
                at,
                words: Vec::new(),
                open: !empty,
            });
        }
        true
    }

    #[cold]
    fn begin(&mut self, tag: &[u8], name: usize) {
        let local = local_name(&tag[..name]);
        if local.eq_ignore_ascii_case(b"html") {
            self.unchecked = true;
            self.state = State::Done;
            return;
        }
        let kind = match local {
            b"FeatureCollection" | b"SimpleFeatureCollection" | b"ValueCollection" => {
                Kind::Collection
            }
            b"osm" => Kind::Osm,
            b"ExceptionReport"
            | b"ServiceExceptionReport"
            | b"ExecuteResponse"
            | b"Envelope"
            | b"StatusInfo" => Kind::Report,
            _ => Kind::Other,
        };
        if kind == Kind::Collection {
            self.collections.push(Level {
                depth: 1,
                what: Part::Collection,
            });
            for (name, value) in Attributes::new(&tag[name..]) {
                let number = std::str::from_utf8(value)
                    .ok()
                    .and_then(|text| text.trim().parse().ok());
                match local_name(name) {
                    b"numberReturned" => self.announced = number,
                    b"numberMatched" => self.matched = number,
                    b"next" => self.has_next = !value.is_empty(),
                    b"numberOfFeatures" => {
                        self.announced = number;
                        self.matched = number;
                    }
                    _ => {}
                }
            }
        }
        self.root = Some(Root {
            tag: tag[..tag.len().min(MAX_HELD)].to_vec(),
            name,
            kind,
        });
    }

    fn count(&mut self, what: Part, local: &[u8], empty: bool) {
        let inner = match (what, local) {
            // OGC 09-025r2, 7.6.2.6 and 8.4.2: a query among several answers with a collection in a member.
            (
                Part::Member | Part::Collections,
                b"FeatureCollection" | b"SimpleFeatureCollection",
            ) => {
                if let Some(member) = self.collections.last_mut()
                    && member.what == Part::Member
                {
                    member.what = Part::Collections;
                    self.members -= 1;
                }
                Part::Collection
            }
            (Part::Collection, b"member" | b"featureMember") => {
                self.members += 1;
                Part::Member
            }
            (Part::Collection, b"members" | b"featureMembers") => Part::Members,
            (Part::Members, _) => {
                self.members += 1;
                return;
            }
            _ => return,
        };
        if !empty && self.collections.len() < MAX_LEVELS {
            self.collections.push(Level {
                depth: self.depth + 1,
                what: inner,
            });
        }
    }

    #[inline]
    fn end(&mut self, name: &[u8], at: u64) {
        let depth = self.depth;
        if depth <= 1 {
            self.end_outermost(name, at);
            return;
        }
        self.depth = depth - 1;
        if let Some(level) = self.collections.last()
            && level.depth == depth
        {
            self.collections.pop();
        }
        if depth == 2
            && let Some(remark) = &mut self.remark
        {
            remark.open = false;
        }
    }

    #[cold]
    fn end_outermost(&mut self, name: &[u8], at: u64) {
        let root = self
            .root
            .as_ref()
            .map(|root| &root.tag[..root.name.min(root.tag.len())]);
        if self.depth == 0 {
            if self.closed {
                self.foreign = Some(Capture::new(at));
            } else {
                self.unchecked = true;
            }
            self.state = State::Done;
            return;
        }
        if root != Some(name.trim_ascii_end()) && name.len() < MAX_HELD {
            self.malformed = Some(at);
            self.state = State::Done;
            return;
        }
        self.depth = 0;
        self.collections.clear();
        self.closed = true;
    }

    /// A report of OGC, not a feature type or a record of that name.
    #[cold]
    fn is_report(&self, tag: &[u8], name: &[u8]) -> bool {
        let Some(root) = &self.root else { return false };
        let local = local_name(name);
        if root.kind == Kind::Report
            || !matches!(local, b"ExceptionReport" | b"ServiceExceptionReport")
        {
            return false;
        }
        let prefix = prefix(name);
        let declared = |tag: &[u8], from: usize| {
            Attributes::new(tag.get(from..).unwrap_or_default())
                .find(|(attribute, _)| match prefix {
                    [] => *attribute == b"xmlns",
                    prefix => attribute.strip_prefix(b"xmlns:") == Some(prefix),
                })
                .map(|(_, namespace)| {
                    memchr::memmem::find(namespace, b"opengis.net").is_some()
                        || memchr::memmem::find(namespace, b"opengeospatial.org").is_some()
                })
        };
        let in_namespace = declared(tag, name.len()).or_else(|| declared(&root.tag, root.name));
        in_namespace.unwrap_or(match prefix {
            [] => local == b"ServiceExceptionReport",
            prefix => matches!(prefix, b"ows" | b"ogc" | b"ows11" | b"ows20"),
        })
    }

    fn hold(&mut self, bytes: &[u8]) {
        let taken = (MAX_HELD - self.held.len().min(MAX_HELD)).min(bytes.len());
        self.held.extend_from_slice(&bytes[..taken]);
    }

    /// Keeps the room of what was held.
    fn reuse(&mut self, mut held: Vec<u8>) {
        held.clear();
        self.held = held;
    }

    fn capture(&mut self, bytes: &[u8]) {
        if let Some(foreign) = &mut self.foreign {
            foreign.push(bytes);
        }
    }
}
