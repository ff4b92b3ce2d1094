//! The answers of `tests/corpus`, judged as its README says.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use service_exception::document::{Document, Incomplete, Whole};
use service_exception::{Asked, Disposition, Finding, Operation, Recognizer, ServiceException};

mod documents;
mod rivals;
#[path = "http.rs"]
mod stored;

use stored::Stored;

struct Case {
    file: String,
    request: String,
    post_body: Option<Vec<u8>>,
    verdict: String,
    code: String,
    told_by: String,
    what: String,
    stored: Option<Stored>,
}

impl Case {
    fn asked(&self) -> Asked {
        let mut parts = self.request.split(" [");
        let (method, url) = parts.next().unwrap().split_once(' ').unwrap();
        let mut headers = HeaderMap::new();
        for header in parts {
            let (name, value) = header.trim_end_matches(']').split_once(':').unwrap();
            headers.append(
                HeaderName::from_bytes(name.trim().as_bytes()).unwrap(),
                HeaderValue::from_str(value.trim()).unwrap(),
            );
        }
        let method: Method = method.parse().unwrap();
        let uri: Uri = url.parse().unwrap();
        let operation = Operation::of(&method, &uri, &headers, self.post_body.as_deref());
        Asked::new(&method, &uri, &headers).with_operation(operation)
    }

    fn recognizer(&self, stored: &Stored) -> Recognizer {
        Recognizer::new(self.asked(), stored.status, &stored.headers)
    }

    /// What a reader of the first 2 KB finds.
    fn by_head(&self, stored: &Stored) -> Finding {
        let mut recognizer = self.recognizer(stored);
        match recognizer.push(&stored.body) {
            Finding::Undecided => recognizer.finish(!stored.cut),
            finding => finding,
        }
    }

    /// What a reader of all of it finds.
    fn by_all(&self, stored: &Stored) -> Finding {
        let mut recognizer = self.recognizer(stored).whole_document();
        match recognizer.push(&stored.body) {
            Finding::Undecided => recognizer.finish(!stored.cut),
            finding => finding,
        }
    }

    /// What a reader finds who checks the document as well.
    fn by_document(&self, stored: &Stored, pieces: usize) -> Result<Whole, Incomplete> {
        let mut document = Document::new(&self.asked(), stored.status, &stored.headers);
        for piece in stored.body.chunks(pieces) {
            document.push(piece);
        }
        document.finish()
    }

    /// Only the end of the document, its counts or the transport show this one: no rule of a head can.
    fn is_for_document_checks(&self) -> bool {
        [
            "document end",
            "counts",
            "end-of-body",
            "tail",
            "last line",
            "exception in the body at byte",
            "transport",
        ]
        .iter()
        .any(|start| self.told_by.starts_with(start))
    }

    fn has_code(&self) -> bool {
        !matches!(self.code.as_str(), "-" | "(no code)" | "")
    }
}

#[test]
fn every_answer_is_judged_as_whoever_arranged_it_knows() {
    let mut report = Tally::default();
    for folder in ["modelled", "recorded"] {
        for case in cases(folder) {
            judge(&case, &mut report);
        }
    }
    let told = report.told as f64 / report.tellable.max(1) as f64;
    let summary = format!(
        "{} answers: {} misses, {} false alarms, {} wrong kinds, {} wrong codes; {} of {} ({:.0} %) of what the body says to be transient or throttled \
         without a code is told\n{}",
        report.answers,
        report.misses,
        report.false_alarms,
        report.wrong_kinds,
        report.wrong_codes,
        report.told,
        report.tellable,
        told * 100.0,
        report.lines
    );
    let _ = io::Write::write_all(&mut io::stdout(), summary.as_bytes());
    assert_eq!(
        (
            report.misses,
            report.false_alarms,
            report.wrong_kinds,
            report.wrong_codes
        ),
        (0, 0, 0, 0),
        "{summary}"
    );
    assert!(told >= 0.9, "{summary}");
    assert!(report.answers > 400, "{summary}");
}

/// What only the whole document shows, by file: the root, the code or the words stand beyond the first 2 KB.
const BEYOND_THE_HEAD: &[&str] = &[
    "ows11-comment-over-2k.http",
    "pygeoapi/vanish_items_html.http",
    "mapserver/long_err_130.http",
    "mapserver/long_err_wfs.http",
];

