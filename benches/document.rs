//! What it costs to check a whole document while it passes: megabytes a second a core, with what must hold.
//!
//! `cargo bench -p benches --bench document`; exits non-zero where a must is missed.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints"
)]

use std::fmt::Write;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use http::{HeaderMap, Method, StatusCode, Uri};
use service_exception::Asked;
use service_exception::document::Document;

/// As large as the pieces in which hyper hands on a fast body.
const PIECE: usize = 64 * 1024;

fn main() -> ExitCode {
    let rows: [(&str, f64, Vec<u8>); 7] = [
        ("GML, points with ten properties", 500.0, gml(20_000, 1)),
        ("GML, polygons of 200 points", 500.0, gml(1_500, 200)),
        (
            "GeoJSON, points with ten properties",
            500.0,
            geojson(20_000, 1),
        ),
        (
            "GeoJSON, polygons of 200 points",
            500.0,
            geojson(2_000, 200),
        ),
        ("CSV, quoted", 500.0, csv(60_000)),
        ("PNG", 500.0, png()),
        ("JPEG", 500.0, jpeg()),
    ];
    println!("{:<40} {:>8} {:>10} {:>12}", "", "MB", "MB/s", "ns per KB");
    let mut missed = false;
    for (name, must, body) in &rows {
        let mut best = f64::INFINITY;
        for _ in 0..9 {
            let start = Instant::now();
            assert!(check(black_box(body)), "{name}");
            best = best.min(start.elapsed().as_secs_f64());
        }
        let megabytes = body.len() as f64 / 1e6;
        let speed = megabytes / best;
        let ok = speed >= *must;
        missed |= !ok;
        println!(
            "{name:<40} {megabytes:>8.1} {speed:>10.0} {:>12.0}   must be >= {must:.0} MB/s{}",
            best * 1e9 / (body.len() as f64 / 1024.0),
            if ok { "" } else { "   MISSED" }
        );
    }
    ExitCode::from(u8::from(missed))
}

fn check(body: &[u8]) -> bool {
    let uri = Uri::from_static(
        "/wfs?service=WFS&version=2.0.0&request=GetFeature&typeNames=a&outputFormat=csv",
    );
    let asked = Asked::new(&Method::GET, &uri, &HeaderMap::new());
    let mut document = Document::new(&asked, StatusCode::OK, &HeaderMap::new());
    for piece in body.chunks(PIECE) {
        document.push(piece);
    }
    document
        .finish()
        .is_ok_and(|whole| whole.format().is_some())
}

fn gml(features: usize, points: usize) -> Vec<u8> {
    let mut text = format!(
        "<?xml version='1.0' encoding=\"UTF-8\" ?>\n<wfs:FeatureCollection xmlns:wfs=\"http://www.opengis.net/wfs/2.0\" \
         xmlns:gml=\"http://www.opengis.net/gml/3.2\" xmlns:ms=\"http://mapserver.gis.umn.edu/mapserver\" \
         numberMatched=\"unknown\" numberReturned=\"{features}\">\n"
    );
    for id in 0..features {
        write!(text, "    <wfs:member>\n      <ms:stations gml:id=\"stations.{id}\">\n        <gml:boundedBy>\n          <gml:Envelope srsName=\"urn:ogc:def:crs:EPSG::4326\">\n            <gml:lowerCorner>52.370000 4.900000</gml:lowerCorner>\n            <gml:upperCorner>52.370000 4.900000</gml:upperCorner>\n          </gml:Envelope>\n        </gml:boundedBy>\n        <ms:msGeometry>\n").unwrap();
        text.push_str(
            "          <gml:LineString srsName=\"urn:ogc:def:crs:EPSG::4326\"><gml:posList>",
        );
        for point in 0..points {
            write!(text, "{}.370000 {}.900000 ", 50 + point % 9, point % 90).unwrap();
        }
        text.push_str("</gml:posList></gml:LineString>\n        </ms:msGeometry>\n");
        for property in 0..10 {
            writeln!(
                text,
                "        <ms:property{property}>value {id} of {property}</ms:property{property}>"
            )
            .unwrap();
        }
        text.push_str("      </ms:stations>\n    </wfs:member>\n");
    }
    text.push_str("</wfs:FeatureCollection>\n");
    text.into()
}

fn geojson(features: usize, points: usize) -> Vec<u8> {
    let mut text = String::from("{\"type\":\"FeatureCollection\",\"features\":[");
    for id in 0..features {
        let comma = if id == 0 { "" } else { ",\n" };
        write!(
            text,
            "{comma}{{\"type\":\"Feature\",\"id\":\"stations.{id}\",\"geometry\":"
        )
        .unwrap();
        if points == 1 {
            write!(
                text,
                "{{\"type\":\"Point\",\"coordinates\":[4.9{id},52.37]}}"
            )
            .unwrap();
        } else {
            text.push_str("{\"type\":\"Polygon\",\"coordinates\":[[");
            for point in 0..points {
                let comma = if point == 0 { "" } else { "," };
                write!(
                    text,
                    "{comma}[{}.900012,{}.370034]",
                    point % 90,
                    50 + point % 9
                )
                .unwrap();
            }
            text.push_str("]]}");
        }
        text.push_str(",\"properties\":{");
        for property in 0..10 {
            let comma = if property == 0 { "" } else { "," };
            write!(
                text,
                "{comma}\"property{property}\":\"value {id} of {property}\""
            )
            .unwrap();
        }
        text.push_str("}}");
    }
    write!(text, "],\"numberReturned\":{features}}}").unwrap();
    text.into()
}

fn csv(lines: usize) -> Vec<u8> {
    let mut text = String::from("WKT,id,name,pop,when\n");
    for id in 0..lines {
        writeln!(
            text,
            "\"POINT (4.9 52.37)\",\"{id}\",Amsterdam,\"872757\",\"20240101\""
        )
        .unwrap();
    }
    text.into()
}

fn png() -> Vec<u8> {
    let mut image = b"\x89PNG\r\n\x1a\n\0\0\0\x0DIHDR".to_vec();
    image.extend([0; 17]);
    for _ in 0..400 {
        image.extend(b"\0\0\x20\0IDAT");
        image.extend([7; 8192 + 4]);
    }
    image.extend(b"\0\0\0\0IEND\xAE\x42\x60\x82");
    image
}

fn jpeg() -> Vec<u8> {
    let mut image = b"\xFF\xD8\xFF\xDA\0\x02".to_vec();
    // A stuffed byte every 256, as in noise.
    for at in 0..4_000_000_u32 {
        match at % 256 {
            0 => image.extend([0xFF, 0]),
            byte => image.push(byte as u8 & 0x7F),
        }
    }
    image.extend(b"\xFF\xD9");
    image
}
