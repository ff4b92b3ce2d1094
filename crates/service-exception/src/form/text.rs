//! Encodings and plain text.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_16BE, UTF_16LE};

/// The bytes after a UTF-8 byte order mark.
pub(crate) fn without_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

/// Whether the first bytes are UTF-16, with a byte order mark or without (XML 1.0 appendix F.1).
pub(crate) fn utf16(first: &[u8]) -> Option<&'static Encoding> {
    match *first {
        [0xFE, 0xFF, ..] => Some(UTF_16BE),
        [0xFF, 0xFE, third, ..] if third != 0xFF => Some(UTF_16LE),
        [0, ascii, 0, ..] if begins_text(ascii) => Some(UTF_16BE),
        [ascii, 0, second, 0, ..] if begins_text(ascii) && second != 0 => Some(UTF_16LE),
        _ => None,
    }
}

/// How many more bytes can change what [`utf16`] says.
pub(crate) fn may_be_utf16(first: &[u8]) -> bool {
    match *first {
        [] | [0xFE | 0xFF | 0] => true,
        [0xFF, 0xFE] => true,
        [0, ascii] => begins_text(ascii),
        [ascii] => begins_text(ascii),
        [ascii, 0] | [ascii, 0, _] => begins_text(ascii),
        _ => false,
    }
}

fn begins_text(byte: u8) -> bool {
    matches!(byte, b'<' | b'{' | b'[' | b' ' | b'\r' | b'\n' | b'\t')
}

/// The text of `bytes` under the label they declare; UTF-8 where the label is missing or not known.
pub(crate) fn decode<'a>(bytes: &'a [u8], label: Option<&[u8]>) -> Cow<'a, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => match label.and_then(Encoding::for_label) {
            Some(encoding) if encoding != UTF_16BE && encoding != UTF_16LE => {
                encoding.decode_without_bom_handling(bytes).0
            }
            // Undeclared and not UTF-8: what is met is Latin-1 of old servers.
            _ if std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_some()) => {
                encoding_rs::WINDOWS_1252
                    .decode_without_bom_handling(bytes)
                    .0
            }
            _ => String::from_utf8_lossy(bytes),
        },
    }
}

/// `text` without markup's or the wire's line structure: runs of blanks become one space.
pub(crate) fn squeeze(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len().min(512));
    for word in text.split(|character: char| character.is_whitespace() || character.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !squeezed.is_empty() {
            squeezed.push(' ');
        }
        squeezed.push_str(word);
    }
    squeezed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_is_seen_with_and_without_a_mark() {
        assert_eq!(utf16(b"\xFE\xFF\0<"), Some(UTF_16BE));
        assert_eq!(utf16(b"<\0?\0"), Some(UTF_16LE));
        assert_eq!(utf16(b"\0<\0?"), Some(UTF_16BE));
        assert_eq!(utf16(b"<?xml"), None);
        assert_eq!(utf16(b"\xFF\xD8\xFF\xE0"), None);
    }

    #[test]
    fn undeclared_bytes_that_are_not_utf8_are_read_as_latin_1() {
        assert_eq!(decode(b"Stil f\xFCr", None), "Stil für");
        assert_eq!(decode(b"\xC0\xD2\xC0", Some(b"koi8-r")), "юрю");
        // A character cut by the limit does not turn the rest into another encoding.
        assert_eq!(
            decode("für ü".as_bytes().split_last().unwrap().1, None),
            "für \u{FFFD}"
        );
    }
}
