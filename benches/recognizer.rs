//! What it costs to look at an answer: nanoseconds and allocations by kind, with what must hold.
//!
//! `cargo bench -p benches --bench recognizer`; exits non-zero where a must is missed.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints"
)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use service_exception::{Asked, Finding, Operation, Recognizer};

struct Row {
    name: &'static str,
    /// At most, in nanoseconds; allocations at most.
    must: (f64, u64),
    /// Measured without the recognizer's construction, which an image never needs.
    work: Box<dyn FnMut() -> bool>,
}

fn main() -> ExitCode {
    let png: &'static [u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    let base = construction();
    let mut rows = vec![
        Row {
            name: "image: first bytes",
            must: (10.0, 0),
            work: Box::new(move || Recognizer::is_plainly_binary(black_box(png))),
        },
        document("GML root in the first 500 bytes", (150.0, 0), gml(), base),
        document("capabilities root", (150.0, 0), capabilities(), base),
        document("GeoJSON, type first", (150.0, 0), geojson(true), base),
        document(
            "JSON, features after 1.9 KB of others",
            (3000.0, 0),
            geojson(false),
            base,
        ),
        document(
            "JSON without features, whole",
            (3000.0, 0),
            plain_json(),
            base,
        ),
        document("report, fully read", (3000.0, u64::MAX), report(), base),
        Row {
            name: "operation of a GetMap",
            must: (f64::INFINITY, 0),
            work: Box::new(|| {
                let operation =
                    Operation::of(&Method::GET, black_box(&get_map()), &HeaderMap::new(), None);
                operation.is_safe_to_repeat()
            }),
        },
    ];
    println!("construction alone (subtracted): {base:.0} ns");
    println!("{:<40} {:>8} {:>8}   must", "", "ns", "allocs");
    let mut missed = false;
    for row in &mut rows {
        let allocations = allocation_counter::measure(|| {
            black_box((row.work)());
        });
        let nanoseconds = measure(&mut row.work) - if row.subtracts() { base } else { 0.0 };
        let (most, most_allocations) = row.must;
        let ok = nanoseconds <= most && allocations.count_total <= most_allocations;
        missed |= !ok;
        let must = if most.is_finite() {
            format!("<= {most:.0} ns")
        } else {
            String::new()
        };
        println!(
            "{:<40} {nanoseconds:>8.1} {:>8}   {must}{}",
            row.name,
            allocations.count_total,
            if ok { "" } else { "   MISSED" }
        );
    }
    ExitCode::from(u8::from(missed))
}

impl Row {
    fn subtracts(&self) -> bool {
        !matches!(self.name, "image: first bytes" | "operation of a GetMap")
    }
}

fn document(name: &'static str, must: (f64, u64), body: Vec<u8>, _base: f64) -> Row {
    let (asked, headers) = asked(if name.contains("JSON") {
        items()
    } else {
        get_map()
    });
    let is_report = name.starts_with("report");
    Row {
        name,
        must,
        work: Box::new(move || {
            let mut recognizer = Recognizer::new(asked.clone(), StatusCode::OK, &headers);
            let finding = recognizer.push(black_box(&body));
            assert_eq!(
                matches!(finding, Finding::Exception(_)),
                is_report,
                "{name}: {finding:?}"
            );
            black_box(finding) == Finding::Clean
        }),
    }
}

/// What a recognizer costs before it sees a byte.
fn construction() -> f64 {
    let (asked, headers) = asked(get_map());
    measure(&mut || {
        black_box(Recognizer::new(
            black_box(&asked).clone(),
            StatusCode::OK,
            &headers,
        ))
        .looks_good()
    })
}

fn asked(uri: Uri) -> (Asked, HeaderMap) {
    let accept = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static("*/*"))]);
    let headers = HeaderMap::from_iter([
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/xml; charset=utf-8"),
        ),
        (
            header::DATE,
            HeaderValue::from_static("Sat, 14 Mar 2026 09:30:00 GMT"),
        ),
        (header::SERVER, HeaderValue::from_static("x")),
    ]);
    (Asked::new(&Method::GET, &uri, &accept), headers)
}

fn items() -> Uri {
    Uri::from_static("https://features.example.org/collections/ridges/items?f=json&limit=100")
}

