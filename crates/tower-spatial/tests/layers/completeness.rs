//! `CompletenessLayer`: what is not whole is a failed attempt, and what is whole is handed on as it came.

use std::{
    io::Write,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Empty, Full};
use proptest::prelude::*;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, retry::RetryLayer, service_fn};
use tower_spatial::{
    ConcurrencyLimitLayer,
    call::{Outcome, Verdict},
    find,
    replay::ReplayBody,
    retry::{GaveUp, RetryPolicy},
    verify::completeness::{
        CollectError, CompletenessLayer, CountMemory, ExpectedCount, Incomplete, IncompleteError,
        Problem, QueryKey,
    },
};

use crate::support::*;

const GET_FEATURE: &str = "https://maps.example.org/wfs?service=WFS&version=2.0.0&request=GetFeature&typeNames=a&token=SECRET";

fn get(uri: &str) -> Request<NoBody> {
    Request::get(uri).body(Empty::new()).unwrap()
}

fn gml(members: usize, announced: &str) -> String {
    format!(
        "<wfs:FeatureCollection xmlns:wfs='http://www.opengis.net/wfs/2.0' {announced}>{}</wfs:FeatureCollection>",
        "<wfs:member><a/></wfs:member>".repeat(members)
    )
}

/// Answers with each body of the script, then with its last one for ever; counts and notes what was asked.
fn serve(
    script: Vec<Response<Scripted>>,
) -> (
    impl Service<Request<NoBody>, Response = Response<Scripted>, Error = BoxError, Future: Send> + Clone,
    Arc<AtomicUsize>,
) {
    let calls = Arc::new(AtomicUsize::new(0));
    let script = Arc::new(Mutex::new(script.into_iter().map(Some).collect::<Vec<_>>()));
    let counted = Arc::clone(&calls);
    let server = service_fn(move |_: Request<NoBody>| {
        let call = counted.fetch_add(1, Ordering::Relaxed);
        let response = script.lock().unwrap().get_mut(call).and_then(Option::take);
        async move { response.ok_or_else(|| "asked too often".into()) }
    });
    (server, calls)
}

fn whole(label: &str, body: impl Into<Bytes>) -> Response<Scripted> {
    answer(200, label, Scripted::new([Step::Data(body.into())]))
}

async fn once(
    layer: CompletenessLayer,
    request: Request<NoBody>,
    response: Response<Scripted>,
) -> Result<Bytes, BoxError> {
    let (server, _) = serve(vec![response]);
    let service = ServiceBuilder::new().layer(layer).service(server);
    let response = service.oneshot(request).await?;
    Ok(response.into_body().collect().await?.to_bytes())
}

fn problem(error: &BoxError) -> &Problem {
    find::<IncompleteError>(error)
        .unwrap_or_else(|| panic!("{error:?}"))
        .problem()
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn encoded(mut response: Response<Scripted>, encoding: &'static str) -> Response<Scripted> {
    let encoding = HeaderValue::from_static(encoding);
    response
        .headers_mut()
        .insert(header::CONTENT_ENCODING, encoding);
    response
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_whole_is_repeated_until_one_is() {
    let document = gml(3, "numberReturned='3'");
    let zipped = gzip(document.as_bytes());
    let cut = |body: &[u8]| body[..body.len() - 9].to_vec();
    let failures: Vec<(&str, Response<Scripted>)> = vec![
        (
            "cut in framing that is whole",
            whole("text/xml", cut(document.as_bytes())),
        ),
        (
            "fewer members than announced",
            whole("text/xml", gml(2, "numberReturned='3'")),
        ),
        ("no byte at all", whole("text/xml", "")),
        ("cut gzip", encoded(whole("text/xml", cut(&zipped)), "gzip")),
        (
            "gzip without its trailer",
            encoded(
                whole("text/xml", zipped[..zipped.len() - 1].to_vec()),
                "gzip",
            ),
        ),
        (
            "cut document in whole gzip",
            encoded(whole("text/xml", gzip(&cut(document.as_bytes()))), "gzip"),
        ),
        (
            "reset in the body",
            answer(
                200,
                "text/xml",
                Scripted::new([Step::data(document[..99].to_owned()), Step::Fail]),
            ),
        ),
        ("shorter than announced", {
            // As HTTP/2 has it, where a stream is reset without an error.
            let mut response = whole("text/xml", document.clone());
            let longer = HeaderValue::from(document.len() + 1);
            response
                .headers_mut()
                .insert(header::CONTENT_LENGTH, longer);
            response
        }),
        (
            "a report at the tail",
            whole("text/xml", format!("{document}{}", CONNECTION_FAILED)),
        ),
    ];
    for (name, failure) in failures {
        let good = encoded(whole("text/xml", zipped.clone()), "gzip");
        let (server, calls) = serve(vec![failure, good]);
        let client = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryPolicy::default()))
            .layer(CompletenessLayer::new())
            .service(server);
        let response = client
            .oneshot(get(GET_FEATURE))
            .await
            .unwrap_or_else(|error| panic!("{name}: {error:?}"));
        // Checked decoded, handed on encoded.
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, zipped, "{name}");
        assert_eq!(calls.load(Ordering::Relaxed), 2, "{name}");
    }
}

