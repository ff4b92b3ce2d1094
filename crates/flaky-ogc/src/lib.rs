#![doc = include_str!("lib.md")]

mod body;
mod connection;
mod counters;
mod exception;
mod fault;
mod renderer;
mod request;
mod script;
mod seed;
mod server;
mod service;
mod tile;

pub use counters::Counts;
pub use exception::{Exception, Form};
pub use fault::{Cut, End, Fault, Kind};
pub use request::Asked;
pub use script::{Rendering, Script, Weather};
pub use server::Server;
pub use service::wfs::large_features_crc32;
pub use tile::Tile;
