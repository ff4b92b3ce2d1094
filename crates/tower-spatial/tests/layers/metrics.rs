//! What is counted of all that happens, by the recorder that comes with `metrics` for tests.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{HeaderValue, Request, Response, header};
use http_body_util::Full;
use metrics_util::MetricKind as Kind;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::time::sleep;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use tower_spatial::{
    EndpointSettings, Endpoints, EndpointsBuilder, Quota, Spatial, SpatialLayer,
    observe::{MetricKind, Metrics},
    retry::RetryPolicy,
    verify::completeness::Completeness,
};

use crate::support::*;

type Answer = Response<Full<&'static [u8]>>;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn each_metric_of_the_list_is_emitted_as_it_stands_there_and_no_other_is() {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    everything().await;
    let mut emitted = BTreeSet::new();
    for (key, unit, description, _) in recorder.snapshotter().snapshot().into_vec() {
        let (kind, key) = key.into_parts();
        let metric = Metrics::all().iter().find(|it| it.name == key.name());
        let metric = metric.unwrap_or_else(|| panic!("{key} is not in the list"));
        let labels: Vec<_> = key.labels().map(metrics::Label::key).collect();
        assert_eq!(labels, metric.labels, "{key}");
        let expected = match metric.kind {
            MetricKind::Counter => Kind::Counter,
            MetricKind::Gauge => Kind::Gauge,
            MetricKind::Histogram => Kind::Histogram,
        };
        assert_eq!(kind, expected, "{key}");
        assert_eq!(unit, metric.unit, "{key}");
        assert_eq!(description.as_deref(), Some(metric.meaning), "{key}");
        emitted.insert(metric.name);
    }
    let listed: BTreeSet<_> = Metrics::all().iter().map(|metric| metric.name).collect();
    assert_eq!(emitted, listed);
}

