use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;
use tower::BoxError;

use super::{TimeoutKind, limits::Watch};
use crate::call::Endpoint;

pin_project_lite::pin_project! {
    /// An answer's body that ends with [`AttemptTimedOut`](super::AttemptTimedOut) where its next frame does not come in time.
    pub struct AttemptBody<R> {
        #[pin]
        inner: Option<R>,
        watch: Watch,
        endpoint: Arc<Endpoint>,
        // Since when the reader waits for a frame.
        waits_since: Option<Instant>,
    }
}

impl<R> AttemptBody<R> {
    pub(super) fn new(inner: R, watch: Watch, endpoint: Arc<Endpoint>) -> Self {
        Self {
            inner: Some(inner),
            watch,
            endpoint,
            waits_since: None,
        }
    }
}

impl<R> Body for AttemptBody<R>
where
    R: Body,
    R::Error: Into<BoxError>,
{
    type Data = R::Data;
    type Error = BoxError;

    // Inlined: a frame that goes through a local on its way out costs several times as much.
    #[inline(always)]
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, BoxError>>> {
        let mut this = self.project();
        let Some(inner) = this.inner.as_mut().as_pin_mut() else {
            return Poll::Ready(None);
        };
        let polled = inner.poll_frame(cx);
        if polled.is_pending() {
            if let Poll::Ready(error) = this.watch.poll(TimeoutKind::Idle, this.waits_since, cx) {
                error.note(this.endpoint);
                // Dropped: what it holds below, a permit or a connection, is not held by who keeps a failed body.
                this.inner.set(None);
                return Poll::Ready(Some(Err(error.into())));
            }
        } else {
            *this.waits_since = None;
        }
        polled.map_err(Into::into)
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    #[inline]
    fn size_hint(&self) -> SizeHint {
        self.inner
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<R> std::fmt::Debug for AttemptBody<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AttemptBody").finish_non_exhaustive()
    }
}
