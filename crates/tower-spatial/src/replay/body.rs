use std::{
    collections::VecDeque,
    error::Error,
    fmt,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

use super::{RepeatableBody, repeatable::head_of};
use crate::size_hint::with_held;

/// A request body that is always [`Clone`]: an empty or buffered one can be sent again, a streaming one goes out once.
///
/// The clone of a streaming body stands for what is no longer there: it is not repeatable, and a retry ends with
/// [`StopReason::BodyNotRepeatable`](crate::retry::StopReason::BodyNotRepeatable), or with `Unsafe` where only the body
/// would tell that the operation is safe, as in a streamed POST GetFeature: an
/// [`Operation`](crate::exception::Operation) among the request's extensions tells it in its place.
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
pub struct ReplayBody<B> {
    state: State<B>,
}

enum State<B> {
    /// All of it: a clone is as good as the original.
    Buffered(Bytes),
    /// What was at hand when it was wrapped, then the rest.
    Streaming(Box<Streaming<B>>),
    /// The clone of a streaming body, with the bytes that were at hand.
    Gone(Bytes),
}

struct Streaming<B> {
    at_hand: VecDeque<Result<Frame<Bytes>, BoxError>>,
    rest: B,
    /// The rest has ended or failed already, and is not to be polled again.
    ended: bool,
}

impl<B> Streaming<B> {
    fn head(&self) -> Bytes {
        let data =
            |frame: &Result<Frame<Bytes>, BoxError>| frame.as_ref().ok()?.data_ref().cloned();
        self.at_hand.iter().find_map(data).unwrap_or_default()
    }
}

impl<B> ReplayBody<B> {
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
    /// Wraps any body. One that is empty, or hands over all it announces at once, is buffered; any other streams.
    pub fn new(mut body: B) -> Self {
        if body.is_end_stream() {
            return Self::empty();
        }
        let length = body
            .size_hint()
            .exact()
            .filter(|length| *length <= MAX_AT_HAND);
        let mut at_hand = VecDeque::new();
        let (mut bytes, mut ended) = (0, false);
        // Asked without waiting: who sends the body later polls with a waker of its own.
        let mut context = Context::from_waker(Waker::noop());
        while let Some(length) = length
            && !ended
            && bytes <= length
            && at_hand.len() < MAX_FRAMES
        {
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
        let streaming = Streaming {
            at_hand,
            rest: body,
            ended,
        };
        Self {
            state: State::Streaming(Box::new(streaming)),
        }
    }
}

impl<B> Clone for ReplayBody<B> {
    fn clone(&self) -> Self {
        Self {
            state: match &self.state {
                State::Buffered(bytes) => State::Buffered(bytes.clone()),
                State::Streaming(streaming) => State::Gone(streaming.head()),
                State::Gone(head) => State::Gone(head.clone()),
            },
        }
    }
}

impl<B> RepeatableBody for ReplayBody<B> {
    fn is_repeatable(&self) -> bool {
        matches!(self.state, State::Buffered(_))
    }

    fn head(&self) -> Option<Bytes> {
        let head = match &self.state {
            State::Buffered(bytes) | State::Gone(bytes) => bytes.clone(),
            State::Streaming(streaming) => streaming.head(),
        };
        (!head.is_empty()).then(|| head_of(&head))
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
            State::Buffered(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            State::Streaming(streaming) => match streaming.at_hand.pop_front() {
                Some(frame) => Poll::Ready(Some(frame)),
                None if streaming.ended => Poll::Ready(None),
                None => Pin::new(&mut streaming.rest)
                    .poll_frame(cx)
                    .map_err(Into::into),
            },
            State::Gone(_) => Poll::Ready(Some(Err(Box::new(BodyNotRepeatable)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Buffered(bytes) => bytes.is_empty(),
            State::Streaming(streaming) => {
                streaming.at_hand.is_empty() && (streaming.ended || streaming.rest.is_end_stream())
            }
            State::Gone(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Buffered(bytes) => SizeHint::with_exact(bytes.len() as u64),
            State::Streaming(streaming) => {
                let data = |frame: &Result<Frame<Bytes>, _>| {
                    let data = frame.as_ref().ok().and_then(Frame::data_ref);
                    data.map_or(0, |data| data.len() as u64)
                };
                let at_hand: u64 = streaming.at_hand.iter().map(data).sum();
                with_held(&streaming.rest.size_hint(), at_hand)
            }
            State::Gone(_) => SizeHint::new(),
        }
    }
}

impl<B> fmt::Debug for ReplayBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.state {
            State::Buffered(_) => "ReplayBody(buffered)",
            State::Streaming(_) => "ReplayBody(streaming)",
            State::Gone(_) => "ReplayBody(gone)",
        })
    }
}

/// The request's body went out with the first attempt and was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyNotRepeatable;

impl fmt::Display for BodyNotRepeatable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request's body can be sent only once")
    }
}

impl Error for BodyNotRepeatable {}

/// What is longer is not asked for before it is sent.
const MAX_AT_HAND: u64 = 1 << 20;
const MAX_FRAMES: usize = 64;
