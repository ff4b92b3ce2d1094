//! The whole stack, cancelled and broken wherever it can be.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use http::Request;
use http_body_util::BodyExt;
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer, service_fn};
use tower_spatial::{
    ConcurrencyLimitLayer, Deadline, Endpoints, exception::ServiceExceptionLayer,
    retry::RetryPolicy, timeout::deadline::DeadlineLayer,
};

use crate::support::*;

/// Fails in every way once, each time after a few waits, then answers with a body in pieces.
fn bumpy(
    calls: Arc<AtomicUsize>,
) -> impl tower::Service<
    Request<NoBody>,
    Response = http::Response<Scripted>,
    Error = BoxError,
    Future: Send,
> + Clone {
    service_fn(move |_: Request<NoBody>| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(5)).await;
            let wait = || Step::Wait(Duration::from_millis(7));
            let pieces = |label, pieces: [&'static str; 2]| {
                let steps = [
                    wait(),
                    Step::data(pieces[0]),
                    wait(),
                    Step::data(pieces[1]),
                    wait(),
                ];
                Ok(answer(200, label, Scripted::new(steps)))
            };
            match call {
                0 => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()),
                1 => Ok(answer(
                    503,
                    "text/plain",
                    Scripted::new([Step::data("busy"), wait(), Step::data("!")]),
                )),
                2 => pieces("text/xml", CONNECTION_FAILED.split_at(60).into()),
                _ => pieces(
                    "text/xml",
                    [
                        "<?xml version='1.0'?><kml xmlns='http://www.opengis.net/kml/2.2'>",
                        "</kml>",
                    ],
                ),
            }
        }
    })
}

/// Law 5.
#[tokio::test(start_paused = true)]
async fn a_call_dropped_at_any_poll_gives_every_permit_back() {
    for deadline in [
        None,
        Some(Duration::from_secs(60)),
        Some(Duration::from_millis(30)),
    ] {
        let mut polls = 0;
        loop {
            let endpoints = Endpoints::default();
            let endpoint = endpoints.find(&GET_MAP.parse().unwrap());
            let stack = ServiceBuilder::new()
                .layer(DeadlineLayer::new())
                .layer(RetryLayer::new(RetryPolicy::default()))
                .layer(ConcurrencyLimitLayer::new(endpoints.clone()))
                .timeout(Duration::from_secs(10))
                .layer(ServiceExceptionLayer::new())
                .service(bumpy(Arc::default()));
            let mut request = get_map();
            if let Some(deadline) = deadline {
                request.extensions_mut().insert(Deadline::after(deadline));
            }
            let mut polled = 0;
            let ended = {
                let mut call = pin!(async {
                    let answer = stack.oneshot(request).await?;
                    answer.into_body().collect().await
                });
                poll_fn(|cx| {
                    if polled == polls {
                        return Poll::Ready(false);
                    }
                    polled += 1;
                    call.as_mut().poll(cx).map(|_| true)
                })
                .await
            };
            let now = endpoint.snapshot();
            assert_eq!(
                (now.in_flight, now.queued),
                (0, 0),
                "dropped after {polls} polls"
            );
            if ended {
                assert!(
                    polls > 8 || deadline == Some(Duration::from_millis(30)),
                    "{polls}"
                );
                break;
            }
            polls += 1;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_workers_get_their_answers_through_sixteen_permits() {
    let endpoints = Endpoints::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let stack = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryPolicy::default()))
        .layer(ConcurrencyLimitLayer::new(endpoints.clone()))
        .layer(ServiceExceptionLayer::new())
        .service(bumpy(Arc::clone(&calls)));
    let endpoint = endpoints.find(&GET_MAP.parse().unwrap());
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let (stack, endpoint) = (stack.clone(), Arc::clone(&endpoint));
        workers.spawn(async move {
            for _ in 0..5 {
                let answer = stack.clone().oneshot(get_map()).await.unwrap();
                assert!(endpoint.snapshot().in_flight <= 16);
                assert!(
                    answer
                        .into_body()
                        .collect()
                        .await
                        .unwrap()
                        .to_bytes()
                        .ends_with(b"</kml>")
                );
            }
        });
    }
    workers.join_all().await;
    assert_eq!(
        calls.load(Ordering::Relaxed),
        503,
        "three failures, each repeated"
    );
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_has_its_own_patience_where_the_outermost_layer_knows_the_endpoints() {
    use tower_spatial::EndpointSettings;
    use tower_spatial::retry::{GaveUp, StopReason};
    use tower_spatial::{find, timeout::attempt::AttemptTimeoutLayer};

    let hasty = RetryPolicy::builder().attempts(2).build().unwrap();
    let settings = EndpointSettings::new()
        .retry(hasty)
        .head_timeout(Duration::from_secs(1));
    let endpoints = Endpoints::builder()
        .endpoint("tiles", ["tiles.example"], settings)
        .build()
        .unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&requests);
    let client = ServiceBuilder::new()
        .layer(DeadlineLayer::new().endpoints(endpoints))
        .layer(RetryLayer::new(
            RetryPolicy::builder().attempts(3).build().unwrap(),
        ))
        .layer(AttemptTimeoutLayer::new().fixed())
        .service(service_fn(move |_: Request<NoBody>| {
            asked.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<Result<http::Response<NoBody>, std::io::Error>>()
        }));
    for (host, attempts, each) in [("tiles", 2, 1), ("other", 3, 180)] {
        let request = Request::get(format!("http://{host}.example/?REQUEST=GetMap"));
        let error = client
            .clone()
            .oneshot(request.body(NoBody::new()).unwrap())
            .await
            .unwrap_err();
        let gave_up = find::<GaveUp>(&error).unwrap();
        assert_eq!(gave_up.reason(), StopReason::Attempts);
        let took = gave_up
            .attempts()
            .iter()
            .map(|attempt| attempt.took().as_secs());
        assert_eq!(took.collect::<Vec<_>>(), vec![each; attempts]);
    }
    assert_eq!(requests.load(Ordering::Relaxed), 5);
}
