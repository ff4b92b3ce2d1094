use super::gather::Gather;
use super::{Format, Incomplete};

/// Walks the blocks (GIF89a, section 12 and appendix A) to the trailer.
#[derive(Debug, Default)]
pub(super) struct Gif {
    gather: Gather,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Header,
    Block,
    ExtensionLabel,
    Image,
    /// The size of a code, before the image's data.
    CodeSize,
    SubBlock,
    Closed,
    Malformed(u64),
}

impl Gif {
    pub(super) fn push(&mut self, mut bytes: &[u8], at: u64) {
        let end = at + bytes.len() as u64;
        loop {
            let want = match self.state {
                State::Header => 13,
                State::Image => 9,
                State::Block | State::ExtensionLabel | State::CodeSize | State::SubBlock => 1,
                State::Closed | State::Malformed(_) => return,
            };
            let Some(field) = self.gather.take(&mut bytes, want) else {
                return;
            };
            self.state = match (&self.state, field[0]) {
                (State::Header, _) => {
                    self.gather.skip = color_table(field[10]);
                    State::Block
                }
                (State::Block, 0x2C) => State::Image,
                (State::Block, 0x21) => State::ExtensionLabel,
                (State::Block, 0x3B) => State::Closed,
                // A stray terminator is passed over by decoders.
                (State::Block, 0) => State::Block,
                (State::Block, _) => State::Malformed(end - bytes.len() as u64 - 1),
                (State::Image, _) => {
                    self.gather.skip = color_table(field[8]);
                    State::CodeSize
                }
                (State::SubBlock, 0) => State::Block,
                (State::SubBlock, length) => {
                    self.gather.skip = u64::from(length);
                    State::SubBlock
                }
                _ => State::SubBlock,
            };
        }
    }

    pub(super) fn finish(&self, came: u64) -> Result<(), Incomplete> {
        let format = Format::Gif;
        match self.state {
            State::Closed => Ok(()),
            State::Malformed(at) => Err(Incomplete::Malformed { format, at }),
            _ => Err(Incomplete::NotClosed { format, came }),
        }
    }
}

/// Bytes of the colour table that a packed field announces.
fn color_table(packed: u8) -> u64 {
    if packed & 0x80 == 0 {
        0
    } else {
        3 << ((packed & 7) + 1)
    }
}
