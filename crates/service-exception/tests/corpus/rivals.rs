//! What other clients' rules make of the same answers. The rules are stated from their documentation and sources' behaviour
//! and written anew; the table stands in COMPARE.md.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use service_exception::Finding;

use crate::stored::Stored;
use crate::{Case, all_cases};

type Rule = fn(&Case, &Stored) -> bool;

/// Name, what it looks at, and the rule: whether an answer is taken for a failure.
const RULES: &[(&str, &str, Rule)] = &[
    ("HTTP status alone", "4xx and 5xx", |_, stored| {
        stored.status.as_u16() >= 400
    }),
    (
        "GDAL, WMS",
        "4xx and 5xx; 20 bytes and more that begin with `<?xml `, `<!DOCTYPE ` or `<ServiceException`",
        |_, stored| {
            let starts = |start: &str| stored.body.starts_with(start.as_bytes());
            stored.status.as_u16() >= 400
                || stored.body.len() >= 20
                    && (starts("<?xml ") || starts("<!DOCTYPE ") || starts("<ServiceException"))
        },
    ),
    (
        "OGR, WFS",
        "4xx and 5xx; `<ServiceExceptionReport` or `<ows:ExceptionReport` anywhere",
        |_, stored| {
            let contains =
                |part: &str| memchr::memmem::find(&stored.body, part.as_bytes()).is_some();
            stored.status.as_u16() >= 400
                || contains("<ServiceExceptionReport")
                || contains("<ows:ExceptionReport")
        },
    ),
    (
        "OWSLib",
        "400, 401, 403, 404, 500, 502 to 504; a media type that is exactly XML's, and an exception as the root's child",
        owslib,
    ),
    (
        "MapProxy, as a client",
        "4xx and 5xx, 204; a media type that is not an image's where an image was asked for",
        mapproxy,
    ),
    (
        "this crate",
        "as documented, whole document",
        |case, stored| {
            stored.status.as_u16() >= 400
                || stored.status.is_redirection() && stored.status.as_u16() != 304
                || matches!(case.by_all(stored), Finding::Exception(_))
        },
    ),
];

fn owslib(_: &Case, stored: &Stored) -> bool {
    if matches!(
        stored.status.as_u16(),
        400 | 401 | 403 | 404 | 500 | 502..=504
    ) {
        return true;
    }
    let media_type = stored
        .headers
        .get("content-type")
        .map(|value| value.as_bytes());
    if !matches!(
        media_type,
        Some(b"text/xml" | b"application/xml" | b"application/vnd.ogc.se_xml")
    ) {
        return false;
    }
    // A root of one of the namespaces it knows, with the exception right below.
    let text = String::from_utf8_lossy(&stored.body);
    let known = [
        "http://www.opengis.net/ows\"",
        "http://www.opengis.net/ows/1.1\"",
        "http://www.opengis.net/ogc\"",
    ];
    let plain = text.contains("<ServiceException") || text.contains(":ServiceException");
    let ows = text.contains("Exception ")
        && text.contains("ExceptionReport")
        && known.iter().any(|namespace| text.contains(namespace));
    let root = text.trim_start_matches('\u{FEFF}').trim_start();
    root.starts_with('<')
        && (plain && text.contains("ServiceExceptionReport") || ows)
        && !text.contains("FeatureCollection")
        && !text.contains("Capabilities")
}

fn mapproxy(case: &Case, stored: &Stored) -> bool {
    let asks_for_image = case.request.contains("GetMap")
        || case.request.contains("request=map")
        || case.request.contains("GetTile")
        || case.request.contains(".png");
    let media_type = stored
        .headers
        .get("content-type")
        .and_then(|value| value.to_str().ok())
        .unwrap_or("image");
    stored.status.as_u16() >= 400
        || stored.status.as_u16() == 204
        || asks_for_image && !media_type.starts_with("image")
}

#[test]
fn the_comparison_is_made_from_the_corpus() {
    let mut table = String::from(
        "| rule | takes for a failure | missed, all statuses | missed, 2xx | false alarms |\n|---|---|---|---|---|\n",
    );
    for (name, what, rule) in RULES {
        let (mut failures, mut missed, mut quiet, mut missed_quiet, mut good, mut alarms) =
            (0, 0, 0, 0, 0, 0);
        for case in all_cases() {
            let Some(stored) = &case.stored else { continue };
            if case.told_by.starts_with("NOT")
                || case.is_for_document_checks() && case.told_by != "end-of-body"
                || stored.cut
            {
                continue;
            }
            if case.told_by == "end-of-body"
                && !matches!(case.by_all(stored), Finding::Exception(_))
            {
                continue;
            }
            let fires = rule(&case, stored);
            if case.verdict == "ok" {
                good += 1;
                alarms += usize::from(fires);
            } else {
                failures += 1;
                missed += usize::from(!fires);
                if stored.status.is_success() {
                    quiet += 1;
                    missed_quiet += usize::from(!fires);
                }
            }
        }
        if *name == "this crate" {
            assert_eq!((missed, alarms), (0, 0));
        }
        writeln!(table, "| {name} | {what} | {missed} of {failures} | {missed_quiet} of {quiet} | {alarms} of {good} |").unwrap();
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../COMPARE.md");
    let text = format!("{HEAD}{table}{TAIL}");
    if std::env::var_os("UPDATE_TABLE").is_some() {
        fs::write(&file, &text).unwrap();
    }
    assert_eq!(
        fs::read_to_string(file).unwrap(),
        text,
        "run this test with UPDATE_TABLE=1"
    );
}

const HEAD: &str = "\
# Compared

## Which failures a rule sees

The answers of `tests/corpus` (modelled after what services are known to send, and recorded from real servers), each judged by
whoever arranged it. Left out: what nothing in the answer shows, and what only a check of the whole document shows. The mix was
chosen by hand: the figures rank the rules, they say nothing of how often each failure occurs. Made by
`cargo test -p service-exception --test corpus`, which fails where this page differs.

";

const TAIL: &str = "
What is missed at 200 ends as data: an error page kept as a tile, a token error as an empty layer. A false alarm takes a good
answer away: each capabilities document begins with `<?xml `. GDAL applies its rule to images only, where it gives none.
";
