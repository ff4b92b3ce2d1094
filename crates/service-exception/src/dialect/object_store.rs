use super::{Answer, Dialect, Report};

/// Errors of object stores.
#[derive(Debug)]
pub(super) struct ObjectStore;

impl Dialect for ObjectStore {
    fn name(&self) -> &'static str {
        "object-store"
    }

    fn summary(&self) -> &'static str {
        "<Error><Code>…</Code><Message>…</Message></Error> (S3 and its kin, Azure Blob Storage, Google Cloud Storage, Nominatim's <error>)"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let xml = answer.xml()?;
        let root = xml.root()?;
        let error = match root.local_name() {
            "Error" | "error" => root,
            // `<ErrorResponse><Error>…`, `<Response><Errors><Error>…` of older AWS services.
            "ErrorResponse" | "Response" => xml
                .elements()
                .find(|element| element.local_name() == "Error" && element.depth() > 0)?,
            _ => return None,
        };
        let child = |names: &[&str]| {
            xml.child(error, names)
                .map(|child| child.text().trim().to_owned())
                .filter(|text| !text.is_empty())
        };
        let code = child(&["Code", "code"]);
        let words = child(&["Message", "message", "Details", "details"]);
        if code.is_none() && words.is_none() {
            return None;
        }
        let words = words.unwrap_or_default();
        let report = Report::new(words).with_code(code.unwrap_or_default());
        Some(match child(&["Resource", "Key", "BucketName"]) {
            Some(locator) => report.with_locator(locator),
            None => report,
        })
    }
}
