use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use hashbrown::{DefaultHashBuilder, HashMap, HashSet, HashTable};
use http::uri::{Authority, Scheme};
use http::{Extensions, Uri};
use tokio::time::{Duration, Instant};

use super::host::{self, Hosts, LONGEST_HOST, Origin, Pattern};
use super::settings::{Part, Parts, Settings};
use super::{Endpoint, EndpointSettings, EndpointSnapshot, EndpointsError};
use crate::call::Deadline;
use crate::limit::rate::MemoryStore;
use crate::observe::{Observer, Observers};

/// The endpoints of a client: what they may be asked to bear, and how they are doing. Clones share everything.
///
/// An endpoint is a configured group of hosts, or else one host and port. Configured ones live as long as this does;
/// others come with their first request and go when nobody has asked for them for 10 to 15 minutes (the first one stays,
/// and what is closed to calls for some time yet).
/// There are at most
/// 10 000 of these; beyond that the least used make room, and where all are in use further hosts share one overflow
/// endpoint. Requests without an authority (origin form) share another one: the `Host` header is not looked at.
///
/// The gates before a host are those of all the layers that were built from it: breaker, cooldown, limit. They are one
/// control with one queue. Whichever of the layers a call meets first admits it through all of them, keeps its permit and
/// learns what came of it; the others see that and let it pass. So these layers can be stacked in any number and order, and
/// a gate that nobody built is none. A rate is counted by each layer that keeps it: one is enough. A retry stands above
/// them all: what it repeats below the layer that admitted the call passes no gate.
///
/// ```
/// use tower_spatial::{EndpointSettings, Endpoints};
///
/// let endpoints = Endpoints::builder()
///     .defaults(EndpointSettings::new().concurrency(8))
///     .endpoint(
///         "cadastre",
///         ["wms.cadastre.example", "*.tiles.cadastre.example:8443", "maps.example/cadastre"],
///         EndpointSettings::new().concurrency(4),
///     )
///     .build()?;
///
/// let endpoint = endpoints.find(&"https://maps.example/cadastre/wms?REQUEST=GetMap".parse()?);
/// assert_eq!((endpoint.name(), endpoint.limit()), ("cadastre", 4));
/// let endpoint = endpoints.find(&"https://user:secret@Maps.example/parks/wms".parse()?);
/// assert_eq!((endpoint.name(), endpoint.limit()), ("maps.example:443", 8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Endpoints(Arc<Registry>);

struct Registry {
    /// What settings say; they can be loaded anew.
    routes: ArcSwap<Routes>,
    /// Whether an endpoint can only be found with the routes: by a host's pattern, or by its name.
    has_hosts: AtomicBool,
    has_names: AtomicBool,
    /// Which layers have been built.
    parts: AtomicU8,
    first: OnceLock<First>,
    /// For requests without an authority.
    no_authority: Arc<Endpoint>,
    overflow: Arc<Endpoint>,
    rates: Arc<MemoryStore>,
    hasher: DefaultHashBuilder,
    known: Mutex<Known>,
    /// Held while layers are added or settings loaded anew: what endpoints go by is told to one after the other.
    changes: Mutex<()>,
    max_endpoints: usize,
    sweep_interval: Duration,
}

/// Who is configured.
struct Routes {
    hosts: Hosts,
    configured: Vec<Arc<Endpoint>>,
    by_name: HashMap<Box<str>, Arc<Endpoint>>,
    /// Of hosts that no setting names.
    defaults: Arc<Settings>,
    /// Where hosts that no setting names are refused, what stands for them.
    refused: Option<Arc<Endpoint>>,
}

/// The endpoints that no setting names.
struct Known {
    table: HashTable<Arc<Endpoint>>,
    next_sweep: Option<Instant>,
    /// The bucket at which the search for one that can make room goes on.
    hand: usize,
}

impl Endpoints {
    /// With nothing set: every host is an endpoint of its own, with the defaults.
    pub fn builder() -> EndpointsBuilder {
        EndpointsBuilder::default()
    }

    /// The endpoint a request for `uri` belongs to, made where it is not known yet. It stays the same one for as long as
    /// it is held.
    pub fn find(&self, uri: &Uri) -> Arc<Endpoint> {
        let registry = &*self.0;
        if let Some(first) = registry.first.get()
            && !registry.has_hosts.load(Ordering::Relaxed)
            && first.is_of(uri)
        {
            return Arc::clone(&first.endpoint);
        }
        self.search(uri)
    }

    /// The same for a URI that is not as that of the first host.
    fn search(&self, uri: &Uri) -> Arc<Endpoint> {
        let registry = &*self.0;
        let Some(origin) = Origin::of(uri) else {
            return registry.shared(&registry.no_authority);
        };
        if origin.host.len() > LONGEST_HOST {
            return registry.shared(&registry.overflow);
        }
        if origin.is_normal {
            let endpoint = registry.find(origin.host, origin.port, uri);
            if registry.first.get().is_none() && !registry.has_hosts.load(Ordering::Relaxed) {
                registry.remember(uri, &endpoint);
            }
            endpoint
        } else {
            let mut buffer = [0; LONGEST_HOST];
            let host = host::normalize(origin.host, &mut buffer);
            registry.find(host, origin.port, uri)
        }
    }

