//! `LoadControl` through the outages of one afternoon: a render server with 16 cores that thrashes when it has more to do,
//! a hundred workers in four client stacks that share one state, and an oracle that sees the server's load to compare with.
//!
//! Up | a blip of 503 for 60 s | up | a quota enforced with 429 | up | a brown-out to half the cores | up | a deploy of the
//! client | up | two hours of maintenance, refused at first, then 503 | a cold start, to the last tile.

#![allow(clippy::print_stdout)] // the numbers are what it is about

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use load_control::{
    AdaptiveSettings, Admission, Backoff, BreakerSettings, Decision, LimitSettings, LoadControl,
    LoadSettings, Outcome,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

#[test]
fn an_afternoon_of_outages_costs_the_server_little() {
    let settings = LoadSettings::default();
    for seed in [7, 11, 23] {
        let (report, oracle) = (run(Some(&settings), seed), run(None, seed));
        report.print("no hint", seed, &oracle);
        report.assert_musts(&oracle, 1.30);
    }
}

#[test]
fn with_the_cores_known_it_costs_less() {
    let settings = adaptive(4, 16);
    for seed in [7, 11] {
        let (report, oracle) = (run(Some(&settings), seed), run(None, seed));
        report.print("ceiling 16", seed, &oracle);
        report.assert_musts(&oracle, 1.25);
    }
}

#[test]
fn a_fixed_limit_that_is_right_is_simplest_and_best() {
    let settings = LoadSettings {
        limit: LimitSettings::Fixed(16),
        ..LoadSettings::default()
    };
    let (report, oracle) = (run(Some(&settings), 7), run(None, 7));
    report.print("fixed 16", 7, &oracle);
    assert!(report.blip_attempts <= 25 && report.maintenance_attempts <= 550);
    assert!(report.peak() <= 16 && report.waste_share() <= 0.01);
    assert!(report.x_time(&oracle) <= 1.06);
    assert_eq!((report.most_probes_at_once, report.gave_up), (1, 0));
}

#[test]
fn a_start_far_too_high_is_noticed() {
    let (report, oracle) = (run(Some(&adaptive(64, 96)), 7), run(None, 7));
    report.print("from 64", 7, &oracle);
    assert!(report.x_time(&oracle) <= 1.12);
}

#[test]
fn without_a_breaker_an_outage_stays_expensive() {
    let settings = LoadSettings {
        breaker: None,
        ..LoadSettings::default()
    };
    let report = run(Some(&settings), 7);
    assert!(report.maintenance_attempts > 10_000);
}

/// For tuning: `OUTAGE_SEEDS=1..20 cargo test --release --test outage -- --ignored --nocapture`
#[test]
#[ignore = "a table over many seeds"]
fn table() {
    let seeds = std::env::var("OUTAGE_SEEDS").unwrap_or_else(|_| "1..40".to_owned());
    let (first, last) = seeds.split_once("..").expect("first..last");
    let seeds: Vec<u64> = (first.parse().unwrap()..=last.parse().unwrap()).collect();
    for (alpha, rows) in [(0.02, 5), (0.0, 2), (0.05, 2)] {
        let oracles: Vec<_> = seeds
            .iter()
            .map(|seed| simulate(None, *seed, alpha))
            .collect();
        let fixed = LoadSettings {
            limit: LimitSettings::Fixed(16),
            ..LoadSettings::default()
        };
        let all = [
            ("no hint", adaptive(4, 64)),
            ("ceiling c", adaptive(4, 16)),
            ("from ceiling c", adaptive(16, 16)),
            ("started at 4c", adaptive(64, 96)),
            ("fixed c", fixed),
        ];
        for (name, settings) in all.iter().take(rows) {
            let reports: Vec<_> = seeds
                .iter()
                .map(|seed| simulate(Some(settings), *seed, alpha))
                .collect();
            let pairs = || reports.iter().zip(&oracles);
            let mean = |of: &dyn Fn((&Report, &Report)) -> f64| {
                pairs().map(of).sum::<f64>() / seeds.len() as f64
            };
            let mut x: Vec<_> = pairs().map(|(r, o)| r.x_time(o)).zip(&seeds).collect();
            x.sort_by(|a, b| a.0.total_cmp(&b.0));
            println!(
                "alpha {alpha} {name:15} x {:.3} (median {:.3} p90 {:.3} worst {:.3} seed {}) healthy {:.3} brown {:.3} 429 {:.3}/{:.0} blip {:.1} maintenance {:.0} peak {:.0} waste {:.2} % blip120 {:.3} rec300 {:.3} t90 {:.0}/{:.0} give-ups {:.0}",
                mean(&|(r, o)| r.x_time(o)),
                x[x.len() / 2].0,
                x[x.len() * 9 / 10].0,
                x[x.len() - 1].0,
                x[x.len() - 1].1,
                mean(&|(r, o)| r.tiles(120.0, 600.0) / o.tiles(120.0, 600.0)),
                mean(&|(r, o)| r.tiles(2460.0, 3660.0) / o.tiles(2460.0, 3660.0)),
                mean(&|(r, o)| r.tiles(1260.0, 2160.0) / o.tiles(1260.0, 2160.0)),
                mean(&|(r, _)| r.throttled as f64),
                mean(&|(r, _)| r.blip_attempts as f64),
                mean(&|(r, _)| r.maintenance_attempts as f64),
                mean(&|(r, _)| r.peak() as f64),
                mean(&|(r, _)| 100.0 * r.waste_share()),
                mean(&|(r, o)| r.tiles(660.0, 780.0) / o.tiles(660.0, 780.0)),
                mean(&|(r, o)| r.tiles(UP_AGAIN, UP_AGAIN + 300.0)
                    / o.tiles(UP_AGAIN, UP_AGAIN + 300.0)),
                mean(&|(r, _)| r.t90(660.0)),
                mean(&|(r, o)| r.t90(UP_AGAIN) - o.t90(UP_AGAIN)),
                mean(&|(r, _)| r.gave_up as f64),
            );
        }
    }
}

fn adaptive(start: u32, ceiling: u32) -> LoadSettings {
    LoadSettings {
        limit: LimitSettings::Adaptive(AdaptiveSettings {
            start,
            ceiling,
            measure_in_step_with: Some(origin()),
            ..AdaptiveSettings::default()
        }),
        breaker: Some(BreakerSettings {
            lease: Duration::from_secs_f64(ATTEMPT_TIMEOUT),
            ..BreakerSettings::default()
        }),
        ..LoadSettings::default()
    }
}

fn run(settings: Option<&LoadSettings>, seed: u64) -> Report {
    simulate(settings, seed, 0.02)
}

fn simulate(settings: Option<&LoadSettings>, seed: u64, alpha: f64) -> Report {
    Simulation::new(settings, seed, alpha).run()
}

#[derive(Default)]
struct Report {
    blip_attempts: u32,
    maintenance_attempts: u32,
    throttled: u32,
    most_probes_at_once: usize,
    gave_up: u32,
    /// Seconds of rendering that somebody, and that nobody, waited for.
    useful: f64,
    wasted: f64,
    /// When each tile was done, in order.
    done: Vec<f64>,
    attempts_while_down: Vec<u16>,
}

impl Report {
    fn assert_musts(&self, oracle: &Self, worst: f64) {
        assert_eq!(self.done.len(), TILES as usize);
        assert!(self.blip_attempts <= 25, "{}", self.blip_attempts);
        assert!(
            self.maintenance_attempts <= 550,
            "{}",
            self.maintenance_attempts
        );
        assert!(self.peak() <= 16, "{}", self.peak());
        assert_eq!(self.most_probes_at_once, 1);
        assert!(self.waste_share() <= 0.01, "{}", self.waste_share());
        assert!(self.throttled <= 40, "{}", self.throttled);
        assert_eq!(self.gave_up, 0);
        let goodput = |from, to| self.tiles(from, to) / oracle.tiles(from, to);
        assert!(goodput(1_260.0, 2_160.0) >= 0.98, "with the quota");
        assert!(goodput(2_460.0, 3_660.0) >= 0.88, "in the brown-out");
        assert!(
            goodput(UP_AGAIN, UP_AGAIN + 300.0) >= 0.85,
            "after the cold start"
        );
        assert!(self.x_time(oracle) <= worst, "{}", self.x_time(oracle));
    }

    fn print(&self, name: &str, seed: u64, oracle: &Self) {
        println!(
            "{name}, seed {seed}: {} attempts in the blip, {} in maintenance, at most {}/s, {} throttled, {} probes at once, {:.2} % wasted, {} gave up, x-time {:.3}",
            self.blip_attempts,
            self.maintenance_attempts,
            self.peak(),
            self.throttled,
            self.most_probes_at_once,
            100.0 * self.waste_share(),
            self.gave_up,
            self.x_time(oracle),
        );
    }

    fn waste_share(&self) -> f64 {
        self.wasted / (self.wasted + self.useful)
    }

    fn peak(&self) -> u16 {
        self.attempts_while_down.iter().copied().max().unwrap_or(0)
    }

    fn tiles(&self, from: f64, to: f64) -> f64 {
        let before = |t| self.done.partition_point(|done| *done < t);
        (before(to) - before(from)) as f64
    }

    /// When the first minute begins that has 90 % of healthy goodput, in seconds after `from`.
    fn t90(&self, from: f64) -> f64 {
        let healthy = 60.0 * CORES / 3.0;
        (0..900)
            .map(f64::from)
            .find(|t| self.tiles(from + t, from + t + 60.0) >= 0.9 * healthy)
            .unwrap_or(900.0)
    }

    /// Time that the work took while the server was up, relative to the oracle's.
    fn x_time(&self, oracle: &Self) -> f64 {
        let up = |report: &Self| {
            let last = if report.done.len() == TILES as usize {
                report.done[report.done.len() - 1]
            } else {
                HORIZON
            };
            last - DOWN
        };
        up(self) / up(oracle)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Up,
    Down,
    Refused,
    Quota,
    BrownOut,
    Deploy,
    ColdStart,
}

/// Seconds.
const TIMELINE: [(f64, Phase); 11] = [
    (0.0, Phase::Up),
    (600.0, Phase::Down),
    (660.0, Phase::Up),
    (1_260.0, Phase::Quota),
    (2_160.0, Phase::Up),
    (2_460.0, Phase::BrownOut),
    (3_660.0, Phase::Up),
    (4_260.0, Phase::Deploy),
    (4_860.0, Phase::Refused),
    (5_160.0, Phase::Down),
    (UP_AGAIN, Phase::ColdStart),
];
const UP_AGAIN: f64 = 12_060.0;
const DOWN: f64 = 60.0 + 7_200.0;
const HORIZON: f64 = 30_000.0;
const CORES: f64 = 16.0;
const THREADS: usize = 64;
const ACCEPT_QUEUE: usize = 64;
const QUOTA_PER_MINUTE: u32 = 200;
const WORKERS: usize = 100;
const TILES: u32 = 27_000;
const ROUND_TRIP: f64 = 0.05;
const ATTEMPT_TIMEOUT: f64 = 60.0;
const BUDGET: f64 = 300.0;

#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Tile,
    Unavailable,
    Refused,
    Throttled { retry_after: f64 },
    TimedOut,
}

enum Event {
    /// The next render ends, unless the server was rescheduled meanwhile.
    Rendered {
        schedule: u64,
    },
    Phase(usize),
    Answer {
        attempt: usize,
        answer: Answer,
    },
    /// A worker begins, or wakes to repeat.
    Wake {
        worker: usize,
        epoch: u32,
    },
    Gate,
    Watch,
}

struct At<T>(f64, u64, T);

impl<T> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl<T> Eq for At<T> {}
impl<T> PartialOrd for At<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for At<T> {
    /// The earliest is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.total_cmp(&self.0).then(other.1.cmp(&self.1))
    }
}

