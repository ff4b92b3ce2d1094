//! The fault matrix: every kind of answer, broken in every way, at every place, under every framing, over real sockets. A
//! broken answer is never taken for a whole one, a repeat mends it, and the server is asked no more often than that takes.

mod documents;
mod server;

use std::{
    collections::BTreeMap,
    io::Write,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tokio::sync::Semaphore;
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer, util::BoxCloneSyncService};
use tower_spatial::{
    exception::ServiceExceptionLayer, replay::ReplayBody, retry::RetryPolicy,
    timeout::attempt::AttemptTimeoutLayer, verify::completeness::CompletenessLayer,
};

use self::{
    documents::Document,
    server::{Break, Case, Cases, Framing, start_http1, start_http2},
};

const FRAMINGS: [Framing; 5] = [
    Framing::ContentLength,
    Framing::Chunked,
    Framing::Close,
    Framing::Gzip,
    Framing::Http2,
];
const BREAKS: [Break; 4] = [Break::Reset, Break::Fin, Break::Stall, Break::Clean];
const TRANSACTION: &str =
    "<wfs:Transaction service='WFS' version='2.0.0' xmlns:wfs='http://www.opengis.net/wfs/2.0'/>";

type RequestBody = ReplayBody<http_body_util::Full<Bytes>>;

type Stack =
    BoxCloneSyncService<Request<RequestBody>, Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

/// Delays of at most 10 ms.
fn stack(framing: Framing, idle: Duration) -> Stack {
    let policy = RetryPolicy::builder()
        .base(Duration::from_millis(1))
        .cap(Duration::from_millis(10))
        .budget(Duration::from_secs(20))
        .build()
        .unwrap();
    let client = Client::builder(TokioExecutor::new())
        .http2_only(framing == Framing::Http2)
        .build_http::<RequestBody>();
    let stack = ServiceBuilder::new()
        .map_response(|response: Response<_>| response.map(BodyExt::boxed_unsync))
        .layer(RetryLayer::new(policy))
        .layer(CompletenessLayer::new())
        .layer(
            AttemptTimeoutLayer::new()
                .head(Duration::from_secs(1))
                .idle(idle),
        )
        .layer(ServiceExceptionLayer::new().max_wait(Duration::ZERO))
        .map_err(BoxError::from)
        .service(client);
    BoxCloneSyncService::new(stack)
}

async fn send(stack: Stack, request: Request<RequestBody>) -> Result<Bytes, BoxError> {
    Ok(stack
        .oneshot(request)
        .await?
        .into_body()
        .collect()
        .await?
        .to_bytes())
}