/// Law 3, and law 9.
#[tokio::test(start_paused = true)]
async fn an_unsafe_request_goes_out_once_and_its_error_names_no_url() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let server = service_fn(move |_: Request<ReplayBody<Full<Bytes>>>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async {
            Ok::<_, BoxError>(whole(
                "text/xml",
                "<wfs:TransactionResponse xmlns:wfs='http://www.opengis.net/wfs'>",
            ))
        }
    });
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryPolicy::default()))
        .layer(CompletenessLayer::new())
        .service(server);
    let transaction = "<wfs:Transaction xmlns:wfs='http://www.opengis.net/wfs' service='WFS'/>";
    let request = Request::post("https://user:pw@maps.example.org/wfs?key=SECRET")
        .header(header::CONTENT_TYPE, "text/xml")
        .body(ReplayBody::buffered(Bytes::from(transaction)))
        .unwrap();
    let mut request = request;
    let operation = tower_spatial::exception::Operation::of(
        &Method::POST,
        request.uri(),
        request.headers(),
        Some(transaction.as_bytes()),
    );
    request.extensions_mut().insert(operation);
    let error = client.oneshot(request).await.unwrap_err();
    assert!(matches!(
        problem(&error),
        Problem::Document(Incomplete::NotClosed { .. })
    ));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    for text in [
        format!("{error}"),
        format!("{error:?}"),
        problem(&error).to_string(),
    ] {
        assert!(
            !text.contains("SECRET") && !text.contains("pw") && !text.contains("maps."),
            "{text}"
        );
    }
}

/// Law 7, for what stands at the tail.
#[tokio::test(start_paused = true)]
async fn what_the_server_cannot_do_costs_it_one_request() {
    let memory = r#"{"elements":[{"type":"node"}],"remark":"runtime error: Query run out of memory in \"recurse\" at line 1."}"#;
    let (server, calls) = serve(vec![whole("application/json", memory)]);
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryPolicy::default()))
        .layer(CompletenessLayer::new())
        .service(server);
    let error = client
        .oneshot(get(
            "https://overpass.example.org/api/interpreter?data=[out:json];node(1);out;",
        ))
        .await
        .unwrap_err();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(problem(&error).exception().unwrap().dialect(), "overpass");
    assert!(find::<GaveUp>(&error).is_none());
}

