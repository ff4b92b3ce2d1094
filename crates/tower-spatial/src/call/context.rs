use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use http::{Extensions, Method, Request, Uri};
use tokio::time::{Duration, Instant};

use super::{Attempt, Endpoint, Endpoints, EndpointsId, Permit, Settings};
use crate::observe::{Call, Observers};

/// Until when a call may take: an absolute time, set by the caller as a request extension.
///
/// It counts everything: queues, attempts, sleeps and the body. [`DeadlineLayer`](crate::timeout::deadline::DeadlineLayer)
/// cuts what is running; without it no wait and no attempt of ours begins that would reach beyond it.
///
/// ```
/// use std::time::Duration;
/// use tower_spatial::Deadline;
///
/// let mut request = http::Request::new(());
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// request.extensions_mut().insert(Deadline::after(Duration::from_secs(90)));
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Deadline {
    at: Option<Instant>,
    /// What one call carries with it, in the same extension: each further one costs allocations on every clone of the
    /// request. A value made by a caller never holds one, so a deadline may be shared by many requests.
    context: Option<Arc<Context>>,
    /// By whose gates this attempt has passed already: every attempt has extensions of its own. Only the address of the
    /// endpoint, 0 for none: the attempt's permit holds it.
    admitted_by: usize,
}

impl Deadline {
    /// A deadline at `at`.
    pub fn at(at: Instant) -> Self {
        Self {
            at: Some(at),
            ..Self::default()
        }
    }

    /// A deadline `duration` from now; none where the clock cannot tell a time so far away.
    pub fn after(duration: Duration) -> Self {
        Self {
            at: Instant::now().checked_add(duration),
            ..Self::default()
        }
    }

    /// What [`after`](Self::after) makes, and all that our layers have noted stays.
    pub(crate) fn set(&mut self, after: Duration) {
        self.at = Self::after(after).at;
    }

    /// The time, where there is one.
    pub fn instant(&self) -> Option<Instant> {
        self.at
    }

    /// Whether nobody has said whether a call has a deadline: what our layers put there says nothing of it.
    pub(crate) fn is_open(extensions: &Extensions) -> bool {
        extensions.get::<Self>().is_none_or(|deadline| {
            let is_ours = deadline.context.is_some() || deadline.admitted_by != 0;
            deadline.at.is_none() && is_ours
        })
    }

    /// All that a request carries, for who asks more than once.
    #[inline]
    pub(crate) fn carried(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    #[inline]
    pub(crate) fn context(&self) -> Option<&Arc<Context>> {
        self.context.as_ref()
    }

    /// Whether the attempt has passed the gates of `endpoint` already, by a layer further outside.
    #[inline]
    pub(crate) fn is_admitted_by(&self, endpoint: &Arc<Endpoint>) -> bool {
        self.admitted_by == Arc::as_ptr(endpoint).addr()
    }

    /// As [`latest_start`].
    #[inline]
    pub(crate) fn latest_start(&self, now: Instant) -> Option<Instant> {
        let context = self.context.as_ref();
        let budget = context.and_then(|context| context.budget_end(now));
        match (self.at, budget) {
            (Some(at), Some(end)) => Some(at.min(end)),
            (at, end) => at.or(end),
        }
    }

    /// The caller's deadline in a request's extensions.
    pub(crate) fn of(extensions: &Extensions) -> Option<Instant> {
        extensions.get::<Self>().and_then(|deadline| deadline.at)
    }
}

/// What one call carries with it, from layer to layer and from attempt to attempt.
#[derive(Debug, Default)]
pub(crate) struct Context {
    place: Option<Place>,
    clock: OnceLock<Clock>,
    /// When the budget began to run.
    started: OnceLock<Started>,
    /// Whose gates were met, where the clock can stop, and for how long in all they had been closed by then.
    met: OnceLock<(Arc<Endpoint>, Duration)>,
    /// Whether an attempt has had a cache-busting parameter.
    busted: AtomicBool,
    /// How many attempts failed so far.
    failures: AtomicUsize,
    progress: Mutex<Progress>,
    /// The permit of the attempt that is under way, where a layer below the one that got it may give it back.
    permit: Mutex<Option<Permit>>,
}

/// All that the extensions of a request carried: a call's context and nothing else. The layer outside holds it as long as
/// the call lasts.
#[derive(Clone, Debug)]
pub(crate) struct Carried(Weak<Context>);

impl Carried {
    /// `None` where there is anything else.
    #[inline]
    pub(crate) fn all_of(extensions: &Extensions) -> Option<Self> {
        if extensions.len() != 1 {
            return None;
        }
        let deadline = extensions.get::<Deadline>()?;
        let is_all = deadline.at.is_none() && deadline.admitted_by == 0;
        let context = deadline.context.as_ref().filter(|_| is_all)?;
        // Somebody else than the request has to keep it.
        (Arc::strong_count(context) > 1).then(|| Self(Arc::downgrade(context)))
    }

