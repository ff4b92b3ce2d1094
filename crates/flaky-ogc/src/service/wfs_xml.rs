//! The XML that the feature service writes.

use super::wfs::{COLLECTIONS, position};

/// `matched` is "unknown" where it is not given. The number returned has a fixed width.
pub(super) fn collection_head(matched: Option<u64>, returned: u64) -> String {
    let matched = matched.map_or_else(|| "unknown".to_owned(), |n| n.to_string());
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<wfs:FeatureCollection xmlns:wfs=\"http://www.opengis.net/wfs/2.0\" xmlns:gml=\"http://www.opengis.net/gml/3.2\" \
         xmlns:app=\"urn:flaky-ogc\" timeStamp=\"2026-01-01T00:00:00Z\" numberMatched=\"{matched}\" numberReturned=\"{returned:010}\">\n"
    )
}

pub(super) fn collection_foot() -> &'static str {
    "</wfs:FeatureCollection>\n"
}

/// One feature: a line where there is one, else a point. Its length depends on the collection and the line only.
pub(super) fn member(collection: &str, index: u64, line: &str) -> String {
    let geometry = if line.is_empty() {
        let (latitude, longitude) = position(collection, index);
        format!(
            "<gml:Point srsName=\"urn:ogc:def:crs:EPSG::4326\" gml:id=\"g.{index:010}\"><gml:pos>{latitude:+011.6} {longitude:+012.6}</gml:pos></gml:Point>"
        )
    } else {
        format!(
            "<gml:LineString srsName=\"urn:ogc:def:crs:EPSG::4326\" gml:id=\"g.{index:010}\"><gml:posList>{line}</gml:posList></gml:LineString>"
        )
    };
    format!(
        "<wfs:member><app:{collection} gml:id=\"{collection}.{index:010}\"><app:name>{collection} {index:010}</app:name>\
         <app:geometry>{geometry}</app:geometry></app:{collection}></wfs:member>\n"
    )
}

pub(super) fn transaction_response(inserted: usize, updated: usize, deleted: usize) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<wfs:TransactionResponse xmlns:wfs=\"http://www.opengis.net/wfs/2.0\" version=\"2.0.0\"><wfs:TransactionSummary>\
         <wfs:totalInserted>{inserted}</wfs:totalInserted><wfs:totalUpdated>{updated}</wfs:totalUpdated><wfs:totalDeleted>{deleted}</wfs:totalDeleted>\
         </wfs:TransactionSummary></wfs:TransactionResponse>\n"
    )
}

pub(super) fn capabilities() -> String {
    let types: String = COLLECTIONS
        .iter()
        .map(|name| format!("<FeatureType xmlns:app=\"urn:flaky-ogc\"><Name>app:{name}</Name><Title>{name}</Title><DefaultCRS>urn:ogc:def:crs:EPSG::4326</DefaultCRS></FeatureType>"))
        .collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<wfs:WFS_Capabilities xmlns:wfs=\"http://www.opengis.net/wfs/2.0\" xmlns=\"http://www.opengis.net/wfs/2.0\" \
         xmlns:ows=\"http://www.opengis.net/ows/1.1\" version=\"2.0.0\"><ows:ServiceIdentification><ows:Title>flaky-ogc</ows:Title><ows:ServiceType>WFS</ows:ServiceType>\
         <ows:ServiceTypeVersion>2.0.0</ows:ServiceTypeVersion></ows:ServiceIdentification><ows:OperationsMetadata><ows:Operation name=\"GetFeature\">\
         <ows:Parameter name=\"ExceptionFormat\"/></ows:Operation></ows:OperationsMetadata><FeatureTypeList>{types}</FeatureTypeList></wfs:WFS_Capabilities>\n"
    )
}
