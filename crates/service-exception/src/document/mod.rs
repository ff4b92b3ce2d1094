//! Whether the document of an answer is all there.

use encoding_rs::{CoderResult, Decoder};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::form::text;
use crate::kvp::{self, contains_ignore_case, find_ignore_case};
use crate::{Asked, Expected, Protocol};

mod capture;
mod ending;
mod framing;
mod gather;
mod gif;
mod incomplete;
mod jpeg;
mod json;
mod png;
mod scan;
mod sized;
mod tiff;
mod xml;

pub use framing::Framing;
pub use incomplete::{Format, Incomplete};

/// Checks a whole answer while it passes: that its document is closed, holds as many members as it announces, and no
/// exception in its midst.
///
/// It takes the decoded body (no `Content-Encoding`) in any number of pieces, and keeps none of it but short heads and
/// tails, whatever the body's size. The first bytes say what is to be checked, since media types lie; a form that is not
/// known, a page, and an answer without a document (a status other than 2xx, a part of a file) are whole as they come.
///
/// ```
/// use http::{HeaderMap, Method, StatusCode, Uri};
/// use service_exception::document::{Document, Format, Incomplete};
/// use service_exception::Asked;
///
/// let uri = Uri::from_static("https://gis.example.org/wfs?service=WFS&version=2.0.0&request=GetFeature&typeNames=a");
/// let asked = Asked::new(&Method::GET, &uri, &HeaderMap::new());
/// let check = |body: &[u8]| {
///     let mut document = Document::new(&asked, StatusCode::OK, &HeaderMap::new());
///     document.push(body);
///     document.finish()
/// };
/// let whole = check(b"<FeatureCollection numberReturned='1'><member><a/></member></FeatureCollection>").unwrap();
/// assert_eq!((whole.format(), whole.members()), (Some(Format::Xml), Some(1)));
/// let cut = check(b"<FeatureCollection numberReturned='1'><member><a/></mem");
/// assert_eq!(cut, Err(Incomplete::NotClosed { format: Format::Xml, came: 55 }));
/// let short = check(b"<FeatureCollection numberReturned='2'><member><a/></member></FeatureCollection>");
/// assert_eq!(short, Err(Incomplete::Members { expected: 2, came: 1 }));
/// ```
#[derive(Debug)]
pub struct Document {
    asked: Asked,
    expects: Expects,
    label: Label,
    /// The first bytes, until they are enough to tell the form.
    head: Vec<u8>,
    reader: Reader,
    decoder: Option<Box<Decoder>>,
    /// Bytes that came, and bytes that the reader was given: they differ where the text is transcoded.
    came: u64,
    given: u64,
}

/// What is known of a document that is all there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    format: Option<Format>,
    members: Option<u64>,
    matched: Option<u64>,
    has_next: bool,
}

impl Whole {
    /// Its form; `None` where nothing was checked.
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    /// Members of the feature collection or of the list of collections that came; of a CSV, its lines but the first.
    pub fn members(&self) -> Option<u64> {
        self.members
    }

    /// How many members match the query by the document's own account (`numberMatched`, WFS 1.1's `numberOfFeatures`);
    /// those of further pages are among them.
    pub fn matched(&self) -> Option<u64> {
        self.matched
    }

    /// Whether the document names a next page: it is one page of several, whatever was asked for.
    pub fn has_next(&self) -> bool {
        self.has_next
    }
}

#[derive(Clone, Copy, Debug)]
struct Expects {
    /// No document can come: a status that has none, an answer to HEAD.
    nothing: bool,
    /// An answer without a byte is none.
    something: bool,
    /// Members by a header (OGC API Features part 1, 7.16 permission 9 and requirement 33).
    members: Option<u64>,
    /// Only the number is asked for.
    hits: bool,
    /// The request's body, which is not seen here, may have asked for the number only.
    perhaps_hits: bool,
    json: bool,
    xml: bool,
    tile: bool,
    csv: bool,
    /// An image, an archive or other data.
    data: bool,
}

/// What the media type says.
#[derive(Debug, Default)]
struct Label {
    /// It says something: there is one, and it is not that of any bytes.
    any: bool,
    xml: bool,
    json: bool,
    data: bool,
    html: bool,
    csv: bool,
    dxf: bool,
    tile: bool,
    script: bool,
    lines: bool,
    boundary: Option<Box<[u8]>>,
}

