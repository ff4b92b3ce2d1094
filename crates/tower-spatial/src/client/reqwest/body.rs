use std::{
    pin::Pin,
    task::{Context, Poll},
};

use http_body::{Body, Frame, SizeHint};
use sync_wrapper::SyncWrapper;

pin_project_lite::pin_project! {
    /// A body that is `Sync`, as reqwest asks for; axum's is not.
    ///
    /// What it says of itself without being polled was asked when it was last polled: only then can it change.
    pub(super) struct SyncBody<B> {
        #[pin]
        body: SyncWrapper<B>,
        hint: SizeHint,
        ended: bool,
    }
}

impl<B: Body> SyncBody<B> {
    pub(super) fn new(body: B) -> Self {
        Self {
            hint: body.size_hint(),
            ended: body.is_end_stream(),
            body: SyncWrapper::new(body),
        }
    }
}

impl<B: Body> Body for SyncBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let mut body = this.body.get_pin_mut();
        let polled = body.as_mut().poll_frame(cx);
        *this.hint = body.size_hint();
        *this.ended = body.is_end_stream();
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}