    pub(crate) fn put_back(self, extensions: &mut Extensions) {
        extensions.insert(Deadline {
            context: self.0.upgrade(),
            ..Deadline::default()
        });
    }
}

/// Where a call goes, found once.
#[derive(Debug)]
pub(crate) struct Place {
    endpoint: Arc<Endpoint>,
    settings: Arc<Settings>,
    /// By whom it was found.
    found_by: EndpointsId,
    /// Of which URI. Kept, so that its parts are told by where they lie.
    uri: Uri,
    /// The request's method, where somebody observes.
    method: Option<Method>,
}

/// How a call's time is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    pub(crate) budget: Duration,
    /// For how long the budget stops at most while the host is known to be closed; `None` where it never does.
    pub(crate) max_park: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Started {
    at: Instant,
    /// For how long the call had been parked by then.
    parked: Duration,
}

#[derive(Debug, Default)]
struct Progress {
    attempts: Vec<Attempt>,
    /// For how long the budget had stood still at the last failure.
    parked: Duration,
    /// How many attempts had failed when the budget last stood still: the backoff counts from there.
    backoff_from: u32,
}

impl Context {
    pub(crate) fn of(extensions: &Extensions) -> Option<&Arc<Self>> {
        extensions
            .get::<Deadline>()
            .and_then(|deadline| deadline.context.as_ref())
    }

    /// The call's context, put into the extensions where there is none yet; the caller's deadline stays.
    pub(crate) fn of_or_insert(extensions: &mut Extensions) -> Arc<Self> {
        if let Some(context) = Self::of(extensions) {
            return Arc::clone(context);
        }
        Self::insert(extensions)
    }

    /// A new context for a new call, put into the extensions; the caller's deadline stays, and so does what a gate
    /// further outside has said.
    pub(crate) fn insert(extensions: &mut Extensions) -> Arc<Self> {
        Self::default().put_into(extensions)
    }

    /// The same for a call that goes to `place`.
    pub(crate) fn insert_for(place: Place, extensions: &mut Extensions) -> Arc<Self> {
        let place = Some(place);
        let context = Self {
            place,
            ..Self::default()
        };
        context.put_into(extensions)
    }

    fn put_into(self, extensions: &mut Extensions) -> Arc<Self> {
        let context = Arc::new(self);
        let deadline = extensions.get_or_insert_default::<Deadline>();
        deadline.context = Some(Arc::clone(&context));
        context
    }

    /// The settings of the endpoint that the call goes to, where that is known.
    pub(crate) fn settings(&self) -> Option<&Settings> {
        self.place.as_ref().map(|place| &*place.settings)
    }

    /// Which call it is and who is told of it, where somebody observes.
    #[inline]
    pub(crate) fn observed(&self) -> Option<(Call<'_>, &Observers)> {
        let place = self.place.as_ref()?;
        let call = Call {
            endpoint: place.endpoint.name(),
            method: place.method.as_ref()?,
        };
        Some((call, &place.settings.observers))
    }

    /// The settings of the endpoint that a request goes to, where it carries a context that knows them.
    pub(crate) fn settings_of(extensions: &Extensions) -> Option<&Settings> {
        Self::of(extensions)?.settings()
    }

    /// The endpoint that those endpoints have found for this URI before.
    #[inline]
    pub(crate) fn endpoint_of(&self, uri: &Uri, found_by: EndpointsId) -> Option<&Arc<Endpoint>> {
        let place = self.place.as_ref()?;
        let is_it = place.found_by == found_by
            && is_same(uri.path(), place.uri.path())
            && match (uri.authority(), place.uri.authority()) {
                (Some(one), Some(other)) => is_same(one.as_str(), other.as_str()),
                (one, other) => one.is_none() && other.is_none(),
            };
        is_it.then_some(&place.endpoint)
    }

    /// How the call's time is counted; the first to say so decides.
    pub(crate) fn set_clock(&self, clock: Clock) {
        let _ = self.clock.set(clock);
    }

    /// The budget runs from now on, unless it does already: the first attempt was admitted.
    #[inline]
    pub(crate) fn start(&self, now: Instant, endpoint: &Arc<Endpoint>) {
        if self.parks() {
            self.meet(now, endpoint);
        }
        self.start_at(now);
    }

    /// A gate was closed. A budget that does not stand still meanwhile runs from now on, unless it does already. One that
    /// does begins with the first admission: when a host is back, its queue may take longer than any budget.
    pub(crate) fn meet_closed(&self, now: Instant, endpoint: &Arc<Endpoint>) {
        if self.parks() {
            self.meet(now, endpoint);
        } else {
            self.start_at(now);
        }
    }

    fn meet(&self, now: Instant, endpoint: &Arc<Endpoint>) {
        self.met
            .get_or_init(|| (Arc::clone(endpoint), endpoint.closed_for(now)));
    }

    /// Whether no attempt of this call had a cache-busting parameter before this one.
    pub(crate) fn is_first_busting(&self) -> bool {
        !self.busted.swap(true, Ordering::Relaxed)
    }

