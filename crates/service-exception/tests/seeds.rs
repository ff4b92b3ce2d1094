//! The seeds of the fuzz targets, replayed.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/claims/document.rs"]
mod document;
#[path = "../../../fuzz/claims/operation.rs"]
mod operation;
#[path = "../../../fuzz/claims/recognizer.rs"]
mod recognizer;

#[test]
fn the_recognizers_claims_hold_of_every_seed() {
    assert!(replay("recognizer", recognizer::hold) > 50);
}

#[test]
fn the_documents_claims_hold_of_every_seed() {
    assert!(replay("document", document::hold) > 10);
}

#[test]
fn the_operation_readers_claims_hold_of_every_seed() {
    assert!(replay("operation", operation::hold) > 5);
}

fn replay(target: &str, hold: fn(&[u8])) -> usize {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(target);
    let files = fs::read_dir(seeds)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files.map(|file| hold(&fs::read(file).unwrap())).count()
}
