use http::HeaderName;

use super::*;

fn get(target: &str) -> Operation {
    Operation::of(
        &Method::GET,
        &target.parse().unwrap(),
        &HeaderMap::new(),
        None,
    )
}

fn post(target: &str, headers: &[(&str, &str)], body: &[u8]) -> Operation {
    let headers = headers
        .iter()
        .map(|(name, value)| {
            (
                name.parse::<HeaderName>().unwrap(),
                HeaderValue::from_str(value).unwrap(),
            )
        })
        .collect();
    Operation::of(
        &Method::POST,
        &target.parse().unwrap(),
        &headers,
        Some(body),
    )
}

const FORM: (&str, &str) = (
    "content-type",
    "application/x-www-form-urlencoded; charset=utf-8",
);
const XML: (&str, &str) = ("content-type", "text/xml");

#[test]
fn names_and_values_of_a_query_are_read_in_any_case_and_encoding() {
    for target in [
        "/ows?service=WFS&request=GetFeature",
        "/ows?SERVICE=wfs&Re%71uest=get%46eature&x",
        "/ows?&ServicE=W%46S&&REQUEST=GETFEATURE",
    ] {
        let operation = get(target);
        assert_eq!(
            (operation.protocol(), operation.name()),
            (Protocol::Wfs, "GetFeature"),
            "{target}"
        );
        assert!(
            operation.is_safe_to_repeat() && operation.is_geospatial(),
            "{target}"
        );
        assert_eq!(operation.expected(), Expected::Xml);
    }
    assert_eq!(get("/ows?WMTVER=1.0.0&REQUEST=map").name(), "GetMap");
}

#[test]
fn a_get_that_makes_the_server_act_is_not_safe() {
    for target in [
        "/ows?service=WPS&request=execute",
        "/ows?service=CSW&request=Harvest",
        "/ows?service=WFS&request=GetFeatureWithLock",
        "/ows?service=WFS&request=LockFeature",
        "/ows?service=WFS&request=Delete",
        "/ows?service=WCS&request=GetCoverage&store=true",
        "/ows?service=SPS&request=Submit",
        "/ows?service=X&request=DeleteEverything",
        "/processes/buffer/execution?input=1",
        "/arcgis/rest/services/a/GPServer/b/submitJob?f=json",
        "/arcgis/rest/services/a/FeatureServer/0/applyEdits?f=json",
    ] {
        assert!(!get(target).is_safe_to_repeat(), "{target}");
    }
}

#[test]
fn of_two_operations_the_unsafe_one_counts() {
    for target in [
        "/ows?service=WFS&request=GetFeature&REQUEST=Transaction",
        "/ows?request=Transaction&service=WFS&request=GetFeature",
    ] {
        let operation = get(target);
        assert_eq!(
            (operation.name(), operation.is_safe_to_repeat()),
            ("Transaction", false),
            "{target}"
        );
    }
    assert!(
        !post(
            "/ows?service=WFS&request=GetFeature",
            &[FORM],
            b"request=Transaction"
        )
        .is_safe_to_repeat()
    );
    assert!(
        !post(
            "/ows?service=WFS&request=GetFeature",
            &[XML],
            b"<Transaction/>"
        )
        .is_safe_to_repeat()
    );
}

#[test]
fn a_post_is_safe_only_where_what_it_asks_is_known_to_be() {
    let safe = |target: &str, headers: &[(&str, &str)], body: &[u8]| {
        post(target, headers, body).is_safe_to_repeat()
    };
    assert!(safe("/ows", &[FORM], b"SERVICE=WFS&Request=GetFeature"));
    assert!(safe("/ows", &[XML], b"\xEF\xBB\xBF <?xml version='1.0'?><!-- > --><!DOCTYPE x [<!ENTITY a '>'>]><w:GetFeature service='WFS'/>"));
    assert!(!safe(
        "/ows",
        &[XML],
        b"<wfs:Transaction xmlns:wfs='http://www.opengis.net/wfs'><wfs:Insert/>"
    ));
    assert!(!safe("/ows", &[XML], b"<wfs:GetFeature"));
    assert!(!safe("/ows", &[XML], b"<Whatever/>"));
    assert!(!safe("/ows", &[], b""));
    assert!(
        !Operation::of(
            &Method::POST,
            &Uri::from_static("/ows?service=WFS&request=GetFeature"),
            &HeaderMap::new(),
            None
        )
        .is_safe_to_repeat()
    );
    assert!(
        Operation::of(
            &Method::POST,
            &Uri::from_static("/ows?service=WMS&request=GetMap"),
            &HeaderMap::new(),
            None
        )
        .is_safe_to_repeat()
    );
    for method in [Method::PUT, Method::DELETE, Method::PATCH] {
        assert!(
            !Operation::of(
                &method,
                &Uri::from_static("/collections/a/items/1"),
                &HeaderMap::new(),
                None
            )
            .is_safe_to_repeat()
        );
    }
}

