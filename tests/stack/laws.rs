//! What must hold of all layers at once, over real sockets and as the server counts: a test for each law of
//! ARCHITECTURE.md. What is not bounded from both sides is bounded from the side that a slow machine cannot break.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use flaky_ogc::{Cut, End, Exception, Fault, Form, Script, Server};
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::task::JoinSet;
use tower::{BoxError, Layer, ServiceExt, util::BoxCloneSyncService};
use tower_spatial::{
    BreakerSettings, BreakerState, Deadline, EndpointSettings, Endpoints, QueueTimeout, Quota,
    RateLimited, SpatialLayer,
    call::Cause,
    client::hyper::ClientBuilder,
    exception::ServiceException,
    find,
    replay::ReplayBody,
    retry::{GaveUp, RetryAfterUnit, RetryPolicy, RetryPolicyBuilder, StopReason},
    stack::SpatialBody,
};

use crate::support::*;

type Client = BoxCloneSyncService<Request<RequestBody>, Response<SpatialBody<Incoming>>, BoxError>;

const VERSIONS: [Version; 2] = [Version::Http1, Version::Http2];
const OPEN: Duration = Duration::from_millis(20);
const SHORT: Duration = Duration::from_millis(100);
/// What must come comes within it, on any machine.
const LONG: Duration = Duration::from_secs(60);
const TRANSACTION: &str = "<wfs:Transaction service='WFS' version='2.0.0' \
    xmlns:wfs='http://www.opengis.net/wfs/2.0'><wfs:Insert/></wfs:Transaction>";

/// Four answers at once, and a breaker that stays open for 20 ms.
fn settings() -> EndpointSettings {
    let breaker = BreakerSettings {
        open: OPEN,
        open_cap: OPEN,
        ..BreakerSettings::default()
    };
    EndpointSettings::new().concurrency(4).breaker(breaker)
}

fn policy() -> RetryPolicyBuilder {
    RetryPolicy::builder()
        .base(Duration::from_millis(1))
        .cap(Duration::from_millis(2))
        .budget(LONG)
}

fn all_layers(
    version: Version,
    settings: EndpointSettings,
    policy: RetryPolicyBuilder,
) -> (Client, Endpoints) {
    let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
    let layer = SpatialLayer::new(endpoints.clone()).retry(policy.build().unwrap());
    (over(version, layer), endpoints)
}

fn over(version: Version, layer: SpatialLayer) -> Client {
    let client = ClientBuilder::new().http2_only(version == Version::Http2);
    BoxCloneSyncService::new(layer.layer(client.build().unwrap()))
}

/// One call and its whole body, in a task of its own.
fn spawn(
    calls: &mut JoinSet<Result<Bytes, BoxError>>,
    client: &Client,
    request: Request<RequestBody>,
) {
    let call = client.clone().oneshot(request);
    calls.spawn(async move { bytes(call.await?).await });
}

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(LONG, future).await.expect("an end")
}

fn post(server: &Server) -> Request<RequestBody> {
    Request::post(format!("{}/wfs", server.url()))
        .header("content-type", "text/xml")
        .body(ReplayBody::buffered(TRANSACTION))
        .unwrap()
}

/// Law 5, afterwards: nobody is on the way, and as many as may can go.
async fn assert_all_came_back(client: &Client, endpoints: &Endpoints, request: Request<()>) {
    let host = endpoints.find(request.uri());
    let now = host.snapshot();
    assert_eq!(
        (now.in_flight, now.queued, now.unread_bodies, now.reclaimed),
        (0, 0, 0, 0)
    );
    let mut held = Vec::new();
    for _ in 0..host.limit() {
        let request = request.clone().map(|()| ReplayBody::empty());
        held.push(soon(client.clone().oneshot(request)).await.unwrap());
    }
}

fn map_of(server: &Server) -> Request<()> {
    get_map(server).map(|_| ())
}

