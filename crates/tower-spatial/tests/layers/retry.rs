//! The policy under tower's own retry layer.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full};
use tokio::time::Instant;
use tower::{
    BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer, service_fn, util::BoxCloneService,
};
use tower_spatial::{
    ConcurrencyLimitLayer, Deadline,
    call::{Attempts, Cause, Verdict},
    exception::{ServiceException, ServiceExceptionLayer},
    find,
    replay::ReplayBody,
    retry::{GaveUp, RepeatUnsafe, RetryPolicy, StopReason},
    timeout::deadline::DeadlineLayer,
};

use crate::support::*;

async fn call<B>(
    policy: RetryPolicy,
    server: &Server,
    request: Request<B>,
) -> Result<Response<Full<Bytes>>, BoxError>
where
    B: tower_spatial::replay::RepeatableBody + Send + 'static,
{
    ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .service(server.clone())
        .oneshot(request)
        .await
}

fn gave_up(result: &Result<Response<Full<Bytes>>, BoxError>) -> GaveUp {
    let gave_up = match result {
        Ok(response) => response.extensions().get::<GaveUp>(),
        Err(error) => find::<GaveUp>(error),
    };
    gave_up.expect("the retry gave up").clone()
}

#[tokio::test(start_paused = true)]
async fn what_can_succeed_later_is_repeated_until_it_does() {
    use std::io::ErrorKind::*;
    let statuses = [408, 425, 429, 500, 502, 503, 504, 520, 524, 529, 530].map(Reply::status);
    let errors = [
        ConnectionRefused,
        ConnectionReset,
        ConnectionAborted,
        BrokenPipe,
        UnexpectedEof,
        TimedOut,
    ]
    .map(Reply::Io);
    for failure in statuses.into_iter().chain(errors) {
        let server = Server::new([failure.clone(), Reply::status(200)]);
        let response = call(RetryPolicy::default(), &server, get_map())
            .await
            .unwrap();
        assert_eq!(
            (response.status(), server.requests()),
            (StatusCode::OK, 2),
            "{failure:?}"
        );
        assert_eq!(response.extensions().get::<Attempts>().unwrap().count(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_passes_unchanged_after_one_request() {
    for status in [200, 204, 301, 304, 400, 401, 403, 404, 410, 418, 501, 505] {
        let server = Server::new([Reply::status(status)]);
        let response = call(RetryPolicy::default(), &server, get_map())
            .await
            .unwrap();
        assert_eq!((response.status().as_u16(), server.requests()), (status, 1));
        assert!(response.extensions().is_empty(), "{status}");
    }
    let server = Server::new([Reply::Error("the caller's own")]);
    let error = call(RetryPolicy::default(), &server, get_map())
        .await
        .unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), server.requests()),
        ("the caller's own", 1)
    );
}

/// Law 7.
#[tokio::test(start_paused = true)]
async fn a_permanent_exception_costs_the_server_exactly_one_request() {
    for status in [200, 404, 500, 503] {
        let server = Server::new([Reply::status(status)
            .header("content-type", "text/xml")
            .body(LAYER_NOT_DEFINED)]);
        let client = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryPolicy::default()))
            .layer(ServiceExceptionLayer::new())
            .service(server.clone());
        match client.oneshot(get_map()).await {
            Ok(response) => {
                assert!(response.extensions().get::<ServiceException>().is_some());
                assert!(response.extensions().get::<GaveUp>().is_none());
            }
            Err(error) => assert!(
                find::<ServiceException>(&error).is_some() && find::<GaveUp>(&error).is_none()
            ),
        }
        assert_eq!(server.requests(), 1, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_transient_exception_is_repeated() {
    let failure = Reply::status(200)
        .header("content-type", "text/xml")
        .body(CONNECTION_FAILED);
    let server = Server::new([
        failure,
        Reply::status(200)
            .header("content-type", "image/png")
            .body("\u{89}PNG"),
    ]);
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryPolicy::default()))
        .layer(ServiceExceptionLayer::new())
        .service(server.clone());
    assert_eq!(client.oneshot(get_map()).await.unwrap().status(), 200);
    assert_eq!(server.requests(), 2);
}

