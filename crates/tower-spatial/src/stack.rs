//! All layers, in the order in which they make sense.
//!
//! ```
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use tower::{ServiceBuilder, ServiceExt, service_fn};
//! use tower_spatial::{EndpointSettings, Endpoints, Quota, ServiceBuilderExt};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tower::BoxError> {
//! let geocoder = EndpointSettings::new()
//!     .concurrency(1)
//!     .rate([Quota::new(1, std::time::Duration::from_secs(1))?]);
//! let endpoints = Endpoints::builder()
//!     .endpoint("geocoder", ["api.geocoder.example"], geocoder)
//!     .build()?;
//!
//! let client = ServiceBuilder::new()
//!     .spatial(endpoints)
//!     .service(service_fn(|_: Request<Full<&'static [u8]>>| async {
//!         Ok::<_, std::io::Error>(Response::new(Full::new(&b"a place"[..])))
//!     }));
//! let request = Request::get("https://api.geocoder.example/search?q=Delft").body(Full::default())?;
//! assert_eq!(client.oneshot(request).await?.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! # The order
//!
//! | layer | why there |
//! |---|---|
//! | [`Deadline`](crate::timeout::deadline) | finds the endpoint once, holds the caller's deadline |
//! | [`Stagger`](crate::stagger) | spreads first attempts after a start; outside the budget |
//! | [`Retry`](crate::retry) | sees every attempt; sleeps outside all permits |
//! | [`Freshness`](crate::verify::freshness) | an answer that is too old is a failed attempt |
//! | [`Completeness`](crate::verify::completeness) | so is one that is not whole; off unless asked for |
//! | breaker, cooldown, limit | one admission, one queue a host; see [`Endpoints`] |
//! | [`RateLimit`](crate::limit::rate) | with the permit in hand: no saved slots leave in one burst |
//! | [`AttemptTimeout`](crate::timeout::attempt) | head and silence of one attempt |
//! | [`ServiceException`](crate::exception) | what the first 2 KB say |
//!
//! Request bodies have to be [`RepeatableBody`]; others go into a [`ReplayBody`](crate::replay::ReplayBody), above this
//! stack. Decompression belongs above it too. What an [`EndpointSettings`](crate::EndpointSettings) says holds for its
//! endpoint, and for others what the layer says. All that waits is bounded: see
//! [`EndpointSettings::queue_timeout`](crate::EndpointSettings::queue_timeout).
//!
//! It stands once in a stack. Of two over the same [`Endpoints`] the outer one admits a call, the repeats of the inner one
//! pass no gate, and each takes a slot of the rate.
//!
//! # In a spawned task
//!
//! Where errors of the client or of its bodies are [`BoxError`]s, as under most of tower's own layers, an `async` block that
//! calls it and is spawned may not compile: "implementation of `From` is not general enough", which is a limit of the
//! compiler. Boxing the client helps, and so does to spawn `client.oneshot(request)` itself.
//!
//! ```
//! # use bytes::Bytes;
//! # use http::{Request, Response};
//! # use http_body_util::Full;
//! # use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
//! # use tower_spatial::{Endpoints, ServiceBuilderExt};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), BoxError> {
//! let client = ServiceBuilder::new()
//!     .boxed_clone()
//!     .spatial(Endpoints::default())
//!     .service(service_fn(|_: Request<Full<Bytes>>| async {
//!         Ok::<_, BoxError>(Response::new(Full::<Bytes>::from("a place")))
//!     }));
//! let task = tokio::spawn(async move {
//!     let request = Request::get("https://api.geocoder.example/search?q=Delft").body(Full::default())?;
//!     let answer = client.oneshot(request).await?;
//!     Ok::<_, BoxError>(answer.status())
//! });
//! assert_eq!(task.await??, 200);
//! # Ok(())
//! # }
//! ```

use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tokio::time::Duration;
use tower::layer::util::Stack as Stacked;
use tower::retry::{Retry, RetryLayer};
use tower::{BoxError, ServiceBuilder};
use tower_layer::Layer;
use tower_service::Service;

use crate::call::{Endpoints, Part};
use crate::exception::{InspectedBody, ServiceExceptionLayer, ServiceExceptionService};
use crate::gate::ResponseBody;
use crate::limit::rate::{KeySource, RateLimit, RateLimitLayer};
use crate::observe::Observer;
use crate::replay::RepeatableBody;
use crate::retry::RetryPolicy;
use crate::stagger::{Stagger, StaggerLayer};
use crate::timeout::attempt::{AttemptBody, AttemptTimeoutLayer, AttemptTimeoutService};
use crate::timeout::deadline::{DeadlineBody, DeadlineLayer, DeadlineService};
use crate::verify::freshness::{FreshnessLayer, FreshnessService};
use crate::{ConcurrencyLimit, ConcurrencyLimitLayer};

