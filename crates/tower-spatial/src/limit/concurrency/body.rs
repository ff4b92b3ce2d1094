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
        inner: B,
        permit: Option<Permit>,
    }
}

impl<B: Body> ResponseBody<B> {
    /// Where nothing comes any more, the permit ends here.
    pub(super) fn new(inner: B, permit: Option<Permit>) -> Self {
        let has_ended = inner.is_end_stream() || inner.size_hint().exact() == Some(0);
        let permit = permit.filter(|_| !has_ended);
        if let Some(permit) = &permit {
            permit.hand_over();
        }
        Self { inner, permit }
    }
}

impl<B: Body> Body for ResponseBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    #[inline]
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
