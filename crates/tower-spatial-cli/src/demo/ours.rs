use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Empty, Full};
use tower::retry::RetryLayer;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_spatial::ConcurrencyLimitLayer;
use tower_spatial::exception::ServiceExceptionLayer;
use tower_spatial::retry::RetryPolicy;

use super::run::{Fetch, Http};
use super::script::{ATTEMPT_TIMEOUT, real};

/// The stack of the README, with its defaults, and with the body collected inside the retry: a body that is cut is an
/// attempt that failed.
#[derive(Clone, Debug)]
pub(super) struct Ours {
    // Boxed to be named in a field; one allocation a call.
    client: BoxCloneSyncService<Request<Empty<Bytes>>, Response<Full<Bytes>>, BoxError>,
}

impl Ours {
    pub(super) fn new(http: Http) -> io::Result<Self> {
        // The defaults of the policy, scaled like everybody's.
        let policy = RetryPolicy::builder()
            .base(real(BASE))
            .cap(real(CAP))
            .budget(real(BUDGET))
            .retry_after_max(real(RETRY_AFTER_MAX))
            .build()
            .map_err(io::Error::other)?;
        let client = ServiceBuilder::new()
            .layer(RetryLayer::new(policy))
            .and_then(collect)
            .layer(ConcurrencyLimitLayer::per_host(CONCURRENCY))
            .timeout(real(ATTEMPT_TIMEOUT))
            .layer(ServiceExceptionLayer::new())
            .map_err(BoxError::from)
            .service(http);
        Ok(Self {
            client: BoxCloneSyncService::new(client),
        })
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

/// The whole body, in no more time than an attempt has for its head.
async fn collect<B>(answer: Response<B>) -> Result<Response<Full<Bytes>>, BoxError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let (head, body) = answer.into_parts();
    let body = tokio::time::timeout(real(ATTEMPT_TIMEOUT), body.collect())
        .await?
        .map_err(Into::into)?;
    Ok(Response::from_parts(head, Full::new(body.to_bytes())))
}

const CONCURRENCY: usize = 16;
const BASE: Duration = Duration::from_secs(1);
const CAP: Duration = Duration::from_secs(60);
const BUDGET: Duration = Duration::from_secs(600);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
