use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::Response;
use tokio::time::{Instant, Sleep};
use tower::BoxError;

use super::{DeadlineBody, DeadlineElapsed};
use crate::{
    call,
    observe::{CallEnd, ToldCall},
    retry::{GaveUp, StopReason},
};

pin_project_lite::pin_project! {
    /// The response, or the error that its deadline has passed.
    pub struct ResponseFuture<F> {
        // `None`: the deadline had passed before the call.
        #[pin]
        inner: Option<F>,
        timer: Option<Pin<Box<Sleep>>>,
        context: Arc<call::Context>,
        // Where there is a timer.
        began: Option<Instant>,
        // Dropped after the call. `None`: nobody observes, or it was told.
        told: Option<Box<ToldCall>>,
    }
}

impl<F> ResponseFuture<F> {
    pub(super) fn new(
        inner: Option<F>,
        timer: Option<Pin<Box<Sleep>>>,
        context: Arc<call::Context>,
        told: Option<Box<ToldCall>>,
    ) -> Self {
        Self {
            inner,
            began: timer.is_some().then(Instant::now),
            timer,
            context,
            told,
        }
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<DeadlineBody<R>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let polled = this.inner.as_pin_mut().map(|inner| {
            let _span = this.told.as_ref().map(|told| told.enter());
            inner.poll(cx)
        });
        if let Some(Poll::Ready(result)) = polled {
            let timer = this.timer.take();
            if let Some(mut told) = this.told.take() {
                told.end(match &result {
                    Ok(response) => CallEnd::Answer(response.status()),
                    Err(_) => CallEnd::Error,
                });
            }
            return Poll::Ready(match result {
                Ok(response) => Ok(response.map(|body| DeadlineBody::new(body, timer))),
                Err(error) => Err(error.into()),
            });
        }
        let Some(timer) = this.timer else {
            return Poll::Pending;
        };
        ready!(timer.as_mut().poll(cx));
        let total = this.began.map(|began| began.elapsed()).unwrap_or_default();
        let error = elapsed(this.context, total);
        if let Some(mut told) = this.told.take() {
            if let Some(gave_up) = error.downcast_ref::<GaveUp>() {
                told.give_up(gave_up);
            }
            told.end(CallEnd::Error);
        }
        Poll::Ready(Err(error))
    }
}

/// What was tried before is known to the context only: the retry is dropped with the future.
fn elapsed(context: &call::Context, total: std::time::Duration) -> BoxError {
    let elapsed = Box::new(DeadlineElapsed { _priv: () });
    let attempts = context.attempts();
    if attempts.is_empty() {
        return elapsed;
    }
    Box::new(GaveUp::new(
        StopReason::Deadline,
        attempts,
        total,
        Some(elapsed),
    ))
}

impl<F> std::fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
