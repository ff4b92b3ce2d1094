use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, Response, StatusCode};
use service_exception::{Disposition, ServiceException};
use tokio::time::{Duration, Instant};
use tower::BoxError;

use super::layer::Options;
use super::{RateKey, RateStore};
use crate::call::{Endpoint, Settings};
use crate::exception::ServiceExceptionError;
use crate::find;
use crate::gate::KeyPaused;
use crate::retry::RetryAfter;

/// Whose rate an answer's hint moves.
#[derive(Debug)]
pub(super) struct Hinted<T> {
    pub(super) options: Arc<Options<T>>,
    pub(super) endpoint: Arc<Endpoint>,
    /// As they were when the call was made.
    pub(super) settings: Arc<Settings>,
    pub(super) key: RateKey,
    /// Whether the request had a key: else it is the endpoint's own rate.
    pub(super) is_keyed: bool,
}

impl<T: RateStore> Hinted<T> {
    #[inline]
    pub(super) fn see<R>(&self, result: &mut Result<Response<R>, BoxError>) {
        match result {
            Ok(response)
                if response.status() == StatusCode::OK
                    && response.headers().is_empty()
                    && response.extensions().is_empty() => {}
            Ok(response) => {
                let exception = response.extensions().get::<ServiceException>();
                let hint = self.read(response.status(), response.headers(), exception);
                if let Some(hint) = hint
                    && self.hold(hint)
                    && self.is_keyed
                {
                    response.extensions_mut().insert(KeyPaused);
                }
            }
            Err(error) => self.see_error(error),
        }
    }

    #[cold]
    fn see_error(&self, error: &BoxError) {
        if let Some(found) = find::<ServiceExceptionError>(error) {
            let parts = found.parts();
            let hint = self.read(parts.status, &parts.headers, Some(found.exception()));
            hint.into_iter().for_each(|hint| _ = self.hold(hint));
        }
    }

    fn read(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        exception: Option<&ServiceException>,
    ) -> Option<Duration> {
        let throttled =
            |exception: &ServiceException| exception.disposition() == Disposition::Throttled;
        let hint = if status == StatusCode::TOO_MANY_REQUESTS || exception.is_some_and(throttled) {
            let otherwise = self.options.retry_after_unit;
            let unit = self.settings.retry_after_unit(otherwise)?;
            unit.read(headers, SystemTime::now())
        } else {
            RetryAfter::of_spent_quota(headers, SystemTime::now())
        };
        hint.map(RetryAfter::duration)
    }

    /// Whether it was believed.
    fn hold(&self, hint: Duration) -> bool {
        let settings = &*self.settings;
        let max = self
            .options
            .retry_after_max
            .unwrap_or(settings.retry_after_max);
        let hint = hint.min(max);
        match (Instant::now().checked_add(hint), &settings.rate) {
            (Some(until), Some(quotas)) if !hint.is_zero() => {
                self.options.store.hold(self.key, until, quotas);
                true
            }
            _ => false,
        }
    }
}
