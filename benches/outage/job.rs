//! The clients: workers who take tiles from one queue and have them rendered, until none is left.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Builder;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, timeout_at};
use tower::ServiceExt;

use crate::record::{Record, State};
use crate::renderer::Renderer;
use crate::rows::{Row, Stack};
use crate::scenario::{DEPLOY, Scenario};

/// One run of one row, on a paused clock.
pub(crate) fn run(scenario: &Scenario, seed: u64, row: &Row) -> Record {
    Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(run_in_tokio_time(scenario, seed, row))
}

async fn run_in_tokio_time(scenario: &Scenario, seed: u64, row: &Row) -> Record {
    let renderer = Renderer::new(scenario, seed);
    let mut random = SmallRng::seed_from_u64(!seed);
    let mut clients = JoinSet::new();
    let job = Arc::new(Job::new(scenario, renderer.clone()));
    let mut fleet = row.start(scenario, &renderer);
    job.start(&mut clients, &fleet.stacks, START_OVER, &mut random);
    let server = tokio::spawn(renderer.clone().keep_time());

    let mut states = Vec::new();
    for second in 1..=scenario.horizon as usize {
        let at = second as f64;
        if timeout_at(renderer.instant(at), job.is_done.notified())
            .await
            .is_ok()
        {
            break;
        }
        states.push(State {
            at_server: renderer.in_hand() as u32,
            ..fleet.state()
        });
        if at == DEPLOY {
            let exported = fleet.export();
            clients.shutdown().await;
            drop(fleet);
            job.take_back();
            fleet = row.restart(scenario, &renderer, &exported);
            job.start(&mut clients, &fleet.stacks, RESTART_OVER, &mut random);
        }
    }
    let mut record = renderer.take_record();
    clients.shutdown().await;
    server.abort();
    let tiles = std::mem::take(&mut *job.tiles());
    record.is_complete = tiles.done.len() == scenario.tiles;
    record.done = tiles.done;
    record.tile_times = tiles.times;
    record.gave_up = tiles.gave_up;
    record.states = states;
    record
}

/// What is to be done, and what has been.
struct Job {
    renderer: Renderer,
    template: Request<Empty<Bytes>>,
    count: usize,
    tiles: Mutex<Tiles>,
    is_done: Notify,
}

#[derive(Default)]
struct Tiles {
    queue: VecDeque<usize>,
    /// By worker.
    in_hand: Vec<Option<usize>>,
    done: Vec<f64>,
    times: Vec<f64>,
    gave_up: u64,
}

impl Job {
    fn new(scenario: &Scenario, renderer: Renderer) -> Self {
        let tiles = Tiles {
            queue: (0..scenario.tiles).collect(),
            in_hand: vec![None; scenario.workers()],
            ..Tiles::default()
        };
        let template = Request::get(crate::rows::URI)
            .body(Empty::new())
            .expect("a request");
        Self {
            renderer,
            template,
            count: scenario.tiles,
            tiles: Mutex::new(tiles),
            is_done: Notify::new(),
        }
    }

    /// All workers, within some seconds.
    fn start(
        self: &Arc<Self>,
        clients: &mut JoinSet<()>,
        stacks: &[Stack],
        over: f64,
        random: &mut SmallRng,
    ) {
        let workers = self.tiles().in_hand.len();
        for worker in 0..workers {
            let stack = stacks[worker * stacks.len() / workers].clone();
            let after = Duration::from_secs_f64(over * random.random::<f64>());
            clients.spawn(Arc::clone(self).work(worker, stack, after));
        }
    }

    async fn work(self: Arc<Self>, worker: usize, stack: Stack, after: Duration) {
        sleep(after).await;
        while let Some(tile) = self.take(worker) {
            let taken = Instant::now();
            let answer = stack.clone().oneshot(self.template.clone()).await;
            let answer = match answer {
                Ok(response) if response.status().is_success() => {
                    response.into_body().collect().await.is_ok()
                }
                _ => false,
            };
            let took = taken.elapsed().as_secs_f64();
            if answer {
                self.done(worker, took);
            } else {
                self.give_up(worker, tile);
                sleep(TURNAROUND).await;
            }
        }
    }

    fn take(&self, worker: usize) -> Option<usize> {
        let tiles = &mut *self.tiles();
        let tile = tiles.queue.pop_front();
        tiles.in_hand[worker] = tile;
        tile
    }

    fn done(&self, worker: usize, took: f64) {
        let now = self.renderer.now();
        let tiles = &mut *self.tiles();
        tiles.in_hand[worker] = None;
        tiles.done.push(now);
        tiles.times.push(took);
        if tiles.done.len() == self.count {
            self.is_done.notify_one();
        }
    }

    /// A job that is to be done is not done by giving up: the tile's turn comes again.
    fn give_up(&self, worker: usize, tile: usize) {
        let tiles = &mut *self.tiles();
        tiles.in_hand[worker] = None;
        tiles.gave_up += 1;
        tiles.queue.push_back(tile);
    }

    /// From workers that are no more.
    fn take_back(&self) {
        let tiles = &mut *self.tiles();
        for in_hand in &mut tiles.in_hand {
            if let Some(tile) = in_hand.take() {
                tiles.queue.push_front(tile);
            }
        }
    }

    fn tiles(&self) -> MutexGuard<'_, Tiles> {
        self.tiles.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// Seconds over which the workers begin, at first and after a deploy.
const START_OVER: f64 = 5.0;
const RESTART_OVER: f64 = 10.0;
/// Between giving a tile up and taking the next.
const TURNAROUND: Duration = Duration::from_millis(50);
