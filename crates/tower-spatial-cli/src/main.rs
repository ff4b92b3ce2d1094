//! The command `tower-spatial`.

mod check;
mod demo;
mod inspect;

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
    /// What recorded answers mean, and what the middleware would have done with them.
    Inspect(inspect::Arguments),
    /// What holds for each endpoint by a settings file, and what is wrong or looks wrong in it.
    Check(check::Arguments),
}

#[tokio::main]
async fn main() -> ExitCode {
    let (result, what_failed) = match Arguments::parse().command {
        Command::Demo(arguments) => (demo::run(&arguments).await, ExitCode::FAILURE),
        Command::Check(arguments) => (
            check::run(&arguments, &mut io::stdout().lock()),
            ExitCode::FAILURE,
        ),
        Command::Inspect(arguments) => {
            match inspect::run(&arguments, &mut io::stdout().lock()).await {
                Ok(()) => (Ok(true), ExitCode::SUCCESS),
                Err(inspect::Failure::Output(error)) => (Err(error), ExitCode::FAILURE),
                Err(inspect::Failure::Input(problem)) => {
                    (Err(io::Error::other(problem)), ExitCode::from(2))
                }
            }
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever reads the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tower-spatial: {error}");
            what_failed
        }
    }
}
