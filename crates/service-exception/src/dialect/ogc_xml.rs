use super::{Answer, Dialect, Report};
use crate::Disposition;
use crate::form::text::squeeze;
use crate::form::tree::{Element, Xml};

/// Reports of OGC services in XML: WMS 1.0 to 1.3, WFS, WCS, OWS Common 1.0 to 2.0, and those of QGIS and MapProxy.
#[derive(Debug)]
pub(super) struct OgcXml;

impl Dialect for OgcXml {
    fn name(&self) -> &'static str {
        "ogc-xml"
    }

    fn summary(&self) -> &'static str {
        "ServiceExceptionReport (WMS 1.1 to 1.3, WFS and WCS 1.0), ows:ExceptionReport (OWS Common 1.0, 1.1, 2.0), WMTException, \
         ServiceException, WFS_Exception, ServerException (QGIS), TileMapServerError (MapProxy); at the root, or within a document that was begun"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let xml = answer.xml()?;
        let root = xml.root()?;
        if is_report(root, xml) {
            return Some(report(root, xml));
        }
        match root.local_name() {
            "WMTException" | "ServerException" | "TileMapServerError" | "WFS_Exception"
                if is_plain_or_ogc(root) =>
            {
                return Some(report(root, xml));
            }
            // These hold reports of their own (dialects of their own read them).
            "Envelope" | "ExecuteResponse" => return None,
            _ => {}
        }
        nested(xml)
    }
}

/// A report that begins in the middle of a good document: the server failed after it had begun to answer.
fn nested(xml: &Xml<'_>) -> Option<Report> {
    let found = xml.elements().skip(1).find(|element| {
        matches!(
            element.local_name(),
            "ExceptionReport" | "ServiceExceptionReport"
        ) && (is_ogc_namespace(element) || element.stands_after_a_declaration())
    })?;
    Some(report(found, xml).or_else(Disposition::Transient))
}

/// Code, locator and words of a report element.
pub(super) fn report(element: &Element<'_>, xml: &Xml<'_>) -> Report {
    let exception = xml
        .within(element)
        .find(|inner| matches!(inner.local_name(), "Exception" | "ServiceException"))
        .unwrap_or(element);
    let code = exception
        .attribute("exceptionCode")
        .or_else(|| exception.attribute("code"));
    let locator = exception.attribute("locator").or_else(|| {
        xml.child(exception, &["Locator"])
            .map(|locator| locator.text().to_owned())
    });
    let words = match xml.child(exception, &["ExceptionText", "Message"]) {
        Some(_) => {
            let texts = xml
                .children(exception)
                .filter(|child| matches!(child.local_name(), "ExceptionText" | "Message"));
            texts
                .map(|text| xml.text_within(text))
                .collect::<Vec<_>>()
                .join(" ")
        }
        None => xml.text_within(exception),
    };
    let mut report = Report::new(without_trace(&words));
    if let Some(code) = code {
        report = report.with_code(code.trim());
    }
    if let Some(locator) = locator {
        report = report.with_locator(locator.trim());
    }
    report
}

/// A Java stack trace says nothing of the request: only its first line and its causes count.
fn without_trace(words: &str) -> String {
    if !words.contains("at ") {
        return words.to_owned();
    }
    let kept = words
        .lines()
        .filter(|line| !line.trim_start().starts_with("at ") || !line.contains('('));
    squeeze(&kept.collect::<Vec<_>>().join(" "))
}

pub(super) fn is_report(element: &Element<'_>, xml: &Xml<'_>) -> bool {
    match element.local_name() {
        "ServiceExceptionReport" | "ServiceException" => is_plain_or_ogc(element),
        "ExceptionReport" => {
            is_ogc_namespace(element)
                || is_plain_or_ogc(element)
                    && (!element.is_complete()
                        || xml.within(element).count() == 1
                        || xml.child(element, &["Exception"]).is_some_and(|exception| {
                            exception.attribute("exceptionCode").is_some()
                        }))
        }
        "Exception" => {
            is_ogc_namespace(element) && element.attribute("exceptionCode").is_some()
                || element.attribute("exceptionCode").is_some()
        }
        _ => false,
    }
}

/// In a namespace of OGC, or in none; a prefix that nobody declared counts as none.
fn is_plain_or_ogc(element: &Element<'_>) -> bool {
    element
        .namespace()
        .is_none_or(|namespace| namespace.is_empty() || is_ogc(namespace))
}

pub(super) fn is_ogc_namespace(element: &Element<'_>) -> bool {
    match element.namespace() {
        Some(namespace) => is_ogc(namespace),
        None => matches!(element.prefix(), "ows" | "ogc" | "ows11" | "ows20"),
    }
}

fn is_ogc(namespace: &str) -> bool {
    namespace.contains("opengis.net") || namespace.contains("opengeospatial.org")
}
