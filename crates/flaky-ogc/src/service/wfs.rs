use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::wfs_xml::{
    capabilities, collection_foot, collection_head, member, transaction_response,
};
use super::wms::Mistake;
use super::{Reply, State};
use crate::request::Asked;
use crate::seed::{hash, unit};
use crate::{Exception, Form};

/// The collections there are.
pub(super) const COLLECTIONS: [&str; 2] = ["places", "rivers"];

impl State {
    pub(super) fn wfs(&self, asked: &Asked) -> Reply {
        let version = asked.parameter("version").unwrap_or("2.0.0");
        let result = match asked.operation.to_ascii_lowercase().as_str() {
            "getcapabilities" => Ok(Reply::good("application/xml", capabilities())),
            "getfeature" => self.get_feature(asked),
            "transaction" => Ok(self.transaction(asked)),
            "wfs" => Err(Mistake::new(
                "MissingParameterValue",
                "request",
                "REQUEST is missing",
            )),
            _ => Err(Mistake::new(
                "OperationNotSupported",
                "request",
                "There is no such operation",
            )),
        };
        result.unwrap_or_else(|mistake| self.wfs_exception(version, mistake))
    }

    fn get_feature(&self, asked: &Asked) -> Result<Reply, Mistake> {
        if let Some(size) = number(asked, "size")? {
            return Ok(Reply::stream(GML, Stream::new(size)));
        }
        let names = ["typenames", "typename"]
            .iter()
            .find_map(|name| asked.parameter(name));
        let Some(name) = names.or_else(|| attribute(&asked.body, "typeNames=")) else {
            return Err(Mistake::new(
                "MissingParameterValue",
                "typeNames",
                "TYPENAMES is missing",
            ));
        };
        let collection = name.rsplit(':').next().unwrap_or(name);
        if !COLLECTIONS.contains(&collection) {
            return Err(Mistake::new(
                "InvalidParameterValue",
                "typeNames",
                format!("There is no feature type '{name}'"),
            ));
        }
        let start = number(asked, "startindex")?.unwrap_or(0);
        let count = match number(asked, "count")? {
            None => number(asked, "maxfeatures")?.unwrap_or(u64::MAX),
            count => count.unwrap_or(u64::MAX),
        };
        let matched = self.script.features;
        let hits = asked
            .parameter("resulttype")
            .is_some_and(|kind| kind.eq_ignore_ascii_case("hits"));
        let range = if hits {
            0..0
        } else {
            start.min(matched)..start.saturating_add(count).min(matched)
        };
        match asked
            .parameter("outputformat")
            .unwrap_or(GML)
            .to_ascii_lowercase()
        {
            format if format.contains("json") => Ok(Reply::good(
                "application/geo+json",
                collection_json(collection, range, matched).to_string(),
            )),
            format if format.contains("gml") || format.contains("xml") => {
                let mut body = collection_head(Some(matched), range.end - range.start);
                for index in range {
                    body.push_str(&member(collection, index, ""));
                }
                body.push_str(collection_foot());
                Ok(Reply::good(GML, body))
            }
            format => Err(Mistake::new(
                "InvalidParameterValue",
                "outputFormat",
                format!("The format '{format}' is not supported"),
            )),
        }
    }

    /// Executed as soon as it is understood, whatever becomes of the answer.
    fn transaction(&self, asked: &Asked) -> Reply {
        let count = |action: &str| {
            asked.body.matches(&format!("<wfs:{action}")).count()
                + asked.body.matches(&format!("<{action}")).count()
        };
        self.counters.change(|counts| counts.transactions += 1);
        Reply::good(
            "application/xml",
            transaction_response(count("Insert"), count("Update"), count("Delete")),
        )
    }

    fn wfs_exception(&self, version: &str, mistake: Mistake) -> Reply {
        let form = match self.script.exceptions {
            Some(form) => form,
            None if version.starts_with("1.0") => Form::Report120,
            None if version.starts_with("1.1") => Form::Ows10,
            None => Form::Ows11,
        };
        let mut report = Exception::new(form, mistake.text)
            .code(mistake.code)
            .locator(mistake.locator);
        report.status = (self.script.exception_status || version.starts_with('2')).then_some(400);
        Reply::exception(&report)
    }
}

/// A number of a query; an error names the parameter.
fn number(asked: &Asked, name: &'static str) -> Result<Option<u64>, Mistake> {
    let parse = |text: &str| {
        text.parse().map_err(|_| {
            Mistake::new(
                "InvalidParameterValue",
                name,
                format!("{name} must be a whole number"),
            )
        })
    };
    asked.parameter(name).map(parse).transpose()
}

