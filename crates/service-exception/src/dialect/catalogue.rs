use super::{Answer, Dialect, Report};

/// OAI-PMH, which catalogues speak beside CSW.
#[derive(Debug)]
pub(super) struct OaiPmh;

impl Dialect for OaiPmh {
    fn name(&self) -> &'static str {
        "oai-pmh"
    }

    fn summary(&self) -> &'static str {
        "<OAI-PMH> with <error code> (pycsw, GeoNetwork and other catalogues)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let xml = answer.xml()?;
        let root = xml.root().filter(|root| root.local_name() == "OAI-PMH")?;
        let error = xml.child(root, &["error"])?;
        let code = error.attribute("code").unwrap_or_default();
        // The question was answered: there is nothing of that (OAI-PMH 2.0 §3.6).
        if matches!(
            code.as_str(),
            "noRecordsMatch" | "noSetHierarchy" | "noMetadataFormats"
        ) {
            return None;
        }
        Some(Report::new(error.text()).with_code(code))
    }
}

/// SRU, likewise.
#[derive(Debug)]
pub(super) struct Sru;

impl Dialect for Sru {
    fn name(&self) -> &'static str {
        "sru-diagnostic"
    }

    fn summary(&self) -> &'static str {
        "searchRetrieveResponse with diagnostics in place of records (SRU 1.1 to 2.0)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let xml = answer.xml()?;
        let root = xml.root().filter(|root| {
            matches!(
                root.local_name(),
                "searchRetrieveResponse" | "explainResponse"
            )
        })?;
        let diagnostics = xml.child(root, &["diagnostics"])?;
        // Beside records they are warnings.
        if xml.child(root, &["records"]).is_some() {
            return None;
        }
        let text = |name: &str| {
            xml.within(diagnostics)
                .find(|element| element.local_name() == name)
                .map(|element| element.text().trim())
        };
        let words = text("message").map_or_else(|| xml.text_within(diagnostics), str::to_owned);
        // pycsw puts the OWS code there.
        let code = text("details").filter(|details| {
            details.len() < 64 && details.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        Some(Report::new(words).with_code(code.unwrap_or_default()))
    }
}