#[tokio::test]
async fn law_1_nothing_starts_after_the_budget_or_the_deadline_and_no_wait_is_unbounded() {
    for version in VERSIONS {
        // A hint that is longer than what is left: no sleep begins.
        let busy = Fault::status(503).retry_after(1);
        let server = start(Script::default().when(|_| true, busy)).await;
        let (client, _) = all_layers(version, settings(), policy());
        let mut request = get_map(&server);
        request.extensions_mut().insert(Deadline::after(SHORT));
        let answer = soon(client.clone().oneshot(request)).await.unwrap();
        let gave_up = answer.extensions().get::<GaveUp>().unwrap();
        assert_eq!(gave_up.reason(), StopReason::HintTooLong);
        assert_eq!(server.counts().requests, 1);

        // A deadline cuts who hangs; a head that does not come and a budget end the rest.
        let server = start(Script::default().when(|_| true, Fault::stall())).await;
        let mut request = get_map(&server);
        request.extensions_mut().insert(Deadline::after(SHORT));
        soon(client.oneshot(request)).await.unwrap_err();
        assert_eq!(server.counts().requests, 1);
        let short = policy().budget(2 * SHORT);
        let (client, _) = all_layers(version, settings().head_timeout(SHORT / 2), short);
        let error = soon(client.oneshot(get_map(&server))).await.unwrap_err();
        let mut attempts = find::<GaveUp>(&error).unwrap().attempts().to_vec();
        // One that woke too late was not sent.
        attempts.retain(|one| *one.cause() != Cause::NotAdmitted);
        let began = attempts.iter().map(|one| one.began());
        assert!(began.max() <= Some(2 * SHORT), "{attempts:?}");
        assert_eq!(server.counts().requests, 1 + attempts.len() as u64);

        // Whoever waits for a permit that nobody gives back is told so.
        let server = start(Script::default()).await;
        let (client, _) = all_layers(version, settings().queue_timeout(SHORT), policy());
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(client.clone().oneshot(get_map(&server)).await.unwrap());
        }
        let error = soon(client.clone().oneshot(get_map(&server)))
            .await
            .unwrap_err();
        assert_eq!(find::<QueueTimeout>(&error).unwrap().in_flight(), 4);
        // So is who waits for a slot.
        let once = settings()
            .rate([Quota::new(1, LONG).unwrap()])
            .queue_timeout(SHORT);
        let (client, _) = all_layers(version, once, policy());
        client.clone().oneshot(get_map(&server)).await.unwrap();
        let error = soon(client.oneshot(get_map(&server))).await.unwrap_err();
        assert!(find::<RateLimited>(&error).is_some());
        assert_eq!(server.counts().requests, 5);
    }
}

#[tokio::test]
async fn law_2_nobody_comes_back_before_the_time_that_the_server_named() {
    for version in VERSIONS {
        let seen = Arc::<Mutex<Vec<Duration>>>::default();
        let note = Arc::clone(&seen);
        let script = Script::default().decide(move |asked| {
            note.lock().unwrap().push(asked.elapsed);
            let busy = Fault::status(503).header(http::header::RETRY_AFTER, HeaderValue::from(50));
            (asked.nth < 2).then_some(busy)
        });
        let server = start(script).await;
        let patient = policy().retry_after_unit(RetryAfterUnit::Milliseconds);
        // The gates read a hint as the endpoint's own policy does.
        let own = settings().retry(patient.build().unwrap());
        let (client, endpoints) = all_layers(version, own, policy());
        let map = soon(client.clone().oneshot(get_map(&server)))
            .await
            .unwrap();
        assert_eq!(bytes(map).await.unwrap(), tile().png());
        let seen = seen.lock().unwrap().clone();
        assert_eq!(seen.len(), 3);
        let hint = Duration::from_millis(50);
        assert!(
            seen.windows(2).all(|two| two[1] - two[0] >= hint),
            "{seen:?}"
        );
        assert_all_came_back(&client, &endpoints, map_of(&server)).await;
    }
}

