use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;
use tower::BoxError;

use super::DeadlineElapsed;

pin_project_lite::pin_project! {
    /// An answer's body that ends with [`DeadlineElapsed`] where it is not read by the deadline.
    pub struct DeadlineBody<R> {
        #[pin]
        inner: Option<R>,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<R> DeadlineBody<R> {
    pub(super) fn new(inner: R, timer: Option<Pin<Box<Sleep>>>) -> Self {
        Self {
            inner: Some(inner),
            timer,
        }
    }
}

impl<R> Body for DeadlineBody<R>
where
    R: Body,
    R::Error: Into<BoxError>,
{
    type Data = R::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, BoxError>>> {
        let mut this = self.project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        if let Some(timer) = this.timer
            && timer.as_mut().poll(cx).is_ready()
            && !inner.is_end_stream()
        {
            // Dropped: what it holds below, a permit or a connection, is not held by who keeps a failed body.
            this.inner.set(None);
            return Poll::Ready(Some(Err(Box::new(DeadlineElapsed { _priv: () }))));
        }
        inner.poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<R> std::fmt::Debug for DeadlineBody<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadlineBody").finish_non_exhaustive()
    }
}
