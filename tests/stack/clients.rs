//! The clients that the crate brings: reqwest under the layers, and the ready hyper client.

use std::{error::Error, io, sync::Arc, time::Duration};

use axum::body::Body as AxumBody;
use bytes::Bytes;
use flaky_ogc::{Cut, End, Fault, Kind, Script, Server};
use http::{Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Full, channel::Channel};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::Error as ClientError,
    rt::{TokioExecutor, TokioIo},
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    ConcurrencyLimitLayer, EndpointSettings, Endpoints,
    call::{Attempts, Cause, Outcome, Verdict},
    client::{
        hyper::{Client, ClientBuilder},
        reqwest::ReqwestClient,
    },
    exception::ServiceExceptionLayer,
    find,
    replay::ReplayBody,
    retry::{GaveUp, RetryPolicy, StopReason},
};

use crate::support::*;

const SHORT: Duration = Duration::from_millis(150);
/// An answer that does not come within this time does not come.
const NEVER: Duration = Duration::from_millis(200);
/// Long enough for what must come, on a machine that is busy.
const LONG: Duration = Duration::from_secs(20);
const KEY: &str = "S3cretKey";

fn reqwest_client(builder: reqwest::ClientBuilder) -> ReqwestClient {
    ReqwestClient::build(builder.no_proxy()).unwrap()
}

fn policy(attempts: u32) -> RetryPolicy {
    RetryPolicy::builder()
        .base(Duration::from_millis(1))
        .cap(Duration::from_millis(10))
        .attempts(attempts)
        .build()
        .unwrap()
}

/// The five layers over `client`, each body collected inside the retry.
fn collecting<S, R>(
    client: S,
    attempts: u32,
) -> impl Service<Request<RequestBody>, Response = Response<Full<Bytes>>, Error = BoxError, Future: Send>
+ Clone
+ Send
where
    S: Service<Request<RequestBody>, Response = Response<R>, Error: Into<BoxError>, Future: Send>
        + Clone
        + Send
        + 'static,
    R: Body<Data = Bytes, Error: Error + Send + Sync> + Send + Unpin + 'static,
{
    ServiceBuilder::new()
        .layer(RetryLayer::new(policy(attempts)))
        .and_then(async |response: Response<_>| {
            let (head, body) = response.into_parts();
            let body = BodyExt::collect(body).await?;
            Ok::<_, BoxError>(Response::from_parts(head, Full::new(body.to_bytes())))
        })
        .layer(ConcurrencyLimitLayer::per_host(16))
        .layer(ServiceExceptionLayer::new())
        .service(client)
}

fn keyed(server: &Server) -> Request<RequestBody> {
    get(format!(
        "{}/wms?{}&token={KEY}",
        server.url(),
        tile().query()
    ))
}