#[tokio::test]
async fn law_3_a_transaction_reaches_the_server_once_whatever_fails() {
    for version in VERSIONS {
        for fault in [
            Fault::reset(),
            Fault::close(),
            Fault::stall(),
            Fault::status(502),
            Fault::status(503).retry_after(1),
            Fault::status(429).retry_after(1),
            Fault::reset().after_work(),
            Fault::reset_stream(7),
            Fault::html_page(),
            Fault::delivery().cut_after(20, Cut::Reset),
        ] {
            let server = start(Script::default().when(|_| true, fault.clone())).await;
            let (client, endpoints) = all_layers(
                version,
                settings().head_timeout(SHORT).idle_timeout(SHORT),
                policy(),
            );
            let answer = soon(client.clone().oneshot(post(&server))).await;
            if let Ok(answer) = answer {
                _ = soon(answer.into_body().collect()).await;
            }
            assert_eq!(server.counts().requests, 1, "{version:?} {fault:?}");
            let now = endpoints.find(&server.url().parse().unwrap()).snapshot();
            assert_eq!((now.in_flight, now.queued), (0, 0), "{version:?} {fault:?}");
        }
    }
    // Behind a breaker that is open it waits, and goes once.
    let server = start(Script::default().first(vec![Fault::status(502); 5])).await;
    let (client, endpoints) = all_layers(Version::Http1, settings(), policy().attempts(1));
    for _ in 0..5 {
        soon(client.clone().oneshot(get_map(&server)))
            .await
            .unwrap();
    }
    let host = endpoints.find(&server.url().parse().unwrap());
    assert_eq!(host.snapshot().trips, 1);
    soon(client.oneshot(post(&server))).await.unwrap();
    assert_eq!(
        (server.counts().requests, server.counts().transactions),
        (6, 1)
    );
}

#[tokio::test]
async fn law_4_what_the_caller_receives_is_what_the_server_sent() {
    let check = HeaderName::from_static("x-check");
    for version in VERSIONS {
        for delivery in [
            Fault::delivery(),
            Fault::delivery().in_parts(7, Duration::ZERO),
            Fault::delivery().chunked(),
            Fault::delivery().gzip(),
            Fault::delivery().trailer(check.clone(), HeaderValue::from_static("abc")),
            Fault::delivery().body(vec![b'x'; 300_000]),
        ] {
            let server = start(Script::default().when(|_| true, delivery.clone())).await;
            let (client, _) = all_layers(version, settings(), policy());
            let with_trailers = || {
                let mut request = get_map(&server);
                request
                    .headers_mut()
                    .insert("te", HeaderValue::from_static("trailers"));
                request
            };
            let plain = ClientBuilder::new().http2_only(version == Version::Http2);
            let plain = plain
                .build()
                .unwrap()
                .request(with_trailers())
                .await
                .unwrap();
            let seen = soon(client.oneshot(with_trailers())).await.unwrap();
            let (plain_head, plain) = plain.into_parts();
            let (head, seen) = seen.into_parts();
            assert_eq!(
                (head.status, head.version),
                (plain_head.status, plain_head.version)
            );
            let but_date = |mut headers: http::HeaderMap| {
                headers.remove("date");
                headers
            };
            assert_eq!(but_date(head.headers), but_date(plain_head.headers));
            assert_eq!(
                seen.size_hint().exact(),
                plain.size_hint().exact(),
                "{delivery:?}"
            );
            assert_eq!(seen.is_end_stream(), plain.is_end_stream());
            let (seen, plain) = (
                seen.collect().await.unwrap(),
                plain.collect().await.unwrap(),
            );
            assert_eq!(
                seen.trailers(),
                plain.trailers(),
                "{version:?} {delivery:?}"
            );
            assert_eq!(
                seen.to_bytes(),
                plain.to_bytes(),
                "{version:?} {delivery:?}"
            );
        }
    }
}

