use service_exception::Disposition;
use service_exception::document::{Format, Incomplete};

use super::*;

#[test]
fn no_cut_of_a_document_is_whole() {
    for body in [
        "<a/>",
        "<?xml version='1.0'?><!-- <a> --><!DOCTYPE a [<!ENTITY b \"]>\"><!-- ' ]> -->]><a b='>' c=\"/>\"><![CDATA[</a>]]]><!-- </a> -->></a>",
        "<x:a xmlns:x='urn:x'><b/><c d=''/>text &amp; <?pi </x:a> ?></x:a >",
        "\u{FEFF}\n<kml xmlns='http://www.opengis.net/kml/2.2'><Document/></kml>",
    ] {
        no_cut_is_whole(GET_FEATURE, "text/xml", body.as_bytes());
    }
}

#[test]
fn other_content_behind_the_root_is_none_of_the_document() {
    let trailing = |body| check(GET_FEATURE, "text/xml", body);
    for body in ["<a></a></a>", "<a/>\n<z/>"] {
        assert!(
            matches!(
                trailing(body),
                Err(Incomplete::Trailing {
                    format: Format::Xml,
                    ..
                })
            ),
            "{body}: {:?}",
            trailing(body)
        );
    }
    assert!(trailing("<a/><![CDATA[b]]>c").is_err());
    // Words are what a program prints when it fails.
    assert!(matches!(
        trailing("<a></a>msDrawMap(): failed"),
        Err(Incomplete::Exception { at: 7, .. })
    ));
    assert!(matches!(
        trailing("<a><b></c></b>"),
        Err(Incomplete::Malformed { .. })
    ));
}

const FC: &str = "<wfs:FeatureCollection xmlns:wfs='http://www.opengis.net/wfs/2.0' xmlns:gml='http://www.opengis.net/gml/3.2' xmlns:t='urn:t'";

#[test]
fn members_are_counted_in_every_form_of_a_collection() {
    let count = |attributes: &str, body: &str| {
        check(
            GET_FEATURE,
            "text/xml",
            format!("{FC} {attributes}>{body}</wfs:FeatureCollection>"),
        )
    };
    let member =
        "<wfs:member><t:a><t:member/><t:featureMember><t:x/></t:featureMember></t:a></wfs:member>";
    let many = "<gml:featureMembers><t:a><t:a/></t:a><t:a/><t:FeatureCollection><t:member/></t:FeatureCollection></gml:featureMembers>";
    let nested = "<wfs:member><wfs:FeatureCollection numberReturned='2'><wfs:member/><wfs:member><t:a/></wfs:member></wfs:FeatureCollection></wfs:member>";
    let resolved = "<wfs:additionalObjects><wfs:SimpleFeatureCollection><wfs:member><t:a/></wfs:member></wfs:SimpleFeatureCollection></wfs:additionalObjects>";
    let tuple = "<wfs:member><wfs:Tuple><wfs:member><t:a/></wfs:member><wfs:member><t:b/></wfs:member></wfs:Tuple></wfs:member>";
    for (body, members) in [
        (String::new(), 0),
        (member.repeat(3), 3),
        (many.to_owned(), 3),
        (nested.repeat(2), 4),
        (member.to_owned() + resolved, 1),
        (tuple.to_owned(), 1),
        ("<gml:featureMember><t:a/></gml:featureMember>".repeat(2), 2),
        (
            format!("<gml:boundedBy><gml:member/></gml:boundedBy>{member}"),
            1,
        ),
    ] {
        let exact = count(&format!("numberReturned=\"{members}\""), &body);
        assert_eq!(exact.unwrap().members(), Some(members), "{body}");
        let short = count(&format!("numberOfFeatures='{}'", members + 1), &body);
        let expected = members + 1;
        assert_eq!(
            short,
            Err(Incomplete::Members {
                expected,
                came: members
            }),
            "{body}"
        );
        // What is matched is not what came, and what is unknown is no number.
        let matched = count("numberMatched='99' numberReturned='unknown'", &body).unwrap();
        assert_eq!(
            (matched.members(), matched.matched()),
            (Some(members), Some(99))
        );
    }
    assert!(check(HITS, "text/xml", format!("{FC} numberReturned='9'/>")).is_ok());
    let values = "<wfs:ValueCollection numberReturned='2' xmlns:wfs='http://www.opengis.net/wfs/2.0'><wfs:member>a</wfs:member></wfs:ValueCollection>";
    assert!(matches!(
        check(GET_FEATURE, "text/xml", values),
        Err(Incomplete::Members { .. })
    ));
}

#[test]
fn a_header_announces_members_too() {
    let asked = Asked::new(&Method::GET, &Uri::from_static(ITEMS), &HeaderMap::new());
    let headers = HeaderMap::from_iter([(
        header::HeaderName::from_static("ogc-numberreturned"),
        HeaderValue::from_static("2"),
    )]);
    let mut document = Document::new(&asked, StatusCode::OK, &headers);
    document.push(b"<sf:FeatureCollection xmlns:sf='http://www.opengis.net/ogcapi-features-1/1.0/sf'><sf:featureMember/></sf:FeatureCollection>");
    assert_eq!(
        document.finish(),
        Err(Incomplete::Members {
            expected: 2,
            came: 1
        })
    );
}