struct Attempt {
    worker: usize,
    sent: f64,
    demand: f64,
    /// The server's work at which its render began.
    began: f64,
    /// Somebody waits for it.
    admission: Option<Admission>,
    is_probe: bool,
    awaited: bool,
}

#[derive(Default)]
struct Worker {
    has_tile: bool,
    epoch: u32,
    attempts: u32,
    backoffs: u32,
    /// When the first attempt went, and for how long the host had been closed by then.
    first: Option<(f64, f64)>,
}

struct Simulation {
    /// `None`: the oracle.
    host: Option<LoadControl>,
    settings: Option<Arc<LoadSettings>>,
    origin: Instant,
    alpha: f64,
    random: SmallRng,
    now: f64,
    sequence: u64,
    events: BinaryHeap<At<Event>>,
    gate_at: Option<f64>,
    phase: usize,
    /// The server: work done per running render so far, and when that was.
    work: f64,
    work_at: f64,
    schedule: u64,
    running: BinaryHeap<At<usize>>,
    accepted: VecDeque<usize>,
    quota_minute: u64,
    quota_used: u32,
    attempts: Vec<Attempt>,
    workers: Vec<Worker>,
    queue: VecDeque<usize>,
    tiles_left: u32,
    report: Report,
}

impl Simulation {
    fn new(settings: Option<&LoadSettings>, seed: u64, alpha: f64) -> Self {
        let settings = settings.map(|settings| Arc::new(settings.clone()));
        Self {
            host: settings.clone().map(LoadControl::new),
            settings,
            origin: origin(),
            alpha,
            random: SmallRng::seed_from_u64(seed),
            now: 0.0,
            sequence: 0,
            events: BinaryHeap::new(),
            gate_at: None,
            phase: 0,
            work: 0.0,
            work_at: 0.0,
            schedule: 0,
            running: BinaryHeap::new(),
            accepted: VecDeque::new(),
            quota_minute: 0,
            quota_used: 0,
            attempts: Vec::new(),
            workers: (0..WORKERS).map(|_| Worker::default()).collect(),
            queue: VecDeque::new(),
            tiles_left: TILES,
            report: Report {
                attempts_while_down: vec![0; HORIZON as usize + 1],
                ..Report::default()
            },
        }
    }

