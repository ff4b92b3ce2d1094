use std::{error::Error, fmt};

use bytes::Bytes;
use http::{Response, header, response::Parts};
use http_body_util::Full;
use service_exception::ServiceException;

/// An answer that is an exception, with what was looked at.
///
/// Its [`source`](Error::source) is the [`ServiceException`], so that [`find`](crate::find) finds that too.
pub struct ServiceExceptionError {
    exception: ServiceException,
    parts: Parts,
    head: Bytes,
}

impl ServiceExceptionError {
    pub(super) fn new(exception: ServiceException, parts: Parts, head: Bytes) -> Self {
        Self {
            exception,
            parts,
            head,
        }
    }

    /// The exception.
    pub fn exception(&self) -> &ServiceException {
        &self.exception
    }

    /// The response's status, headers and extensions.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The (decoded) bytes that were looked at: the answer's first 2 KB at most, or what the limit says.
    pub fn head(&self) -> &Bytes {
        &self.head
    }

    /// A response again, for who wants to hand one on: its body is the [`head`](Self::head).
    ///
    /// The headers that describe the whole body as it was sent are left out.
    pub fn into_response(mut self) -> Response<Full<Bytes>> {
        for name in [
            header::CONTENT_LENGTH,
            header::CONTENT_ENCODING,
            header::TRANSFER_ENCODING,
            header::CONTENT_RANGE,
        ] {
            self.parts.headers.remove(name);
        }
        self.parts.extensions.insert(self.exception);
        Response::from_parts(self.parts, Full::new(self.head))
    }
}

impl fmt::Display for ServiceExceptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.parts.status.as_u16();
        match self.exception.code() {
            Some(code) => write!(
                f,
                "an answer with status {status} is the service exception {code}"
            ),
            None => write!(f, "an answer with status {status} is a service exception"),
        }
    }
}

impl fmt::Debug for ServiceExceptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers can hold cookies, the head what a user asked for.
        f.debug_struct("ServiceExceptionError")
            .field("status", &self.parts.status)
            .field("exception", &self.exception)
            .finish_non_exhaustive()
    }
}

impl Error for ServiceExceptionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.exception)
    }
}
