use std::collections::BTreeMap;

use super::gather::Tail;
use super::{Format, Incomplete};

/// TIFF and BigTIFF: everything that the directories point to has to lie within the file (TIFF 6.0, section 2).
///
/// The file comes as a stream, and its directories lie anywhere in it. What a directory points to further on is read as
/// it passes. What lies behind is read where it is among the last [`RETAINED`] bytes; else only its place and length
/// are known, which is what shows a cut.
#[derive(Debug)]
pub(super) struct Tiff {
    header: Vec<u8>,
    layout: Option<Layout>,
    malformed: Option<u64>,
    tail: Tail,
    wants: Vec<Want>,
    visited: Vec<u64>,
    segments: BTreeMap<u64, Segments>,
    /// Numbers held in `segments`.
    held: usize,
    /// Bytes that were read as part of a directory or an array.
    read: u64,
    /// Where the last byte has to lie that anything points to, and one more.
    expected: u64,
}

#[derive(Clone, Copy, Debug)]
struct Layout {
    little: bool,
    big: bool,
}

/// Bytes that have not been read yet.
#[derive(Debug)]
struct Want {
    next: u64,
    end: u64,
    what: What,
    field: [u8; 20],
    filled: usize,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// How many entries the directory at this place has.
    Count {
        directory: u64,
    },
    Entry {
        directory: u64,
        left: u64,
    },
    /// Where the next directory lies.
    Next,
    Numbers {
        directory: u64,
        role: Role,
        size: usize,
        index: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Offsets,
    Lengths,
    Directories,
}

/// Where the strips or tiles of one directory lie, and how long they are.
#[derive(Debug, Default)]
struct Segments {
    offsets: Vec<u64>,
    lengths: Vec<u64>,
    /// Among those for which there was no room: the last one of the file, with its place in the array.
    farthest: Option<(usize, u64)>,
}

/// Bytes kept of what has passed: writers put the arrays of a directory close to it.
const RETAINED: usize = 64 * 1024;
/// Strips and tiles whose places are kept (16 bytes each); of further ones only the farthest.
const MAX_HELD: usize = 128 * 1024;
const MAX_DIRECTORIES: usize = 1024;
/// A directory has at most three arrays that are read, and the next directory follows.
const MAX_WANTS: usize = 128;

impl Tiff {
    pub(super) fn new() -> Self {
        Self {
            header: Vec::new(),
            layout: None,
            malformed: None,
            tail: Tail::new(RETAINED),
            wants: Vec::new(),
            visited: Vec::new(),
            segments: BTreeMap::new(),
            held: 0,
            read: 0,
            expected: 8,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8], at: u64) {
        if self.layout.is_none() {
            self.read_header(bytes);
        }
        let end = at + bytes.len() as u64;
        // What is read asks for more, which may lie in the same bytes.
        while let Some(index) = self.wants.iter().position(|want| want.next < end) {
            let mut want = self.wants.swap_remove(index);
            let kept = self.tail.bytes();
            let kept_from = at - kept.len() as u64;
            let (from, piece) = match want.next {
                next if next >= at => (at, bytes),
                next if next >= kept_from => (kept_from, kept),
                // It has passed, and is not there any more.
                _ => continue,
            };
            let stop = want.end.min(from + piece.len() as u64);
            let piece = &piece[(want.next - from) as usize..(stop - from) as usize];
            want.next = stop;
            self.read += piece.len() as u64;
            // What does not overlap is read once; who lets a thousand arrays share their bytes is not followed.
            if self.read > 2 * end + RETAINED as u64 {
                continue;
            }
            let piece = &piece.to_vec();
            self.read(&mut want, piece);
            if want.next < want.end {
                self.wants.push(want);
            }
        }
        self.tail.push(bytes);
    }

    pub(super) fn finish(&self, came: u64) -> Result<(), Incomplete> {
        let format = Format::Tiff;
        if let Some(at) = self.malformed {
            return Err(Incomplete::Malformed { format, at });
        }
        if self.layout.is_none() {
            return Err(Incomplete::NotClosed { format, came });
        }
        let segments = self.segments.values().map(Segments::end).max();
        let expected = self.expected.max(segments.unwrap_or(0));
        if came < expected {
            return Err(Incomplete::Short {
                format,
                expected,
                came,
            });
        }
        Ok(())
    }

    fn read_header(&mut self, bytes: &[u8]) {
        let taken = (16 - self.header.len()).min(bytes.len());
        self.header.extend_from_slice(&bytes[..taken]);
        let header = &self.header;
        if header.len() < 8 {
            return;
        }
        let little = header[0] == b'I';
        let big = header[2..4].contains(&43);
        if big && header.len() < 16 {
            return;
        }
        let layout = Layout { little, big };
        let first = if big {
            layout.number(&header[8..16])
        } else {
            layout.number(&header[4..8])
        };
        self.layout = Some(layout);
        // Zero: the writer never came to its end.
        if first < 8 {
            self.malformed = Some(if big { 8 } else { 4 });
            return;
        }
        self.directory(first, layout);
    }

    fn directory(&mut self, at: u64, layout: Layout) {
        if self.visited.len() < MAX_DIRECTORIES && !self.visited.contains(&at) {
            self.visited.push(at);
            let what = What::Count { directory: at };
            self.want(at, if layout.big { 8 } else { 2 }, what);
        }
    }

