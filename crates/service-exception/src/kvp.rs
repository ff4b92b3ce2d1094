//! Key-value pairs of a query or a form body, compared and read without a copy.

/// The pairs of `application/x-www-form-urlencoded` text, still encoded.
pub(crate) fn pairs(text: &[u8]) -> impl Iterator<Item = Pair<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let end = memchr::memchr(b'&', rest).unwrap_or(rest.len());
            let pair = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            if !pair.is_empty() {
                let at = memchr::memchr(b'=', pair).unwrap_or(pair.len());
                let value = pair.get(at + 1..).unwrap_or_default();
                return Some(Pair {
                    name: &pair[..at],
                    value,
                });
            }
        }
        None
    })
}

/// One pair, both sides as they stand in the text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair<'a> {
    name: &'a [u8],
    value: &'a [u8],
}

impl<'a> Pair<'a> {
    /// The decoded name in lower case, since names count in any case (OGC 06-121r9 §11.5.2); empty where it does not fit.
    pub(crate) fn lower_name<'b>(&self, buffer: &'b mut [u8; 16]) -> &'b [u8] {
        let name = self.name;
        if memchr::memchr2(b'%', b'+', name).is_some() {
            let length = Decoded(name).copy_into(buffer).len();
            buffer[..length].make_ascii_lowercase();
            return &buffer[..length];
        }
        match buffer.get_mut(..name.len()) {
            Some(fitting) => {
                fitting.copy_from_slice(name);
                fitting.make_ascii_lowercase();
                fitting
            }
            None => &[],
        }
    }

    pub(crate) fn value(&self) -> Decoded<'a> {
        Decoded(self.value)
    }
}

/// Percent-encoded text, read as what it stands for: `%41` and `+` are decoded as they are met.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded<'a>(pub(crate) &'a [u8]);

impl Decoded<'_> {
    pub(crate) fn bytes(self) -> impl Iterator<Item = u8> {
        let mut rest = self.0.iter().copied();
        std::iter::from_fn(move || {
            let byte = rest.next()?;
            match byte {
                b'+' => Some(b' '),
                b'%' => {
                    let mut ahead = rest.clone();
                    let digits = ahead.next().and_then(hex).zip(ahead.next().and_then(hex));
                    let Some((high, low)) = digits else {
                        return Some(b'%');
                    };
                    rest = ahead;
                    Some(high << 4 | low)
                }
                _ => Some(byte),
            }
        })
    }

    pub(crate) fn eq_ignore_case(self, other: &str) -> bool {
        // What is encoded is longer than what it stands for, by two bytes each.
        match self.0.len().checked_sub(other.len()) {
            Some(0) if self.0.eq_ignore_ascii_case(other.as_bytes()) => true,
            Some(0) => self.0.contains(&b'+') && self.is_decoded(other),
            Some(longer) if longer % 2 == 0 => self.0.contains(&b'%') && self.is_decoded(other),
            _ => false,
        }
    }

    fn is_decoded(self, other: &str) -> bool {
        let lower = |byte: u8| byte.to_ascii_lowercase();
        self.bytes().map(lower).eq(other.bytes().map(lower))
    }

    pub(crate) fn contains_ignore_case(self, needle: &str) -> bool {
        let mut small = [0; 256];
        contains_ignore_case(self.copy_into(&mut small), needle)
    }

    /// Decodes as much as fits.
    pub(crate) fn copy_into(self, buffer: &mut [u8]) -> &[u8] {
        let mut length = 0;
        for (slot, byte) in buffer.iter_mut().zip(self.bytes()) {
            *slot = byte;
            length += 1;
        }
        &buffer[..length]
    }
}

/// Whether `text` contains the ASCII `needle` in any case.
pub(crate) fn contains_ignore_case(text: &[u8], needle: &str) -> bool {
    find_ignore_case(text, needle).is_some()
}

/// Where the ASCII `needle` first stands in `text`, in any case.
pub(crate) fn find_ignore_case(text: &[u8], needle: &str) -> Option<usize> {
    let needle = needle.as_bytes();
    let (&first, rest) = needle.split_first()?;
    let mut from = 0;
    while let Some(at) = memchr::memchr2(
        first.to_ascii_lowercase(),
        first.to_ascii_uppercase(),
        &text[from..],
    ) {
        let at = from + at;
        if text.len() < at + needle.len() {
            return None;
        }
        if text[at + 1..at + needle.len()].eq_ignore_ascii_case(rest) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_compared_decoded_and_in_any_case() {
        let mut read = pairs(b"&Re%71UEST=get+Map%20x&a&b=%zz%4&a_name_that_is_longer=1");
        let mut buffer = [0; 16];
        let request = read.next().unwrap();
        assert_eq!(request.lower_name(&mut buffer), b"request");
        assert!(request.value().eq_ignore_case("GET map X"));
        assert_eq!(read.next().unwrap().lower_name(&mut buffer), b"a");
        assert!(read.next().unwrap().value().eq_ignore_case("%zz%4"));
        assert_eq!(read.next().unwrap().lower_name(&mut buffer), b"");
        assert!(read.next().is_none());
    }

    #[test]
    fn a_needle_is_found_in_any_case_and_at_the_end() {
        assert_eq!(find_ignore_case(b"tTimeOut", "timeout"), Some(1));
        assert_eq!(find_ignore_case(b"timeou", "timeout"), None);
    }
}
