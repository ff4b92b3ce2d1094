use std::{
    collections::VecDeque,
    future::Future,
    io::IoSlice,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http::{HeaderMap, Method, Response, StatusCode, header};
use http_body::{Body, Frame};
use service_exception::{Asked, Finding, Recognizer, ServiceException};
use tokio::time::{Sleep, sleep};
use tower::BoxError;

#[cfg(feature = "decode")]
use super::decode::Decoder;
use super::{
    InspectedBody, ServiceExceptionError,
    body::{Held, Polled},
    layer::Settings,
};
use crate::drain::Drain;

pub(super) type Inspected<R> = Result<Response<InspectedBody<R>>, BoxError>;

pub(super) enum Step<R: Body> {
    Done(Inspected<R>),
    More(Box<Inspection<R>>),
}

/// An answer that its first frame did not decide, or whose rest is to be drained.
#[expect(clippy::large_enum_variant, reason = "it is boxed as a whole")]
pub(super) enum Inspection<R: Body> {
    Looking(Option<Looking<R>>),
    Draining {
        drain: Pin<Box<Drain<R>>>,
        error: Option<ServiceExceptionError>,
    },
}

pub(super) struct Looking<R: Body> {
    response: Response<R>,
    recognizer: Recognizer,
    #[cfg(feature = "decode")]
    decoder: Option<Box<Decoder>>,
    held: VecDeque<Result<Frame<R::Data>, R::Error>>,
    looked_at: usize,
    settings: Settings,
    /// Whether bytes that have not arrived are waited for at all.
    patient: bool,
    /// Made when there is something to wait for.
    timer: Option<Pin<Box<Sleep>>>,
}

/// What is known of an answer without waiting.
pub(super) enum Begin<R: Body> {
    /// It is good, or nothing to look at; with the data that was read for it.
    Good(Option<R::Data>),
    /// There is more to look at.
    Look(Polled<R>),
}

/// Looks at what is there without waiting. An image is done with that.
// Inlined, and by reference: response and frame are a few hundred bytes, and would move with every call.
#[inline(always)]
pub(super) fn begin<R: Body + Unpin>(
    response: &mut Response<R>,
    asked: &Asked,
    cx: &mut Context<'_>,
) -> Begin<R> {
    if has_no_body(response.status()) {
        return Begin::Good(None);
    }
    if response.body().is_end_stream() {
        return Begin::Look(Poll::Ready(None));
    }
    match Pin::new(response.body_mut()).poll_frame(cx) {
        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
            // Whether a range is the one that was asked for, the headers tell.
            Ok(data)
                if asked.range().is_none()
                    && Recognizer::is_plainly_binary(data.chunk())
                    && !may_be_encoded(data.chunk()) =>
            {
                Begin::Good(Some(data))
            }
            Ok(data) => Begin::Look(Poll::Ready(Some(Ok(Frame::data(data))))),
            Err(trailers) => Begin::Look(Poll::Ready(Some(Ok(trailers)))),
        },
        first => Begin::Look(first),
    }
}