#[tokio::test]
async fn law_5_in_flight_never_exceeds_the_limit_and_every_permit_comes_back() {
    for version in VERSIONS {
        let script = Script::default().decide(|asked| {
            // Fewer failures than there are retry tokens: nobody waits for one.
            Some(match asked.nth % 12 {
                0 => Fault::status(503),
                5 => Fault::exception(Exception::new(Form::Report130, "Connection timed out")),
                1 | 4 | 7 => Fault::delivery().late_head(Duration::from_millis(3)),
                2 | 6 | 8 => Fault::delivery().late_body(Duration::from_millis(3)),
                _ => Fault::delivery().in_parts(50, Duration::from_millis(1)),
            })
        });
        let server = start(script).await;
        let (client, endpoints) = all_layers(version, settings(), policy());
        let mut calls = JoinSet::new();
        let mut cancelled = Vec::new();
        for n in 0..80 {
            let call = client.clone().oneshot(get_map(&server));
            match n % 8 {
                // Dropped half-read.
                6 => {
                    calls.spawn(async move {
                        call.await?.frame().await;
                        Ok(tile().png().into())
                    });
                }
                7 => cancelled.push(calls.spawn(async move { bytes(call.await?).await })),
                _ => spawn(&mut calls, &client, get_map(&server)),
            }
        }
        for (n, call) in cancelled.into_iter().enumerate() {
            soon(server.until(|counts| counts.requests >= 4 * n as u64)).await;
            call.abort();
        }
        while let Some(call) = soon(calls.join_next()).await {
            match call {
                Ok(map) => assert_eq!(map.unwrap(), tile().png()),
                Err(error) => assert!(error.is_cancelled()),
            }
        }
        assert!(server.counts().in_flight_peak <= 4, "{:?}", server.counts());
        assert!(server.counts().in_flight_peak >= 2, "{:?}", server.counts());
        assert_all_came_back(&client, &endpoints, map_of(&server)).await;
    }
}

#[tokio::test]
async fn law_5_a_host_that_hangs_delays_no_other() {
    for version in VERSIONS {
        let hangs = start(Script::default().when(|_| true, Fault::stall())).await;
        let other = start(Script::default()).await;
        let (client, endpoints) = all_layers(version, settings(), policy());
        let mut calls = JoinSet::new();
        for _ in 0..20 {
            spawn(&mut calls, &client, get_map(&hangs));
        }
        soon(hangs.until(|counts| counts.in_flight == 4)).await;
        for _ in 0..10 {
            let map = soon(client.clone().oneshot(get_map(&other))).await.unwrap();
            assert_eq!(bytes(map).await.unwrap(), tile().png());
        }
        assert_eq!(hangs.counts().requests, 4);
        soon(calls.shutdown()).await;
        let now = endpoints.find(&hangs.url().parse().unwrap()).snapshot();
        assert_eq!((now.in_flight, now.queued), (0, 0));
    }
}

#[tokio::test]
async fn law_6_one_probe_is_on_its_way_at_most_and_a_lost_one_frees_its_slot() {
    for version in VERSIONS {
        // Five refusals trip it, the first probe hangs until its call is dropped, the second is slow and answers well.
        let at = Arc::<Mutex<Vec<Duration>>>::default();
        let note = Arc::clone(&at);
        let script = Script::default().decide(move |asked| {
            note.lock().unwrap().push(asked.elapsed);
            match asked.nth {
                0..5 => Some(Fault::status(502)),
                5 => Some(Fault::stall()),
                6 => Some(Fault::delivery().late_head(SHORT)),
                _ => None,
            }
        });
        let server = start(script).await;
        let (once, endpoints) = all_layers(version, settings(), policy().attempts(1));
        for _ in 0..5 {
            soon(once.clone().oneshot(get_map(&server))).await.unwrap();
        }
        let host = endpoints.find(&server.url().parse().unwrap());
        assert_eq!(host.snapshot().trips, 1);
        let mut lost = JoinSet::new();
        spawn(&mut lost, &once, get_map(&server));
        soon(server.until(|counts| counts.requests == 6)).await;
        let mut calls = JoinSet::new();
        for _ in 0..20 {
            spawn(&mut calls, &once, get_map(&server));
        }
        tokio::time::sleep(3 * OPEN).await;
        assert_eq!(
            server.counts().requests,
            6,
            "a second probe beside the first"
        );
        assert_eq!(host.snapshot().breaker, BreakerState::HalfOpen);
        soon(lost.shutdown()).await;
        while let Some(call) = soon(calls.join_next()).await {
            assert_eq!(call.unwrap().unwrap(), tile().png());
        }
        let at = at.lock().unwrap().clone();
        assert_eq!(at.len(), 26);
        assert!(at[7] - at[6] >= SHORT, "went before the probe was answered");
        assert_eq!(host.snapshot().breaker, BreakerState::Closed);
        assert_all_came_back(&once, &endpoints, map_of(&server)).await;
    }
}

