use std::{
    error::Error,
    fmt,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use tower::BoxError;

use super::{RepeatableBody, repeatable::head_of};

/// A request body that is always [`Clone`]: an empty or buffered one can be sent again, a streaming one goes out once.
///
/// The clone of a streaming body stands for what is no longer there: it is not repeatable, and a retry ends with
/// [`StopReason::BodyNotRepeatable`](crate::retry::StopReason::BodyNotRepeatable).
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
    Streaming { first: Bytes, rest: B },
    /// The clone of a streaming body.
    Gone,
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

impl<B: Body<Data = Bytes> + Unpin> ReplayBody<B> {
    /// Wraps any body. One that is empty, or hands over all it announces at once, is buffered; any other streams.
    pub fn new(mut body: B) -> Self {
        if body.is_end_stream() {
            return Self::empty();
        }
        let length = body.size_hint().exact();
        let Some(length) = length.filter(|length| *length <= MAX_AT_HAND) else {
            return Self {
                state: State::Streaming {
                    first: Bytes::new(),
                    rest: body,
                },
            };
        };
        // Asked once, without waiting: who sends the body later polls with a waker of its own.
        let polled = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
        let first = match polled {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            _ => Bytes::new(),
        };
        if first.len() as u64 == length {
            Self::buffered(first)
        } else {
            Self {
                state: State::Streaming { first, rest: body },
            }
        }
    }
}

impl<B> Clone for ReplayBody<B> {
    fn clone(&self) -> Self {
        Self {
            state: match &self.state {
                State::Buffered(bytes) => State::Buffered(bytes.clone()),
                State::Streaming { .. } | State::Gone => State::Gone,
            },
        }
    }
}

impl<B> RepeatableBody for ReplayBody<B> {
    fn is_repeatable(&self) -> bool {
        matches!(self.state, State::Buffered(_))
    }

    fn head(&self) -> Option<Bytes> {
        match &self.state {
            State::Buffered(bytes) | State::Streaming { first: bytes, .. } => {
                (!bytes.is_empty()).then(|| head_of(bytes))
            }
            State::Gone => None,
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
            State::Buffered(bytes) | State::Streaming { first: bytes, .. }
                if bytes.has_remaining() =>
            {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
            State::Buffered(_) => Poll::Ready(None),
            State::Streaming { rest, .. } => Pin::new(rest).poll_frame(cx).map_err(Into::into),
            State::Gone => Poll::Ready(Some(Err(Box::new(BodyNotRepeatable)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Buffered(bytes) => bytes.is_empty(),
            State::Streaming { first, rest } => first.is_empty() && rest.is_end_stream(),
            State::Gone => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Buffered(bytes) => SizeHint::with_exact(bytes.len() as u64),
            State::Streaming { first, rest } => {
                let (rest, first) = (rest.size_hint(), first.len() as u64);
                let mut hint = SizeHint::new();
                hint.set_lower(rest.lower().saturating_add(first));
                if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(first)) {
                    hint.set_upper(upper);
                }
                hint
            }
            State::Gone => SizeHint::new(),
        }
    }
}

impl<B> fmt::Debug for ReplayBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.state {
            State::Buffered(_) => "ReplayBody(buffered)",
            State::Streaming { .. } => "ReplayBody(streaming)",
            State::Gone => "ReplayBody(gone)",
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
