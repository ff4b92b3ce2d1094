//! The command `tower-spatial`.

mod demo;

use std::io;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Spatial-aware retries for tower HTTP clients.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// A hundred tile workers against a struggling map server, once with each of three retry policies.
    Demo(demo::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Demo(arguments) = Arguments::parse().command;
    match demo::run(&arguments).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever reads the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tower-spatial: {error}");
            ExitCode::FAILURE
        }
    }
}