#[derive(Debug)]
enum Reader {
    /// The form is not known yet.
    Head,
    /// Nothing but blanks so far.
    Blank,
    Unknown,
    /// Cut within its magic number.
    Begun(Format),
    Xml(Box<xml::Xml>),
    Json(Box<json::Json>),
    Png(png::Png),
    Jpeg(jpeg::Jpeg),
    Gif(gif::Gif),
    WebP(sized::WebP),
    Tiff(Box<tiff::Tiff>),
    Zip(ending::Zip),
    Sqlite(sized::Sqlite),
    Words(ending::LastWords),
    Csv(ending::Csv),
    VectorTile(sized::VectorTile),
}

/// What a reader found in a document that is closed.
#[derive(Debug, Default)]
struct Found {
    members: Option<u64>,
    announced: Option<u64>,
    matched: Option<u64>,
    has_next: bool,
}

/// Enough for every magic number, and for the name of a callback.
const HEAD: usize = 128;

impl Document {
    /// For the answer with `status` and `headers` to the request `asked`.
    pub fn new(asked: &Asked, status: StatusCode, headers: &HeaderMap) -> Self {
        let label = Label::read(headers.get(CONTENT_TYPE));
        let operation = asked.operation();
        let expected = operation.expected();
        let csv = asked_for_csv(asked);
        let expects = Expects {
            nothing: is_bodiless(asked.method(), status)
                || !status.is_success()
                || status == StatusCode::PARTIAL_CONTENT && label.boundary.is_none(),
            something: status == StatusCode::OK && is_due(asked, &label),
            members: number(headers, "ogc-numberreturned"),
            hits: parameter_is(asked, b"resulttype", "hits"),
            perhaps_hits: *asked.method() == Method::POST,
            json: label.json || expected == Expected::Json,
            xml: label.xml || expected == Expected::Xml,
            tile: label.tile || expected == Expected::VectorTile,
            csv: label.csv || csv && !label.html && !label.json && !label.xml,
            data: label.data || matches!(expected, Expected::Image | Expected::Binary),
        };
        Self {
            asked: asked.clone(),
            reader: if expects.nothing {
                Reader::Unknown
            } else {
                Reader::Head
            },
            expects,
            label,
            head: Vec::new(),
            decoder: None,
            came: 0,
            given: 0,
        }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.came += bytes.len() as u64;
        match self.reader {
            Reader::Unknown => {}
            Reader::Head => {
                if self.head.is_empty() && bytes.len() >= HEAD {
                    self.begin(bytes);
                    return;
                }
                self.head.extend_from_slice(bytes);
                if self.head.len() >= HEAD {
                    let head = std::mem::take(&mut self.head);
                    self.begin(&head);
                }
            }
            _ => self.give(bytes, false),
        }
    }

    /// The body has ended: says whether that is all of it.
    ///
    /// # Errors
    /// What was expected and what came, where something is missing, or where an exception stands in the document.
    pub fn finish(mut self) -> Result<Whole, Incomplete> {
        if matches!(self.reader, Reader::Head) {
            let head = std::mem::take(&mut self.head);
            self.begin(&head);
        }
        if self.decoder.is_some() {
            self.give(&[], true);
        }
        let came = self.given;
        let plain = |result: Result<(), Incomplete>| result.map(|()| Found::default());
        let (format, found) = match &mut self.reader {
            Reader::Head | Reader::Blank if self.expects.something => {
                return Err(Incomplete::Empty);
            }
            Reader::Head | Reader::Blank | Reader::Unknown => return Ok(Whole::default()),
            Reader::Begun(format) => {
                let format = *format;
                return Err(Incomplete::NotClosed { format, came });
            }
            Reader::Xml(xml) => (Format::Xml, xml.finish(came, &self.asked)?),
            Reader::Json(json) => (Format::Json, json.finish(came, &self.asked)?),
            Reader::Png(png) => (Format::Png, plain(png.finish(came))?),
            Reader::Jpeg(jpeg) => (Format::Jpeg, plain(jpeg.finish(came))?),
            Reader::Gif(gif) => (Format::Gif, plain(gif.finish(came))?),
            Reader::WebP(webp) => (Format::WebP, plain(webp.finish(came))?),
            Reader::Tiff(tiff) => (Format::Tiff, plain(tiff.finish(came))?),
            Reader::Zip(zip) => (Format::Zip, plain(zip.finish(came))?),
            Reader::Sqlite(sqlite) => (Format::Sqlite, plain(sqlite.finish(came))?),
            Reader::Words(words) => (words.format(), plain(words.finish(came))?),
            Reader::Csv(csv) => (Format::Csv, csv.finish(came)?),
            Reader::VectorTile(tile) => (Format::VectorTile, plain(tile.finish(came))?),
        };
        let members = found.members;
        let announced = found.announced.or(self.expects.members);
        if let (Some(came), Some(expected)) = (members, announced)
            && came < expected
            && !self.expects.hits
            && !(came == 0 && self.expects.perhaps_hits)
        {
            return Err(Incomplete::Members { expected, came });
        }
        Ok(Whole {
            format: Some(format),
            members,
            matched: found.matched,
            has_next: found.has_next,
        })
    }

