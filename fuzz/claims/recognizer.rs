//! What must hold of an answer, whatever its bytes: three bytes choose the setting, the rest is the body.

use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use service_exception::{Asked, Finding, Recognizer, ServiceException};

const STATUSES: [u16; 8] = [200, 206, 202, 302, 400, 404, 429, 503];

const TARGETS: [&str; 8] = [
    "https://a.example.org/ows?SERVICE=WMS&REQUEST=GetMap&FORMAT=image/png",
    "https://a.example.org/ows?service=WFS&request=GetFeature",
    "https://a.example.org/arcgis/rest/services/a/MapServer/0/query?f=json",
    "https://a.example.org/collections/a/items",
    "https://a.example.org/9/265/180.pbf",
    "https://a.example.org/api/interpreter?data=[out:json]",
    "https://a.example.org/REST/v1/Locations?q=a",
    "https://a.example.org/",
];

const MEDIA_TYPES: [&str; 4] = [
    "text/xml; charset=iso-8859-1",
    "application/problem+json",
    "text/html",
    "image/png",
];

pub(crate) fn hold(data: &[u8]) {
    let [setting, pieces, limit, body @ ..] = data else {
        return;
    };
    let status = StatusCode::from_u16(STATUSES[usize::from(setting & 7)]).unwrap();
    let target = TARGETS[usize::from(setting >> 3 & 7)];
    let mut headers = HeaderMap::new();
    headers.insert(
        "content-type",
        HeaderValue::from_static(MEDIA_TYPES[usize::from(setting >> 6)]),
    );
    let recognizer = || {
        let asked = Asked::new(&Method::GET, &Uri::from_static(target), &HeaderMap::new());
        let recognizer = Recognizer::new(asked, status, &headers);
        match limit {
            0 => recognizer.whole_document(),
            1..=127 => recognizer,
            limit => recognizer.with_limit(usize::from(*limit)),
        }
    };
    let read = |size: usize| {
        let mut recognizer = recognizer();
        for piece in body.chunks(size) {
            match recognizer.push(piece) {
                Finding::Undecided => {}
                finding => return finding,
            }
        }
        recognizer.finish(true)
    };
    let at_once = read(usize::MAX);
    assert_eq!(read(1), at_once);
    assert_eq!(read(usize::from(*pieces).max(2)), at_once);
    assert_eq!(recognizer().push_last(body), at_once);
    if let Finding::Exception(exception) = at_once {
        assert!(exception.message().chars().count() <= ServiceException::LONGEST_MESSAGE);
        let texts = [
            Some(exception.message()),
            exception.code(),
            exception.locator(),
        ];
        assert!(
            !texts
                .into_iter()
                .flatten()
                .any(|text| text.contains(char::is_control))
        );
    }
    let _ = Recognizer::is_plainly_binary(body);
}
