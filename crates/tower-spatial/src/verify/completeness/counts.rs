use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Mutex, PoisonError},
};

use http::{Method, Uri};

/// How many members the caller knows that there are: an extension of a request.
///
/// Fewer, by more than `tolerance`, are a failed attempt. Where the members cannot be counted (an image, a format that is
/// not known) it has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedCount {
    /// The number of members.
    pub n: u64,
    /// How many fewer are fine: a count, no share.
    pub tolerance: u64,
}

/// Members by a query for their number alone: an extension that [`HitsProbe`](super::HitsProbe) puts into a request.
///
/// An answer that names a next page may have fewer: servers have limits of their own.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByHits(pub(super) u64);

/// A query without anything that a log should not hold: a hash of its method and URI.
///
/// It is the same in every process, so that a memory may outlive one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueryKey(u64);

impl QueryKey {
    /// The key of a request with this method and URI.
    pub fn new(method: &Method, uri: &Uri) -> Self {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        // FNV-1a, 64 bits: no secret depends on it, and std's hashers differ from one version to the next.
        let bytes = [method.as_str(), " ", authority, path];
        let bytes = bytes.iter().flat_map(|part| part.bytes());
        Self(bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        }))
    }

    /// The hash.
    pub fn hash(self) -> u64 {
        self.0
    }
}

/// Remembers how many members the last good answer to a query had.
///
/// It is asked and told while an answer's end is handled: neither may block.
pub trait CountMemory: fmt::Debug + Send + Sync {
    /// Members of the last good answer, where there was one.
    fn last_good(&self, query: QueryKey) -> Option<u64>;

    /// Takes notice of a good answer's members.
    fn remember(&self, query: QueryKey, members: u64);
}

/// The numbers of the last so many queries, in memory; the oldest is forgotten first.
#[derive(Debug)]
pub struct RecentCounts {
    capacity: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    by_query: HashMap<QueryKey, u64>,
    oldest_first: VecDeque<QueryKey>,
}

impl RecentCounts {
    /// For at most `capacity` queries, about 50 bytes each.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            counts: Mutex::default(),
        }
    }
}

impl Default for RecentCounts {
    /// For 10 000 queries.
    fn default() -> Self {
        Self::new(10_000)
    }
}

impl CountMemory for RecentCounts {
    fn last_good(&self, query: QueryKey) -> Option<u64> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.by_query.get(&query).copied()
    }

    fn remember(&self, query: QueryKey, members: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if self.capacity == 0 || counts.by_query.insert(query, members).is_some() {
            return;
        }
        counts.oldest_first.push_back(query);
        if counts.oldest_first.len() > self.capacity
            && let Some(oldest) = counts.oldest_first.pop_front()
        {
            counts.by_query.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_of_a_million_queries_keeps_to_its_capacity() {
        let memory = RecentCounts::new(100);
        let key = |n: u64| QueryKey::new(&Method::GET, &format!("/wfs?id={n}").parse().unwrap());
        for n in 0..1_000_000 {
            memory.remember(QueryKey(n), n);
        }
        assert_eq!(memory.counts.lock().unwrap().by_query.len(), 100);
        assert_eq!(memory.last_good(QueryKey(999_999)), Some(999_999));
        assert_eq!(memory.last_good(QueryKey(0)), None);
        assert_ne!(key(1), key(2));
        RecentCounts::new(0).remember(key(1), 1);
    }
}
