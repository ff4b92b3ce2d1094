//! The rows: the stacks that are compared, each a real tower stack over the same server.

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};
use tokio::time::Duration;
use tower::retry::RetryLayer;
use tower::timeout::TimeoutLayer;
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_spatial::exception::ServiceExceptionLayer;
use tower_spatial::retry::RetryPolicy;
use tower_spatial::timeout::deadline::DeadlineLayer;
use tower_spatial::{
    AdaptiveSettings, BreakerSettings, BreakerState, CircuitBreakerLayer, ConcurrencyLimitLayer,
    CooldownLayer, EndpointSettings, Endpoints, EndpointsState, OnOpen,
};

use crate::models::{Attempts, BreakerAndAimdLayer};
use crate::record::{Gate, State};
use crate::renderer::Renderer;
use crate::scenario::Scenario;

/// One process's client.
pub(crate) type Stack = BoxCloneService<Request<Empty<Bytes>>, Response<Body>, BoxError>;
type Body = UnsyncBoxBody<Bytes, BoxError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Row {
    /// Breaker, cooldown, limit and a budget whose clock stops while the host is down; one state for all processes.
    Ours(Limit),
    /// As ours, but each process for itself, with 16 in flight.
    Unshared,
    /// As ours without a hint, but the budget's clock does not stop.
    Strict,
    /// As ours without a hint, but up to 60 s between probes.
    SlowProbes,
    /// Full jitter 1 s to 60 s, 300 s budget, 16 in flight in each process.
    Article,
    TowerResilience,
    ReqwestRetry,
    Tower,
    Fixed,
}

/// What our limit goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Limit {
    /// Finds itself, knowing nothing.
    NoHint,
    /// Finds itself, never above the server's cores.
    CeilingIsCores,
    /// The server's cores.
    StaticIsCores,
    /// Finds itself, from a start that is four times too high.
    StartedAt4Cores,
}

/// What is left of a fleet that stops, for the one that starts: what each of its endpoints' states was, as JSON.
#[derive(Default)]
pub(crate) struct Exported(Vec<String>);

/// The running processes of one row.
pub(crate) struct Fleet {
    pub(crate) stacks: Vec<Stack>,
    watched: Watched,
    has_breaker: bool,
}

enum Watched {
    Nothing,
    Endpoints(Vec<Endpoints>),
    Models(Vec<BreakerAndAimdLayer>),
}

