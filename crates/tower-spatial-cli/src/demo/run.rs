//! A hundred workers and one client against one server.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use flaky_ogc::{Counts, Script, Server, Tile};
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
    /// What it is.
    pub(super) what: &'static str,
    pub(super) counts: Counts,
    pub(super) tally: Tally,
    pub(super) tiles: u64,
    /// Story time.
    pub(super) took: Duration,
    /// What had come of it when, oldest first; the last one is the end.
    pub(super) samples: Vec<Sample>,
}

/// What all clients are given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Story {
    pub(super) seed: u64,
    pub(super) tiles: u32,
}

/// What had come of a client at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// Story time.
    pub(super) at: Duration,
    pub(super) tally: Tally,
    pub(super) requests: u64,
    pub(super) wasted: u64,
}

impl Sample {
    fn new(at: Duration, tally: Tally, counts: &Counts) -> Self {
        Self {
            at,
            tally,
            requests: counts.requests,
            wasted: counts.renders_wasted,
        }
    }
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

/// One client's run over the story.
pub(super) async fn run<F: Fetch>(
    name: &'static str,
    what: &'static str,
    new: impl FnOnce(Http) -> io::Result<F>,
    story: Story,
    report: &mut Report,
) -> io::Result<Outcome> {
    let client = new(Client::builder(TokioExecutor::new()).build_http())?;
    let tiles = tiles(story.tiles);
    report.start(name, what, tiles.len() as u64)?;
    let look = |tally: Tally, counts: &Counts, elapsed: Duration| {
        report.progress(name, tally, counts, elapsed)
    };
    let script = script(story.seed, SCALE);
    let outcome = fetch_all((name, what), client, tiles, script, look).await?;
    report.finish(&outcome)?;
    Ok(outcome)
}

/// Fetches every tile from a server that starts now; `look` is called every now and then.
async fn fetch_all<F: Fetch>(
    (name, what): (&'static str, &'static str),
    client: F,
    tiles: Vec<Tile>,
    script: Script,
    mut look: impl FnMut(Tally, &Counts, Duration) -> io::Result<()>,
) -> io::Result<Outcome> {
    let total = tiles.len() as u64;
    let tally = Arc::new(Mutex::new(Tally::default()));
    let queue = Arc::new(Mutex::new(VecDeque::from(tiles)));
    let server = Server::start(script).await?;
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
    let mut samples = Vec::new();
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            ended = workers.join_next() => match ended {
                Some(ended) => ended.map_err(io::Error::other)?,
                None => break,
            },
            _ = ticks.tick() => {
                let so_far = *lock(&tally);
                let (counts, elapsed) = (server.counts(), server.elapsed());
                samples.push(Sample::new(elapsed, so_far, &counts));
                look(so_far, &counts, elapsed)?;
            }
        }
    }
    let took = begun.elapsed().div_f64(SCALE);
    // What the client has left behind is rendered to the end; that belongs to the bill.
    let counts = server
        .until(|counts| counts.in_flight == 0 && counts.renders_in_work == 0)
        .await;
    let tally = *lock(&tally);
    samples.push(Sample::new(server.elapsed(), tally, &counts));
    server.shutdown().await;
    Ok(Outcome {
        name,
        what,
        counts,
        tally,
        tiles: total,
        took,
        samples,
    })
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

#[cfg(test)]
mod tests {
    use flaky_ogc::{Cut, Exception, Fault, Form, Kind};

    use super::*;
    use crate::demo::{article::Article, ours::Ours, plain::Plain};

    /// Ten tiles without a cost, the first answer to each spoilt by `fault`.
    async fn outcome<F: Fetch>(new: impl FnOnce(Http) -> io::Result<F>, fault: Fault) -> Outcome {
        let client =
            new(Client::builder(TokioExecutor::new()).build_http()).expect("valid settings");
        let script = Script::default().when(|asked| asked.visit == 0, fault);
        let tiles = tiles(10);
        fetch_all(("x", ""), client, tiles, script, |_, _, _| Ok(()))
            .await
            .expect("a free port")
    }

    fn right_and_wrong(outcome: &Outcome) -> (u64, u64) {
        (outcome.tally.right, outcome.tally.wrong)
    }

    #[tokio::test]
    async fn a_page_under_200_is_saved_by_all_but_ours() {
        assert_eq!(
            right_and_wrong(&outcome(Plain::new, Fault::html_page()).await),
            (0, 10)
        );
        assert_eq!(
            right_and_wrong(&outcome(Article::new, Fault::html_page()).await),
            (0, 10)
        );
        let ours = outcome(Ours::new, Fault::html_page()).await;
        assert_eq!(
            (right_and_wrong(&ours), ours.counts.kind(Kind::Html)),
            ((10, 0), 10)
        );
    }

    #[tokio::test]
    async fn an_exception_under_200_is_noticed_by_the_article_and_by_ours() {
        let report = || {
            Fault::exception(Exception::new(
                Form::Report130,
                "msDrawMap(): Database connection failed",
            ))
        };
        assert_eq!(
            right_and_wrong(&outcome(Plain::new, report()).await),
            (0, 10)
        );
        assert_eq!(
            right_and_wrong(&outcome(Article::new, report()).await),
            (10, 0)
        );
        assert_eq!(
            right_and_wrong(&outcome(Ours::new, report()).await),
            (10, 0)
        );
    }

    #[tokio::test]
    async fn a_cut_body_is_repeated_by_all_three_and_counted_as_wasted() {
        let cut = || Fault::delivery().cut_after(100, Cut::Close);
        for outcome in [
            outcome(Plain::new, cut()).await,
            outcome(Article::new, cut()).await,
            outcome(Ours::new, cut()).await,
        ] {
            assert_eq!(right_and_wrong(&outcome), (10, 0));
            assert_eq!(
                (outcome.counts.requests, outcome.counts.renders_wasted),
                (20, 10)
            );
        }
    }

    #[tokio::test]
    async fn what_fails_for_good_is_missing_for_a_client_that_counts_its_tries() {
        let client =
            Plain::new(Client::builder(TokioExecutor::new()).build_http()).expect("valid settings");
        let script = Script::default().when(|_| true, Fault::status(503));
        let tiles = tiles(3);
        let outcome = fetch_all(("x", ""), client, tiles, script, |_, _, _| Ok(()))
            .await
            .expect("a free port");
        assert_eq!((outcome.tally.missing, outcome.counts.requests), (3, 9));
    }
}
