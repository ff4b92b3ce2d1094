use super::{Answer, Dialect, Report};
use crate::Disposition;
use crate::form::json::Json;
use crate::form::text::squeeze;
use crate::kvp::contains_ignore_case;

/// Overpass: remarks at the end of a good document, and its page.
#[derive(Debug)]
pub(super) struct Overpass;

impl Dialect for Overpass {
    fn name(&self) -> &'static str {
        "overpass"
    }

    fn summary(&self) -> &'static str {
        "\"remark\": \"runtime error: …\" in JSON, <remark> in XML, the page titled OSM3S Response (Overpass API)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        if let Some(json) = answer.json() {
            let remark = json.get("remark").and_then(Json::as_str)?;
            let is_overpass = json
                .get("elements")
                .or_else(|| json.get("osm3s"))
                .or_else(|| json.get("generator"))
                .is_some();
            return if is_overpass { remarked(&remark) } else { None };
        }
        if let Some(xml) = answer.xml() {
            let root = xml.root().filter(|root| root.local_name() == "osm")?;
            return xml
                .children(root)
                .filter(|child| child.local_name() == "remark")
                .find_map(|remark| remarked(remark.text()));
        }
        let page = answer.page()?;
        let text = page.text();
        if !page.title().starts_with("OSM3S") && !text.contains("osm3s_") {
            return None;
        }
        let words = text.find("Error").map_or(text, |at| &text[at..]);
        let said = |word: &str| contains_ignore_case(words.as_bytes(), word);
        if !answer.has_failed() && !said("error") {
            return None;
        }
        let report = Report::new(words);
        Some(match () {
            () if said("rate_limited") => report
                .with_code("rate_limited")
                .with_disposition(Disposition::Throttled),
            () if said("::timeout") => report
                .with_code("timeout")
                .with_disposition(Disposition::Transient),
            () if said("turned off") || said("probably too busy") => {
                report.with_disposition(Disposition::Transient)
            }
            () if said("parse error") || said("static error") || said("encoding error") => {
                report.with_disposition(Disposition::Permanent)
            }
            () if said("runtime error") => weighed(report.with_code("runtime error"), words),
            () => report,
        })
    }
}

fn remarked(remark: &str) -> Option<Report> {
    let remark = &squeeze(remark);
    let (kind, _) = remark.split_once(':')?;
    match kind {
        "runtime error" => Some(weighed(
            Report::new(remark.as_str()).with_code("runtime error"),
            remark,
        )),
        "static error" | "parse error" => Some(
            Report::new(remark.as_str())
                .with_code(kind)
                .with_disposition(Disposition::Permanent),
        ),
        _ => None,
    }
}

/// Out of memory fails again with the same query; out of time may not.
fn weighed(report: Report, words: &str) -> Report {
    let said = |word: &str| contains_ignore_case(words.as_bytes(), word);
    report.with_disposition(match () {
        () if said("rate_limited") => Disposition::Throttled,
        () if said("out of memory") => Disposition::Permanent,
        () => Disposition::Transient,
    })
}
