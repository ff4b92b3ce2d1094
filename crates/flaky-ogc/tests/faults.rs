//! Each fault over real sockets, as a raw client and as a hyper client see it.

use std::io::{ErrorKind, Read};
use std::time::Duration;

use bytes::Bytes;
use flaky_ogc::{Cut, End, Exception, Fault, Form, Kind, Rendering, Script, Server, Tile, Weather};
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

type Http = Client<HttpConnector, Full<Bytes>>;

const SHORT: Duration = Duration::from_millis(20);

/// Longer than a busy machine keeps a test from running.
const LONG: Duration = Duration::from_millis(200);

fn http1() -> Http {
    Client::builder(TokioExecutor::new()).build_http()
}

fn http2() -> Http {
    Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build_http()
}

fn tile() -> Tile {
    Tile::xyz(4, 5, 6)
}

fn map_url(server: &Server) -> http::Uri {
    format!("{}/wms?{}", server.url(), tile().query())
        .parse()
        .expect("a URI")
}

async fn start(script: Script) -> Server {
    Server::start(script).await.expect("a free port")
}

async fn one(fault: Fault) -> Server {
    start(Script::default().first([fault])).await
}

/// A GetMap by hand: every byte that comes, and how the connection ended.
async fn raw(server: &Server) -> (Vec<u8>, std::io::Result<()>) {
    let mut stream = send_map(server).await;
    let mut answer = Vec::new();
    let ended = stream.read_to_end(&mut answer).await.map(|_| ());
    (answer, ended)
}

