use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::time::{Duration, Instant};

use super::QueryKey;

/// What was answered, for a while and for so many queries; the oldest is forgotten first.
#[derive(Debug, Default)]
pub(super) struct Known {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answers: HashMap<QueryKey, (u64, Instant)>,
    /// A key stands here once for each time it was answered.
    oldest_first: VecDeque<(QueryKey, Instant)>,
}

const CAPACITY: usize = 10_000;
/// Long enough for a run and its retries, short enough for what changes.
const KEPT_FOR: Duration = Duration::from_secs(600);

impl Known {
    pub(super) fn get(&self, key: QueryKey) -> Option<u64> {
        let state = self.state();
        let (matched, at) = state.answers.get(&key)?;
        (at.elapsed() < KEPT_FOR).then_some(*matched)
    }

    pub(super) fn insert(&self, key: QueryKey, matched: u64) {
        let now = Instant::now();
        let mut state = self.state();
        state.answers.insert(key, (matched, now));
        state.oldest_first.push_back((key, now));
        while state.oldest_first.len() > CAPACITY {
            let Some((oldest, at)) = state.oldest_first.pop_front() else {
                return;
            };
            if state
                .answers
                .get(&oldest)
                .is_some_and(|(_, last)| *last == at)
            {
                state.answers.remove(&oldest);
            }
        }
    }

    pub(super) fn forget(&self, key: QueryKey) {
        self.state().answers.remove(&key);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_bounded_in_number_and_in_time() {
        let known = Known::default();
        let key = |n: usize| QueryKey::new(&Method::GET, &format!("/{n}").parse().unwrap());
        for n in 0..3 * CAPACITY {
            known.insert(key(n), n as u64);
        }
        assert_eq!(known.state().answers.len(), CAPACITY);
        let last = key(3 * CAPACITY - 1);
        assert!(known.get(last).is_some() && known.get(key(0)).is_none());
        tokio::time::advance(KEPT_FOR).await;
        assert_eq!(known.get(last), None);
        known.insert(last, 7);
        known.forget(last);
        assert_eq!(known.get(last), None);
    }
}