    /// Chooses the reader by the first bytes: [`HEAD`] of them, or all there are.
    #[cold]
    fn begin(&mut self, head: &[u8]) {
        let (reader, from) = self.choose(&head[..head.len().min(HEAD)]);
        self.reader = reader;
        if let Reader::Xml(_) | Reader::Json(_) | Reader::Blank = self.reader
            && let Some(encoding) = text::utf16(head)
        {
            self.reader = Reader::Blank;
            self.decoder = Some(Box::new(encoding.new_decoder_with_bom_removal()));
            self.give(head, false);
            return;
        }
        self.given = from as u64;
        self.give(&head[from..], false);
    }

    fn choose(&self, head: &[u8]) -> (Reader, usize) {
        let by_magic = match head {
            [] => return (Reader::Blank, 0),
            [0x89, b'P', b'N', b'G', ..] => Some(Reader::Png(png::Png::default())),
            [0xFF, 0xD8, 0xFF, ..] | [0xFF, 0xD8] => Some(Reader::Jpeg(jpeg::Jpeg::default())),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => {
                Some(Reader::Gif(gif::Gif::default()))
            }
            [b'I', b'I', 42 | 43, 0, ..] | [b'M', b'M', 0, 42 | 43, ..] => {
                Some(Reader::Tiff(Box::new(tiff::Tiff::new())))
            }
            [b'P', b'K', 3, 4, ..] | [b'P', b'K', 5, 6, ..] => {
                Some(Reader::Zip(ending::Zip::new()))
            }
            _ if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") => {
                Some(Reader::WebP(sized::WebP::default()))
            }
            _ if head.starts_with(b"SQLite format 3\0") => {
                Some(Reader::Sqlite(sized::Sqlite::default()))
            }
            _ if head.starts_with(b"%PDF-") => Some(Reader::Words(ending::LastWords::pdf())),
            [0x1A, ..] if self.expects.tile => {
                Some(Reader::VectorTile(sized::VectorTile::default()))
            }
            _ => None,
        };
        if let Some(reader) = by_magic {
            return (reader, 0);
        }
        if self.expects.data
            && let Some(format) = begun(head)
        {
            return (Reader::Begun(format), 0);
        }
        if text::utf16(head).is_some() {
            return (Reader::Blank, 0);
        }
        if let Some(boundary) = &self.label.boundary {
            return (Reader::Words(ending::LastWords::multipart(boundary)), 0);
        }
        if self.label.dxf && !head.starts_with(b"<") {
            return (Reader::Words(ending::LastWords::dxf()), 0);
        }
        let from = head.len() - text::without_bom(head).len();
        let blanks = head[from..]
            .iter()
            .take_while(|&&byte| is_blank(byte))
            .count();
        if from + blanks == head.len() {
            return (Reader::Blank, from);
        }
        let (reader, call) = self.choose_text(&head[from + blanks..]);
        (reader, from + blanks + call)
    }

    /// The reader of a text without leading blanks, and where it begins; at least one byte of it is there.
    fn choose_text(&self, text: &[u8]) -> (Reader, usize) {
        let xml = || Reader::Xml(Box::new(xml::Xml::new(self.expects.members)));
        let json = |style| Reader::Json(Box::new(json::Json::new(style)));
        let value = if self.label.lines {
            json::Style::Sequence
        } else {
            json::Style::Value
        };
        let is_text = self.label.any && !self.expects.json;
        let reader = match text {
            [b'<', ..] if self.label.html => Reader::Unknown,
            [b'<', b'?', b'x', ..] => xml(),
            [b'<', ..] if self.expects.xml || self.expects.json || !self.label.any => xml(),
            // Brackets in a log or in words are no JSON.
            [b'{' | b'[', rest @ ..] if !is_text || is_json(rest) => json(value),
            [0x1E, ..] if !is_text => json(json::Style::Sequence),
            _ if self.expects.csv => Reader::Csv(ending::Csv::default()),
            _ => match call(text).filter(|_| self.label.script || self.expects.json) {
                Some(from) => return (json(json::Style::Call), from),
                None if self.label.script && begins_call(text) => Reader::Begun(Format::Json),
                // Too little of a document to begin like one.
                None if text.len() < 4 && self.expects.something => Reader::Begun(match () {
                    () if self.expects.json => Format::Json,
                    () if self.expects.xml => Format::Xml,
                    () => return (Reader::Unknown, 0),
                }),
                None => Reader::Unknown,
            },
        };
        (reader, 0)
    }

    fn give(&mut self, bytes: &[u8], last: bool) {
        let Some(mut decoder) = self.decoder.take() else {
            self.read(bytes);
            return;
        };
        let mut text = [0; 4096];
        let mut rest = bytes;
        loop {
            let (result, read, written, _) = decoder.decode_to_utf8(rest, &mut text, last);
            rest = &rest[read..];
            self.read(&text[..written]);
            if result == CoderResult::InputEmpty {
                break;
            }
        }
        if !last {
            self.decoder = Some(decoder);
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        let at = self.given;
        self.given += bytes.len() as u64;
        match &mut self.reader {
            Reader::Head | Reader::Unknown | Reader::Begun(_) => {}
            Reader::Blank => {
                let blanks = bytes.iter().take_while(|&&byte| is_blank(byte)).count();
                if blanks < bytes.len() {
                    // Behind more blanks than anybody writes, the first byte has to be enough.
                    self.reader = match bytes[blanks] {
                        b'<' if !self.label.html => {
                            Reader::Xml(Box::new(xml::Xml::new(self.expects.members)))
                        }
                        b'{' | b'[' if self.expects.json || !self.label.any => {
                            Reader::Json(Box::new(json::Json::new(json::Style::Value)))
                        }
                        _ => Reader::Unknown,
                    };
                    self.given = at + blanks as u64;
                    self.read(&bytes[blanks..]);
                }
            }
            Reader::Xml(xml) => xml.push(bytes, at),
            Reader::Json(json) => json.push(bytes, at),
            Reader::Png(png) => png.push(bytes, at),
            Reader::Jpeg(jpeg) => jpeg.push(bytes),
            Reader::Gif(gif) => gif.push(bytes, at),
            Reader::WebP(webp) => webp.push(bytes),
            Reader::Tiff(tiff) => tiff.push(bytes, at),
            Reader::Zip(zip) => zip.push(bytes),
            Reader::Sqlite(sqlite) => sqlite.push(bytes),
            Reader::Words(words) => words.push(bytes),
            Reader::Csv(csv) => csv.push(bytes),
            Reader::VectorTile(tile) => tile.push(bytes, at),
        }
    }
}

