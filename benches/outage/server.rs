//! A render server as arithmetic: who is rendered how fast, and who is answered what and when. It owns no clock.
//!
//! Cores are shared by all renders that run; more renders than cores cost everybody more than their share (`alpha`).
//! Nothing is cancelled: what nobody waits for any longer is rendered to its end, and counts as waste.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::task::Waker;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::record::Record;
use crate::scenario::{MEAN_DEMAND, Phase, SIGMA, Scenario};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    Tile,
    Unavailable,
    Refused,
    /// Seconds until the quota is new.
    Throttled {
        retry_after: f64,
    },
}

pub(crate) struct Server {
    scenario: Scenario,
    timeline: [(f64, Phase); 11],
    random: SmallRng,
    round_trip: f64,
    now: f64,
    phase: usize,
    /// Seconds of work that a render which has been running since the start would have had.
    progress: f64,
    /// By the progress at which it ends.
    running: BinaryHeap<Earliest>,
    accepted: VecDeque<usize>,
    attempts: Vec<Attempt>,
    free: Vec<usize>,
    /// On their way to the client.
    answers: BinaryHeap<Earliest>,
    sequence: u64,
    minute: u64,
    used_in_minute: u32,
    /// On their way or answered, since the server has been down for a while and until it has rendered again.
    watch: Watch,
    pub(crate) record: Record,
}

#[derive(Default)]
struct Attempt {
    demand: f64,
    began: f64,
    at_server: bool,
    is_awaited: bool,
    /// Whether it counts among those in flight of [`Watch`].
    is_watched: bool,
    answer: Option<Answer>,
    /// The answer, which the client does not see yet.
    is_on_its_way: bool,
    waker: Option<Waker>,
}

/// While the server is down nobody but a probe should be on the way. Watched from some seconds after it went down, when
/// what was lost in flight has been answered, until the first tile has reached its client.
#[derive(Default)]
struct Watch {
    from: Option<f64>,
    in_flight: u32,
}

