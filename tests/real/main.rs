//! The stack against MapServer behind nginx.
//!
//! Each test starts its own pair, in a directory of its own, and counts in nginx's log what reached it.
#![cfg(unix)]

mod client;
mod connections;
mod gateway;
mod killed;
mod servers;
mod spatial;
mod wfs;
mod wms;
