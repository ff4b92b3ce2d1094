//! `tower-spatial demo`: three clients, one script.
//!
//! Each client gets a server of its own, started anew with the same script and seed, and the same list of tiles. They
//! differ in nothing but what a client decides for itself: when to try again, how many requests to have out at once, and
//! what to believe of an answer. The script was written as a list of things that happen to real map servers; no number
//! in it, nor in a client, was chosen for what it does to the others.

mod article;
mod chart;
mod ours;
mod page;
mod plain;
mod report;
mod run;
mod script;
mod serve;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use self::page::Page;
use self::report::Report;
use self::run::Story;

/// What `demo` can be told.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Keep the struggling server up at a loopback address, such as 127.0.0.1:8080, for your own client.
    #[arg(long, value_name = "ADDR", value_parser = loopback)]
    serve: Option<SocketAddr>,

    /// What chance depends on: the cost of each map, and which requests meet a fault.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How many tiles are fetched; a few are fetched before anything goes wrong.
    #[arg(long, value_name = "N", default_value_t = 1_200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    tiles: u32,

    /// Write a page with the table and with what happened over time, drawn: HTML that loads nothing.
    #[arg(long, value_name = "FILE", conflicts_with = "serve")]
    report: Option<PathBuf>,
}

/// Runs what was asked for; whether our stack kept what it promises.
pub(crate) async fn run(arguments: &Arguments) -> io::Result<bool> {
    if let Some(address) = arguments.serve {
        return serve::serve(address, arguments.seed).await.map(|()| true);
    }
    let page = arguments.report.as_deref().map(Page::open).transpose()?;
    let story = Story {
        seed: arguments.seed,
        tiles: arguments.tiles,
    };
    let mut report = Report::begin(story)?;
    let plain = run::run(
        "plain",
        "3 tries, 1 s apart, 100 at once",
        plain::Plain::new,
        story,
        &mut report,
    )
    .await?;
    let article = run::run(
        "article",
        "full jitter, budget, 16 at once",
        article::Article::new,
        story,
        &mut report,
    )
    .await?;
    let ours = run::run(
        "tower-spatial",
        "SpatialLayer: all layers, 16 at once",
        ours::Ours::new,
        story,
        &mut report,
    )
    .await?;
    let outcomes = [plain, article, ours];
    if let Some(page) = page {
        page.write(&outcomes, arguments.seed)?;
    }
    report.end(&outcomes)
}

/// An address that only this machine can reach.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let numeric = text
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    let address: SocketAddr = numeric
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|_| "expected an address and a port, such as 127.0.0.1:8080".to_owned())?;
    if !address.ip().is_loopback() {
        return Err(format!(
            "{} is not a loopback address: the server is broken on purpose and stays on this machine; try 127.0.0.1:{}",
            address.ip(),
            address.port()
        ));
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_served() {
        assert_eq!(loopback("127.0.0.1:80"), Ok(([127, 0, 0, 1], 80).into()));
        assert_eq!(loopback("localhost:80"), Ok(([127, 0, 0, 1], 80).into()));
        assert!(loopback("[::1]:80").is_ok());
        assert!(
            loopback("0.0.0.0:80").is_err_and(|error| error.contains("not a loopback address"))
        );
        assert!(loopback("127.0.0.1").is_err_and(|error| error.contains("a port")));
    }
}