impl Server {
    /// `round_trip` is the seconds that an answer takes.
    pub(crate) fn new(scenario: &Scenario, seed: u64, round_trip: f64) -> Self {
        Self {
            timeline: scenario.timeline(),
            scenario: scenario.clone(),
            random: SmallRng::seed_from_u64(seed),
            round_trip,
            now: 0.0,
            phase: 0,
            progress: 0.0,
            running: BinaryHeap::new(),
            accepted: VecDeque::new(),
            attempts: Vec::new(),
            free: Vec::new(),
            answers: BinaryHeap::new(),
            sequence: 0,
            minute: 0,
            used_in_minute: 0,
            watch: Watch::default(),
            record: Record::default(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.timeline[self.phase].1
    }

    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    /// How many it has accepted and not rendered yet.
    pub(crate) fn in_hand(&self) -> usize {
        self.running.len() + self.accepted.len()
    }

    /// How many of its cores it has now.
    pub(crate) fn cores(&self) -> f64 {
        let cores = self.scenario.cores;
        match self.phase() {
            Phase::BrownOut => cores / 2.0,
            Phase::ColdStart => {
                let since = self.now - self.scenario.up_again();
                cores * (0.4 + 0.6 * (since / COLD_FOR).min(1.0))
            }
            _ => cores,
        }
    }

    pub(crate) fn quota_is_spent(&mut self) -> bool {
        let minute = (self.now / 60.0) as u64;
        if minute != self.minute {
            (self.minute, self.used_in_minute) = (minute, 0);
        }
        self.used_in_minute >= self.scenario.quota
    }

    /// When something next happens by itself.
    pub(crate) fn next_event(&self) -> f64 {
        let rendered = self.running.peek().map_or(f64::INFINITY, |first| {
            self.now + ((first.at - self.progress) / self.rate()).max(0.0)
        });
        let answered = self.answers.peek().map_or(f64::INFINITY, |first| first.at);
        let next_phase = self
            .timeline
            .get(self.phase + 1)
            .map_or(f64::INFINITY, |next| next.0);
        let changes = match self.phase() {
            Phase::ColdStart if self.now < self.scenario.up_again() + COLD_FOR => {
                self.now.floor() + 1.0
            }
            Phase::Quota => ((self.now / 60.0).floor() + 1.0) * 60.0,
            _ => f64::INFINITY,
        };
        rendered.min(answered).min(next_phase).min(changes)
    }

    /// Everything that happens until then, each at its own time. Whoever waits for an answer is woken.
    pub(crate) fn advance(&mut self, to: f64) {
        loop {
            let next = self.next_event();
            if next > to {
                break;
            }
            self.work_until(next);
            self.happen();
        }
        self.work_until(to.max(self.now));
    }

    /// An attempt arrives now. Whoever sent it calls [`abandon`](Self::abandon) in the end.
    pub(crate) fn arrive(&mut self) -> usize {
        let demand = self.demand();
        let attempt = Attempt {
            demand,
            at_server: true,
            is_awaited: true,
            ..Attempt::default()
        };
        let id = match self.free.pop() {
            Some(id) => {
                self.attempts[id] = attempt;
                id
            }
            None => {
                self.attempts.push(attempt);
                self.attempts.len() - 1
            }
        };
        let is_down = matches!(self.phase(), Phase::Unavailable | Phase::Refused);
        self.record.arrived(self.now, is_down, self.phase == 1);
        if self.watch.from.is_some_and(|from| self.now >= from) {
            self.watch.in_flight += 1;
            self.attempts[id].is_watched = true;
            let most = &mut self.record.most_in_flight_while_down;
            *most = (*most).max(self.watch.in_flight);
        }
        match self.phase() {
            Phase::Unavailable => self.answer(id, Answer::Unavailable, self.round_trip),
            Phase::Refused => self.answer(id, Answer::Refused, REFUSED_AFTER),
            Phase::Quota if self.quota_is_spent() => {
                self.record.throttled += 1;
                let ends = (self.minute + 1) as f64 * 60.0;
                let retry_after = (ends - self.now).ceil();
                self.answer(id, Answer::Throttled { retry_after }, self.round_trip);
            }
            phase => {
                self.used_in_minute += u32::from(phase == Phase::Quota);
                if self.running.len() < self.scenario.threads {
                    self.start(id);
                } else if self.accepted.len() < self.scenario.queue {
                    self.accepted.push_back(id);
                } else {
                    self.record.turned_away += 1;
                    self.answer(id, Answer::Unavailable, self.round_trip);
                }
            }
        }
        id
    }

    /// The answer, once it has reached the client.
    pub(crate) fn poll(&mut self, id: usize, waker: &Waker) -> Option<Answer> {
        let attempt = &mut self.attempts[id];
        if attempt.answer.is_some() && !attempt.is_on_its_way {
            return attempt.answer;
        }
        match &mut attempt.waker {
            Some(known) => known.clone_from(waker),
            None => attempt.waker = Some(waker.clone()),
        }
        None
    }

    /// Nobody waits for it any longer.
    pub(crate) fn abandon(&mut self, id: usize) {
        let attempt = &mut self.attempts[id];
        attempt.is_awaited = false;
        attempt.waker = None;
        self.unwatch(id);
        self.forget(id);
    }

    fn demand(&mut self) -> f64 {
        let (u, v): (f64, f64) = (self.random.random(), self.random.random());
        let normal = (-2.0 * (1.0 - u).ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        (MEAN_DEMAND.ln() - SIGMA * SIGMA / 2.0 + SIGMA * normal).exp()
    }

    /// How much of a core each render gets.
    fn rate(&self) -> f64 {
        let (running, cores) = (self.running.len() as f64, self.cores());
        let thrash = 1.0 + self.scenario.alpha * (running - cores).max(0.0);
        (cores / running.max(1.0)).min(1.0) / thrash
    }

    fn work_until(&mut self, to: f64) {
        self.progress += (to - self.now).max(0.0) * self.rate();
        self.now = self.now.max(to);
    }

    fn happen(&mut self) {
        while let Some(next) = self.timeline.get(self.phase + 1)
            && next.0 <= self.now
        {
            self.enter(self.phase + 1);
        }
        while self
            .running
            .peek()
            .is_some_and(|first| first.at <= self.progress + ROUNDING)
        {
            let Some(Earliest { id, .. }) = self.running.pop() else {
                break;
            };
            let demand = self.attempts[id].demand;
            if self.attempts[id].is_awaited {
                self.record.useful += demand;
                self.answer(id, Answer::Tile, self.round_trip);
            } else {
                self.record.wasted += demand;
                self.attempts[id].at_server = false;
                self.forget(id);
            }
            if let Some(next) = self.accepted.pop_front() {
                self.start(next);
            }
        }
        while self
            .answers
            .peek()
            .is_some_and(|first| first.at <= self.now)
        {
            let Some(Earliest { id, .. }) = self.answers.pop() else {
                break;
            };
            self.attempts[id].is_on_its_way = false;
            if self.attempts[id].is_awaited {
                let watched = self.watch.from.is_some_and(|from| self.now >= from);
                if watched && self.attempts[id].answer == Some(Answer::Tile) {
                    self.watch = Watch::default();
                }
                self.unwatch(id);
                if let Some(waker) = self.attempts[id].waker.take() {
                    waker.wake();
                }
            }
            self.forget(id);
        }
    }

    fn enter(&mut self, phase: usize) {
        self.phase = phase;
        if !matches!(self.phase(), Phase::Unavailable | Phase::Refused) {
            return;
        }
        self.watch.from.get_or_insert(self.now + LOSSES_TAKE);
        for Earliest { id, .. } in std::mem::take(&mut self.running) {
            let attempt = &self.attempts[id];
            self.record.wasted += (self.progress - attempt.began).min(attempt.demand);
            self.answer(id, Answer::Unavailable, REFUSED_AFTER);
        }
        for id in std::mem::take(&mut self.accepted) {
            self.answer(id, Answer::Unavailable, REFUSED_AFTER);
        }
    }

    fn start(&mut self, id: usize) {
        self.attempts[id].began = self.progress;
        let at = self.progress + self.attempts[id].demand;
        self.sequence += 1;
        let sequence = self.sequence;
        self.running.push(Earliest { at, sequence, id });
    }

    fn answer(&mut self, id: usize, answer: Answer, after: f64) {
        let attempt = &mut self.attempts[id];
        attempt.at_server = false;
        if !attempt.is_awaited {
            self.forget(id);
            return;
        }
        attempt.answer = Some(answer);
        attempt.is_on_its_way = true;
        self.sequence += 1;
        let (at, sequence) = (self.now + after, self.sequence);
        self.answers.push(Earliest { at, sequence, id });
    }

    fn unwatch(&mut self, id: usize) {
        if std::mem::take(&mut self.attempts[id].is_watched) {
            self.watch.in_flight = self.watch.in_flight.saturating_sub(1);
        }
    }

    /// Where neither side has anything left of it.
    fn forget(&mut self, id: usize) {
        let attempt = &self.attempts[id];
        if !(attempt.at_server || attempt.is_on_its_way || attempt.is_awaited) {
            self.free.push(id);
        }
    }
}

/// The earliest is the greatest.
struct Earliest {
    at: f64,
    sequence: u64,
    id: usize,
}

impl Ord for Earliest {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .at
            .total_cmp(&self.at)
            .then(other.sequence.cmp(&self.sequence))
    }
}

impl PartialOrd for Earliest {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Earliest {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Earliest {}

/// Seconds after which a lost or refused connection is noticed.
const REFUSED_AFTER: f64 = 0.02;
/// Seconds until whatever was lost when the server went down has been noticed, and a breaker has had its say.
const LOSSES_TAKE: f64 = 10.0;
/// Seconds from the cold start until every core is there.
const COLD_FOR: f64 = 120.0;
/// Seconds of work: what two ways to add the same numbers may differ by.
const ROUNDING: f64 = 1e-9;
