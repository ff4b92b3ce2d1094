//! What may be sent twice, and what never is.

use std::{
    future::Future,
    io::{self, ErrorKind},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use proptest::prelude::*;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    Deadline, EndpointSettings, Endpoints,
    exception::{Operation, ServiceExceptionLayer},
    find,
    replay::ReplayBody,
    retry::{GaveUp, RepeatUnsafe, RetryPolicy, StopReason},
};

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);
const WFS: &str = "xmlns:wfs='http://www.opengis.net/wfs/2.0' service='WFS' version='2.0.0'";

fn transaction() -> String {
    format!("<?xml version='1.0'?>\n<wfs:Transaction {WFS}><wfs:Insert/></wfs:Transaction>")
}

fn get_feature() -> String {
    format!(
        "<?xml version='1.0'?>\n<wfs:GetFeature {WFS}><wfs:Query typeNames='a'/></wfs:GetFeature>"
    )
}

fn get_feature_with_lock() -> String {
    format!("<wfs:GetFeatureWithLock {WFS}><wfs:Query typeNames='a'/></wfs:GetFeatureWithLock>")
}

/// How a server fails a request.
#[derive(Clone, Debug)]
enum Failure {
    Io(ErrorKind),
    Status(u16, Option<&'static str>),
    Exception(&'static str),
}

/// Fails the first request after it has read so many frames of it, and answers all others once it has read them whole.
#[derive(Clone)]
struct Failing {
    frames: usize,
    failure: Failure,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Failing {
    fn after(frames: usize, failure: Failure) -> Self {
        Self {
            frames,
            failure,
            received: Arc::default(),
        }
    }

    fn received(&self) -> Vec<Vec<u8>> {
        self.received.lock().unwrap().clone()
    }
}

impl<B> Service<Request<B>> for Failing
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError> + Send,
{
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self {
            frames,
            failure,
            received,
        } = self.clone();
        let index = {
            let mut received = received.lock().unwrap();
            received.push(Vec::new());
            received.len() - 1
        };
        Box::pin(async move {
            let mut body = request.into_body();
            let frames = if index == 0 { frames } else { usize::MAX };
            for _ in 0..frames {
                let Some(frame) = body.frame().await else {
                    break;
                };
                let data = frame.map_err(Into::into)?.into_data().unwrap_or_default();
                received.lock().unwrap()[index].extend(data);
            }
            if index > 0 {
                return Ok(Response::builder().status(204).body(Full::default())?);
            }
            let response = Response::builder();
            match failure {
                Failure::Io(kind) => Err(io::Error::from(kind).into()),
                Failure::Status(status, retry_after) => {
                    let mut response = response.status(status);
                    if let Some(retry_after) = retry_after {
                        response = response.header(header::RETRY_AFTER, retry_after);
                    }
                    Ok(response.body(Full::default())?)
                }
                Failure::Exception(text) => {
                    let response = response.header(header::CONTENT_TYPE, "text/xml");
                    Ok(response.body(Full::from(text))?)
                }
            }
        })
    }
}

const SERVER_BUSY: &str = "<ows:ExceptionReport xmlns:ows='http://www.opengis.net/ows/1.1' version='1.0.0'>\
    <ows:Exception exceptionCode='ServerBusy'/></ows:ExceptionReport>";

/// All that says, or does not say, that the request was not executed.
fn failures() -> Vec<Failure> {
    use ErrorKind::*;
    let io = [
        ConnectionRefused,
        ConnectionReset,
        ConnectionAborted,
        BrokenPipe,
        UnexpectedEof,
        TimedOut,
    ];
    let hints = [(429, Some("1")), (503, Some("1"))];
    let statuses = [408, 429, 500, 502, 503, 504].map(|status| (status, None));
    let statuses = statuses.into_iter().chain(hints);
    io.into_iter()
        .map(Failure::Io)
        .chain(statuses.map(|(status, hint)| Failure::Status(status, hint)))
        .chain([Failure::Exception(SERVER_BUSY)])
        .collect()
}

/// The text as a request body: whole, in pieces that come late, with its length and without.
fn bodies(text: &str) -> Vec<ReplayBody<Scripted>> {
    let pieces = |size: usize| {
        let pieces = text.as_bytes().chunks(size).map(<[u8]>::to_vec);
        pieces.flat_map(|piece| [Step::data(piece), Step::Wait(SECOND)])
    };
    let late = [Step::Wait(SECOND)].into_iter().chain(pieces(40));
    vec![
        ReplayBody::buffered(text.to_owned()),
        ReplayBody::new(Scripted::new(pieces(7))),
        ReplayBody::new(Scripted::new(pieces(7)).known_length()),
        ReplayBody::new(Scripted::new(pieces(100_000))),
        ReplayBody::new(Scripted::new(late)),
    ]
}

fn post(body: ReplayBody<Scripted>) -> Request<ReplayBody<Scripted>> {
    let request = Request::post("https://example.org/wfs").header(header::CONTENT_TYPE, "text/xml");
    let mut request = request.body(body).unwrap();
    let deadline = Deadline::after(1_800 * SECOND);
    request.extensions_mut().insert(deadline);
    request
}

/// Why the retry ended; `None` where it succeeded.
async fn send(
    policy: RetryPolicy,
    server: &Failing,
    request: Request<ReplayBody<Scripted>>,
) -> Option<StopReason> {
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .layer(ServiceExceptionLayer::new())
        .service(server.clone());
    match client.oneshot(request).await {
        Ok(response) => {
            let gave_up = response.extensions().get::<GaveUp>();
            gave_up.map(GaveUp::reason)
        }
        Err(error) => Some(find::<GaveUp>(&error).expect("it says why").reason()),
    }
}

/// Law 3.
#[tokio::test(start_paused = true)]
async fn a_transaction_is_sent_once_whatever_happens_and_however_it_is_sent() {
    for failure in failures() {
        for frames in [0, 1, 2, 1_000] {
            for (index, body) in bodies(&transaction()).into_iter().enumerate() {
                let server = Failing::after(frames, failure.clone());
                let reason = send(RetryPolicy::default(), &server, post(body)).await;
                let case = format!("{failure:?} after {frames} frames, body {index}");
                assert_eq!(reason, Some(StopReason::Unsafe), "{case}");
                assert_eq!(server.received().len(), 1, "{case}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_get_feature_is_sent_again_whole_once_its_first_bytes_tell_it() {
    let text = get_feature();
    for failure in failures() {
        for (index, body) in bodies(&text).into_iter().enumerate() {
            // As many frames of 7 bytes as hold the root's tag, and fewer than there are.
            let server = Failing::after(18, failure.clone());
            let reason = send(RetryPolicy::default(), &server, post(body)).await;
            let case = format!("{failure:?}, body {index}");
            assert_eq!(reason, None, "{case}");
            let received = server.received();
            assert_eq!(received.len(), 2, "{case}");
            assert!(text.as_bytes().starts_with(&received[0]));
            assert_eq!(String::from_utf8_lossy(&received[1]), text, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_nothing_is_known_of_is_not_repeated() {
    // A streamed POST of which no byte has come: it may be anything.
    let late = || {
        let pieces = [Step::Wait(SECOND), Step::data(get_feature())];
        post(ReplayBody::new(Scripted::new(pieces)))
    };
    let refusing = || Failing::after(0, Failure::Io(ErrorKind::ConnectionRefused));
    let server = refusing();
    let reason = send(RetryPolicy::default(), &server, late()).await;
    assert_eq!(reason, Some(StopReason::Unsafe));
    assert_eq!(server.received().len(), 1);

    let mut told = late();
    let uri = "/?SERVICE=WFS&REQUEST=GetFeature".parse().unwrap();
    let operation = Operation::of(&http::Method::GET, &uri, &http::HeaderMap::new(), None);
    told.extensions_mut().insert(operation);
    let server = refusing();
    assert_eq!(send(RetryPolicy::default(), &server, told).await, None);
    assert_eq!(server.received()[1], get_feature().as_bytes());
}

#[tokio::test(start_paused = true)]
async fn a_query_that_is_longer_than_what_is_kept_is_sent_once_and_says_why() {
    let comment = format!("'a'/><!--{}-->", "x".repeat(10_000));
    let text = get_feature().replace("'a'/>", &comment);
    let pieces = || {
        let pieces = text.as_bytes().chunks(1_000);
        pieces.flat_map(|piece| [Step::data(piece.to_vec()), Step::Wait(SECOND)])
    };
    for known in [true, false] {
        let source = Scripted::new(pieces());
        let source = if known { source.known_length() } else { source };
        let body = ReplayBody::with_cap(source, 9_000);
        let server = Failing::after(1_000, Failure::Status(503, None));
        let reason = send(RetryPolicy::default(), &server, post(body)).await;
        assert_eq!(reason, Some(StopReason::BodyTooLong { cap: 9_000 }));
        assert_eq!(server.received(), [text.as_bytes()]);
    }
    // What failed before more was sent than is kept is sent again, all of it.
    let body = ReplayBody::with_cap(Scripted::new(pieces()), 9_000);
    let server = Failing::after(8, Failure::Status(503, None));
    assert_eq!(
        send(RetryPolicy::default(), &server, post(body)).await,
        None
    );
    assert_eq!(server.received()[1], text.as_bytes());
}

#[tokio::test(start_paused = true)]
async fn an_opt_in_lets_an_unsafe_request_be_repeated() {
    for failure in failures() {
        for body in bodies(&transaction()) {
            let server = Failing::after(1_000, failure.clone());
            let mut request = post(body);
            request.extensions_mut().insert(RepeatUnsafe);
            assert_eq!(send(RetryPolicy::default(), &server, request).await, None);
            let twice = [transaction().into_bytes(), transaction().into_bytes()];
            assert_eq!(server.received(), twice, "{failure:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_counts_where_it_is_known_to_be_honoured() {
    let wfs = || ("https://example.org/wfs", "text/xml", transaction());
    let items = || {
        let uri = "https://example.org/collections/roads/items";
        let feature = r#"{"type":"Feature"}"#.to_owned();
        (uri, "application/geo+json", feature)
    };
    let endpoints = |honours| {
        let settings = EndpointSettings::new().honours_idempotency_keys(honours);
        let builder = Endpoints::builder().endpoint("here", ["example.org"], settings);
        builder.build().unwrap()
    };
    let default = RetryPolicy::builder;
    let silent = Endpoints::default();
    for (request, policy, repeated) in [
        (wfs(), default(), false),
        (items(), default(), true),
        (wfs(), default().honour_idempotency_keys(true), true),
        (items(), default().honour_idempotency_keys(false), false),
        (wfs(), default().endpoints(endpoints(true)), true),
        (items(), default().endpoints(endpoints(false)), false),
        (
            wfs(),
            default()
                .endpoints(endpoints(true))
                .honour_idempotency_keys(false),
            true,
        ),
        (
            wfs(),
            default().endpoints(silent).honour_idempotency_keys(true),
            true,
        ),
    ] {
        let (uri, label, text) = request;
        for (has_key, body) in [true, false].into_iter().flat_map(|has_key| {
            let bodies = bodies(&text).into_iter();
            bodies.map(move |body| (has_key, body))
        }) {
            let mut request = post(body);
            *request.uri_mut() = uri.parse().unwrap();
            let headers = request.headers_mut();
            headers.insert(header::CONTENT_TYPE, label.parse().unwrap());
            if has_key {
                headers.insert("idempotency-key", "1f3a".parse().unwrap());
            }
            let server = Failing::after(1_000, Failure::Io(ErrorKind::ConnectionReset));
            let reason = send(policy.clone().build().unwrap(), &server, request).await;
            let expected = (!(repeated && has_key)).then_some(StopReason::Unsafe);
            assert_eq!(reason, expected, "{uri}, {policy:?}, key {has_key}");
            let times = if expected.is_none() { 2 } else { 1 };
            assert_eq!(server.received(), vec![text.as_bytes(); times]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// However a request is cut into pieces and wherever the line fails: one that begins like a safe one is not safe.
    #[test]
    fn a_name_cut_in_two_is_not_taken_for_a_safe_one(
        cuts in prop::collection::vec(0usize..120, 0..6), frames in 0usize..8, form in any::<bool>(), late in any::<bool>(),
    ) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let kvp = "SERVICE=WFS&VERSION=2.0.0&REQUEST=GetFeatureWithLock&TYPENAMES=a";
            let (label, text) = match form {
                true => ("application/x-www-form-urlencoded", kvp.to_owned()),
                false => ("text/xml", get_feature_with_lock()),
            };
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).flat_map(|ends| {
                let piece = Step::data(text.as_bytes()[ends[0]..ends[1]].to_vec());
                match late {
                    true => [Step::Wait(SECOND), piece],
                    false => [piece, Step::Wait(SECOND)],
                }
            });
            let mut request = post(ReplayBody::new(Scripted::new(pieces)));
            request.headers_mut().insert(header::CONTENT_TYPE, label.parse().unwrap());
            let server = Failing::after(frames, Failure::Io(ErrorKind::ConnectionReset));
            let reason = send(RetryPolicy::default(), &server, request).await;
            assert_eq!(reason, Some(StopReason::Unsafe));
            assert_eq!(server.received().len(), 1);
        });
    }
}