/// Laws 5 and 6 together: what an outage costs.
#[tokio::test]
async fn a_blip_costs_a_server_no_more_than_the_breaker_lets_through() {
    const BLIP: Duration = Duration::from_millis(200);
    const CALLS: u64 = 20;
    for fault in [Fault::status(502), Fault::reset(), Fault::html_page()] {
        for version in VERSIONS {
            // From the first request on, however long a client takes to be made.
            let (first, failure) = (OnceLock::new(), fault.clone());
            let script = Script::default().decide(move |asked| {
                let since = asked.elapsed - *first.get_or_init(|| asked.elapsed);
                (since < BLIP).then(|| failure.clone())
            });
            let server = start(script).await;
            let (client, endpoints) = all_layers(version, settings(), policy());
            let mut calls = JoinSet::new();
            for _ in 0..CALLS {
                spawn(&mut calls, &client, get_map(&server));
            }
            while let Some(call) = soon(calls.join_next()).await {
                let map = call.unwrap();
                let map = map.unwrap_or_else(|error| panic!("{fault:?} {version:?}: {error}"));
                assert_eq!(map, tile().png());
            }
            // Five that trip it and three that were in flight then, a probe every 10 ms at most, and the answers.
            let probes = 1 + BLIP.as_millis() as u64 / (OPEN.as_millis() as u64 / 2);
            let requests = server.counts().requests;
            assert!(
                requests <= 5 + 3 + probes + CALLS,
                "{fault:?} {version:?}: {requests}"
            );
            assert!(server.counts().in_flight_peak <= 4);
            let host = endpoints.find(&server.url().parse().unwrap());
            assert_eq!(host.snapshot().breaker, BreakerState::Closed);
            // On a machine that is slow enough the blip is over before it has tripped.
            let failed = requests - CALLS;
            assert!(host.snapshot().trips >= 1 || failed < 5 + 3, "{failed}");
            assert_all_came_back(&client, &endpoints, map_of(&server)).await;
        }
    }
}

#[tokio::test]
async fn law_7_a_permanent_exception_costs_the_server_one_request() {
    for version in VERSIONS {
        for form in [Form::Report130, Form::Ows11, Form::OwsJson] {
            let server = start(Script::default().exceptions(form)).await;
            let (client, endpoints) = all_layers(version, settings(), policy());
            let query = tile().query().replace("LAYERS=", "LAYERS=nowhere");
            let url = format!("{}/wms?{query}", server.url());
            let result = soon(client.oneshot(get(url))).await;
            let found = match &result {
                Ok(response) => response.extensions().get::<ServiceException>(),
                Err(error) => find::<ServiceException>(error),
            };
            assert!(found.is_some(), "{form:?}");
            assert_eq!(server.counts().requests, 1, "{form:?}");
            drop(result);
            let now = endpoints.find(&server.url().parse().unwrap()).snapshot();
            assert_eq!((now.in_flight, now.trips), (0, 0));
        }
    }
}

