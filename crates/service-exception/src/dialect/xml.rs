use super::{Answer, Dialect, Report};
use crate::Expected;

/// Any XML that is no answer: with a status that says so, or where an image was asked for.
#[derive(Debug)]
pub(super) struct AnyXml;

impl Dialect for AnyXml {
    fn name(&self) -> &'static str {
        "xml"
    }

    fn summary(&self) -> &'static str {
        "other XML with a 4xx or 5xx, or where an image was asked for"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let xml = answer.xml()?;
        let root = xml.root()?;
        let name = root.local_name();
        let arc_xml = (name == "ARCXML").then(|| xml.find("ERROR")).flatten();
        if !answer.has_failed() && arc_xml.is_none() {
            let image = matches!(
                answer.asked().operation().expected(),
                Expected::Image | Expected::VectorTile
            );
            if !image || name == "svg" {
                return None;
            }
        }
        let words = xml.text_within(arc_xml.unwrap_or(root));
        let code = ["code", "Code", "errorCode", "error_code"]
            .iter()
            .find_map(|name| xml.find(name))
            .filter(|code| code.depth() <= 2)
            .map(|code| code.text().trim().to_owned());
        Some(
            Report::new(words)
                .with_code(code.or_else(|| root.attribute("code")).unwrap_or_default()),
        )
    }
}
