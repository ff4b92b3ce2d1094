use std::{error::Error, io};

use http::{Extensions, HeaderMap, Response, StatusCode};
use service_exception::{Disposition, ServiceException};
use tower::BoxError;

use super::{Cause, TooLate};
use crate::{
    exception::ServiceExceptionError,
    gate::{CircuitOpen, QueueTimeout, UnknownHost},
    limit::rate::RateLimited,
    retry::GaveUp,
    timeout::{attempt::AttemptTimedOut, deadline::DeadlineElapsed},
    verify::{
        completeness::{IncompleteError, Problem},
        freshness::{Stale, StaleError},
    },
};

/// What an attempt's result means for a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The answer that was asked for.
    Success,
    /// Could not be answered now; may succeed later.
    Transient,
    /// The server asked for fewer requests.
    Throttled,
    /// Fails however often it is sent.
    Permanent,
    /// Nothing tells which of the others it is.
    Ambiguous,
}

/// An attempt's result, judged.
#[derive(Clone, Debug)]
pub struct Outcome {
    verdict: Verdict,
    cause: Cause,
    never_executed: bool,
}

impl Outcome {
    /// Judges a response by its status and by the exception that a [`ServiceExceptionLayer`] found in it.
    ///
    /// [`ServiceExceptionLayer`]: crate::exception::ServiceExceptionLayer
    ///
    /// ```
    /// use tower_spatial::call::{Outcome, Verdict};
    ///
    /// let mut response = http::Response::new(());
    /// *response.status_mut() = http::StatusCode::BAD_GATEWAY;
    /// assert_eq!(Outcome::of_response(&response).verdict(), Verdict::Transient);
    /// ```
    pub fn of_response<R>(response: &Response<R>) -> Self {
        Self::of_head(
            response.status(),
            response.headers(),
            response.extensions(),
            &[],
        )
    }

    /// Judges an error by the first cause in its chain that is known here.
    ///
    /// An error that is not known counts as permanent: only what is retryable is repeated.
    pub fn of_error(error: &BoxError) -> Self {
        Self::of_error_with(error, &[])
    }

    pub(crate) fn of_error_with(error: &BoxError, statuses: &[(StatusCode, Verdict)]) -> Self {
        errors::judge(error.as_ref(), statuses)
    }

    pub(crate) fn of_head(
        status: StatusCode,
        headers: &HeaderMap,
        extensions: &Extensions,
        statuses: &[(StatusCode, Verdict)],
    ) -> Self {
        if let Some(gave_up) = extensions.get::<GaveUp>() {
            return Self::of_inner_retry(gave_up);
        }
        if extensions.get::<Stale>().is_some() {
            return Self::new(Verdict::Transient, Cause::Stale);
        }
        match extensions.get::<ServiceException>() {
            Some(exception) => Self::of_exception(exception, status, headers, statuses),
            None => {
                let verdict = of_status(status, headers, statuses);
                let never_executed = verdict == Verdict::Throttled;
                Self {
                    verdict,
                    cause: Cause::Status(status),
                    never_executed,
                }
            }
        }
    }

    pub(crate) fn of_exception(
        exception: &ServiceException,
        status: StatusCode,
        headers: &HeaderMap,
        statuses: &[(StatusCode, Verdict)],
    ) -> Self {
        let by_status = of_status(status, headers, statuses);
        // A code or a text that tells beats the status; where it does not tell, a status that does decides.
        let verdict = match (exception.disposition(), by_status) {
            (Disposition::Permanent, _) => Verdict::Permanent,
            (Disposition::Throttled, _) => Verdict::Throttled,
            (Disposition::Transient | Disposition::Ambiguous, Verdict::Throttled) => {
                Verdict::Throttled
            }
            (Disposition::Transient, _) | (Disposition::Ambiguous, Verdict::Transient) => {
                Verdict::Transient
            }
            (Disposition::Ambiguous, _) => Verdict::Ambiguous,
        };
        let cause = Cause::Exception {
            status,
            exception: exception.clone(),
        };
        Self {
            verdict,
            cause,
            never_executed: verdict == Verdict::Throttled,
        }
    }

    /// An answer that is not whole may be whole the next time, unless what broke it off says otherwise.
    fn of_problem(problem: &Problem) -> Self {
        let verdict = match problem.exception().map(ServiceException::disposition) {
            Some(Disposition::Permanent) => Verdict::Permanent,
            Some(Disposition::Throttled) => Verdict::Throttled,
            _ => Verdict::Transient,
        };
        Self::new(verdict, Cause::Incomplete(problem.clone()))
    }