    fn run(mut self) -> Report {
        for (index, (at, _)) in TIMELINE.iter().enumerate().skip(1) {
            self.at(*at, Event::Phase(index));
        }
        for worker in 0..WORKERS {
            let at = 5.0 * self.random.random::<f64>();
            self.at(at, Event::Wake { worker, epoch: 0 });
        }
        self.at(2.0, Event::Watch);
        while let Some(At(at, _, event)) = self.events.pop() {
            if at > HORIZON || self.report.done.len() == TILES as usize {
                break;
            }
            self.now = at;
            match event {
                Event::Rendered { schedule } if schedule == self.schedule => self.rendered(),
                Event::Rendered { .. } => {}
                Event::Phase(index) => self.enter(index),
                Event::Answer { attempt, answer } => self.answered(attempt, answer),
                Event::Wake { worker, epoch } if epoch == self.workers[worker].epoch => {
                    self.wake(worker);
                }
                Event::Wake { .. } => {}
                Event::Gate => self.gate_at = None,
                Event::Watch => {
                    self.advance();
                    self.reschedule();
                    self.at(self.now + 2.0, Event::Watch);
                }
            }
            self.admit();
        }
        self.report
    }

    fn at(&mut self, at: f64, event: Event) {
        self.sequence += 1;
        self.events.push(At(at, self.sequence, event));
    }

