use super::gather::Gather;
use super::{Format, Incomplete};

/// Walks the chunks (PNG third edition, section 5.3) to IEND; their checksums are the decoder's business.
#[derive(Debug, Default)]
pub(super) struct Png {
    gather: Gather,
    state: State,
}

#[derive(Debug, Default, PartialEq)]
enum State {
    #[default]
    Signature,
    Chunk,
    /// IEND's checksum.
    End,
    Closed,
    Malformed(u64),
}

impl Png {
    pub(super) const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

    /// `at`: where `bytes` begin.
    pub(super) fn push(&mut self, mut bytes: &[u8], at: u64) {
        let end = at + bytes.len() as u64;
        loop {
            let want = match self.state {
                State::Signature | State::Chunk => 8,
                State::End => 4,
                State::Closed | State::Malformed(_) => return,
            };
            let Some(field) = self.gather.take(&mut bytes, want) else {
                return;
            };
            let length = u32::from_be_bytes([field[0], field[1], field[2], field[3]]);
            self.state = match self.state {
                State::Signature => State::Chunk,
                State::Chunk if &field[4..8] == b"IEND" => {
                    self.gather.skip = u64::from(length);
                    State::End
                }
                State::Chunk
                    if length < 1 << 31 && field[4..8].iter().all(u8::is_ascii_alphabetic) =>
                {
                    self.gather.skip = u64::from(length) + 4;
                    State::Chunk
                }
                State::Chunk => State::Malformed(end - bytes.len() as u64 - 8),
                _ => State::Closed,
            };
        }
    }

    pub(super) fn finish(&self, came: u64) -> Result<(), Incomplete> {
        let format = Format::Png;
        match self.state {
            State::Closed => Ok(()),
            State::Malformed(at) => Err(Incomplete::Malformed { format, at }),
            _ => Err(Incomplete::NotClosed { format, came }),
        }
    }
}