fn has_no_body(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

/// Looks closer, and waits where that is worth it.
#[inline(never)]
pub(super) fn look<R>(
    response: Response<R>,
    first: Polled<R>,
    asked: Asked,
    settings: Settings,
    cx: &mut Context<'_>,
) -> Step<R>
where
    R: Body + Unpin,
    R::Error: Into<BoxError>,
{
    let headers = response.headers();
    let encoding = Encoding::of(headers);
    let patient = !settings.max_wait.is_zero() && is_worth_waiting(headers, &asked);
    let passes =
        is_endless(headers) || encoding == Encoding::Unknown || (first.is_pending() && !patient);
    let mut recognizer = Recognizer::new(asked, response.status(), headers)
        .with_limit(settings.limit)
        .with_dialects(settings.dialects.clone());
    let mut known = None;
    if passes {
        known = Some(recognizer.at_headers())
            .filter(|finding| matches!(finding, Finding::Exception(_)));
        if known.is_none() {
            return Step::Done(Ok(hand_on_first(response, first)));
        }
    } else if encoding == Encoding::Identity
        && let Poll::Ready(Some(Ok(frame))) = &first
        && let Some(data) = frame.data_ref()
        && data.chunk().len() == data.remaining()
    {
        // The common case of a document: one plain frame decides, and nothing is set up for more.
        let finding = match response.body().is_end_stream() {
            true => recognizer.push_last(data.chunk()),
            false => recognizer.push(data.chunk()),
        };
        if finding == Finding::Clean {
            return Step::Done(Ok(hand_on_first(response, first)));
        }
        known = Some(finding);
    }
    let looked_at = match (&first, &known) {
        (Poll::Ready(Some(Ok(frame))), Some(_)) => frame.data_ref().map_or(0, Buf::remaining),
        _ => 0,
    };
    let mut looking = Looking {
        recognizer,
        #[cfg(feature = "decode")]
        decoder: Decoder::new(encoding, settings.limit).map(Box::new),
        held: VecDeque::new(),
        looked_at: looked_at.min(settings.limit),
        settings,
        patient,
        timer: None,
        response,
    };
    match looking.poll(Some((first, known)), cx) {
        Poll::Ready(conclusion) => looking.conclude(conclusion),
        Poll::Pending => Step::More(Box::new(Inspection::Looking(Some(looking)))),
    }
}

fn hand_on_first<R: Body>(response: Response<R>, first: Polled<R>) -> Response<InspectedBody<R>> {
    let (frame, ended) = match first {
        Poll::Pending => return response.map(InspectedBody::untouched),
        Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
            Ok(data) => {
                return response.map(|rest| InspectedBody::beginning_with(data, rest));
            }
            Err(trailers) => (Some(Ok(trailers)), false),
        },
        Poll::Ready(Some(Err(error))) => (Some(Err(error)), true),
        Poll::Ready(None) => (None, true),
    };
    let held = Box::new(Held {
        frames: frame.into_iter().collect(),
        ended,
    });
    response.map(|rest| InspectedBody::holding(held, rest))
}

impl<R> Inspection<R>
where
    R: Body + Unpin,
    R::Error: Into<BoxError>,
{
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Inspected<R>> {
        loop {
            match self {
                Self::Looking(looking) => {
                    let conclusion = ready!(
                        looking
                            .as_mut()
                            .expect("polled after its end")
                            .poll(None, cx)
                    );
                    let looking = looking.take().expect("polled above");
                    match looking.conclude(conclusion) {
                        Step::Done(result) => return Poll::Ready(result),
                        Step::More(more) => *self = *more,
                    }
                }
                Self::Draining { drain, error } => {
                    ready!(drain.as_mut().poll(cx));
                    let error = error.take().expect("polled after its end");
                    return Poll::Ready(Err(Box::new(error)));
                }
            }
        }
    }
}

enum Conclusion<R: Body> {
    /// The first frame is all that was looked at, and it is good.
    Clean(R::Data),
    Found {
        finding: Finding,
        ended: bool,
    },
    Failed(R::Error),
}

