use super::{Answer, Content, Dialect, Report};
use crate::{Disposition, Expected, Protocol};

/// Nothing where a document was asked for.
#[derive(Debug)]
pub(super) struct Empty;

impl Dialect for Empty {
    fn name(&self) -> &'static str {
        "empty"
    }

    fn summary(&self) -> &'static str {
        "a 200 without a byte where an image or a document was asked for; an empty vector tile is a good answer"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let Content::Empty = answer.content() else {
            return None;
        };
        let status = answer.status().as_u16();
        if !answer.is_whole() || status != 200 {
            return None;
        }
        let operation = answer.asked().operation();
        let document = match operation.expected() {
            // A point query without a hit may have nothing to say.
            _ if operation.name() == "GetFeatureInfo" => false,
            Expected::Image | Expected::Xml | Expected::Binary => true,
            // MapServer writes nothing where a feature query has no hits.
            Expected::Json => operation.protocol() != Protocol::Wfs,
            _ => false,
        };
        document
            .then(|| Report::new("the answer is empty").with_disposition(Disposition::Transient))
    }
}
