//! An error format of one's own, and a house rule for codes.
//!
//! `cargo run -p service-exception --example house_dialect`

use http::{HeaderMap, Method, StatusCode, Uri};
use service_exception::{
    Answer, Asked, Content, Dialect, Dialects, Disposition, Finding, Recognizer, Report,
};

/// Our tile store says `{"ok":false,"fault":{"id":"E-17","why":"…"}}`, with status 200.
#[derive(Debug)]
struct TileStore;

impl Dialect for TileStore {
    fn name(&self) -> &'static str {
        "tile-store"
    }

    fn summary(&self) -> &'static str {
        "{\"ok\":false,\"fault\":{\"id\",\"why\"}} of our tile store"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<Report> {
        let Content::Json(json) = answer.content() else {
            return None;
        };
        if !json.get("ok")?.is_false() {
            return None;
        }
        let fault = json.get("fault")?;
        Some(Report::new(fault.get("why")?.as_str()?).with_code(fault.get("id")?.as_code()?))
    }
}

fn main() {
    // One set of dialects an endpoint: the others keep the standard ones.
    let ours = Dialects::standard()
        .with(TileStore)
        // The operators told us: E-17 is a node that restarts.
        .with_code("E-17", Disposition::Transient);

    let body = br#"{"ok":false,"fault":{"id":"E-17","why":"node 4 is gone"}}"#;
    let Finding::Exception(exception) = read(ours, body) else {
        panic!("not recognised")
    };
    assert_eq!(exception.dialect(), "tile-store");
    assert_eq!(exception.code(), Some("E-17"));
    assert_eq!(exception.disposition(), Disposition::Transient);

    // Without them it is known as a failure, but not what its code means.
    let Finding::Exception(exception) = read(Dialects::standard(), body) else {
        panic!("not recognised")
    };
    assert_eq!(exception.disposition(), Disposition::Ambiguous);
}

fn read(dialects: Dialects, body: &[u8]) -> Finding {
    let uri = Uri::from_static("https://tiles.example.org/status.json");
    let asked = Asked::new(&Method::GET, &uri, &HeaderMap::new());
    Recognizer::new(asked, StatusCode::OK, &HeaderMap::new())
        .with_dialects(dialects)
        .push_last(body)
}
