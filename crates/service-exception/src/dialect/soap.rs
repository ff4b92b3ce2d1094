use super::{Answer, Dialect, Report, ogc_xml};

/// SOAP 1.1 and 1.2 faults.
#[derive(Debug)]
pub(super) struct Soap;

impl Dialect for Soap {
    fn name(&self) -> &'static str {
        "soap-fault"
    }

    fn summary(&self) -> &'static str {
        "SOAP 1.1 and 1.2 faults, with an OWS report in their detail or without (GeoServer, SOS, WPS)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let xml = answer.xml()?;
        let root = xml.root()?;
        let body = match root.local_name() {
            "Envelope" => xml.child(root, &["Body"])?,
            _ => return None,
        };
        let Some(fault) = xml.child(body, &["Fault"]) else {
            // Some toolkits put the report into the body itself.
            let report = xml.child(body, &["ExceptionReport", "ServiceExceptionReport"])?;
            return ogc_xml::is_report(report, xml).then(|| ogc_xml::report(report, xml));
        };
        let detail = xml
            .children(fault)
            .find(|child| child.local_name().eq_ignore_ascii_case("detail"));
        let inner = detail.and_then(|detail| {
            xml.within(detail).find(|element| {
                matches!(
                    element.local_name(),
                    "Exception" | "ServiceException" | "ExceptionReport"
                ) && (element.attribute("exceptionCode").is_some()
                    || element.attribute("code").is_some()
                    || element.local_name() == "ExceptionReport")
            })
        });
        let reason = xml
            .child(fault, &["faultstring", "Reason"])
            .map(|reason| xml.text_within(reason))
            .unwrap_or_default();
        if let Some(inner) = inner {
            let report = ogc_xml::report(inner, xml);
            if report.code().is_some() {
                return Some(report.with_reason(&reason));
            }
        }
        // SOAP 1.2: the innermost Subcode is the most exact; SOAP 1.1: faultcode.
        let code = xml
            .within(fault)
            .filter(|element| {
                element.local_name() == "Value"
                    && xml
                        .parent(element)
                        .is_some_and(|parent| matches!(parent.local_name(), "Code" | "Subcode"))
            })
            .last()
            .or_else(|| xml.child(fault, &["faultcode"]))
            .map(|code| {
                code.text()
                    .trim()
                    .rsplit(':')
                    .next()
                    .unwrap_or_default()
                    .to_owned()
            });
        let mut words = reason;
        if let Some(detail) = detail {
            words.push(' ');
            words.push_str(&xml.text_within(detail));
        }
        let report = Report::new(words);
        Some(match code {
            Some(code) => report.with_code(code),
            None => report,
        })
    }
}
