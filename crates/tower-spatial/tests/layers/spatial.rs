//! The stack of all layers.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use tokio::time::{Instant, sleep};
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, service_fn};
use tower_spatial::{
    BreakerState, EndpointSettings, Endpoints, Quota, ServiceBuilderExt, Spatial, SpatialLayer,
    exception::ServiceExceptionLayer, find, retry::RetryPolicy,
};

use crate::support::*;

type Answer = Response<Full<&'static [u8]>>;

const SECOND: Duration = Duration::from_secs(1);

/// What the layers around it sent, and when.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<Instant>>>);

impl Sent {
    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn service(
        &self,
        answer: impl Fn(usize) -> Result<Answer, std::io::Error> + Clone + Send + Sync + 'static,
    ) -> impl tower::Service<
        Request<NoBody>,
        Response = Answer,
        Error = std::io::Error,
        Future: Send,
    > + Clone
    + Send
    + Sync
    + 'static {
        let sent = self.clone();
        service_fn(move |_: Request<NoBody>| {
            let mut at = sent.0.lock().unwrap();
            at.push(Instant::now());
            std::future::ready(answer(at.len()))
        })
    }
}

fn refused(_: usize) -> Result<Answer, std::io::Error> {
    Err(std::io::ErrorKind::ConnectionRefused.into())
}

fn tile(_: usize) -> Result<Answer, std::io::Error> {
    Ok(Response::new(Full::new(b"\x89PNG\r\n\x1a\n...")))
}