/// The value of an XML attribute, found by its name: enough for the bodies that tests send.
fn attribute<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let rest = xml.split_once(name)?.1;
    let quote = rest.chars().next()?;
    rest[quote.len_utf8()..].split(quote).next()
}

pub(super) fn collection_json(
    collection: &str,
    range: std::ops::Range<u64>,
    matched: u64,
) -> Value {
    let returned = range.end - range.start;
    let features: Vec<Value> = range.map(|index| feature_json(collection, index)).collect();
    json!({"type": "FeatureCollection", "numberMatched": matched, "numberReturned": returned, "features": features})
}

fn feature_json(collection: &str, index: u64) -> Value {
    let (latitude, longitude) = position(collection, index);
    json!({"type": "Feature", "id": format!("{collection}.{index}"), "properties": {"name": format!("{collection} {index}")},
        "geometry": {"type": "Point", "coordinates": [longitude, latitude]}})
}

/// Where a feature lies: latitude, longitude.
pub(super) fn position(collection: &str, index: u64) -> (f64, f64) {
    let key = hash(index, collection.as_bytes());
    let round = |degrees: f64| (degrees * 1e6).round() / 1e6;
    (
        round(unit(key) * 180.0 - 90.0),
        round(unit(hash(key, b"longitude")) * 360.0 - 180.0),
    )
}

/// The CRC-32 of the GML that `GetFeature` with `size=` streams: `size` bytes, whatever the chunks it comes in.
///
/// ```
/// assert_ne!(flaky_ogc::large_features_crc32(100_000), flaky_ogc::large_features_crc32(100_001));
/// ```
pub fn large_features_crc32(size: u64) -> u32 {
    let mut stream = Stream::new(size);
    let mut crc = flate2::Crc::new();
    while stream.left() > 0 {
        crc.update(&stream.take(1 << 16));
    }
    crc.sum()
}

/// A feature collection of an exact size, made while it is read.
#[derive(Debug)]
pub(crate) struct Stream {
    left: u64,
    members: u64,
    made: u64,
    padding: u64,
    ready: Bytes,
    line: String,
}

impl Stream {
    pub(crate) fn new(size: u64) -> Self {
        let line: String = (0..200)
            .map(|i| {
                format!(
                    "{:.6} {:.6} ",
                    47.0 + f64::from(i) * 1e-3,
                    8.0 + f64::from(i) * 2e-3
                )
            })
            .collect();
        let member_len = member("rivers", 0, &line).len() as u64;
        let room = |head: &str| size.saturating_sub((head.len() + collection_foot().len()) as u64);
        // The number of members is printed in the head, with a fixed width: its length is known before it is.
        let members = room(&collection_head(None, 0)) / member_len;
        let head = collection_head(None, members);
        let padding = room(&head) - members * member_len;
        let left =
            head.len() as u64 + members * member_len + padding + collection_foot().len() as u64;
        Self {
            left,
            members,
            made: 0,
            padding,
            ready: Bytes::from(head),
            line,
        }
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// At most `most` bytes, and at least one unless it has ended.
    pub(crate) fn take(&mut self, most: usize) -> Bytes {
        if self.ready.is_empty() {
            self.ready = self.make(most);
        }
        let bytes = self.ready.split_to(most.min(self.ready.len()));
        self.left -= bytes.len() as u64;
        bytes
    }

    fn make(&mut self, wanted: usize) -> Bytes {
        let mut bytes = BytesMut::new();
        while self.made < self.members && bytes.len() < wanted {
            bytes.extend_from_slice(member("rivers", self.made, &self.line).as_bytes());
            self.made += 1;
        }
        if bytes.is_empty() {
            bytes.resize(
                usize::try_from(std::mem::take(&mut self.padding)).unwrap_or_default(),
                b' ',
            );
            bytes.extend_from_slice(collection_foot().as_bytes());
        }
        bytes.freeze()
    }
}

const GML: &str = "application/gml+xml; version=3.2";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_the_size_that_was_asked_for_and_the_same_bytes_in_any_chunks() {
        for size in [2_000, 100_003, 1_000_000] {
            let collect = |chunk: usize| {
                let mut stream = Stream::new(size);
                let mut all = Vec::new();
                while stream.left() > 0 {
                    all.extend_from_slice(&stream.take(chunk));
                }
                all
            };
            let bytes = collect(1 << 16);
            assert_eq!(bytes.len() as u64, size);
            assert_eq!(bytes, collect(77));
            assert!(bytes.starts_with(b"<?xml") && bytes.ends_with(b"</wfs:FeatureCollection>\n"));
            let text = String::from_utf8(bytes).expect("UTF-8");
            let returned: usize = text
                .split("numberReturned=\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next())
                .and_then(|n| n.parse().ok())
                .expect("a number");
            assert_eq!(returned, text.matches("<wfs:member>").count());
        }
    }
}