    /// When what went where and with which key.
    pub(crate) fn rates(&self) -> &Arc<MemoryStore> {
        &self.0.rates
    }

    /// The same for a request, which may name its endpoint with an [`EndpointName`].
    #[inline]
    pub(crate) fn find_for(&self, uri: &Uri, extensions: &Extensions) -> Arc<Endpoint> {
        match self.find_at_once(uri, Deadline::carried(extensions)) {
            Some(endpoint) => Arc::clone(endpoint),
            None => self.find_otherwise(uri, extensions),
        }
    }

    /// What [`find_for`](Self::find_for) finds, where that takes no search.
    #[inline]
    pub(crate) fn find_at_once<'a>(
        &'a self,
        uri: &Uri,
        carried: Option<&'a Deadline>,
    ) -> Option<&'a Arc<Endpoint>> {
        if let Some(context) = carried.and_then(Deadline::context)
            && let Some(endpoint) = context.endpoint_of(uri, self.id())
        {
            return Some(endpoint);
        }
        let registry = &*self.0;
        let first = registry.first.get()?;
        let is_it = !registry.has_hosts.load(Ordering::Relaxed)
            && !registry.has_names.load(Ordering::Relaxed)
            && first.is_of(uri);
        is_it.then_some(&first.endpoint)
    }

    /// What [`find_for`](Self::find_for) finds, where [`find_at_once`](Self::find_at_once) found nothing.
    pub(crate) fn find_otherwise(&self, uri: &Uri, extensions: &Extensions) -> Arc<Endpoint> {
        if !self.0.has_names.load(Ordering::Relaxed) {
            return self.search(uri);
        }
        if let Some(EndpointName(name)) = extensions.get()
            && let Some(endpoint) = self.configured(name)
        {
            return endpoint;
        }
        self.find(uri)
    }

    /// The longest window over which the starts of any endpoint are spread.
    pub(crate) fn longest_stagger(&self) -> Duration {
        let routes = self.0.routes.load();
        let own = routes
            .configured
            .iter()
            .map(|endpoint| endpoint.settings().stagger);
        let all = own.chain([routes.defaults.stagger]).flatten();
        all.max().unwrap_or_default()
    }

    /// The longest time that a connection to any endpoint may take; zero where none says.
    #[cfg(feature = "client-hyper")]
    pub(crate) fn longest_connect_timeout(&self) -> Duration {
        let routes = self.0.routes.load();
        let configured = routes.configured.iter();
        let own = configured.map(|endpoint| endpoint.settings().timeouts.connect);
        let all = own.chain([routes.defaults.timeouts.connect]).flatten();
        all.max().unwrap_or_default()
    }

    /// Tells them apart from others.
    pub(crate) fn id(&self) -> EndpointsId {
        EndpointsId(Arc::as_ptr(&self.0).addr())
    }

    fn configured(&self, name: &str) -> Option<Arc<Endpoint>> {
        let routes = self.0.routes.load();
        routes.by_name.get(name).cloned()
    }

    /// Goes by other settings from now on, as if it had been built with them. Calls on their way are not touched, and
    /// what has been learnt of a host, its queue and what is in flight stay with it.
    ///
    /// `max_endpoints` and `idle_timeout` stay as they are.
    ///
    /// # Errors
    /// As [`EndpointsBuilder::build`]; then nothing has changed.
    ///
    /// ```
    /// use tower_spatial::{EndpointSettings, Endpoints};
    ///
    /// let endpoints = Endpoints::default();
    /// let host = endpoints.find(&"https://wms.example/".parse()?);
    /// assert_eq!(host.limit(), 16);
    /// endpoints.reload(Endpoints::builder().defaults(EndpointSettings::new().concurrency(4)))?;
    /// assert_eq!(host.limit(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reload(&self, settings: EndpointsBuilder) -> Result<(), EndpointsError> {
        let registry = &*self.0;
        let changing = registry.changing();
        let (routes, changed) = settings.routes(registry.parts(), self.observers(), &|name| {
            self.configured(name)
        })?;
        let defaults = Arc::clone(&routes.defaults);
        registry.has_hosts.store(
            !routes.hosts.is_empty() || routes.refused.is_some(),
            Ordering::Relaxed,
        );
        registry
            .has_names
            .store(!routes.configured.is_empty(), Ordering::Relaxed);
        registry.routes.store(Arc::new(routes));
        // Hosts that are found from here on have the new settings; the others get them now.
        let shared = [&registry.no_authority, &registry.overflow].map(Arc::clone);
        let known: Vec<_> = registry.known().table.iter().cloned().collect();
        let with_defaults = known.into_iter().chain(shared);
        let with_defaults = with_defaults.map(|endpoint| (endpoint, Arc::clone(&defaults)));
        let mut wakers = Vec::new();
        for (endpoint, settings) in changed.into_iter().chain(with_defaults) {
            let woken = endpoint.adopt(settings, registry.parts());
            wakers.push((endpoint, woken));
        }
        drop(changing);
        for (endpoint, woken) in wakers {
            endpoint.wake(woken);
        }
        Ok(())
    }

    /// Has `observer` told, besides those there are, of all that happens at these endpoints from now on, whichever layers
    /// were or will be built from them. See [`observe`](crate::observe).
    pub fn observe(&self, observer: impl Observer) {
        self.observe_with(&(Arc::new(observer) as Arc<dyn Observer>));
    }

    pub(crate) fn observe_with(&self, observer: &Arc<dyn Observer>) {
        self.observers().add(observer);
        self.add(Part::Observed);
    }

    pub(crate) fn observers(&self) -> Arc<Observers> {
        Arc::clone(&self.0.routes.load().defaults.observers)
    }

    /// A layer was built from it: from now on that gate stands before every host.
    pub(crate) fn add(&self, part: Part) {
        let registry = &*self.0;
        let changing = registry.changing();
        registry.parts.fetch_or(part as u8, Ordering::Relaxed);
        let known = self.known().into_iter();
        let adopt = |endpoint: Arc<Endpoint>| {
            let wakers = endpoint.adopt(endpoint.settings(), registry.parts());
            (endpoint, wakers)
        };
        let adopted: Vec<_> = known.map(adopt).collect();
        drop(changing);
        for (endpoint, wakers) in adopted {
            endpoint.wake(wakers);
        }
    }

    pub(super) fn known(&self) -> Vec<Arc<Endpoint>> {
        let registry = &*self.0;
        let shared = [&registry.no_authority, &registry.overflow];
        let routes = registry.routes.load();
        let mut endpoints: Vec<_> = routes.configured.iter().chain(shared).cloned().collect();
        endpoints.extend(registry.known().table.iter().cloned());
        endpoints
    }

    /// The endpoint of this [name](Endpoint::name), made where it is a host and port that no setting names.
    pub(super) fn named(&self, name: &str) -> Option<Arc<Endpoint>> {
        let registry = &*self.0;
        if let Some(endpoint) = self.configured(name) {
            return Some(endpoint);
        }
        let authority = name.parse::<Authority>().ok()?;
        let port = authority.port_u16()?;
        let host = authority.host();
        let is_one = host.len() <= LONGEST_HOST && format!("{host}:{port}") == name;
        let is_normal = !host.ends_with('.') && !host.bytes().any(|b| b.is_ascii_uppercase());
        let uri = Uri::default();
        let found = (is_one && is_normal).then(|| registry.find(host, port, &uri))?;
        (found.name() == name).then_some(found)
    }

    /// How every endpoint is doing that is known now: the configured ones in their order, then the others in none.
    pub fn snapshot(&self) -> Vec<EndpointSnapshot> {
        self.known()
            .iter()
            .map(|endpoint| endpoint.snapshot())
            .collect()
    }
}

