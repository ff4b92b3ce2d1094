use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

use super::{Check, IncompleteError, store::Kept};
use crate::{call, observe};

/// An answer's body: kept and known to be whole, checked while it is read, or as it came.
pub struct CheckedBody<R> {
    source: Source<R>,
}

enum Source<R> {
    Untouched(R),
    Checked(Box<Checked<R>>),
    Kept(Box<KeptBody>),
    Ended,
}

struct Checked<R> {
    inner: R,
    /// `None` once the end was checked.
    check: Option<Check>,
    /// What was wrong with the end, to be told after the last frame.
    error: Option<IncompleteError>,
    /// The call, where somebody is told of it.
    context: Option<Arc<call::Context>>,
}

struct KeptBody {
    kept: Kept,
    trailers: Option<HeaderMap>,
}

impl<R> CheckedBody<R> {
    pub(super) fn untouched(inner: R) -> Self {
        Self {
            source: Source::Untouched(inner),
        }
    }

    pub(super) fn checked(inner: R, check: Check, context: Option<Arc<call::Context>>) -> Self {
        Self {
            source: Source::Checked(Box::new(Checked {
                inner,
                check: Some(check),
                error: None,
                context,
            })),
        }
    }

    pub(super) fn kept(kept: Kept, trailers: Option<HeaderMap>) -> Self {
        Self {
            source: Source::Kept(Box::new(KeptBody { kept, trailers })),
        }
    }
}

impl<R> Body for CheckedBody<R>
where
    R: Body + Unpin,
    R::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = match &mut self.source {
            Source::Untouched(inner) => {
                let frame = ready!(Pin::new(inner).poll_frame(cx));
                return Poll::Ready(frame.map(|frame| match frame {
                    Ok(frame) => {
                        Ok(frame.map_data(|mut data| data.copy_to_bytes(data.remaining())))
                    }
                    Err(error) => Err(error.into()),
                }));
            }
            Source::Checked(checked) => ready!(checked.poll_frame(cx)),
            Source::Kept(body) => match ready!(body.kept.poll_next(cx)) {
                Some(Ok(bytes)) => Some(Ok(Frame::data(bytes))),
                Some(Err(error)) => Some(Err(error.into())),
                None => body
                    .trailers
                    .take()
                    .map(|trailers| Ok(Frame::trailers(trailers))),
            },
            Source::Ended => None,
        };
        if !matches!(frame, Some(Ok(_))) {
            // Dropped: what it holds below, a permit or a connection, is not held by who keeps an ended body.
            self.source = Source::Ended;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Untouched(inner) => inner.is_end_stream(),
            // Not before the end was checked: a reader that does not come again would not hear of it.
            Source::Checked(checked) => {
                checked.check.is_none() && checked.error.is_none() && checked.inner.is_end_stream()
            }
            Source::Kept(body) => body.kept.left() == 0 && body.trailers.is_none(),
            Source::Ended => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Untouched(inner) => inner.size_hint(),
            Source::Checked(checked) => checked.inner.size_hint(),
            Source::Kept(body) => SizeHint::with_exact(body.kept.left()),
            Source::Ended => SizeHint::with_exact(0),
        }
    }
}

impl<R> Checked<R>
where
    R: Body + Unpin,
    R::Error: Into<BoxError>,
{
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error.into())));
        }
        if self.check.is_none() && self.inner.is_end_stream() {
            return Poll::Ready(None);
        }
        let frame = match ready!(Pin::new(&mut self.inner).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => {
                self.end();
                return Poll::Ready(self.error.take().map(|error| Err(error.into())));
            }
        };
        let frame = frame.map_data(|mut data| data.copy_to_bytes(data.remaining()));
        if let (Some(check), Some(data)) = (&mut self.check, frame.data_ref()) {
            check.push(data);
        }
        if frame.is_trailers() || self.inner.is_end_stream() {
            self.end();
            // Trailers say that all went well; where it did not, they are not handed on.
            if frame.is_trailers()
                && let Some(error) = self.error.take()
            {
                return Poll::Ready(Some(Err(error.into())));
            }
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn end(&mut self) {
        if let Some(check) = self.check.take() {
            self.error = check.finish().err().map(IncompleteError::new);
            if let (Some(error), Some(context)) = (&self.error, &self.context) {
                observe::truncated(context, error.problem());
            }
        }
    }
}

impl<R> std::fmt::Debug for CheckedBody<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckedBody").finish_non_exhaustive()
    }
}