/// All layers in their order, each of which can be switched off; see the [module](self).
///
/// The service it makes is `Clone`, and shares its state with all that is built from the same [`Endpoints`].
#[derive(Clone, Debug)]
pub struct SpatialLayer {
    endpoints: Endpoints,
    deadline: Option<Duration>,
    stagger: StaggerLayer,
    retry: RetryPolicy,
    freshness: FreshnessLayer,
    completeness: check::Layer,
    breaker: bool,
    cooldown: bool,
    concurrency: bool,
    rate: Option<KeySource>,
    attempt_timeout: AttemptTimeoutLayer,
    exception: ServiceExceptionLayer,
}

impl SpatialLayer {
    /// All layers, with the default [`RetryPolicy`] and what the endpoints say; answers are not checked for being whole
    /// where no endpoint asks for it, and starts are not spread.
    pub fn new(endpoints: Endpoints) -> Self {
        Self {
            attempt_timeout: AttemptTimeoutLayer::new().endpoints(endpoints.clone()),
            freshness: FreshnessLayer::new().endpoints(endpoints.clone()),
            completeness: check::unless_asked_for(),
            deadline: None,
            stagger: StaggerLayer::default().endpoints(endpoints.clone()),
            retry: RetryPolicy::default(),
            breaker: true,
            cooldown: true,
            concurrency: true,
            rate: Some(KeySource::default()),
            exception: ServiceExceptionLayer::new(),
            endpoints,
        }
    }

    /// For jobs: [`RetryPolicy::batch`], and starts are spread over 5 s from now.
    pub fn batch(endpoints: Endpoints) -> Self {
        Self::new(endpoints)
            .retry(RetryPolicy::batch())
            .stagger(Duration::from_secs(5))
    }

    /// For somebody who waits: [`RetryPolicy::interactive`].
    pub fn interactive(endpoints: Endpoints) -> Self {
        Self::new(endpoints).retry(RetryPolicy::interactive())
    }

    /// A deadline for calls that carry none. Default none.
    #[must_use]
    pub fn deadline(mut self, deadline: impl Into<Option<Duration>>) -> Self {
        self.deadline = deadline.into();
        self
    }

    /// Spreads first attempts over a window that begins now, at endpoints that do not say; zero is off. Default off, [`batch`](Self::batch) 5 s.
    #[must_use]
    pub fn stagger(mut self, window: Duration) -> Self {
        self.stagger = StaggerLayer::new(window).endpoints(self.endpoints.clone());
        self
    }

    /// How calls are repeated at endpoints that do not say. A policy of [one attempt](crate::retry::RetryPolicyBuilder::attempts)
    /// repeats nothing. What statuses and hints of a server mean is known to breaker and cooldown only where an endpoint's own
    /// [policy](crate::EndpointSettings::retry) says it.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.retry = retry;
        self
    }

    /// How old answers may be; `None` judges none. Default what the endpoints and caches say.
    #[must_use]
    pub fn freshness(mut self, freshness: impl Into<Option<FreshnessLayer>>) -> Self {
        self.freshness = match freshness.into() {
            Some(freshness) => freshness.endpoints(self.endpoints.clone()),
            None => FreshnessLayer::off(),
        };
        self
    }

    /// How answers are checked for being whole, at endpoints that do not say. Default off.
    #[cfg(feature = "completeness")]
    #[must_use]
    pub fn completeness(mut self, completeness: check::Layer) -> Self {
        self.completeness = completeness;
        self
    }

    /// Whether there is a breaker before each host. Default so.
    #[must_use]
    pub fn breaker(mut self, breaker: bool) -> Self {
        self.breaker = breaker;
        self
    }

    /// Whether a host's wish for peace holds every call to it. Default so.
    #[must_use]
    pub fn cooldown(mut self, cooldown: bool) -> Self {
        self.cooldown = cooldown;
        self
    }

    /// Whether answers in flight are limited. Default so.
    #[must_use]
    pub fn concurrency(mut self, concurrency: bool) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// Where requests have their key, for endpoints with a rate; `None` keeps no rate. Default the usual places.
    #[must_use]
    pub fn rate(mut self, key: impl Into<Option<KeySource>>) -> Self {
        self.rate = key.into();
        self
    }

    /// How long an attempt may take, at endpoints that do not say; `None` is no limit anywhere. Default head 180 s, idle 60 s.
    #[must_use]
    pub fn attempt_timeout(
        mut self,
        attempt_timeout: impl Into<Option<AttemptTimeoutLayer>>,
    ) -> Self {
        self.attempt_timeout = match attempt_timeout.into() {
            Some(attempt_timeout) => attempt_timeout,
            None => AttemptTimeoutLayer::off(),
        };
        self.attempt_timeout = self.attempt_timeout.endpoints(self.endpoints.clone());
        self
    }

    /// What becomes of exceptions; `None` looks at no answer. Default an exception in a 2xx is an error.
    #[must_use]
    pub fn service_exception(
        mut self,
        exception: impl Into<Option<ServiceExceptionLayer>>,
    ) -> Self {
        self.exception = exception.into().unwrap_or_else(ServiceExceptionLayer::off);
        self
    }

    /// Has `observer` told of every call, and of all that happens at the [`endpoints`](Self::endpoints), through whichever
    /// layers they are called. See [`observe`](crate::observe).
    #[must_use]
    pub fn observer(self, observer: impl Observer) -> Self {
        self.endpoints.observe(observer);
        self
    }

    /// The endpoints, to see how they are doing, to give orders, or to share them with other layers.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }
}