#[test]
fn the_first_2_kb_say_what_the_whole_says() {
    for case in all_cases() {
        let Some(stored) = &case.stored else { continue };
        if BEYOND_THE_HEAD.contains(&case.file.as_str()) {
            continue;
        }
        let kind = |finding| match finding {
            Finding::Exception(exception) => {
                Some((exception.code().map(str::to_owned), exception.disposition()))
            }
            _ => None,
        };
        assert_eq!(
            kind(case.by_head(stored)),
            kind(case.by_all(stored)),
            "{}",
            case.file
        );
    }
}

#[derive(Default)]
struct Tally {
    answers: usize,
    misses: usize,
    false_alarms: usize,
    wrong_kinds: usize,
    wrong_codes: usize,
    tellable: usize,
    told: usize,
    lines: String,
}

fn judge(case: &Case, tally: &mut Tally) {
    if case.told_by.starts_with("NOT") {
        return;
    }
    let Some(stored) = &case.stored else { return };
    tally.answers += 1;
    let by_head = case.by_head(stored);
    let finding = match (case.by_all(stored), &by_head) {
        // What a reader of the head takes for an exception stays one.
        (Finding::Clean, Finding::Exception(_)) => by_head,
        (finding, _) => finding,
    };
    let exception = match finding {
        Finding::Exception(exception) => Some(exception),
        Finding::Clean => None,
        Finding::Undecided => panic!("{}: undecided after the end", case.file),
    };
    let status = stored.status.as_u16();
    let incomplete = case.by_document(stored, usize::MAX).err();
    let mut note = |kind: &str| {
        let _ = writeln!(
            tally.lines,
            "{kind}: {} ({}) {} {} {exception:?} {incomplete:?}",
            case.file, case.what, case.verdict, case.code
        );
    };
    if case.verdict == "ok" && incomplete.is_some() {
        note("false alarm of the document");
        tally.false_alarms += 1;
    }
    if exception.is_none() && status < 300 && !stored.cut && case.verdict != "ok" {
        let right = match &incomplete {
            None => false,
            Some(Incomplete::Exception { exception, .. }) => {
                case.verdict != "transient" || exception.disposition() == Disposition::Transient
            }
            Some(_) => case.verdict == "transient",
        };
        if !right {
            note("miss of the document");
            tally.misses += 1;
        }
        return;
    }
    let failed = exception.is_some() || status >= 400 || status == 302;
    if case.verdict == "ok" {
        if failed {
            note("false alarm");
            tally.false_alarms += 1;
        }
        return;
    }
    if !failed {
        if !stored.cut {
            note("miss");
            tally.misses += 1;
        }
        return;
    }
    let found = exception
        .as_deref()
        .map_or_else(|| by_status(stored.status), ServiceException::disposition);
    let right = match found {
        Disposition::Transient => case.verdict == "transient",
        Disposition::Throttled => case.verdict == "throttled",
        Disposition::Permanent => case.verdict == "permanent",
        Disposition::Ambiguous => false,
    };
    let vague = !case.has_code() || case.code.eq_ignore_ascii_case("NoApplicableCode");
    let allowed = right
        || vague && found == Disposition::Ambiguous
        || status >= 500
            && !case.has_code()
            && matches!(found, Disposition::Ambiguous | Disposition::Transient);
    if !allowed {
        note("wrong kind");
        tally.wrong_kinds += 1;
    }
    let code = exception.as_deref().and_then(ServiceException::code);
    if !same_code(&case.code, code) && !stored.cut {
        note("wrong code");
        tally.wrong_codes += 1;
    }
    if vague
        && matches!(case.verdict.as_str(), "transient" | "throttled")
        && exception.is_some()
        && says_why(case)
    {
        tally.tellable += 1;
        tally.told += usize::from(right);
        if !right {
            note("not told");
        }
    }
}

/// What the status alone says, for answers in whose body nothing is to be found.
fn by_status(status: StatusCode) -> Disposition {
    match status.as_u16() {
        429 => Disposition::Throttled,
        408 | 425 | 502..=504 | 520..=524 | 529 | 530 => Disposition::Transient,
        500 => Disposition::Ambiguous,
        _ => Disposition::Permanent,
    }
}

/// Codes are compared as they stand; where the index kept only a code's first word, that.
fn same_code(expected: &str, found: Option<&str>) -> bool {
    match (expected, found) {
        ("-" | "(no code)" | "", None) => true,
        ("-" | "(no code)" | "", Some(_)) => false,
        (expected, Some(found)) => {
            found == expected
                || found
                    .strip_prefix(expected)
                    .is_some_and(|rest| rest.starts_with(' '))
        }
        _ => false,
    }
}

