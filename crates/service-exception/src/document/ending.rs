//! Formats that only their last bytes tell: archives, and texts.

use memchr::memmem;

use super::gather::Tail;
use super::{Format, Found, Incomplete, scan};

/// The end of central directory record, the longest comment, and what zip64 puts before it (APPNOTE 4.3.14 to 4.3.16).
const ZIP_TAIL: usize = 22 + 0xFFFF + 20 + 56;

/// A zip archive: the directory at its end has to lie where its record says.
#[derive(Debug)]
pub(super) struct Zip {
    tail: Tail,
}

impl Zip {
    pub(super) fn new() -> Self {
        Self {
            tail: Tail::new(ZIP_TAIL),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.tail.push(bytes);
    }

    pub(super) fn finish(&self, came: u64) -> Result<(), Incomplete> {
        let tail = self.tail.bytes();
        let start = came - tail.len() as u64;
        let is_whole = memmem::rfind_iter(tail, b"PK\x05\x06").any(|at| {
            let record = &tail[at..];
            if record.len() < 22 || 22 + usize::from(short(record, 20)) > record.len() {
                return false;
            }
            let (size, offset) = (word(record, 12), word(record, 16));
            let ends_at = |size: u64, offset: u64| size.checked_add(offset);
            // An archive within the archive has a record of its own, whose numbers do not fit here.
            if size != u32::MAX && offset != u32::MAX {
                return ends_at(size.into(), offset.into()) == Some(start + at as u64);
            }
            at.checked_sub(20).is_some_and(|locator| {
                let locator_at = &tail[locator..];
                locator_at.starts_with(b"PK\x06\x07")
                    && usize::try_from(long(locator_at, 8).wrapping_sub(start))
                        .ok()
                        .and_then(|record| tail.get(record..locator))
                        .is_some_and(|record| {
                            record.len() >= 56
                                && record.starts_with(b"PK\x06\x06")
                                && ends_at(long(record, 40), long(record, 48))
                                    == Some(long(locator_at, 8))
                        })
            })
        });
        if is_whole {
            return Ok(());
        }
        Err(Incomplete::NotClosed {
            format: Format::Zip,
            came,
        })
    }
}

/// Texts and envelopes with a last word.
#[derive(Debug)]
pub(super) struct LastWords {
    format: Format,
    tail: Tail,
    word: Box<[u8]>,
}

impl LastWords {
    /// ISO 32000-1, 7.5.5; readers look for it in the last 1024 bytes (annex H.3).
    pub(super) fn pdf() -> Self {
        Self::new(Format::Pdf, 1024, b"%%EOF")
    }

    pub(super) fn dxf() -> Self {
        Self::new(Format::Dxf, 64, b"EOF")
    }

    /// RFC 2046, section 5.1.1; an epilogue may follow.
    pub(super) fn multipart(boundary: &[u8]) -> Self {
        let delimiter = [b"--", boundary, b"--"].concat();
        Self::new(Format::Multipart, 4096 + delimiter.len(), &delimiter)
    }

    fn new(format: Format, keep: usize, word: &[u8]) -> Self {
        Self {
            format,
            tail: Tail::new(keep),
            word: word.into(),
        }
    }

    pub(super) fn format(&self) -> Format {
        self.format
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.tail.push(bytes);
    }

    pub(super) fn finish(&self, came: u64) -> Result<(), Incomplete> {
        let tail = self.tail.bytes();
        let ends = match self.format {
            Format::Dxf => tail.trim_ascii_end().ends_with(&self.word),
            _ => memmem::rfind(tail, &self.word).is_some(),
        };
        if ends {
            return Ok(());
        }
        Err(Incomplete::NotClosed {
            format: self.format,
            came,
        })
    }
}

/// CSV: its last line has to be ended, outside of quotes.
///
/// RFC 4180 lets the last line break be left out; the servers of geodata write it, and nothing else shows a cut within
/// a line. A file that is cut between two lines is a shorter file, and nothing tells.
#[derive(Debug, Default)]
pub(super) struct Csv {
    quoted: bool,
    /// The last quote closed a field; one that follows at once is the second of a pair that stands for a quote.
    closed: bool,
    last: u8,
    lines: u64,
}

impl Csv {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut from = 0;
        loop {
            let rest = &bytes[from..];
            // Within quotes only a quote counts.
            let found = if self.quoted {
                scan::one(rest, b'"')
            } else {
                scan::either(rest, b'"', b'\n')
            };
            let Some(at) = found.map(|found| from + found) else {
                break;
            };
            from = at + 1;
            let before = match at {
                0 => self.last,
                at => bytes[at - 1],
            };
            if bytes[at] == b'\n' {
                // An empty line is none.
                self.lines += u64::from(before != b'\n');
                continue;
            }
            (self.quoted, self.closed) = match (self.quoted, before) {
                (true, _) => (false, true),
                (false, b'"') if self.closed => (true, false),
                (false, b',' | b';' | b'\t' | b'|' | b'\n' | b'\r' | 0) => (true, false),
                // Inches within a field: no quote by RFC 4180, and met all the same.
                (false, _) => (false, false),
            };
        }
        self.last = bytes.last().copied().unwrap_or(self.last);
    }

    pub(super) fn finish(&self, came: u64) -> Result<Found, Incomplete> {
        if self.quoted || !matches!(self.last, b'\n' | b'\r' | 0) {
            return Err(Incomplete::NotClosed {
                format: Format::Csv,
                came,
            });
        }
        Ok(Found {
            members: Some(self.lines.saturating_sub(1)),
            ..Found::default()
        })
    }
}

fn short(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}