impl Label {
    fn read(content_type: Option<&HeaderValue>) -> Self {
        let value = content_type.map_or(&[][..], HeaderValue::as_bytes);
        let essence = value
            .split(|&byte| byte == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        let has = |word| contains_ignore_case(essence, word);
        let xml = has("xml") || has("gml") || has("kml") || has("gpx") || has("svg");
        let tile = has("protobuf") || has("vector-tile") || has("mvt");
        Self {
            any: !essence.is_empty() && !has("octet-stream") && !has("unknown"),
            xml: xml && !has("xhtml") && !has("openxml"),
            json: has("json"),
            data: (has("image/") && !xml && !has("dxf"))
                || has("zip")
                || has("pdf")
                || has("sqlite")
                || has("geopackage"),
            html: has("html"),
            csv: has("csv") || has("comma-separated"),
            dxf: has("dxf"),
            tile,
            script: has("javascript"),
            lines: has("json-seq") || has("ndjson") || has("jsonl") || has("json-lines"),
            boundary: if has("multipart/") && !has("mixed-replace") {
                boundary(value)
            } else {
                None
            },
        }
    }
}

/// RFC 2046, section 5.1.1: quoted or not.
fn boundary(content_type: &[u8]) -> Option<Box<[u8]>> {
    let at = find_ignore_case(content_type, "boundary=")?;
    let value = &content_type[at + "boundary=".len()..];
    let value = match value.strip_prefix(b"\"") {
        Some(quoted) => &quoted[..memchr::memchr(b'"', quoted)?],
        None => value.split(|&byte| byte == b';').next()?.trim_ascii(),
    };
    (!value.is_empty()).then(|| value.into())
}

fn is_bodiless(method: &Method, status: StatusCode) -> bool {
    *method == Method::HEAD
        || *method == Method::CONNECT
        || status.is_informational()
        || matches!(
            status,
            StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
        )
}

/// Whether a 200 without a byte lacks the document that was asked for.
fn is_due(asked: &Asked, label: &Label) -> bool {
    let operation = asked.operation();
    // A point query without a hit may have nothing to say.
    if label.tile || operation.name() == "GetFeatureInfo" {
        return false;
    }
    match operation.expected() {
        Expected::Image | Expected::Xml | Expected::Binary => true,
        // MapServer writes nothing where a feature query has no hits.
        Expected::Json => operation.protocol() != Protocol::Wfs,
        Expected::Unknown => {
            operation.is_safe_to_repeat() && (label.data || label.xml || label.json)
        }
        Expected::VectorTile | Expected::Html | Expected::Text => false,
    }
}

fn asked_for_csv(asked: &Asked) -> bool {
    parameters(asked).any(|(name, value)| {
        matches!(&*name, b"outputformat" | b"format" | b"f") && value.contains_ignore_case("csv")
    })
}

fn parameter_is(asked: &Asked, name: &[u8], expected: &str) -> bool {
    parameters(asked).any(|(found, value)| found == name && value.eq_ignore_case(expected))
}

fn parameters(asked: &Asked) -> impl Iterator<Item = (Vec<u8>, kvp::Decoded<'_>)> {
    kvp::pairs(asked.query().as_bytes()).map(|pair| {
        let mut buffer = [0; 16];
        (pair.lower_name(&mut buffer).to_vec(), pair.value())
    })
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace()
}

/// Data that was cut within its magic number.
fn begun(head: &[u8]) -> Option<Format> {
    let magic: [(&[u8], Format); 12] = [
        (png::Png::SIGNATURE, Format::Png),
        (b"\xFF\xD8\xFF", Format::Jpeg),
        (b"GIF89a", Format::Gif),
        (b"GIF87a", Format::Gif),
        (b"II\x2A\0", Format::Tiff),
        (b"MM\0\x2A", Format::Tiff),
        (b"PK\x03\x04", Format::Zip),
        (b"PK\x05\x06", Format::Zip),
        (b"II\x2B\0", Format::Tiff),
        (b"MM\0\x2B", Format::Tiff),
        (b"%PDF-", Format::Pdf),
        (b"SQLite format 3\0", Format::Sqlite),
    ];
    let begun = magic.iter().find(|(magic, _)| magic.starts_with(head));
    let webp = || {
        let is_riff = b"RIFF".starts_with(&head[..head.len().min(4)]);
        let rest = head.get(8..).unwrap_or_default();
        is_riff && head.len() < 12 && b"WEBP".starts_with(rest)
    };
    let format = begun.map(|&(_, format)| format);
    format.or_else(|| webp().then_some(Format::WebP))
}

/// Whether what follows a bracket at the beginning of a text can be JSON.
fn is_json(rest: &[u8]) -> bool {
    let first = rest.iter().find(|&&byte| !is_blank(byte));
    first.is_some_and(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']' | b'0'..=b'9' | b'-'))
}

/// Where the value in `callback(…)` begins; a comment may come before it (JSONP against content sniffing).
fn call(text: &[u8]) -> Option<usize> {
    let body = text.strip_prefix(b"/**/").unwrap_or(text);
    let from = text.len() - body.len();
    let name = body
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.'))
        .count();
    (name > 0 && body.get(name) == Some(&b'(')).then_some(from + name + 1)
}

/// Whether the text ends before the parenthesis of a call.
fn begins_call(text: &[u8]) -> bool {
    let name = text.strip_prefix(b"/**/").unwrap_or(text);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.');
    text.len() < HEAD && (b"/**/".starts_with(text) || name.iter().all(is_name))
}
