use std::{
    future::{Ready, ready},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use flaky_ogc::{Fault, Script, Server, Tile};
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};
use tokio::time::Instant;
use tower::{BoxError, Service, retry::Policy};
use tower_spatial::{replay::ReplayBody, retry::RetryPolicy};

pub(crate) type RequestBody = ReplayBody<Full<Bytes>>;
pub(crate) type Asked = Request<RequestBody>;
pub(crate) type Answered = Response<Full<Bytes>>;

/// A service in memory that answers by the number of the call, and remembers when each came.
#[derive(Clone)]
pub(crate) struct Memory {
    calls: Arc<Mutex<Vec<Instant>>>,
    answer: fn(usize) -> Answered,
}

impl Memory {
    pub(crate) fn new(answer: fn(usize) -> Answered) -> Self {
        Self {
            calls: Arc::default(),
            answer,
        }
    }

    pub(crate) fn calls(&self) -> Vec<Instant> {
        self.calls.lock().unwrap().clone()
    }

    /// The pauses between the calls.
    pub(crate) fn pauses(&self) -> Vec<Duration> {
        self.calls()
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect()
    }
}

impl Service<Asked> for Memory {
    type Response = Answered;
    type Error = BoxError;
    type Future = Ready<Result<Answered, BoxError>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), BoxError>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Asked) -> Self::Future {
        let mut calls = self.calls.lock().unwrap();
        calls.push(Instant::now());
        ready(Ok((self.answer)(calls.len() - 1)))
    }
}

pub(crate) fn answer(status: u16, body: &'static str) -> Answered {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

pub(crate) fn busy(retry_after: u64) -> Answered {
    let mut response = answer(503, "");
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, retry_after.into());
    response
}

/// A policy of tower's as its documentation has it: server errors, so many repeats, at once.
#[derive(Clone, Debug)]
pub(crate) struct Repeats(pub(crate) usize);

impl<B: Clone, R> Policy<Request<B>, Response<R>, BoxError> for Repeats {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<B>,
        result: &mut Result<Response<R>, BoxError>,
    ) -> Option<Ready<()>> {
        let failed = result
            .as_ref()
            .map_or(true, |response| response.status().is_server_error());
        self.0 = self.0.checked_sub(usize::from(failed))?;
        failed.then(|| ready(()))
    }

    fn clone_request(&mut self, request: &Request<B>) -> Option<Request<B>> {
        Some(request.clone())
    }
}

/// tower-resilience's retry of server errors and of all errors.
pub(crate) fn resilience<R: 'static>(
    attempts: usize,
) -> tower_resilience::retry::RetryLayer<Asked, Response<R>, BoxError> {
    tower_resilience::retry::RetryLayer::builder()
        .max_attempts(attempts)
        .fixed_backoff(SHORT)
        .retry_on_response(|response: &Response<R>| response.status().is_server_error())
        .build()
}

/// reqwest-middleware with reqwest-retry's middleware, its defaults aside from the times.
pub(crate) fn middleware(repeats: u32) -> ClientWithMiddleware {
    let policy = ExponentialBackoff::builder()
        .retry_bounds(SHORT, SHORT)
        .build_with_max_retries(repeats);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    ClientBuilder::new(client)
        .with(RetryTransientMiddleware::new_with_policy(policy))
        .build()
}

pub(crate) fn ours(attempts: u32) -> RetryPolicy {
    RetryPolicy::builder()
        .base(SHORT)
        .cap(10 * SHORT)
        .attempts(attempts)
        .build()
        .unwrap()
}

pub(crate) fn http() -> Client<HttpConnector, RequestBody> {
    Client::builder(TokioExecutor::new()).build_http()
}

pub(crate) async fn always(fault: Fault) -> Server {
    start(Script::default().when(|_| true, fault)).await
}

pub(crate) async fn start(script: Script) -> Server {
    Server::start(script).await.unwrap()
}

pub(crate) fn tile() -> Tile {
    Tile::xyz(4, 3, 2)
}

pub(crate) fn get(url: impl AsRef<str>) -> Asked {
    let request = Request::get(url.as_ref());
    request.body(ReplayBody::empty()).unwrap()
}

pub(crate) fn get_map_url(server: &Server) -> String {
    format!("{}/wms?{}", server.url(), tile().query())
}

pub(crate) fn get_map(server: &Server) -> Asked {
    get(get_map_url(server))
}

pub(crate) const IN_MEMORY: &str =
    "http://memory/wms?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&FORMAT=image/png";
pub(crate) const SHORT: Duration = Duration::from_millis(1);
