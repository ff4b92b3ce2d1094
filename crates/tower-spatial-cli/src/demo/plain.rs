use std::io;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;

use super::run::{Fetch, Http};
use super::script::{ATTEMPT_TIMEOUT, real};

/// What is written first: three tries, a second apart, as many at once as there are workers.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    http: Http,
}

impl Plain {
    pub(super) fn new(http: Http) -> io::Result<Self> {
        Ok(Self { http })
    }
}

impl Fetch for Plain {
    async fn fetch(&self, uri: http::Uri) -> Option<Bytes> {
        for attempt in 0..TRIES {
            if attempt > 0 {
                tokio::time::sleep(real(DELAY)).await;
            }
            let answer = async {
                let answer = self.http.get(uri.clone()).await.ok()?;
                let status = answer.status();
                let body = answer.into_body().collect().await.ok()?.to_bytes();
                status.is_success().then_some(body)
            };
            if let Ok(Some(body)) = tokio::time::timeout(real(ATTEMPT_TIMEOUT), answer).await {
                return Some(body);
            }
        }
        None
    }
}

const TRIES: u32 = 3;
const DELAY: Duration = Duration::from_secs(1);
