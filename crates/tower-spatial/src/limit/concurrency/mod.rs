//! A limit on the answers in flight at one host.

use std::{error::Error, fmt};

/// No permit came in time.
#[derive(Debug)]
pub struct QueueTimeout;

impl fmt::Display for QueueTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no permit came in time")
    }
}

impl Error for QueueTimeout {}
