use std::{
    collections::VecDeque,
    error::Error,
    fmt, mem,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

use super::{
    Keep, NotRepeatable, RepeatableBody,
    repeatable::head_of,
    shared::{Reader, Source},
};

/// A request body that is always [`Clone`]: one that is empty or whole can be sent again, and so can a streaming one, as
/// long as what was sent of it is kept.
///
/// Of a streaming body that has been cloned, as a retry does, what is sent is kept in memory, at most
/// [64 KiB](Self::DEFAULT_CAP); a repeat sends that, then what the body has not given yet. A longer one goes out once: the
/// retry ends with [`StopReason::BodyTooLong`](crate::retry::StopReason::BodyTooLong). Nothing is kept of a request that
/// is not safe to repeat, beyond the 4 KB that tell it where a POST's body has to, nor once nobody is left who could
/// repeat it.
///
/// A body has one reader at a time. A repeat takes it over from an attempt that still sends, as where a server refused
/// before it had read all: that one's connection ends, and its server never gets a whole request.
///
/// ```
/// use http::Request;
/// use http_body_util::Full;
/// use bytes::Bytes;
/// use tower_spatial::replay::{RepeatableBody, ReplayBody};
///
/// let request = Request::post("https://example.org/wfs").body(Full::new(Bytes::from("<wfs:GetFeature/>")))?;
/// let request = request.map(ReplayBody::new);
/// assert!(request.body().clone().is_repeatable());
/// # Ok::<(), http::Error>(())
/// ```
///
/// # How this differs from linkerd's
///
/// Its `ReplayBody` has to be dropped by one attempt before the next may read it, and keeps what it sends whether or not a
/// repeat can follow.
pub struct ReplayBody<B> {
    state: State<B>,
}

enum State<B> {
    /// All of it: a clone is as good as the original.
    Buffered(Bytes),
    Streaming(Reader<B>),
}

impl<B> ReplayBody<B> {
    /// How many bytes of a streaming body are kept by default: 64 KiB. A GetFeature with a filter of some thousand vertices
    /// is shorter.
    pub const DEFAULT_CAP: usize = 64 * 1024;

    /// No body.
    pub const fn empty() -> Self {
        Self {
            state: State::Buffered(Bytes::new()),
        }
    }

    /// A body of bytes.
    pub fn buffered(bytes: impl Into<Bytes>) -> Self {
        Self {
            state: State::Buffered(bytes.into()),
        }
    }
}

impl<B> ReplayBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    /// Wraps any body. One that is empty, or hands over all it announces at once, is whole; any other streams.
    pub fn new(body: B) -> Self {
        Self::with_cap(body, Self::DEFAULT_CAP)
    }

    /// As [`new`](Self::new), keeping at most `cap` bytes of a streaming body; with 0 it goes out once.
    pub fn with_cap(mut body: B, cap: usize) -> Self {
        if body.is_end_stream() {
            return Self::empty();
        }
        let length = body.size_hint().exact();
        // What is of no known length is asked for its first frames only.
        let most = match length {
            Some(length) if length <= MAX_AT_HAND => length,
            Some(_) => 0,
            None => FIRST,
        };
        let mut at_hand = VecDeque::new();
        let (mut bytes, mut ended) = (0, false);
        // Asked without waiting: who sends the body later polls with a waker of its own.
        let mut context = Context::from_waker(Waker::noop());
        while most > 0 && !ended && bytes <= most && at_hand.len() < MAX_FRAMES {
            match Pin::new(&mut body).poll_frame(&mut context) {
                Poll::Ready(Some(Ok(frame))) => {
                    bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
                    at_hand.push_back(Ok(frame));
                    ended = body.is_end_stream();
                }
                Poll::Ready(Some(Err(error))) => {
                    at_hand.push_back(Err(error.into()));
                    ended = true;
                }
                Poll::Ready(None) => ended = true,
                Poll::Pending => break,
            }
        }
        let is_data = |frame: &Result<Frame<Bytes>, _>| frame.as_ref().is_ok_and(Frame::is_data);
        if ended && length == Some(bytes) && at_hand.iter().all(is_data) {
            let mut data = at_hand
                .into_iter()
                .filter_map(|frame| frame.ok()?.into_data().ok());
            let first = data.next().unwrap_or_default();
            let rest: Vec<Bytes> = data.collect();
            return match rest.is_empty() {
                true => Self::buffered(first),
                false => Self::buffered([vec![first], rest].concat().concat()),
            };
        }
        let source = Source {
            at_hand,
            rest: body,
            ended,
        };
        Self {
            state: State::Streaming(Reader::new(source, cap)),
        }
    }
}

impl<B> Clone for ReplayBody<B> {
    fn clone(&self) -> Self {
        Self {
            state: match &self.state {
                State::Buffered(bytes) => State::Buffered(bytes.clone()),
                State::Streaming(reader) => State::Streaming(reader.again()),
            },
        }
    }
}

impl<B> RepeatableBody for ReplayBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    fn why_not(&self) -> Option<NotRepeatable> {
        match &self.state {
            State::Buffered(_) => None,
            State::Streaming(reader) => reader.why_not(),
        }
    }

    fn head(&self) -> Option<Bytes> {
        match &self.state {
            State::Buffered(bytes) if bytes.is_empty() => None,
            State::Buffered(bytes) => Some(head_of(bytes)),
            State::Streaming(reader) => reader.head(),
        }
    }

    fn keep(&self, decide: impl FnOnce() -> Keep) {
        match &self.state {
            State::Buffered(_) => {}
            State::Streaming(reader) => reader.keep(decide),
        }
    }
}

impl<B> Body for ReplayBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.state {
            State::Buffered(bytes) if bytes.is_empty() => Poll::Ready(None),
            State::Buffered(bytes) => Poll::Ready(Some(Ok(Frame::data(mem::take(bytes))))),
            State::Streaming(reader) => reader.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Buffered(bytes) => bytes.is_empty(),
            State::Streaming(reader) => reader.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Buffered(bytes) => SizeHint::with_exact(bytes.len() as u64),
            State::Streaming(reader) => reader.size_hint(),
        }
    }
}

impl<B> fmt::Debug for ReplayBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.state {
            State::Buffered(_) => "ReplayBody(buffered)",
            State::Streaming(_) => "ReplayBody(streaming)",
        })
    }
}

/// A request's body was to be sent again that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyNotRepeatable(pub(super) NotRepeatable);

impl BodyNotRepeatable {
    /// Why it cannot.
    pub fn why(&self) -> NotRepeatable {
        self.0
    }
}

impl fmt::Display for BodyNotRepeatable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for BodyNotRepeatable {}

/// What is longer is not asked for before it is sent.
const MAX_AT_HAND: u64 = 1 << 20;
/// Of what is of no known length; enough to tell the operation.
const FIRST: u64 = 4096;
const MAX_FRAMES: usize = 64;
