use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, header};
use http_body_util::BodyExt;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::run::{Fetch, Http};
use super::script::{ATTEMPT_TIMEOUT, real};

/// Good advice, followed to the letter: full jitter under a cap, a budget in time, `Retry-After` as a floor, 16 tasks at
/// once for the host, and a look for `ServiceException` in what calls itself XML.
///
/// The limit is one on tasks, held while a task sleeps: that is what an orchestrator's limit does.
#[derive(Clone, Debug)]
pub(super) struct Article {
    http: Http,
    tasks: Arc<Semaphore>,
}

impl Article {
    pub(super) fn new(http: Http) -> io::Result<Self> {
        Ok(Self {
            http,
            tasks: Arc::new(Semaphore::new(CONCURRENCY)),
        })
    }

    /// One attempt. An error says whether to try again, and how long the server asked to wait.
    async fn attempt(&self, uri: http::Uri) -> Result<Bytes, Failure> {
        let answer = async {
            let (head, body) = self
                .http
                .get(uri)
                .await
                .map_err(|_| Failure::RETRY)?
                .into_parts();
            let body = body.collect().await.map_err(|_| Failure::RETRY)?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        let answer = tokio::time::timeout(real(ATTEMPT_TIMEOUT), answer)
            .await
            .map_err(|_| Failure::RETRY)??;
        if RETRYABLE.contains(&answer.status().as_u16()) {
            return Err(Failure {
                again: true,
                retry_after: seconds(&answer),
            });
        }
        if !answer.status().is_success() {
            return Err(Failure {
                again: false,
                retry_after: None,
            });
        }
        let media_type = answer
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let body = answer.body();
        let sniffed = &body[..body.len().min(2048)];
        if media_type.contains("xml")
            && sniffed
                .windows(EXCEPTION.len())
                .any(|window| window == EXCEPTION)
        {
            return Err(Failure::RETRY);
        }
        Ok(answer.into_body())
    }
}

impl Fetch for Article {
    async fn fetch(&self, uri: http::Uri) -> Option<Bytes> {
        let _task = self.tasks.acquire().await.ok()?;
        let started = Instant::now();
        let mut attempt = 0;
        loop {
            let failure = match self.attempt(uri.clone()).await {
                Ok(body) => return Some(body),
                Err(failure) if !failure.again => return None,
                Err(failure) => failure,
            };
            let exponential =
                real(CAP).min(real(BASE).saturating_mul(2u32.saturating_pow(attempt)));
            let jittered = exponential.mul_f64(rand::random());
            let floor = failure
                .retry_after
                .unwrap_or_default()
                .min(real(RETRY_AFTER_MAX));
            let delay = jittered.max(floor);
            if started.elapsed() + delay > real(BUDGET) {
                return None;
            }
            tokio::time::sleep(delay).await;
            attempt += 1;
        }
    }
}

/// Why an attempt failed.
struct Failure {
    again: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    const RETRY: Self = Self {
        again: true,
        retry_after: None,
    };
}

/// `Retry-After` in its form of seconds; the date form is ignored.
fn seconds<B>(answer: &Response<B>) -> Option<Duration> {
    let text = answer.headers().get(header::RETRY_AFTER)?.to_str().ok()?;
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

const RETRYABLE: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];
const EXCEPTION: &[u8] = b"ServiceException";
const CONCURRENCY: usize = 16;
const BASE: Duration = Duration::from_secs(1);
const CAP: Duration = Duration::from_secs(60);
const BUDGET: Duration = Duration::from_secs(600);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
