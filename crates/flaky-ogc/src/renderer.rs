use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use crate::counters::{Counters, Render};
use crate::script::{Capacity, Clock, Script};

/// Shares the cores among the maps in work. Knows no clock: it is told how late it is, and catches up exactly, however
/// late that is.
#[derive(Debug)]
pub(crate) struct Shares<T> {
    threads: usize,
    queue_limit: usize,
    thrash: f64,
    capacity: Capacity,
    now: Duration,
    running: Vec<Job<T>>,
    queue: VecDeque<Job<T>>,
}

#[derive(Debug)]
struct Job<T> {
    /// Seconds of one core that are left.
    left: f64,
    token: T,
}

impl<T> Shares<T> {
    pub(crate) fn new(threads: usize, queue_limit: usize, thrash: f64, capacity: Capacity) -> Self {
        Self {
            threads: threads.max(1),
            queue_limit,
            thrash,
            capacity,
            now: Duration::ZERO,
            running: Vec::new(),
            queue: VecDeque::new(),
        }
    }

    /// Takes a map in at the time it has been brought to; gives the token back where everything is full.
    pub(crate) fn submit(&mut self, cost: f64, token: T) -> Result<(), T> {
        let job = Job { left: cost, token };
        if self.running.len() < self.threads {
            self.running.push(job);
        } else if self.queue.len() < self.queue_limit {
            self.queue.push_back(job);
        } else {
            return Err(job.token);
        }
        Ok(())
    }

    /// Brings it to `now`; hands out what was finished meanwhile, in order.
    pub(crate) fn advance(&mut self, now: Duration, finished: &mut Vec<T>) {
        while let Some(end) = self.next_finish().filter(|end| *end <= now) {
            self.progress(end);
            let mut at = 0;
            while at < self.running.len() {
                if self.running[at].left <= ROUNDING {
                    finished.push(self.running.remove(at).token);
                } else {
                    at += 1;
                }
            }
            while self.running.len() < self.threads {
                let Some(next) = self.queue.pop_front() else {
                    break;
                };
                self.running.push(next);
            }
        }
        self.progress(now);
    }

    /// Another capacity from the time on that it has been brought to. What was lost where the server is down.
    pub(crate) fn set_capacity(&mut self, capacity: Capacity) -> usize {
        self.capacity = capacity;
        if capacity.up {
            return 0;
        }
        let lost = self.running.len() + self.queue.len();
        self.running.clear();
        self.queue.clear();
        lost
    }

    /// When the next map is finished if nothing else happens.
    pub(crate) fn next_finish(&self) -> Option<Duration> {
        let least = self
            .running
            .iter()
            .map(|job| job.left)
            .min_by(f64::total_cmp)?;
        let rate = self.rate();
        // A server without a core left finishes nothing, and f64 has no Duration for that.
        (rate > 0.0).then(|| {
            self.now
                + Duration::try_from_secs_f64(least.max(0.0) / rate).unwrap_or(Duration::MAX / 4)
        })
    }

    fn progress(&mut self, now: Duration) {
        let done = now.saturating_sub(self.now).as_secs_f64() * self.rate();
        for job in &mut self.running {
            job.left -= done;
        }
        self.now = self.now.max(now);
    }

    fn rate(&self) -> f64 {
        let (n, cores) = (self.running.len() as f64, self.capacity.cores.max(0.0));
        (cores / n).min(1.0) / (1.0 + self.thrash * (n - cores).max(0.0))
    }
}

/// [`Shares`] in time: renders for requests, with a task that wakes when something is finished.
#[derive(Debug)]
pub(crate) struct Renderer {
    shares: Mutex<Shares<oneshot::Sender<Render>>>,
    changed: Notify,
    script: Arc<Script>,
    clock: Clock,
    counters: Arc<Counters>,
}

impl Renderer {
    pub(crate) fn new(script: &Arc<Script>, clock: Clock, counters: &Arc<Counters>) -> Self {
        let rendering = script.rendering;
        let shares = Shares::new(
            rendering.threads,
            rendering.queue,
            rendering.thrash,
            script.capacity(Duration::ZERO),
        );
        Self {
            shares: Mutex::new(shares),
            changed: Notify::new(),
            script: Arc::clone(script),
            clock,
            counters: Arc::clone(counters),
        }
    }