    fn want(&mut self, at: u64, length: u64, what: What) {
        let end = at.saturating_add(length);
        self.expected = self.expected.max(end);
        if self.wants.len() < MAX_WANTS && length > 0 {
            self.wants.push(Want {
                next: at,
                end,
                what,
                field: [0; 20],
                filled: 0,
            });
        }
    }

    fn read(&mut self, want: &mut Want, mut piece: &[u8]) {
        let Some(layout) = self.layout else { return };
        while !piece.is_empty() {
            let size = match want.what {
                What::Count { .. } if layout.big => 8,
                What::Count { .. } => 2,
                What::Entry { .. } => layout.entry(),
                What::Next => layout.word(),
                What::Numbers { size, .. } => size,
            };
            let taken = (size - want.filled).min(piece.len());
            want.field[want.filled..want.filled + taken].copy_from_slice(&piece[..taken]);
            want.filled += taken;
            piece = &piece[taken..];
            if want.filled < size {
                return;
            }
            want.filled = 0;
            let field = want.field;
            let number = layout.number(&field[..size.min(8)]);
            match &mut want.what {
                What::Count { directory } => {
                    let directory = *directory;
                    let (entry, word) = (layout.entry() as u64, layout.word() as u64);
                    let entries = number.saturating_mul(entry);
                    let what = What::Entry {
                        directory,
                        left: number,
                    };
                    self.want(want.end, entries, what);
                    self.want(want.end.saturating_add(entries), word, What::Next);
                }
                What::Entry { directory, left } => {
                    *left -= 1;
                    let directory = *directory;
                    self.read_entry(directory, &field, layout);
                }
                What::Next if number != 0 => self.directory(number, layout),
                What::Next => {}
                What::Numbers {
                    directory,
                    role,
                    index,
                    ..
                } => {
                    let (directory, role, at) = (*directory, *role, *index);
                    *index += 1;
                    self.note(directory, role, at, number, layout);
                }
            }
        }
    }

    fn read_entry(&mut self, directory: u64, entry: &[u8; 20], layout: Layout) {
        let word = layout.word();
        let tag = layout.number(&entry[..2]);
        let kind = layout.number(&entry[2..4]);
        let count = layout.number(&entry[4..4 + word]);
        let size = match kind {
            1 | 2 | 6 | 7 => 1,
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16..=18 => 8,
            _ => return,
        };
        let length = count.saturating_mul(size);
        let value = &entry[4 + word..4 + 2 * word];
        let role = match tag {
            // StripOffsets, TileOffsets, and their byte counts; SubIFDs.
            273 | 324 => Some(Role::Offsets),
            279 | 325 => Some(Role::Lengths),
            330 => Some(Role::Directories),
            _ => None,
        };
        let role = role.filter(|_| matches!(kind, 3 | 4 | 13 | 16 | 18));
        let size = size as usize;
        if length <= word as u64 {
            if let Some(role) = role {
                for (index, number) in value[..length as usize].chunks_exact(size).enumerate() {
                    self.note(directory, role, index, layout.number(number), layout);
                }
            }
            return;
        }
        let at = layout.number(value);
        match role {
            Some(role) => {
                let what = What::Numbers {
                    directory,
                    role,
                    size,
                    index: 0,
                };
                self.want(at, length, what);
            }
            None => self.expected = self.expected.max(at.saturating_add(length)),
        }
    }

    fn note(&mut self, directory: u64, role: Role, index: usize, number: u64, layout: Layout) {
        if role == Role::Directories {
            self.directory(number, layout);
            return;
        }
        let segments = self.segments.entry(directory).or_default();
        let numbers = match role {
            Role::Offsets => &mut segments.offsets,
            _ => &mut segments.lengths,
        };
        if self.held < MAX_HELD && numbers.len() == index {
            numbers.push(number);
            self.held += 1;
            return;
        }
        match role {
            Role::Offsets if segments.farthest.is_none_or(|(_, at)| number > at) => {
                segments.farthest = Some((index, number));
                // At least one byte of it.
                self.expected = self.expected.max(number.saturating_add(1));
            }
            Role::Lengths => {
                if let Some((at, offset)) = segments.farthest
                    && at == index
                {
                    self.expected = self.expected.max(offset.saturating_add(number));
                }
            }
            _ => {}
        }
    }
}

impl Segments {
    /// Where the last one ends. A segment without a place or a length is a hole in a sparse file.
    fn end(&self) -> u64 {
        let ends =
            self.offsets
                .iter()
                .enumerate()
                .map(|(index, &offset)| match self.lengths.get(index) {
                    _ if offset == 0 => 0,
                    Some(0) => 0,
                    Some(&length) => offset.saturating_add(length),
                    None => offset,
                });
        ends.max().unwrap_or(0)
    }
}

impl Layout {
    fn word(self) -> usize {
        if self.big { 8 } else { 4 }
    }

    fn entry(self) -> usize {
        if self.big { 20 } else { 12 }
    }

    fn number(self, bytes: &[u8]) -> u64 {
        let put = |number, &byte: &u8| number << 8 | u64::from(byte);
        if self.little {
            bytes.iter().rev().fold(0, put)
        } else {
            bytes.iter().fold(0, put)
        }
    }
}
