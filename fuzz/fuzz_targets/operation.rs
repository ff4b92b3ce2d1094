#![no_main]

#[path = "../claims/operation.rs"]
mod claims;

libfuzzer_sys::fuzz_target!(|data: &[u8]| claims::hold(data));
