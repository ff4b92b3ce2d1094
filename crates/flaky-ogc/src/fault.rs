use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};

use crate::{Exception, Form};

/// What goes wrong with one answer: another answer, none at all, or the right one badly delivered.
///
/// A fault is built from what is sent and then from how: `Fault::status(503).retry_after(2)`,
/// `Fault::delivery().cut_after(100, Cut::Reset)`. All durations are the script's and are scaled with it.
///
/// ```
/// use std::time::Duration;
/// use flaky_ogc::{Cut, Exception, Fault, Form};
///
/// let gone = Exception::new(Form::Report111, "msDrawMap(): Image handling error. connection failed");
/// let faults = [
///     Fault::status(503).retry_after(2),
///     Fault::exception(gone).in_parts(20, Duration::from_millis(5)),
///     Fault::delivery().cut_after(100, Cut::Close),
///     Fault::reset(),
/// ];
/// assert_eq!(faults.len(), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Fault {
    pub(crate) answer: Answer,
    pub(crate) delivery: Delivery,
    pub(crate) after_work: bool,
}

impl Fault {
    /// The service's own answer, delivered as the following calls say.
    pub fn delivery() -> Self {
        Self::with(Answer::Own)
    }

    /// Another status and a short text.
    ///
    /// # Panics
    ///
    /// Where `status` is not in 100..=999.
    pub fn status(status: u16) -> Self {
        let status = StatusCode::from_u16(status).expect("a status is in 100..=999");
        let text = format!(
            "{} {}\n",
            status.as_u16(),
            status.canonical_reason().unwrap_or("Error")
        );
        Self::with(Answer::Other {
            status,
            body: Bytes::from(text),
            kind: Kind::Status(status.as_u16()),
        })
        .content_type("text/plain")
    }

    /// A maintenance page under status 200.
    pub fn html_page() -> Self {
        let page = Exception::new(Form::Html, "Down for maintenance");
        Self::exception(page)
    }

    /// An empty answer under status 200, labelled as the image that was asked for.
    pub fn empty() -> Self {
        Self::exception(Exception::new(Form::Empty, ""))
    }

    /// An exception instead of the answer, under its own status or 200.
    pub fn exception(exception: Exception) -> Self {
        let kind = match exception.form {
            Form::Html => Kind::Html,
            Form::Empty => Kind::Empty,
            _ => Kind::Exception,
        };
        let status = exception
            .status
            .and_then(|status| StatusCode::from_u16(status).ok())
            .unwrap_or(StatusCode::OK);
        Self::with(Answer::Other {
            status,
            body: exception.bytes(),
            kind,
        })
        .content_type(exception.form.content_type())
    }

    /// The connection is reset (RST) before any byte of an answer.
    pub fn reset() -> Self {
        Self::with(Answer::None(Silence::End(End::Reset)))
    }

    /// The connection is closed (FIN) before any byte of an answer.
    pub fn close() -> Self {
        Self::with(Answer::None(Silence::End(End::Close)))
    }

    /// No answer, for as long as the client waits.
    pub fn stall() -> Self {
        Self::with(Answer::None(Silence::Stall))
    }

    /// On HTTP/2 the stream is reset with this error code before any answer (7 = REFUSED_STREAM, 11 =
    /// ENHANCE_YOUR_CALM); on HTTP/1 the connection is closed.
    pub fn reset_stream(code: u32) -> Self {
        Self::with(Answer::None(Silence::ResetStream(code)))
    }

    /// Exactly these bytes on the connection, each part after its pause, and then the end. On HTTP/2 they go between
    /// frames, so that they should be frames themselves.
    pub fn raw(parts: impl IntoIterator<Item = (Duration, Bytes)>, end: End) -> Self {
        Self::with(Answer::None(Silence::Raw(parts.into_iter().collect(), end)))
    }

    /// The work is done first, and then thrown away: the render is paid for, the transaction is executed.
    pub fn after_work(mut self) -> Self {
        self.after_work = true;
        self
    }

    /// Another body.
    pub fn body(mut self, bytes: impl Into<Bytes>) -> Self {
        if let Answer::Other { body, .. } = &mut self.answer {
            *body = bytes.into();
        }
        self
    }

    /// Another media type, also for the service's own body: labels lie in both directions.
    pub fn content_type(self, media_type: &'static str) -> Self {
        self.header(header::CONTENT_TYPE, HeaderValue::from_static(media_type))
    }

    /// A header; it replaces one of the same name.
    pub fn header(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.delivery.headers.push((name, value.into()));
        self
    }

