use std::io::{self, Write};

use flate2::{Decompress, FlushDecompress, Status, write::MultiGzDecoder};
use service_exception::document::{Document, Incomplete, Whole};

use super::Problem;
use crate::exception::Encoding;

/// Decodes a body while its document is checked: all gzip members with their checksums and lengths, at most so many
/// decoded bytes, of which none is kept.
pub(super) struct Decoder {
    stream: Stream,
    came: u64,
    limit: u64,
    damaged: bool,
}

enum Stream {
    Gzip(MultiGzDecoder<Sink>),
    Deflate {
        // `deflate` is zlib by RFC 9110 section 8.4.1.2 and raw by custom: the first byte tells.
        state: Option<Decompress>,
        buffer: Vec<u8>,
        ended: bool,
        sink: Sink,
    },
}

/// Hands decoded bytes to the document, up to a limit.
struct Sink {
    document: Option<Document>,
    left: u64,
    full: bool,
}

impl Decoder {
    pub(super) fn new(encoding: Encoding, document: Document, limit: u64) -> Self {
        let sink = Sink {
            document: Some(document),
            left: limit,
            full: false,
        };
        Self {
            stream: match encoding {
                Encoding::Gzip => Stream::Gzip(MultiGzDecoder::new(sink)),
                _ => Stream::Deflate {
                    state: None,
                    buffer: vec![0; 16 * 1024],
                    ended: false,
                    sink,
                },
            },
            came: 0,
            limit,
            damaged: false,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.came += bytes.len() as u64;
        if !self.damaged {
            self.damaged = match &mut self.stream {
                Stream::Gzip(stream) => stream.write_all(bytes).is_err(),
                Stream::Deflate {
                    state,
                    buffer,
                    ended,
                    sink,
                } => inflate(state, buffer, ended, sink, bytes).is_err(),
            };
        }
    }

    pub(super) fn finish(mut self) -> Result<Whole, Problem> {
        let is_whole = !self.damaged
            && match &mut self.stream {
                // A body without a byte is no stream at all.
                _ if self.came == 0 => true,
                Stream::Gzip(stream) => stream.try_finish().is_ok(),
                Stream::Deflate { ended, .. } => *ended,
            };
        let sink = match &mut self.stream {
            Stream::Gzip(stream) => stream.get_mut(),
            Stream::Deflate { sink, .. } => sink,
        };
        if sink.full {
            let limit = self.limit;
            return Err(Problem::Expands { limit });
        }
        let document = sink.document.take().map(Document::finish);
        match document {
            // What broke the answer off says more than where.
            Some(Err(found @ Incomplete::Exception { .. })) => Err(Problem::Document(found)),
            _ if !is_whole => Err(Problem::Encoding { came: self.came }),
            Some(whole) => whole.map_err(Problem::Document),
            None => Ok(Whole::default()),
        }
    }
}

fn inflate(
    state: &mut Option<Decompress>,
    buffer: &mut [u8],
    ended: &mut bool,
    sink: &mut Sink,
    mut bytes: &[u8],
) -> io::Result<()> {
    let Some(first) = bytes.first() else {
        return Ok(());
    };
    // RFC 1950 section 2.2: compression method 8 in the low bits.
    let state = state.get_or_insert_with(|| Decompress::new(first & 0x0F == 8));
    while !*ended {
        let (read, written) = (state.total_in(), state.total_out());
        let status = state
            .decompress(bytes, buffer, FlushDecompress::None)
            .map_err(io::Error::other)?;
        let read = (state.total_in() - read) as usize;
        let written = (state.total_out() - written) as usize;
        bytes = &bytes[read..];
        sink.write_all(&buffer[..written])?;
        *ended = status == Status::StreamEnd;
        if read == 0 && written == 0 || bytes.is_empty() && written < buffer.len() {
            return Ok(());
        }
    }
    Ok(())
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            self.full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        self.left = left;
        if let Some(document) = &mut self.document {
            document.push(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
