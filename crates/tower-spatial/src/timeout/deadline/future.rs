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
        began: Instant,
    }
}

impl<F> ResponseFuture<F> {
    pub(super) fn new(
        inner: Option<F>,
        timer: Option<Pin<Box<Sleep>>>,
        context: Arc<call::Context>,
    ) -> Self {
        Self {
            inner,
            timer,
            context,
            began: Instant::now(),
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
        if let Some(inner) = this.inner.as_pin_mut()
            && let Poll::Ready(result) = inner.poll(cx)
        {
            let timer = this.timer.take();
            return Poll::Ready(match result {
                Ok(response) => Ok(response.map(|body| DeadlineBody::new(body, timer))),
                Err(error) => Err(error.into()),
            });
        }
        let Some(timer) = this.timer else {
            return Poll::Pending;
        };
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(elapsed(this.context, this.began.elapsed())))
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
