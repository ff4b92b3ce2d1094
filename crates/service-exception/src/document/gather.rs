/// Gathers short fields of a binary format that come in any number of pieces, and skips what lies between them.
#[derive(Debug, Default)]
pub(super) struct Gather {
    /// Bytes to pass over before the next field.
    pub(super) skip: u64,
    field: [u8; 16],
    filled: usize,
}

impl Gather {
    /// Takes from `bytes` until `want` bytes (16 at most) of a field are there; `None` where more have to come.
    #[inline]
    pub(super) fn take(&mut self, bytes: &mut &[u8], want: usize) -> Option<[u8; 16]> {
        if self.skip > 0 {
            let skipped = usize::try_from(self.skip)
                .unwrap_or(usize::MAX)
                .min(bytes.len());
            *bytes = &bytes[skipped..];
            self.skip -= skipped as u64;
        }
        let taken = (want - self.filled).min(bytes.len());
        self.field[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
        *bytes = &bytes[taken..];
        self.filled += taken;
        if self.filled < want || self.skip > 0 {
            return None;
        }
        self.filled = 0;
        Some(self.field)
    }

    /// Whether nothing of the next field has come, and nothing is left to be skipped.
    pub(super) fn is_between(&self) -> bool {
        self.filled == 0 && self.skip == 0
    }
}

/// The last bytes of a stream, at least `keep` of them where so many came.
#[derive(Debug)]
pub(super) struct Tail {
    keep: usize,
    bytes: Vec<u8>,
}

impl Tail {
    pub(super) fn new(keep: usize) -> Self {
        Self {
            keep,
            bytes: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if bytes.len() >= self.keep {
            self.bytes.clear();
            self.bytes
                .extend_from_slice(&bytes[bytes.len() - self.keep..]);
            return;
        }
        // Moved down only when it has grown twofold, so that small pieces cost no more than large ones.
        if self.bytes.len() + bytes.len() > 2 * self.keep {
            self.bytes.drain(..self.bytes.len() - self.keep);
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
