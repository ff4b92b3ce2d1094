use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::{Incomplete, is_bodiless};
use crate::kvp::contains_ignore_case;
use crate::{Asked, range};

/// Counts the bytes of a body as they come (encoded, where they are) against what its headers announce.
///
/// HTTP/1.1 clients do so themselves; over HTTP/2 a stream that is reset without an error ends a short body well.
///
/// ```
/// use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
/// use service_exception::document::{Framing, Incomplete};
/// use service_exception::Asked;
///
/// let asked = Asked::new(&Method::GET, &Uri::from_static("/a.tif"), &HeaderMap::new());
/// let headers = HeaderMap::from_iter([(header::CONTENT_LENGTH, HeaderValue::from_static("10"))]);
/// let mut framing = Framing::new(&asked, StatusCode::OK, &headers);
/// framing.push(7);
/// assert_eq!(framing.finish(), Err(Incomplete::Length { expected: 10, came: 7 }));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Framing {
    expected: Option<u64>,
    came: u64,
    range: Option<(u64, u64)>,
}

impl Framing {
    /// For the answer with `status` and `headers` to the request `asked`.
    pub fn new(asked: &Asked, status: StatusCode, headers: &HeaderMap) -> Self {
        let length = || {
            let text = headers.get(CONTENT_LENGTH)?.to_str().ok()?;
            text.trim().parse().ok()
        };
        let is_part = status == StatusCode::PARTIAL_CONTENT;
        let label = headers
            .get(CONTENT_TYPE)
            .map_or(&[][..], HeaderValue::as_bytes);
        let part = || {
            let given = range::given(headers.get(CONTENT_RANGE)?.to_str().ok()?)?;
            Some(given.1.checked_sub(given.0)?.saturating_add(1))
        };
        let expected = if is_bodiless(asked.method(), status) {
            None
        } else if headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(TRANSFER_ENCODING) {
            length()
        } else if is_part && !contains_ignore_case(label, "multipart/") {
            part()
        } else {
            None
        };
        Self {
            expected,
            came: 0,
            range: asked
                .range()
                .filter(|_| is_part)
                .and_then(|asked| range::shortened(asked, headers)),
        }
    }

    /// Bytes that the headers announce, where they do.
    pub fn expected(&self) -> Option<u64> {
        self.expected
    }

    /// Bytes that came.
    pub fn came(&self) -> u64 {
        self.came
    }

    /// Takes notice of `bytes` more.
    pub fn push(&mut self, bytes: usize) {
        self.came = self.came.saturating_add(bytes as u64);
    }

    /// The body has ended.
    ///
    /// # Errors
    /// Where another number of bytes came, or another part than was asked for.
    pub fn finish(&self) -> Result<(), Incomplete> {
        if let Some(expected) = self.expected
            && expected != self.came
        {
            let came = self.came;
            return Err(Incomplete::Length { expected, came });
        }
        match self.range {
            Some((expected, came)) => Err(Incomplete::Range { expected, came }),
            None => Ok(()),
        }
    }
}
