use service_exception::Disposition;
use service_exception::document::{Format, Incomplete};

use super::*;

#[test]
fn no_cut_of_a_document_is_whole() {
    for (target, label, body) in [
        (
            ITEMS,
            "application/geo+json",
            r#"{"type":"FeatureCollection","features":[{"type":"Feature","properties":{"a":"}]\"\\"},"geometry":{"type":"Polygon","coordinates":[[[1,2],[3,4],[5,6]]]}}]}"#,
        ),
        (ITEMS, "application/json", "[1,\"]\",{}]"),
        (ITEMS, "", "{}"),
        (
            ANY,
            "application/javascript",
            "parseResponse({\"a\":[\")\"]})",
        ),
        (ANY, "text/javascript", "/**/cb.a_1([1])"),
    ] {
        no_cut_is_whole(target, label, body.as_bytes());
    }
    assert!(check(ANY, "text/javascript", "cb({});\n").is_ok());
    assert!(check(ANY, "text/javascript", "function a() { b(").is_ok());
}

#[test]
fn members_are_counted_against_what_is_announced_wherever_that_stands() {
    let features = |count: usize| {
        let feature = r#"{"type":"Feature","numberReturned":9,"properties":{"features":[{},{}],"numberReturned":7},"geometry":{"type":"MultiPolygon","coordinates":[[[[1.2345,2.3456],[3.4567,4.5678],[5.1234,6.9876]]]]}}"#;
        vec![feature; count].join(",\n")
    };
    for (before, after) in [
        (r#""numberMatched":99,"numberReturned":3,"#, ""),
        ("", r#","numberMatched":"unknown","numberReturned" : 3 "#),
        (
            "",
            r#","context":{"limit":10,"returned":3,"matched":[1,{"returned":8}]}"#,
        ),
        (r#""links":[{"returned":1}],"numberReturned":"3","#, ""),
    ] {
        let check = |count| {
            let body = format!("{{{before}\"features\":[{}]{after}}}", features(count));
            check(ITEMS, "application/geo+json", body)
        };
        assert_eq!(check(3).unwrap().members(), Some(3), "{before} {after}");
        let expected = Err(Incomplete::Members {
            expected: 3,
            came: 2,
        });
        assert_eq!(check(2), expected, "{before} {after}");
        // A server that cannot count has not lost anything.
        assert!(check(4).is_ok());
    }
    for fine in [
        r#"{"features":[],"numberMatched":812,"numberReturned":0}"#,
        r#"{"features":[{}],"totalFeatures":812}"#,
        r#"{"features":[],"exceededTransferLimit":true}"#,
        r#"{"numberReturned":3}"#,
        r#"{"features":[{}],"numberReturned":"unknown"}"#,
        r#"{"features":null,"numberReturned":3}"#,
    ] {
        assert!(check(ITEMS, "application/json", fine).is_ok(), "{fine}");
    }
    let collections = r#"{"collections":[{"id":"a"}],"numberReturned":2}"#;
    assert!(check("/collections", "application/json", collections).is_err());
    assert!(
        check(
            HITS,
            "application/json",
            r#"{"features":[],"numberReturned":2}"#
        )
        .is_ok()
    );
}

#[test]
fn members_without_a_string_in_them_are_counted_too() {
    for blanks in 0..40 {
        let body = format!(
            "{{\"features\":[{{\"a\":[[[[[[1]]]]]]}}{},{{}},{{}}],\"numberReturned\":3}}",
            " ".repeat(blanks)
        );
        let whole = check(ITEMS, "application/json", body).unwrap();
        assert_eq!(whole.members(), Some(3), "{blanks}");
    }
}

#[test]
fn an_exception_in_the_midst_or_at_the_tail_is_found() {
    let feature = r#"{"type":"Feature","properties":{"a":"<ows:ExceptionReport"},"geometry":{"type":"Polygon","coordinates":[[[1.25,2.5],[3.5,4.5],[5.5,6.5]]]}},"#.repeat(400);
    let xml = "<?xml version='1.0'?><ows:ExceptionReport xmlns:ows='http://www.opengis.net/ows/1.1'><ows:Exception exceptionCode='NoApplicableCode'><ows:ExceptionText>connection lost</ows:ExceptionText></ows:Exception></ows:ExceptionReport>";
    for (name, tail) in [
        ("report among the features", format!("\n{xml}")),
        (
            "report in coordinates",
            format!("{{\"geometry\":{{\"coordinates\":[[[1.0,2.0],[{xml}"),
        ),
        ("report behind the end", format!("{{}}]}}\n{xml}")),
        (
            "error of ArcGIS behind the end",
            r#"{}]}{"error":{"code":500,"message":"timed out"}}"#.to_owned(),
        ),
        (
            "error of an API behind the end",
            r#"{}]}{"code":"ServerError","description":"query failed"}"#.to_owned(),
        ),
        (
            "error among the outermost members",
            r#"{}],"error":{"code":500,"message":"timed out"}}"#.to_owned(),
        ),
        (
            "words of an error",
            r#"{}],"error":"the database went away"}"#.to_owned(),
        ),
        (
            "page behind the end",
            "{}]}<html><head><title>502 Bad Gateway</title></head></html>".to_owned(),
        ),
    ] {
        let body = format!("{{\"type\":\"FeatureCollection\",\"features\":[{feature}{tail}");
        let error = check(ITEMS, "application/geo+json", &body).unwrap_err();
        match &error {
            Incomplete::Exception { at, .. } => assert!(*at > 50_000, "{name}: {at}"),
            Incomplete::Trailing {
                format: Format::Json,
                at,
            } if name.contains("API") => {
                assert!(*at > 50_000, "{name}: {at}");
            }
            other => panic!("{name}: {other}"),
        }
        let split = check_in(ITEMS, "application/geo+json", body.as_bytes(), 5);
        assert_eq!(split, Err(error), "{name}");
    }
    for fine in [
        r#"{"features":[{}],"error":null}"#,
        r#"{"features":[{"error":{"code":500},"exceptions":[1],"remark":"runtime error: a"}]}"#,
        r#"{"features":[],"remark":"runtime error: not Overpass"}"#,
        r#"{"exceptions":[{"code":"a"}],"name":"a record"}"#,
    ] {
        assert!(check(ITEMS, "application/json", fine).is_ok(), "{fine}");
    }
}

#[test]
fn an_overpass_remark_counts_by_what_it_says() {
    let elements =
        r#"{"type":"node","id":1,"tags":{"remark":"runtime error: a tag"}},"#.repeat(200);
    let check = |remark: &str| {
        check(
            OVERPASS,
            "application/json",
            format!(r#"{{"version":0.6,"osm3s":{{}},"elements":[{elements}{{}}]{remark}}}"#),
        )
    };
    for (words, disposition) in [
        (
            "Query timed out in \\\"query\\\" at line 3 after 26 seconds.",
            Disposition::Transient,
        ),
        (
            "Query run out of memory in \\\"recurse\\\" at line 1.",
            Disposition::Permanent,
        ),
    ] {
        let Err(Incomplete::Exception { exception, .. }) =
            check(&format!(r#","remark": "runtime error: {words}""#))
        else {
            panic!("{words}")
        };
        assert_eq!(
            (exception.dialect(), exception.disposition()),
            ("overpass", disposition)
        );
    }
    assert!(check(r#","remark":"runtime remark: fine""#).is_ok());
    assert!(check("").is_ok());
}

#[test]
fn one_value_a_line_is_a_sequence() {
    for (label, body) in [
        (
            "application/geo+json-seq",
            "\u{1E}{\"a\":1}\n\u{1E}{\"a\":2}\n",
        ),
        ("application/x-ndjson", "{\"a\":1}\n{\"a\":2}\n"),
        (
            "application/json",
            "{\"type\":\"Feature\"}\n{\"type\":\"Feature\"}\n",
        ),
    ] {
        assert!(check(ITEMS, label, body).is_ok(), "{label}");
        let cut = &body[..body.trim_end().len() - 1];
        assert!(check(ITEMS, label, cut).is_err(), "{label}");
    }
}

#[test]
fn a_next_page_is_seen() {
    let has_next = |target, label, body: &str| check(target, label, body).unwrap().has_next();
    let links = r#""links":[{"rel":"self","href":"a"},{"rel" : "next","href":"b"}]"#;
    assert!(has_next(
        ITEMS,
        "application/json",
        &format!("{{{links},\"features\":[]}}")
    ));
    assert!(!has_next(
        ITEMS,
        "application/json",
        r#"{"links":[{"rel":"self"}],"a":"next"}"#
    ));
    let xml = "<FeatureCollection next='http://a/'/>";
    assert!(has_next(GET_FEATURE, "text/xml", xml));
    assert!(!has_next(
        GET_FEATURE,
        "text/xml",
        "<FeatureCollection next=''/>"
    ));
    let csv = "id,name\r\n1,\"a\nb\"\r\n2,c\r\n";
    assert_eq!(check(CSV, "text/csv", csv).unwrap().members(), Some(2));
}
