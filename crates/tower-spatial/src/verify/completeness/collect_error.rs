use std::{error::Error, fmt, io};

/// An answer could not be kept while it was checked. Nothing of it is left behind, and it is not repeated: it would fail
/// in the same way.
#[derive(Debug)]
#[non_exhaustive]
pub enum CollectError {
    /// It is larger than an answer may be.
    TooLarge {
        /// Bytes it may have.
        limit: u64,
    },
    /// The temporary file could not be made, written or read: the disk is full, or the directory is not writable.
    Storage(io::Error),
}

impl fmt::Display for CollectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { limit } => {
                write!(
                    f,
                    "expected an answer of at most {limit} bytes, it is larger"
                )
            }
            Self::Storage(_) => f.write_str("the answer could not be kept in a temporary file"),
        }
    }
}

impl Error for CollectError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::TooLarge { .. } => None,
            Self::Storage(error) => Some(error),
        }
    }
}
