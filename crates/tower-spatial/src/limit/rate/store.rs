use std::fmt;
use std::task::{Context, Poll};

use load_control::{NoSlot, Quotas};
use tokio::time::Instant;

/// Where it is kept what went when, by endpoint and key.
///
/// [`MemoryStore`](super::MemoryStore) is the one there is. The trait is shaped so that a store shared by a fleet (Redis)
/// can stand in: both questions can be pending while it asks elsewhere, and what is in flight meanwhile lives in the
/// store's own [`Slot`](Self::Slot); [`cancel`](Self::cancel) and [`hold`](Self::hold) wait for nothing, so such a store
/// sends them off behind the answer; it makes the [`RateKey`]s itself, with a secret that its processes share, where
/// memory draws one anew in each; and since an [`Instant`] means nothing elsewhere, it sends how far away a deadline is,
/// and adds how far away the answer's slot is to its own time. The decision is to stay [`Gcra`](load_control::Gcra)'s:
/// reserve, then take at the time of the call, in one atomic step each. Whether calls go or wait while such a store is
/// out of reach is its own matter; no call waits longer than its queue timeout.
pub trait RateStore: fmt::Debug + Send + Sync + 'static {
    /// A slot that was given to a call, or a question that is under way.
    type Slot: fmt::Debug + Send + Unpin + 'static;

    /// What an endpoint and a caller's key are called here: a keyed hash that does not tell the key.
    fn key(&self, endpoint: &str, secret: Option<&[u8]>) -> RateKey;

    /// Asks for a slot, behind all that were given before. `slot` is empty at first, then what this left there. With
    /// [`Turn::Now`] the call goes, and nothing is left.
    ///
    /// # Errors
    /// There is none before the deadline, or the call is heavier than the limit. Nothing was consumed, nothing is left.
    fn poll_reserve(
        &self,
        ask: &Ask<'_>,
        slot: &mut Option<Self::Slot>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Turn, NoSlot>>;

    /// The slot's time has come: may the call go now? With [`Turn::Now`] it goes, and nothing is left in `slot`.
    fn poll_take(
        &self,
        ask: &Ask<'_>,
        slot: &mut Option<Self::Slot>,
        cx: &mut Context<'_>,
    ) -> Poll<Turn>;

    /// The call goes no more.
    fn cancel(&self, slot: Self::Slot, quotas: &Quotas);

    /// The server asks that nothing goes with this key before `until`.
    fn hold(&self, key: RateKey, until: Instant, quotas: &Quotas);
}

/// What a call asks for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ask<'a> {
    /// Whose rate it counts in.
    pub key: RateKey,
    /// The rate.
    pub quotas: &'a Quotas,
    /// What it costs of each quota; 1 where there are fewer.
    pub weights: &'a [u32],
    /// The time.
    pub now: Instant,
    /// Until when the call waits.
    pub deadline: Instant,
    /// Whether the call goes at once where its slot is now. Else it takes its slot later.
    pub goes_at_once: bool,
}

/// Whether a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It does, and was counted.
    Now,
    /// It is to ask again at that time. That may be now, for a call that did not want to go at once.
    At(Instant),
}

/// An endpoint and a key in a store: 128 bits of a keyed hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RateKey(pub(super) [u64; 2]);

impl RateKey {
    /// Of a hash that is keyed and does not tell what it was made from.
    pub fn new(hash: u128) -> Self {
        Self([(hash >> 64) as u64, hash as u64])
    }

    /// The hash.
    pub fn hash(self) -> u128 {
        u128::from(self.0[0]) << 64 | u128::from(self.0[1])
    }
}

impl fmt::Debug for RateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RateKey(..)")
    }
}
