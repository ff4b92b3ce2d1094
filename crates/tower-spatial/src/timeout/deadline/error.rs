use std::{error::Error, fmt};

/// The caller's deadline has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeadlineElapsed {
    pub(super) _priv: (),
}

impl fmt::Display for DeadlineElapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the caller's deadline has passed")
    }
}

impl Error for DeadlineElapsed {}
