use std::mem;

use encoding_rs::{CoderResult, Decoder, Encoding};
use http::{HeaderMap, Method, StatusCode};

use crate::dialect::{Answer, Content, Dialects, Hints};
use crate::form::html::Page;
use crate::form::json::Json;
use crate::form::text;
use crate::form::tree::Xml;
use crate::{Asked, Expected, ServiceException, range};

mod hints;
mod stage;
mod suspicion;
mod tables;

use stage::{Context, Stage, Step};

/// What is known of an answer so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// More bytes are needed.
    Undecided,
    /// The answer is no exception; further bytes do not change that.
    Clean,
    /// The answer is an exception.
    Exception(Box<ServiceException>),
}

/// Reads an answer's first bytes and says, as early as they allow, whether it is an exception.
///
/// It takes the decoded body (no `Content-Encoding`) in any number of pieces; the finding does not depend on where they
/// are split. A good answer whose first piece decides is neither copied nor does it cost an allocation.
///
/// ```
/// use http::{HeaderMap, Method, StatusCode, Uri};
/// use service_exception::{Asked, Disposition, Finding, Recognizer};
///
/// let uri = Uri::from_static("https://maps.example.org/ows?SERVICE=WMS&REQUEST=GetMap&FORMAT=image/png");
/// let asked = Asked::new(&Method::GET, &uri, &HeaderMap::new());
/// let mut recognizer = Recognizer::new(asked, StatusCode::OK, &HeaderMap::new());
/// let body = b"<ServiceExceptionReport><ServiceException code='LayerNotDefined'>no such layer</ServiceException>";
/// assert_eq!(recognizer.push(body), Finding::Undecided); // more of the report may come
/// let Finding::Exception(exception) = recognizer.push(b"</ServiceExceptionReport>") else { panic!() };
/// assert_eq!((exception.code(), exception.disposition()), (Some("LayerNotDefined"), Disposition::Permanent));
/// ```
#[derive(Debug)]
pub struct Recognizer {
    asked: Asked,
    status: StatusCode,
    hints: Hints,
    dialects: Dialects,
    limit: usize,
    taken: usize,
    head: Vec<u8>,
    decoder: Option<Box<Decoder>>,
    stage: Stage,
    by_headers: Option<Box<ServiceException>>,
    decided: Option<Finding>,
}

impl Recognizer {
    /// Bytes of the (decoded) body that are inspected where nothing else is said.
    pub const DEFAULT_LIMIT: usize = 2048;

    /// Bytes that [`whole_document`](Self::whole_document) inspects at most.
    pub const WHOLE_DOCUMENT_LIMIT: usize = 16 * 1024 * 1024;

    /// A recognizer for the answer with `status` and `headers` to the request `asked`.
    pub fn new(asked: Asked, status: StatusCode, headers: &HeaderMap) -> Self {
        let bodiless = *asked.method() == Method::HEAD
            || *asked.method() == Method::CONNECT
            || status.is_informational()
            || matches!(
                status,
                StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
            );
        let by_headers = asked
            .range()
            .and_then(|range| range::mismatch(range, status, headers));
        Self {
            hints: hints::of(&asked, status, headers),
            asked,
            status,
            dialects: Dialects::standard(),
            limit: Self::DEFAULT_LIMIT,
            taken: 0,
            head: Vec::new(),
            decoder: None,
            stage: Stage::START,
            by_headers: by_headers.filter(|_| !bodiless),
            decided: bodiless.then_some(Finding::Clean),
        }
    }

    /// Inspects at most `bytes` of the body.
    pub fn with_limit(self, bytes: usize) -> Self {
        Self {
            limit: bytes,
            ..self
        }
    }

    /// Goes on beyond the head where that is not enough: to the code of a report whose root is known, to a root behind a
    /// long comment, to an exception in the middle of a document. For a reader that has the whole answer.
    pub fn whole_document(self) -> Self {
        self.with_limit(Self::WHOLE_DOCUMENT_LIMIT)
    }

    /// Reads the answer in these dialects.
    pub fn with_dialects(self, dialects: Dialects) -> Self {
        Self { dialects, ..self }
    }