    /// `Retry-After` in seconds, as they stand: they are not scaled.
    pub fn retry_after(self, seconds: u64) -> Self {
        self.header(header::RETRY_AFTER, seconds)
    }

    /// `Retry-After` that tells when the script's window ends, in the client's seconds, rounded up.
    pub fn retry_after_window(mut self) -> Self {
        self.delivery.retry_after_window = true;
        self
    }

    /// An interim answer before the real one, such as 103; `100` needs no `Expect`. HTTP/1 only.
    pub fn informational(mut self, status: u16) -> Self {
        self.delivery.informational.push(status);
        self
    }

    /// The head comes only after `pause`.
    pub fn late_head(mut self, pause: Duration) -> Self {
        self.delivery.late_head = pause;
        self
    }

    /// The head comes at once, the body only after `pause`.
    pub fn late_body(mut self, pause: Duration) -> Self {
        self.delivery.late_body = pause;
        self
    }

    /// The body comes in parts of `bytes`, with a gap between them: one byte at a time, or a slow drip.
    pub fn in_parts(mut self, bytes: usize, gap: Duration) -> Self {
        self.delivery.part = bytes.max(1);
        self.delivery.gap = gap;
        self
    }

    /// Only `bytes` of the body come, and then the end that `how` says.
    pub fn cut_after(mut self, bytes: u64, how: Cut) -> Self {
        self.delivery.cut = Some((bytes, how));
        self
    }

    /// The body is sent gzip encoded, and says so.
    pub fn gzip(mut self) -> Self {
        self.delivery.gzip = true;
        self
    }

    /// The length is not announced: chunked on HTTP/1.
    pub fn chunked(mut self) -> Self {
        self.delivery.chunked = true;
        self
    }

    /// A trailer after the body, which is then chunked. HTTP/1 clients see it if they asked with `TE: trailers`.
    pub fn trailer(mut self, name: HeaderName, value: impl Into<HeaderValue>) -> Self {
        self.delivery.trailers.push((name, value.into()));
        self
    }

    fn with(answer: Answer) -> Self {
        Self {
            answer,
            delivery: Delivery::default(),
            after_work: false,
        }
    }
}

/// How an answer ends before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// RST on the connection.
    Reset,
    /// FIN on the connection: under a Content-Length the client is owed bytes, in chunks the last one is missing.
    Close,
    /// A clean end of chunks (HTTP/1) or of the stream (HTTP/2): only the document shows that it is short.
    CleanEnd,
    /// Nothing more, for as long as the client waits.
    Stall,
    /// On HTTP/2 the stream is reset with this code (0 = NO_ERROR, 2 = INTERNAL_ERROR, 8 = CANCEL); on HTTP/1 as
    /// [`Cut::Close`].
    ResetStream(u32),
}

/// What becomes of a connection after raw bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// RST.
    Reset,
    /// FIN.
    Close,
    /// Held open until the client closes it.
    Hold,
}

/// What became of a request, as far as the server can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The service's own answer, whole.
    Good,
    /// An exception document under any status.
    Exception,
    /// An HTML page where something else was asked for.
    Html,
    /// An empty body.
    Empty,
    /// Another status.
    Status(u16),
    /// The service's own answer, begun and cut.
    Cut,
    /// The connection or stream was reset before an answer.
    Reset,
    /// The connection was closed before an answer.
    Closed,
    /// Never answered.
    Stalled,
    /// Answered with raw bytes.
    Raw,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Own,
    Other {
        status: StatusCode,
        body: Bytes,
        kind: Kind,
    },
    None(Silence),
}

#[derive(Clone, Debug)]
pub(crate) enum Silence {
    End(End),
    Stall,
    ResetStream(u32),
    Raw(Vec<(Duration, Bytes)>, End),
}

#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) informational: Vec<u16>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) retry_after_window: bool,
    pub(crate) late_head: Duration,
    pub(crate) late_body: Duration,
    pub(crate) part: usize,
    pub(crate) gap: Duration,
    pub(crate) cut: Option<(u64, Cut)>,
    pub(crate) gzip: bool,
    pub(crate) chunked: bool,
    pub(crate) trailers: Vec<(HeaderName, HeaderValue)>,
}

impl Default for Delivery {
    fn default() -> Self {
        Self {
            informational: Vec::new(),
            headers: Vec::new(),
            retry_after_window: false,
            late_head: Duration::ZERO,
            late_body: Duration::ZERO,
            part: WHOLE_PART,
            gap: Duration::ZERO,
            cut: None,
            gzip: false,
            chunked: false,
            trailers: Vec::new(),
        }
    }
}

/// A part of an answer to which nothing was done.
const WHOLE_PART: usize = 64 * 1024;
