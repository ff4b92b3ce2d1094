//! Which members of a JSON document can be what a failure is made of, by name and value.

use crate::kvp::contains_ignore_case;

/// What the members read so far give rise to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Suspicion {
    serious: bool,
    /// A message: only of a document that says little else.
    message: bool,
    members: u16,
    /// It is no JSON after all.
    pub(super) broken: bool,
}

impl Suspicion {
    /// Whether one member is enough to ask the dialects.
    pub(super) fn is_serious(self) -> bool {
        self.serious
    }

    /// Whether the document as a whole has to be asked about.
    pub(super) fn is_left(self) -> bool {
        self.serious || self.message && self.members <= 6
    }

    /// Takes in a member of the top level; a value may be cut off.
    pub(super) fn weigh(&mut self, key: &[u8], value: &[u8]) {
        self.members = self.members.saturating_add(1);
        self.serious |= match key {
            b"error" | b"errors" | b"Error" | b"fault" | b"Fault" | b"error_message"
            | b"errorMessage" => !says_none(value),
            b"exception"
            | b"exceptions"
            | b"Exception"
            | b"ExceptionReport"
            | b"ServiceException"
            | b"ServiceExceptionReport" => {
                matches!(value.first(), Some(b'{' | b'['))
            }
            b"success" | b"ok" => value == b"false",
            b"status" | b"statusCode" => is_failing_status(value),
            b"remark" => contains_ignore_case(value, "error"),
            b"infocode" => true,
            b"info" => contains_ignore_case(value, "statuscode"),
            b"geocoding" | b"meta" => contains_ignore_case(value, "errors"),
            b"message" | b"Message" => {
                self.message = true;
                false
            }
            _ => false,
        };
    }
}

/// `null`, `false`, `0`, and what is empty: there was no error.
fn says_none(value: &[u8]) -> bool {
    let inner = value
        .iter()
        .filter(|byte| !byte.is_ascii_whitespace())
        .take(3);
    matches!(value, b"null" | b"false" | b"0")
        || inner.eq(b"[]")
        || value == b"\"\""
        || value == b"{}"
}

/// An object (GeoNames, OpenCage), a number that is not a good one, or a word that is not.
fn is_failing_status(value: &[u8]) -> bool {
    match value.first() {
        Some(b'{') => true,
        Some(b'0'..=b'9') => !matches!(value, b"0" | b"200" | b"1"),
        Some(b'"') => {
            let word = value[1..]
                .strip_suffix(b"\"")
                .unwrap_or_else(|| &value[1..]);
            let shouts = word
                .iter()
                .all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
            let fails = ["error", "fail", "failed"]
                .iter()
                .any(|fails| word.eq_ignore_ascii_case(fails.as_bytes()));
            let number = word.len() == 3
                && matches!(word[0], b'4' | b'5')
                && word.iter().all(u8::is_ascii_digit);
            fails || number || shouts && !matches!(word, b"OK" | b"ZERO_RESULTS")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_left(members: &[(&str, &str)]) -> bool {
        let mut suspicion = Suspicion::default();
        for (key, value) in members {
            suspicion.weigh(key.as_bytes(), value.as_bytes());
        }
        suspicion.is_left()
    }

    #[test]
    fn what_good_documents_hold_raises_none() {
        for members in [
            &[
                ("title", "\"Errors\""),
                ("description", "\"x\""),
                ("links", "[]"),
            ][..],
            &[("error", "null"), ("result", "1")],
            &[("errors", "[ ]")],
            &[("status", "\"OK\""), ("results", "[]")],
            &[("status", "0"), ("result", "{}")],
            &[("openapi", "\"3.0\""), ("info", "{\"title\":\"x\"}")],
            &[("remark", "\"runtime remark: x\"")],
            &[
                ("a", "1"),
                ("b", "1"),
                ("c", "1"),
                ("d", "1"),
                ("e", "1"),
                ("f", "1"),
                ("message", "\"x\""),
            ],
        ] {
            assert!(!is_left(members), "{members:?}");
        }
    }

    #[test]
    fn what_failures_are_made_of_raises_one_even_where_it_is_cut_off() {
        for member in [
            ("error", "{\"co"),
            ("exceptions", "["),
            ("status", "{"),
            ("status", "\"OVER_QUERY_LIMIT\""),
            ("success", "false"),
            ("status", "503"),
            ("message", "\""),
        ] {
            assert!(is_left(&[member]), "{member:?}");
        }
    }
}
