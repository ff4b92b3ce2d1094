use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use tower::{ServiceBuilder, ServiceExt};
use tower_spatial::retry::RetryPolicy;
use tower_spatial::verify::completeness::Completeness;
use tower_spatial::{BreakerSettings, EndpointSettings, Endpoints, Spatial, SpatialLayer};

use super::run::{Fetch, Http};
use super::script::{ATTEMPT_TIMEOUT, real};

/// All layers of `SpatialLayer` with their defaults, and whole answers checked: a body that is cut is an attempt that
/// failed.
#[derive(Clone, Debug)]
pub(super) struct Ours {
    client: Spatial<Http>,
}

impl Ours {
    pub(super) fn new(http: Http) -> io::Result<Self> {
        // The defaults, scaled like everybody's.
        let policy = RetryPolicy::builder()
            .base(real(BASE))
            .cap(real(CAP))
            .budget(real(BUDGET))
            .retry_after_max(real(RETRY_AFTER_MAX))
            .build()
            .map_err(io::Error::other)?;
        let breaker = BreakerSettings::default();
        let breaker = BreakerSettings {
            quiet: real(breaker.quiet),
            open: real(breaker.open),
            open_cap: real(breaker.open_cap),
            lease: real(breaker.lease),
            ..breaker
        };
        let settings = EndpointSettings::new()
            .concurrency(CONCURRENCY)
            .breaker(breaker)
            .retry(policy)
            .retry_after_max(real(RETRY_AFTER_MAX))
            .queue_timeout(real(BUDGET))
            .read_timeout(real(ATTEMPT_TIMEOUT))
            .completeness(Completeness::Collect);
        let endpoints = Endpoints::builder()
            .defaults(settings)
            .build()
            .map_err(io::Error::other)?;
        let client = ServiceBuilder::new()
            .layer(SpatialLayer::new(endpoints))
            .service(http);
        Ok(Self { client })
    }
}

impl Fetch for Ours {
    async fn fetch(&self, uri: http::Uri) -> Option<Bytes> {
        let request = Request::get(uri).body(Empty::new()).ok()?;
        let answer = self.client.clone().oneshot(request).await.ok()?;
        if !answer.status().is_success() {
            return None;
        }
        let body = answer.into_body().collect().await.ok()?;
        Some(body.to_bytes())
    }
}

const CONCURRENCY: usize = 16;
const BASE: Duration = Duration::from_secs(1);
const CAP: Duration = Duration::from_secs(60);
const BUDGET: Duration = Duration::from_secs(600);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
