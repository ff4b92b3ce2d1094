//! The command `tower-spatial`.
fn main() {}
