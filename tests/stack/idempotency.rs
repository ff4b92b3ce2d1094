//! Requests whose bodies stream, over lines that fail: what is safe is sent again, what is not is sent once.

use std::{io, time::Duration};

use bytes::Bytes;
use flaky_ogc::{Fault, Script, Server};
use http::{Request, Response, header};
use http_body_util::channel::Channel;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    ConcurrencyLimitLayer,
    call::Attempts,
    exception::ServiceExceptionLayer,
    find,
    replay::ReplayBody,
    retry::{GaveUp, RepeatUnsafe, RetryPolicy, StopReason},
    timeout::attempt::AttemptTimeoutLayer,
};

use crate::support::{Version, bytes, start};

const SHORT: Duration = Duration::from_millis(150);
const TRANSACTION: &str = "<?xml version='1.0'?><wfs:Transaction service='WFS' version='2.0.0' \
    xmlns:wfs='http://www.opengis.net/wfs/2.0'><wfs:Insert/></wfs:Transaction>";
const GET_FEATURE: &str = "<?xml version='1.0'?><wfs:GetFeature service='WFS' version='2.0.0' \
    xmlns:wfs='http://www.opengis.net/wfs/2.0'><wfs:Query typeNames='places'/></wfs:GetFeature>";

type Streaming = ReplayBody<Channel<Bytes, io::Error>>;

/// In pieces of 20 bytes, each some time after the one before.
fn streaming(text: &'static str) -> Streaming {
    let (mut sender, body) = Channel::new(1);
    tokio::spawn(async move {
        for piece in text.as_bytes().chunks(20) {
            tokio::time::sleep(Duration::from_millis(1)).await;
            // Nobody reads on where the line has failed for good.
            let _ = sender.send_data(Bytes::from_static(piece)).await;
        }
    });
    ReplayBody::new(body)
}

fn post(server: &Server, text: &'static str) -> Request<Streaming> {
    Request::post(format!("{}/wfs", server.url()))
        .header(header::CONTENT_TYPE, "text/xml")
        .body(streaming(text))
        .unwrap()
}

async fn send(
    version: Version,
    request: Request<Streaming>,
) -> Result<Response<impl http_body::Body<Data = Bytes, Error: Into<BoxError>>>, BoxError> {
    let policy = RetryPolicy::builder()
        .base(Duration::from_millis(1))
        .cap(Duration::from_millis(10))
        .attempts(4)
        .build()
        .unwrap();
    let client = Client::builder(TokioExecutor::new())
        .http2_only(version == Version::Http2)
        .build_http::<Streaming>();
    ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .layer(ConcurrencyLimitLayer::per_host(16))
        .layer(AttemptTimeoutLayer::new().read_timeout(SHORT))
        .layer(ServiceExceptionLayer::new())
        .map_err(BoxError::from)
        .service(client)
        .oneshot(request)
        .await
}

fn faults(version: Version) -> Vec<Fault> {
    let mut faults = vec![
        Fault::stall(),
        Fault::status(503),
        Fault::status(503).retry_after(0),
        Fault::status(429),
        Fault::status(502).after_work(),
    ];
    faults.extend(match version {
        Version::Http1 => vec![
            Fault::reset(),
            Fault::close(),
            Fault::reset().after_work(),
            Fault::close().after_work(),
        ],
        // INTERNAL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM: RFC 9113 section 7.
        Version::Http2 => [2, 7, 8, 11].map(Fault::reset_stream).to_vec(),
    });
    faults
}

/// Law 3.
#[tokio::test]
async fn a_streamed_transaction_goes_out_once_whatever_happens_to_the_line() {
    for version in [Version::Http1, Version::Http2] {
        for fault in faults(version) {
            let server = start(Script::default().first([fault.clone()])).await;
            let reason = match send(version, post(&server, TRANSACTION)).await {
                Ok(response) => response.extensions().get::<GaveUp>().map(GaveUp::reason),
                Err(error) => find::<GaveUp>(&error).map(GaveUp::reason),
            };
            assert_eq!(reason, Some(StopReason::Unsafe), "{version:?}, {fault:?}");
            assert_eq!(server.counts().requests, 1, "{version:?}, {fault:?}");
        }
    }
}

#[tokio::test]
async fn a_streamed_get_feature_is_sent_again() {
    for version in [Version::Http1, Version::Http2] {
        for fault in faults(version) {
            let case = format!("{version:?}, {fault:?}");
            let server = start(Script::default().first([fault])).await;
            let response = send(version, post(&server, GET_FEATURE)).await;
            let response = response.unwrap_or_else(|error| panic!("{case}: {error:?}"));
            let attempts = response.extensions().get::<Attempts>();
            assert_eq!(attempts.map(Attempts::count), Some(2), "{case}");
            let answer = bytes(response).await.unwrap();
            assert!(answer.starts_with(b"<?xml"), "{case}");
            assert_eq!(server.counts().operation("GetFeature"), 2, "{case}");
        }
    }
}

#[tokio::test]
async fn a_streamed_transaction_is_sent_again_where_the_caller_opted_in() {
    let server = start(Script::default().first([Fault::reset()])).await;
    let mut request = post(&server, TRANSACTION);
    request.extensions_mut().insert(RepeatUnsafe);
    let _ = send(Version::Http1, request).await;
    assert_eq!(server.counts().operation("Transaction"), 2);
}