/// With feature `completeness`.
#[cfg(feature = "completeness")]
mod check {
    pub(super) use crate::verify::completeness::{
        CheckedBody as Body, CompletenessLayer as Layer, CompletenessService as Service,
    };

    pub(super) fn unless_asked_for() -> Layer {
        Layer::new().mode(crate::verify::completeness::Completeness::Off)
    }
}

/// Without it.
#[cfg(not(feature = "completeness"))]
mod check {
    pub(super) use tower_layer::Identity as Layer;

    pub(super) type Body<R> = R;
    pub(super) type Service<S> = S;

    pub(super) fn unless_asked_for() -> Layer {
        Layer::new()
    }
}

impl<S> Layer<S> for SpatialLayer {
    type Service = Spatial<S>;

    fn layer(&self, inner: S) -> Spatial<S> {
        for (is_on, part) in [
            (self.breaker, Part::Breaker),
            (self.cooldown, Part::Cooldown),
            (self.concurrency, Part::Limit),
        ] {
            if is_on {
                self.endpoints.add(part);
            }
        }
        let rate = match &self.rate {
            Some(key) => RateLimitLayer::new(self.endpoints.clone()).key(key.clone()),
            None => RateLimitLayer::off(self.endpoints.clone()),
        };
        let deadline = match self.deadline {
            Some(deadline) => DeadlineLayer::after(deadline),
            None => DeadlineLayer::new(),
        };
        let stack = ServiceBuilder::new()
            .layer(deadline.endpoints(self.endpoints.clone()))
            .layer(self.stagger.clone())
            .layer(RetryLayer::new(self.retry.clone()))
            .layer(self.freshness.clone())
            .layer(self.completeness.clone())
            .layer(ConcurrencyLimitLayer::gates(self.endpoints.clone()))
            .layer(rate)
            .layer(self.attempt_timeout.clone())
            .layer(self.exception.clone())
            .service(inner);
        Spatial { stack }
    }
}

/// A client with all layers around it. Made by [`SpatialLayer`].
#[derive(Clone, Debug)]
pub struct Spatial<S> {
    stack: Stack<S>,
}

/// What a [`Spatial`] is made of.
pub type Stack<S> = DeadlineService<
    Stagger<
        Retry<
            RetryPolicy,
            FreshnessService<
                check::Service<
                    ConcurrencyLimit<RateLimit<AttemptTimeoutService<ServiceExceptionService<S>>>>,
                >,
            >,
        >,
    >,
>;

/// The body of a response of [`Spatial`], around the client's.
pub type SpatialBody<R> = DeadlineBody<check::Body<ResponseBody<AttemptBody<InspectedBody<R>>>>>;

impl<S, B, R> Service<Request<B>> for Spatial<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: RepeatableBody,
    R: Body + Unpin,
    R::Error: Into<BoxError>,
{
    type Response = Response<SpatialBody<R>>;
    type Error = BoxError;
    type Future = <Stack<S> as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.stack.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.stack.call(request)
    }
}

/// Adds [`SpatialLayer`] to tower's `ServiceBuilder`.
pub trait ServiceBuilderExt<L> {
    /// All layers in their order, as [`SpatialLayer::new`] has them.
    fn spatial(self, endpoints: Endpoints) -> ServiceBuilder<Stacked<SpatialLayer, L>>;
}

impl<L> ServiceBuilderExt<L> for ServiceBuilder<L> {
    fn spatial(self, endpoints: Endpoints) -> ServiceBuilder<Stacked<SpatialLayer, L>> {
        self.layer(SpatialLayer::new(endpoints))
    }
}
