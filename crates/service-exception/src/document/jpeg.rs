use super::gather::Gather;
use super::{Format, Incomplete};

/// Walks the segments (ITU-T T.81, annex B) to the end of image. Thumbnails lie within segments; what follows the end
/// (a second picture, a camera's data) is passed over, as decoders do.
#[derive(Debug, Default)]
pub(super) struct Jpeg {
    gather: Gather,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Start,
    /// Looks for the 0xFF of the next marker: among segments, and in entropy-coded data.
    Search,
    /// A marker's second byte.
    Marker,
    Length,
    Closed,
}

impl Jpeg {
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        loop {
            match self.state {
                State::Closed => return,
                State::Start => {
                    if self.gather.take(&mut bytes, 2).is_none() {
                        return;
                    }
                    self.state = State::Search;
                }
                State::Search => {
                    // Past the segment that was skipped.
                    if self.gather.skip > 0 {
                        let skip = usize::try_from(self.gather.skip).unwrap_or(usize::MAX);
                        let skipped = skip.min(bytes.len());
                        self.gather.skip -= skipped as u64;
                        bytes = &bytes[skipped..];
                    }
                    let Some(found) = memchr::memchr(0xFF, bytes) else {
                        return;
                    };
                    bytes = &bytes[found + 1..];
                    self.state = State::Marker;
                }
                State::Marker => {
                    let Some(field) = self.gather.take(&mut bytes, 1) else {
                        return;
                    };
                    self.state = match field[0] {
                        // Fill bytes.
                        0xFF => State::Marker,
                        // A stuffed zero, a restart, or a marker without a length.
                        0x00 | 0x01 | 0xD0..=0xD8 => State::Search,
                        0xD9 => State::Closed,
                        _ => State::Length,
                    };
                }
                State::Length => {
                    let Some(field) = self.gather.take(&mut bytes, 2) else {
                        return;
                    };
                    let length = u16::from_be_bytes([field[0], field[1]]);
                    self.gather.skip = u64::from(length.saturating_sub(2));
                    self.state = State::Search;
                }
            }
        }
    }

    pub(super) fn finish(&self, came: u64) -> Result<(), Incomplete> {
        match self.state {
            State::Closed => Ok(()),
            _ => Err(Incomplete::NotClosed {
                format: Format::Jpeg,
                came,
            }),
        }
    }
}
