//! What must hold of a whole document, whatever its bytes: two bytes choose the setting, the rest is the body.

use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use service_exception::Asked;
use service_exception::document::{Document, Incomplete};

const TARGETS: [&str; 8] = [
    "https://a.example.org/ows?SERVICE=WMS&REQUEST=GetMap&FORMAT=image/png",
    "https://a.example.org/ows?service=WFS&request=GetFeature",
    "https://a.example.org/ows?service=WFS&request=GetFeature&outputFormat=csv",
    "https://a.example.org/collections/a/items",
    "https://a.example.org/9/265/180.pbf",
    "https://a.example.org/api/interpreter?data=[out:json]",
    "https://a.example.org/a.tif",
    "https://a.example.org/",
];

const LABELS: [&str; 8] = [
    "text/xml",
    "application/json",
    "image/png",
    "text/csv",
    "multipart/mixed; boundary=x",
    "application/geo+json-seq",
    "text/javascript",
    "",
];

pub(crate) fn hold(data: &[u8]) {
    let [setting, pieces, body @ ..] = data else {
        return;
    };
    let target = TARGETS[usize::from(setting & 7)];
    let label = LABELS[usize::from(setting >> 3 & 7)];
    let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(label))]);
    let asked = Asked::new(&Method::GET, &Uri::from_static(target), &HeaderMap::new());
    let read = |size: usize| {
        let mut document = Document::new(&asked, StatusCode::OK, &headers);
        for piece in body.chunks(size) {
            document.push(piece);
        }
        document.finish()
    };
    let at_once = read(usize::MAX);
    assert_eq!(read(1), at_once);
    assert_eq!(read(usize::from(*pieces).max(2)), at_once);
    if let Err(incomplete) = at_once {
        assert!(incomplete.to_string().len() < 4096);
        let length = body.len() as u64;
        match incomplete {
            Incomplete::Short { expected, came, .. } => assert!(came < expected),
            Incomplete::Members { expected, came } => assert!(came < expected),
            // UTF-16 may grow by half.
            Incomplete::Exception { at, .. }
            | Incomplete::Trailing { at, .. }
            | Incomplete::Malformed { at, .. } => assert!(at <= 2 * length),
            _ => {}
        }
    }
}
