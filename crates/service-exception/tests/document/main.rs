//! Whole documents, and what can be wrong with them.

use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use service_exception::document::{Document, Incomplete, Whole};
use service_exception::{Asked, Operation};

mod data;
mod json;
mod splits;
mod xml;

pub(crate) const GET_MAP: &str =
    "/ows?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=a&FORMAT=image/png";
pub(crate) const GET_FEATURE: &str =
    "/ows?service=WFS&version=2.0.0&request=GetFeature&typeNames=a:b";
pub(crate) const HITS: &str =
    "/ows?service=WFS&version=2.0.0&request=GetFeature&typeNames=a:b&resultType=hits";
pub(crate) const ITEMS: &str = "/collections/a/items?limit=10";
pub(crate) const OVERPASS: &str = "/api/interpreter?data=[out:json];node(1);out;";
pub(crate) const TILE: &str = "/a/9/265/180.png";
pub(crate) const VECTOR_TILE: &str = "/a/9/265/180.pbf";
pub(crate) const CSV: &str =
    "/ows?service=WFS&version=2.0.0&request=GetFeature&typeNames=a&outputFormat=csv";
pub(crate) const ANY: &str = "/a";

pub(crate) fn check(
    target: &str,
    label: &str,
    body: impl AsRef<[u8]>,
) -> Result<Whole, Incomplete> {
    check_in(target, label, body.as_ref(), usize::MAX)
}

pub(crate) fn check_in(
    target: &str,
    label: &str,
    body: &[u8],
    pieces: usize,
) -> Result<Whole, Incomplete> {
    let mut document = document(Method::GET, 200, target, label);
    for piece in body.chunks(pieces) {
        document.push(piece);
    }
    document.finish()
}

pub(crate) fn document(method: Method, status: u16, target: &str, label: &str) -> Document {
    let asked = Asked::new(&method, &target.parse::<Uri>().unwrap(), &HeaderMap::new());
    let mut headers = HeaderMap::new();
    if !label.is_empty() {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(label).unwrap());
    }
    Document::new(&asked, StatusCode::from_u16(status).unwrap(), &headers)
}

/// Every cut of `body`, from one byte on, is incomplete.
pub(crate) fn no_cut_is_whole(target: &str, label: &str, body: &[u8]) {
    check(target, label, body).unwrap_or_else(|error| panic!("{label}: the whole: {error}"));
    let missed: Vec<_> = (1..body.len())
        .filter(|&cut| check(target, label, &body[..cut]).is_ok())
        .collect();
    assert!(
        missed.is_empty(),
        "{label}: of {} bytes, cut at {missed:?}",
        body.len()
    );
}

#[test]
fn nothing_is_incomplete_only_where_a_document_is_due() {
    for (target, label) in [
        (GET_MAP, "image/png"),
        (TILE, ""),
        (GET_FEATURE, "text/xml"),
        (ANY, "application/json"),
        (ANY, "image/tiff"),
    ] {
        assert_eq!(
            check(target, label, ""),
            Err(Incomplete::Empty),
            "{target} {label}"
        );
        assert!(check(target, label, " \r\n").is_err(), "{target} {label}");
    }
    for (target, label) in [
        (VECTOR_TILE, "application/vnd.mapbox-vector-tile"),
        (VECTOR_TILE, ""),
        (ANY, "text/html"),
        (ANY, "text/plain"),
        (ANY, ""),
        (
            "/ows?service=WMS&request=GetFeatureInfo&info_format=text/xml",
            "text/xml",
        ),
    ] {
        assert!(check(target, label, "").is_ok(), "{target} {label}");
    }
}

#[test]
fn an_answer_that_has_no_document_is_not_checked() {
    for (method, status) in [
        (Method::HEAD, 200),
        (Method::GET, 204),
        (Method::GET, 304),
        (Method::GET, 206),
        (Method::GET, 404),
        (Method::GET, 502),
    ] {
        let mut document = document(method.clone(), status, GET_FEATURE, "text/xml");
        if method != Method::HEAD {
            document.push(b"<cut");
        }
        assert!(document.finish().is_ok(), "{method} {status}");
    }
}

#[test]
fn a_page_and_plain_words_are_not_checked() {
    for (label, body) in [
        ("text/html", "<!DOCTYPE html><html><p>fine"),
        ("", "<!doctype HTML><p>fine"),
        (
            "application/xml",
            "<?xml version='1.0'?><!DOCTYPE html PUBLIC '-//W3C//DTD XHTML'><html><br>",
        ),
        ("text/plain", "[INFO] started {\n"),
        ("text/plain", "<none>"),
        (
            "text/plain; charset=utf-8",
            "GetFeatureInfo results:\n  Layer 'a'\n",
        ),
        ("application/octet-stream", "anything"),
    ] {
        assert!(check(ANY, label, body).is_ok(), "{label} {body}");
    }
}

#[test]
fn a_text_says_what_was_expected_and_what_came() {
    let says = |target, label, body: &[u8], words: &str| {
        assert_eq!(check(target, label, body).unwrap_err().to_string(), words);
    };
    says(
        GET_MAP,
        "image/png",
        b"",
        "expected a document, and not one byte came",
    );
    says(
        GET_FEATURE,
        "text/xml",
        b"<a><b>",
        "XML document: expected the end of its root element, and 6 bytes came without it",
    );
    says(
        ITEMS,
        "application/json",
        br#"{"features":[{},{}],"numberReturned":3}"#,
        "expected the 3 members it announces, 2 came",
    );
    says(
        ITEMS,
        "application/json",
        b"{}{}",
        "JSON document: expected nothing after its end, other content came at byte 2",
    );
}

#[test]
fn a_post_that_may_have_asked_for_the_number_alone_may_have_no_members() {
    let body =
        "<wfs:FeatureCollection numberOfFeatures='812' xmlns:wfs='http://www.opengis.net/wfs'/>";
    let asked = |method: Method| {
        let uri = Uri::from_static("/ows");
        let head = b"<wfs:GetFeature xmlns:wfs='http://www.opengis.net/wfs' resultType='hits'/>";
        let operation = Operation::of(&method, &uri, &HeaderMap::new(), Some(head));
        let asked = Asked::new(&method, &uri, &HeaderMap::new()).with_operation(operation);
        let mut document = Document::new(&asked, StatusCode::OK, &HeaderMap::new());
        document.push(body.as_bytes());
        document.finish()
    };
    assert_eq!(asked(Method::POST).unwrap().matched(), Some(812));
    assert!(asked(Method::GET).is_err());
}