#[tokio::test]
async fn law_8_more_hosts_than_are_kept_are_all_answered() {
    // All of 127.0.0.0/8 is this machine, where the system says so; else one name is asked thirty times.
    let server = Server::start_at((Ipv4Addr::UNSPECIFIED, 0).into(), Script::default())
        .await
        .unwrap();
    let port = server.addr().port();
    let endpoints = Endpoints::builder()
        .defaults(settings().rate([Quota::new(1, LONG).unwrap()]))
        .max_endpoints(4)
        .build()
        .unwrap();
    let client = over(Version::Http1, SpatialLayer::new(endpoints.clone()));
    for host in 1..=30 {
        let host = if cfg!(target_os = "linux") { host } else { 1 };
        let url = format!(
            "http://127.0.0.{host}:{port}/wms?{}&key={host}",
            tile().query()
        );
        let call = client.clone().oneshot(get(url));
        if let Ok(map) = soon(call).await {
            assert_eq!(bytes(map).await.unwrap(), tile().png());
        }
        let known = endpoints.snapshot();
        assert!(known.len() <= 4 + 2, "{}", known.len());
        assert!(known.iter().all(|host| host.in_flight == 0));
    }
    if cfg!(target_os = "linux") {
        assert_eq!(server.counts().requests, 30);
    }
}

#[tokio::test]
async fn law_9_no_error_and_no_state_tells_a_key() {
    const SECRET: &str = "s3cr3t";
    for fault in [
        Fault::reset(),
        Fault::stall(),
        Fault::status(503).retry_after(400),
        Fault::exception(Exception::new(Form::Report130, "the password is wrong")),
        Fault::raw(
            [(Duration::ZERO, Bytes::from_static(b"\x16\x03"))],
            End::Close,
        ),
    ] {
        let server = start(Script::default().when(|_| true, fault.clone())).await;
        let rate = Quota::new(2, LONG).unwrap().with_burst(2).unwrap();
        let limited = settings()
            .rate([rate])
            .head_timeout(SHORT)
            .queue_timeout(SHORT);
        let (client, endpoints) = all_layers(Version::Http1, limited, policy().attempts(2));
        for _ in 0..4 {
            let url = format!(
                "http://user:{SECRET}@{}/wms?{}&key={SECRET}",
                server.addr(),
                tile().query()
            );
            let mut request = get(url);
            let value = HeaderValue::from_static("Bearer s3cr3t");
            request.headers_mut().insert("authorization", value);
            request.extensions_mut().insert(Deadline::after(LONG));
            let mut told = match soon(client.clone().oneshot(request)).await {
                Ok(answer) => format!("{answer:?}"),
                Err(error) => {
                    let mut told = format!("{error:?}");
                    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&*error);
                    while let Some(one) = source {
                        told += &format!(" {one} {one:?} {one:#?}");
                        source = one.source();
                    }
                    told
                }
            };
            told += &format!(
                "{client:?} {endpoints:?} {:?} {:?}",
                endpoints.snapshot(),
                endpoints.export()
            );
            assert!(!told.contains(SECRET), "{fault:?}: {told}");
        }
    }
}

