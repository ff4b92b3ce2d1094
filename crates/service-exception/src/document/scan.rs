//! Where the next mark stands. In markup it is most often a few bytes away, where a call of memchr costs more than looking
//! at a few words; beyond those, memchr takes over.

/// The first `a`.
#[inline]
pub(super) fn one(bytes: &[u8], a: u8) -> Option<usize> {
    near(
        bytes,
        |word| zero(word ^ each(a)),
        |rest| memchr::memchr(a, rest),
    )
}

/// The first `a` or `b`.
#[inline]
pub(super) fn either(bytes: &[u8], a: u8, b: u8) -> Option<usize> {
    near(
        bytes,
        |word| zero(word ^ each(a)) | zero(word ^ each(b)),
        |rest| memchr::memchr2(a, b, rest),
    )
}

/// The first `a`, `b` or `c`.
#[inline]
pub(super) fn any(bytes: &[u8], a: u8, b: u8, c: u8) -> Option<usize> {
    near(
        bytes,
        |word| zero(word ^ each(a)) | zero(word ^ each(b)) | zero(word ^ each(c)),
        |rest| memchr::memchr3(a, b, c, rest),
    )
}

const WORDS: usize = 4;

#[inline]
fn near(
    bytes: &[u8],
    found: impl Fn(u64) -> u64,
    far: impl Fn(&[u8]) -> Option<usize>,
) -> Option<usize> {
    let (words, _) = bytes.as_chunks::<8>();
    let words = &words[..words.len().min(WORDS)];
    for (n, word) in words.iter().enumerate() {
        let found = found(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(n * 8 + (found.trailing_zeros() / 8) as usize);
        }
    }
    let from = words.len() * 8;
    far(&bytes[from..]).map(|at| from + at)
}

const ONES: u64 = u64::MAX / 255;

const fn each(byte: u8) -> u64 {
    ONES * byte as u64
}

/// The high bit of the lowest byte that is zero, and perhaps of bytes above it.
#[inline]
fn zero(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & ONES << 7
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_what_memchr_finds(
            bytes in proptest::collection::vec(
                prop_oneof![Just(b'a'), Just(b'`'), Just(b'b'), any::<u8>()], 0..80,
            ),
            (a, b, c) in (any::<u8>(), any::<u8>(), Just(b'a')),
        ) {
            prop_assert_eq!(super::one(&bytes, c), memchr::memchr(c, &bytes));
            prop_assert_eq!(super::either(&bytes, a, c), memchr::memchr2(a, c, &bytes));
            prop_assert_eq!(super::any(&bytes, a, b, c), memchr::memchr3(a, b, c, &bytes));
        }
    }
}