impl Default for Endpoints {
    fn default() -> Self {
        Self(Arc::new(Registry::new(Routes {
            hosts: Hosts::default(),
            configured: Vec::new(),
            by_name: HashMap::new(),
            defaults: Arc::default(),
            refused: None,
        })))
    }
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routes = self.0.routes.load();
        f.debug_struct("Endpoints")
            .field("configured", &routes.configured)
            .field("defaults", &routes.defaults)
            .finish_non_exhaustive()
    }
}

/// Builds [`Endpoints`].
#[derive(Clone, Default)]
pub struct EndpointsBuilder {
    defaults: EndpointSettings,
    endpoints: Vec<(String, Vec<String>, EndpointSettings)>,
    unknown_hosts: Option<EndpointSettings>,
    refuses_unknown: bool,
    max_endpoints: Option<usize>,
    idle_timeout: Option<Duration>,
}

/// Tells [`Endpoints`] that live apart; clones have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndpointsId(usize);

/// Names the endpoint that a request belongs to, as a request extension: for endpoints without hosts, and where the same
/// host is called with different patience.
///
/// A name that no endpoint has is ignored: the request's host decides then.
///
/// ```
/// use tower_spatial::EndpointName;
///
/// let mut request = http::Request::get("https://wfs.example/").body(())?;
/// request.extensions_mut().insert(EndpointName::from("national_wfs"));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndpointName(Arc<str>);

impl<N: Into<Arc<str>>> From<N> for EndpointName {
    fn from(name: N) -> Self {
        Self(name.into())
    }
}

impl EndpointsBuilder {
    /// What holds for hosts that no endpoint names, and for what an endpoint leaves open.
    #[must_use]
    pub fn defaults(mut self, settings: EndpointSettings) -> Self {
        self.defaults = settings;
        self
    }

