use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::call::Permit;

pin_project! {
    /// A response body that holds the permit of its call until it ends, fails or is dropped.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        pub(super) inner: B,
        pub(super) permit: Option<Permit>,
    }
}

/// The permit becomes the body's; where nothing comes any more, it ends here.
#[inline]
pub(super) fn hand_over<B: Body>(permit: Option<Permit>, body: &B) -> Option<Permit> {
    let mut permit = permit?;
    if body.is_end_stream() || body.size_hint().exact() == Some(0) {
        return None;
    }
    permit.hand_over();
    Some(permit)
}

impl<B: Body> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    // Inlined: a frame that goes through a local on its way out costs several times as much.
    #[inline(always)]
    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let polled = this.inner.as_mut().poll_frame(cx);
        if let Some(permit) = this.permit {
            match &polled {
                Poll::Pending => permit.awaiting(),
                Poll::Ready(Some(Ok(_))) if !this.inner.is_end_stream() => permit.read(),
                Poll::Ready(Some(Err(_))) => {
                    permit.broke_off();
                    *this.permit = None;
                }
                Poll::Ready(_) => *this.permit = None,
            }
        }
        polled
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    #[inline]
    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
