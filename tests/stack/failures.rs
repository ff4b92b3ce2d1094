//! What a line or a server can do to an answer, and that a repeat mends it.

use std::time::Duration;

use flaky_ogc::{Cut, End, Exception, Fault, Form, Kind, Script};
use http::Request;
use tower::ServiceExt;
use tower_spatial::{
    call::{Attempts, Cause},
    exception::{Disposition, ServiceException},
    find,
    replay::ReplayBody,
    retry::{GaveUp, RepeatUnsafe, StopReason},
};

use crate::support::*;

const SHORT: Duration = Duration::from_millis(100);

fn faults_of_any_line() -> Vec<Fault> {
    vec![
        Fault::status(502),
        Fault::status(503).retry_after(0),
        Fault::status(504).informational(103),
        Fault::reset(),
        Fault::close(),
        Fault::stall(),
        Fault::html_page(),
        Fault::empty(),
        Fault::exception(Exception::new(
            Form::Report130,
            "msDrawMap(): Image handling error. Database connection failed",
        )),
        Fault::exception(
            Exception::new(Form::Ows11, "Connection timed out").code("NoApplicableCode"),
        )
        .gzip(),
        Fault::delivery().late_head(2 * SHORT),
    ]
}

#[tokio::test]
async fn every_failure_of_a_map_is_mended_by_a_repeat() {
    for fault in faults_of_any_line() {
        let server = start(Script::default().first([fault.clone()])).await;
        let response = stack(Version::Http1, 3, SHORT)
            .oneshot(get_map(&server))
            .await;
        let response = response.unwrap_or_else(|error| panic!("{fault:?}: {error}"));
        assert_eq!(
            response
                .extensions()
                .get::<Attempts>()
                .map(|attempts| attempts.count()),
            Some(2),
            "{fault:?}"
        );
        assert_eq!(bytes(response).await.unwrap(), tile().png(), "{fault:?}");
        assert_eq!(server.counts().requests, 2, "{fault:?}");
    }
}

#[tokio::test]
async fn an_answer_cut_within_the_inspected_head_is_a_failed_attempt() {
    for how in [Cut::Reset, Cut::Close] {
        let exception = Exception::new(Form::Report130, "x".repeat(3_000));
        let cut = Fault::exception(exception)
            .in_parts(10, Duration::from_millis(1))
            .cut_after(30, how);
        let server = start(Script::default().first([cut])).await;
        assert_eq!(
            ask(&stack(Version::Http1, 2, SHORT), get_map(&server))
                .await
                .unwrap(),
            tile().png(),
            "{how:?}"
        );
        assert_eq!(server.counts().requests, 2);
    }
}

#[tokio::test]
async fn a_refused_connection_is_told_and_never_executed() {
    let server = start(Script::default()).await;
    let request = get_map(&server);
    server.shutdown().await;
    let error = stack(Version::Http1, 3, SHORT)
        .oneshot(request)
        .await
        .unwrap_err();
    let gave_up = find::<GaveUp>(&error).unwrap();
    assert_eq!(
        (gave_up.reason(), gave_up.attempts().len()),
        (StopReason::Attempts, 3)
    );
    assert_eq!(gave_up.attempts()[0].cause(), &Cause::Refused);
}

#[tokio::test]
async fn a_stream_that_http2_ends_is_mended_by_a_repeat() {
    // INTERNAL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM: RFC 9113 section 7.
    for code in [2, 7, 8, 11] {
        let server = start(Script::default().first([Fault::reset_stream(code)])).await;
        let response = stack(Version::Http2, 2, SHORT)
            .oneshot(get_map(&server))
            .await;
        let response = response.unwrap_or_else(|error| panic!("{code}: {error}"));
        assert_eq!(bytes(response).await.unwrap(), tile().png());
        assert_eq!(server.counts().connections, 1);
    }
}

#[tokio::test]
async fn a_transaction_goes_out_once_whatever_happens_to_the_line() {
    let transaction = "<wfs:Transaction service='WFS' version='2.0.0' xmlns:wfs='http://www.opengis.net/wfs/2.0'><wfs:Insert/></wfs:Transaction>";
    let post = |url: &str| {
        let body = ReplayBody::buffered(transaction);
        Request::post(format!("{url}/wfs"))
            .header("content-type", "text/xml")
            .body(body)
            .unwrap()
    };
    for fault in [
        Fault::reset(),
        Fault::close(),
        Fault::stall(),
        Fault::status(503),
        Fault::reset().after_work(),
    ] {
        let server = start(Script::default().first([fault.clone()])).await;
        let _ = stack(Version::Http1, 5, SHORT)
            .oneshot(post(&server.url()))
            .await;
        assert_eq!(server.counts().requests, 1, "{fault:?}");
    }
    let server = start(Script::default().first([Fault::reset()])).await;
    let mut request = post(&server.url());
    request.extensions_mut().insert(RepeatUnsafe);
    stack(Version::Http1, 5, SHORT)
        .oneshot(request)
        .await
        .unwrap();
    assert_eq!(
        (server.counts().requests, server.counts().transactions),
        (2, 1)
    );
}

#[tokio::test]
async fn every_form_of_a_permanent_exception_costs_one_request() {
    for form in Form::ALL {
        // The others carry no code that tells.
        let numbered = matches!(form, Form::Problem | Form::ArcGis);
        if numbered || matches!(form, Form::Html | Form::Empty | Form::Wmt | Form::Qgis) {
            continue;
        }
        let server = start(Script::default().exceptions(form)).await;
        let query = tile().query().replace("LAYERS=", "LAYERS=nowhere");
        let url = format!("{}/wms?{query}", server.url());
        let result = stack(Version::Http1, 5, SHORT).oneshot(get(url)).await;
        let found = match &result {
            Ok(response) => response.extensions().get::<ServiceException>(),
            Err(error) => find::<ServiceException>(error),
        };
        let found = found.unwrap_or_else(|| panic!("{form:?} is not recognised"));
        assert_eq!(found.disposition(), Disposition::Permanent, "{form:?}");
        assert_eq!(server.counts().requests, 1, "{form:?}");
    }
}

#[tokio::test]
async fn hostile_answers_end_with_a_verdict() {
    let head = |rest: &str| {
        bytes::Bytes::from(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n{rest}"
        ))
    };
    let now = Duration::ZERO;
    let cases = [
        head("Content-Length: 10\r\n\r\n\0\0\0\0\0\0\0\0\0\0"),
        head(&format!(
            "X-Huge: {}\r\nContent-Length: 0\r\n\r\n",
            "x".repeat(64 * 1024)
        )),
        head(&format!(
            "Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
            "1\r\n \r\n".repeat(5_000)
        )),
        head("Transfer-Encoding: chunked\r\n\r\nZZ\r\n"),
        bytes::Bytes::from_static(b"\x16\x03\x01\x02\x00"),
        bytes::Bytes::from_static(
            b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
        ),
    ];
    for (number, answer) in cases.into_iter().enumerate() {
        let server =
            start(Script::default().when(|_| true, Fault::raw([(now, answer)], End::Close))).await;
        let result = stack(Version::Http1, 2, SHORT)
            .oneshot(get_map(&server))
            .await;
        let counts = server.counts();
        assert!(
            (1..=2).contains(&counts.requests),
            "{number}: {result:?} {counts:?}"
        );
        assert_eq!(counts.kind(Kind::Raw), counts.requests);
    }
}