fn get_map() -> Uri {
    Uri::from_static(
        "https://maps.example.org/ows?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=topo:ridges&STYLES=&CRS=EPSG:4326&BBOX=45,5,46,6&WIDTH=256&HEIGHT=256&FORMAT=image/png",
    )
}

/// The fastest of many short batches: what else the machine does only adds.
fn measure(work: &mut dyn FnMut() -> bool) -> f64 {
    let mut batch = 64_u32;
    while time(work, batch) < Duration::from_micros(300) {
        batch *= 2;
    }
    let times = (0..300).map(|_| time(work, batch).as_secs_f64() * 1e9 / f64::from(batch));
    times.fold(f64::INFINITY, f64::min)
}

fn time(work: &mut dyn FnMut() -> bool, batch: u32) -> Duration {
    let start = Instant::now();
    for _ in 0..batch {
        black_box(work());
    }
    start.elapsed()
}

fn gml() -> Vec<u8> {
    let mut body = String::from(
        "<?xml version='1.0' encoding=\"UTF-8\" ?>\n<wfs:FeatureCollection\n   xmlns:ms=\"http://mapserver.gis.umn.edu/mapserver\"\n   xmlns:gml=\"http://www.opengis.net/gml/3.2\"\n   xmlns:wfs=\"http://www.opengis.net/wfs/2.0\"\n   xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"\n   numberMatched=\"8\" numberReturned=\"8\">\n",
    );
    while body.len() < 4096 {
        body.push_str("<wfs:member><ms:city gml:id=\"city.1\"><ms:name>Zürich</ms:name><ms:pop>421878</ms:pop></ms:city></wfs:member>\n");
    }
    body.into_bytes()
}

fn capabilities() -> Vec<u8> {
    let mut body = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<!-- a server of ours -->\n<WMS_Capabilities version=\"1.3.0\" xmlns=\"http://www.opengis.net/wms\">\n<Service><Name>WMS</Name></Service><Capability>",
    );
    while body.len() < 4096 {
        body.push_str("<Layer queryable=\"1\"><Name>ridges</Name><Title>Ridges</Title><CRS>EPSG:4326</CRS></Layer>\n");
    }
    body.into_bytes()
}

fn geojson(type_first: bool) -> Vec<u8> {
    let mut body = String::from(if type_first {
        "{\"type\":\"FeatureCollection\",\"features\":["
    } else {
        "{\"crs\":{\"name\":\"x\"},\"bbox\":[1,2,3,4],\"links\":["
    });
    if !type_first {
        while body.len() < 1900 {
            body.push_str("{\"rel\":\"next\",\"href\":\"https://a.example.org/collections/ridges/items?offset=10\"},");
        }
        body.push_str("{}],\"features\":[");
    }
    while body.len() < 4096 {
        body.push_str("{\"type\":\"Feature\",\"properties\":{\"name\":\"ridge\",\"error\":0},\"geometry\":{\"type\":\"Point\",\"coordinates\":[21.420381,38.723643]}},");
    }
    body.into_bytes()
}

/// As an ArcGIS query answers: none of the names that decide early.
fn plain_json() -> Vec<u8> {
    let mut body = String::from(
        "{\"displayFieldName\":\"name\",\"fieldAliases\":{\"name\":\"Name\"},\"rows\":[",
    );
    while body.len() < 2020 {
        body.push_str("{\"attributes\":{\"name\":\"ridge\",\"id\":17,\"x\":21.42}},");
    }
    body.push_str("{}]}");
    body.into_bytes()
}

fn report() -> Vec<u8> {
    b"<?xml version='1.0' encoding=\"UTF-8\" standalone=\"no\" ?>\n<ServiceExceptionReport version=\"1.3.0\" xmlns=\"http://www.opengis.net/ogc\" xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:schemaLocation=\"http://www.opengis.net/ogc http://schemas.opengis.net/wms/1.3.0/exceptions_1_3_0.xsd\">\n<ServiceException code=\"LayerNotDefined\" locator=\"layers\">\nmsWMSLoadGetMapParams(): WMS server error. Invalid layer(s) given in the LAYERS parameter.\n</ServiceException>\n</ServiceExceptionReport>\n".to_vec()
}