impl Row {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours(Limit::NoHint) => "ours: no hint",
            Self::Ours(Limit::CeilingIsCores) => "ours: ceiling = cores",
            Self::Ours(Limit::StaticIsCores) => "ours: static = cores",
            Self::Ours(Limit::StartedAt4Cores) => "ours: started at 4x cores",
            Self::Unshared => "ours: static 16 a process, nothing shared",
            Self::Strict => "ours: no hint, strict budget",
            Self::SlowProbes => "ours: no hint, probes up to 60 s apart",
            Self::Article => "the article: full jitter, 300 s, 16 a process",
            Self::TowerResilience => "tower-resilience (model)",
            Self::ReqwestRetry => "reqwest-retry (model)",
            Self::Tower => "tower's ExponentialBackoff",
            Self::Fixed => "fixed: 3 repeats, 1 s apart",
        }
    }

    pub(crate) fn start(self, scenario: &Scenario, renderer: &Renderer) -> Fleet {
        self.build(scenario, renderer)
    }

    pub(crate) fn restart(
        self,
        scenario: &Scenario,
        renderer: &Renderer,
        exported: &Exported,
    ) -> Fleet {
        let fleet = self.build(scenario, renderer);
        if let Watched::Endpoints(all) = &fleet.watched {
            for (endpoints, state) in all.iter().zip(&exported.0) {
                let state: EndpointsState = serde_json::from_str(state).expect("what was written");
                endpoints.import(&state).expect("its own version");
            }
        }
        fleet
    }

    fn build(self, scenario: &Scenario, renderer: &Renderer) -> Fleet {
        let processes = || 0..scenario.processes;
        let retries = |policy: Attempts| Fleet {
            stacks: processes()
                .map(|_| retries(policy.clone(), renderer))
                .collect(),
            watched: Watched::Nothing,
            has_breaker: false,
        };
        match self {
            Self::Ours(_) | Self::Strict | Self::SlowProbes => {
                let endpoints = endpoints(self.settings(scenario));
                let stack = |_| ours(&endpoints, self != Self::Strict, renderer);
                Fleet {
                    stacks: processes().map(stack).collect(),
                    watched: Watched::Endpoints(vec![endpoints]),
                    has_breaker: true,
                }
            }
            Self::Unshared => {
                let settings = || self.settings(scenario);
                let endpoints: Vec<_> = processes().map(|_| endpoints(settings())).collect();
                Fleet {
                    stacks: endpoints.iter().map(|e| ours(e, true, renderer)).collect(),
                    watched: Watched::Endpoints(endpoints),
                    has_breaker: true,
                }
            }
            Self::Article => {
                let endpoints: Vec<_> = processes().map(|_| endpoints(static_limit(16))).collect();
                Fleet {
                    stacks: endpoints.iter().map(|e| article(e, renderer)).collect(),
                    watched: Watched::Endpoints(endpoints),
                    has_breaker: false,
                }
            }
            Self::TowerResilience => {
                let layers: Vec<_> = processes().map(|_| BreakerAndAimdLayer::new()).collect();
                Fleet {
                    stacks: layers
                        .iter()
                        .map(|layer| tower_resilience(layer, renderer))
                        .collect(),
                    watched: Watched::Models(layers),
                    has_breaker: true,
                }
            }
            Self::ReqwestRetry => retries(Attempts::reqwest_retry()),
            Self::Tower => retries(Attempts::tower()),
            Self::Fixed => retries(Attempts::fixed()),
        }
    }

    /// Of the endpoints of ours.
    fn settings(self, scenario: &Scenario) -> EndpointSettings {
        let cores = scenario.cores as u32;
        let breaker = BreakerSettings {
            // As long as an attempt may take.
            lease: ATTEMPT_TIMEOUT,
            open_cap: match self {
                Self::SlowProbes => Duration::from_secs(60),
                _ => BreakerSettings::default().open_cap,
            },
            ..BreakerSettings::default()
        };
        let mut settings = EndpointSettings::new().breaker(breaker);
        if scenario.workers() > MANY {
            // Bodies are read at once, so nobody has to look after those of others: ten thousand who do every few seconds
            // are most of what a run costs.
            settings = settings.reader_patience(QUEUE_TIMEOUT);
        }
        let adaptive = |start, ceiling| AdaptiveSettings {
            start,
            ceiling,
            ..AdaptiveSettings::default()
        };
        // Where ten thousand call, one starts higher and ends nowhere.
        let (start, ceiling) = match scenario.workers() {
            ..=MANY => (4, AdaptiveSettings::default().ceiling),
            _ => (16, 1_024),
        };
        match self {
            Self::Unshared => settings.concurrency(16),
            Self::Ours(Limit::StaticIsCores) => settings.concurrency(cores as usize),
            Self::Ours(Limit::CeilingIsCores) => settings.adaptive(adaptive(start, cores)),
            Self::Ours(Limit::StartedAt4Cores) => settings.adaptive(adaptive(4 * cores, 6 * cores)),
            _ => settings.adaptive(adaptive(start, ceiling)),
        }
    }
}

impl Fleet {
    /// What its clients say about themselves, all processes together.
    pub(crate) fn state(&self) -> State {
        let (uri, has_breaker) = (Uri::from_static(URI), self.has_breaker);
        let states: Vec<State> = match &self.watched {
            Watched::Nothing => return State::default(),
            Watched::Endpoints(all) => all
                .iter()
                .map(|endpoints| {
                    let snapshot = endpoints.find(&uri).snapshot();
                    State {
                        limit: Some(snapshot.limit as u32),
                        gate: match snapshot.breaker {
                            _ if !has_breaker => Gate::None,
                            BreakerState::Closed => Gate::Closed,
                            BreakerState::Open { .. } => Gate::Open,
                            BreakerState::HalfOpen => Gate::HalfOpen,
                        },
                        ..State::default()
                    }
                })
                .collect(),
            Watched::Models(layers) => layers.iter().map(BreakerAndAimdLayer::state).collect(),
        };
        let first = states.first().copied().unwrap_or_default();
        State {
            limit: states.iter().map(|state| state.limit).sum(),
            // The first process stands for all.
            ..first
        }
    }