#[test]
fn soap_names_its_operation_in_the_body_or_in_a_header() {
    let soap = |action: &str| {
        format!(
            "<s:Envelope xmlns:s='u'><s:Header><a><Transaction/></a></s:Header><s:Body><x:{action} xmlns:x='http://www.opengis.net/sos/2.0'/></s:Body></s:Envelope>"
        )
    };
    let read = post(
        "/ows",
        &[("content-type", "application/soap+xml")],
        soap("GetObservation").as_bytes(),
    );
    assert_eq!(
        (read.protocol(), read.name(), read.is_safe_to_repeat()),
        (Protocol::Sos, "GetObservation", true)
    );
    assert!(!post("/ows", &[XML], soap("InsertObservation").as_bytes()).is_safe_to_repeat());
    for (body, name, safe) in [
        (
            "<csw:GetRecords xmlns:csw='http://www.opengis.net/cat/csw/2.0.2'/>",
            "GetRecords",
            true,
        ),
        ("<csw:Harvest service='CSW'/>", "Harvest", false),
        (
            "<sld:GetMap xmlns:sld='http://www.opengis.net/sld'/>",
            "GetMap",
            true,
        ),
        (
            "<wps:Execute xmlns:wps='http://www.opengis.net/wps/1.0.0'/>",
            "Execute",
            false,
        ),
        ("<wps:GetStatus service='WPS'/>", "GetStatus", true),
        (
            "<wfs:GetFeatureWithLock service='WFS'/>",
            "GetFeatureWithLock",
            false,
        ),
        (
            "<sos:InsertResultTemplate service='SOS'/>",
            "InsertResultTemplate",
            false,
        ),
        (
            "<wcs:DescribeCoverage service='WCS'/>",
            "DescribeCoverage",
            true,
        ),
        ("<osm-script><query/></osm-script>", "interpreter", true),
    ] {
        let read = post("/ows", &[XML], body.as_bytes());
        assert_eq!(
            (read.name(), read.is_safe_to_repeat()),
            (name, safe),
            "{body}"
        );
        assert!(read.is_geospatial(), "{body}");
    }
    let by_header = Operation::of(
        &Method::POST,
        &Uri::from_static("/ows"),
        &HeaderMap::from_iter([(
            HeaderName::from_static("soapaction"),
            HeaderValue::from_static("\"urn:ogc#InsertResult\""),
        )]),
        None,
    );
    assert_eq!(
        (by_header.name(), by_header.is_safe_to_repeat()),
        ("InsertResult", false)
    );
    let media_type = "application/soap+xml; charset=utf-8; action=\"http://www.opengis.net/def/serviceOperation/sos/core/2.0/GetCapabilities\"";
    let by_media_type =
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))]);
    assert_eq!(
        Operation::of(
            &Method::POST,
            &Uri::from_static("/ows"),
            &by_media_type,
            None
        )
        .name(),
        "GetCapabilities"
    );
}

