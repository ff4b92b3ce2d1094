use std::mem;
use std::sync::LazyLock;

use encoding_rs::{CoderResult, Decoder, Encoding};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use memchr::memmem;

use crate::dialect::{Answer, Content, Dialects, Hints};
use crate::form::html::Page;
use crate::form::json::{self, Json};
use crate::form::text;
use crate::form::tree::Xml;
use crate::form::xml::{self, Token, local_name};
use crate::kvp::find_ignore_case;
use crate::{Asked, Expected, ServiceException, range};

mod suspicion;

use suspicion::Suspicion;

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
            hints: hints(&asked, status, headers),
            asked,
            status,
            dialects: Dialects::standard(),
            limit: Self::DEFAULT_LIMIT,
            taken: 0,
            head: Vec::new(),
            decoder: None,
            stage: Stage::Start,
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
        self.stage = Stage::Start;
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
        let label = declared(bytes).or_else(|| {
            self.hints
                .encoding
                .map(|encoding| encoding.name().as_bytes())
        });
        let decoded;
        let content = match &self.stage {
            Stage::Start => Content::Empty,
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

impl Clone for Recognizer {
    /// A recognizer that has read as much; it begins to decode UTF-16 anew only where nothing was read.
    fn clone(&self) -> Self {
        Self {
            asked: self.asked.clone(),
            status: self.status,
            hints: self.hints,
            dialects: self.dialects.clone(),
            limit: self.limit,
            taken: self.taken,
            head: self.head.clone(),
            decoder: self
                .decoder
                .as_ref()
                .map(|decoder| Box::new(decoder.encoding().new_decoder_without_bom_handling())),
            stage: self.stage.clone(),
            by_headers: self.by_headers.clone(),
            decided: self.decided.clone(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Context {
    failed: bool,
    own: bool,
    /// No JSON is good before all of it was read.
    careful: bool,
    limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    More,
    Clean,
    /// The dialects have to be asked.
    Judge,
    /// The document ends here, and the dialects have to be asked about it.
    Closed(usize),
    /// Only where an image was asked for do the dialects have to be asked.
    Ask,
}

/// How far the head has been read, and as what.
#[derive(Clone, Debug)]
enum Stage {
    /// Nothing but blanks.
    Start,
    /// XML before its root.
    Prolog {
        scanner: xml::Scanner,
    },
    /// XML that may be a failure as a whole: read to its end.
    Report {
        scanner: xml::Scanner,
        depth: usize,
    },
    /// XML that began well: a report may stand in it.
    Watch {
        from: usize,
        searched: usize,
        found: bool,
        known: bool,
    },
    Html {
        searched: usize,
    },
    Json {
        from: usize,
        scanner: json::Scanner,
        suspicion: Suspicion,
    },
    Text {
        call: bool,
    },
}

impl Stage {
    fn is_broken(&self) -> bool {
        matches!(self, Self::Json { suspicion, .. } if suspicion.broken)
    }

    /// Reads on from where the last call ended; `head` begins as it began then.
    fn scan(&mut self, head: &[u8], context: Context) -> Step {
        loop {
            match self {
                Self::Start => {
                    let from = match head {
                        [0xEF] | [0xEF, 0xBB] => return Step::More,
                        [0xEF, 0xBB, 0xBF, ..] => 3,
                        _ => 0,
                    };
                    let blanks = head[from..]
                        .iter()
                        .take_while(|&&byte| xml::is_blank(byte) || byte == 0x0C)
                        .count();
                    let at = from + blanks;
                    match head.get(at) {
                        None => return Step::More,
                        Some(b'<') => {
                            *self = Self::Prolog {
                                scanner: xml::Scanner::starting_at(at),
                            }
                        }
                        Some(b'{' | b'[') => *self = Self::json(at),
                        Some(_) if head.len() < 4 && text::may_be_utf16(head) => return Step::More,
                        Some(_) => *self = Self::Text { call: true },
                    }
                    if head.len() < 4 && text::may_be_utf16(head) {
                        *self = Self::Start;
                        return Step::More;
                    }
                }
                Self::Prolog { scanner } => {
                    let at = scanner.position();
                    if let Some(name) = root_name(head, at) {
                        let Some(name) = name else { return Step::More };
                        *self = Self::by_root(&head[name.clone()], at, name.end, context);
                        continue;
                    }
                    match scanner.next(head) {
                        None => return Step::More,
                        Some(Token::Doctype(range)) if is_html_doctype(&head[range.clone()]) => {
                            *self = Self::Html {
                                searched: range.end,
                            }
                        }
                        Some(Token::Text(range))
                            if !head[range.clone()].iter().all(|&byte| xml::is_blank(byte)) =>
                        {
                            *self = Self::Text { call: false };
                        }
                        Some(_) => {}
                    }
                }
                Self::Report { scanner, depth } => loop {
                    match scanner.next(head) {
                        None => return Step::More,
                        Some(Token::Start { empty: false, .. }) => *depth += 1,
                        Some(Token::Start { .. }) if *depth == 0 => {
                            return Step::Closed(scanner.position());
                        }
                        Some(Token::End { .. }) => {
                            *depth = depth.saturating_sub(1);
                            if *depth == 0 {
                                return Step::Closed(scanner.position());
                            }
                        }
                        Some(_) => {}
                    }
                },
                Self::Watch {
                    from,
                    searched,
                    found,
                    known,
                } => {
                    if !*found {
                        let begin = searched
                            .saturating_sub(REPORT.needle().len() - 1)
                            .max(*from);
                        *found = REPORT.find(&head[begin.min(head.len())..]).is_some();
                        *searched = head.len();
                    }
                    let full = head.len() >= context.limit;
                    return match (full, *found || context.own, *known) {
                        (false, ..) => Step::More,
                        (true, true, _) => Step::Judge,
                        (true, false, true) => Step::Clean,
                        (true, false, false) => Step::Ask,
                    };
                }
                Self::Html { searched } => {
                    let begin = searched.saturating_sub(b"</html".len());
                    if let Some(at) = find_ignore_case(&head[begin..], "</html") {
                        return Step::Closed(begin + at);
                    }
                    *searched = head.len();
                    return Step::More;
                }
                Self::Json {
                    scanner, suspicion, ..
                } => {
                    return scan_json(head, scanner, suspicion, context);
                }
                Self::Text { call } => {
                    if *call {
                        match jsonp(head) {
                            Call::Maybe => return Step::More,
                            Call::No => *call = false,
                            Call::Json(at) => {
                                *self = Self::json(at);
                                continue;
                            }
                        }
                    }
                    return if head.len() >= 16 && Recognizer::is_plainly_binary(head) {
                        Step::Clean
                    } else {
                        Step::More
                    };
                }
            }
        }
    }

    /// What a head means that nothing more will be added to, and that [`scan`](Self::scan) wanted more of.
    fn end(&mut self, head: &[u8], context: Context, ended: bool) -> Step {
        let binary = Recognizer::is_plainly_binary(head);
        match self {
            Self::Start if ended => Step::Judge,
            Self::Start => Step::Clean,
            Self::Prolog { .. } if context.failed || context.own => Step::Judge,
            Self::Prolog { .. } => Step::Clean,
            Self::Report { .. } | Self::Html { .. } => Step::Judge,
            Self::Watch { found, .. } if *found || context.own => Step::Judge,
            Self::Watch { known: true, .. } => Step::Clean,
            Self::Watch { .. } => Step::Ask,
            Self::Json {
                scanner, suspicion, ..
            } => {
                if let Some((key, value)) = scanner.open_member(head) {
                    suspicion.weigh(&head[key], &head[value]);
                }
                if suspicion.is_left() || context.careful {
                    Step::Judge
                } else {
                    Step::Ask
                }
            }
            Self::Text { .. } if binary => Step::Clean,
            // Too little to tell words from data.
            Self::Text { .. } if !ended && head.len() < 16 && !context.failed => Step::Clean,
            Self::Text { .. } => Step::Judge,
        }
    }

    fn json(from: usize) -> Self {
        Self::Json {
            from,
            scanner: json::Scanner::starting_at(from),
            suspicion: Suspicion::default(),
        }
    }

    fn by_root(name: &[u8], at: usize, from: usize, context: Context) -> Self {
        let local = local_name(name);
        if is_html(local) {
            Self::Html { searched: at }
        } else if context.failed || SUSPECTS.contains(&local) || context.own && local.is_empty() {
            Self::Report {
                scanner: xml::Scanner::starting_at(at),
                depth: 0,
            }
        } else {
            Self::Watch {
                from,
                searched: from,
                found: false,
                known: KNOWN.contains(&local),
            }
        }
    }
}

/// Reads JSON until it is known to be good, or closed.
fn scan_json(
    head: &[u8],
    scanner: &mut json::Scanner,
    suspicion: &mut Suspicion,
    context: Context,
) -> Step {
    loop {
        let Some(event) = scanner.next(head) else {
            return Step::More;
        };
        if scanner.is_array() && !context.careful {
            return Step::Clean;
        }
        let is_good = !context.careful && !suspicion.is_serious();
        match event {
            // Nothing that comes after the features can make a failure of them.
            json::Event::Opened { key, first: b'[' }
                if is_good && &head[key.clone()] == b"features" =>
            {
                return Step::Clean;
            }
            json::Event::Opened { .. } => {}
            json::Event::Member { key, value } => {
                let (key, value) = (&head[key], &head[value]);
                if is_good && key == b"type" && GEOJSON.contains(&value) {
                    return Step::Clean;
                }
                suspicion.weigh(key, value);
            }
            json::Event::Closed if suspicion.is_left() || context.careful => {
                return Step::Closed(scanner.position());
            }
            json::Event::Closed => return Step::Ask,
            // What it is instead shows when all of it is there.
            json::Event::Broken => suspicion.broken = true,
        }
    }
}

/// `Some(None)`: a start tag begins, its name is not complete. `None`: no start tag begins here.
fn root_name(head: &[u8], at: usize) -> Option<Option<std::ops::Range<usize>>> {
    match head.get(at..)? {
        [b'<', b'?' | b'!' | b'/', ..] => None,
        [b'<', rest @ ..] => {
            let length = rest
                .iter()
                .position(|&byte| xml::is_blank(byte) || matches!(byte, b'>' | b'/'));
            Some(length.map(|length| at + 1..at + 1 + length))
        }
        _ => None,
    }
}

fn is_html_doctype(doctype: &[u8]) -> bool {
    let rest = doctype
        .get("doctype".len()..)
        .unwrap_or_default()
        .trim_ascii_start();
    rest.len() >= 4 && rest[..4].eq_ignore_ascii_case(b"html")
}

fn is_html(local: &[u8]) -> bool {
    local.len() <= 8
        && HTML
            .iter()
            .any(|name| local.eq_ignore_ascii_case(name.as_bytes()))
}

enum Call {
    Maybe,
    No,
    Json(usize),
}

/// `callback({…})`, with or without a comment before it.
fn jsonp(head: &[u8]) -> Call {
    let mut at = head.iter().take_while(|&&byte| xml::is_blank(byte)).count();
    let comment = b"/**/";
    let rest = &head[at..];
    if rest.len() < comment.len() && comment.starts_with(rest) {
        return Call::Maybe;
    }
    if rest.starts_with(comment) {
        at += comment.len();
        at += head[at..]
            .iter()
            .take_while(|&&byte| xml::is_blank(byte))
            .count();
    }
    let name = head[at..]
        .iter()
        .take(65)
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.'))
        .count();
    if name == 65 || name > 0 && head[at].is_ascii_digit() {
        return Call::No;
    }
    let rest = &head[at + name..];
    match rest {
        [] => Call::Maybe,
        [b'(', inner @ ..] if name > 0 => {
            let blanks = inner
                .iter()
                .take_while(|&&byte| xml::is_blank(byte))
                .count();
            match inner.get(blanks) {
                None => Call::Maybe,
                Some(b'{' | b'[') => Call::Json(at + name + 1 + blanks),
                Some(_) => Call::No,
            }
        }
        _ => Call::No,
    }
}

/// The encoding that an XML declaration or a page's `meta` names.
fn declared(head: &[u8]) -> Option<&[u8]> {
    let start = &head[..head.len().min(1024)];
    let at = if start.trim_ascii_start().starts_with(b"<?xml") {
        let end = memmem::find(start, b"?>")?;
        find_ignore_case(&start[..end], "encoding").map(|at| at + "encoding".len())?
    } else if start.trim_ascii_start().starts_with(b"<") {
        find_ignore_case(start, "charset").map(|at| at + "charset".len())?
    } else {
        return None;
    };
    let rest = start[at..]
        .trim_ascii_start()
        .strip_prefix(b"=")?
        .trim_ascii_start();
    let rest = rest
        .strip_prefix(b"\"")
        .or_else(|| rest.strip_prefix(b"'"))
        .unwrap_or(rest);
    let end = rest
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\'' | b' ' | b'>' | b'/' | b';' | b'?'))
        .unwrap_or(rest.len());
    Some(&rest[..end])
}

fn hints(asked: &Asked, status: StatusCode, headers: &HeaderMap) -> Hints {
    let failed = status.as_u16() >= 400;
    let content_type = headers
        .get(CONTENT_TYPE)
        .map_or(&[][..], HeaderValue::as_bytes);
    let is_html = find_ignore_case(content_type, "html").is_some();
    let path = asked.uri().path().as_bytes();
    Hints {
        problem_json: find_ignore_case(content_type, "problem+json").is_some(),
        challenge: (failed || is_html)
            && headers
                .get("cf-mitigated")
                .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"challenge")),
        overloaded: path.len() > 6
            && path[..6].eq_ignore_ascii_case(b"/REST/")
            && headers
                .get("x-ms-bm-ws-info")
                .is_some_and(|value| value == "1"),
        retry_after: failed && headers.contains_key(RETRY_AFTER),
        encoding: charset(content_type),
    }
}

/// The encoding that a media type names, where it is not UTF-8.
fn charset(content_type: &[u8]) -> Option<&'static Encoding> {
    let at = find_ignore_case(content_type, "charset=")? + "charset=".len();
    let label = content_type[at..]
        .split(|&byte| byte == b';')
        .next()?
        .trim_ascii();
    let label = label
        .strip_prefix(b"\"")
        .and_then(|label| label.strip_suffix(b"\""))
        .unwrap_or(label);
    if label.eq_ignore_ascii_case(b"utf-8") {
        None
    } else {
        Encoding::for_label(label)
    }
}

