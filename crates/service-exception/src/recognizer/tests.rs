use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Uri};
use proptest::prelude::*;

use super::*;
use crate::Disposition;

const GET_MAP: &str =
    "https://maps.example.org/ows?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&FORMAT=image/png";
const GET_FEATURE: &str =
    "https://maps.example.org/ows?service=WFS&version=2.0.0&request=GetFeature&typeNames=a";
const QUERY: &str = "https://gis.example.org/arcgis/rest/services/a/MapServer/0/query?f=json";

fn recognizer(target: &str, status: u16, headers: &[(&str, &str)]) -> Recognizer {
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
}

fn read(target: &str, status: u16, body: impl AsRef<[u8]>) -> Option<ServiceException> {
    match recognizer(target, status, &[]).push_last(body.as_ref()) {
        Finding::Exception(exception) => Some(*exception),
        Finding::Clean => None,
        Finding::Undecided => panic!("undecided after the last piece"),
    }
}

#[track_caller]
fn found(target: &str, status: u16, body: impl AsRef<[u8]>) -> ServiceException {
    read(target, status, body).expect("an exception")
}

#[test]
fn reports_of_every_version_are_read_under_any_prefix_quote_and_encoding() {
    let utf16: Vec<u8> = "<ServiceExceptionReport><ServiceException code='InvalidCRS'>é</ServiceException></ServiceExceptionReport>"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for (body, code, message) in [
        (&b"<ServiceExceptionReport version='1.1.1'><ServiceException code='InvalidSRS'>no</ServiceException></ServiceExceptionReport>"[..], Some("InvalidSRS"), "no"),
        (b"<x:ServiceExceptionReport xmlns:x=\"http://www.opengis.net/ogc\">\n<x:ServiceException locator='l' code = \"InvalidCRS\" > a &lt; b </x:ServiceException>", Some("InvalidCRS"), "a < b"),
        (b"<ExceptionReport xmlns='http://www.opengis.net/ows/2.0'><Exception exceptionCode='NoSuchCoverage'><ExceptionText><![CDATA[<none>]]></ExceptionText></Exception></ExceptionReport>", Some("NoSuchCoverage"), "<none>"),
        (b"<WMTException version='1.0.0'>\nbad format</WMTException>", None, "bad format"),
        (b"<?xml version=\"1.0\" encoding='ISO-8859-1'?><ServiceException>f\xFCr</ServiceException>", None, "für"),
        (b"<ServerException>Project file error</ServerException>", None, "Project file error"),
        (b"<TileMapServerError><Message>no layer</Message></TileMapServerError>", None, "no layer"),
        (&utf16, Some("InvalidCRS"), "é"),
    ] {
        let exception = found(GET_MAP, 200, body);
        assert_eq!((exception.code(), exception.message(), exception.dialect()), (code, message, "ogc-xml"));
    }
    let with_bom = [b"\xFF\xFE", &utf16[..]].concat();
    assert_eq!(found(GET_MAP, 200, with_bom).code(), Some("InvalidCRS"));
}

#[test]
fn a_report_whose_code_lies_beyond_the_limit_is_known_by_its_root() {
    let long = "x".repeat(3000);
    let body = format!(
        "<ows:ExceptionReport xmlns:ows='http://www.opengis.net/ows/1.1' schemaLocation='{long}'><ows:Exception exceptionCode='InvalidParameterValue'/></ows:ExceptionReport>"
    );
    assert_eq!(found(GET_FEATURE, 200, &body).code(), None);
    let Finding::Exception(whole) = recognizer(GET_FEATURE, 200, &[])
        .whole_document()
        .push(body.as_bytes())
    else {
        panic!()
    };
    assert_eq!(whole.code(), Some("InvalidParameterValue"));
}