#[test]
fn paths_of_rest_services_say_what_is_asked() {
    for (method, target, protocol, safe) in [
        (
            "POST",
            "/arcgis/rest/services/a/MapServer/0/query",
            Protocol::ArcGis,
            true,
        ),
        (
            "POST",
            "/arcgis/rest/services/a/FeatureServer/0/addFeatures",
            Protocol::ArcGis,
            false,
        ),
        (
            "POST",
            "/arcgis/rest/services/Geometry/GeometryServer/project",
            Protocol::ArcGis,
            true,
        ),
        (
            "POST",
            "/arcgis/rest/services/a/FeatureServer/0/unheardOf",
            Protocol::ArcGis,
            false,
        ),
        ("POST", "/stac/search", Protocol::Stac, true),
        ("POST", "/collections/a/items", Protocol::OgcApi, false),
        ("POST", "/processes/p/execution", Protocol::OgcApi, false),
        ("POST", "/jobs", Protocol::OgcApi, false),
        ("GET", "/jobs/j1/results", Protocol::OgcApi, true),
        (
            "POST",
            "/openeo/1.1/jobs/j/results",
            Protocol::OpenEo,
            false,
        ),
        ("POST", "/openeo/1.1/result", Protocol::OpenEo, false),
        ("POST", "/openeo/1.1/validation", Protocol::OpenEo, true),
        ("POST", "/api/interpreter", Protocol::Overpass, true),
        (
            "GET",
            "/v1.1/Things(1)/Datastreams",
            Protocol::SensorThings,
            true,
        ),
        ("POST", "/v1.1/$batch", Protocol::SensorThings, false),
        ("GET", "/search?q=x&format=jsonv2", Protocol::Geocoder, true),
        ("POST", "/geocoding/v1/batch", Protocol::Geocoder, true),
        ("POST", "/search/geocode/v6/batch", Protocol::Geocoder, true),
        (
            "POST",
            "/search/2/batch/sync.json",
            Protocol::Geocoder,
            true,
        ),
        ("POST", "/search/2/batch.json", Protocol::Geocoder, false),
        ("POST", "/v1.0/validation", Protocol::OpenEo, true),
        ("POST", "/v1.0/result", Protocol::Unknown, false),
        ("POST", "/6.2/jobs", Protocol::OgcApi, false),
        (
            "GET",
            "/maps/api/geocode/json?address=x",
            Protocol::Geocoder,
            true,
        ),
        ("GET", "/topo/9/265/180@2x.png", Protocol::Tiles, true),
        ("GET", "/tms/1.0.0/a/1/2/3.png", Protocol::Tms, true),
        ("GET", "/data.bin", Protocol::Unknown, true),
        ("POST", "/data.bin", Protocol::Unknown, false),
    ] {
        let operation = Operation::of(
            &method.parse().unwrap(),
            &target.parse().unwrap(),
            &HeaderMap::new(),
            None,
        );
        assert_eq!(
            (operation.protocol(), operation.is_safe_to_repeat()),
            (protocol, safe),
            "{method} {target}"
        );
    }
}

#[test]
fn the_content_to_expect_is_read_off_format_path_and_accept() {
    let accept = |target: &str, accept: &'static str| {
        Operation::of(
            &Method::GET,
            &target.parse().unwrap(),
            &HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]),
            None,
        )
        .expected()
    };
    assert_eq!(
        get("/ows?service=WMS&request=GetMap&format=image%2Fpng").expected(),
        Expected::Image
    );
    assert_eq!(
        get("/ows?service=WMS&request=GetMap&format=image/svg%2Bxml").expected(),
        Expected::Xml
    );
    assert_eq!(
        get("/ows?service=WMS&request=GetFeatureInfo&info_format=text/html").expected(),
        Expected::Html
    );
    assert_eq!(
        get("/ows?service=WFS&request=GetFeature&outputFormat=csv").expected(),
        Expected::Text
    );
    assert_eq!(
        get("/ows?service=WFS&request=GetFeature&outputFormat=application/json").expected(),
        Expected::Json
    );
    assert_eq!(get("/9/265/180.pbf").expected(), Expected::VectorTile);
    assert_eq!(
        get("/rest/services/a/MapServer/0/query?f=json").expected(),
        Expected::Json
    );
    assert_eq!(
        accept(
            "/collections/a/items",
            "text/html,application/xhtml+xml,*/*;q=0.8"
        ),
        Expected::Html
    );
    assert_eq!(accept("/x", "application/geo+json, */*"), Expected::Json);
    assert_eq!(accept("/x", "*/*"), Expected::Unknown);
}

#[test]
fn a_method_that_a_header_overrides_counts() {
    let uri = Uri::from_static("https://example.org/collections/a/items/1");
    let safe = |name: &'static str, method: &'static str| {
        let value = http::HeaderValue::from_static(method);
        let headers = HeaderMap::from_iter([(http::HeaderName::from_static(name), value)]);
        Operation::of(&Method::GET, &uri, &headers, None).is_safe_to_repeat()
    };
    assert!(!safe("x-http-method-override", "DELETE") && !safe("x-http-method", "patch"));
    assert!(safe("x-http-method-override", "get") && safe("accept", "DELETE"));
}
