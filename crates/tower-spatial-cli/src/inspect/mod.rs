//! `inspect`: what would the middleware have done with this answer?

mod answer;
mod har;
mod question;
mod report;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use bytes::Bytes;

use question::Question;
use report::Report;

/// Reads recorded answers through the same layers as live traffic, and says what they mean.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Prints one JSON object a line.
    #[arg(long)]
    json: bool,
    /// What the answers were given to: METHOD URL, then headers in brackets; without it a GET of an unknown URL.
    #[arg(long, value_name = "METHOD URL [Name: value]…", conflicts_with = "har")]
    request: Option<String>,
    /// The request's body.
    #[arg(long, value_name = "FILE", requires = "request")]
    request_body: Option<PathBuf>,
    /// The service's Retry-After counts milliseconds, as Sentinel Hub's does.
    #[arg(long)]
    retry_after_milliseconds: bool,
    /// A HAR file, as browsers and QGIS's network logger export it: every entry of it is an answer.
    #[arg(long, value_name = "FILE")]
    har: Vec<PathBuf>,
    /// Raw HTTP/1.1 answers: status line, headers, body as received; also cut or empty.
    #[arg(required_unless_present = "har")]
    files: Vec<PathBuf>,
}

/// Prints what each answer means.
///
/// # Errors
/// Where a file cannot be read or the request makes no sense, in words that name it; what comes before is printed.
pub(crate) async fn run(arguments: &Arguments, out: &mut impl io::Write) -> Result<(), Failure> {
    let body = arguments
        .request_body
        .as_deref()
        .map(read)
        .transpose()?
        .unwrap_or_default();
    let question = match &arguments.request {
        Some(request) => Question::parse(request, body)
            .map_err(|problem| Failure::usage("--request", problem))?,
        None => Question::unknown(),
    };
    for path in &arguments.files {
        let raw = read(path)?;
        if let Some(problem) = not_http1(&raw) {
            return Err(Failure::usage(
                &path.display().to_string(),
                problem.to_owned(),
            ));
        }
        let judged = answer::judge(&question, raw, arguments.retry_after_milliseconds).await;
        print(
            &Report::new(path.display().to_string(), judged),
            arguments.json,
            out,
        )?;
    }
    for path in &arguments.har {
        let name = path.display();
        let entries = har::read(&read(path)?)
            .map_err(|problem| Failure::usage(&name.to_string(), problem))?;
        for (number, problem) in entries.skipped {
            eprintln!("tower-spatial: {name}#{number} skipped: {problem}");
        }
        for (number, entry) in entries.read {
            let judged = answer::judge(
                &entry.question,
                entry.raw,
                arguments.retry_after_milliseconds,
            )
            .await;
            let report = Report::new(format!("{name}#{number}"), judged).to(&entry.question);
            print(&report, arguments.json, out)?;
        }
    }
    Ok(())
}

/// What people give that is surely no HTTP/1.1 answer, where a verdict would mislead.
fn not_http1(raw: &[u8]) -> Option<&'static str> {
    if raw.starts_with(b"HTTP/2") || raw.starts_with(b"HTTP/3") {
        Some("not HTTP/1.1, record it with curl --http1.1 --raw -i")
    } else if raw.trim_ascii_start().starts_with(b"{") {
        Some("not an HTTP answer; a HAR file is given with --har")
    } else {
        None
    }
}

fn print(report: &Report, json: bool, out: &mut impl io::Write) -> Result<(), Failure> {
    let written = if json {
        report.write_json(out)
    } else {
        report.write_text(out)
    };
    written.map_err(Failure::Output)
}

fn read(path: &Path) -> Result<Bytes, Failure> {
    fs::read(path)
        .map(Bytes::from)
        .map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

/// Why nothing more is printed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was asked for makes no sense, or cannot be read.
    Input(String),
    /// Nobody reads any more, or nothing can be written.
    Output(io::Error),
}

impl Failure {
    fn usage(what: &str, problem: String) -> Self {
        Self::Input(format!("{what}: {problem}"))
    }
}