async fn send_map(server: &Server) -> TcpStream {
    let mut stream = TcpStream::connect(server.addr()).await.expect("a listener");
    let head = format!(
        "GET /wms?{} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        tile().query()
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream
}

fn reason(error: &(dyn std::error::Error + 'static)) -> Option<h2::Reason> {
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(h2) = error.downcast_ref::<h2::Error>() {
            return h2.reason();
        }
        source = error.source();
    }
    None
}

/// Where the body begins.
fn body(answer: &[u8]) -> &[u8] {
    let head = answer
        .windows(4)
        .position(|w| w == b"\r\n\r\n")
        .expect("a head")
        + 4;
    &answer[head..]
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn get(client: &Http, server: &Server, target: &str) -> (http::response::Parts, Bytes) {
    let uri = format!("{}{target}", server.url()).parse().expect("a URI");
    let (head, body) = client.get(uri).await.expect("an answer").into_parts();
    (head, body.collect().await.expect("a whole body").to_bytes())
}

#[tokio::test]
async fn both_protocols_on_one_port_give_the_right_tile_and_the_counters_are_exact() {
    let server = start(Script::default()).await;
    for client in [http1(), http2()] {
        for _ in 0..2 {
            let answer = client.get(map_url(&server)).await.expect("an answer");
            assert_eq!(answer.headers()[header::CONTENT_TYPE], "image/png");
            assert_eq!(
                answer
                    .into_body()
                    .collect()
                    .await
                    .expect("a body")
                    .to_bytes(),
                tile().png()
            );
        }
    }
    let counts = server.until(|counts| counts.in_flight == 0).await;
    assert_eq!(
        (counts.requests, counts.connections, counts.kind(Kind::Good)),
        (4, 2, 4)
    );
    assert_eq!((counts.renders_finished, counts.renders_wasted), (4, 0));
    assert_eq!(counts.operation("GetMap"), 4);
    assert_eq!(counts.by_operation["GET /wms GetMap"], 4);
}

#[tokio::test]
async fn a_reset_before_the_head_is_a_reset_and_a_close_an_end() {
    let server = start(Script::default().first([Fault::reset(), Fault::close()])).await;
    let (answer, ended) = raw(&server).await;
    assert_eq!(
        (answer.len(), ended.expect_err("a reset").kind()),
        (0, ErrorKind::ConnectionReset)
    );
    let (answer, ended) = raw(&server).await;
    assert_eq!(answer.len(), 0);
    ended.expect("an orderly end");
    let counts = server.counts();
    assert_eq!(
        (
            counts.kind(Kind::Reset),
            counts.kind(Kind::Closed),
            counts.renders_finished
        ),
        (1, 1, 0)
    );
}

#[tokio::test]
async fn a_cut_body_ends_as_asked_after_exactly_so_many_bytes() {
    for (cut, kind) in [
        (Cut::Reset, Some(ErrorKind::ConnectionReset)),
        (Cut::Close, None),
    ] {
        let server = one(Fault::delivery().cut_after(100, cut)).await;
        let (answer, ended) = raw(&server).await;
        assert!(
            text(&answer).contains(&format!("content-length: {}\r\n", tile().png().len())),
            "{cut:?}"
        );
        assert_eq!(body(&answer), &tile().png()[..100], "{cut:?}");
        assert_eq!(ended.err().map(|error| error.kind()), kind, "{cut:?}");
        let counts = server.until(|counts| counts.renders_wasted == 1).await;
        assert_eq!((counts.kind(Kind::Cut), counts.kind(Kind::Good)), (1, 0));
    }
}

#[tokio::test]
async fn a_clean_end_of_chunks_hides_that_the_body_is_short() {
    for client in [http1(), http2()] {
        let server = one(Fault::delivery().cut_after(100, Cut::CleanEnd)).await;
        let answer = client.get(map_url(&server)).await.expect("an answer");
        assert!(!answer.headers().contains_key(header::CONTENT_LENGTH));
        assert_eq!(
            answer
                .into_body()
                .collect()
                .await
                .expect("a clean end")
                .to_bytes(),
            tile().png()[..100]
        );
        server.until(|counts| counts.renders_wasted == 1).await;
    }
}

#[tokio::test]
async fn a_missing_last_chunk_is_an_error() {
    let server = one(Fault::delivery().chunked().cut_after(100, Cut::Close)).await;
    let answer = http1().get(map_url(&server)).await.expect("a head");
    answer
        .into_body()
        .collect()
        .await
        .expect_err("the last chunk is missing");
}

#[tokio::test]
async fn a_stream_is_reset_with_the_code_that_was_asked_for_and_the_connection_lives() {
    let faults = [
        Fault::reset_stream(7),
        Fault::delivery().cut_after(100, Cut::ResetStream(11)),
    ];
    let server = start(Script::default().first(faults)).await;
    let client = http2();
    let refused = client
        .get(map_url(&server))
        .await
        .expect_err("a reset stream");
    assert_eq!(reason(&refused), Some(h2::Reason::REFUSED_STREAM));
    let cut = client
        .get(map_url(&server))
        .await
        .expect("a head")
        .into_body()
        .collect()
        .await
        .expect_err("a reset stream");
    assert_eq!(reason(&cut), Some(h2::Reason::ENHANCE_YOUR_CALM));
    assert_eq!(
        client
            .get(map_url(&server))
            .await
            .expect("an answer")
            .status(),
        StatusCode::OK
    );
    assert_eq!(server.counts().connections, 1);
}

#[tokio::test]
async fn on_http2_a_reset_or_a_cut_ends_the_connection_and_a_client_that_goes_ends_a_stall() {
    let faults = [
        Fault::reset(),
        Fault::delivery().cut_after(100, Cut::Close),
        Fault::stall(),
    ];
    let server = start(Script::default().first(faults)).await;
    let client = http2();
    client.get(map_url(&server)).await.expect_err("a reset");
    server
        .until(|counts| counts.connections_open == 0 && counts.in_flight == 0)
        .await;
    let mut cut = client
        .get(map_url(&server))
        .await
        .expect("a head")
        .into_body();
    assert_eq!(
        cut.frame()
            .await
            .expect("a frame")
            .expect("data")
            .into_data()
            .expect("data")
            .len(),
        100
    );
    cut.frame()
        .await
        .expect("a frame")
        .expect_err("the connection is gone");
    server
        .until(|counts| counts.connections_open == 0 && counts.in_flight == 0)
        .await;
    tokio::time::timeout(SHORT * 2, client.get(map_url(&server)))
        .await
        .expect_err("nothing comes");
    let counts = server.until(|counts| counts.in_flight == 0).await;
    assert_eq!((counts.connections, counts.kind(Kind::Stalled)), (3, 1));
}

#[tokio::test]
async fn a_stall_lasts_until_the_client_goes_before_the_head_and_in_the_body() {
    let server = start(
        Script::default().first([Fault::stall(), Fault::delivery().cut_after(7, Cut::Stall)]),
    )
    .await;
    let mut before = send_map(&server).await;
    server.until(|counts| counts.kind(Kind::Stalled) == 1).await;
    let silent = tokio::time::timeout(SHORT, before.read_u8()).await;
    silent.expect_err("nothing comes");
    drop(before);
    server.until(|counts| counts.in_flight == 0).await;

    let answer = http1().get(map_url(&server)).await.expect("a head");
    let mut rest = answer.into_body();
    assert_eq!(
        rest.frame()
            .await
            .expect("a frame")
            .expect("data")
            .into_data()
            .expect("data"),
        tile().png()[..7]
    );
    tokio::time::timeout(SHORT, rest.frame())
        .await
        .expect_err("nothing comes");
    drop(rest);
    let counts = server.until(|counts| counts.in_flight == 0).await;
    assert_eq!(counts.renders_wasted, 1);
}

#[tokio::test]
async fn late_head_late_body_and_parts_come_in_the_right_order() {
    let server = start(Script::default().first([
        Fault::delivery().late_head(SHORT),
        Fault::delivery().late_body(LONG),
        Fault::status(503).body("abcdef").in_parts(2, SHORT),
    ]))
    .await;
    let client = http1();
    let begun = tokio::time::Instant::now();
    let answer = client.get(map_url(&server)).await.expect("a head");
    assert!(begun.elapsed() >= SHORT, "the head is late");
    answer.into_body().collect().await.expect("a body");

    let begun = tokio::time::Instant::now();
    let mut answer = client.get(map_url(&server)).await.expect("a head");
    tokio::time::timeout(Duration::ZERO, answer.body_mut().frame())
        .await
        .expect_err("the head was not late");
    answer.into_body().collect().await.expect("a body");
    assert!(begun.elapsed() >= LONG, "the body is late");

    let mut answer = client
        .get(map_url(&server))
        .await
        .expect("a head")
        .into_body();
    let mut parts = Vec::new();
    while let Some(frame) = answer.frame().await {
        parts.push(frame.expect("data").into_data().expect("data"));
    }
    assert_eq!(parts, ["ab", "cd", "ef"]);
}

#[tokio::test]
async fn an_exception_comes_in_the_chosen_form_label_and_parts() {
    let report = Exception::new(Form::Report111, "msDrawMap(): connection failed");
    let faults = [
        Fault::exception(report.clone())
            .content_type("image/png")
            .in_parts(9, Duration::ZERO),
        Fault::html_page(),
        Fault::empty(),
    ];
    let server = start(Script::default().first(faults)).await;
    let client = http1();
    let (head, body) = get(&client, &server, "/wms?request=GetMap").await;
    assert_eq!(
        (head.status, &head.headers[header::CONTENT_TYPE], body),
        (
            StatusCode::OK,
            &"image/png".parse().expect("a value"),
            report.bytes()
        )
    );
    let (head, body) = get(&client, &server, "/wms?request=GetMap").await;
    assert_eq!(head.status, StatusCode::OK);
    assert!(text(&body).contains("<html>"));
    let (_, body) = get(&client, &server, "/wms?request=GetMap").await;
    assert!(body.is_empty());
    let counts = server.counts();
    assert_eq!(
        (
            counts.kind(Kind::Exception),
            counts.kind(Kind::Html),
            counts.kind(Kind::Empty)
        ),
        (1, 1, 1)
    );
}

#[tokio::test]
async fn a_gzip_body_is_encoded_and_says_so() {
    let server = one(Fault::delivery().gzip()).await;
    let (head, body) = get(&http1(), &server, &format!("/wms?{}", tile().query())).await;
    assert_eq!(head.headers[header::CONTENT_ENCODING], "gzip");
    let mut decoded = Vec::new();
    flate2::read::GzDecoder::new(&body[..])
        .read_to_end(&mut decoded)
        .expect("gzip");
    assert_eq!(decoded, tile().png());
}

#[tokio::test]
async fn interim_answers_come_before_the_final_one() {
    let server = one(Fault::delivery().informational(103).informational(100)).await;
    let (answer, _) = raw(&server).await;
    let (early, rest) = ("HTTP/1.1 103 Early Hints\r\n\r\n", text(&answer));
    assert!(rest.starts_with(early), "{}", &rest[..60]);
    assert!(rest[early.len()..].starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"));
}

#[tokio::test]
async fn raw_bytes_come_exactly_as_given() {
    let parts = [
        (Duration::ZERO, Bytes::from_static(b"HTTP/1.1 200 O")),
        (SHORT / 4, Bytes::from_static(b"K\r\n\0garbage")),
    ];
    let server = start(Script::default().first([
        Fault::raw(parts.clone(), End::Close),
        Fault::raw(parts, End::Reset),
    ]))
    .await;
    let (answer, ended) = raw(&server).await;
    assert_eq!(answer, b"HTTP/1.1 200 OK\r\n\0garbage");
    ended.expect("an orderly end");
    let (answer, ended) = raw(&server).await;
    assert_eq!(answer, b"HTTP/1.1 200 OK\r\n\0garbage");
    assert_eq!(
        ended.expect_err("a reset").kind(),
        ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn trailers_come_after_the_body() {
    let server = one(Fault::delivery().trailer(http::HeaderName::from_static("x-count"), 7)).await;
    let request = Request::get(map_url(&server))
        .header(header::TE, "trailers")
        .body(Full::default())
        .expect("a request");
    let body = http1()
        .request(request)
        .await
        .expect("an answer")
        .into_body()
        .collect()
        .await
        .expect("a body");
    assert_eq!(body.trailers().expect("trailers")["x-count"], "7");
}

#[tokio::test]
async fn a_render_that_nobody_waits_for_is_finished_and_counted_as_wasted() {
    let rendering = Rendering {
        cores: 1.0,
        threads: 1,
        queue: 1,
        mean: LONG,
        ..Rendering::default()
    };
    let server = start(Script::default().rendering(rendering)).await;
    let gone = send_map(&server).await;
    server.until(|counts| counts.in_flight == 1).await;
    drop(gone);
    let counts = server.until(|counts| counts.in_flight == 0).await;
    assert_eq!(counts.renders_finished, 0, "the client left first");
    let counts = server.until(|counts| counts.renders_wasted == 1).await;
    assert_eq!(counts.renders_finished, 1);
    assert_eq!(counts.kind(Kind::Good), 0);
}

#[tokio::test]
async fn a_render_whose_answer_is_replaced_is_wasted_and_one_that_is_refused_costs_nothing() {
    let server = one(Fault::html_page().after_work()).await;
    let (answer, _) = raw(&server).await;
    assert!(text(&answer).contains("<html>"));
    let counts = server.counts();
    assert_eq!((counts.renders_finished, counts.renders_wasted), (1, 1));

    let rendering = Rendering {
        cores: 1.0,
        threads: 1,
        queue: 1,
        mean: Duration::from_secs(100),
        ..Rendering::default()
    };
    let server = start(Script::default().rendering(rendering)).await;
    let _running = send_map(&server).await;
    let _queued = send_map(&server).await;
    server.until(|counts| counts.in_flight == 2).await;
    let (answer, _) = raw(&server).await;
    assert!(text(&answer).starts_with("HTTP/1.1 503 "));
    assert_eq!(server.counts().renders_refused, 1);
}

#[tokio::test]
async fn an_outage_resets_what_is_open_and_refuses_what_is_new() {
    let rendering = Rendering {
        cores: 1.0,
        mean: Duration::from_secs(100),
        ..Rendering::default()
    };
    let window = LONG..Duration::from_secs(3600);
    let server = start(
        Script::default()
            .rendering(rendering)
            .during(window, Weather::Outage),
    )
    .await;
    let (_, ended) = raw(&server).await;
    assert_eq!(
        ended.expect_err("the server goes down").kind(),
        ErrorKind::ConnectionReset
    );
    let refused = TcpStream::connect(server.addr())
        .await
        .expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(
        server
            .until(|counts| counts.renders_lost == 1)
            .await
            .renders_finished,
        0
    );
}

#[tokio::test]
async fn after_an_outage_the_server_is_back_at_the_same_port() {
    let server = start(Script::default().during(Duration::ZERO..LONG, Weather::Outage)).await;
    while TcpStream::connect(server.addr()).await.is_err() {
        tokio::time::sleep(SHORT / 4).await;
    }
    assert!(server.elapsed() >= LONG);
    assert!(body(&raw(&server).await.0) == tile().png());
}

#[tokio::test]
async fn a_quota_lets_so_many_through_and_tells_the_others_when_to_come_back() {
    let hour = Duration::from_secs(3600);
    let server = start(Script::default().during(
        Duration::ZERO..hour,
        Weather::Quota {
            requests: 2,
            per: hour,
        },
    ))
    .await;
    let client = http1();
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let (head, _) = get(&client, &server, "/").await;
        statuses.push(head.status.as_u16());
        if head.status == 429 {
            let seconds: u64 = head.headers[header::RETRY_AFTER]
                .to_str()
                .expect("ASCII")
                .parse()
                .expect("seconds");
            assert!((3_500..=3_600).contains(&seconds), "{seconds}");
        }
    }
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test]
async fn a_share_of_faults_is_the_same_for_every_run_of_a_seed() {
    let script = |seed| {
        let weather = Weather::Faults {
            share: 0.5,
            fault: Fault::status(503),
        };
        Script::default()
            .seed(seed)
            .during(Duration::ZERO..Duration::from_secs(3600), weather)
    };
    let mut runs = Vec::new();
    for seed in [1, 1, 2] {
        let (server, client) = (start(script(seed)).await, http1());
        let mut run = Vec::new();
        for i in 0..40 {
            run.push(
                get(&client, &server, &format!("/collections?i={i}"))
                    .await
                    .0
                    .status,
            );
        }
        runs.push(run);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    let failed = runs[0].iter().filter(|status| **status == 503).count();
    assert!((8..=32).contains(&failed), "{failed} of 40");
}

#[tokio::test]
async fn a_transaction_is_executed_once_also_where_its_answer_is_lost() {
    let server = one(Fault::reset().after_work()).await;
    let body = "<wfs:Transaction service=\"WFS\"><wfs:Insert/><wfs:Insert/></wfs:Transaction>";
    let post = || {
        Request::post(format!("{}/wfs", server.url()))
            .body(Full::from(body))
            .expect("a request")
    };
    http1().request(post()).await.expect_err("a reset");
    assert_eq!(server.counts().transactions, 1);
    let answer = http1()
        .request(post())
        .await
        .expect("an answer")
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    assert!(text(&answer).contains("<wfs:totalInserted>2</wfs:totalInserted>"));
    assert_eq!(
        (
            server.counts().transactions,
            server.counts().operation("Transaction")
        ),
        (2, 2)
    );
}

#[tokio::test]
async fn mistakes_get_the_exceptions_of_their_service_and_version() {
    let server = start(Script::default()).await;
    let client = http1();
    let map = "request=GetMap&layers=nowhere&styles=&bbox=0,0,1,1&width=9&height=9&srs=EPSG:3857&crs=EPSG:3857";
    for (target, status, expected) in [
        (format!("/wms?version=1.0.0&{map}"), 200, "<WMTException"),
        (
            format!("/wms?version=1.1.1&{map}"),
            200,
            "<!DOCTYPE ServiceExceptionReport",
        ),
        (
            format!("/wms?version=1.3.0&{map}"),
            200,
            "code=\"LayerNotDefined\" locator=\"layers\"",
        ),
        (
            format!("/wms?version=1.3.0&{map}&exceptions=application/json"),
            200,
            "\"code\":\"LayerNotDefined\"",
        ),
        (
            "/wfs?request=GetFeature&version=1.0.0&typename=x".to_owned(),
            200,
            "<ServiceExceptionReport version=\"1.2.0\"",
        ),
        (
            "/wfs?request=GetFeature&version=1.1.0&typename=x".to_owned(),
            200,
            "xmlns:ows=\"http://www.opengis.net/ows\"",
        ),
        (
            "/wfs?request=GetFeature".to_owned(),
            400,
            "exceptionCode=\"MissingParameterValue\"",
        ),
        (
            "/collections/nowhere/items".to_owned(),
            404,
            "\"status\":404",
        ),
        (
            "/arcgis/rest/services/places/FeatureServer/0/query".to_owned(),
            200,
            "{\"error\":{\"code\":400",
        ),
        ("/search".to_owned(), 400, "missing"),
    ] {
        let (head, body) = get(&client, &server, &target).await;
        assert_eq!(head.status, status, "{target}");
        assert!(text(&body).contains(expected), "{target}: {}", text(&body));
    }
}

#[tokio::test]
async fn features_are_paged_and_counted() {
    let server = start(Script::default().features(25)).await;
    let client = http1();
    let (_, page) = get(
        &client,
        &server,
        "/wfs?request=GetFeature&typenames=app:places&count=10&startIndex=20",
    )
    .await;
    assert_eq!(
        (
            text(&page).matches("<wfs:member>").count(),
            text(&page).contains("numberMatched=\"25\"")
        ),
        (5, true)
    );
    let (_, hits) = get(
        &client,
        &server,
        "/wfs?request=GetFeature&typenames=places&resultType=hits",
    )
    .await;
    assert!(text(&hits).contains("numberMatched=\"25\" numberReturned=\"0000000000\""));
    let (_, json) = get(
        &client,
        &server,
        "/wfs?request=GetFeature&typenames=places&outputFormat=application/json",
    )
    .await;
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert_eq!(json["features"].as_array().expect("features").len(), 25);
}

#[tokio::test]
async fn a_large_stream_has_the_announced_length_and_the_known_checksum() {
    let size = 3_000_000;
    let server = start(Script::default()).await;
    for client in [http1(), http2()] {
        let (head, body) = get(
            &client,
            &server,
            &format!("/wfs?request=GetFeature&size={size}"),
        )
        .await;
        assert_eq!(head.headers[header::CONTENT_LENGTH], size.to_string());
        let mut crc = flate2::Crc::new();
        crc.update(&body);
        assert_eq!(
            (body.len() as u64, crc.sum()),
            (size, flaky_ogc::large_features_crc32(size))
        );
    }
}

#[tokio::test]
async fn the_geocoder_insists_on_its_interval() {
    let server = start(Script::default().geocoder_interval(Duration::from_secs(60))).await;
    let client = http1();
    assert_eq!(get(&client, &server, "/search?q=Bern").await.0.status, 200);
    let (head, _) = get(&client, &server, "/search?q=Bern").await;
    assert_eq!(
        (head.status.as_u16(), &head.headers[header::RETRY_AFTER]),
        (429, &"60".parse().expect("a value"))
    );
}

#[tokio::test]
async fn idle_connections_are_closed_only_where_asked() {
    let server = start(Script::default().idle_timeout(LONG)).await;
    get(&http1(), &server, "/").await;
    server
        .until(|counts| counts.connections == 1 && counts.connections_open == 0)
        .await;
}

#[tokio::test]
async fn after_shutdown_nobody_listens_and_every_connection_is_closed() {
    let server = start(Script::default().first([Fault::stall()])).await;
    let address = server.addr();
    let mut waiting = send_map(&server).await;
    server.until(|counts| counts.in_flight == 1).await;
    let counts = server.shutdown().await;
    assert_eq!(counts.requests, 1);
    assert_eq!(waiting.read(&mut [0; 1]).await.unwrap_or(0), 0);
    TcpStream::connect(address)
        .await
        .expect_err("nobody listens");
}