#[test]
fn a_document_that_began_well_looks_good_and_can_still_turn_out_bad() {
    let mut recognizer = recognizer(GET_FEATURE, 200, &[]);
    assert_eq!(
        recognizer.push(
            b"<wfs:FeatureCollection xmlns:wfs='http://www.opengis.net/wfs/2.0'><wfs:member>"
        ),
        Finding::Undecided
    );
    assert!(recognizer.looks_good());
    let report = b"<?xml version='1.0'?><ows:ExceptionReport xmlns:ows='http://www.opengis.net/ows/1.1'><ows:Exception exceptionCode='NoApplicableCode'><ows:ExceptionText>gone</ows:ExceptionText>";
    assert_eq!(recognizer.push(report), Finding::Undecided);
    let Finding::Exception(exception) = recognizer.finish(false) else {
        panic!()
    };
    assert_eq!(
        (exception.code(), exception.disposition()),
        (Some("NoApplicableCode"), Disposition::Transient)
    );
}

#[test]
fn what_looks_like_a_report_and_is_none_stays_good() {
    for body in [
        "<wfs:FeatureCollection xmlns:wfs='http://www.opengis.net/wfs/2.0' xmlns:a='urn:app'><a:ExceptionReport exceptionCode='5'/></wfs:FeatureCollection>",
        "<wfs:FeatureCollection xmlns:wfs='u'><a><![CDATA[<?xml version='1.0'?><ServiceExceptionReport/>]]></a></wfs:FeatureCollection>",
        "<schema><element name='ExceptionReport'/><element name='ServiceExceptionReport'/></schema>",
        "<WMT_MS_Capabilities><Capability><Exception><Format>application/vnd.ogc.se_xml</Format></Exception></Capability></WMT_MS_Capabilities>",
        "<e:ExceptionReport xmlns:e='urn:app'><e:Exception>planned</e:Exception></e:ExceptionReport>",
        "<s:Envelope xmlns:s='u'><s:Body><x>no Fault here</x></s:Body></s:Envelope>",
    ] {
        assert_eq!(read(GET_FEATURE, 200, body), None, "{body}");
    }
}