impl<R> Looking<R>
where
    R: Body + Unpin,
    R::Error: Into<BoxError>,
{
    /// Reads on; `first` was read before, and its finding may be known.
    fn poll(
        &mut self,
        first: Option<(Polled<R>, Option<Finding>)>,
        cx: &mut Context<'_>,
    ) -> Poll<Conclusion<R>> {
        let mut next = first;
        loop {
            let (polled, known) = match next.take() {
                Some(first) => first,
                None => (Pin::new(self.response.body_mut()).poll_frame(cx), None),
            };
            if let (Poll::Pending, Some(finding)) = (&polled, &known) {
                let (finding, ended) = (finding.clone(), false);
                return Poll::Ready(Conclusion::Found { finding, ended });
            }
            let (finding, ended) = match polled {
                Poll::Ready(Some(Ok(frame))) => {
                    let finding = known.unwrap_or_else(|| self.look_at(&frame));
                    let frame = if finding == Finding::Clean && self.held.is_empty() {
                        match frame.into_data() {
                            Ok(data) => return Poll::Ready(Conclusion::Clean(data)),
                            Err(trailers) => trailers,
                        }
                    } else {
                        frame
                    };
                    self.held.push_back(Ok(frame));
                    (finding, false)
                }
                Poll::Ready(Some(Err(error))) if self.response.status().is_success() => {
                    return Poll::Ready(Conclusion::Failed(error));
                }
                Poll::Ready(Some(Err(error))) => {
                    // The status says enough; whoever reads the body meets the error in its place.
                    self.held.push_back(Err(error));
                    (self.recognizer.finish(false), true)
                }
                Poll::Ready(None) => (self.recognizer.finish(true), true),
                // What began well is not waited for: only a report in its middle could still follow.
                Poll::Pending if !self.patient || self.recognizer.looks_good() => {
                    (self.recognizer.finish(false), false)
                }
                Poll::Pending => {
                    let max_wait = self.settings.max_wait;
                    ready!(
                        self.timer
                            .get_or_insert_with(|| Box::pin(sleep(max_wait)))
                            .as_mut()
                            .poll(cx)
                    );
                    (self.recognizer.finish(false), false)
                }
            };
            // Each frame counts, so that a body of empty ones ends too.
            let enough = ended || self.looked_at.max(self.held.len()) >= self.settings.limit;
            match finding {
                Finding::Undecided if !enough => {}
                Finding::Undecided => {
                    return Poll::Ready(Conclusion::Found {
                        finding: self.recognizer.finish(ended),
                        ended,
                    });
                }
                finding => return Poll::Ready(Conclusion::Found { finding, ended }),
            }
        }
    }

    fn look_at(&mut self, frame: &Frame<R::Data>) -> Finding {
        let Some(data) = frame.data_ref() else {
            return Finding::Undecided;
        };
        let mut slices = [IoSlice::new(&[]); 16];
        let count = data.chunks_vectored(&mut slices);
        let shown: usize = slices[..count].iter().map(|slice| slice.len()).sum();
        // What a buffer does not show is a gap: nothing behind it is looked at.
        let gap = shown < data.remaining();
        let is_last = !gap && self.response.body().is_end_stream();
        for (number, slice) in slices[..count].iter().enumerate() {
            let finding = self.push(slice, is_last && number + 1 == count);
            if finding != Finding::Undecided {
                return finding;
            }
        }
        if gap {
            self.recognizer.finish(false)
        } else {
            Finding::Undecided
        }
    }

    fn push(&mut self, bytes: &[u8], is_last: bool) -> Finding {
        #[cfg(feature = "decode")]
        if let Some(decoder) = &mut self.decoder {
            let decoded = decoder.push(bytes);
            // What decodes to nothing counts too, or it would be held without a bound.
            self.looked_at += decoded.len().max(bytes.len());
            let finding = self.recognizer.push(decoded);
            return match finding {
                Finding::Undecided if decoder.is_done() => self.recognizer.finish(false),
                finding => finding,
            };
        }
        let left = self.settings.limit.saturating_sub(self.looked_at);
        self.looked_at += bytes.len().min(left);
        match is_last {
            true => self.recognizer.push_last(bytes),
            false => self.recognizer.push(bytes),
        }
    }

    fn conclude(self, conclusion: Conclusion<R>) -> Step<R> {
        let (finding, ended) = match conclusion {
            Conclusion::Clean(data) => {
                let response = self.response;
                return Step::Done(Ok(
                    response.map(|rest| InspectedBody::beginning_with(data, rest))
                ));
            }
            Conclusion::Failed(error) => return Step::Done(Err(error.into())),
            Conclusion::Found { finding, ended } => (finding, ended),
        };
        match finding {
            Finding::Exception(exception)
                if self.settings.becomes_error(self.response.status()) =>
            {
                self.into_error(*exception, ended)
            }
            finding => {
                let mut response = self.response;
                if let Finding::Exception(exception) = finding {
                    response
                        .extensions_mut()
                        .insert::<ServiceException>(*exception);
                }
                let held = Box::new(Held {
                    frames: self.held,
                    ended,
                });
                Step::Done(Ok(response.map(|rest| InspectedBody::holding(held, rest))))
            }
        }
    }

    fn into_error(self, exception: ServiceException, ended: bool) -> Step<R> {
        let head = self.head();
        let (parts, body) = self.response.into_parts();
        let version = parts.version;
        let error = ServiceExceptionError::new(exception, parts, head);
        match Drain::new(body, version).filter(|_| !ended) {
            Some(drain) => Step::More(Box::new(Inspection::Draining {
                drain: Box::pin(drain),
                error: Some(error),
            })),
            None => Step::Done(Err(Box::new(error))),
        }
    }

    /// A copy of what was looked at, decoded where it was encoded.
    fn head(&self) -> Bytes {
        #[cfg(feature = "decode")]
        if let Some(decoder) = &self.decoder {
            return Bytes::copy_from_slice(decoder.decoded());
        }
        let mut head = Vec::with_capacity(self.looked_at);
        for data in self
            .held
            .iter()
            .filter_map(|frame| frame.as_ref().ok()?.data_ref())
        {
            let left = self.looked_at.saturating_sub(head.len());
            head.extend_from_slice(&data.chunk()[..data.chunk().len().min(left)]);
        }
        head.into()
    }
}

