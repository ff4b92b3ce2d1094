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
        inner: R,
        timer: Option<Pin<Box<Sleep>>>,
        cut: bool,
    }
}

impl<R> DeadlineBody<R> {
    pub(super) fn new(inner: R, timer: Option<Pin<Box<Sleep>>>) -> Self {
        Self {
            inner,
            timer,
            cut: false,
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
        let this = self.project();
        if let Some(timer) = this.timer {
            // Asked first: a server that always has a frame ready is cut too.
            if timer.as_mut().poll(cx).is_ready() && !this.inner.is_end_stream() {
                if std::mem::replace(this.cut, true) {
                    return Poll::Ready(None);
                }
                return Poll::Ready(Some(Err(Box::new(DeadlineElapsed { _priv: () }))));
            }
        }
        this.inner.poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<R> std::fmt::Debug for DeadlineBody<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadlineBody").finish_non_exhaustive()
    }
}