fn once() -> RetryPolicy {
    RetryPolicy::builder().attempts(1).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn it_can_be_named_cloned_sent_and_kept() {
    fn is_all<T: Clone + Send + Sync + 'static>(_: &T) {}
    struct Client<S>(Spatial<S>);
    let sent = Sent::default();
    let client = Client(SpatialLayer::new(Endpoints::default()).layer(sent.service(tile)));
    is_all(&client.0);
    let answer = tokio::spawn(client.0.oneshot(get_map())).await.unwrap();
    let body = answer.unwrap().into_body();
    is_all(&SpatialLayer::batch(Endpoints::default()));
    assert!(!body.collect().await.unwrap().to_bytes().is_empty());
}

#[cfg(feature = "completeness")]
#[tokio::test(start_paused = true)]
async fn all_of_it_recovers_from_what_a_host_does_wrong() {
    let sent = Sent::default();
    let endpoints = Endpoints::default();
    use tower_spatial::verify::completeness::Completeness;
    let settings = EndpointSettings::new().completeness(Completeness::Collect);
    endpoints
        .reload(Endpoints::builder().defaults(settings))
        .unwrap();
    let client = SpatialLayer::new(endpoints.clone()).layer(sent.service(|n| match n {
        1 => refused(n),
        2 => Ok(Response::builder().status(503).body(Full::new(&b""[..])).unwrap()),
        3 => Ok(Response::new(Full::new(
            b"<?xml version=\"1.0\"?><ServiceExceptionReport><ServiceException>The server is busy, try again later\
              </ServiceException></ServiceExceptionReport>",
        ))),
        // Cut.
        4 => Ok(Response::builder()
            .header("content-type", "application/geo+json")
            .body(Full::new(&b"{\"type\":\"FeatureCollection\",\"features\":["[..]))
            .unwrap()),
        _ => Ok(Response::builder()
            .header("content-type", "application/geo+json")
            .body(Full::new(&b"{\"type\":\"FeatureCollection\",\"features\":[]}"[..]))
            .unwrap()),
    }));
    let request = Request::get("https://wfs.example/?SERVICE=WFS&REQUEST=GetFeature&TYPENAMES=a");
    let answer = client
        .oneshot(request.body(NoBody::new()).unwrap())
        .await
        .unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert!(body.ends_with(b"[]}"), "{body:?}");
    assert_eq!(sent.count(), 5);
    let host = endpoints.find(&"https://wfs.example/".parse().unwrap());
    assert_eq!((host.snapshot().in_flight, host.snapshot().queued), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn each_gate_is_there_or_not() {
    async fn ask(layer: SpatialLayer, times: usize) -> (usize, Duration, BreakerState) {
        let sent = Sent::default();
        let client = layer.clone().layer(sent.service(refused));
        let start = Instant::now();
        for _ in 0..times {
            let call = client.clone().oneshot(get_map());
            let _ = tokio::time::timeout(30 * SECOND, call).await;
        }
        let host = layer.endpoints().find(get_map().uri());
        (sent.count(), start.elapsed(), host.snapshot().breaker)
    }
    let with = || SpatialLayer::new(Endpoints::default()).retry(once());
    let (sent, _, breaker) = ask(with(), 9).await;
    assert!(sent < 15, "{sent}");
    assert_ne!(breaker, BreakerState::Closed);
    let (sent, took, breaker) = ask(with().breaker(false), 9).await;
    assert_eq!(
        (sent, took, breaker),
        (9, Duration::ZERO, BreakerState::Closed)
    );
}

#[tokio::test(start_paused = true)]
async fn cooldown_limit_rate_and_exceptions_can_be_switched_off_one_by_one() {
    let busy = |_: usize| {
        let answer = Response::builder().status(503).header("retry-after", "20");
        Ok(answer.body(Full::new(&b""[..])).unwrap())
    };
    let endpoints = || Endpoints::default();
    for (is_on, least) in [(true, 20), (false, 0)] {
        let sent = Sent::default();
        let layer = SpatialLayer::new(endpoints()).retry(once()).cooldown(is_on);
        let client = layer.layer(sent.service(busy));
        let start = Instant::now();
        for _ in 0..2 {
            client.clone().oneshot(get_map()).await.unwrap();
        }
        assert_eq!(start.elapsed().as_secs(), least);
    }

    for (is_on, most) in [(true, 16), (false, 40)] {
        let inside = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let count = Arc::clone(&inside);
        let slow = service_fn(move |_: Request<NoBody>| {
            let count = Arc::clone(&count);
            async move {
                let now = count.0.fetch_add(1, Ordering::Relaxed) + 1;
                count.1.fetch_max(now, Ordering::Relaxed);
                sleep(SECOND).await;
                count.0.fetch_sub(1, Ordering::Relaxed);
                tile(0)
            }
        });
        let client = SpatialLayer::new(endpoints())
            .concurrency(is_on)
            .layer(slow);
        let calls: Vec<_> = (0..40)
            .map(|_| tokio::spawn(client.clone().oneshot(get_map())))
            .collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        assert_eq!(inside.1.load(Ordering::Relaxed), most);
    }

    for (is_on, seconds) in [(true, 3), (false, 0)] {
        let sent = Sent::default();
        let settings = EndpointSettings::new().rate([Quota::new(1, SECOND).unwrap()]);
        let limited = Endpoints::builder().defaults(settings).build().unwrap();
        let mut layer = SpatialLayer::new(limited);
        if !is_on {
            layer = layer.rate(None);
        }
        let client = layer.layer(sent.service(tile));
        let start = Instant::now();
        for _ in 0..4 {
            client.clone().oneshot(get_map()).await.unwrap();
        }
        assert_eq!(start.elapsed().as_secs(), seconds);
    }

    let exception = |_: usize| Ok(Response::new(Full::new(LAYER_NOT_DEFINED.as_bytes())));
    let sent = Sent::default();
    let seen = SpatialLayer::new(endpoints()).layer(sent.service(exception));
    let error: BoxError = seen.oneshot(get_map()).await.map(drop).unwrap_err();
    assert!(find::<tower_spatial::exception::ServiceExceptionError>(&error).is_some());
    let blind = SpatialLayer::new(endpoints())
        .service_exception(None)
        .layer(sent.service(exception));
    assert_eq!(blind.oneshot(get_map()).await.unwrap().status(), 200);
    let looking = SpatialLayer::new(endpoints())
        .service_exception(ServiceExceptionLayer::new().annotate())
        .layer(sent.service(exception));
    assert_eq!(looking.oneshot(get_map()).await.unwrap().status(), 200);
}

#[tokio::test(start_paused = true)]
async fn two_stacks_of_one_endpoints_share_their_hosts_and_others_do_not() {
    let endpoints = Endpoints::default();
    let sent = Sent::default();
    let stack = |endpoints: &Endpoints| {
        ServiceBuilder::new()
            .spatial(endpoints.clone())
            .service(sent.service(tile))
    };
    let (one, other) = (stack(&endpoints), stack(&endpoints));
    one.oneshot(get_map()).await.unwrap();
    endpoints.find(get_map().uri()).open();
    let call = tokio::time::timeout(SECOND, other.oneshot(get_map())).await;
    assert!(call.is_err(), "it waits for an operator");
    stack(&Endpoints::default())
        .oneshot(get_map())
        .await
        .unwrap();
    assert_eq!(sent.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_job_waits_through_a_maintenance_of_two_hours_with_few_attempts() {
    let up = Instant::now() + Duration::from_secs(7200);
    let sent = Sent::default();
    let client = SpatialLayer::batch(Endpoints::default()).layer(sent.service(move |n| {
        if Instant::now() < up {
            refused(n)
        } else {
            tile(n)
        }
    }));
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let answer = client.oneshot(get_map()).await?;
                answer.into_body().collect().await
            })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap().is_ok());
    }
    let (late, attempts) = (Instant::now() - up, sent.count());
    assert!(late < Duration::from_secs(30), "{late:?}");
    assert!(attempts < 50 + 16 + 600, "{attempts}");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_has_its_own_window() {
    let settings = EndpointSettings::new();
    let endpoints = Endpoints::builder()
        .endpoint(
            "calm",
            ["calm.example"],
            settings.clone().stagger(20 * SECOND),
        )
        .endpoint(
            "at once",
            ["fast.example"],
            settings.stagger(Duration::ZERO),
        )
        .build()
        .unwrap();
    let sent = Sent::default();
    let client = SpatialLayer::new(endpoints).layer(sent.service(tile));
    let ask = async |host: &str, times: usize| {
        let calls: Vec<_> = (0..times)
            .map(|_| {
                let request = Request::get(format!("http://{host}.example/"));
                tokio::spawn(client.clone().oneshot(request.body(NoBody::new()).unwrap()))
            })
            .collect();
        let start = Instant::now();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        start.elapsed().as_secs_f64()
    };
    assert_eq!(ask("fast", 10).await, 0.0);
    assert_eq!(ask("other", 10).await, 0.0);
    let took = ask("calm", 16).await;
    assert!((10.0..=20.0).contains(&took), "{took}");
    assert_eq!(ask("calm", 1).await.max(20.0), 20.0);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_can_do_without_a_breaker_and_have_its_key_elsewhere() {
    let second = Quota::new(1, SECOND).unwrap();
    let settings = EndpointSettings::new()
        .no_breaker()
        .rate([second])
        .key(tower_spatial::limit::rate::KeySource::query(["mine"]));
    let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
    let sent = Sent::default();
    let client = SpatialLayer::new(endpoints)
        .retry(once())
        .layer(sent.service(refused));
    let start = Instant::now();
    for n in 0..20 {
        let request = Request::get(format!("http://a.example/?key=same&mine={n}"));
        let _ = client
            .clone()
            .oneshot(request.body(NoBody::new()).unwrap())
            .await;
    }
    assert_eq!((sent.count(), start.elapsed()), (20, Duration::ZERO));
}