const REPORT: &str = "<ows:ExceptionReport xmlns:ows='http://www.opengis.net/ows/1.1' version='2.0.0'><ows:Exception exceptionCode='NoApplicableCode'><ows:ExceptionText>Connection to the data store was lost</ows:ExceptionText></ows:Exception></ows:ExceptionReport>";

#[test]
fn a_report_in_the_midst_or_at_the_tail_is_found_wherever_it_begins() {
    let filling = "<wfs:member><t:a/></wfs:member>".repeat(2000);
    let declaration = "<?xml version='1.0'?>";
    let wms = "<ServiceExceptionReport version='1.3.0' xmlns='http://www.opengis.net/ogc'><ServiceException>msQuery: connection timed out</ServiceException></ServiceExceptionReport>";
    for (name, body) in [
        (
            "never closed",
            format!("{FC}>{filling}<wfs:member><t:a>{REPORT}"),
        ),
        (
            "closed",
            format!("{FC}>{filling}{REPORT}</wfs:FeatureCollection>"),
        ),
        (
            "declared",
            format!("{FC}>{filling}<t:a>{declaration}{REPORT}</t:a></wfs:FeatureCollection>"),
        ),
        (
            "declared, in no namespace",
            format!(
                "{FC}>{filling}<t:a>{declaration}<ExceptionReport><Exception exceptionCode='NoApplicableCode'/></ExceptionReport></t:a></wfs:FeatureCollection>"
            ),
        ),
        (
            "behind the end",
            format!("{FC}>{filling}</wfs:FeatureCollection>\n{REPORT}"),
        ),
        (
            "declared behind the end",
            format!("{FC}>{filling}</wfs:FeatureCollection>{declaration}{REPORT}"),
        ),
        ("of WMS", format!("{FC}>{filling}<t:a>{wms}")),
        (
            "by the root's prefix",
            format!(
                "{FC} xmlns:e='http://www.opengis.net/ows'>{filling}<e:ExceptionReport><e:Exception exceptionCode='NoApplicableCode'/></e:ExceptionReport>"
            ),
        ),
    ] {
        let error = check(GET_FEATURE, "text/xml", &body).unwrap_err();
        let Incomplete::Exception { at, exception } = &error else {
            panic!("{name}: {error}")
        };
        assert_eq!(exception.disposition(), Disposition::Transient, "{name}");
        assert!(*at > 60_000, "{name}: {at}");
        assert_eq!(
            check_in(GET_FEATURE, "text/xml", body.as_bytes(), 7),
            Err(error),
            "{name}"
        );
    }
}

#[test]
fn what_merely_looks_like_a_report_is_part_of_the_document() {
    let members = [
        format!("<t:a><![CDATA[{REPORT}]]></t:a>"),
        format!("<!-- {REPORT} -->"),
        "<t:ExceptionReport exceptionCode='7'><t:Exception/></t:ExceptionReport>".to_owned(),
        "<t:a name='&lt;ows:ExceptionReport>' b=\"<ServiceExceptionReport>\"/>".to_owned(),
        "<ExceptionReport xmlns='urn:inspections'><b/></ExceptionReport>".to_owned(),
        "<Format>application/vnd.ogc.se_xml</Format><Exception><Format>XML</Format></Exception>"
            .to_owned(),
        "<xs:element name='ExceptionReport' xmlns:xs='http://www.w3.org/2001/XMLSchema'/>"
            .to_owned(),
    ];
    for body in members {
        let body = format!("{FC}>{body}</wfs:FeatureCollection>");
        assert!(check(GET_FEATURE, "text/xml", &body).is_ok(), "{body}");
    }
    for root in [
        "wps:ExecuteResponse xmlns:wps='http://www.opengis.net/wps/1.0.0'",
        "soap:Envelope xmlns:soap='http://schemas.xmlsoap.org/soap/envelope/'",
    ] {
        let name = root.split(' ').next().unwrap();
        // The recognizer's business: the document is all there.
        assert!(check(ANY, "text/xml", format!("<{root}>{REPORT}</{name}>")).is_ok());
    }
    assert!(check(GET_FEATURE, "text/xml", REPORT).is_ok());
}

#[test]
fn an_overpass_remark_at_the_end_is_an_exception_unless_it_is_none() {
    let node =
        "<node id='1' lat='1' lon='1'><tag k='remark' v='runtime error: no'/></node>".repeat(100);
    let osm = |remark: &str| {
        check(
            "/api/interpreter?data=node(1);out;",
            "application/osm3s+xml",
            format!("<osm version='0.6'>{node}{remark}\n</osm>\n"),
        )
    };
    let timeout = "<remark> runtime error: Query timed out in \"query\" at line 3 after 26 seconds. </remark>";
    let memory = "<remark> runtime error: Query run out of memory in \"recurse\" at line 1 using about 512 MB of RAM. </remark>";
    for (remark, disposition) in [
        (timeout, Disposition::Transient),
        (memory, Disposition::Permanent),
    ] {
        let Err(Incomplete::Exception { exception, .. }) = osm(remark) else {
            panic!("{remark}")
        };
        assert_eq!(
            (exception.dialect(), exception.disposition()),
            ("overpass", disposition)
        );
    }
    assert!(osm("<remark>runtime remark: slow</remark>").is_ok());
    assert!(osm("").is_ok());
}