#[cold]
fn is_magic(first: &[u8]) -> bool {
    MAGIC.iter().any(|magic| first.starts_with(magic))
}

static REPORT: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new("ExceptionReport"));

/// Binary data that begins with printable characters.
const MAGIC: &[&[u8]] = &[
    b"GIF8",
    b"RIFF",
    b"II*\0",
    b"II+\0",
    b"MM\0*",
    b"MM\0+",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"%PDF",
    b"GRIB",
    b"BUFR",
    b"CDF\x01",
    b"CDF\x02",
    b"CDF\x05",
    b"fgb\x03",
    b"SQLite format 3",
    b"OggS",
    b"7z\xBC\xAF",
    b"BZh",
    b"(\xB5/\xFD",
    b"PAR1",
    b"ARROW1",
    b"Obj\x01",
    b"glTF",
    b"b3dm",
    b"i3dm",
    b"pnts",
    b"cmpt",
    b"LASF",
    b"PMTiles",
    b"Lerc2",
    b"CntZImage",
    b"BM\0",
    b"Rar!",
    b"x\x9C",
    b"x\xDA",
    b"x\x01",
    b"wOFF",
    b"quantized",
    b"DRACO",
    b"NITF",
    b"SIMPLE  =",
];

/// Roots that may be a failure as a whole.
const SUSPECTS: &[&[u8]] = &[
    b"ServiceExceptionReport",
    b"ServiceException",
    b"ExceptionReport",
    b"Exception",
    b"WMTException",
    b"ServerException",
    b"TileMapServerError",
    b"WFS_Exception",
    b"Envelope",
    b"ExecuteResponse",
    b"WFS_TransactionResponse",
    b"TransactionResponse",
    b"osm",
    b"geonames",
    b"Error",
    b"error",
    b"ErrorResponse",
    b"Response",
    b"GeocodeResponse",
    b"PlaceSearchResponse",
    b"DirectionsResponse",
    b"DistanceMatrixResponse",
    b"ElevationResponse",
    b"WebServiceException",
    b"ARCXML",
];

