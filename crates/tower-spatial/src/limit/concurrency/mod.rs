//! A limit on the answers in flight at one host.
