//! Answers of servers that the corpus does not name, in their own forms, and good answers that look like failures.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use service_exception::{Asked, Disposition, Finding, Recognizer};

mod failures;
mod good;

/// What a failure may be called: one of these letters.
///
/// T transient, Q throttled, P permanent, A ambiguous.
type Kinds = &'static str;

pub(crate) const GET_MAP: &str = "https://maps.example.org/ows?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=a&CRS=EPSG:4326&BBOX=1,2,3,4&WIDTH=256&HEIGHT=256&FORMAT=image/png";
pub(crate) const GET_FEATURE: &str =
    "https://maps.example.org/ows?service=WFS&version=2.0.0&request=GetFeature&typeNames=a:b";
pub(crate) const GET_JSON: &str = "https://maps.example.org/ows?service=WFS&version=2.0.0&request=GetFeature&typeNames=a:b&outputFormat=application/json";
pub(crate) const GET_CAPABILITIES: &str =
    "https://maps.example.org/ows?service=WMS&request=GetCapabilities";
pub(crate) const COVERAGE: &str = "https://maps.example.org/ows?service=WCS&version=2.0.1&request=GetCoverage&coverageId=dem&format=image/tiff";
pub(crate) const WMTS: &str = "https://maps.example.org/wmts?service=WMTS&request=GetTile&version=1.0.0&layer=a&style=&tilematrixset=g&tilematrix=1&tilerow=1&tilecol=1&format=image/png";
pub(crate) const ARCGIS: &str =
    "https://gis.example.org/arcgis/rest/services/a/MapServer/0/query?where=1%3D1&f=json";
pub(crate) const ARCGIS_IMAGE: &str = "https://gis.example.org/arcgis/rest/services/a/MapServer/export?bbox=1,2,3,4&format=png&f=image";
pub(crate) const ITEMS: &str = "https://features.example.org/collections/a/items?limit=10";
pub(crate) const STAC: &str = "https://stac.example.org/search?limit=10";
pub(crate) const TILE: &str = "https://tiles.example.org/a/9/265/180.png";
pub(crate) const VECTOR_TILE: &str = "https://tiles.example.org/a/9/265/180.pbf";
pub(crate) const OVERPASS: &str =
    "https://overpass.example.org/api/interpreter?data=[out:json];node(1);out;";
pub(crate) const NOMINATIM: &str = "https://geocode.example.org/search?q=a&format=jsonv2";
pub(crate) const COG: &str = "https://cog.example.org/a.tif";

pub(crate) fn read(target: &str, status: u16, headers: &[(&str, &str)], body: &[u8]) -> Finding {
    let asked = Asked::new(
        &Method::GET,
        &target.parse::<Uri>().unwrap(),
        &HeaderMap::new(),
    );
    let headers = headers.iter().map(|(name, value)| {
        (
            name.parse::<HeaderName>().unwrap(),
            HeaderValue::from_str(value).unwrap(),
        )
    });
    Recognizer::new(
        asked,
        StatusCode::from_u16(status).unwrap(),
        &headers.collect(),
    )
    .push_last(body)
}

/// What a reader finds that is shown no more than this.
pub(crate) fn cut(target: &str, body: &[u8]) -> Finding {
    let asked = Asked::new(
        &Method::GET,
        &target.parse::<Uri>().unwrap(),
        &HeaderMap::new(),
    );
    let mut recognizer = Recognizer::new(asked, StatusCode::OK, &HeaderMap::new());
    match recognizer.push(body) {
        Finding::Undecided => recognizer.finish(false),
        finding => finding,
    }
}

pub(crate) fn letter(disposition: Disposition) -> char {
    match disposition {
        Disposition::Transient => 'T',
        Disposition::Throttled => 'Q',
        Disposition::Permanent => 'P',
        Disposition::Ambiguous => 'A',
    }
}