/// Roots of good answers, of which nothing has to be asked.
const KNOWN: &[&[u8]] = &[
    b"FeatureCollection",
    b"WMS_Capabilities",
    b"WMT_MS_Capabilities",
    b"WFS_Capabilities",
    b"Capabilities",
    b"WCS_Capabilities",
    b"schema",
    b"GetRecordsResponse",
    b"GetRecordByIdResponse",
    b"CoverageDescriptions",
    b"CoverageDescription",
    b"kml",
    b"svg",
    b"gpx",
    b"feed",
    b"searchresults",
    b"ValueCollection",
    b"msGMLOutput",
    b"GetFeatureInfoResponse",
    b"FeatureInfoResponse",
    b"StyledLayerDescriptor",
    b"TileMap",
    b"TileMapService",
    b"GetObservationResponse",
    b"Observation",
    b"ObservationCollection",
    b"ProcessDescriptions",
    b"ProcessOfferings",
    b"StatusInfo",
    b"Result",
];

const HTML: &[&str] = &[
    "html", "head", "body", "title", "h1", "h2", "h3", "h4", "p", "div", "center", "b", "br", "hr",
    "pre", "font", "table", "ul", "script", "meta", "form", "span", "strong", "img",
];

const GEOJSON: &[&[u8]] = &[
    b"\"FeatureCollection\"",
    b"\"Feature\"",
    b"\"Topology\"",
    b"\"Collection\"",
    b"\"Catalog\"",
    b"\"Point\"",
    b"\"Polygon\"",
    b"\"MultiPolygon\"",
    b"\"LineString\"",
    b"\"MultiLineString\"",
    b"\"MultiPoint\"",
    b"\"GeometryCollection\"",
    b"\"Coverage\"",
    b"\"CoverageCollection\"",
];

#[cfg(test)]
mod tests;
