use super::{Answer, Dialect, Report, ogc_xml};
use crate::Disposition;

/// A WPS 1.0 `ExecuteResponse` whose status is `ProcessFailed`.
#[derive(Debug)]
pub(super) struct ProcessFailed;

impl Dialect for ProcessFailed {
    fn name(&self) -> &'static str {
        "wps-process-failed"
    }

    fn summary(&self) -> &'static str {
        "wps:ExecuteResponse with wps:ProcessFailed in its status (PyWPS, GeoServer, deegree, 52°North)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let xml = answer.xml()?;
        let root = xml
            .root()
            .filter(|root| root.local_name() == "ExecuteResponse")?;
        let status = xml.child(root, &["Status"])?;
        let failed = xml.child(status, &["ProcessFailed"])?;
        let report = xml
            .within(failed)
            .find(|element| matches!(element.local_name(), "ExceptionReport" | "Exception"))
            .map_or_else(
                || Report::new(xml.text_within(failed)),
                |report| ogc_xml::report(report, xml),
            );
        // A process that failed fails again; where its words speak of an outage, nobody can tell.
        let outage = crate::code::of_text(report.message())
            .is_some_and(|said| said != Disposition::Permanent);
        Some(match report.code().map(crate::code::of_code) {
            Some(crate::code::Known::Decides(_)) => report,
            _ if outage => report.with_disposition(Disposition::Ambiguous),
            _ => report.with_disposition(Disposition::Permanent),
        })
    }
}

/// A WFS 1.0 transaction that failed, or failed in part.
#[derive(Debug)]
pub(super) struct TransactionFailed;

impl Dialect for TransactionFailed {
    fn name(&self) -> &'static str {
        "wfs-transaction"
    }

    fn summary(&self) -> &'static str {
        "wfs:WFS_TransactionResponse with the status FAILED or PARTIAL (WFS 1.0)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let xml = answer.xml()?;
        let root = xml.root().filter(|root| {
            matches!(
                root.local_name(),
                "WFS_TransactionResponse" | "TransactionResponse"
            )
        })?;
        let result = xml.child(root, &["TransactionResult", "TransactionResults"])?;
        let status = xml.child(result, &["Status"])?;
        let code = xml
            .child(status, &["FAILED", "PARTIAL"])?
            .local_name()
            .to_owned();
        let words = xml
            .child(result, &["Message"])
            .map(|message| xml.text_within(message))
            .unwrap_or_default();
        let report = Report::new(words)
            .with_code(code)
            .with_disposition(Disposition::Permanent);
        Some(match xml.child(result, &["Locator"]) {
            Some(locator) => report.with_locator(locator.text().trim()),
            None => report,
        })
    }
}