#[test]
fn json_fails_only_by_what_stands_at_its_top() {
    for (target, body, code) in [
        (
            QUERY,
            r#"{"error":{"code":498,"message":"Invalid Token","details":[]}}"#,
            Some("498"),
        ),
        (
            QUERY,
            r#"cb_1( {"error" : {"code":500,"message":"x"}});"#,
            Some("500"),
        ),
        (
            QUERY,
            r#"/**/cb({"error":{"code":400,"message":"x"}})"#,
            Some("400"),
        ),
        (
            GET_MAP,
            r#"{"version":"1.3.0","exceptions":[{"code":"LayerNotDefined","locator":"layers","text":"t"}]}"#,
            Some("LayerNotDefined"),
        ),
        ("/search?q=x", r#"{"error":"Unable to geocode"}"#, None),
    ] {
        assert_eq!(found(target, 200, body).code(), code, "{body}");
    }
    for body in [
        r#"{"features":[{"properties":{"error":{"code":1,"message":"x"}}}],"type":"FeatureCollection"}"#,
        r#"{"error":null,"results":[1]}"#,
        r#"{"code":"A12","description":"a record"}"#,
        r#"{"jobID":"j","status":"failed","message":"process timed out"}"#,
        r#"{"status":0,"message":"OK"}"#,
        r#"{"type":"Feature","error":{"code":500,"message":"x"}}"#,
        r#"[{"error":"x"}]"#,
        r#"{"title":"Ridges","description":"d","links":[]}"#,
    ] {
        assert_eq!(read(QUERY, 200, body), None, "{body}");
    }
}

#[test]
fn a_page_is_a_failure_only_where_none_was_asked_for_or_where_it_is_headed_as_one() {
    let page =
        "<!DOCTYPE html><html><head><title>Ridges</title></head><body><p>Welcome</p></body></html>";
    assert_eq!(
        found(GET_MAP, 200, page).disposition(),
        Disposition::Ambiguous
    );
    assert_eq!(read("https://a.example.org/", 200, page), None);
    assert_eq!(
        read(
            &format!("{GET_MAP}&request=GetFeatureInfo&info_format=text/html")
                .replace("REQUEST=GetMap&", ""),
            200,
            page
        ),
        None
    );
    let gateway = "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>";
    for target in [GET_MAP, "https://a.example.org/"] {
        assert_eq!(
            found(target, 200, gateway).disposition(),
            Disposition::Transient
        );
    }
    let php = "<br />\n<b>Fatal error</b>:  Allowed memory size of 134217728 bytes exhausted in /var/www/x.php on line 1<br />";
    assert_eq!(
        found(GET_MAP, 200, php).disposition(),
        Disposition::Transient
    );
}

#[test]
fn nothing_is_a_failure_only_where_a_document_was_asked_for() {
    assert_eq!(
        found(GET_MAP, 200, "").disposition(),
        Disposition::Transient
    );
    assert_eq!(found(GET_MAP, 200, " \r\n").dialect(), "empty");
    assert_eq!(read("/topo/9/265/180.pbf", 200, ""), None);
    assert_eq!(read(GET_MAP, 204, ""), None);
    assert_eq!(recognizer(GET_MAP, 200, &[]).finish(false), Finding::Clean);
}

#[test]
fn answers_without_a_body_are_decided_before_any_byte() {
    for status in [204, 205, 304, 101] {
        assert_eq!(
            recognizer(GET_MAP, status, &[]).push(b"<ServiceException/>"),
            Finding::Clean,
            "{status}"
        );
    }
    let asked = Asked::new(&Method::HEAD, &Uri::from_static(GET_MAP), &HeaderMap::new());
    assert_eq!(
        Recognizer::new(asked, StatusCode::OK, &HeaderMap::new()).finish(true),
        Finding::Clean
    );
}

#[test]
fn binary_data_is_told_by_its_first_bytes() {
    for first in [
        &b"\x89PNG\r\n\x1a\n"[..],
        b"\xFF\xD8\xFF\xE0",
        b"GIF89a",
        b"RIFF",
        b"II*\0",
        b"MM\0*",
        b"PK\x03\x04",
        b"\x1F\x8B\x08",
        b"\x1A\x0B",
        b"\0\0\0\x0CjP  ",
        b"%PDF-1.4",
        b"\x89HDF",
        b"GRIB",
    ] {
        assert!(Recognizer::is_plainly_binary(first), "{first:?}");
    }
    for first in [
        &b""[..],
        b"<",
        b" <",
        b"{",
        b"[",
        b"\xEF\xBB\xBF<",
        b"\xFE\xFF\0<",
        b"\xFF\xFE<\0",
        b"\0<\0?",
        b"error",
        "Ошибка".as_bytes(),
        b"GIFT",
        b"\xDCbung",
    ] {
        assert!(!Recognizer::is_plainly_binary(first), "{first:?}");
    }
}

#[test]
fn an_endless_body_without_a_root_is_given_up_at_the_limit() {
    let mut recognizer = recognizer(GET_FEATURE, 200, &[]);
    let mut pushed = 0;
    while recognizer.push(b"<!-- endless ") == Finding::Undecided {
        pushed += 1;
        assert!(pushed < 1000);
    }
    assert!(recognizer.head.is_empty() && pushed * 13 <= Recognizer::DEFAULT_LIMIT);
}

#[test]
fn a_header_of_64_kb_and_nul_bytes_change_nothing() {
    let long = "x".repeat(65_000);
    let mut recognizer = recognizer(
        GET_MAP,
        200,
        &[("content-type", &format!("text/xml; charset={long}"))],
    );
    assert_eq!(recognizer.push_last(b"\0\0\0\0\0\0\0\0"), Finding::Clean);
    assert_eq!(
        found(GET_MAP, 200, b"<ServiceException>a\0b</ServiceException>").message(),
        "a b"
    );
}

#[test]
fn hints_in_a_body_are_kept() {
    let azure =
        r#"{"statusCode":429,"message":"Rate limit is exceeded. Try again in 53 seconds."}"#;
    assert_eq!(
        found(QUERY, 429, azure).retry_after(),
        Some(Duration::from_secs(53))
    );
    let opencage = r#"{"rate":{"limit":2500,"remaining":0,"reset":1402185600},"status":{"code":402,"message":"quota exceeded"}}"#;
    let exception = found("/geocode/v1/json?q=x", 402, opencage);
    assert_eq!(exception.disposition(), Disposition::Throttled);
    assert_eq!(
        exception.retry_at(),
        Some(std::time::UNIX_EPOCH + Duration::from_secs(1_402_185_600))
    );
}

#[test]
fn expired_tokens_are_permanent_and_ask_for_credentials() {
    for (body, status) in [
        (r#"{"error":{"code":498,"message":"Invalid Token"}}"#, 200),
        (r#"{"error":{"code":499,"message":"Token Required"}}"#, 200),
        (r#"{"id":"1","code":"TokenInvalid","message":"x"}"#, 403),
    ] {
        let exception = found(QUERY, status, body);
        assert!(
            exception.wants_credentials() && exception.disposition() == Disposition::Permanent,
            "{body}"
        );
    }
}

#[derive(Debug)]
struct House;

impl crate::Dialect for House {
    fn name(&self) -> &'static str {
        "house"
    }

    fn summary(&self) -> &'static str {
        "our own"
    }

    fn read(&self, answer: &Answer<'_>) -> Option<crate::Report> {
        let Content::Json(json) = answer.content() else {
            return None;
        };
        let why = json.get("why")?.as_str()?;
        Some(crate::Report::new(why).with_code("E-1"))
    }
}

#[test]
fn a_dialect_of_ones_own_is_asked_first_and_house_rules_beat_what_is_known() {
    let own = |dialects| {
        let finding = recognizer(QUERY, 200, &[])
            .with_dialects(dialects)
            .push_last(br#"{"type":"Feature","why":"no disk"}"#);
        match finding {
            Finding::Exception(exception) => Some((exception.dialect(), exception.disposition())),
            _ => None,
        }
    };
    assert_eq!(own(Dialects::standard()), None);
    let with = Dialects::standard().with(House);
    assert_eq!(own(with.clone()), Some(("house", Disposition::Permanent)));
    assert_eq!(
        own(with.with_code("e-1", Disposition::Throttled)),
        Some(("house", Disposition::Throttled))
    );
    let without =
        recognizer(GET_MAP, 200, &[]).with_dialects(Dialects::standard().without("ogc-xml"));
    let Finding::Exception(exception) = { without }.push_last(b"<ServiceException/>") else {
        panic!()
    };
    assert_eq!(exception.dialect(), "xml");
}

/// Pieces of which answers are made, good and bad, whole and broken.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(&b"<?xml version='1.0' encoding='UTF-8'?>"[..]),
        Just(&b"\xEF\xBB\xBF"[..]),
        Just(&b"<!-- <ServiceExceptionReport> -->"[..]),
        Just(&b"<!DOCTYPE html>"[..]),
        Just(&b"<!DOCTYPE x [<!ENTITY a ']>'>]>"[..]),
        Just(&b"<ServiceExceptionReport xmlns='http://www.opengis.net/ogc'>"[..]),
        Just(&b"<ServiceException code='InvalidCRS'>"[..]),
        Just(&b"</ServiceException></ServiceExceptionReport>"[..]),
        Just(&b"<wfs:FeatureCollection xmlns:wfs='http://www.opengis.net/wfs'>"[..]),
        Just(&b"<ows:ExceptionReport xmlns:ows='http://www.opengis.net/ows'/>"[..]),
        Just(&b"<html><title>502 Bad Gateway</title>"[..]),
        Just(&b"</html>"[..]),
        Just(&b"<![CDATA[ ]] >"[..]),
        Just(&b"]]>"[..]),
        Just(&b"{\"error\":"[..]),
        Just(&b"{\"code\":500,\"message\":\"timed out \\u00"[..]),
        Just(&b"\"}}"[..]),
        Just(&b"{\"type\":\"FeatureCollection\",\"features\":["[..]),
        Just(&b"cb_1("[..]),
        Just(&b"[{\"a\":1}]"[..]),
        Just(&b"error code: 1015"[..]),
        Just(&b"\xFF\xFE<\0a\0>\0"[..]),
        Just(&b"\0<\0a"[..]),
        Just(&b" \r\n"[..]),
        Just(&b"\xC3\xBC\xFC"[..]),
        Just(&b"\x89PNG"[..]),
    ];
    prop_oneof![
        4 => prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat()),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn no_split_changes_the_finding(
        body in pieces(),
        cuts in prop::collection::vec(0..200_usize, 0..6),
        status in prop::sample::select(vec![200_u16, 206, 302, 404, 429, 500, 503]),
        target in prop::sample::select(vec![GET_MAP, GET_FEATURE, QUERY, "https://a.example.org/x", "/9/265/180.pbf"]),
        limit in prop::sample::select(vec![1_usize, 17, 100, 2048]),
        ended: bool,
    ) {
        let finish = |recognizer: &mut Recognizer, finding| match finding {
            Finding::Undecided => recognizer.finish(ended),
            finding => finding,
        };
        let mut at_once = recognizer(target, status, &[]).with_limit(limit);
        let finding = at_once.push(&body);
        let at_once = finish(&mut at_once, finding);
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut split = recognizer(target, status, &[]).with_limit(limit);
        let mut finding = Finding::Undecided;
        let mut from = 0;
        for cut in cuts.into_iter().chain([body.len()]) {
            let cut = cut.clamp(from, body.len());
            finding = split.push(&body[from..cut]);
            from = cut;
        }
        prop_assert_eq!(finish(&mut split, finding), at_once.clone());
        let mut bytewise = recognizer(target, status, &[]).with_limit(limit);
        let mut finding = Finding::Undecided;
        for byte in &body {
            finding = bytewise.push(std::slice::from_ref(byte));
        }
        prop_assert_eq!(finish(&mut bytewise, finding), at_once);
    }

    #[test]
    fn no_request_makes_the_operation_reader_panic(
        path in "[ -~]{0,40}",
        body in pieces(),
        content_type in prop::sample::select(vec!["text/xml", "application/x-www-form-urlencoded", "application/soap+xml; action=\"a\"", ""]),
    ) {
        if let Ok(uri) = format!("/{}", path.replace([' ', '#', '<', '>', '"', '\\', '^', '`', '{', '|', '}'], "")).parse::<Uri>() {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
            for method in [Method::GET, Method::POST, Method::DELETE] {
                let operation = crate::Operation::of(&method, &uri, &headers, Some(&body));
                prop_assert!(method != Method::DELETE || !operation.is_safe_to_repeat());
            }
        }
    }
}

#[test]
fn a_hostile_document_takes_time_in_proportion_to_its_length() {
    let many = |piece: &str| piece.repeat(1_000_000 / piece.len());
    for body in [
        format!("<ServiceExceptionReport>{}", many("</x>")),
        format!("<ServiceExceptionReport>{}", many("<x>")),
        format!("<ServiceExceptionReport>{}", many("<x/>")),
        format!("<ServiceExceptionReport {}>", many("xmlns:a='b' ")),
        format!("<Envelope>{}", many("<Body/>")),
        format!("{{\"error\":{}", many("[")),
        format!("{{\"error\":{{\"message\":\"{}", many("\\\\u00")),
        format!("<html>{}", many("<title>")),
        format!("<html>{}", many("<script>")),
        format!("<html>{}", many("&")),
        format!("<ServiceException>{}", many("token=&")),
        format!("<a>{}", many("<!")),
        many(" "),
        many("a"),
        many("<!-- "),
        many("<?xml "),
    ] {
        // Quadratic work would be a million times a million steps, and not come back.
        let mut recognizer = recognizer(GET_FEATURE, 200, &[]).whole_document();
        for piece in body.as_bytes().chunks(1000) {
            let _ = recognizer.push(piece);
        }
        let _ = recognizer.finish(true);
    }
}
