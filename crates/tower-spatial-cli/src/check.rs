//! `check`: what holds by a settings file, and what is wrong or looks wrong in it.

use std::io::{self, Write};
use std::path::PathBuf;

use tower_spatial::config::{SettingsFile, Source, UnknownHosts};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The settings file, in YAML or JSON. Its references to the environment are looked up, and never printed.
    file: PathBuf,
    /// Prints only what is wrong or looks wrong.
    #[arg(long, short)]
    quiet: bool,
}

/// Whether nothing is wrong.
pub(crate) fn run(arguments: &Arguments, out: &mut impl Write) -> io::Result<bool> {
    let file = SettingsFile::load(&arguments.file);
    let file = file.and_then(|file| file.build().map(|_| file));
    let file = match file {
        Ok(file) => file,
        Err(error) => {
            let problems = error.problems();
            for problem in problems {
                writeln!(out, "error: {problem}")?;
            }
            writeln!(out, "{}", counted(problems.len(), "error"))?;
            return Ok(false);
        }
    };
    if !arguments.quiet {
        for effective in file.effective() {
            let name = effective.endpoint.as_deref();
            writeln!(out, "{}", name.unwrap_or("(any other host)"))?;
            for row in &effective.rows {
                // What other hosts are is what no endpoint names.
                if name.is_none() && row.key == "hosts" {
                    continue;
                }
                match row.source {
                    Source::Own => writeln!(out, "  {:<19} {}", row.key, row.value)?,
                    source => writeln!(out, "  {:<19} {}  ({source})", row.key, row.value)?,
                }
            }
            writeln!(out)?;
        }
        if matches!(file.unknown_hosts(), UnknownHosts::Refuse) {
            writeln!(out, "(any other host)\n  refused\n")?;
        }
    }
    let warnings = file.warnings();
    for warning in &warnings {
        writeln!(out, "warning: {warning}")?;
    }
    writeln!(
        out,
        "{}, {}",
        counted(file.endpoints().count(), "endpoint"),
        counted(warnings.len(), "warning")
    )?;
    Ok(true)
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}