    /// Renders for `cost` seconds of one core. `Full` at once where it cannot be taken in, `Lost` where the server goes
    /// down meanwhile. A future that is dropped leaves the work behind: it is done to the end, in vain.
    pub(crate) async fn render(&self, cost: f64) -> Result<Render, NotRendered> {
        if cost <= 0.0 {
            Render::begun(&self.counters);
            return Ok(Render::finished(&self.counters));
        }
        let (token, ready) = oneshot::channel();
        {
            let mut finished = Vec::new();
            let mut shares = self.lock();
            self.catch_up(&mut shares, &mut finished);
            // Before it is taken in: another thread may finish it at once.
            Render::begun(&self.counters);
            let taken = shares.submit(cost, token);
            drop(shares);
            self.hand_out(finished);
            if taken.is_err() {
                self.counters.change(|counts| {
                    counts.renders_in_work -= 1;
                    counts.renders_refused += 1;
                });
                return Err(NotRendered::Full);
            }
        }
        self.changed.notify_one();
        ready.await.map_err(|_| NotRendered::Lost)
    }

    /// Finishes what is due, for as long as it is polled.
    pub(crate) async fn run(&self) {
        loop {
            let mut finished = Vec::new();
            let wake = {
                let mut shares = self.lock();
                self.catch_up(&mut shares, &mut finished);
                let change = self.script.next_change(shares.now);
                shares.next_finish().into_iter().chain(change).min()
            };
            self.hand_out(finished);
            match wake {
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(self.clock.instant(at.min(FAR))) => {}
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// Brings the shares to the present, window by window.
    fn catch_up(
        &self,
        shares: &mut Shares<oneshot::Sender<Render>>,
        finished: &mut Vec<oneshot::Sender<Render>>,
    ) {
        let now = self.clock.now();
        while let Some(change) = self
            .script
            .next_change(shares.now)
            .filter(|change| *change <= now)
        {
            shares.advance(change, finished);
            let lost = shares.set_capacity(self.script.capacity(change));
            if lost > 0 {
                self.counters.change(|counts| {
                    counts.renders_in_work -= lost as u64;
                    counts.renders_lost += lost as u64;
                });
            }
        }
        shares.advance(now, finished);
    }

    fn hand_out(&self, finished: Vec<oneshot::Sender<Render>>) {
        for token in finished {
            // Refused where the client has gone: the render comes back, is dropped here, and counts as wasted.
            let _ = token.send(Render::finished(&self.counters));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shares<oneshot::Sender<Render>>> {
        self.shares
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRendered {
    Full,
    Lost,
}

/// Seconds of work that are less than the nanosecond in which time is counted.
const ROUNDING: f64 = 2e-9;

/// Further away than any script goes.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn full(cores: f64) -> Capacity {
        Capacity { cores, up: true }
    }

    #[test]
    fn maps_beyond_the_cores_slow_each_other_down() {
        let mut shares = Shares::new(8, 0, 0.0, full(2.0));
        for name in ["a", "b", "c", "d"] {
            shares.submit(1.0, name).expect("room");
        }
        let mut finished = Vec::new();
        shares.advance(s(1.9), &mut finished);
        assert!(
            finished.is_empty(),
            "four maps of one second on two cores take two"
        );
        shares.advance(s(2.1), &mut finished);
        assert_eq!(finished, ["a", "b", "c", "d"]);
    }

    #[test]
    fn thrash_costs_throughput_and_not_only_time() {
        let mut shares = Shares::new(8, 0, 0.5, full(2.0));
        for name in 0..4 {
            shares.submit(1.0, name).expect("room");
        }
        // Rate = (2/4) / (1 + 0.5 * 2) = 1/4.
        assert_eq!(shares.next_finish(), Some(s(4.0)));
    }

    #[test]
    fn who_waits_for_a_thread_is_served_in_order_and_who_finds_no_place_is_refused() {
        let mut shares = Shares::new(1, 1, 0.0, full(1.0));
        assert_eq!(shares.submit(1.0, "a"), Ok(()));
        assert_eq!(shares.submit(1.0, "b"), Ok(()));
        assert_eq!(shares.submit(1.0, "c"), Err("c"));
        let mut finished = Vec::new();
        shares.advance(s(5.0), &mut finished);
        assert_eq!(finished, ["a", "b"], "both within one late look");
    }

    #[test]
    fn fewer_cores_slow_down_and_an_outage_loses_what_is_in_work() {
        let mut shares = Shares::new(4, 4, 0.0, full(1.0));
        shares.submit(2.0, "a").expect("room");
        let mut finished = Vec::new();
        shares.advance(s(1.0), &mut finished);
        shares.set_capacity(full(0.5));
        assert_eq!(shares.next_finish(), Some(s(3.0)));
        assert_eq!(
            shares.set_capacity(Capacity {
                cores: 0.5,
                up: false
            }),
            1
        );
        shares.advance(s(9.0), &mut finished);
        assert!(finished.is_empty());
    }
}
