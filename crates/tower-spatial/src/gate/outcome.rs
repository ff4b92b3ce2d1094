use std::time::Duration;

use http::{HeaderMap, Response, header::AGE};
use load_control::Outcome as Load;
use service_exception::ServiceException;
use tower::BoxError;

use crate::call::{Cause, Outcome, Part, Permit, Settings, Verdict};
use crate::exception::ServiceExceptionError;
use crate::find;
use crate::retry::RetryAfterUnit;

/// Tells the gates what an answer's head says.
#[inline]
pub(super) fn report<R>(permit: &mut Permit, result: Result<&Response<R>, &BoxError>) {
    if !permit.reports() {
        return;
    }
    match result {
        Ok(response)
            if response.status().is_success()
                && response.extensions().get::<ServiceException>().is_none() =>
        {
            // What a cache kept says nothing about how fast the host is.
            permit.succeeded(!response.headers().contains_key(AGE));
        }
        Ok(response) => report_answer(permit, response),
        Err(error) => report_error(permit, error),
    }
}

#[cold]
fn report_answer<R>(permit: &mut Permit, response: &Response<R>) {
    let (status, headers) = (response.status(), response.headers());
    let settings = permit.endpoint().settings();
    let statuses = settings
        .retry
        .as_ref()
        .map_or(&[][..], |retry| retry.statuses());
    let outcome = Outcome::of_head(status, headers, response.extensions(), statuses);
    let exception = response.extensions().get::<ServiceException>();
    if outcome.verdict() == Verdict::Throttled
        && response.extensions().get::<KeyPaused>().is_none()
        && permit.endpoint().parts().has(Part::Cooldown)
    {
        let hint = asked_pause(&settings, headers, exception);
        hint.into_iter().for_each(|hint| permit.hint(hint));
    }
    tell(permit, &outcome);
}

#[cold]
fn report_error(permit: &mut Permit, error: &BoxError) {
    let settings = permit.endpoint().settings();
    let statuses = settings
        .retry
        .as_ref()
        .map_or(&[][..], |retry| retry.statuses());
    let outcome = Outcome::of_error_with(error, statuses);
    if outcome.verdict() == Verdict::Throttled
        && let Some(found) = find::<ServiceExceptionError>(error)
        && permit.endpoint().parts().has(Part::Cooldown)
    {
        let hint = asked_pause(&settings, &found.parts().headers, Some(found.exception()));
        hint.into_iter().for_each(|hint| permit.hint(hint));
    }
    tell(permit, &outcome);
}

/// As the endpoint's own policy reads it, where it has one.
fn asked_pause(
    settings: &Settings,
    headers: &HeaderMap,
    exception: Option<&ServiceException>,
) -> Option<Duration> {
    let unit = settings.retry_after_unit(RetryAfterUnit::default())?;
    unit.asked_pause(headers, exception)
}

/// What an outcome says about the host.
fn tell(permit: &mut Permit, outcome: &Outcome) {
    let nothing = Load::Cancelled {
        after: Duration::ZERO,
    };
    permit.failed(match (outcome.verdict(), outcome.cause()) {
        (Verdict::Success, _) => return permit.succeeded(false),
        // A request that is wrong was answered by a host that works. An error that nobody knows says nothing of it.
        (Verdict::Permanent, Cause::Status(_) | Cause::Exception { .. }) => {
            Load::Success { latency: None }
        }
        (Verdict::Permanent, Cause::Tls) => Load::Unavailable { refused: false },
        (Verdict::Permanent, _) => nothing,
        // Its connection was gone before: the next one may find the host well.
        (_, Cause::NotSent | Cause::NotAdmitted | Cause::CircuitOpen) => nothing,
        (_, Cause::Stale | Cause::Incomplete(_)) => Load::Neutral,
        (Verdict::Transient, Cause::Refused) => Load::Unavailable { refused: true },
        (Verdict::Transient, _) => Load::Unavailable { refused: false },
        (Verdict::Throttled, _) => Load::Throttled,
        (Verdict::Ambiguous, _) => Load::Neutral,
    });
}

/// In the extensions of a throttled answer: the pause is that of the request's key, not of its endpoint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPaused;