    /// An endpoint of one or more hosts, which share its limits and its state; one without hosts is chosen by an
    /// [`EndpointName`].
    ///
    /// `name` is what errors and metrics call it. A host is `host`, `host:port`, `*.host` (any name below it, at any
    /// depth, not itself) or one of these with a path, `host/path`, which holds for that path and what is below it.
    /// Without a port it means every port. Where several match, the most specific wins: an exact host before `*.`, a
    /// longer `*.` before a shorter, then one with a port before one without, then the longer path.
    #[must_use]
    pub fn endpoint<H: Into<String>>(
        mut self,
        name: impl Into<String>,
        hosts: impl IntoIterator<Item = H>,
        settings: EndpointSettings,
    ) -> Self {
        let hosts = hosts.into_iter().map(Into::into).collect();
        self.endpoints.push((name.into(), hosts, settings));
        self
    }

    /// What holds for hosts that no endpoint names, where that is not all that the defaults say; they still hold for what
    /// it leaves open.
    #[must_use]
    pub fn unknown_hosts(mut self, settings: EndpointSettings) -> Self {
        self.unknown_hosts = Some(settings);
        self
    }

    /// Refuses hosts that no endpoint names: a call to one ends with [`UnknownHost`](crate::UnknownHost) and is not sent.
    /// So does one without a host (origin form) or with one that is too long to be a name, unless an [`EndpointName`]
    /// says where it belongs.
    #[must_use]
    pub fn refuse_unknown_hosts(mut self) -> Self {
        self.refuses_unknown = true;
        self
    }

    /// How many endpoints may be known that no setting names; not zero, by default 10 000.
    #[must_use]
    pub fn max_endpoints(mut self, max_endpoints: usize) -> Self {
        self.max_endpoints = Some(max_endpoints);
        self
    }

