#![no_main]

#[path = "../claims/settings.rs"]
mod claims;

libfuzzer_sys::fuzz_target!(|data: &[u8]| claims::hold(data));
