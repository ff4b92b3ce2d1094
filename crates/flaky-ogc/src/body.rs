use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use crate::connection::{Control, Takeover};
use crate::counters::{InFlight, Render};
use crate::fault::{Cut, End};
use crate::service::wfs::Stream;

/// Where the bytes come from.
#[derive(Debug)]
pub(crate) enum Source {
    Bytes(Bytes),
    Stream(Stream),
}

impl Source {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stream(stream) => stream.left(),
        }
    }

    fn take(&mut self, most: usize) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes.split_to(most.min(bytes.len())),
            Self::Stream(stream) => stream.take(most),
        }
    }
}

/// A body with its script: parts, gaps, and the way in which it ends.
#[derive(Debug)]
pub(crate) struct ScriptedBody {
    pub(crate) source: Source,
    pub(crate) announced: bool,
    pub(crate) part: usize,
    /// Real time.
    pub(crate) gap: Duration,
    pub(crate) pause: Option<Pin<Box<Sleep>>>,
    pub(crate) cut: Option<(u64, Cut)>,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) control: Control,
    pub(crate) http2: bool,
    /// On HTTP/2: what was sent before a cut has had its time to leave.
    pub(crate) settled: bool,
    pub(crate) render: Option<Render>,
    pub(crate) _in_flight: InFlight,
}

impl ScriptedBody {
    fn cut(&mut self, how: Cut) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let end = match how {
            Cut::CleanEnd => return Poll::Ready(None),
            Cut::Stall => return Poll::Pending,
            Cut::ResetStream(code) if self.http2 => {
                return Poll::Ready(Some(Err(h2::Reason::from(code).into())));
            }
            Cut::Reset => End::Reset,
            Cut::Close | Cut::ResetStream(_) => End::Close,
        };
        let takeover = Takeover {
            parts: Vec::new(),
            end,
        };
        if self.http2 {
            // Nothing more is written, so that no flush would fire it.
            self.control.take_over(takeover);
        } else {
            self.control.arm(takeover);
        }
        // Never woken: the takeover drops this body.
        Poll::Pending
    }
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let mut most = self.part;
        if let Some((left, how)) = self.cut {
            if left == 0 {
                if self.http2 && !self.settled && !matches!(how, Cut::CleanEnd | Cut::Stall) {
                    self.settled = true;
                    self.pause = Some(Box::pin(tokio::time::sleep(SETTLE)));
                    return self.poll_frame(cx);
                }
                return self.cut(how);
            }
            most = most.min(usize::try_from(left).unwrap_or(usize::MAX));
        }
        if self.source.len() == 0 {
            return Poll::Ready(
                self.trailers
                    .take()
                    .map(|trailers| Ok(Frame::trailers(trailers))),
            );
        }
        let bytes = self.source.take(most);
        if let Some((left, _)) = &mut self.cut {
            *left -= bytes.len() as u64;
        }
        let whole = self.source.len() == 0 && self.cut.is_none_or(|(left, _)| left > 0);
        if let Some(render) = self.render.as_mut().filter(|_| whole) {
            render.deliver();
        }
        if !self.gap.is_zero() && self.source.len() > 0 {
            self.pause = Some(Box::pin(tokio::time::sleep(self.gap)));
        }
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.source.len() == 0 && self.cut.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.announced {
            SizeHint::with_exact(self.source.len())
        } else {
            SizeHint::default()
        }
    }
}

/// h2 forgets what is still queued for a stream when the stream is reset, the head included.
const SETTLE: Duration = Duration::from_millis(10);
