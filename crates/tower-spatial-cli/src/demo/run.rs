//! A hundred workers and one client against one server.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flaky_ogc::{Counts, Server, Tile};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::report::Report;
use super::script::{SCALE, WORKERS, script, tiles};

/// The HTTP client below all three.
pub(super) type Http = Client<HttpConnector, http_body_util::Empty<Bytes>>;

/// What fetches a tile: the only thing in which the three runs differ.
pub(super) trait Fetch: Clone + Send + Sync + 'static {
    /// The body it would save, or `None` where it has given up.
    fn fetch(&self, uri: http::Uri) -> impl Future<Output = Option<Bytes>> + Send;
}

/// What became of one client.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) name: &'static str,
    pub(super) counts: Counts,
    pub(super) tally: Tally,
    pub(super) tiles: u64,
    /// Story time.
    pub(super) took: Duration,
}

/// What became of its tiles.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) right: u64,
    /// Saved, but not the tile.
    pub(super) wrong: u64,
    pub(super) missing: u64,
}

impl Tally {
    pub(super) fn done(&self) -> u64 {
        self.right + self.wrong + self.missing
    }
}

/// Fetches every tile with the client that `new` makes of an HTTP client.
pub(super) async fn run<F: Fetch>(
    name: &'static str,
    what: &str,
    new: impl FnOnce(Http) -> io::Result<F>,
    seed: u64,
    report: &mut Report,
) -> io::Result<Outcome> {
    let client = new(Client::builder(TokioExecutor::new()).build_http())?;
    let tiles = tiles();
    let total = tiles.len() as u64;
    let tally = Arc::new(Mutex::new(Tally::default()));
    let queue = Arc::new(Mutex::new(VecDeque::from(tiles)));
    let server = Server::start(script(seed, SCALE)).await?;
    report.start(name, what, total)?;

    let begun = Instant::now();
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        workers.spawn(work(
            client.clone(),
            server.url(),
            Arc::clone(&queue),
            Arc::clone(&tally),
        ));
    }
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            ended = workers.join_next() => match ended {
                Some(ended) => ended.map_err(io::Error::other)?,
                None => break,
            },
            _ = ticks.tick() => report.progress(name, *lock(&tally), &server.counts(), server.elapsed())?,
        }
    }
    let took = begun.elapsed().div_f64(SCALE);
    // What the client has left behind is rendered to the end; that belongs to the bill.
    let counts = server
        .until(|counts| counts.in_flight == 0 && counts.renders_in_work == 0)
        .await;
    let outcome = Outcome {
        name,
        counts,
        tally: *lock(&tally),
        tiles: total,
        took,
    };
    server.shutdown().await;
    report.finish(&outcome)?;
    Ok(outcome)
}

async fn work<F: Fetch>(
    client: F,
    server: String,
    queue: Arc<Mutex<VecDeque<Tile>>>,
    tally: Arc<Mutex<Tally>>,
) {
    loop {
        let Some(tile) = lock(&queue).pop_front() else {
            return;
        };
        let fetched = match format!("{server}/wms?{}", tile.query()).parse() {
            Ok(uri) => client.fetch(uri).await,
            Err(_) => None,
        };
        let right = fetched.as_ref().map(|body| *body == tile.png());
        let mut tally = lock(&tally);
        match right {
            Some(true) => tally.right += 1,
            Some(false) => tally.wrong += 1,
            None => tally.missing += 1,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Real time between two looks at the counters.
const TICK: Duration = Duration::from_millis(100);
