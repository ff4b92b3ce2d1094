//! One streaming body and what is kept of it, read by one of its readers at a time.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

use super::{
    BodyNotRepeatable, Keep, NotRepeatable,
    repeatable::{HEAD, JudgeHead, head_of, partial_head_of},
};
use crate::size_hint::with_held;

/// What is left of the body that was wrapped.
pub(super) struct Source<B> {
    /// What was at hand when it was wrapped.
    pub(super) at_hand: VecDeque<Result<Frame<Bytes>, BoxError>>,
    pub(super) rest: B,
    /// The rest has ended or failed already, and is not to be polled again.
    pub(super) ended: bool,
}

impl<B> Source<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(frame) = self.at_hand.pop_front() {
            return Poll::Ready(Some(frame));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let frame = ready!(Pin::new(&mut self.rest).poll_frame(cx));
        self.ended = !matches!(frame, Some(Ok(_)));
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.at_hand.is_empty() && (self.ended || self.rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let data = |frame: &Result<Frame<Bytes>, _>| {
            let data = frame.as_ref().ok().and_then(Frame::data_ref);
            data.map_or(0, |data| data.len() as u64)
        };
        let at_hand: u64 = self.at_hand.iter().map(data).sum();
        match self.ended {
            true => SizeHint::with_exact(at_hand),
            false => with_held(&self.rest.size_hint(), at_hand),
        }
    }
}

/// One reader of a body: that of one attempt, or the clone that waits to be the next one's.
pub(super) struct Reader<B> {
    shared: Arc<Mutex<Shared<B>>>,
    /// Which turn at reading is its own; `None` before it has begun.
    turn: Option<u32>,
    /// How many of the kept bytes it has handed on.
    position: usize,
    trailers_are_read: bool,
}

struct Shared<B> {
    source: Source<B>,
    keeping: Keeping,
    /// What was taken from the source, for the next reader. One buffer of its own: slices of what arrived would keep
    /// the whole of it alive.
    kept: BytesMut,
    trailers: Option<HeaderMap>,
    cap: usize,
    /// The first bytes, to tell the operation; outlives what is kept.
    head: BytesMut,
    /// Whether anything was taken from the source.
    begun: bool,
    /// Whose turn it is.
    turn: u32,
    /// Of the one whose turn it is, where it waits.
    waker: Option<Waker>,
}

enum Keeping {
    /// Nobody has asked for a second reader.
    NotYet,
    All,
    /// Until the head tells whether a repeat can follow.
    ByHead(Box<JudgeHead>),
    Nothing(NotRepeatable),
}

impl<B> Reader<B> {
    /// Another reader, which begins at the begin.
    pub(super) fn again(&self) -> Self {
        let mut shared = self.shared();
        if let Keeping::NotYet = shared.keeping {
            shared.keeping = match shared.begun {
                true => Keeping::Nothing(NotRepeatable::Sent),
                false => Keeping::All,
            };
        }
        drop(shared);
        Self {
            shared: Arc::clone(&self.shared),
            turn: None,
            position: 0,
            trailers_are_read: false,
        }
    }

    /// What to keep from now on.
    pub(super) fn keep(&self, decide: impl FnOnce() -> Keep) {
        let mut shared = self.shared();
        if !matches!(shared.keeping, Keeping::NotYet) || shared.begun {
            return;
        }
        shared.keeping = match decide() {
            Keep::All => Keeping::All,
            Keep::ByHead(judge) => Keeping::ByHead(judge),
            Keep::Nothing => Keeping::Nothing(NotRepeatable::NotKept),
        };
    }

    pub(super) fn why_not(&self) -> Option<NotRepeatable> {
        let shared = self.shared();
        match shared.keeping {
            // What has not begun can still be sent.
            Keeping::Nothing(why) if shared.begun => Some(why),
            Keeping::NotYet if shared.begun => Some(NotRepeatable::Sent),
            _ => None,
        }
    }