/// Bodies that say only that something failed cannot be told.
fn says_why(case: &Case) -> bool {
    let Some(stored) = &case.stored else {
        return false;
    };
    let body = String::from_utf8_lossy(&stored.body).to_ascii_lowercase();
    !["internal error", "<title>500 internal"]
        .iter()
        .any(|nothing| body.trim().starts_with(nothing) || body.contains("<title>500 internal"))
        && !body.contains("no items")
}

fn cases(folder: &str) -> Vec<Case> {
    let root = root().join(folder);
    let index = fs::read_to_string(root.join("index.tsv")).unwrap();
    let mut lines = index.lines();
    let names: Vec<String> = fields(lines.next().unwrap());
    let column = |name: &str| names.iter().position(|known| known == name);
    lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let fields = fields(line);
            let field = |name: &str| {
                column(name)
                    .and_then(|at| fields.get(at))
                    .cloned()
                    .unwrap_or_default()
            };
            let file = field("file");
            let body =
                Some(field("post_body_file")).filter(|file| !matches!(file.as_str(), "" | "-"));
            Case {
                stored: stored::read(&fs::read(root.join(&file)).unwrap()),
                request: field("request"),
                post_body: body.map(|file| fs::read(root.join(file)).unwrap()),
                verdict: field("verdict"),
                code: field("exception_code"),
                told_by: field("told_by"),
                what: field("what"),
                file,
            }
        })
        .collect()
}

/// Tab-separated, quoted as in RFC 4180 where a field holds a quote.
fn fields(line: &str) -> Vec<String> {
    line.split('\t')
        .map(|field| {
            match field
                .strip_prefix('"')
                .and_then(|field| field.strip_suffix('"'))
            {
                Some(quoted) => quoted.replace("\"\"", "\""),
                None => field.to_owned(),
            }
        })
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus")
}

#[test]
fn the_finding_is_the_same_however_the_bytes_are_split() {
    for case in all_cases() {
        let Some(stored) = &case.stored else { continue };
        for whole in [false, true] {
            let body = &stored.body[..stored.body.len().min(if whole { 6000 } else { 3000 })];
            let read = |sizes: &[usize]| {
                let recognizer = case.recognizer(stored);
                let mut recognizer = if whole {
                    recognizer.whole_document()
                } else {
                    recognizer
                };
                let mut rest = body;
                for size in sizes.iter().cycle() {
                    if rest.is_empty() {
                        break;
                    }
                    let (piece, after) = rest.split_at(rest.len().min(*size));
                    rest = after;
                    match recognizer.push(piece) {
                        Finding::Undecided => {}
                        finding => return finding,
                    }
                }
                recognizer.finish(!stored.cut)
            };
            let at_once = read(&[usize::MAX]);
            for sizes in [&[1][..], &[2], &[3, 1], &[7], &[64, 1], &[500], &[1, 2000]] {
                assert_eq!(read(sizes), at_once, "{} in pieces of {sizes:?}", case.file);
            }
            let last = case.recognizer(stored);
            let mut last = if whole { last.whole_document() } else { last };
            if !stored.cut {
                assert_eq!(
                    last.push_last(body),
                    at_once,
                    "{} as the last piece",
                    case.file
                );
            }
        }
    }
}

#[test]
fn a_good_answer_stays_good_at_every_length() {
    for case in all_cases() {
        let Some(stored) = &case.stored else { continue };
        if case.verdict != "ok" {
            continue;
        }
        for end in 1..stored.body.len().min(2500) {
            let mut recognizer = case.recognizer(stored);
            let finding = match recognizer.push(&stored.body[..end]) {
                Finding::Undecided => recognizer.finish(false),
                finding => finding,
            };
            assert_eq!(finding, Finding::Clean, "{} cut at {end}", case.file);
        }
    }
}

