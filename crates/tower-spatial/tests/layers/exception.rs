//! The layer that looks for exceptions: what it finds, and that it changes nothing else.

use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::support::*;
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Empty};
use proptest::prelude::*;
use tokio::time::Instant;
use tower::{BoxError, Layer, ServiceExt, service_fn};
use tower_spatial::{
    exception::{
        Dialects, Disposition, InspectedBody, ServiceException, ServiceExceptionError,
        ServiceExceptionLayer,
    },
    find,
};

async fn inspect_with(
    layer: ServiceExceptionLayer,
    request: Request<NoBody>,
    response: Response<Scripted>,
) -> Result<Response<InspectedBody<Scripted>>, BoxError> {
    let mut response = Some(response);
    let server = service_fn(move |_: Request<NoBody>| {
        let response = response.take().unwrap();
        async { Ok::<_, Infallible>(response) }
    });
    layer.layer(server).oneshot(request).await
}

async fn inspect(
    response: Response<Scripted>,
) -> Result<Response<InspectedBody<Scripted>>, BoxError> {
    inspect_with(ServiceExceptionLayer::new(), get_map(), response).await
}

#[tokio::test(start_paused = true)]
async fn an_exception_with_status_200_is_an_error_with_its_parts_and_head() {
    for label in [
        "text/xml",
        "image/png",
        "application/vnd.ogc.se_xml; charset=utf-8",
        "application/octet-stream",
    ] {
        let mut response = answer(200, label, Scripted::frames([LAYER_NOT_DEFINED]));
        let cookie = "session=secret".parse().unwrap();
        response.headers_mut().insert("set-cookie", cookie);
        let error = inspect(response).await.unwrap_err();
        let found = find::<ServiceExceptionError>(&error).unwrap();
        assert_eq!(found.parts().status, StatusCode::OK);
        assert_eq!(found.head(), LAYER_NOT_DEFINED);
        let exception = find::<ServiceException>(&error).unwrap();
        assert_eq!(
            (exception.code(), exception.disposition()),
            (Some("LayerNotDefined"), Disposition::Permanent)
        );
        let printed = format!("{error:?} {error}");
        assert!(
            !printed.contains("BBOX") && !printed.contains("secret"),
            "{printed}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_exception_error_becomes_a_response_again() {
    let mut response = answer(200, "text/xml", Scripted::frames([LAYER_NOT_DEFINED]));
    response.headers_mut().insert("content-length", 9.into());
    let error = inspect(response)
        .await
        .unwrap_err()
        .downcast::<ServiceExceptionError>()
        .unwrap();
    let response = error.into_response();
    assert_eq!(response.headers()["content-type"], "text/xml");
    assert!(!response.headers().contains_key("content-length"));
    assert!(response.extensions().get::<ServiceException>().is_some());
    assert_eq!(
        response.into_body().collect().await.unwrap().to_bytes(),
        LAYER_NOT_DEFINED
    );
}

#[tokio::test(start_paused = true)]
async fn what_an_exception_becomes_depends_on_the_status_and_the_mode() {
    let cases = [
        (ServiceExceptionLayer::new(), 200, true),
        (ServiceExceptionLayer::new(), 404, false),
        (ServiceExceptionLayer::new(), 503, false),
        (ServiceExceptionLayer::new().annotate(), 200, false),
        (ServiceExceptionLayer::new().all_as_errors(), 404, true),
    ];
    for (layer, status, is_error) in cases {
        let response = answer(status, "text/xml", Scripted::frames([LAYER_NOT_DEFINED]));
        match inspect_with(layer, get_map(), response).await {
            Err(error) => {
                assert!(is_error, "{status}");
                assert!(find::<ServiceException>(&error).is_some());
            }
            Ok(response) => {
                assert!(!is_error, "{status}");
                let code = response
                    .extensions()
                    .get::<ServiceException>()
                    .and_then(|found| found.code());
                assert_eq!(code, Some("LayerNotDefined"));
                assert_eq!(
                    response.into_body().collect().await.unwrap().to_bytes(),
                    LAYER_NOT_DEFINED
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_can_have_dialects_and_rules_of_its_own() {
    let disposition = |result: Result<_, BoxError>| {
        find::<ServiceException>(&result.map(drop).unwrap_err())
            .unwrap()
            .disposition()
    };
    let report = || answer(200, "text/xml", Scripted::frames([LAYER_NOT_DEFINED]));
    let rule = Dialects::standard().with_code("LayerNotDefined", Disposition::Transient);
    let layer = ServiceExceptionLayer::new().dialects(rule.clone());
    assert_eq!(
        disposition(inspect_with(layer, get_map(), report()).await),
        Disposition::Transient
    );
    let mut request = get_map();
    request.extensions_mut().insert(rule);
    let by_request = inspect_with(ServiceExceptionLayer::new(), request, report()).await;
    assert_eq!(disposition(by_request), Disposition::Transient);
}

#[tokio::test(start_paused = true)]
async fn an_exception_that_comes_byte_by_byte_is_found() {
    let body = Scripted::frames(
        LAYER_NOT_DEFINED
            .as_bytes()
            .chunks(1)
            .map(Bytes::from_static),
    );
    let error = inspect(answer(200, "image/png", body)).await.unwrap_err();
    let found = find::<ServiceExceptionError>(&error).unwrap();
    assert_eq!(found.exception().code(), Some("LayerNotDefined"));
    assert!(LAYER_NOT_DEFINED.as_bytes().starts_with(found.head()));
}

#[tokio::test(start_paused = true)]
async fn a_good_document_flows_right_after_its_root() {
    let root =
        r#"<wfs:FeatureCollection xmlns:wfs="http://www.opengis.net/wfs/2.0" numberReturned="2">"#;
    let body = Scripted::new([
        Step::data(root),
        Step::Wait(Duration::from_secs(240)),
        Step::data("</wfs:FeatureCollection>"),
    ]);
    let start = Instant::now();
    let mut response = inspect(answer(200, "text/xml", body)).await.unwrap();
    let first = response
        .body_mut()
        .frame()
        .await
        .unwrap()
        .unwrap()
        .into_data()
        .unwrap();
    assert_eq!(
        (first.as_ref(), start.elapsed()),
        (root.as_bytes(), Duration::ZERO)
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_root_is_held_no_longer_than_max_wait() {
    let body = Scripted::new([Step::data("<?xml version='1.0'?><!-- "), Step::Hang]);
    let start = Instant::now();
    let mut response = inspect(answer(200, "text/xml", body)).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(5));
    assert!(response.body_mut().frame().await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn no_frame_beyond_the_limit_is_read() {
    let body = Scripted::frames(vec![vec![b' '; 512]; 100]);
    let taken = Arc::clone(&body.taken);
    let response = inspect(answer(200, "text/xml", body)).await.unwrap();
    assert_eq!(taken.load(Ordering::Relaxed), 4, "2 KB in frames of 512 B");
    assert_eq!(
        response
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .len(),
        51_200
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_of_empty_frames_ends_the_look() {
    let body = Scripted::frames(std::iter::repeat_n("", 10_000).chain(["end"]));
    let response = inspect(answer(200, "text/xml", body)).await.unwrap();
    assert_eq!(
        response.into_body().collect().await.unwrap().to_bytes(),
        "end"
    );
}

#[tokio::test(start_paused = true)]
async fn what_has_no_head_to_look_at_is_never_waited_for() {
    let start = Instant::now();
    let endless = || Scripted::new([Step::Hang]);
    for label in [
        "text/event-stream",
        "multipart/x-mixed-replace; boundary=x",
        "application/grpc+proto",
    ] {
        inspect(answer(200, label, endless())).await.unwrap();
    }
    for status in [101, 103, 204, 304] {
        inspect(answer(status, "text/xml", endless()))
            .await
            .unwrap();
    }
    for method in ["HEAD", "CONNECT", "OPTIONS", "TRACE"] {
        let request = Request::builder()
            .method(method)
            .uri(GET_MAP)
            .body(Empty::new())
            .unwrap();
        inspect_with(
            ServiceExceptionLayer::new(),
            request,
            answer(200, "text/xml", endless()),
        )
        .await
        .unwrap();
    }
    let unknown = Request::get("https://example.org/download")
        .body(Empty::new())
        .unwrap();
    inspect_with(
        ServiceExceptionLayer::new(),
        unknown,
        answer(200, "video/mp4", endless()),
    )
    .await
    .unwrap();
    let unknown = Request::get("https://example.org/echo")
        .body(Empty::new())
        .unwrap();
    let piece = Scripted::new([Step::data("a piece"), Step::Hang]);
    let octets = answer(200, "application/octet-stream", piece);
    inspect_with(ServiceExceptionLayer::new(), unknown, octets)
        .await
        .unwrap();
    let impatient = ServiceExceptionLayer::new().max_wait(Duration::ZERO);
    inspect_with(impatient, get_map(), answer(200, "text/xml", endless()))
        .await
        .unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_late_is_waited_for_where_the_request_is_a_get_map() {
    let late = Scripted::new([
        Step::Wait(Duration::from_secs(1)),
        Step::data(LAYER_NOT_DEFINED),
    ]);
    let error = inspect(answer(200, "image/png", late)).await.unwrap_err();
    assert!(find::<ServiceException>(&error).is_some());
}

#[tokio::test(start_paused = true)]
async fn an_answer_cut_in_its_head_is_a_failed_attempt() {
    let cut = || Scripted::new([Step::data("<?xml version='1.0'?><Serv"), Step::Fail]);
    let error = inspect(answer(200, "text/xml", cut())).await.unwrap_err();
    assert!(find::<std::io::Error>(&error).is_some());
    // A status that tells by itself is not lost for it.
    let response = inspect(answer(503, "text/xml", cut())).await.unwrap();
    assert_eq!(response.status(), 503);
    assert!(response.into_body().collect().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_an_exception_is_drained_within_bounds() {
    let body = Scripted::new([
        Step::data(LAYER_NOT_DEFINED),
        Step::Wait(Duration::from_millis(20)),
        Step::data("\n"),
        Step::Hang,
    ]);
    let taken = Arc::clone(&body.taken);
    let start = Instant::now();
    inspect(answer(200, "text/xml", body)).await.unwrap_err();
    assert_eq!(
        (taken.load(Ordering::Relaxed), start.elapsed()),
        (2, Duration::from_millis(100))
    );
}

#[tokio::test(start_paused = true)]
async fn nul_bytes_and_a_huge_header_change_nothing() {
    let mut response = answer(200, "text/xml", Scripted::frames([vec![0; 5_000]]));
    response
        .headers_mut()
        .insert("x-huge", "x".repeat(64 * 1024).parse().unwrap());
    let response = inspect(response).await.unwrap();
    assert_eq!(response.headers()["x-huge"].len(), 64 * 1024);
    assert_eq!(
        response.into_body().collect().await.unwrap().to_bytes(),
        vec![0; 5_000]
    );
}

#[cfg(feature = "decode")]
#[tokio::test(start_paused = true)]
async fn an_encoded_exception_is_found_and_an_encoded_answer_passes_as_it_came() {
    use std::io::Write;

    for (name, exception) in [
        ("gzip", true),
        ("deflate", true),
        ("gzip", false),
        ("br", true),
    ] {
        let plain = if exception {
            LAYER_NOT_DEFINED
        } else {
            "<kml xmlns='http://www.opengis.net/kml/2.2'/>"
        };
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(plain.as_bytes()).unwrap();
        zlib.write_all(plain.as_bytes()).unwrap();
        let encoded = if name == "deflate" {
            zlib.finish().unwrap()
        } else {
            encoder.finish().unwrap()
        };
        for size in [1, 7, 4096] {
            let frames: Vec<_> = encoded.chunks(size).map(Bytes::copy_from_slice).collect();
            let mut response = answer(200, "text/xml", Scripted::frames(frames));
            response
                .headers_mut()
                .insert("content-encoding", name.parse().unwrap());
            match inspect(response).await {
                Err(error) => {
                    assert!(exception && name != "br");
                    let found = find::<ServiceExceptionError>(&error).unwrap();
                    assert!(
                        LAYER_NOT_DEFINED.as_bytes().starts_with(found.head())
                            && !found.head().is_empty()
                    );
                }
                Ok(response) => {
                    assert!(!exception || name == "br");
                    assert_eq!(
                        response.into_body().collect().await.unwrap().to_bytes(),
                        encoded
                    );
                }
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let text = "(<\\?xml version='1.0'\\?>| |\n|<!-- c -->|<a:b xmlns:a='urn:x'>|\\{\"type\":\"FeatureCollection\"|x){0,60}";
    let data = prop_oneof![
        text.prop_map(Step::data),
        prop::collection::vec(any::<u8>(), 0..3_000).prop_map(Step::data),
        Just(Step::data(&b"\x89PNG\r\n\x1a\n"[..])),
        (0u64..3_000).prop_map(|ms| Step::Wait(Duration::from_millis(ms))),
    ];
    let end = prop_oneof![
        4 => Just(vec![]),
        1 => Just(vec![Step::Trailers(HeaderMap::from_iter([(http::header::ETAG, "\"a\"".parse().unwrap())]))]),
        1 => Just(vec![Step::Fail]),
    ];
    (prop::collection::vec(data, 0..8), end).prop_map(|(mut steps, end)| {
        steps.extend(end);
        steps
    })
}

/// All that a reader can see of a body: data joined, trailers, whether it failed.
async fn read<B: Body<Data = Bytes, Error = BoxError> + Unpin>(
    mut body: B,
) -> (Vec<u8>, Option<HeaderMap>, bool) {
    let (mut data, mut trailers) = (Vec::new(), None);
    loop {
        let hint = body.size_hint();
        if body.is_end_stream() {
            assert_eq!(hint.exact().unwrap_or(0), 0);
            return (data, trailers, false);
        }
        match body.frame().await {
            None => return (data, trailers, false),
            Some(Err(_)) => return (data, trailers, true),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(bytes) => {
                    assert!(hint.lower() >= bytes.len() as u64 || hint.exact().is_none());
                    assert!(hint.upper().is_none_or(|upper| upper >= bytes.len() as u64));
                    data.extend_from_slice(&bytes);
                }
                Err(frame) => trailers = frame.into_trailers().ok(),
            },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    /// Law 4.
    #[test]
    fn the_caller_receives_byte_for_byte_what_the_service_below_handed_over(
        steps in steps(), known in any::<bool>(), status in prop::sample::select(vec![200u16, 404, 503]),
        label in prop::sample::select(vec!["text/xml", "image/png", "application/json", "text/html"]),
        limit in prop::sample::select(vec![64usize, 2048]),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let body = || if known { Scripted::new(steps.clone()).known_length() } else { Scripted::new(steps.clone()) };
            let (data, trailers, failed) = read(body()).await;
            let layer = ServiceExceptionLayer::new().annotate().limit(limit);
            match inspect_with(layer, get_map(), answer(status, label, body())).await {
                Ok(response) => {
                    let inspected = response.into_body();
                    if known && !failed {
                        assert_eq!(inspected.size_hint().exact(), Some(data.len() as u64));
                    }
                    assert_eq!(read(inspected).await, (data, trailers, failed));
                }
                Err(_) => assert!(failed && status == 200),
            }
        });
    }
}

/// A browser asks so before it asks for a map through a proxy.
#[tokio::test(start_paused = true)]
async fn an_empty_answer_to_options_is_none_that_lacks_its_map() {
    let request = Request::options(GET_MAP).body(Empty::new()).unwrap();
    let empty = answer(200, "text/plain", Scripted::new([]));
    let answer = inspect_with(ServiceExceptionLayer::new(), request, empty).await;
    assert_eq!(answer.unwrap().status(), 200);
}