    fn shared(&self) -> MutexGuard<'_, Shared<B>> {
        // Where the source has panicked, its reader has too, and another one ends with what it is worth.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<B> Reader<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    pub(super) fn new(source: Source<B>, cap: usize) -> Self {
        let keeping = match source.size_hint().lower() > cap as u64 {
            true => Keeping::Nothing(NotRepeatable::TooLong { cap }),
            false => Keeping::NotYet,
        };
        Self {
            shared: Arc::new(Mutex::new(Shared {
                source,
                keeping,
                kept: BytesMut::new(),
                trailers: None,
                cap,
                head: BytesMut::new(),
                begun: false,
                turn: 0,
                waker: None,
            })),
            turn: None,
            position: 0,
            trailers_are_read: false,
        }
    }

    /// The first bytes, as far as they cannot be misread for want of the rest.
    pub(super) fn head(&self) -> Option<Bytes> {
        let shared = self.shared();
        if !shared.begun {
            let data = |frame: &Result<Frame<Bytes>, _>| frame.as_ref().ok()?.data_ref().cloned();
            let first = shared.source.at_hand.iter().find_map(data)?;
            return match first.len() >= HEAD {
                true => Some(head_of(&first)),
                false => partial_head_of(&first),
            };
        }
        match shared.head.len() >= HEAD || shared.source.is_end_stream() {
            true => (!shared.head.is_empty()).then(|| head_of(&shared.head)),
            false => partial_head_of(&shared.head),
        }
    }

    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let has_clones = Arc::strong_count(&self.shared) > 1;
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = &mut *shared;
        match self.turn {
            None => {
                if let Keeping::Nothing(why) = shared.keeping
                    && shared.begun
                {
                    return refuse(why);
                }
                shared.turn += 1;
                self.turn = Some(shared.turn);
                // It is no longer its turn, and it is not to wait for what another one gets.
                if let Some(waker) = shared.waker.take() {
                    waker.wake();
                }
            }
            Some(turn) if turn != shared.turn => return refuse(NotRepeatable::TakenOver),
            Some(_) => {}
        }
        if let Some(unread) = shared.kept.get(self.position..)
            && !unread.is_empty()
        {
            let unread = Bytes::copy_from_slice(unread);
            self.position = shared.kept.len();
            return Poll::Ready(Some(Ok(Frame::data(unread))));
        }
        if let Some(trailers) = &shared.trailers
            && !self.trailers_are_read
        {
            self.trailers_are_read = true;
            return Poll::Ready(Some(Ok(Frame::trailers(trailers.clone()))));
        }
        let Poll::Ready(frame) = shared.source.poll_frame(cx) else {
            shared.waker = Some(cx.waker().clone());
            return Poll::Pending;
        };
        shared.waker = None;
        shared.begun = true;
        match &frame {
            Some(Ok(frame)) => {
                if !has_clones && !matches!(shared.keeping, Keeping::Nothing(_)) {
                    // Nobody is left who could send it again.
                    shared.stop_keeping(NotRepeatable::Sent);
                }
                shared.keep(frame);
                self.position = shared.kept.len();
                self.trailers_are_read |= frame.is_trailers();
            }
            Some(Err(_)) => shared.stop_keeping(NotRepeatable::Failed),
            None => {}
        }
        if frame.is_none() || shared.head.len() >= HEAD || shared.source.is_end_stream() {
            shared.judge_by_head();
        }
        Poll::Ready(frame)
    }

    pub(super) fn is_end_stream(&self) -> bool {
        let shared = self.shared();
        let is_refused = match self.turn {
            None => matches!(shared.keeping, Keeping::Nothing(_)) && shared.begun,
            Some(turn) => turn != shared.turn,
        };
        !is_refused
            && self.position >= shared.kept.len()
            && (shared.trailers.is_none() || self.trailers_are_read)
            && shared.source.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        let shared = self.shared();
        let unread = shared.kept.len().saturating_sub(self.position);
        with_held(&shared.source.size_hint(), unread as u64)
    }
}

impl<B> Shared<B> {
    fn keep(&mut self, frame: &Frame<Bytes>) {
        let Some(data) = frame.data_ref() else {
            if !matches!(self.keeping, Keeping::Nothing(_)) {
                self.trailers = frame.trailers_ref().cloned();
            }
            return;
        };
        match self.keeping {
            Keeping::Nothing(NotRepeatable::Sent | NotRepeatable::NotKept) => return,
            Keeping::Nothing(_) => {}
            _ if self.kept.len() + data.len() > self.cap => {
                self.stop_keeping(NotRepeatable::TooLong { cap: self.cap });
            }
            _ => self.kept.extend_from_slice(data),
        }
        let left = HEAD.saturating_sub(self.head.len()).min(data.len());
        self.head.extend_from_slice(&data[..left]);
    }

    fn judge_by_head(&mut self) {
        if !matches!(self.keeping, Keeping::ByHead(_)) {
            return;
        }
        if let Keeping::ByHead(judge) = std::mem::replace(&mut self.keeping, Keeping::All)
            && !judge(&self.head)
        {
            self.stop_keeping(NotRepeatable::NotKept);
        }
    }

    fn stop_keeping(&mut self, why: NotRepeatable) {
        self.keeping = Keeping::Nothing(why);
        self.kept = BytesMut::new();
        self.trailers = None;
    }
}

fn refuse<T>(why: NotRepeatable) -> Poll<Option<Result<T, BoxError>>> {
    Poll::Ready(Some(Err(Box::new(BodyNotRepeatable(why)))))
}