/// Law 1, by the requests that a server saw.
#[tokio::test(start_paused = true)]
async fn no_attempt_starts_after_the_budget_and_the_last_answer_says_why() {
    for seconds in [1, 7, 60, 600] {
        let budget = Duration::from_secs(seconds);
        let policy = RetryPolicy::builder().budget(budget).build().unwrap();
        let server = Server::new([Reply::status(503)]);
        let start = Instant::now();
        let result = call(policy, &server, get_map()).await;
        assert_eq!(result.as_ref().unwrap().status(), 503);
        let asked_at = server.asked_at.lock().unwrap();
        assert!(asked_at.iter().all(|at| *at <= start + budget));
        assert!(
            start.elapsed() <= budget,
            "it ends when the next attempt would not fit, not when the budget is over"
        );
        let gave_up = gave_up(&result);
        assert_eq!(
            (gave_up.reason(), gave_up.attempts().len()),
            (StopReason::Budget, asked_at.len())
        );
        assert_eq!(
            gave_up.attempts()[0].cause(),
            &Cause::Status(StatusCode::SERVICE_UNAVAILABLE)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_attempt_starts_after_the_callers_deadline() {
    let server = Server::new([Reply::Io(std::io::ErrorKind::ConnectionReset)]);
    let mut request = get_map();
    let start = Instant::now();
    request
        .extensions_mut()
        .insert(Deadline::at(start + Duration::from_secs(20)));
    let result = call(RetryPolicy::default(), &server, request).await;
    assert!(
        server
            .asked_at
            .lock()
            .unwrap()
            .iter()
            .all(|at| *at <= start + Duration::from_secs(20))
    );
    assert_eq!(gave_up(&result).reason(), StopReason::Deadline);
    assert!(
        find::<std::io::Error>(&result.unwrap_err()).is_some(),
        "the last error is the source"
    );
}

/// Law 1, when a laptop sleeps while the policy does.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_wakes_after_the_budget_is_not_sent() {
    for limited in [true, false] {
        let server = Server::new([Reply::status(503)]);
        let gate = match limited {
            true => BoxCloneService::new(
                ServiceBuilder::new()
                    .map_response(|response: Response<_>| response.map(BodyExt::boxed_unsync))
                    .layer(ConcurrencyLimitLayer::per_host(16))
                    .service(server.clone()),
            ),
            false => BoxCloneService::new(
                ServiceBuilder::new()
                    .map_response(|response: Response<_>| response.map(BodyExt::boxed_unsync))
                    .layer(ServiceExceptionLayer::new())
                    .service(server.clone()),
            ),
        };
        let client = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryPolicy::default()))
            .service(gate);
        let call = tokio::spawn(client.oneshot(get_map()));
        while server.requests() == 0 {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(Duration::from_secs(5 * 3600)).await;
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(server.requests(), 1);
        assert_eq!(find::<GaveUp>(&error).unwrap().reason(), StopReason::Budget);
    }
}

/// Law 2.
#[tokio::test(start_paused = true)]
async fn delays_grow_under_full_jitter_and_two_calls_never_share_a_sequence() {
    let policy = RetryPolicy::builder().attempts(6).build().unwrap();
    let mut sequences = Vec::new();
    for _ in 0..20 {
        let server = Server::new([Reply::status(503)]);
        call(policy.clone(), &server, get_map()).await.unwrap();
        let asked_at = server.asked_at.lock().unwrap();
        let delays: Vec<_> = asked_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        for (repeat, delay) in delays.iter().enumerate() {
            // tokio's timer ends within the next millisecond.
            assert!(
                *delay <= Duration::from_secs(1 << repeat) + Duration::from_millis(1),
                "{repeat}: {delay:?}"
            );
        }
        sequences.push(delays);
    }
    sequences.sort();
    sequences.dedup();
    assert_eq!(sequences.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_a_floor_and_is_honoured_with_an_xml_body_too() {
    let refusal = Reply::status(503)
        .header("retry-after", "30")
        .header("content-type", "text/xml")
        .body(CONNECTION_FAILED);
    let server = Server::new([
        refusal,
        Reply::status(200)
            .header("content-type", "image/png")
            .body("\u{89}PNG"),
    ]);
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryPolicy::default()))
        .layer(ServiceExceptionLayer::new())
        .service(server.clone());
    let start = Instant::now();
    client.oneshot(get_map()).await.unwrap();
    let waited = server.asked_at.lock().unwrap()[1] - start;
    assert!((30..=31).contains(&waited.as_secs()), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_absurd_hint_is_clamped_and_a_hint_beyond_the_budget_ends_the_retry_now() {
    let absurd = || {
        Server::new([
            Reply::status(429).header("retry-after", "86400"),
            Reply::status(200),
        ])
    };
    let (server, start) = (absurd(), Instant::now());
    call(RetryPolicy::default(), &server, get_map())
        .await
        .unwrap();
    assert!((300..=301).contains(&start.elapsed().as_secs()));

    let (server, start) = (absurd(), Instant::now());
    let result = call(RetryPolicy::interactive(), &server, get_map()).await;
    assert_eq!(
        (gave_up(&result).reason(), start.elapsed()),
        (StopReason::HintTooLong, Duration::ZERO)
    );

    let policy = RetryPolicy::builder()
        .honour_retry_after(false)
        .build()
        .unwrap();
    let (server, start) = (absurd(), Instant::now());
    call(policy, &server, get_map()).await.unwrap();
    assert!(start.elapsed() <= Duration::from_millis(1_001));
}

#[tokio::test(start_paused = true)]
async fn an_ambiguous_answer_that_comes_back_the_same_is_not_asked_for_again() {
    let server = Server::new([Reply::status(500)]);
    let result = call(RetryPolicy::default(), &server, get_map()).await;
    assert_eq!(
        (gave_up(&result).reason(), server.requests()),
        (StopReason::Ambiguous, 2)
    );
    let never = RetryPolicy::builder().ambiguous_repeats(0).build().unwrap();
    let server = Server::new([Reply::status(500)]);
    let result = call(never, &server, get_map()).await;
    assert_eq!(
        (gave_up(&result).reason(), server.requests()),
        (StopReason::Ambiguous, 1)
    );
}

/// Law 3.
#[tokio::test(start_paused = true)]
async fn an_unsafe_request_reaches_the_server_once_whatever_fails() {
    let transaction = "<wfs:Transaction xmlns:wfs='http://www.opengis.net/wfs/2.0'><wfs:Insert/></wfs:Transaction>";
    let requests = || {
        let kvp = "https://example.org/wps?SERVICE=WPS&REQUEST=Execute&IDENTIFIER=buffer";
        [
            (Method::POST, "https://example.org/wfs", transaction),
            (
                Method::PUT,
                "https://example.org/collections/a/items/1",
                "{}",
            ),
            (
                Method::DELETE,
                "https://example.org/collections/a/items/1",
                "",
            ),
            (
                Method::PATCH,
                "https://example.org/collections/a/items/1",
                "{}",
            ),
            (Method::GET, kvp, ""),
        ]
        .map(|(method, uri, body)| {
            Request::builder()
                .method(method)
                .uri(uri)
                .body(Full::<Bytes>::from(body))
                .unwrap()
        })
    };
    let failures = [
        Reply::status(503),
        Reply::status(429),
        Reply::status(500),
        Reply::status(503).header("retry-after", "1"),
        Reply::Io(std::io::ErrorKind::ConnectionRefused),
        Reply::Io(std::io::ErrorKind::ConnectionReset),
    ];
    for failure in failures {
        for request in requests() {
            let server = Server::new([failure.clone()]);
            let result = call(RetryPolicy::default(), &server, request).await;
            assert_eq!(
                (gave_up(&result).reason(), server.requests()),
                (StopReason::Unsafe, 1),
                "{failure:?}"
            );
        }
        for mut request in requests() {
            request.extensions_mut().insert(RepeatUnsafe);
            let server = Server::new([failure.clone(), Reply::status(200)]);
            call(RetryPolicy::default(), &server, request)
                .await
                .unwrap();
            assert_eq!(server.requests(), 2);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_idempotency_key_opts_in_where_the_protocol_is_json_only() {
    let keyed = |label, uri, body| {
        let request = Request::post(uri)
            .header("idempotency-key", "8e03978e")
            .header("content-type", label);
        request.body(Full::<Bytes>::from(body)).unwrap()
    };
    let rest = keyed("application/json", "https://example.org/orders", "{}");
    let server = Server::new([Reply::status(503), Reply::status(201)]);
    call(RetryPolicy::default(), &server, rest).await.unwrap();
    assert_eq!(server.requests(), 2);

    let body = "<wfs:Transaction xmlns:wfs='http://www.opengis.net/wfs/2.0'/>";
    let wfs = keyed("text/xml", "https://example.org/wfs", body);
    let server = Server::new([Reply::status(503)]);
    let result = call(RetryPolicy::default(), &server, wfs).await;
    assert_eq!(
        (gave_up(&result).reason(), server.requests()),
        (StopReason::Unsafe, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_get_feature_by_post_is_safe() {
    let body = "<?xml version='1.0'?><wfs:GetFeature service='WFS' xmlns:wfs='http://www.opengis.net/wfs/2.0'/>";
    for body in [
        ReplayBody::<Full<Bytes>>::buffered(body),
        ReplayBody::new(Full::from(body)),
    ] {
        let server = Server::new([Reply::status(503), Reply::status(200)]);
        let request = Request::post("https://example.org/wfs")
            .header("content-type", "text/xml")
            .body(body)
            .unwrap();
        call(RetryPolicy::default(), &server, request)
            .await
            .unwrap();
        assert_eq!(server.requests(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_end_where_a_limit_was_asked_for() {
    let policy = RetryPolicy::builder().attempts(3).build().unwrap();
    let server = Server::new([Reply::status(502)]);
    let result = call(policy, &server, get_map()).await;
    assert_eq!(
        (gave_up(&result).reason(), server.requests()),
        (StopReason::Attempts, 3)
    );
    assert_eq!(
        result
            .unwrap()
            .extensions()
            .get::<Attempts>()
            .unwrap()
            .count(),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn a_permanent_answer_after_failures_passes_as_it_is_with_its_attempts() {
    let server = Server::new([Reply::status(503), Reply::status(503), Reply::status(404)]);
    let response = call(RetryPolicy::default(), &server, get_map())
        .await
        .unwrap();
    assert_eq!(response.extensions().get::<Attempts>().unwrap().count(), 3);
    assert!(response.extensions().get::<GaveUp>().is_none());
}

#[tokio::test(start_paused = true)]
async fn each_call_has_a_budget_of_its_own() {
    let policy = RetryPolicy::builder()
        .budget(Duration::from_secs(10))
        .build()
        .unwrap();
    let server = Server::new([Reply::status(503)]);
    let mut client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .service(server.clone());
    for _ in 0..3 {
        let start = Instant::now();
        let ready = ServiceExt::<Request<NoBody>>::ready(&mut client)
            .await
            .unwrap();
        let result = tower::Service::call(ready, get_map()).await;
        let gave_up = gave_up(&result);
        assert!(start.elapsed() <= Duration::from_secs(10) && gave_up.attempts().len() > 1);
        assert_eq!(gave_up.attempts()[0].began(), Duration::ZERO);
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_callers_own_rules_come_first() {
    let policy = RetryPolicy::builder()
        .status(StatusCode::NOT_FOUND, Verdict::Transient)
        .classify_error(|error| (error.to_string() == "mine").then_some(Verdict::Transient))
        .classify_response(|head| {
            head.headers
                .contains_key("x-later")
                .then_some(Verdict::Throttled)
        })
        .build()
        .unwrap();
    let script = [
        Reply::status(404),
        Reply::Error("mine"),
        Reply::status(200).header("x-later", "1"),
        Reply::status(200),
    ];
    let server = Server::new(script);
    assert_eq!(
        call(policy, &server, get_map()).await.unwrap().status(),
        200
    );
    assert_eq!(server.requests(), 4);
}

#[tokio::test(start_paused = true)]
async fn extensions_of_one_attempt_do_not_reach_the_next() {
    #[derive(Clone)]
    struct Mark;
    let mut seen = Vec::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    let server = service_fn(move |mut request: Request<Empty<Bytes>>| {
        sender
            .send(request.extensions_mut().insert(Mark).is_some())
            .unwrap();
        async {
            Ok::<_, BoxError>(
                Response::builder()
                    .status(503)
                    .body(Full::<Bytes>::default())
                    .unwrap(),
            )
        }
    });
    let policy = RetryPolicy::builder().attempts(3).build().unwrap();
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .service(tower::buffer::Buffer::new(server, 1));
    client.oneshot(get_map()).await.unwrap();
    seen.extend(receiver.try_iter());
    assert_eq!(seen, [false, false, false]);
}

#[tokio::test(start_paused = true)]
async fn the_failed_answer_is_drained_while_the_sleep_runs() {
    let bodies = std::sync::Mutex::new(Vec::new());
    let bodies = std::sync::Arc::new(bodies);
    let kept = std::sync::Arc::clone(&bodies);
    let server = service_fn(move |_: Request<Empty<Bytes>>| {
        let late = Scripted::new([
            Step::data("busy"),
            Step::Wait(Duration::from_millis(30)),
            Step::data("!"),
        ]);
        kept.lock()
            .unwrap()
            .push(std::sync::Arc::clone(&late.taken));
        async { Ok::<_, Infallible>(answer(503, "text/plain", late)) }
    });
    let policy = RetryPolicy::builder()
        .base(Duration::from_nanos(1))
        .attempts(2)
        .build()
        .unwrap();
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .map_err(BoxError::from)
        .service(tower::buffer::Buffer::new(server, 1));
    let start = Instant::now();
    let response = client.oneshot(get_map()).await.unwrap();
    assert_eq!(
        start.elapsed(),
        Duration::from_millis(30),
        "the longer of sleep and drain"
    );
    let taken =
        |attempt: usize| bodies.lock().unwrap()[attempt].load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!((taken(0), taken(1)), (2, 0));
    assert_eq!(
        response.into_body().collect().await.unwrap().to_bytes(),
        "busy!"
    );
}

#[tokio::test(start_paused = true)]
async fn towers_own_elapsed_is_retried_and_can_still_be_found() {
    let server = Server::new([Reply::Hang]);
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(
            RetryPolicy::builder().attempts(2).build().unwrap(),
        ))
        .timeout(Duration::from_secs(60))
        .service(server.clone());
    let error = client.oneshot(get_map()).await.unwrap_err();
    assert!(find::<tower::timeout::error::Elapsed>(&error).is_some());
    let gave_up = find::<GaveUp>(&error).unwrap();
    assert!(
        gave_up
            .attempts()
            .iter()
            .all(|attempt| *attempt.cause() == Cause::TimedOut)
    );
    assert_eq!(server.requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_budget_runs_from_the_first_admission_under_a_deadline_layer() {
    // A gate that notes the admission is the limit's business; without one the call itself counts.
    let server = Server::new([Reply::status(503)]);
    let client = ServiceBuilder::new()
        .layer(DeadlineLayer::new())
        .layer(RetryLayer::new(RetryPolicy::interactive()))
        .service(server.clone());
    let start = Instant::now();
    client.oneshot(get_map()).await.unwrap();
    assert!(start.elapsed() <= Duration::from_secs(60) && server.requests() > 2);
}

#[test]
fn nonsense_is_refused_by_name() {
    let error = |builder: tower_spatial::retry::RetryPolicyBuilder| {
        builder.build().unwrap_err().to_string()
    };
    let of = RetryPolicy::builder;
    let zero = Duration::ZERO;
    assert_eq!(
        error(of().base(zero)),
        "retry policy: base is zero, expected a duration above zero"
    );
    assert_eq!(
        error(of().cap(Duration::from_millis(1))),
        "retry policy: base 1s is longer than cap 1ms"
    );
    assert_eq!(
        error(of().budget(zero)),
        "retry policy: budget is zero, expected more"
    );
    assert_eq!(
        error(of().retry_after_max(zero)),
        "retry policy: retry_after_max is zero, expected more"
    );
    assert_eq!(
        error(of().attempts(0)),
        "retry policy: attempts is zero, expected more"
    );
    let seconds = |base, cap, budget| of().seconds(base, cap, budget).unwrap_err().to_string();
    assert_eq!(
        seconds(-1.0, 1.0, 1.0),
        "retry policy: base is -1, expected seconds from 0"
    );
    assert_eq!(
        seconds(1.0, f64::NAN, 1.0),
        "retry policy: cap is NaN, expected seconds from 0"
    );
    assert_eq!(
        seconds(1.0, 2.0, f64::INFINITY),
        "retry policy: budget is inf, expected seconds from 0"
    );
    assert!(of().seconds(0.5, 30.0, 180.0).unwrap().build().is_ok());
}