    fn instant(&self) -> Instant {
        self.origin + Duration::from_secs_f64(self.now)
    }

    fn phase(&self) -> Phase {
        TIMELINE[self.phase].1
    }

    // The server: every render runs at the same rate, slower where there are more than cores.

    fn cores(&self) -> f64 {
        match self.phase() {
            Phase::BrownOut => CORES / 2.0,
            Phase::ColdStart => CORES * (0.4 + 0.6 * ((self.now - UP_AGAIN) / 120.0).min(1.0)),
            _ => CORES,
        }
    }

    fn rate(&self) -> f64 {
        let (running, cores) = (self.running.len() as f64, self.cores());
        (cores / running.max(1.0)).min(1.0) / (1.0 + self.alpha * (running - cores).max(0.0))
    }

    fn advance(&mut self) {
        self.work += (self.now - self.work_at) * self.rate();
        self.work_at = self.now;
    }

    fn reschedule(&mut self) {
        self.schedule += 1;
        if let Some(next) = self.running.peek() {
            let at = self.now + ((next.0 - self.work) / self.rate()).max(0.0);
            let schedule = self.schedule;
            self.at(at, Event::Rendered { schedule });
        }
    }

    fn start(&mut self, attempt: usize) {
        self.attempts[attempt].began = self.work;
        let end = self.work + self.attempts[attempt].demand;
        self.running.push(At(end, attempt as u64, attempt));
    }