    /// A retry further inside has ended: repeating it would multiply the two.
    fn of_inner_retry(gave_up: &GaveUp) -> Self {
        let last = gave_up.attempts().last();
        let cause = last.map_or(Cause::Other, |last| last.cause().clone());
        Self::new(Verdict::Permanent, cause)
    }

    pub(crate) fn with_verdict(self, verdict: Verdict) -> Self {
        Self { verdict, ..self }
    }

    fn or_never_executed(self, never_executed: bool) -> Self {
        Self {
            never_executed: self.never_executed || never_executed,
            ..self
        }
    }

    /// What it means for a repeat.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Why.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// Whether the server provably did not execute the request: refused, throttled or never sent.
    pub fn never_executed(&self) -> bool {
        self.never_executed
    }

    pub(crate) fn new(verdict: Verdict, cause: Cause) -> Self {
        Self {
            verdict,
            cause,
            never_executed: false,
        }
    }

    fn never_executed_by(verdict: Verdict, cause: Cause) -> Self {
        Self {
            verdict,
            cause,
            never_executed: true,
        }
    }
}

/// The meaning of a status alone: what `statuses` says, else the table in the documentation of
/// [`RetryPolicyBuilder::status`](crate::retry::RetryPolicyBuilder::status).
pub(crate) fn of_status(
    status: StatusCode,
    headers: &HeaderMap,
    statuses: &[(StatusCode, Verdict)],
) -> Verdict {
    if let Some((_, verdict)) = statuses.iter().find(|(of, _)| *of == status) {
        return *verdict;
    }
    match status.as_u16() {
        429 => Verdict::Throttled,
        503 if headers.contains_key(http::header::RETRY_AFTER) => Verdict::Throttled,
        408 | 425 | 502 | 503 | 504 | 520..=524 | 529 | 530 => Verdict::Transient,
        // MapProxy, titiler and others send it for the client's own mistakes.
        500 => Verdict::Ambiguous,
        400.. => Verdict::Permanent,
        _ => Verdict::Success,
    }
}

mod errors {
    use super::*;

