use std::io::{self, Write};

use flate2::write::{DeflateDecoder, GzDecoder, ZlibDecoder};

use super::inspection::Encoding;

/// A decoded copy of a body's head that never grows beyond its limit, whatever the body expands to.
pub(super) struct Decoder {
    stream: Stream,
    done: bool,
}

enum Stream {
    Gzip(GzDecoder<Head>),
    Zlib(ZlibDecoder<Head>),
    Raw(DeflateDecoder<Head>),
    /// `deflate` is zlib by RFC 9110 section 8.4.1.2 and raw by custom: the first byte tells.
    Unopened(usize),
}

/// Takes bytes up to a limit and refuses more.
struct Head {
    bytes: Vec<u8>,
    limit: usize,
}

impl Decoder {
    /// `None` where nothing is encoded.
    pub(super) fn new(encoding: Encoding, limit: usize) -> Option<Self> {
        let stream = match encoding {
            Encoding::Identity | Encoding::Unknown => return None,
            Encoding::Gzip => Stream::Gzip(GzDecoder::new(Head::new(limit))),
            Encoding::Deflate => Stream::Unopened(limit),
        };
        Some(Self {
            stream,
            done: false,
        })
    }

    /// Decodes the next bytes; answers what that adds to the head.
    pub(super) fn push(&mut self, bytes: &[u8]) -> &[u8] {
        let before = self.decoded().len();
        if let (Stream::Unopened(limit), Some(first)) = (&self.stream, bytes.first()) {
            let head = Head::new(*limit);
            // RFC 1950 section 2.2: compression method 8 in the low bits.
            self.stream = if first & 0x0f == 8 {
                Stream::Zlib(ZlibDecoder::new(head))
            } else {
                Stream::Raw(DeflateDecoder::new(head))
            };
        }
        if !self.done {
            let written = match &mut self.stream {
                Stream::Gzip(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
                Stream::Zlib(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
                Stream::Raw(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
                Stream::Unopened(_) => Ok(()),
            };
            self.done = written.is_err();
        }
        &self.decoded()[before..]
    }

    /// The head is full, or the rest cannot be decoded.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    pub(super) fn decoded(&self) -> &[u8] {
        match &self.stream {
            Stream::Gzip(stream) => &stream.get_ref().bytes,
            Stream::Zlib(stream) => &stream.get_ref().bytes,
            Stream::Raw(stream) => &stream.get_ref().bytes,
            Stream::Unopened(_) => &[],
        }
    }
}

impl Head {
    fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
        }
    }
}

impl Write for Head {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.limit - self.bytes.len());
        if taken == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::{
        Compression,
        write::{DeflateEncoder, GzEncoder, ZlibEncoder},
    };

    use super::*;

    fn encoded(encoding: &str, plain: &[u8]) -> Vec<u8> {
        match encoding {
            "gzip" => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            "zlib" => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            _ => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    #[test]
    fn every_encoding_is_decoded_byte_by_byte() {
        let plain = b"<ServiceExceptionReport/>".repeat(9);
        for (name, encoding) in [
            ("gzip", Encoding::Gzip),
            ("zlib", Encoding::Deflate),
            ("raw", Encoding::Deflate),
        ] {
            let mut decoder = Decoder::new(encoding, 2048).unwrap();
            let mut seen = Vec::new();
            for byte in encoded(name, &plain) {
                seen.extend_from_slice(decoder.push(&[byte]));
            }
            assert_eq!(seen, plain, "{name}");
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let mut decoder = Decoder::new(Encoding::Gzip, 2048).unwrap();
        let bomb = encoded("gzip", &vec![b' '; 50_000_000]);
        assert_eq!(decoder.push(&bomb).len(), 2048);
        assert!(decoder.is_done());
        assert_eq!(decoder.push(&bomb).len(), 0);
    }

    #[test]
    fn what_cannot_be_decoded_is_done() {
        let mut decoder = Decoder::new(Encoding::Gzip, 2048).unwrap();
        assert_eq!(decoder.push(b"<html>not gzip at all</html>").len(), 0);
        assert!(decoder.is_done());
    }
}