    fn arrive(&mut self, attempt: usize) {
        let answer = match self.phase() {
            phase @ (Phase::Down | Phase::Refused) => {
                let report = &mut self.report;
                if self.phase == 1 {
                    report.blip_attempts += 1;
                } else {
                    report.maintenance_attempts += 1;
                }
                report.attempts_while_down[self.now as usize] += 1;
                let probes = self.attempts.iter().rev().take(2_000);
                let probes = probes.filter(|a| a.is_probe && a.awaited).count();
                report.most_probes_at_once = report.most_probes_at_once.max(probes);
                if phase == Phase::Refused {
                    Answer::Refused
                } else {
                    Answer::Unavailable
                }
            }
            Phase::Quota if self.quota_is_spent() => {
                self.report.throttled += 1;
                let minute_ends = (self.quota_minute + 1) as f64 * 60.0;
                Answer::Throttled {
                    retry_after: (minute_ends - self.now).ceil(),
                }
            }
            phase if self.running.len() < THREADS => {
                self.quota_used += u32::from(phase == Phase::Quota);
                self.advance();
                self.start(attempt);
                self.reschedule();
                return;
            }
            _ if self.accepted.len() < ACCEPT_QUEUE => {
                self.accepted.push_back(attempt);
                return;
            }
            _ => Answer::Unavailable,
        };
        self.at(self.now + ROUND_TRIP, Event::Answer { attempt, answer });
    }

    fn quota_is_spent(&mut self) -> bool {
        let minute = (self.now / 60.0) as u64;
        if minute != self.quota_minute {
            (self.quota_minute, self.quota_used) = (minute, 0);
        }
        self.quota_used >= QUOTA_PER_MINUTE
    }

    fn rendered(&mut self) {
        self.advance();
        while self
            .running
            .peek()
            .is_some_and(|next| next.0 <= self.work + 1e-9)
        {
            let Some(At(_, _, attempt)) = self.running.pop() else {
                break;
            };
            if self.attempts[attempt].awaited {
                self.report.useful += self.attempts[attempt].demand;
                let way_back = if self.host.is_some() { ROUND_TRIP } else { 0.0 };
                let answer = Answer::Tile;
                self.at(self.now + way_back, Event::Answer { attempt, answer });
            } else {
                self.report.wasted += self.attempts[attempt].demand;
            }
            if let Some(next) = self.accepted.pop_front() {
                self.start(next);
            }
        }
        self.reschedule();
    }

    fn enter(&mut self, phase: usize) {
        self.advance();
        if matches!(TIMELINE[phase].1, Phase::Down | Phase::Refused) {
            for At(_, _, attempt) in std::mem::take(&mut self.running) {
                let Attempt { began, demand, .. } = self.attempts[attempt];
                self.report.wasted += (self.work - began).min(demand);
                self.at(
                    self.now + 0.02,
                    Event::Answer {
                        attempt,
                        answer: Answer::Unavailable,
                    },
                );
            }
            for attempt in std::mem::take(&mut self.accepted) {
                self.at(
                    self.now + 0.02,
                    Event::Answer {
                        attempt,
                        answer: Answer::Unavailable,
                    },
                );
            }
        }
        self.phase = phase;
        self.reschedule();
        if self.phase() == Phase::Deploy {
            self.deploy();
        }
    }

    // The clients.

    /// Whatever was in flight is abandoned; the new processes start from what the old ones exported.
    fn deploy(&mut self) {
        let now = self.instant();
        let (Some(host), Some(settings)) = (&self.host, &self.settings) else {
            return;
        };
        let state = host.export(now);
        let imported = LoadControl::import(Arc::clone(settings), now, &state, Duration::ZERO);
        self.host = Some(imported.expect("its own version"));
        for attempt in &mut self.attempts {
            attempt.awaited = false;
            attempt.admission = None;
        }
        self.queue.clear();
        for worker in 0..WORKERS {
            self.tiles_left += u32::from(std::mem::take(&mut self.workers[worker].has_tile));
            self.workers[worker].epoch += 1;
            let epoch = self.workers[worker].epoch;
            let at = self.now + 10.0 * self.random.random::<f64>();
            self.at(at, Event::Wake { worker, epoch });
        }
    }

    /// To begin with a tile, or to repeat.
    fn wake(&mut self, worker: usize) {
        if !self.workers[worker].has_tile {
            if self.tiles_left == 0 {
                return;
            }
            self.tiles_left -= 1;
            let epoch = self.workers[worker].epoch + 1;
            self.workers[worker] = Worker {
                has_tile: true,
                epoch,
                ..Worker::default()
            };
        }
        if (1..=3).contains(&self.workers[worker].attempts) {
            self.queue.push_front(worker);
        } else {
            self.queue.push_back(worker);
        }
    }