    pub(super) fn judge(
        error: &(dyn Error + 'static),
        statuses: &[(StatusCode, Verdict)],
    ) -> Outcome {
        let mut found = None;
        let mut connecting = false;
        for error in chain(error) {
            if let Some(ours) = of_known_layers(error, statuses) {
                // tower's timeout around a connector is within the client's error.
                return ours.or_never_executed(connecting);
            }
            connecting |= is_connect(error);
            // What lies deeper is closer to the cause.
            found = of_transport(error, connecting).or(found);
        }
        match found {
            Some(outcome) => outcome.or_never_executed(connecting),
            None if connecting => {
                Outcome::never_executed_by(Verdict::Transient, Cause::NotConnected)
            }
            None => Outcome::new(Verdict::Permanent, Cause::Other),
        }
    }

    #[cfg(feature = "hyper")]
    fn is_connect(error: &(dyn Error + 'static)) -> bool {
        error
            .downcast_ref::<hyper_util::client::legacy::Error>()
            .is_some_and(|error| error.is_connect())
    }

    #[cfg(not(feature = "hyper"))]
    fn is_connect(_: &(dyn Error + 'static)) -> bool {
        false
    }

    /// The errors of this crate's layers and of tower's, which say by themselves what they mean.
    fn of_known_layers(
        error: &(dyn Error + 'static),
        statuses: &[(StatusCode, Verdict)],
    ) -> Option<Outcome> {
        if let Some(error) = error.downcast_ref::<ServiceExceptionError>() {
            let parts = error.parts();
            return Some(Outcome::of_exception(
                error.exception(),
                parts.status,
                &parts.headers,
                statuses,
            ));
        }
        if error.is::<QueueTimeout>()
            || error.is::<RateLimited>()
            || error.is::<UnknownHost>()
            || error.is::<TooLate>()
        {
            return Some(Outcome::never_executed_by(
                Verdict::Permanent,
                Cause::NotAdmitted,
            ));
        }
        if error.is::<CircuitOpen>() {
            let (verdict, cause) = (Verdict::Transient, Cause::CircuitOpen);
            return Some(Outcome::never_executed_by(verdict, cause));
        }
        if error.is::<DeadlineElapsed>() {
            return Some(Outcome::new(Verdict::Permanent, Cause::TimedOut));
        }
        if let Some(gave_up) = error.downcast_ref::<GaveUp>() {
            return Some(Outcome::of_inner_retry(gave_up));
        }
        if let Some(incomplete) = error.downcast_ref::<IncompleteError>() {
            return Some(Outcome::of_problem(incomplete.problem()));
        }
        if error.is::<StaleError>() || error.is::<Stale>() {
            return Some(Outcome::new(Verdict::Transient, Cause::Stale));
        }
        if error.is::<AttemptTimedOut>()
            || error.is::<tower::timeout::error::Elapsed>()
            || error.is::<tokio::time::error::Elapsed>()
        {
            return Some(Outcome::new(Verdict::Transient, Cause::TimedOut));
        }
        #[cfg(feature = "tower-http")]
        if error.is::<tower_http::timeout::TimeoutError>() {
            return Some(Outcome::new(Verdict::Transient, Cause::TimedOut));
        }
        None
    }

    fn of_transport(error: &(dyn Error + 'static), connecting: bool) -> Option<Outcome> {
        #[cfg(feature = "h2")]
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            return of_h2(error);
        }
        #[cfg(feature = "hyper")]
        if let Some(error) = error.downcast_ref::<hyper::Error>() {
            return of_hyper(error);
        }
        #[cfg(feature = "reqwest")]
        if let Some(error) = error.downcast_ref::<reqwest::Error>() {
            // Its timeouts have a type of its own that nobody else can name; what else it holds is in its sources.
            return error
                .is_timeout()
                .then(|| Outcome::new(Verdict::Transient, Cause::TimedOut));
        }
        error
            .downcast_ref::<io::Error>()
            .and_then(|error| of_io(error, connecting))
    }

    fn of_io(error: &io::Error, connecting: bool) -> Option<Outcome> {
        use io::ErrorKind::*;
        Some(match error.kind() {
            ConnectionRefused => Outcome::never_executed_by(Verdict::Transient, Cause::Refused),
            ConnectionReset | ConnectionAborted | BrokenPipe | NotConnected => {
                Outcome::new(Verdict::Transient, Cause::Reset)
            }
            UnexpectedEof if connecting => {
                Outcome::never_executed_by(Verdict::Transient, Cause::NotConnected)
            }
            UnexpectedEof => Outcome::new(Verdict::Transient, Cause::Cut),
            TimedOut => Outcome::new(Verdict::Transient, Cause::TimedOut),
            HostUnreachable | NetworkUnreachable | NetworkDown | AddrNotAvailable => {
                Outcome::never_executed_by(Verdict::Transient, Cause::NotConnected)
            }
            // rustls reports a certificate that is not accepted in this way.
            InvalidData if connecting => Outcome::new(Verdict::Permanent, Cause::Tls),
            // Chunk sizes or compressed data that make no sense.
            InvalidData | InvalidInput => Outcome::new(Verdict::Ambiguous, Cause::Protocol),
            _ => return None,
        })
    }

    #[cfg(feature = "hyper")]
    fn of_hyper(error: &hyper::Error) -> Option<Outcome> {
        Some(if error.is_canceled() {
            Outcome::never_executed_by(Verdict::Transient, Cause::NotSent)
        } else if error.is_incomplete_message() || error.is_closed() {
            Outcome::new(Verdict::Transient, Cause::Closed)
        } else if error.is_timeout() {
            Outcome::new(Verdict::Transient, Cause::TimedOut)
        } else if error.is_parse() {
            Outcome::new(Verdict::Ambiguous, Cause::Protocol)
        } else {
            return None;
        })
    }

    #[cfg(feature = "h2")]
    fn of_h2(error: &h2::Error) -> Option<Outcome> {
        use h2::Reason;
        let reason = error.reason()?;
        let cause = Cause::Http2(reason.into());
        Some(match reason {
            Reason::REFUSED_STREAM => Outcome::never_executed_by(Verdict::Transient, cause),
            // RFC 9113 section 6.8: streams above the last id of a graceful GOAWAY were not processed.
            Reason::NO_ERROR if error.is_remote() && error.is_go_away() => {
                Outcome::never_executed_by(Verdict::Transient, cause)
            }
            Reason::ENHANCE_YOUR_CALM => Outcome::new(Verdict::Throttled, cause),
            Reason::NO_ERROR
            | Reason::INTERNAL_ERROR
            | Reason::CANCEL
            | Reason::STREAM_CLOSED
            | Reason::CONNECT_ERROR
            | Reason::SETTINGS_TIMEOUT => Outcome::new(Verdict::Transient, cause),
            Reason::HTTP_1_1_REQUIRED | Reason::INADEQUATE_SECURITY => {
                Outcome::new(Verdict::Permanent, cause)
            }
            _ => Outcome::new(Verdict::Ambiguous, cause),
        })
    }
}

/// An error and what caused it, outermost first.
pub(crate) fn chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let error = next?;
        // `io::Error::source` skips the error it was made from.
        let made_from = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        next = match made_from {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        };
        Some(error)
    })
    // A chain that closes on itself must not hold a caller for ever.
    .take(MAX_CHAIN)
}

/// Longer than any chain of causes that was met; its end protects against a cycle.
const MAX_CHAIN: usize = 64;
