use std::fmt;

use http::StatusCode;
use service_exception::ServiceException;

use crate::verify::completeness::Problem;

/// What came of an attempt, in a form that can be kept, compared and printed.
///
/// It never holds a URL or a foreign error's text: those can carry keys and passwords.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// A status without a known exception.
    Status(StatusCode),
    /// An exception in the answer.
    Exception {
        /// The status it came with.
        status: StatusCode,
        /// The exception.
        exception: ServiceException,
    },
    /// The connection was refused.
    Refused,
    /// No connection came about: name not found, network out of reach, TLS handshake failed.
    NotConnected,
    /// The server's certificate or TLS was not accepted.
    Tls,
    /// The connection was reset or aborted.
    Reset,
    /// The connection was closed before the head was complete.
    Closed,
    /// The request was never sent: its connection was gone before.
    NotSent,
    /// The answer ended early.
    Cut,
    /// A time limit of the client passed: tower's timeout, a connect timeout, an idle timeout.
    TimedOut,
    /// HTTP/2 ended the stream or the connection; the reason's number of RFC 9113 section 7.
    Http2(u32),
    /// The server does not speak HTTP as expected.
    Protocol,
    /// The answer was older than expected.
    Stale,
    /// The answer was not whole.
    Incomplete(Problem),
    /// No permit came in time.
    NotAdmitted,
    /// The circuit breaker is open: it was not sent.
    CircuitOpen,
    /// An error that is not known here.
    Other,
}

impl Cause {
    /// One word of a bounded set, for metrics and logs: `status`, `exception`, `refused`, `timed-out` …
    ///
    /// ```
    /// use tower_spatial::call::Cause;
    ///
    /// assert_eq!(Cause::TimedOut.kind(), "timed-out");
    /// ```
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Status(_) => "status",
            Self::Exception { .. } => "exception",
            Self::Refused => "refused",
            Self::NotConnected => "not-connected",
            Self::Tls => "tls",
            Self::Reset => "reset",
            Self::Closed => "closed",
            Self::NotSent => "not-sent",
            Self::Cut => "cut",
            Self::TimedOut => "timed-out",
            Self::Http2(_) => "http2",
            Self::Protocol => "protocol",
            Self::Stale => "stale",
            Self::Incomplete(_) => "incomplete",
            Self::NotAdmitted => "not-admitted",
            Self::CircuitOpen => "circuit-open",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Status(status) => return write!(f, "status {status}"),
            Self::Exception { status, exception } => {
                return write!(f, "{exception} (status {})", status.as_u16());
            }
            Self::Incomplete(problem) => return write!(f, "incomplete answer: {problem}"),
            Self::Http2(reason) => return write!(f, "HTTP/2 error {reason}"),
            Self::Refused => "connection refused",
            Self::NotConnected => "no connection",
            Self::Tls => "TLS not accepted",
            Self::Reset => "connection reset",
            Self::Closed => "connection closed before the head was complete",
            Self::NotSent => "connection gone before the request was sent",
            Self::Cut => "answer ended early",
            Self::TimedOut => "timed out",
            Self::Protocol => "not the expected HTTP",
            Self::Stale => "answer too old",
            Self::NotAdmitted => "no permit in time",
            Self::CircuitOpen => "circuit breaker open",
            Self::Other => "another error",
        })
    }
}