#[tokio::test]
async fn law_10_hostile_answers_end_with_a_verdict_and_give_their_permits_back() {
    let head = |rest: &str| {
        Bytes::from(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n{rest}"
        ))
    };
    let chunks = "1\r\n \r\n".repeat(5_000);
    for (number, answer) in [
        head("Content-Length: 10\r\n\r\n\0\0\0\0\0\0\0\0\0\0"),
        head("Content-Length: 99999999999999999999\r\n\r\n"),
        head(&format!("X-Huge: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(64 * 1024))),
        head(&format!("Transfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n")),
        head("Transfer-Encoding: chunked\r\n\r\nZZ\r\n"),
        head("Retry-After: 99999999999999999999\r\nRateLimit: \"a\";r=-1;t=\r\nContent-Length: 0\r\n\r\n"),
        head(&format!("Content-Length: 60000\r\n\r\n{}", "<!DOCTYPE a [<!ENTITY b \"&b;&b;\">]><a>".repeat(1_500))),
        Bytes::from_static(b"\x16\x03\x01\x02\x00"),
    ]
    .into_iter()
    .enumerate()
    {
        let script = Script::default().when(
            |asked| asked.nth < 2,
            Fault::raw([(Duration::ZERO, answer)], End::Close),
        );
        let server = start(script).await;
        let timed = settings().head_timeout(SHORT).idle_timeout(SHORT);
        let (client, endpoints) = all_layers(Version::Http1, timed, policy().attempts(2));
        if let Ok(answer) = soon(client.clone().oneshot(get_map(&server))).await {
            _ = soon(answer.into_body().collect()).await;
        }
        let requests = server.counts().requests;
        assert!((1..=2).contains(&requests), "{number}: {requests}");
        let now = endpoints.find(&server.url().parse().unwrap()).snapshot();
        assert_eq!((now.in_flight, now.queued), (0, 0), "{number}");
    }
}

#[tokio::test]
async fn law_11_the_rate_holds_at_the_server_also_after_a_stall() {
    let slot = Duration::from_millis(50);
    for version in VERSIONS {
        // Two that stall hold both permits for four slots: nothing that was saved up meanwhile leaves in a burst.
        let stall = 4 * slot;
        let at = Arc::<Mutex<Vec<Duration>>>::default();
        let note = Arc::clone(&at);
        let script = Script::default().decide(move |asked| {
            note.lock().unwrap().push(asked.elapsed);
            (asked.nth < 2).then(|| Fault::delivery().late_head(stall))
        });
        let server = start(script).await;
        let begins = server.elapsed();
        let rate = Quota::new(20, Duration::from_secs(1)).unwrap();
        let limited = settings().concurrency(2).rate([rate]);
        let (client, endpoints) = all_layers(version, limited, policy());
        let mut calls = JoinSet::new();
        for _ in 0..12 {
            spawn(&mut calls, &client, get_map(&server));
        }
        while let Some(call) = soon(calls.join_next()).await {
            assert_eq!(call.unwrap().unwrap(), tile().png());
        }
        // A pause in which slots could be saved, too.
        tokio::time::sleep(stall).await;
        let pause_ends = server.elapsed();
        for _ in 0..6 {
            spawn(&mut calls, &client, get_map(&server));
        }
        while let Some(call) = soon(calls.join_next()).await {
            call.unwrap().unwrap();
        }
        // A thread that stood still while calls waited for their slots: the missed ones do not leave in a burst.
        let (client, _) = all_layers(version, settings().concurrency(8).rate([rate]), policy());
        for _ in 0..8 {
            spawn(&mut calls, &client, get_map(&server));
        }
        soon(server.until(|counts| counts.requests == 19)).await;
        #[expect(clippy::disallowed_methods, reason = "the executor is to stand still")]
        std::thread::sleep(stall);
        let stands_until = server.elapsed();
        while let Some(call) = soon(calls.join_next()).await {
            call.unwrap().unwrap();
        }
        let at = at.lock().unwrap().clone();
        let late = at.partition_point(|at| *at < stands_until);
        // One may have left before and got there after.
        let after = at.get(late + 1..).unwrap_or_default();
        assert_eq!(at.len(), 26);
        // Windows that begin at a time before which the first of them cannot have left. A request may be late at the
        // server, which would make the next look early: so each is held against its own slot.
        let windows = [
            (&at[..2], begins),
            (&at[2..12], at[0] + stall),
            (&at[12..18], pause_ends),
            (after, stands_until),
        ];
        for (window, begin) in windows {
            for (n, at) in window.iter().enumerate() {
                assert!(
                    *at >= begin + slot * n as u32,
                    "{n}: {at:?} after {begin:?}"
                );
            }
        }
        let now = endpoints.find(&server.url().parse().unwrap()).snapshot();
        assert_eq!((now.in_flight, now.queued), (0, 0));
    }
}
