//! The seeds of the fuzz target for headers, replayed.

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/claims/retry_after.rs"]
mod retry_after;

#[test]
fn the_claims_on_headers_hold_of_every_seed() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/retry_after");
    let files = fs::read_dir(seeds)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    assert!(
        files
            .map(|file| retry_after::hold(&fs::read(file).unwrap()))
            .count()
            > 5
    );
}