/// Law 4.
#[tokio::test]
async fn what_is_handed_on_is_what_came_with_its_trailers_and_its_length() {
    let document = gml(4000, "numberReturned='4000'");
    let mut trailers = HeaderMap::new();
    trailers.insert("checksum", HeaderValue::from_static("1"));
    for memory in [10, 50_000, 1 << 20] {
        for piece in [7_777, 60_000] {
            let mut steps: Vec<_> = document
                .as_bytes()
                .chunks(piece)
                .map(|piece| Step::data(piece.to_vec()))
                .collect();
            steps.insert(1, Step::data(""));
            steps.push(Step::Trailers(trailers.clone()));
            let (server, _) = serve(vec![answer(200, "text/xml", Scripted::new(steps))]);
            let layer = CompletenessLayer::new().memory(memory);
            let service = ServiceBuilder::new().layer(layer).service(server);
            let response = service.oneshot(get(GET_FEATURE)).await.unwrap();
            let mut body = response.into_body();
            assert_eq!(body.size_hint().exact(), Some(document.len() as u64));
            let mut came = Vec::new();
            let mut last = None;
            while let Some(frame) = body.frame().await {
                match frame.unwrap().into_data() {
                    Ok(data) => {
                        came.extend_from_slice(&data);
                        let left = (document.len() - came.len()) as u64;
                        assert_eq!(body.size_hint().exact(), Some(left));
                        assert!(!body.is_end_stream());
                    }
                    Err(frame) => last = frame.into_trailers().ok(),
                }
            }
            assert!(body.is_end_stream());
            assert_eq!(last.as_ref(), Some(&trailers));
            assert!(came == document.as_bytes(), "{memory} {piece}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_pieces_and_the_place_the_bytes_are_the_same(
        sizes in proptest::collection::vec(0_usize..200_000, 1..12),
        memory in 0_usize..400_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let body: Vec<u8> = (0..sizes.iter().sum()).map(|n: usize| (n % 251) as u8).collect();
        let mut rest = Bytes::from(body.clone());
        let steps: Vec<_> = sizes.iter().map(|&size| Step::Data(rest.split_to(size))).collect();
        let layer = CompletenessLayer::new().memory(memory).everything();
        let response = answer(200, "application/octet-stream", Scripted::new(steps));
        let came = runtime.block_on(once(layer, get("https://example.org/a"), response)).unwrap();
        prop_assert!(came == body);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_too_large_is_an_error_before_it_has_been_read() {
    let layer = || CompletenessLayer::new().memory(10).max_size(1000);
    let pieces = || Scripted::frames((0..100).map(|_| vec![b' '; 100]));
    for (body, taken) in [(pieces(), 11), (pieces().known_length(), 0)] {
        let read = Arc::clone(&body.taken);
        let error = once(layer(), get(GET_FEATURE), answer(200, "text/xml", body))
            .await
            .unwrap_err();
        assert!(
            matches!(find(&error), Some(CollectError::TooLarge { limit: 1000 })),
            "{error}"
        );
        assert_eq!(read.load(Ordering::Relaxed), taken);
        assert_eq!(Outcome::of_error(&error).verdict(), Verdict::Permanent);
    }
}

/// Law 5.
#[tokio::test(start_paused = true)]
async fn the_permit_below_is_free_once_the_answer_is_there_however_slowly_it_is_read() {
    let document = || whole("text/xml", gml(1, ""));
    let (server, _) = serve(vec![document(), document()]);
    let service = ServiceBuilder::new()
        .layer(CompletenessLayer::new())
        .layer(ConcurrencyLimitLayer::per_host(1))
        .service(server);
    let unread = service.clone().oneshot(get(GET_FEATURE)).await.unwrap();
    let second = service.oneshot(get(GET_FEATURE));
    tokio::time::timeout(Duration::from_secs(1), second)
        .await
        .unwrap()
        .unwrap();
    drop(unread);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_to_be_checked_passes_as_it_comes() {
    let hangs = || Scripted::new([Step::data("<cut"), Step::Hang]);
    let cases = [
        (get(GET_FEATURE), answer(200, "text/event-stream", hangs())),
        (
            get(GET_FEATURE),
            answer(200, "multipart/x-mixed-replace; boundary=a", hangs()),
        ),
        (
            get(GET_FEATURE),
            answer(200, "application/grpc+proto", hangs()),
        ),
        (get(GET_FEATURE), answer(404, "text/xml", hangs())),
        (
            get("https://example.org/feed"),
            answer(200, "text/xml", hangs()),
        ),
        (get(GET_FEATURE), answer(204, "text/xml", Scripted::new([]))),
        (get(GET_FEATURE), answer(304, "text/xml", Scripted::new([]))),
        (
            Request::head(GET_FEATURE).body(Empty::new()).unwrap(),
            answer(200, "text/xml", Scripted::new([])),
        ),
        (
            Request::get(GET_FEATURE)
                .header(header::UPGRADE, "websocket")
                .body(Empty::new())
                .unwrap(),
            answer(200, "text/xml", hangs()),
        ),
    ];
    for (request, response) in cases {
        let name = format!(
            "{} {} {:?}",
            request.method(),
            response.status(),
            response.headers()
        );
        let (server, _) = serve(vec![response]);
        let service = ServiceBuilder::new()
            .layer(CompletenessLayer::new())
            .service(server);
        let call = tokio::time::timeout(Duration::from_secs(1), service.oneshot(request));
        call.await
            .unwrap_or_else(|_| panic!("{name} is waited for"))
            .unwrap();
    }
    // Empty where that is a good answer.
    let tile = "https://tiles.example.org/9/265/180.pbf";
    let label = "application/vnd.mapbox-vector-tile";
    assert_eq!(
        once(CompletenessLayer::new(), get(tile), whole(label, ""))
            .await
            .unwrap(),
        ""
    );
    let empty = encoded(whole(label, ""), "gzip");
    assert_eq!(
        once(CompletenessLayer::new(), get(tile), empty)
            .await
            .unwrap(),
        ""
    );
    // By the label alone, and by the layer's word.
    let cut = || whole("application/geo+json", "{");
    assert!(
        once(
            CompletenessLayer::new(),
            get("https://example.org/a"),
            cut()
        )
        .await
        .is_err()
    );
    let cut = || whole("text/xml", "<a>");
    let unknown = || get("https://example.org/a");
    assert!(
        once(CompletenessLayer::new(), unknown(), cut())
            .await
            .is_ok()
    );
    assert!(
        once(CompletenessLayer::new().everything(), unknown(), cut())
            .await
            .is_err()
    );
}

#[tokio::test(start_paused = true)]
async fn a_part_has_to_be_the_part_that_was_asked_for() {
    let uri = "https://cog.example.org/a.tif";
    let part = |given: &'static str, bytes: usize| {
        let mut response = answer(206, "image/tiff", Scripted::frames([vec![7; bytes]]));
        response
            .headers_mut()
            .insert(header::CONTENT_RANGE, HeaderValue::from_static(given));
        let request = Request::get(uri)
            .header(header::RANGE, "bytes=100-199")
            .body(Empty::new());
        once(CompletenessLayer::new(), request.unwrap(), response)
    };
    assert!(part("bytes 100-199/600", 100).await.is_ok());
    assert!(part("bytes 100-149/150", 50).await.is_ok());
    // A part of a gzip file is none by itself.
    let mut encoded = encoded(
        answer(206, "image/tiff", Scripted::frames([vec![7; 100]])),
        "gzip",
    );
    let given = HeaderValue::from_static("bytes 100-199/600");
    encoded.headers_mut().insert(header::CONTENT_RANGE, given);
    let request = Request::get(uri)
        .header(header::RANGE, "bytes=100-199")
        .body(Empty::new());
    assert!(
        once(CompletenessLayer::new(), request.unwrap(), encoded)
            .await
            .is_ok()
    );
    let short = part("bytes 100-199/600", 99).await.unwrap_err();
    let expected = Incomplete::Length {
        expected: 100,
        came: 99,
    };
    assert_eq!(problem(&short), &Problem::Document(expected));
    let less = part("bytes 100-149/600", 50).await.unwrap_err();
    let expected = Incomplete::Range {
        expected: 199,
        came: 149,
    };
    assert_eq!(problem(&less), &Problem::Document(expected));
}

#[tokio::test(start_paused = true)]
async fn streaming_hands_on_each_frame_at_once_and_ends_with_an_error() {
    let stream = |steps: Vec<Step>| async {
        let (server, _) = serve(vec![answer(
            200,
            "text/xml",
            Scripted::new(steps).known_length(),
        )]);
        let layer = CompletenessLayer::streaming();
        let service = ServiceBuilder::new().layer(layer).service(server);
        service.oneshot(get(GET_FEATURE)).await.unwrap().into_body()
    };
    let mut body = stream(vec![Step::data("<a>"), Step::Hang]).await;
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        "<a>"
    );
    let more = tokio::time::timeout(Duration::from_secs(1), body.frame());
    assert!(more.await.is_err());

    let mut body = stream(vec![Step::data("<a>"), Step::data("</b")]).await;
    assert_eq!(body.size_hint().exact(), Some(6));
    for expected in ["<a>", "</b"] {
        assert_eq!(
            body.frame().await.unwrap().unwrap().into_data().unwrap(),
            expected
        );
        // A reader that stops here has not been told.
        assert!(!body.is_end_stream());
    }
    let error = body.frame().await.unwrap().unwrap_err();
    assert!(matches!(
        problem(&error),
        Problem::Document(Incomplete::NotClosed { came: 6, .. })
    ));
    assert!(body.is_end_stream() && body.frame().await.is_none());

    let mut body = stream(vec![Step::data("<a/>")]).await;
    assert_eq!(
        body.frame().await.unwrap().unwrap().into_data().unwrap(),
        "<a/>"
    );
    assert!(body.is_end_stream() && body.frame().await.is_none());

    // Trailers that say all is well do not come behind what is not.
    let mut trailers = HeaderMap::new();
    trailers.insert("status", HeaderValue::from_static("0"));
    let mut body = stream(vec![Step::data("<a>"), Step::Trailers(trailers.clone())]).await;
    body.frame().await.unwrap().unwrap();
    assert!(body.frame().await.unwrap().is_err());
    let mut body = stream(vec![Step::data("<a/>"), Step::Trailers(trailers)]).await;
    body.frame().await.unwrap().unwrap();
    assert!(body.frame().await.unwrap().unwrap().is_trailers());
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_number_that_the_caller_knows_is_held_against_what_came() {
    let check = |n, tolerance, label: &'static str, body: String| {
        let mut request = get("https://example.org/a");
        request
            .extensions_mut()
            .insert(ExpectedCount { n, tolerance });
        once(CompletenessLayer::new(), request, whole(label, body))
    };
    let csv = "id,name\n1,a\n2,b\n3,c\n".to_owned();
    for (label, body) in [
        ("text/xml", gml(3, "")),
        ("text/csv", csv),
        ("application/json", r#"{"features":[{},{},{}]}"#.to_owned()),
    ] {
        assert!(check(3, 0, label, body.clone()).await.is_ok(), "{label}");
        assert!(check(5, 2, label, body.clone()).await.is_ok(), "{label}");
        let error = check(5, 1, label, body).await.unwrap_err();
        let expected = Problem::Count {
            expected: 5,
            tolerance: 1,
            came: 3,
        };
        assert_eq!(problem(&error), &expected, "{label}");
        assert_eq!(
            problem(&error).to_string(),
            "expected 5 members, or 1 fewer, 3 came"
        );
    }
    // Nothing to count.
    assert!(check(5, 0, "text/plain", "words".to_owned()).await.is_ok());
}

#[derive(Clone, Debug, Default)]
struct Remembered(Arc<Mutex<Vec<(QueryKey, u64)>>>);

impl CountMemory for Remembered {
    fn last_good(&self, query: QueryKey) -> Option<u64> {
        let counts = self.0.lock().unwrap();
        counts
            .iter()
            .rev()
            .find(|(known, _)| *known == query)
            .map(|(_, members)| *members)
    }

    fn remember(&self, query: QueryKey, members: u64) {
        self.0.lock().unwrap().push((query, members));
    }
}

#[tokio::test(start_paused = true)]
async fn far_fewer_members_than_the_last_time_are_a_failure() {
    let memory = Remembered::default();
    let check = |layer: CompletenessLayer, members| {
        once(layer, get(GET_FEATURE), whole("text/xml", gml(members, "")))
    };
    let layer = || CompletenessLayer::new().count_memory(memory.clone());
    assert!(check(layer(), 100).await.is_ok());
    let error = check(layer(), 79).await.unwrap_err();
    assert_eq!(
        problem(&error),
        &Problem::FewerThanBefore {
            before: 100,
            came: 79
        }
    );
    assert!(check(layer().max_drop(0.25), 79).await.is_ok());
    assert!(check(layer(), 79).await.is_ok());
    assert_eq!(memory.0.lock().unwrap().len(), 3);
    // Another query has another memory.
    let other = get("https://maps.example.org/wfs?service=WFS&request=GetFeature&typeNames=b");
    assert!(
        once(layer(), other, whole("text/xml", gml(1, "")))
            .await
            .is_ok()
    );
    // Off unless asked for.
    assert!(check(CompletenessLayer::new(), 1).await.is_ok());
}

/// A WFS that knows how many there are, and gives what it is told to.
#[derive(Clone, Default)]
struct Wfs {
    asked: Arc<Mutex<Vec<String>>>,
    matched: Arc<AtomicUsize>,
    given: Arc<AtomicUsize>,
    root: Arc<Mutex<&'static str>>,
}

impl Wfs {
    fn new(matched: usize, given: usize) -> Self {
        let wfs = Self::default();
        wfs.matched.store(matched, Ordering::Relaxed);
        wfs.given.store(given, Ordering::Relaxed);
        wfs
    }

    fn answer(&self, request: &Request<NoBody>) -> Response<Scripted> {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let is_hits = query.contains("resultType=hits");
        self.asked.lock().unwrap().push(query);
        let matched = self.matched.load(Ordering::Relaxed);
        if is_hits {
            let root = format!("numberMatched='{matched}' numberReturned='0'");
            return whole("text/xml", gml(0, &root));
        }
        let given = self.given.load(Ordering::Relaxed);
        whole(
            "text/xml",
            gml(
                given,
                &format!("numberReturned='{given}' {}", self.root.lock().unwrap()),
            ),
        )
    }

    fn hits(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .filter(|query| query.contains("resultType=hits"))
            .count()
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_for_the_number_shows_what_nothing_else_does() {
    let wfs = Wfs::new(5, 5);
    let server = {
        let wfs = wfs.clone();
        service_fn(move |request: Request<NoBody>| {
            let response = wfs.answer(&request);
            async move { Ok::<_, BoxError>(response) }
        })
    };
    let mut client = ServiceBuilder::new()
        .layer(CompletenessLayer::new().hits_probe())
        // The question has given its permit back before the query asks for one.
        .layer(ConcurrencyLimitLayer::per_host(1))
        .service(server);
    let mut ask = async |uri: &str| {
        let call = client.ready().await.unwrap().call(get(uri));
        tokio::time::timeout(Duration::from_secs(1), call)
            .await
            .expect("nothing holds the permit")
    };
    assert!(ask(GET_FEATURE).await.is_ok());
    assert!(ask(GET_FEATURE).await.is_ok());
    assert_eq!(wfs.hits(), 1, "remembered");

    // A page of it.
    assert!(ask(&format!("{GET_FEATURE}&count=5")).await.is_ok());
    assert_eq!(wfs.hits(), 1, "the same question");

    wfs.given.store(3, Ordering::Relaxed);
    let error = ask(GET_FEATURE).await.unwrap_err();
    assert_eq!(
        problem(&error),
        &Problem::Count {
            expected: 5,
            tolerance: 0,
            came: 3
        }
    );
    assert!(ask(&format!("{GET_FEATURE}&startIndex=2")).await.is_ok());
    assert_eq!(wfs.hits(), 2, "asked anew after they did not agree");

    // It is not so many any more.
    wfs.matched.store(3, Ordering::Relaxed);
    assert!(ask(GET_FEATURE).await.is_err());
    assert!(ask(GET_FEATURE).await.is_ok());

    // A server's own limit: it names the next page.
    wfs.matched.store(9, Ordering::Relaxed);
    *wfs.root.lock().unwrap() = "next='http://a/'";
    let uri = GET_FEATURE.replace("typeNames=a", "typeNames=b");
    assert!(ask(&uri).await.is_ok());

    let before = wfs.hits();
    ask("https://maps.example.org/wfs?service=WFS&request=GetCapabilities")
        .await
        .unwrap();
    ask(&format!("{GET_FEATURE}&resultType=hits"))
        .await
        .unwrap();
    assert_eq!(
        wfs.hits(),
        before + 1,
        "what is no query is not asked about"
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_that_fails_expects_nothing() {
    let server = service_fn(|request: Request<NoBody>| async move {
        let is_hits = request.uri().query().unwrap_or_default().contains("hits");
        match is_hits {
            true => Err::<Response<Scripted>, BoxError>("no".into()),
            false => Ok(whole("text/xml", gml(1, ""))),
        }
    });
    let layer = CompletenessLayer::new().hits_probe();
    let client = ServiceBuilder::new().layer(layer).service(server);
    let response = client.oneshot(get(GET_FEATURE)).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
}