#[tokio::test(start_paused = true)]
async fn what_happened_is_counted_under_its_endpoint_and_reason() {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    everything().await;
    let counted = counted(&recorder);
    let expected = [
        ("calls_total{endpoint=tiles,outcome=answer}", 1),
        (
            "attempts_total{endpoint=tiles,outcome=transient,cause=status}",
            2,
        ),
        (
            "attempts_total{endpoint=tiles,outcome=success,cause=none}",
            1,
        ),
        ("retries_total{endpoint=tiles,reason=status}", 2),
        ("exceptions_total{endpoint=wrong,code=LayerNotDefined}", 1),
        ("exceptions_total{endpoint=wrong,code=other}", 1),
        ("calls_total{endpoint=wrong,outcome=error}", 2),
        ("give_ups_total{endpoint=down,reason=attempts}", 5),
        ("breaker_changes_total{endpoint=down,to=open}", 1),
        ("calls_total{endpoint=down,outcome=cancelled}", 1),
        ("cooldowns_total{endpoint=quota}", 1),
        ("reclaimed_permits_total{endpoint=narrow}", 1),
        ("stale_answers_total{endpoint=cache}", 1),
        ("truncated_answers_total{endpoint=cut}", 1),
    ];
    for (key, times) in expected {
        let value = counted.get(&format!("tower_spatial_{key}"));
        assert_eq!(
            value,
            Some(&DebugValue::Counter(times)),
            "{key} of {counted:#?}"
        );
    }
    for (key, seconds) in [
        (
            "queue_seconds{endpoint=narrow,waited_for=permit,admitted=true}",
            vec![30.0],
        ),
        ("rate_wait_seconds{endpoint=geocoder}", vec![9.0]),
        ("latency_seconds{endpoint=tiles}", vec![1.0]),
    ] {
        let key = format!("tower_spatial_{key}");
        let Some(DebugValue::Histogram(values)) = counted.get(&key) else {
            panic!("{key} of {counted:#?}");
        };
        let values: Vec<f64> = values.iter().map(|value| value.0.round()).collect();
        assert_eq!(values, seconds, "{key}");
    }
    let Some(DebugValue::Histogram(sleeps)) =
        counted.get("tower_spatial_backoff_seconds{endpoint=tiles}")
    else {
        panic!("no backoff in {counted:#?}");
    };
    assert_eq!(sleeps.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn gauges_say_how_the_endpoints_are_at_the_refresh() {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let (client, endpoints, metrics) = client(builder());
    let held = call(&client, "narrow").await.unwrap();
    let waits = tokio::spawn(call(&client, "narrow"));
    call(&client, "quota").await.unwrap();
    for _ in 0..5 {
        call(&client, "down").await.map(drop).unwrap_err();
    }
    metrics.refresh(&endpoints);
    let now = counted(&recorder);
    assert_eq!(gauge(&now, "in_flight{endpoint=narrow}"), 1.0);
    assert_eq!(gauge(&now, "queued{endpoint=narrow}"), 1.0);
    assert_eq!(gauge(&now, "limit{endpoint=narrow}"), 1.0);
    assert_eq!(gauge(&now, "limit{endpoint=tiles}"), 16.0);
    assert_eq!(gauge(&now, "breaker_state{endpoint=down}"), 2.0);
    assert_eq!(gauge(&now, "breaker_state{endpoint=tiles}"), 0.0);
    let cooldown = gauge(&now, "cooldown_remaining_seconds{endpoint=quota}");
    assert!((50.0..61.0).contains(&cooldown), "{cooldown}");

    drop((held, waits));
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_forgotten_has_zeros() {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let (client, endpoints, metrics) = client(builder());
    for _ in 0..5 {
        call(&client, "down").await.map(drop).unwrap_err();
    }
    metrics.refresh(&endpoints);
    endpoints.reload(Endpoints::builder()).unwrap();
    metrics.refresh(&endpoints);
    let now = counted(&recorder);
    assert_eq!(gauge(&now, "limit{endpoint=narrow}"), 0.0);
    assert_eq!(gauge(&now, "breaker_state{endpoint=down}"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn endpoints_beyond_the_bound_are_one() {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let endpoints = Endpoints::builder()
        .defaults(EndpointSettings::new().concurrency(3))
        .endpoint("mine", ["mine.example"], EndpointSettings::new())
        .build()
        .unwrap();
    let metrics = Metrics::new().max_endpoints(3);
    metrics.refresh(&endpoints);
    let layer = SpatialLayer::new(endpoints.clone()).observer(metrics.clone());
    let client = layer.layer(service_fn(|_: Request<NoBody>| async {
        Ok::<_, io::Error>(tile())
    }));
    let mut held = Vec::new();
    for host in 0..1_000 {
        let request = Request::get(format!("http://h{host}.example/")).body(NoBody::new());
        held.push(client.clone().oneshot(request.unwrap()).await.unwrap());
    }
    let request = Request::get("http://mine.example/").body(NoBody::new());
    client.oneshot(request.unwrap()).await.unwrap();
    metrics.refresh(&endpoints);
    let all = counted(&recorder);
    let of = |key: &str| &all[&format!("tower_spatial_{key}")];
    let endpoint = |key: &str| {
        Some(
            key.split_once("endpoint=")?
                .1
                .split(['}', ','])
                .next()?
                .to_owned(),
        )
    };
    let names: BTreeSet<_> = all.keys().filter_map(|key| endpoint(key)).collect();
    // Of those for what fits nowhere nobody had need.
    let expected = ["h0.example:80", "h1.example:80", "mine", "other"];
    assert_eq!(names, expected.map(str::to_owned).into());
    let calls = of("calls_total{endpoint=other,outcome=answer}");
    assert_eq!(calls, &DebugValue::Counter(998));
    let calls = of("calls_total{endpoint=mine,outcome=answer}");
    assert_eq!(calls, &DebugValue::Counter(1));
    let in_flight = of("in_flight{endpoint=other}");
    assert_eq!(in_flight, &DebugValue::Gauge(998.0.into()));
    let limit = of("limit{endpoint=other}");
    assert_eq!(limit, &DebugValue::Gauge(2_994.0.into()));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_counted_where_it_does_not_observe() {
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let layer = SpatialLayer::new(Endpoints::default());
    let client = layer.layer(service_fn(|_: Request<NoBody>| async {
        Ok::<_, io::Error>(tile())
    }));
    client.oneshot(get_map()).await.unwrap();
    assert!(counted(&recorder).is_empty());
}

/// What the recorder has, by `name{label=value,…}`.
fn counted(recorder: &DebuggingRecorder) -> BTreeMap<String, DebugValue> {
    let all = recorder.snapshotter().snapshot().into_vec();
    let all = all.into_iter().map(|(key, _, _, value)| {
        let key = key.key();
        let labels = key.labels();
        let labels: Vec<_> = labels
            .map(|it| format!("{}={}", it.key(), it.value()))
            .collect();
        (format!("{}{{{}}}", key.name(), labels.join(",")), value)
    });
    all.collect()
}

fn gauge(of: &BTreeMap<String, DebugValue>, key: &str) -> f64 {
    match of.get(&format!("tower_spatial_{key}")) {
        Some(DebugValue::Gauge(value)) => value.0,
        _ => panic!("{key} of {of:#?}"),
    }
}

/// Something of all that can happen.
async fn everything() {
    let (client, endpoints, metrics) = client(builder());
    for name in ["tiles", "geocoder", "geocoder", "quota"] {
        call(&client, name).await.unwrap();
    }
    for name in ["wrong", "wrong", "down", "down", "down", "down", "down"] {
        call(&client, name).await.map(drop).unwrap_err();
    }
    let waits_for_the_breaker = call(&client, "down");
    assert!(
        tokio::time::timeout(SECOND, waits_for_the_breaker)
            .await
            .is_err()
    );
    for name in ["cache", "cut"] {
        // An answer or an error, as the layers have it.
        _ = call(&client, name).await;
    }
    let unread = call(&client, "narrow").await.unwrap();
    call(&client, "narrow").await.unwrap();
    drop(unread);
    metrics.refresh(&endpoints);
}

fn builder() -> EndpointsBuilder {
    let settings = EndpointSettings::new;
    let once = || settings().retry(RetryPolicy::builder().attempts(1).build().unwrap());
    let of = |name: &'static str| [format!("{name}.example")];
    Endpoints::builder()
        .endpoint("tiles", of("tiles"), settings())
        .endpoint("wrong", of("wrong"), once())
        .endpoint("down", of("down"), once())
        .endpoint("quota", of("quota"), once())
        .endpoint("narrow", of("narrow"), settings().concurrency(1))
        .endpoint(
            "geocoder",
            of("geocoder"),
            settings().rate([Quota::new(1, 10 * SECOND).unwrap()]),
        )
        .endpoint("cache", of("cache"), once().max_age(SECOND))
        .endpoint("cut", of("cut"), once().completeness(Completeness::Collect))
}

fn tile() -> Answer {
    Response::new(Full::new(b"\x89PNG\r\n\x1a\n..."))
}

/// The `n`th answer of a host, from 1.
fn answer(host: &str, n: usize) -> Result<Answer, io::Error> {
    let mut answer = tile();
    match (host, n) {
        ("tiles.example", ..=2) => *answer.status_mut() = http::StatusCode::BAD_GATEWAY,
        ("wrong.example", 1) => *answer.body_mut() = Full::new(LAYER_NOT_DEFINED.as_bytes()),
        ("wrong.example", _) => *answer.body_mut() = Full::new(CONNECTION_FAILED.as_bytes()),
        ("down.example", _) => return Err(io::ErrorKind::ConnectionRefused.into()),
        ("quota.example", _) => {
            *answer.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
            let pause = HeaderValue::from_static("60");
            answer.headers_mut().insert(header::RETRY_AFTER, pause);
        }
        ("cache.example", _) => {
            let age = HeaderValue::from_static("3600");
            answer.headers_mut().insert(header::AGE, age);
        }
        ("cut.example", _) => *answer.body_mut() = Full::new(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"),
        _ => {}
    }
    Ok(answer)
}

fn client(builder: EndpointsBuilder) -> (Client, Endpoints, Metrics) {
    let endpoints = builder.build().unwrap();
    let metrics = Metrics::new();
    let layer = SpatialLayer::new(endpoints.clone()).observer(metrics.clone());
    let asked = Arc::new(Mutex::new(HashMap::new()));
    let server = service_fn(move |request: Request<NoBody>| {
        let host = request.uri().host().unwrap().to_owned();
        let n = {
            let mut asked = asked.lock().unwrap();
            let n: &mut usize = asked.entry(host.clone()).or_default();
            *n += 1;
            *n
        };
        async move {
            sleep(SECOND).await;
            answer(&host, n)
        }
    });
    (
        layer.layer(tower::util::BoxCloneSyncService::new(server)),
        endpoints,
        metrics,
    )
}

type Client = Spatial<tower::util::BoxCloneSyncService<Request<NoBody>, Answer, io::Error>>;

/// A call of a map at a host named like its endpoint.
fn call(
    client: &Client,
    name: &str,
) -> impl Future<Output = Result<<Client as Service<Request<NoBody>>>::Response, BoxError>>
+ Send
+ 'static {
    let uri = GET_MAP.replace("maps.example.org", &format!("{name}.example"));
    let request = Request::get(uri).body(NoBody::new()).unwrap();
    client.clone().oneshot(request)
}