    /// What is to survive a restart.
    pub(crate) fn export(&self) -> Exported {
        let Watched::Endpoints(all) = &self.watched else {
            return Exported::default();
        };
        let states = all.iter().map(|endpoints| {
            let state = endpoints.export();
            serde_json::to_string(&state).expect("numbers and names")
        });
        Exported(states.collect())
    }
}

/// Everything, each part in its place.
fn ours(endpoints: &Endpoints, parks: bool, renderer: &Renderer) -> Stack {
    let policy = RetryPolicy::builder()
        .base(Duration::from_secs(1))
        .cap(Duration::from_secs(60))
        .budget(BUDGET);
    let policy = match parks {
        true => policy.park(Duration::from_secs(6 * 3_600)),
        false => policy,
    };
    ServiceBuilder::new()
        .layer(DeadlineLayer::new())
        .layer(RetryLayer::new(policy.build().expect("a policy")))
        .layer(CircuitBreakerLayer::new(endpoints.clone()).on_open(OnOpen::Wait))
        .layer(CooldownLayer::new(endpoints.clone()))
        .layer(ConcurrencyLimitLayer::new(endpoints.clone()))
        .layer(TimeoutLayer::new(ATTEMPT_TIMEOUT))
        .layer(ServiceExceptionLayer::new())
        .map_err(BoxError::from)
        .service(renderer.clone())
        .map_response(|response: Response<_>| response.map(boxed))
        .boxed_clone()
}

/// The retry and limit of an article on the subject, without a breaker, each process for itself.
fn article(endpoints: &Endpoints, renderer: &Renderer) -> Stack {
    let policy = RetryPolicy::builder()
        .base(Duration::from_secs(1))
        .cap(Duration::from_secs(60))
        .budget(BUDGET)
        .retry_after_max(Duration::from_secs(60))
        .build()
        .expect("a policy");
    ServiceBuilder::new()
        .layer(DeadlineLayer::new())
        .layer(RetryLayer::new(policy))
        .layer(ConcurrencyLimitLayer::new(endpoints.clone()))
        .layer(TimeoutLayer::new(ATTEMPT_TIMEOUT))
        .layer(ServiceExceptionLayer::new())
        .map_err(BoxError::from)
        .service(renderer.clone())
        .map_response(|response: Response<_>| response.map(boxed))
        .boxed_clone()
}

fn tower_resilience(layer: &BreakerAndAimdLayer, renderer: &Renderer) -> Stack {
    ServiceBuilder::new()
        .layer(RetryLayer::new(Attempts::tower_resilience()))
        .layer(layer)
        .layer(TimeoutLayer::new(ATTEMPT_TIMEOUT))
        .map_err(BoxError::from)
        .service(renderer.clone())
        .map_response(|response: Response<_>| response.map(boxed))
        .boxed_clone()
}

/// A policy and nothing else.
fn retries(policy: Attempts, renderer: &Renderer) -> Stack {
    ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .layer(TimeoutLayer::new(ATTEMPT_TIMEOUT))
        .map_err(BoxError::from)
        .service(renderer.clone())
        .map_response(|response: Response<_>| response.map(boxed))
        .boxed_clone()
}

fn boxed<B>(body: B) -> Body
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

fn endpoints(settings: EndpointSettings) -> Endpoints {
    Endpoints::builder()
        .defaults(settings.queue_timeout(QUEUE_TIMEOUT))
        .build()
        .expect("endpoints")
}

fn static_limit(limit: usize) -> EndpointSettings {
    EndpointSettings::new().concurrency(limit)
}

/// Workers of a large fleet are more.
const MANY: usize = 1_000;

pub(crate) const URI: &str =
    "https://maps.example.org/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=roads";

const BUDGET: Duration = Duration::from_secs(300);
const QUEUE_TIMEOUT: Duration = Duration::from_secs(3_600);
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(60);