#[test]
fn blanks_comments_and_a_byte_order_mark_change_nothing() {
    for case in all_cases() {
        let Some(stored) = &case.stored else { continue };
        let body = &stored.body;
        let is_xml =
            body.starts_with(b"<?xml") || body.starts_with(b"<") && !body.starts_with(b"<!");
        let is_json = body.starts_with(b"{") || body.starts_with(b"[");
        let kind = |body: &[u8]| {
            let mut recognizer = case.recognizer(stored).with_limit(4096);
            match recognizer.push_last(body) {
                Finding::Exception(exception) => Some((
                    exception.code().map(str::to_owned),
                    exception.message().to_owned(),
                    exception.disposition(),
                )),
                _ => None,
            }
        };
        let body = &body[..body.len().min(3000)];
        let plain = kind(body);
        let leads: &[&[u8]] = match (is_xml, is_json) {
            (true, _) => &[
                b"\xEF\xBB\xBF",
                b"\r\n\t ",
                b"<!-- <ServiceExceptionReport> ' -->",
                b"\xEF\xBB\xBF\n<?pi <ExceptionReport> ?>\n<!---->",
            ],
            (_, true) => &[b"\xEF\xBB\xBF", b"\r\n\t ", b"\xEF\xBB\xBF\n"],
            _ => &[],
        };
        for lead in leads {
            assert_eq!(
                kind(&[lead, body].concat()),
                plain,
                "{} after {:?}",
                case.file,
                String::from_utf8_lossy(lead)
            );
        }
    }
}

#[test]
fn the_media_type_decides_nothing() {
    for case in all_cases() {
        let Some(stored) = &case.stored else { continue };
        let kind = |media_type: Option<&'static str>| {
            let mut headers = stored.headers.clone();
            headers.remove("content-type");
            if let Some(media_type) = media_type {
                headers.insert("content-type", HeaderValue::from_static(media_type));
            }
            kind(Recognizer::new(case.asked(), stored.status, &headers).push_last(&stored.body))
        };
        let plain = kind(None);
        for media_type in [
            "text/html",
            "image/png",
            "application/octet-stream",
            "text/xml; charset=utf-8",
            "application/json",
            "application/vnd.ogc.se_xml",
            "text/plain",
        ] {
            // What an image's label is on, a challenge's header may change; nothing of that is here.
            assert_eq!(
                kind(Some(media_type)),
                plain,
                "{} as {media_type}",
                case.file
            );
        }
    }
}

#[test]
fn the_encoding_and_the_spacing_change_nothing() {
    for case in all_cases() {
        let Some(stored) = &case.stored else { continue };
        let body = &stored.body[..stored.body.len().min(1000)];
        let Ok(text) = std::str::from_utf8(body) else {
            continue;
        };
        if text.contains("encoding=\"ISO") {
            continue;
        }
        let read = |body: &[u8]| kind(case.recognizer(stored).with_limit(8192).push_last(body));
        let plain = read(body);
        if text.trim_start().starts_with(['<', '{', '[']) {
            for (mark, unit) in [
                (&b"\xFF\xFE"[..], u16::to_le_bytes as fn(u16) -> [u8; 2]),
                (b"\xFE\xFF", u16::to_be_bytes),
            ] {
                let wide: Vec<u8> = text.encode_utf16().flat_map(unit).collect();
                assert_eq!(
                    read(&[mark, &wide].concat()),
                    plain,
                    "{} in UTF-16 with a mark",
                    case.file
                );
                assert_eq!(read(&wide), plain, "{} in UTF-16", case.file);
            }
        }
        if text.starts_with(['{', '[']) {
            assert_eq!(read(spaced(text).as_bytes()), plain, "{} spaced", case.file);
        }
        if text.starts_with('<') {
            assert_eq!(
                read(text.replace(' ', "\r\n\t ").as_bytes()).map(|(code, _)| code),
                plain.map(|(code, _)| code),
                "{} spaced",
                case.file
            );
        }
    }
}

/// JSON with blanks wherever they may stand.
fn spaced(text: &str) -> String {
    let mut spaced = String::new();
    let (mut within, mut escaped) = (false, false);
    for character in text.chars() {
        let is_mark = !within && matches!(character, '{' | '}' | '[' | ']' | ':' | ',');
        if is_mark {
            spaced.push_str("\r\n\t ");
        }
        spaced.push(character);
        if is_mark {
            spaced.push(' ');
        }
        within ^= character == '"' && !escaped;
        escaped = character == '\\' && !escaped;
    }
    spaced
}

fn kind(finding: Finding) -> Option<(Option<String>, Disposition)> {
    match finding {
        Finding::Exception(exception) => {
            Some((exception.code().map(str::to_owned), exception.disposition()))
        }
        _ => None,
    }
}

fn all_cases() -> impl Iterator<Item = Case> {
    cases("modelled").into_iter().chain(cases("recorded"))
}
