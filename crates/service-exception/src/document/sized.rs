//! Formats that say at their beginning how long they are.

use super::gather::Gather;
use super::{Format, Incomplete};

/// The size in a RIFF header counts what comes after it (WebP container specification).
#[derive(Debug, Default)]
pub(super) struct WebP {
    gather: Gather,
    expected: Option<u64>,
}

impl WebP {
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        if self.expected.is_none()
            && let Some(field) = self.gather.take(&mut bytes, 8)
        {
            let size = u32::from_le_bytes([field[4], field[5], field[6], field[7]]);
            self.expected = Some(8 + u64::from(size));
        }
    }

    pub(super) fn finish(&self, came: u64) -> Result<(), Incomplete> {
        short(Format::WebP, self.expected.unwrap_or(12), came)
    }
}

/// Page size and number of pages (SQLite database file format, section 1.3).
#[derive(Debug, Default)]
pub(super) struct Sqlite {
    header: Vec<u8>,
}

impl Sqlite {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let taken = (100 - self.header.len()).min(bytes.len());
        self.header.extend_from_slice(&bytes[..taken]);
    }

    pub(super) fn finish(&self, came: u64) -> Result<(), Incomplete> {
        let Some(header) = self.header.get(..100) else {
            return short(Format::Sqlite, 100, came);
        };
        let number = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let page = match u16::from_be_bytes([header[16], header[17]]) {
            1 => 65_536,
            page => u64::from(page),
        };
        // The number of pages counts only where the two change counters agree.
        let pages = if number(24) == number(92) {
            number(28)
        } else {
            1
        };
        short(Format::Sqlite, page * u64::from(pages.max(1)), came)
    }
}

/// Walks the top-level fields of a tile (protocol buffers encoding; MVT 2.1, section 4): it ends where one of them ends.
///
/// A tile that is cut between two layers is a shorter tile, and nothing tells.
#[derive(Debug, Default)]
pub(super) struct VectorTile {
    gather: Gather,
    state: Field,
    number: u64,
    shift: u32,
    /// Bytes that have to come by the lengths read so far.
    expected: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Field {
    #[default]
    Key,
    Value,
    Length,
    /// Something that a tile does not hold: nothing is checked.
    Foreign,
}

impl VectorTile {
    pub(super) fn push(&mut self, mut bytes: &[u8], at: u64) {
        let end = at + bytes.len() as u64;
        while self.state != Field::Foreign {
            let Some(field) = self.gather.take(&mut bytes, 1) else {
                return;
            };
            let byte = field[0];
            if self.shift > 63 {
                self.state = Field::Foreign;
                return;
            }
            self.number |= u64::from(byte & 0x7F) << self.shift;
            self.shift += 7;
            if byte & 0x80 != 0 {
                continue;
            }
            let number = std::mem::take(&mut self.number);
            self.shift = 0;
            let mut pass = |skip: u64| {
                self.gather.skip = skip;
                self.expected = (end - bytes.len() as u64).saturating_add(skip);
                Field::Key
            };
            self.state = match (self.state, number & 7) {
                (Field::Length, _) => pass(number),
                (Field::Value, _) => Field::Key,
                (Field::Key, 0) => Field::Value,
                (Field::Key, 1) => pass(8),
                (Field::Key, 2) => Field::Length,
                (Field::Key, 5) => pass(4),
                _ => Field::Foreign,
            };
        }
    }

    pub(super) fn finish(&self, came: u64) -> Result<(), Incomplete> {
        if self.state == Field::Foreign
            || self.state == Field::Key && self.shift == 0 && self.gather.is_between()
        {
            return Ok(());
        }
        short(Format::VectorTile, self.expected.max(came + 1), came)
    }
}

fn short(format: Format, expected: u64, came: u64) -> Result<(), Incomplete> {
    if came < expected {
        return Err(Incomplete::Short {
            format,
            expected,
            came,
        });
    }
    Ok(())
}
