use std::{error::Error, fmt};

use service_exception::{ServiceException, document::Incomplete};

/// An answer is not whole; its [`source`](Error::source) is what shows it.
///
/// A [`RetryPolicy`](crate::retry::RetryPolicy) above takes it for a failed attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct IncompleteError {
    problem: Problem,
}

/// What shows that an answer is not whole: what was expected, and what came.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Problem {
    /// The document or its framing.
    Document(Incomplete),
    /// The gzip or deflate data end early, or are damaged.
    Encoding {
        /// Encoded bytes that came.
        came: u64,
    },
    /// Decoded, the body is larger than a body may be.
    Expands {
        /// Decoded bytes it may have.
        limit: u64,
    },
    /// Fewer members came than the caller expects, or than a query for their number answered.
    Count {
        /// Members that were expected.
        expected: u64,
        /// How many fewer are fine.
        tolerance: u64,
        /// Members that came.
        came: u64,
    },
    /// Far fewer members came than with the last good answer to the same query.
    FewerThanBefore {
        /// Members of that answer.
        before: u64,
        /// Members that came.
        came: u64,
    },
}

impl IncompleteError {
    /// The error of an answer of which `problem` was found, by a `Check` or otherwise.
    pub fn new(problem: Problem) -> Self {
        Self { problem }
    }

    /// What shows it.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl Problem {
    /// The exception that stands in the document, where one does.
    pub fn exception(&self) -> Option<&ServiceException> {
        match self {
            Self::Document(Incomplete::Exception { exception, .. }) => Some(exception),
            _ => None,
        }
    }
}

impl fmt::Display for IncompleteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer is not whole")
    }
}

impl Error for IncompleteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document(incomplete) => incomplete.fmt(f),
            Self::Encoding { came } => write!(
                f,
                "expected the end of the encoded data, {came} bytes came that are cut or damaged"
            ),
            Self::Expands { limit } => {
                write!(f, "expected at most {limit} bytes when decoded, more came")
            }
            Self::Count {
                expected,
                tolerance: 0,
                came,
            } => write!(f, "expected {expected} members, {came} came"),
            Self::Count {
                expected,
                tolerance,
                came,
            } => write!(
                f,
                "expected {expected} members, or {tolerance} fewer, {came} came"
            ),
            Self::FewerThanBefore { before, came } => write!(
                f,
                "expected about the {before} members of the last good answer, {came} came"
            ),
        }
    }
}

impl Error for Problem {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Document(incomplete) => incomplete.source(),
            _ => None,
        }
    }
}
