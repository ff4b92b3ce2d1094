use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Buf;
use http_body::{Body, Frame, SizeHint};

use crate::size_hint::with_held;

/// An answer's body as it came: what was looked at first, then the rest.
pub struct InspectedBody<R: Body> {
    /// The first frame's data, without the frame around it: this is what moves on every call.
    pub(super) first: Option<R::Data>,
    /// More than that, where the first frame did not decide.
    pub(super) held: Option<Box<Held<R>>>,
    pub(super) rest: R,
}

/// What a poll of a body gives.
pub(super) type Polled<R> = Poll<Option<Result<Frame<<R as Body>::Data>, <R as Body>::Error>>>;

/// Frames that were looked at and not yet handed on.
pub(super) struct Held<R: Body> {
    pub(super) frames: VecDeque<Result<Frame<R::Data>, R::Error>>,
    /// The rest has ended or failed already, and is not to be polled again.
    pub(super) ended: bool,
}

impl<R: Body> InspectedBody<R> {
    pub(super) fn untouched(rest: R) -> Self {
        Self {
            first: None,
            held: None,
            rest,
        }
    }

    pub(super) fn beginning_with(first: R::Data, rest: R) -> Self {
        Self {
            first: Some(first),
            held: None,
            rest,
        }
    }

    pub(super) fn holding(held: Box<Held<R>>, rest: R) -> Self {
        Self {
            first: None,
            held: Some(held),
            rest,
        }
    }

    #[inline(never)]
    fn poll_held(&mut self, cx: &mut Context<'_>) -> Polled<R>
    where
        R: Unpin,
    {
        if let Some(data) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        if let Some(held) = &mut self.held {
            match held.frames.pop_front() {
                Some(frame) => return Poll::Ready(Some(frame)),
                None if held.ended => return Poll::Ready(None),
                None => self.held = None,
            }
        }
        Pin::new(&mut self.rest).poll_frame(cx)
    }

    fn held_bytes(&self) -> u64 {
        let first = self.first.as_ref().map_or(0, Buf::remaining);
        let frames = self.held.iter().flat_map(|held| held.frames.iter());
        let data = frames.filter_map(|frame| frame.as_ref().ok()?.data_ref());
        first as u64 + data.map(|data| data.remaining() as u64).sum::<u64>()
    }
}

impl<R: Body + Unpin> Body for InspectedBody<R> {
    type Data = R::Data;
    type Error = R::Error;

    // Inlined: a frame that goes through a local on its way out costs several times as much.
    #[inline(always)]
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<R::Data>, R::Error>>> {
        if self.first.is_some() || self.held.is_some() {
            self.poll_held(cx)
        } else {
            Pin::new(&mut self.rest).poll_frame(cx)
        }
    }

    #[inline]
    fn is_end_stream(&self) -> bool {
        if self.first.is_some() {
            return false;
        }
        match &self.held {
            Some(held) => held.frames.is_empty() && (held.ended || self.rest.is_end_stream()),
            None => self.rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        with_held(&self.rest.size_hint(), self.held_bytes())
    }
}

impl<R: Body + Unpin> Unpin for InspectedBody<R> {}

impl<R: Body> std::fmt::Debug for InspectedBody<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InspectedBody")
            .field("held_bytes", &self.held_bytes())
            .finish_non_exhaustive()
    }
}
