use http::{HeaderMap, StatusCode};

use crate::{Asked, Disposition, Finding, Recognizer, ServiceException};

/// The first bytes of what does not belong into a document, to be read as an exception.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) at: u64,
    bytes: Vec<u8>,
}

/// Long enough for a code behind a long preamble; what comes after it says no more.
const LIMIT: usize = 8 * 1024;

impl Capture {
    pub(super) fn new(at: u64) -> Self {
        Self {
            at,
            bytes: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let taken = (LIMIT - self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..taken]);
    }

    /// The exception it is, where it is one.
    pub(super) fn exception(&self, asked: &Asked) -> Option<Box<ServiceException>> {
        if self.bytes.is_empty() {
            return None;
        }
        read(asked, &self.bytes)
    }
}

/// `bytes` read as an answer of their own.
///
/// A server that fails after it has begun to answer found nothing wrong with the request: what its words leave open is
/// transient.
pub(super) fn read(asked: &Asked, bytes: &[u8]) -> Option<Box<ServiceException>> {
    let mut recognizer =
        Recognizer::new(asked.clone(), StatusCode::OK, &HeaderMap::new()).with_limit(LIMIT);
    let Finding::Exception(mut exception) = recognizer.push_last(bytes) else {
        return None;
    };
    if exception.disposition == Disposition::Ambiguous {
        exception.disposition = Disposition::Transient;
    }
    Some(exception)
}