    fn admit(&mut self) {
        while let Some(worker) = self.queue.front().copied() {
            let now = self.instant();
            let admission = match self.host.as_mut().map(|host| host.admit(now)) {
                Some(Decision::Admit(admission)) => Some(admission),
                Some(Decision::Wait(wait)) => {
                    if let Some(until) = wait.until {
                        let at = (until - self.origin).as_secs_f64() + 1e-6;
                        if self.gate_at.is_none_or(|gate| at < gate) {
                            self.gate_at = Some(at);
                            self.at(at, Event::Gate);
                        }
                    }
                    return;
                }
                None if self.oracle_waits() => return,
                None => None,
            };
            self.queue.pop_front();
            self.send(worker, admission);
        }
    }

    fn oracle_waits(&mut self) -> bool {
        match self.phase() {
            Phase::Down | Phase::Refused => true,
            Phase::Quota if self.quota_is_spent() => true,
            _ => self.running.len() as f64 >= self.cores().max(1.0).round(),
        }
    }

    fn send(&mut self, worker: usize, admission: Option<Admission>) {
        let (u, v): (f64, f64) = (self.random.random(), self.random.random());
        let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        let closed = self.closed_for();
        let state = &mut self.workers[worker];
        state.attempts += 1;
        state.first.get_or_insert((self.now, closed));
        let attempt = self.attempts.len();
        self.attempts.push(Attempt {
            worker,
            sent: self.now,
            // Mean 3 s, sigma 0.8.
            demand: (3f64.ln() - 0.32 + 0.8 * normal).exp(),
            began: 0.0,
            is_probe: admission.as_ref().is_some_and(Admission::is_probe),
            admission,
            awaited: true,
        });
        if self.host.is_some() {
            let answer = Answer::TimedOut;
            self.at(
                self.now + ATTEMPT_TIMEOUT,
                Event::Answer { attempt, answer },
            );
        }
        self.arrive(attempt);
    }

    fn closed_for(&self) -> f64 {
        let now = self.instant();
        let closed = self.host.as_ref().map(|host| host.closed_for(now));
        closed.unwrap_or_default().as_secs_f64()
    }

    fn answered(&mut self, attempt: usize, answer: Answer) {
        let now = self.instant();
        let Attempt { worker, sent, .. } = self.attempts[attempt];
        if !std::mem::take(&mut self.attempts[attempt].awaited) {
            return;
        }
        if let (Some(host), Some(admission)) =
            (&mut self.host, self.attempts[attempt].admission.take())
        {
            let outcome = match answer {
                Answer::Tile => Outcome::Success {
                    latency: Some(Duration::from_secs_f64(self.now - sent)),
                },
                Answer::Unavailable | Answer::TimedOut => Outcome::Unavailable { refused: false },
                Answer::Refused => Outcome::Unavailable { refused: true },
                Answer::Throttled { .. } => Outcome::Throttled,
            };
            host.settle(now, &admission, outcome, &mut self.random);
            if let Answer::Throttled { retry_after } = answer {
                let retry_after = Duration::from_secs_f64(retry_after);
                host.hint(now, retry_after, &mut self.random);
            }
            host.release(now, admission);
        }
        if answer == Answer::Tile {
            self.report.done.push(self.now);
            self.workers[worker].has_tile = false;
            self.wake(worker);
        } else {
            self.repeat(worker);
        }
    }

    /// The policy of a batch client: full jitter, and a budget whose clock stops while the host is closed.
    fn repeat(&mut self, worker: usize) {
        let (now, closed) = (self.instant(), self.closed_for());
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60)).unwrap();
        let repeat = self.workers[worker].backoffs;
        let mut delay = backoff.delay(repeat, &mut self.random).as_secs_f64();
        self.workers[worker].backoffs += 1;
        if let Some(host) = &mut self.host {
            delay = delay.max(host.retry().as_secs_f64());
            if host.is_closed(now) {
                self.workers[worker].backoffs = 0;
                delay = 0.5 * self.random.random::<f64>();
            }
        }
        if let Some((first, closed_then)) = self.workers[worker].first
            && self.host.is_some()
            && self.now - first - (closed - closed_then) + delay > BUDGET
        {
            self.report.gave_up += 1;
            self.workers[worker].has_tile = false;
            self.tiles_left += 1;
        }
        self.workers[worker].epoch += 1;
        let epoch = self.workers[worker].epoch;
        self.at(self.now + delay, Event::Wake { worker, epoch });
    }
}

#[allow(clippy::disallowed_methods)] // an origin for the arithmetic; nothing depends on its value
fn origin() -> Instant {
    static ORIGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}