fn encoded(body: &[u8], framing: Framing) -> Bytes {
    if framing != Framing::Gzip {
        return Bytes::copy_from_slice(body);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap().into()
}

/// What is cut and may be whole all the same, where nothing tells its length: a CSV that ends with a line, and a feature
/// query's answer without a byte, which is what MapServer writes where nothing matches.
fn nothing_shows(document: &Document, case: &Case) -> bool {
    let sent = &case.body[..case.after];
    let is_told = match case.framing {
        Framing::ContentLength | Framing::Chunked | Framing::Http2 => case.broken != Break::Clean,
        Framing::Close => !matches!(case.broken, Break::Clean | Break::Fin),
        // By its trailer.
        Framing::Gzip => case.broken != Break::Clean || !sent.is_empty(),
    };
    let is_line = matches!(sent.last(), Some(b'\n' | b'\r'));
    let is_csv = document.media_type == "text/csv";
    let is_empty = sent.is_empty() && (is_csv || document.name == "GetFeature GeoJSON");
    !is_told && (is_empty || is_csv && is_line)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_broken_answer_is_taken_for_a_whole_one_and_a_repeat_mends_each() {
    let cases = Cases::default();
    let addresses = (
        start_http1(cases.clone()).await,
        start_http2(cases.clone()).await,
    );
    let documents: Vec<_> = documents::all().into_iter().map(Arc::new).collect();
    let (mut number, mut running) = (0, Vec::new());
    let at_once = Arc::new(Semaphore::new(24));
    let unseen = Arc::new(Mutex::new(BTreeMap::<&str, usize>::new()));
    let wrong = Arc::new(Mutex::new(Vec::new()));
    for (document, framing, broken) in documents.iter().flat_map(|document| {
        let breaks = move |framing| {
            BREAKS
                .into_iter()
                .map(move |broken| (document, framing, broken))
        };
        FRAMINGS.into_iter().flat_map(breaks)
    }) {
        let body = encoded(&document.body, framing);
        let length = body.len();
        let mut places: Vec<_> = (0..16)
            .map(|part| part * length / 16)
            .chain([length - 1])
            .collect();
        places.dedup();
        for after in places {
            number += 1;
            let case = Case {
                media_type: document.media_type,
                body: body.clone(),
                framing,
                broken,
                after,
            };
            let (document, cases) = (Arc::clone(document), cases.clone());
            let (at_once, unseen, wrong) = (
                Arc::clone(&at_once),
                Arc::clone(&unseen),
                Arc::clone(&wrong),
            );
            running.push(tokio::spawn(async move {
                let _permit = at_once.acquire().await.unwrap();
                let address = if framing == Framing::Http2 {
                    addresses.1
                } else {
                    addresses.0
                };
                let what = format!(
                    "{}, {framing:?}, {broken:?} after {after} of {length}",
                    document.name
                );
                // A machine that stands still looks like a server that does: such a case is tried again with patience.
                for idle in [50, 2_000].map(Duration::from_millis) {
                    cases.insert(number, case.clone());
                    let request = Request::get(format!("http://{address}{}", document.query))
                        .header("case", number)
                        .body(ReplayBody::empty())
                        .unwrap();
                    let answer = send(stack(framing, idle), request)
                        .await
                        .unwrap_or_else(|error| panic!("{what}: {error:?}"));
                    let requests = cases.requests(number);
                    if answer != case.body {
                        if nothing_shows(&document, &case) {
                            *unseen.lock().unwrap().entry(document.name).or_default() += 1;
                        } else {
                            wrong
                                .lock()
                                .unwrap()
                                .push(format!("{what}: taken for whole"));
                        }
                        break;
                    }
                    if requests == 2 {
                        break;
                    }
                    if idle > Duration::from_millis(50) {
                        wrong
                            .lock()
                            .unwrap()
                            .push(format!("{what}: {requests} requests"));
                    }
                }
            }));
        }
    }
    for case in running {
        case.await.unwrap();
    }
    let wrong = wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{} of {number}: {wrong:#?}", wrong.len());
    let named = BTreeMap::from([("GetFeature CSV", 11), ("GetFeature GeoJSON", 6)]);
    assert_eq!(*unseen.lock().unwrap(), named);
}

/// Law 3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsafe_request_is_sent_once_however_its_answer_breaks() {
    let cases = Cases::default();
    let addresses = (
        start_http1(cases.clone()).await,
        start_http2(cases.clone()).await,
    );
    let body = "<wfs:TransactionResponse xmlns:wfs='http://www.opengis.net/wfs/2.0' version='2.0.0'>\
        <wfs:TransactionSummary><wfs:totalInserted>1</wfs:totalInserted></wfs:TransactionSummary></wfs:TransactionResponse>";
    let mut number = 0;
    for (framing, broken, part) in FRAMINGS.into_iter().flat_map(|framing| {
        let parts = move |broken| (0..4).map(move |part| (framing, broken, part));
        BREAKS.into_iter().flat_map(parts)
    }) {
        number += 1;
        let body = encoded(body.as_bytes(), framing);
        let after = part * body.len() / 4;
        cases.insert(
            number,
            Case {
                media_type: "text/xml",
                body,
                framing,
                broken,
                after,
            },
        );
        let address = if framing == Framing::Http2 {
            addresses.1
        } else {
            addresses.0
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("http://{address}/wfs"))
            .header("content-type", "text/xml")
            .header("case", number)
            .body(ReplayBody::buffered(TRANSACTION))
            .unwrap();
        let result = send(stack(framing, Duration::from_millis(50)), request).await;
        let what = format!("{framing:?}, {broken:?} after {part} of 4: {result:?}");
        assert_eq!(cases.requests(number), 1, "{what}");
    }
}