    /// For how long an endpoint is kept at least that nobody asks for, where there is room; not zero, by default 10
    /// minutes. It is kept for up to half as long again.
    #[must_use]
    pub fn idle_timeout(mut self, idle_timeout: Duration) -> Self {
        self.idle_timeout = Some(idle_timeout);
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    /// The first setting that makes no sense: a zero limit or time, an endpoint without a name, two of one name, a pattern that is none, one that two endpoints have.
    pub fn build(self) -> Result<Endpoints, EndpointsError> {
        let (max_endpoints, idle_timeout) = (self.max_endpoints, self.idle_timeout);
        let (routes, _) = self.routes(Parts::default(), Arc::default(), &|_| None)?;
        let mut registry = Registry::new(routes);
        if let Some(max_endpoints) = max_endpoints {
            if max_endpoints == 0 {
                return Err(EndpointsError::new(
                    None,
                    "max_endpoints",
                    "zero, expected at least 1",
                ));
            }
            registry.max_endpoints = max_endpoints;
        }
        if let Some(idle_timeout) = idle_timeout {
            if idle_timeout.is_zero() {
                return Err(EndpointsError::new(
                    None,
                    "idle_timeout",
                    "zero, expected a time greater than zero",
                ));
            }
            registry.sweep_interval = idle_timeout / 2;
        }
        Ok(Endpoints(Arc::new(registry)))
    }

    /// The routes, with the endpoints that `existing` knows by their names, and what these are to go by.
    #[allow(clippy::type_complexity)]
    fn routes(
        self,
        parts: Parts,
        observers: Arc<Observers>,
        existing: &dyn Fn(&str) -> Option<Arc<Endpoint>>,
    ) -> Result<(Routes, Vec<(Arc<Endpoint>, Arc<Settings>)>), EndpointsError> {
        let unset = Settings::observed_by(observers);
        let defaults = Arc::new(self.defaults.resolve(None, &unset)?);
        let unknown = match &self.unknown_hosts {
            None => Arc::clone(&defaults),
            Some(settings) => Arc::new(settings.resolve(None, &defaults)?),
        };
        let refused = || Endpoint::named(UNKNOWN, Arc::clone(&defaults), parts.refusing());
        let mut routes = Routes {
            hosts: Hosts::default(),
            configured: Vec::new(),
            by_name: HashMap::new(),
            refused: self.refuses_unknown.then(|| Arc::new(refused())),
            defaults: unknown,
        };
        let mut names = HashSet::new();
        let mut changed = Vec::new();
        for (name, hosts, settings) in &self.endpoints {
            let refuse =
                |setting, problem: String| EndpointsError::new(Some(name), setting, problem);
            if name.is_empty() || name.chars().any(char::is_control) {
                return Err(refuse(
                    "name",
                    "expected one or more printable characters".to_owned(),
                ));
            }
            if !names.insert(name) {
                return Err(refuse("name", "another endpoint has it too".to_owned()));
            }
            let settings = Arc::new(settings.resolve(Some(name), &defaults)?);
            let endpoint = match existing(name) {
                Some(endpoint) => {
                    changed.push((Arc::clone(&endpoint), settings));
                    endpoint
                }
                None => Arc::new(Endpoint::named(name, settings, parts)),
            };
            for host in hosts {
                let pattern = Pattern::parse(host).map_err(|problem| refuse("hosts", problem))?;
                routes.hosts.insert(pattern, &endpoint).map_err(|other| {
                    refuse(
                        "hosts",
                        format!("{host:?} is a host of `{}` already", other.name()),
                    )
                })?;
            }
            routes
                .by_name
                .insert(name.as_str().into(), Arc::clone(&endpoint));
            routes.configured.push(endpoint);
        }
        Ok((routes, changed))
    }
}

/// Without the hosts: a path of theirs can hold a token.
impl fmt::Debug for EndpointsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.endpoints.iter().map(|(name, ..)| name);
        f.debug_struct("EndpointsBuilder")
            .field("defaults", &self.defaults)
            .field("endpoints", &names.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Authority and scheme of the first host that was asked for, and its endpoint.
///
/// Most clients talk to one host. It is found by a comparison, without a lock, a hash or a parse; it is also the one
/// endpoint that is never evicted.
struct First {
    authority: Authority,
    scheme: Option<Scheme>,
    endpoint: Arc<Endpoint>,
}

impl First {
    fn is_of(&self, uri: &Uri) -> bool {
        // As written: what is another spelling of the same host takes the longer way to the same endpoint.
        uri.authority().is_some_and(|authority| {
            authority.as_str().as_bytes() == self.authority.as_str().as_bytes()
        }) && uri.scheme() == self.scheme.as_ref()
    }
}

impl Registry {
    #[cold]
    fn remember(&self, uri: &Uri, endpoint: &Arc<Endpoint>) {
        let (Some(authority), false) = (uri.authority(), Arc::ptr_eq(endpoint, &self.overflow))
        else {
            return;
        };
        // Whoever comes second finds its host the other way.
        let _ = self.first.set(First {
            // A copy: a part of the request's URI would keep all of it.
            authority: authority
                .as_str()
                .parse()
                .unwrap_or_else(|_| authority.clone()),
            scheme: uri.scheme().cloned(),
            endpoint: Arc::clone(endpoint),
        });
    }

    fn new(routes: Routes) -> Self {
        let shared = |name| {
            let defaults = Arc::clone(&routes.defaults);
            Arc::new(Endpoint::named(name, defaults, Parts::default()))
        };
        Self {
            first: OnceLock::new(),
            no_authority: shared(NO_AUTHORITY),
            overflow: shared(OVERFLOW),
            rates: Arc::default(),
            hasher: DefaultHashBuilder::default(),
            known: Mutex::new(Known {
                table: HashTable::new(),
                next_sweep: None,
                hand: 0,
            }),
            max_endpoints: MAX_ENDPOINTS,
            changes: Mutex::default(),
            sweep_interval: IDLE_TIMEOUT / 2,
            parts: AtomicU8::new(0),
            has_hosts: AtomicBool::new(!routes.hosts.is_empty() || routes.refused.is_some()),
            has_names: AtomicBool::new(!routes.configured.is_empty()),
            routes: ArcSwap::from_pointee(routes),
        }
    }

    fn parts(&self) -> Parts {
        Parts(self.parts.load(Ordering::Relaxed))
    }

    /// For what has no endpoint of its own, which no setting can name: where unknown hosts are refused, so is this.
    #[cold]
    fn shared(&self, endpoint: &Arc<Endpoint>) -> Arc<Endpoint> {
        let routes = self.routes.load();
        Arc::clone(routes.refused.as_ref().unwrap_or(endpoint))
    }

    /// `host` is normal.
    fn find(&self, host: &str, port: u16, uri: &Uri) -> Arc<Endpoint> {
        if self.has_hosts.load(Ordering::Relaxed) {
            let routes = self.routes.load();
            let found = routes.hosts.find(host, port, uri);
            if let Some(endpoint) = found.or(routes.refused.as_ref()) {
                return Arc::clone(endpoint);
            }
        }
        let hash = self.hash(host.as_bytes(), port);
        let mut known = self.known();
        if let Some(endpoint) = known.table.find(hash, |endpoint| endpoint.is(host, port)) {
            endpoint.mark_used();
            return Arc::clone(endpoint);
        }
        self.insert(&mut known, hash, host, port)
    }

    #[cold]
    fn insert(&self, known: &mut Known, hash: u64, host: &str, port: u16) -> Arc<Endpoint> {
        let now = Instant::now();
        if known.next_sweep.is_some_and(|next| next <= now) {
            known
                .table
                .retain(|endpoint| !endpoint.sweep(is_kept(endpoint)));
        }
        if known.next_sweep.is_none_or(|next| next <= now) {
            known.next_sweep = now.checked_add(self.sweep_interval);
        }
        if known.table.len() >= self.max_endpoints && !known.make_room() {
            return Arc::clone(&self.overflow);
        }
        let defaults = Arc::clone(&self.routes.load().defaults);
        let endpoint = Arc::new(Endpoint::at(host, port, defaults, self.parts()));
        let rehash = |endpoint: &Arc<Endpoint>| self.hash(endpoint.host(), endpoint.port());
        known
            .table
            .insert_unique(hash, Arc::clone(&endpoint), rehash);
        endpoint
    }

    fn hash(&self, host: &[u8], port: u16) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(host);
        hasher.write_u16(port);
        hasher.finish()
    }

    fn changing(&self) -> std::sync::MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Evicts one endpoint that nobody holds, the first behind the hand that was not used since it last passed, or else
    /// the first. Looks at a bounded number of them, so a flood of names takes linear time also where most are in use.
    fn make_room(&mut self) -> bool {
        let buckets = self.table.num_buckets();
        let mut found = None;
        for _ in 0..buckets.min(LOOKED_AT) {
            self.hand = (self.hand + 1) % buckets;
            let Some(endpoint) = self.table.get_bucket(self.hand) else {
                continue;
            };
            // Nobody can come by it while the table is locked.
            if is_kept(endpoint) {
                continue;
            }
            if !endpoint.forget_use() {
                found = Some(self.hand);
                break;
            }
            found.get_or_insert(self.hand);
        }
        let Some(Ok(entry)) = found.map(|bucket| self.table.get_bucket_entry(bucket)) else {
            return false;
        };
        entry.remove();
        true
    }
}

/// Somebody holds it, or it is closed: that must not be forgotten while it lasts.
fn is_kept(endpoint: &Arc<Endpoint>) -> bool {
    Arc::strong_count(endpoint) > 1 || endpoint.is_closed()
}

const MAX_ENDPOINTS: usize = 10_000;
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
const LOOKED_AT: usize = 128;
/// No host is called so, with their ports.
const NO_AUTHORITY: &str = "(no authority)";
const OVERFLOW: &str = "(overflow)";
const UNKNOWN: &str = "(unknown host)";

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: usize) -> Uri {
        format!("http://host-{n}.example/").parse().unwrap()
    }

    fn known(endpoints: &Endpoints) -> usize {
        endpoints.0.known().table.len()
    }

    #[test]
    fn a_million_names_keep_ten_thousand_endpoints_and_the_ones_in_use() {
        let endpoints = Endpoints::default();
        let held = endpoints.find(&host(0));
        let asked_for = Arc::downgrade(&endpoints.find(&host(1)));
        for n in 2..1_000_000 {
            endpoints.find(&host(n));
            if n % 1000 == 0 {
                endpoints.find(&host(1));
            }
        }
        assert_eq!(known(&endpoints), 10_000);
        assert!(endpoints.0.known().table.capacity() < 20_000);
        assert!(Arc::ptr_eq(&held, &endpoints.find(&host(0))));
        assert!(asked_for.upgrade().is_some(), "the one in use was evicted");
    }

    #[test]
    fn where_all_endpoints_are_in_use_further_hosts_share_one() {
        let endpoints = Endpoints::builder().max_endpoints(3).build().unwrap();
        let mut held: Vec<_> = (0..3).map(|n| endpoints.find(&host(n))).collect();
        let overflow = endpoints.find(&host(3));
        assert_eq!(overflow.name(), "(overflow)");
        assert!(Arc::ptr_eq(&overflow, &endpoints.find(&host(4))));

        held.pop();
        assert_eq!(endpoints.find(&host(3)).name(), "host-3.example:80");
        assert_eq!(known(&endpoints), 3);
        assert!(Arc::ptr_eq(&held[0], &endpoints.find(&host(0))));
    }

    #[test]
    fn unknown_hosts_have_settings_that_no_endpoint_inherits() {
        let endpoints = Endpoints::builder()
            .defaults(EndpointSettings::new().concurrency(8))
            .unknown_hosts(EndpointSettings::new().concurrency(2))
            .endpoint("a", ["a.example"], EndpointSettings::new())
            .build()
            .unwrap();
        let limit = |uri: &str| endpoints.find(&uri.parse().unwrap()).limit();
        assert_eq!(
            (limit("http://a.example"), limit("http://b.example")),
            (8, 2)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_nobody_asks_for_goes_after_ten_to_fifteen_minutes() {
        let endpoints = Endpoints::default();
        let held = endpoints.find(&host(0));
        let idle = Arc::downgrade(&endpoints.find(&host(1)));
        let asked_for = Arc::downgrade(&endpoints.find(&host(2)));
        let mut gone_after = None;
        for second in 1..=2000u64 {
            tokio::time::advance(Duration::from_secs(1)).await;
            endpoints.find(&host(2));
            // Sweeps ride on new names.
            endpoints.find(&host(1000 + second as usize));
            match second {
                // The last time: just before a sweep, which is when one would go soonest.
                299 => drop(endpoints.find(&host(1))),
                _ if idle.upgrade().is_none() => _ = gone_after.get_or_insert(second - 299),
                _ => {}
            }
        }
        let gone_after = gone_after.expect("gone by now");
        assert!((600..=900).contains(&gone_after), "{gone_after} s");
        assert!(asked_for.upgrade().is_some());
        assert!(Arc::ptr_eq(&held, &endpoints.find(&host(0))));
        assert!(known(&endpoints) <= 902);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_in_use_for_long_counts_as_idle_from_then_on() {
        let endpoints = Endpoints::default();
        let held = endpoints.find(&host(0));
        for n in 1..10 {
            tokio::time::advance(Duration::from_secs(300)).await;
            endpoints.find(&host(n));
        }
        let released = Arc::downgrade(&held);
        drop(held);
        tokio::time::advance(Duration::from_secs(300)).await;
        endpoints.find(&host(10));
        assert!(released.upgrade().is_some());
    }

    #[test]
    fn the_first_host_is_found_by_any_spelling_and_no_other_host_by_its_own() {
        let endpoints = Endpoints::default();
        let find = |uri: &'static str| endpoints.find(&Uri::from_static(uri));
        let first = find("https://maps.example.org/wms?a");
        for same in [
            "https://maps.example.org/wms?b",
            "https://MAPS.example.org/",
            "https://maps.example.org:443/",
            "https://maps.example.org./",
            "https://somebody:secret@maps.example.org/",
        ] {
            assert!(Arc::ptr_eq(&first, &find(same)), "{same}");
        }
        for other in [
            "http://maps.example.org/",
            "https://maps.example.org:8443/",
            "https://maps.example.orga/",
            "https://maps.example.or/",
            "/wms",
        ] {
            assert!(!Arc::ptr_eq(&first, &find(other)), "{other}");
        }
    }

    #[test]
    fn a_group_shares_one_state_and_its_own_settings() {
        let endpoints = Endpoints::builder()
            .defaults(
                EndpointSettings::new()
                    .concurrency(8)
                    .queue_timeout(Duration::from_secs(5)),
            )
            .endpoint(
                "group",
                ["a.example", "*.b.example"],
                EndpointSettings::new().concurrency(2),
            )
            .build()
            .unwrap();
        let find = |uri: &str| endpoints.find(&uri.parse().unwrap());
        let group = find("http://a.example");
        assert!(Arc::ptr_eq(&group, &find("https://x.b.example:8443")));
        assert_eq!(group.limit(), 2);
        assert_eq!(group.settings().queue_timeout, Duration::from_secs(5));
        assert_eq!(find("http://b.example").limit(), 8);
        assert_eq!(known(&endpoints), 1);
        let names: Vec<String> = endpoints
            .snapshot()
            .into_iter()
            .map(|one| one.name)
            .collect();
        assert_eq!(
            names,
            ["group", "(no authority)", "(overflow)", "b.example:80"]
        );
    }

    #[test]
    fn settings_that_make_no_sense_are_refused_by_name() {
        let build = |name: &str, hosts: &[&str], settings: EndpointSettings| {
            Endpoints::builder()
                .endpoint("taken", ["taken.example"], EndpointSettings::new())
                .endpoint(name, hosts.iter().copied(), settings)
                .build()
                .unwrap_err()
                .to_string()
        };
        let settings = EndpointSettings::new();
        let zero = Duration::ZERO;
        let a = &["a.example"];
        for (error, expected) in [
            (
                build("x", a, settings.clone().concurrency(0)),
                "endpoint `x`: concurrency: 0 is out of range, expected 1 to 65535",
            ),
            (
                build("x", a, settings.clone().concurrency(65_536)),
                "endpoint `x`: concurrency: 65536 is out of range, expected 1 to 65535",
            ),
            (
                build("x", a, settings.clone().queue_timeout(zero)),
                "endpoint `x`: queue_timeout: zero, expected a time greater than zero",
            ),
            (
                build("x", a, settings.clone().reader_patience(zero)),
                "endpoint `x`: reader_patience: zero, expected a time greater than zero",
            ),
            (
                build("x", &[""], settings.clone()),
                "endpoint `x`: hosts: \"\" has no host",
            ),
            (
                build("x", &["a.example", "TAKEN.example."], settings.clone()),
                "endpoint `x`: hosts: \"TAKEN.example.\" is a host of `taken` already",
            ),
            (
                build("taken", a, settings.clone()),
                "endpoint `taken`: name: another endpoint has it too",
            ),
            (
                build("", a, settings),
                "endpoint ``: name: expected one or more printable characters",
            ),
            (
                Endpoints::builder()
                    .max_endpoints(0)
                    .build()
                    .unwrap_err()
                    .to_string(),
                "max_endpoints: zero, expected at least 1",
            ),
            (
                Endpoints::builder()
                    .idle_timeout(zero)
                    .build()
                    .unwrap_err()
                    .to_string(),
                "idle_timeout: zero, expected a time greater than zero",
            ),
        ] {
            assert_eq!(error, expected);
        }
    }

    #[test]
    fn settings_that_are_loaded_anew_keep_who_is_there_and_change_what_it_bears() {
        let with = |concurrency| EndpointSettings::new().concurrency(concurrency);
        let endpoints = Endpoints::builder()
            .defaults(with(8))
            .endpoint("a", ["a.example"], with(1))
            .endpoint("b", ["b.example"], with(2))
            .build()
            .unwrap();
        let find = |uri: &str| endpoints.find(&uri.parse().unwrap());
        let (a, b) = (find("http://a.example/"), find("http://b.example/"));
        let other = find("http://c.example/");
        let settings = Endpoints::builder().defaults(with(9)).endpoint(
            "a",
            ["a.example", "c.example"],
            with(3),
        );
        endpoints.reload(settings).unwrap();

        assert!(Arc::ptr_eq(&a, &find("http://a.example/")));
        assert!(Arc::ptr_eq(&a, &find("http://c.example/")));
        assert_eq!((a.limit(), other.limit()), (3, 9));
        // What is no longer configured goes on for whoever holds it.
        assert_eq!((b.name(), b.limit()), ("b", 2));
        assert_eq!(find("http://b.example/").limit(), 9);

        let wrong = Endpoints::builder().endpoint("a", ["a.example"], with(0));
        assert!(endpoints.reload(wrong).is_err());
        assert_eq!(find("http://a.example/").limit(), 3);
    }

    /// Layers are built, hosts are asked for the first time and settings loaded anew, all at the same time.
    #[test]
    fn layers_that_are_built_at_once_stand_before_every_host() {
        let gates = [Part::Breaker, Part::Cooldown, Part::Limit, Part::Rate];
        let uris = [
            "http://a.example/",
            "http://b.example/",
            "http://c.example/",
        ];
        let [old, new, configured] = uris.map(Uri::from_static);
        for run in 0..500 {
            let rate = [load_control::Quota::new(1, Duration::from_secs(1)).unwrap()];
            let settings = EndpointSettings::new().rate(rate);
            let before = Endpoints::builder().defaults(settings.clone());
            let endpoints = before.build().unwrap();
            endpoints.find(&old);
            let settings = settings.concurrency(3);
            let reloaded = Endpoints::builder().defaults(settings.clone()).endpoint(
                "configured",
                ["c.example"],
                settings,
            );
            let start = std::sync::Barrier::new(gates.len() + 2);
            std::thread::scope(|scope| {
                for part in gates {
                    let (start, endpoints) = (&start, &endpoints);
                    scope.spawn(move || {
                        start.wait();
                        endpoints.add(part);
                    });
                }
                scope.spawn(|| {
                    start.wait();
                    endpoints.find(&new);
                });
                scope.spawn(|| {
                    start.wait();
                    endpoints.reload(reloaded).unwrap();
                });
            });
            for uri in [&old, &new, &configured] {
                let host = endpoints.find(uri);
                for part in gates {
                    assert!(host.parts().has(part), "{run}: {uri} is without {part:?}");
                }
                assert_eq!(host.limit(), 3, "{run}: {uri}");
            }
        }
    }

    #[test]
    fn the_first_host_is_found_by_settings_that_came_later() {
        let endpoints = Endpoints::default();
        let uri = Uri::from_static("http://a.example/");
        assert_eq!(endpoints.find(&uri).name(), "a.example:80");
        let settings = EndpointSettings::new();
        endpoints
            .reload(Endpoints::builder().endpoint("a", ["a.example"], settings))
            .unwrap();
        assert_eq!(endpoints.find(&uri).name(), "a");
    }

    #[test]
    fn a_request_can_name_its_endpoint_and_a_name_that_nobody_has_is_no_name() {
        let endpoints = Endpoints::builder()
            .endpoint("by host", ["a.example"], EndpointSettings::new())
            .endpoint("by name", [""; 0], EndpointSettings::new())
            .build()
            .unwrap();
        let uri = Uri::from_static("http://a.example/");
        let find = |name: &str| {
            let mut extensions = Extensions::new();
            extensions.insert(EndpointName::from(name));
            endpoints.find_for(&uri, &extensions).name().to_owned()
        };
        assert_eq!(find("by name"), "by name");
        assert_eq!(find("nobody"), "by host");
    }

    #[test]
    fn a_host_that_nobody_named_is_known_as_such_where_those_are_refused() {
        let settings = EndpointSettings::new();
        let endpoints = Endpoints::builder()
            .endpoint("a", ["a.example"], settings)
            .refuse_unknown_hosts()
            .build()
            .unwrap();
        let refuses = |uri: &str| endpoints.find(&uri.parse().unwrap()).parts().refuses();
        assert!(!refuses("http://a.example/"));
        assert!(refuses("http://b.example/"));
        assert!(refuses("/a"), "nobody knows where it would go");
        assert!(refuses(&format!("http://{}/", "a".repeat(254))));
        assert_eq!(known(&endpoints), 0);
    }
}
