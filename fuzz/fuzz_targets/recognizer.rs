#![no_main]

#[path = "../claims/recognizer.rs"]
mod claims;

libfuzzer_sys::fuzz_target!(|data: &[u8]| claims::hold(data));
