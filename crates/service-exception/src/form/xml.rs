//! A resumable XML tokenizer: no tree, no copy, one pass. It forgives what servers send; it is no validator.

use std::ops::Range;

/// One token, as ranges of the scanned bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// `<name attributes>` or `<name attributes/>`.
    Start {
        name: Range<usize>,
        attributes: Range<usize>,
        empty: bool,
    },
    /// `</name>`.
    End { name: Range<usize> },
    /// Character data, never empty.
    Text(Range<usize>),
    /// What stands in a CDATA section.
    CData(Range<usize>),
    /// `<?…?>`.
    Instruction(Range<usize>),
    /// `<!DOCTYPE …>`: what stands after the word.
    Doctype(Range<usize>),
    /// `<!-- … -->`.
    Comment,
}

/// Reads tokens off a buffer that grows at its end; keeps its place within a token, so that no byte is read twice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scanner {
    /// Where the token begins.
    at: usize,
    /// How far the search for its end has come.
    searched: usize,
    quote: u8,
    depth: u32,
}

impl Scanner {
    pub(crate) fn starting_at(at: usize) -> Self {
        Self {
            at,
            searched: at,
            ..Self::default()
        }
    }

    /// Where the next token begins.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The next token that is complete in `bytes`, which begin as they began at the last call.
    pub(crate) fn next(&mut self, bytes: &[u8]) -> Option<Token> {
        let rest = bytes.get(self.at..)?;
        let (&first, after) = rest.split_first()?;
        if first != b'<' {
            return self.text(bytes);
        }
        match after {
            [b'?', ..] => self.until(bytes, 2, b"?>").map(Token::Instruction),
            [b'/', ..] => self.until(bytes, 2, b">").map(|name| Token::End {
                name: trimmed(bytes, name),
            }),
            [b'!', b'-', b'-', ..] => self.until(bytes, 4, b"-->").map(|_| Token::Comment),
            [b'!', b'-'] | [b'!'] | [] => None,
            [b'!', b'[', ..] if b"<![CDATA[".starts_with(&rest[..rest.len().min(9)]) => {
                if rest.len() < 9 {
                    None
                } else {
                    self.until(bytes, 9, b"]]>").map(Token::CData)
                }
            }
            [b'!', ..] => self.doctype(bytes),
            _ => self.start(bytes),
        }
    }

    /// What is left of the text that the buffer ends in, for a caller that knows that no more will come.
    pub(crate) fn rest(&self, bytes: &[u8]) -> Range<usize> {
        self.at.min(bytes.len())..bytes.len()
    }

    fn text(&mut self, bytes: &[u8]) -> Option<Token> {
        let from = self.searched.max(self.at);
        match memchr::memchr(b'<', &bytes[from..]) {
            Some(found) => {
                let range = self.at..from + found;
                self.move_to(range.end);
                Some(Token::Text(range))
            }
            None => {
                self.searched = bytes.len();
                None
            }
        }
    }

    fn until(&mut self, bytes: &[u8], prefix: usize, end: &[u8]) -> Option<Range<usize>> {
        let begin = self.at + prefix;
        let from = self.searched.max(begin).min(bytes.len());
        let mut at = from;
        let (&last, before) = end.split_last()?;
        while let Some(found) = memchr::memchr(last, &bytes[at..]) {
            let close = at + found;
            if close >= begin + before.len() && bytes[..close].ends_with(before) {
                self.move_to(close + 1);
                return Some(begin..close - before.len());
            }
            at = close + 1;
        }
        self.searched = bytes.len();
        None
    }

    fn start(&mut self, bytes: &[u8]) -> Option<Token> {
        let mut at = self.searched.max(self.at + 1);
        loop {
            let close = match self.quote {
                0 => {
                    let found = bytes[at..]
                        .iter()
                        .position(|byte| matches!(byte, b'>' | b'"' | b'\''));
                    let Some(found) = found else { break };
                    at += found;
                    match bytes[at] {
                        b'>' => at,
                        quote => {
                            self.quote = quote;
                            at += 1;
                            continue;
                        }
                    }
                }
                quote => {
                    let Some(found) = memchr::memchr(quote, &bytes[at..]) else {
                        break;
                    };
                    self.quote = 0;
                    at += found + 1;
                    continue;
                }
            };
            let empty = close > self.at + 1 && bytes[close - 1] == b'/';
            let inner = self.at + 1..close - usize::from(empty);
            let length = bytes[inner.clone()]
                .iter()
                .take_while(|&&byte| !is_blank(byte) && byte != b'/')
                .count();
            let name = inner.start..inner.start + length;
            let attributes = name.end..inner.end;
            self.move_to(close + 1);
            return Some(Token::Start {
                name,
                attributes,
                empty,
            });
        }
        self.searched = bytes.len();
        None
    }