    /// Whether a body that begins like this is an image, an archive or other binary data, and so no exception.
    ///
    /// What the headers alone show ([`at_headers`](Self::at_headers)) is not seen here.
    #[inline]
    pub fn is_plainly_binary(first: &[u8]) -> bool {
        match *first {
            [] => false,
            [0x89, ..] | [0xFF, 0xD8 | 0x0A | 0x4F, ..] => true,
            [b'<' | b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n', ..] => false,
            [0, second, ..] => !matches!(second, b'<' | b'{' | b'[' | b'\r' | b'\n' | b' '),
            [0xEF, 0xBB, 0xBF, ..] | [0xFE, 0xFF, ..] | [0xFF, 0xFE, ..] => false,
            // A letter of UTF-8 text, or a letter of Latin-1 text.
            [0xC2..=0xF4, 0x80..=0xBF, ..] => false,
            [0xC0..=0xFF, b'a'..=b'z' | b' ', ..] => false,
            [first, ..] if !(b' '..0x7F).contains(&first) => first != 0x0C && first != 0,
            _ => is_magic(first),
        }
    }

    /// What status and headers alone show: a range that is not the one that was asked for.
    ///
    /// [`push`](Self::push) and [`finish`](Self::finish) take it into account as well.
    pub fn at_headers(&self) -> Finding {
        match &self.by_headers {
            Some(exception) => Finding::Exception(exception.clone()),
            None => self.decided.clone().unwrap_or(Finding::Undecided),
        }
    }

    /// Takes the next bytes of the body.
    pub fn push(&mut self, bytes: &[u8]) -> Finding {
        self.take(bytes, false)
    }

    /// Takes the last bytes of the body: as [`push`](Self::push) and [`finish(true)`](Self::finish), without a copy where they are all there is.
    pub fn push_last(&mut self, bytes: &[u8]) -> Finding {
        self.take(bytes, true)
    }

    /// The body has ended, or (`ended` false) no more of it will be shown: decides on what there is.
    pub fn finish(&mut self, ended: bool) -> Finding {
        if let Some(decided) = &self.decided {
            return decided.clone();
        }
        if self.decoder.is_some() {
            self.transcode(&[], true);
        }
        let head = mem::take(&mut self.head);
        self.conclude(&head, ended)
    }

    /// Whether what was read is a good answer so far, so that its head can be handed on without waiting for more.
    ///
    /// Only a report in the middle of a document that was begun well can still follow. While it says `true`,
    /// [`push`](Self::push) may go on to be asked.
    pub fn looks_good(&self) -> bool {
        match &self.decided {
            Some(finding) => *finding == Finding::Clean,
            None => {
                self.by_headers.is_none()
                    && !self.dialects.has_own()
                    && match self.stage {
                        Stage::Watch { .. } => true,
                        Stage::Html { .. } => {
                            self.status.is_success()
                                && self.asked.operation().expected() == Expected::Html
                        }
                        _ => false,
                    }
            }
        }
    }

    fn take(&mut self, bytes: &[u8], last: bool) -> Finding {
        if let Some(decided) = &self.decided {
            return decided.clone();
        }
        let room = self.limit - self.taken;
        let cut = bytes.len() > room;
        let bytes = &bytes[..bytes.len().min(room)];
        self.taken += bytes.len();
        if self.head.is_empty() && self.decoder.is_none() {
            match text::utf16(bytes) {
                Some(encoding) => self.begin_transcoding(encoding, bytes, last && !cut),
                None => {
                    let step = self.stage.scan(bytes, self.context());
                    return match step {
                        Step::More if last && !cut => self.conclude(bytes, true),
                        Step::More if self.is_full() => self.conclude(bytes, false),
                        Step::More => {
                            self.head.extend_from_slice(bytes);
                            Finding::Undecided
                        }
                        step => self.settle(step, bytes, false),
                    };
                }
            }
        } else if self.decoder.is_some() {
            self.transcode(bytes, last && !cut);
        } else {
            let short = self.head.len() < 4;
            self.head.extend_from_slice(bytes);
            if short && let Some(encoding) = text::utf16(&self.head) {
                let head = mem::take(&mut self.head);
                self.begin_transcoding(encoding, &head, last && !cut);
            }
        }
        let head = mem::take(&mut self.head);
        match self.stage.scan(&head, self.context()) {
            Step::More if last && !cut => self.conclude(&head, true),
            Step::More if self.is_full() => self.conclude(&head, false),
            Step::More => {
                self.head = head;
                Finding::Undecided
            }
            step => self.settle(step, &head, false),
        }
    }

    fn is_full(&self) -> bool {
        self.taken == self.limit
    }

    #[cold]
    #[inline(never)]
    fn begin_transcoding(&mut self, encoding: &'static Encoding, bytes: &[u8], last: bool) {
        self.decoder = Some(Box::new(encoding.new_decoder_with_bom_removal()));
        self.stage = Stage::START;
        self.transcode(bytes, last);
    }

    #[cold]
    #[inline(never)]
    fn transcode(&mut self, bytes: &[u8], last: bool) {
        let Some(decoder) = &mut self.decoder else {
            return;
        };
        let mut text = String::new();
        let mut rest = bytes;
        loop {
            text.reserve(
                decoder
                    .max_utf8_buffer_length(rest.len())
                    .unwrap_or(64)
                    .max(16),
            );
            let (result, read, _) = decoder.decode_to_string(rest, &mut text, last);
            rest = &rest[read..];
            if result == CoderResult::InputEmpty {
                break;
            }
        }
        if last {
            self.decoder = None;
        }
        self.head.extend_from_slice(text.as_bytes());
        // The limit holds for what is inspected, which may be longer than what was taken.
        if self.head.len() > self.limit {
            let boundary = (0..=self.limit)
                .rev()
                .find(|&at| !matches!(self.head[at], 0x80..=0xBF));
            self.head.truncate(boundary.unwrap_or(0));
            self.taken = self.limit;
        }
    }

    fn context(&self) -> Context {
        let failed = self.status.as_u16() >= 400;
        Context {
            failed,
            own: self.dialects.has_own(),
            careful: failed
                || self.dialects.has_own()
                || self.hints.overloaded
                || self.hints.problem_json
                || self.status == StatusCode::ACCEPTED,
            limit: self.limit,
        }
    }

    /// Decides on a head to which nothing more will be added.
    fn conclude(&mut self, head: &[u8], ended: bool) -> Finding {
        let context = self.context();
        // The head may end where the scanner waited for more.
        let step = match self.stage.scan(head, context) {
            Step::More => self.stage.end(head, context, ended),
            step => step,
        };
        self.settle(step, head, ended)
    }

    fn settle(&mut self, step: Step, head: &[u8], ended: bool) -> Finding {
        let judged = match step {
            Step::Clean | Step::More => None,
            Step::Closed(end) => self.judge(&head[..end], true),
            Step::Judge => self.judge(head, ended),
            Step::Ask => match self.asked.operation().expected() {
                Expected::Image | Expected::VectorTile => self.judge(head, ended),
                _ => None,
            },
        };
        let exception = judged.map(Box::new).or_else(|| self.by_headers.take());
        let finding = exception.map_or(Finding::Clean, Finding::Exception);
        self.decided = Some(finding.clone());
        finding
    }

    #[cold]
    #[inline(never)]
    fn judge(&self, head: &[u8], ended: bool) -> Option<ServiceException> {
        let bytes = text::without_bom(head);
        let label = hints::declared(bytes).or_else(|| {
            self.hints
                .encoding
                .map(|encoding| encoding.name().as_bytes())
        });
        let decoded;
        let content = match &self.stage {
            Stage::Start { .. } => Content::Empty,
            Stage::Json { from, .. } => {
                let json = Json(&head[*from..]);
                if self.stage.is_broken() {
                    Content::Text(text::decode(bytes, label))
                } else {
                    Content::Json(json)
                }
            }
            Stage::Html { .. } => Content::Html(Page::read(&text::decode(bytes, label))),
            Stage::Prolog { .. } | Stage::Report { .. } | Stage::Watch { .. } => {
                decoded = text::decode(bytes, label);
                let xml = Xml::read(&decoded);
                if xml.root().is_some() {
                    Content::Xml(xml)
                } else {
                    Content::Text(decoded.clone())
                }
            }
            Stage::Text { .. } => Content::Text(text::decode(bytes, label)),
        };
        self.dialects.read(&Answer {
            asked: &self.asked,
            status: self.status,
            hints: self.hints,
            content,
            whole: ended,
        })
    }
}

#[cold]
fn is_magic(first: &[u8]) -> bool {
    tables::MAGIC.iter().any(|magic| first.starts_with(magic))
}

#[cfg(test)]
mod tests;