/// How the body is encoded, as far as a copy of its head can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Identity,
    #[cfg(feature = "decode")]
    Gzip,
    #[cfg(feature = "decode")]
    Deflate,
    Unknown,
}

impl Encoding {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut found = Self::Identity;
        for value in headers.get_all(header::CONTENT_ENCODING) {
            let Ok(value) = value.to_str() else {
                return Self::Unknown;
            };
            for name in value
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
            {
                let encoding = match name.to_ascii_lowercase().as_str() {
                    "identity" => continue,
                    #[cfg(feature = "decode")]
                    "gzip" | "x-gzip" => Self::Gzip,
                    #[cfg(feature = "decode")]
                    "deflate" => Self::Deflate,
                    _ => Self::Unknown,
                };
                found = if found == Self::Identity {
                    encoding
                } else {
                    Self::Unknown
                };
            }
        }
        found
    }
}

/// The magic bytes of gzip and zlib: whether that is the content or its encoding, a header says.
fn may_be_encoded(first: &[u8]) -> bool {
    matches!(first.first(), Some(0x1f | 0x78))
}

/// Whether the answer to it is data: those to HEAD and CONNECT have no body, that to OPTIONS is about the resource and often
/// empty, and that to TRACE is the request (RFC 9110 §9.3).
#[inline]
pub(crate) fn is_answered_with_data(method: &Method) -> bool {
    !matches!(
        *method,
        Method::HEAD | Method::CONNECT | Method::OPTIONS | Method::TRACE
    )
}

/// Answers that go on for as long as both sides like.
pub(crate) fn is_endless(headers: &HeaderMap) -> bool {
    label(headers).is_some_and(|label| {
        [
            "text/event-stream",
            "multipart/x-mixed-replace",
            "application/grpc",
        ]
        .iter()
        .any(|endless| starts_with(label, endless))
    })
}

/// Bytes that have not arrived are waited for where they can be text, or where the request is known as geospatial.
fn is_worth_waiting(headers: &HeaderMap, asked: &Asked) -> bool {
    label(headers).is_none_or(is_text) || asked.operation().is_geospatial()
}

fn is_text(label: &[u8]) -> bool {
    let essence = label
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    let ends_with = |end: &str| {
        essence.len() >= end.len()
            && essence[essence.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
    };
    starts_with(essence, "text/")
        || ["json", "xml", "javascript"]
            .iter()
            .any(|end| ends_with(end))
}

fn starts_with(label: &[u8], start: &str) -> bool {
    label.len() >= start.len() && label[..start.len()].eq_ignore_ascii_case(start.as_bytes())
}

fn label(headers: &HeaderMap) -> Option<&[u8]> {
    headers
        .get(header::CONTENT_TYPE)
        .map(|label| label.as_bytes())
}