/// Law 9, for an error and all its sources.
fn assert_speaks_of_no_url(error: &BoxError) {
    let mut next: Option<&(dyn Error + 'static)> = Some(error.as_ref());
    while let Some(error) = next {
        for text in [
            error.to_string(),
            format!("{error:?}"),
            format!("{error:#?}"),
        ] {
            assert!(
                !text.contains(KEY) && !text.contains("://") && !text.contains("/wms"),
                "{text}"
            );
        }
        next = error.source();
    }
}

async fn outcome_and_error<S>(client: S, request: Request<RequestBody>) -> (Outcome, BoxError)
where
    S: Service<Request<RequestBody>, Response: std::fmt::Debug, Error: Into<BoxError>>,
{
    let error: BoxError = client.oneshot(request).await.unwrap_err().into();
    (Outcome::of_error(&error), error)
}

mod through_reqwest {
    use super::*;

    #[tokio::test]
    async fn each_failure_of_a_line_has_its_cause_and_is_mended_by_a_repeat() {
        let impatient = || reqwest_client(reqwest::Client::builder().timeout(SHORT));
        for (fault, cause) in [
            (Fault::reset(), Cause::Reset),
            (Fault::close(), Cause::Closed),
            (Fault::stall(), Cause::TimedOut),
            (Fault::delivery().cut_after(150, Cut::Close), Cause::Cut),
            (Fault::delivery().cut_after(150, Cut::Reset), Cause::Reset),
            (
                Fault::delivery().cut_after(150, Cut::Stall),
                Cause::TimedOut,
            ),
            (
                // Without a text: it would be found to be an exception.
                Fault::status(502).body(""),
                Cause::Status(StatusCode::BAD_GATEWAY),
            ),
        ] {
            let server = start(Script::default().first([fault.clone()])).await;
            let response = collecting(impatient(), 2)
                .oneshot(keyed(&server))
                .await
                .unwrap_or_else(|error| panic!("{fault:?}: {error}"));
            let attempts = response.extensions().get::<Attempts>().cloned();
            assert_eq!(
                bytes(response).await.unwrap(),
                tile().png(),
                "{fault:?}: the tile"
            );
            assert_eq!(attempts.map(|attempts| attempts.count()), Some(2));

            let always = start(Script::default().when(|_| true, fault.clone())).await;
            let result = collecting(impatient(), 2).oneshot(keyed(&always)).await;
            let gave_up = match &result {
                Ok(response) => response.extensions().get::<GaveUp>(),
                Err(error) => {
                    assert_speaks_of_no_url(error);
                    find::<GaveUp>(error)
                }
            };
            let gave_up = gave_up.unwrap_or_else(|| panic!("{fault:?}: {result:?}"));
            assert_eq!(gave_up.attempts()[0].cause(), &cause, "{fault:?}");
            assert_eq!(gave_up.reason(), StopReason::Attempts, "{fault:?}");
        }
    }

    #[tokio::test]
    async fn a_refused_connection_was_never_executed() {
        let server = start(Script::default()).await;
        let request = keyed(&server);
        server.shutdown().await;
        let client = reqwest_client(reqwest::Client::builder());
        let (outcome, error) = outcome_and_error(client, request).await;
        assert_eq!(
            (outcome.verdict(), outcome.cause()),
            (Verdict::Transient, &Cause::Refused)
        );
        assert!(outcome.never_executed());
        assert!(find::<reqwest::Error>(&error).is_some_and(reqwest::Error::is_connect));
        assert_speaks_of_no_url(&error);
    }

    #[tokio::test]
    async fn a_url_that_it_cannot_ask_is_permanent_and_not_printed() {
        for url in [
            format!("ftp://localhost/wms?token={KEY}"),
            format!("/wms?token={KEY}"),
        ] {
            let client = reqwest_client(reqwest::Client::builder());
            let (outcome, error) = outcome_and_error(client, get(url)).await;
            assert_eq!(outcome.verdict(), Verdict::Permanent);
            assert_speaks_of_no_url(&error);
        }
    }

    #[tokio::test]
    async fn a_redirect_that_is_refused_prints_neither_url() {
        let to = |location: &str| {
            let location = http::HeaderValue::from_str(location).unwrap();
            let redirect = Fault::status(302).header(header::LOCATION, location);
            Script::default().when(|_| true, redirect)
        };
        let server = start(to(&format!("ftp://localhost/wms?token={KEY}"))).await;
        let own = reqwest::Client::builder().no_proxy().build().unwrap();
        let (outcome, error) = outcome_and_error(ReqwestClient::from(own), keyed(&server)).await;
        assert_eq!(outcome.verdict(), Verdict::Permanent);
        assert_speaks_of_no_url(&error);

        // An error of reqwest with a URL as the source of another: what its `https_only` makes of a redirect.
        let server = start(to("/elsewhere")).await;
        let policy = reqwest::redirect::Policy::custom(|attempt| {
            let with_url = reqwest::Client::new().get(format!("data:/wms?token={KEY}"));
            attempt.error(with_url.build().unwrap_err())
        });
        let own = reqwest::Client::builder().no_proxy().redirect(policy);
        let own = ReqwestClient::from(own.build().unwrap());
        let (_, error) = outcome_and_error(own, keyed(&server)).await;
        assert_speaks_of_no_url(&error);
        assert_eq!(error.to_string(), "error following redirect");
    }

    #[tokio::test]
    async fn its_own_retry_and_redirects_are_off_where_it_was_built_here() {
        let refused = Script::default().when(|_| true, Fault::reset_stream(7));
        let builder = || {
            let builder = reqwest::Client::builder().no_proxy();
            builder.http2_prior_knowledge()
        };
        for (client, requests) in [
            (ReqwestClient::from(builder().build().unwrap()), 3),
            (reqwest_client(builder()), 1),
        ] {
            let server = start(refused.clone()).await;
            let (outcome, error) = outcome_and_error(client, keyed(&server)).await;
            assert_eq!(outcome.cause(), &Cause::Http2(7));
            assert!(outcome.never_executed());
            assert_speaks_of_no_url(&error);
            assert_eq!(server.counts().requests, requests);
        }

        let there = http::HeaderValue::from_static("/wms?REQUEST=GetCapabilities");
        let redirect = Fault::status(302).header(header::LOCATION, there);
        for (client, status, requests) in [
            (
                ReqwestClient::from(reqwest::Client::builder().no_proxy().build().unwrap()),
                StatusCode::OK,
                2,
            ),
            (
                reqwest_client(reqwest::Client::builder()),
                StatusCode::FOUND,
                1,
            ),
        ] {
            let server = start(Script::default().first([redirect.clone()])).await;
            let response = client.oneshot(keyed(&server)).await.unwrap();
            assert_eq!(response.status(), status);
            assert_eq!(server.counts().requests, requests);
        }
    }

    #[tokio::test]
    async fn a_streaming_body_that_is_not_sync_goes_out_whole_and_with_its_length() {
        let get_feature = "<wfs:GetFeature service='WFS' version='2.0.0' xmlns:wfs='http://www.opengis.net/wfs/2.0'><wfs:Query typeNames='places'/></wfs:GetFeature>";
        let length = get_feature.len().to_string();
        // A request without the length does not get a good answer.
        let unlengthened = move |asked: &flaky_ogc::Asked| {
            asked
                .headers
                .get(header::CONTENT_LENGTH)
                .is_none_or(|sent| sent != length.as_str())
        };
        let server = start(Script::default().when(unlengthened, Fault::status(411))).await;
        let client = ServiceBuilder::new()
            .map_request(|request: Request<AxumBody>| request.map(ReplayBody::new))
            .layer(RetryLayer::new(policy(2)))
            .service(reqwest_client(reqwest::Client::builder()));
        let request = Request::post(format!("{}/wfs", server.url()))
            .header(header::CONTENT_TYPE, "text/xml")
            .body(AxumBody::from(get_feature))
            .unwrap();
        let response = client.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert!(bytes(response).await.unwrap().starts_with(b"<?xml"));

        // In pieces, of a length that nobody knows.
        let server = start(Script::default()).await;
        let (mut sender, pieces) = Channel::<Bytes, io::Error>::new(1);
        tokio::spawn(async move {
            for piece in get_feature.as_bytes().chunks(7) {
                sender.send_data(Bytes::from_static(piece)).await.unwrap();
            }
        });
        let request = Request::post(format!("{}/wfs", server.url()))
            .header(header::CONTENT_TYPE, "text/xml")
            .body(AxumBody::new(pieces))
            .unwrap();
        let response = client.oneshot(request).await.unwrap();
        assert!(bytes(response).await.unwrap().starts_with(b"<?xml"));
        assert_eq!(server.counts().operation("GetFeature"), 1);
    }
}

mod through_the_ready_client {
    use super::*;

    fn ready(builder: ClientBuilder) -> Client<RequestBody> {
        builder.build().unwrap()
    }

    fn three_megabytes(server: &Server) -> Request<RequestBody> {
        get(format!(
            "{}/wfs?SERVICE=WFS&REQUEST=GetFeature&size=3000000",
            server.url()
        ))
    }

    /// Asks for `unread` answers of 3 MB and reads none of them; whether then a tile comes on the same connection.
    async fn a_tile_comes_beside<C>(client: C, unread: usize, patience: Duration) -> bool
    where
        C: Service<Request<RequestBody>, Response = Response<Incoming>, Error = ClientError>
            + Clone
            + Send
            + Sync
            + 'static,
        C::Future: Send,
    {
        let server = start(Script::default()).await;
        let stack = ServiceBuilder::new()
            .layer(ServiceExceptionLayer::new().max_wait(2 * LONG))
            .service(client);
        let ask = |request| stack.clone().oneshot(request);
        let mut held = Vec::new();
        for _ in 0..unread {
            let head = timeout(LONG, ask(three_megabytes(&server))).await;
            held.push(head.expect("a head").unwrap());
        }
        // The windows are full when the server has sent what fits in them, which no event tells.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let tile = async { bytes(ask(get_map(&server)).await?).await };
        let comes = timeout(patience, tile).await;
        assert_eq!(server.counts().connections, 1);
        comes.is_ok_and(|tile| tile.unwrap() == super::tile().png())
    }

    #[tokio::test]
    async fn sixteen_answers_that_nobody_reads_do_not_hold_up_another_one() {
        let theirs = client(Version::Http2);
        assert!(!a_tile_comes_beside(theirs, 3, NEVER).await);
        let ours = ready(ClientBuilder::new().http2_only(true));
        assert!(a_tile_comes_beside(ours, 16, LONG).await);
    }

    #[tokio::test]
    async fn a_redirect_comes_back_as_it_is() {
        let there = http::HeaderValue::from_static("/wms?REQUEST=GetCapabilities");
        let redirect = Fault::status(302).header(header::LOCATION, there);
        let server = start(Script::default().first([redirect])).await;
        let client = ready(ClientBuilder::new());
        let response = client.oneshot(get_map(&server)).await.unwrap();
        assert_eq!(response.status(), StatusCode::FOUND);
        assert_eq!(server.counts().requests, 1);
    }

    #[tokio::test]
    async fn the_layers_work_over_it_on_both_versions() {
        for http2_only in [false, true] {
            let server = start(Script::default().first([Fault::status(503)])).await;
            let client = ready(ClientBuilder::new().http2_only(http2_only));
            let response = collecting(client, 2).oneshot(keyed(&server)).await.unwrap();
            assert_eq!(bytes(response).await.unwrap(), tile().png());
            let counts = server.counts();
            assert_eq!((counts.requests, counts.connections), (2, 1));
        }
    }

    #[tokio::test]
    async fn a_handshake_that_does_not_come_about_ends_with_the_connect_timeout() {
        // Connections are established and left alone.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/wms?token={KEY}", silent.local_addr().unwrap());
        let client = ready(ClientBuilder::new().connect_timeout(SHORT));
        let (outcome, error) = timeout(LONG, outcome_and_error(client, get(url)))
            .await
            .unwrap();
        assert_eq!(
            (outcome.verdict(), outcome.cause()),
            (Verdict::Transient, &Cause::TimedOut)
        );
        assert!(outcome.never_executed());
        assert_speaks_of_no_url(&error);
    }

    #[tokio::test]
    async fn an_endpoint_has_a_connect_timeout_of_its_own() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let settings = EndpointSettings::new().connect_timeout(SHORT);
        let endpoints = Endpoints::builder()
            .endpoint("silent", [address.clone()], settings)
            .build()
            .unwrap();
        // Without it the default of 10 s holds, which is longer than the test has.
        let client = ready(ClientBuilder::new().endpoints(endpoints));
        let url = format!("https://{address}/wms");
        let (outcome, _) = timeout(LONG, outcome_and_error(client, get(url)))
            .await
            .unwrap();
        assert_eq!(outcome.cause(), &Cause::TimedOut);
        assert!(outcome.never_executed());
    }

    #[tokio::test]
    async fn a_handshake_that_is_closed_was_never_executed() {
        let rude = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/wms", rude.local_addr().unwrap());
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = rude.accept().await.unwrap();
                // The whole greeting, so that the end is a FIN.
                let mut greeting = vec![0; 1 << 16];
                let _ = stream.read(&mut greeting).await;
            }
        });
        let (outcome, _) = outcome_and_error(ready(ClientBuilder::new()), get(url)).await;
        assert_eq!(outcome.cause(), &Cause::NotConnected);
        assert!(outcome.never_executed());
    }

    #[tokio::test]
    async fn a_dead_http2_connection_is_found_by_its_pings() {
        // The connection is held, and nobody behind it answers any more.
        let silence = Fault::raw([], End::Hold);
        let server = start(Script::default().first([silence])).await;
        let builder = ClientBuilder::new()
            .http2_only(true)
            .http2_keep_alive_interval(Duration::from_millis(50))
            .http2_keep_alive_timeout(Duration::from_millis(50));
        let asked = outcome_and_error(ready(builder), get_map(&server));
        let (outcome, _) = timeout(LONG, asked).await.unwrap();
        assert_eq!(
            (outcome.verdict(), outcome.cause()),
            (Verdict::Transient, &Cause::TimedOut)
        );
        assert_eq!(server.counts().kind(Kind::Raw), 1);
    }

    /// Answers "well" to everything over TLS, with HTTP/2 or HTTP/1.1; its URL, and a client's settings that trust it.
    async fn over_tls() -> (String, rustls::ClientConfig) {
        let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let serve = async |stream: TcpStream| {
                let stream = acceptor.accept(stream).await?;
                let answer = hyper::service::service_fn(async |_| {
                    Ok::<_, std::convert::Infallible>(Response::new(Full::<Bytes>::from("well")))
                });
                hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), answer)
                    .await
            };
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let _ = serve(stream).await;
            }
        });
        let mut roots = rustls::RootCertStore::empty();
        roots.add(own.cert.der().clone()).unwrap();
        let client = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (format!("https://localhost:{port}/wms?token={KEY}"), client)
    }

    #[tokio::test]
    async fn tls_brings_http2_where_the_server_offers_it() {
        let (url, mut tls) = over_tls().await;
        // What would make hyper-rustls panic is replaced.
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let client = ready(ClientBuilder::new().tls(tls));
        let response = client.oneshot(get(url)).await.unwrap();
        assert_eq!(response.version(), http::Version::HTTP_2);
        assert_eq!(bytes(response).await.unwrap(), "well");
    }

    #[tokio::test]
    async fn a_certificate_that_the_machine_does_not_trust_is_not_asked_for_again() {
        let (url, _) = over_tls().await;
        let client = collecting(ready(ClientBuilder::new()), 3);
        let (outcome, error) = outcome_and_error(client, get(url)).await;
        assert_eq!(
            (outcome.verdict(), outcome.cause()),
            (Verdict::Permanent, &Cause::Tls)
        );
        assert!(find::<GaveUp>(&error).is_none());
        assert_speaks_of_no_url(&error);
    }
}