    /// `<!DOCTYPE name … [internal subset]>`, with quotes and comments inside (XML 1.0 §2.8).
    fn doctype(&mut self, bytes: &[u8]) -> Option<Token> {
        let mut at = self.searched.max(self.at + 2);
        while at < bytes.len() {
            let byte = bytes[at];
            match (self.quote, byte) {
                (b'-', _)
                    // Within a comment of the internal subset.
                    if byte == b'>' && bytes[..at].ends_with(b"--") => {
                        self.quote = 0;
                    }
                (0, b'"' | b'\'') => self.quote = byte,
                (0, b'-') if bytes[..at].ends_with(b"<!-") && at >= self.at + 4 => {
                    self.quote = b'-';
                }
                (0, b'[') => self.depth = self.depth.saturating_add(1),
                (0, b']') => self.depth = self.depth.saturating_sub(1),
                (0, b'>') if self.depth == 0 => {
                    let range = self.at + 2..at;
                    self.move_to(at + 1);
                    return Some(Token::Doctype(range));
                }
                (quote, _) if quote == byte => self.quote = 0,
                _ => {}
            }
            at += 1;
        }
        self.searched = bytes.len();
        None
    }

    fn move_to(&mut self, at: usize) {
        *self = Self::starting_at(at);
    }
}

/// The attributes of a start tag: names as they stand, values between their quotes, entities not replaced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.trim_ascii_start();
        let equals = memchr::memchr(b'=', rest)?;
        let name = rest[..equals].trim_ascii_end();
        // Anything without a value before it belongs to HTML; the last word is the name.
        let name = name.rsplit(|&byte| is_blank(byte)).next().unwrap_or(name);
        let value = rest[equals + 1..].trim_ascii_start();
        match value.split_first() {
            Some((&quote @ (b'"' | b'\''), inner)) => {
                let end = memchr::memchr(quote, inner).unwrap_or(inner.len());
                self.rest = inner.get(end + 1..).unwrap_or_default();
                Some((name, &inner[..end]))
            }
            Some(_) => {
                let end = value
                    .iter()
                    .position(|&byte| is_blank(byte))
                    .unwrap_or(value.len());
                self.rest = &value[end..];
                Some((name, &value[..end]))
            }
            None => None,
        }
    }
}

/// The name without its prefix.
pub(crate) fn local_name(name: &[u8]) -> &[u8] {
    memchr::memrchr(b':', name).map_or(name, |at| &name[at + 1..])
}

/// The prefix of a name, empty where it has none.
pub(crate) fn prefix(name: &[u8]) -> &[u8] {
    memchr::memrchr(b':', name).map_or(&[], |at| &name[..at])
}

pub(crate) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn trimmed(bytes: &[u8], mut range: Range<usize>) -> Range<usize> {
    while range.end > range.start && is_blank(bytes[range.end - 1]) {
        range.end -= 1;
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(bytes: &[u8]) -> Vec<Token> {
        let mut scanner = Scanner::default();
        std::iter::from_fn(|| scanner.next(bytes)).collect()
    }

    const DOCUMENT: &[u8] =
        b"\n<?xml version='1.0'?><!-- a > <b> --><!DOCTYPE r [<!ENTITY v \"a]>b\"><!-- ' ]> -->]>\
        <x:r a = '>' b=\"/>\"><![CDATA[<no/>]]]]><c/ ></x:r >";

    #[test]
    fn markup_in_quotes_comments_and_cdata_ends_no_token() {
        let kinds: Vec<_> = tokens(DOCUMENT)
            .into_iter()
            .map(|token| match token {
                Token::Start {
                    name,
                    attributes,
                    empty,
                } => {
                    let names: Vec<_> = Attributes::new(&DOCUMENT[attributes])
                        .map(|(name, value)| [name, value].concat())
                        .collect();
                    format!(
                        "start {} {} {empty}",
                        String::from_utf8_lossy(&DOCUMENT[name]),
                        String::from_utf8_lossy(&names.concat())
                    )
                }
                Token::End { name } => format!("end {}", String::from_utf8_lossy(&DOCUMENT[name])),
                Token::Text(range) => format!("text {}", range.len()),
                Token::CData(range) => {
                    format!("cdata {}", String::from_utf8_lossy(&DOCUMENT[range]))
                }
                Token::Instruction(_) => "instruction".into(),
                Token::Doctype(_) => "doctype".into(),
                Token::Comment => "comment".into(),
            })
            .collect();
        assert_eq!(
            kinds,
            [
                "text 1",
                "instruction",
                "comment",
                "doctype",
                "start x:r a>b/> false",
                "cdata <no/>]]",
                "start c  false",
                "end x:r"
            ]
        );
    }

    #[test]
    fn the_tokens_are_the_same_when_the_bytes_come_one_at_a_time() {
        let mut scanner = Scanner::default();
        let mut found = Vec::new();
        for end in 0..=DOCUMENT.len() {
            while let Some(token) = scanner.next(&DOCUMENT[..end]) {
                found.push(token);
            }
        }
        assert_eq!(found, tokens(DOCUMENT));
    }
}
