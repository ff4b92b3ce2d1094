//! Settings files: the article's, a catalogue of mistakes with what is said of each, random ones.

mod mistakes_table;
mod random;
mod whole;

use std::path::{Path, PathBuf};

fn crate_file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// An environment with a secret in it.
fn environment(name: &str) -> Option<String> {
    match name {
        "SECRET" => Some("hunter2".to_owned()),
        "WORD" => Some("hunter2 and more".to_owned()),
        _ => None,
    }
}
