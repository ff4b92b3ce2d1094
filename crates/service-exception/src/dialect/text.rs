use super::{Answer, Content, Dialect, Report};
use crate::Expected;
use crate::kvp::contains_ignore_case;

/// Words where data was asked for.
#[derive(Debug)]
pub(super) struct PlainText;

impl Dialect for PlainText {
    fn name(&self) -> &'static str {
        "plain-text"
    }

    fn summary(&self) -> &'static str {
        "plain text with a 4xx or 5xx, or where an image, JSON or XML was asked for (MapServer, MapProxy, Nominatim, Cloudflare, proxies)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let Content::Text(text) = answer.content() else {
            return None;
        };
        let text = text.trim();
        if !answer.has_failed() {
            let asked_for_data = matches!(
                answer.asked().operation().expected(),
                Expected::Image
                    | Expected::Json
                    | Expected::Xml
                    | Expected::VectorTile
                    | Expected::Binary
            );
            // A multipart body, a JSON scalar and code begin otherwise than words do.
            let words =
                text.starts_with(|character: char| character.is_alphabetic()) && !is_scalar(text);
            // What a point query answers is text as often as not, whatever was asked for.
            let is_point_query = answer.asked().operation().name() == "GetFeatureInfo";
            if is_point_query || !asked_for_data || !words || !reads_like_words(text) {
                return None;
            }
        }
        let report = Report::new(text);
        // Cloudflare's `error code: 1015` and its kin are not codes of the service.
        let cloudflare = text
            .strip_prefix("error code: ")
            .and_then(|code| code.trim().parse::<u16>().ok());
        Some(match cloudflare {
            Some(1015) => report
                .with_status(429)
                .with_disposition(crate::Disposition::Throttled),
            Some(status @ 500..=599) => report.with_status(status),
            Some(_) => report.with_status(403),
            None => report,
        })
    }
}

fn is_scalar(text: &str) -> bool {
    matches!(text, "true" | "false" | "null" | "NaN")
}

/// Not a table: short, or with the words of an error.
fn reads_like_words(text: &str) -> bool {
    let first_line = text.lines().next().unwrap_or_default();
    let is_table = text.lines().count() > 2 && first_line.matches([',', ';', '\t']).count() >= 2;
    !is_table
        && !GRIDS.iter().any(|grid| text.starts_with(grid))
        && (text.len() < 1500
            || ["error", "exception", "fail"]
                .iter()
                .any(|word| contains_ignore_case(text.as_bytes(), word)))
}

/// How an ESRI grid, a Surfer grid and a netpbm image begin.
const GRIDS: &[&str] = &["ncols", "NCOLS", "DSAA", "P2", "P3"];