    /// When the budget began to run; from `otherwise`, where no gate has seen the call.
    pub(crate) fn started_or(&self, otherwise: Instant) -> Instant {
        self.start_at(otherwise).at
    }

    #[inline]
    fn start_at(&self, at: Instant) -> Started {
        *self.started.get_or_init(|| Started {
            at,
            parked: self.parked(at),
        })
    }

    /// For how long the budget has stood still since it runs.
    pub(crate) fn stood_still(&self, now: Instant) -> Duration {
        let before = self.started.get().map(|started| started.parked);
        self.parked(now).saturating_sub(before.unwrap_or_default())
    }

    /// For how long the call has waited while the host was closed and its clock stood still.
    pub(crate) fn parked(&self, now: Instant) -> Duration {
        let max_park = self.clock.get().and_then(|clock| clock.max_park);
        let (Some(max_park), Some((endpoint, before))) = (max_park, self.met.get()) else {
            return Duration::ZERO;
        };
        let closed_for = endpoint.closed_for(now);
        closed_for.saturating_sub(*before).min(max_park)
    }

    /// For how much longer the budget may stand still.
    pub(crate) fn park_left(&self, now: Instant) -> Duration {
        let max_park = self.clock.get().and_then(|clock| clock.max_park);
        max_park.unwrap_or_default() - self.parked(now)
    }

    /// For how much longer the budget is known to stand still: it does while the host is closed, as far as it may.
    pub(crate) fn stands_still_for(&self, now: Instant) -> Duration {
        let Some((endpoint, _)) = self.met.get() else {
            return Duration::ZERO;
        };
        let left = self.park_left(now);
        endpoint
            .closed_until(now)
            .map_or(Duration::ZERO, |closed| match closed {
                Some(until) => until.saturating_duration_since(now).min(left),
                // Nobody knows: that is the same to a sleep that is about to begin.
                None => left,
            })
    }

    /// How often the backoff has doubled: once a failure, and from none again after the budget stood still.
    pub(crate) fn backoff_step(&self, failures: u32, now: Instant) -> u32 {
        let parked = self.parked(now);
        let is_still = !self.stands_still_for(now).is_zero();
        let mut progress = self.progress();
        if parked > progress.parked || is_still {
            progress.parked = parked;
            progress.backoff_from = failures;
        }
        failures - progress.backoff_from
    }

    /// The last instant at which an attempt may start by the budget, as far as can be told now: it moves while the host
    /// is closed and the budget stands still.
    pub(crate) fn budget_end(&self, now: Instant) -> Option<Instant> {
        let (clock, started) = (self.clock.get()?, self.started.get()?);
        let budget = clock.budget.saturating_add(self.stood_still(now));
        started.at.checked_add(budget)
    }

    /// Whether the budget stands still while the host is closed.
    pub(crate) fn parks(&self) -> bool {
        self.clock
            .get()
            .is_some_and(|clock| clock.max_park.is_some())
    }

    /// Notes a failed attempt that is to be repeated.
    pub(crate) fn failed(&self, attempt: Attempt) {
        let mut progress = self.progress();
        progress.attempts.push(attempt);
        self.failures
            .store(progress.attempts.len(), Ordering::Relaxed);
    }

    /// The attempts that failed so far, oldest first.
    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.progress().attempts.clone()
    }

    /// How many attempts failed so far.
    pub(crate) fn failures(&self) -> usize {
        self.failures.load(Ordering::Relaxed)
    }

    /// The attempt's permit, to be given back or put back by a layer further inside.
    pub(crate) fn permit(&self) -> MutexGuard<'_, Option<Permit>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // Nothing panics while it is held; a poisoned value would still be whole.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    pub(crate) fn of<B>(request: &Request<B>, endpoints: &Endpoints) -> Self {
        let endpoint = endpoints.find_for(request.uri(), request.extensions());
        Self {
            method: endpoint.is_observed().then(|| request.method().clone()),
            settings: endpoint.settings(),
            endpoint,
            found_by: endpoints.id(),
            uri: request.uri().clone(),
        }
    }
}

/// Whether they are the same characters of the same place.
fn is_same(one: &str, other: &str) -> bool {
    std::ptr::eq(one, other)
}

/// Tells the layers further inside that the attempt has passed the gates of `endpoint`.
pub(crate) fn mark_admitted(extensions: &mut Extensions, endpoint: &Arc<Endpoint>) {
    let deadline = extensions.get_or_insert_default::<Deadline>();
    deadline.admitted_by = Arc::as_ptr(endpoint).addr();
}

/// The last instant at which an attempt of this call may start and a wait for it may end, as far as can be told now: the
/// caller's deadline or the end of the budget, which is known once it runs.
pub(crate) fn latest_start(extensions: &Extensions, now: Instant) -> Option<Instant> {
    extensions.get::<Deadline>()?.latest_start(now)
}
