//! What observers are told.

use std::{
    io,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use service_exception::ServiceException;
use tokio::time::sleep;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};
use tower_spatial::{
    BreakerState, Deadline, Endpoint, EndpointSettings, Endpoints, Quota, SpatialLayer,
    observe::{BreakerChange, Call, CallEnd, EndedCall, FailedAttempt, Observer, QueueWait},
    retry::{RetryPolicy, StopReason},
    timeout::deadline::DeadlineLayer,
    verify::completeness::Problem,
};

use crate::support::*;

type Answer = Response<Full<&'static [u8]>>;

const SECOND: Duration = Duration::from_secs(1);

/// Writes down all it is told, and each time asks the host how it is: where that were locked it would hang.
#[derive(Clone, Default)]
struct Notes {
    lines: Arc<Mutex<Vec<String>>>,
    host: Arc<OnceLock<Arc<Endpoint>>>,
}

impl Notes {
    fn of(endpoints: &Endpoints) -> Self {
        let notes = Self::default();
        let host = endpoints.find(get_map().uri());
        assert!(notes.host.set(host).is_ok());
        notes
    }

    fn write(&self, line: String) {
        if let Some(host) = self.host.get() {
            _ = host.snapshot();
        }
        self.lines.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    fn with(&self, word: &str) -> Vec<String> {
        let lines = self.lines().into_iter();
        lines.filter(|line| line.starts_with(word)).collect()
    }
}

impl Observer for Notes {
    fn call_began(&self, call: &Call<'_>) {
        self.write(format!("began {} {}", call.method, call.endpoint));
    }

    fn call_ended(&self, _: &Call<'_>, ended: &EndedCall) {
        let seconds = ended.took.as_secs();
        self.write(match ended.end {
            CallEnd::Answer(status) => {
                format!("ended {} repeats {}", status.as_u16(), ended.repeats)
            }
            end => format!("ended {end:?} after {seconds} s"),
        });
    }

    fn attempt_succeeded(&self, _: &Call<'_>) {
        self.write("succeeded".to_owned());
    }

    fn attempt_failed(&self, _: &Call<'_>, failed: &FailedAttempt<'_>) {
        let next = if failed.next_in.is_some() {
            "again"
        } else {
            "last"
        };
        let left = failed.remaining.map_or(0, |left| left.as_secs());
        let number = failed.number;
        self.write(format!(
            "failed {number} {} {next} {left}",
            failed.cause.kind()
        ));
    }

    fn gave_up(&self, _: &Call<'_>, reason: StopReason, attempts: u32) {
        self.write(format!("gave up {} {attempts}", reason.kind()));
    }

    fn exception_seen(&self, _: &Call<'_>, exception: &ServiceException) {
        self.write(format!(
            "exception {}",
            exception.known_code().unwrap_or_default()
        ));
    }

    fn truncated(&self, _: &Call<'_>, _: &Problem) {
        self.write("truncated".to_owned());
    }

    fn stale(&self, _: &Call<'_>) {
        self.write("stale".to_owned());
    }

    fn queue_waited(&self, _: &str, wait: &QueueWait) {
        let (what, seconds) = (wait.waited_for, wait.waited.as_secs());
        self.write(format!("queued {what:?} {seconds} {}", wait.admitted));
    }

    fn rate_waited(&self, _: &str, waited: Duration) {
        self.write(format!("rate {}", waited.as_secs()));
    }

    fn breaker_changed(&self, _: &str, change: &BreakerChange) {
        let state = |state| match state {
            BreakerState::Closed => "closed",
            BreakerState::Open { .. } => "open",
            BreakerState::HalfOpen => "half-open",
        };
        self.write(format!(
            "breaker {} {}",
            state(change.from),
            state(change.to)
        ));
    }

    fn cooldown_began(&self, _: &str, lasts: Duration) {
        self.write(format!("cooldown {}", lasts.as_secs()));
    }

    fn permit_reclaimed(&self, _: &str) {
        self.write("reclaimed".to_owned());
    }

    fn answered(&self, _: &str, latency: Duration) {
        self.write(format!("answered {}", latency.as_secs()));
    }
}

/// The layers around a server that gives its answers one after the other, the last one again and again, a second each.
fn client(
    layer: &SpatialLayer,
    answers: impl Fn(usize) -> Result<Answer, io::Error> + Clone + Send + Sync + 'static,
) -> impl Service<
    Request<NoBody>,
    Response = Response<impl http_body::Body<Error = BoxError> + Send + Unpin>,
    Error = BoxError,
    Future: Send,
> + Clone
+ Send
+ 'static {
    let count = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    layer.layer(service_fn(move |_: Request<NoBody>| {
        let n = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        let answer = answers(n);
        async move {
            sleep(SECOND).await;
            answer
        }
    }))
}

fn observed(settings: EndpointSettings) -> (SpatialLayer, Notes) {
    let endpoints = Endpoints::builder().defaults(settings).build().unwrap();
    let notes = Notes::of(&endpoints);
    let layer = SpatialLayer::new(endpoints).observer(notes.clone());
    (layer, notes)
}

fn tile() -> Result<Answer, io::Error> {
    Ok(Response::new(Full::new(b"\x89PNG\r\n\x1a\n...")))
}

fn refused() -> Result<Answer, io::Error> {
    Err(io::ErrorKind::ConnectionRefused.into())
}

fn status(status: u16) -> Result<Answer, io::Error> {
    let answer = Response::builder().status(status).body(Full::default());
    Ok(answer.unwrap())
}

fn once() -> RetryPolicy {
    RetryPolicy::builder().attempts(1).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_is_told_from_its_begin_to_its_end() {
    let (layer, notes) = observed(EndpointSettings::new());
    let client = client(&layer, |n| match n {
        1 => refused(),
        2 => status(503),
        _ => tile(),
    });
    let answer = client.oneshot(get_map()).await.unwrap();
    answer.into_body().collect().await.unwrap();
    let lines = notes.lines();
    let failed: Vec<_> = notes.with("failed");
    assert_eq!(lines[0], "began GET maps.example.org:443");
    // The budget of 600 s began with the first admission, a second before.
    assert_eq!(failed[0], "failed 1 refused again 599");
    assert!(
        failed[1].starts_with("failed 2 status again 59"),
        "{failed:?}"
    );
    assert_eq!(
        lines[lines.len() - 3..],
        ["succeeded", "ended 200 repeats 2", "answered 1"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_exception_is_told_with_its_code_and_a_give_up_with_its_reason() {
    let (layer, notes) = observed(EndpointSettings::new());
    let client = client(&layer.retry(once()), |n| {
        Ok(Response::new(Full::new(match n {
            1 => LAYER_NOT_DEFINED.as_bytes(),
            _ => CONNECTION_FAILED.as_bytes(),
        })))
    });
    for _ in 0..2 {
        client
            .clone()
            .oneshot(get_map())
            .await
            .map(drop)
            .unwrap_err();
    }
    assert_eq!(notes.with("exception")[0], "exception LayerNotDefined");
    assert_eq!(notes.with("exception").len(), 2);
    assert_eq!(notes.with("gave"), ["gave up attempts 1"]);
    assert_eq!(notes.with("ended"), ["ended Error after 1 s"; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_breakers_way_is_told_in_order() {
    let (layer, notes) = observed(EndpointSettings::new());
    let client = client(&layer.retry(once()), |n| match n {
        1..=5 => refused(),
        _ => tile(),
    });
    for _ in 0..5 {
        client
            .clone()
            .oneshot(get_map())
            .await
            .map(drop)
            .unwrap_err();
    }
    client.oneshot(get_map()).await.unwrap();
    assert_eq!(
        notes.with("breaker"),
        [
            "breaker closed open",
            "breaker open half-open",
            "breaker half-open closed"
        ]
    );
    assert_eq!(notes.with("queued").len(), 1);
    assert!(notes.with("queued")[0].starts_with("queued Breaker"));
}

#[tokio::test(start_paused = true)]
async fn a_cooldown_is_told_once_and_so_is_who_waited_for_it() {
    let (layer, notes) = observed(EndpointSettings::new());
    let client = client(&layer.retry(once()), |n| match n {
        1 => status(429).map(|mut answer| {
            let pause = http::HeaderValue::from_static("30");
            answer.headers_mut().insert("retry-after", pause);
            answer
        }),
        _ => tile(),
    });
    for _ in 0..3 {
        client.clone().oneshot(get_map()).await.unwrap();
    }
    let cooldown = notes.with("cooldown");
    assert_eq!(cooldown.len(), 1, "{cooldown:?}");
    let queued = notes.with("queued");
    assert_eq!(queued.len(), 1, "{queued:?}");
    assert!(queued[0].starts_with("queued Cooldown 3"), "{queued:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_permit_and_its_reclaiming_are_told() {
    let (layer, notes) = observed(EndpointSettings::new().concurrency(1));
    let client = client(&layer, |_| tile());
    let held = client.clone().oneshot(get_map()).await.unwrap();
    client.oneshot(get_map()).await.unwrap();
    drop(held);
    assert_eq!(notes.with("reclaimed"), ["reclaimed"]);
    let queued = notes.with("queued");
    assert_eq!(queued, ["queued Permit 30 true"]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_too_long_is_told_as_not_admitted() {
    let settings = EndpointSettings::new().concurrency(1);
    let (layer, notes) = observed(settings.queue_timeout(SECOND));
    let client = client(&layer, |_| tile());
    let _held = client.clone().oneshot(get_map()).await.unwrap();
    client.oneshot(get_map()).await.map(drop).unwrap_err();
    assert_eq!(notes.with("queued"), ["queued Permit 1 false"]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_the_rate_is_told() {
    let (layer, notes) =
        observed(EndpointSettings::new().rate([Quota::new(1, 10 * SECOND).unwrap()]));
    let client = client(&layer, |_| tile());
    for _ in 0..2 {
        client.clone().oneshot(get_map()).await.unwrap();
    }
    // The first answer took one of the ten seconds.
    assert_eq!(notes.with("rate"), ["rate 9"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_is_told_as_cancelled() {
    let (layer, notes) = observed(EndpointSettings::new());
    let client = client(&layer, |_| tile());
    let call = tokio::time::timeout(SECOND / 2, client.oneshot(get_map()));
    assert!(call.await.is_err());
    assert_eq!(notes.with("ended"), ["ended Cancelled after 0 s"]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_in_mid_attempt_is_told_as_a_give_up() {
    let (layer, notes) = observed(EndpointSettings::new());
    let client = client(&layer, |_| status(503));
    let mut request = get_map();
    request
        .extensions_mut()
        .insert(Deadline::after(Duration::from_secs(60)));
    // Whatever ends it, it is told once.
    _ = client.oneshot(request).await;
    let gave_up = notes.with("gave up");
    assert_eq!(gave_up.len(), 1, "{gave_up:?}");
    assert!(gave_up[0].starts_with("gave up deadline"), "{gave_up:?}");
    assert_eq!(notes.with("ended").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_observer_of_a_deadline_layer_hears_of_calls_without_any_endpoints() {
    let notes = Notes::default();
    let layer = DeadlineLayer::new().observer(notes.clone());
    let client = layer.layer(service_fn(|_: Request<NoBody>| async { tile() }));
    client.oneshot(get_map()).await.unwrap();
    assert_eq!(
        notes.lines(),
        ["began GET maps.example.org:443", "ended 200 repeats 0"]
    );
    let endpoints = Endpoints::default();
    let notes = Notes::default();
    let layer = DeadlineLayer::new()
        .observer(notes.clone())
        .endpoints(endpoints.clone());
    assert_eq!(layer_status(&layer).await, 200);
    endpoints.find(get_map().uri()).open();
    assert_eq!(notes.with("breaker"), ["breaker closed open"]);
    assert_eq!(notes.with("began").len(), 1);
}

async fn layer_status(layer: &DeadlineLayer) -> StatusCode {
    let client = layer.layer(service_fn(|_: Request<NoBody>| async { tile() }));
    client.oneshot(get_map()).await.unwrap().status()
}

#[tokio::test(start_paused = true)]
async fn what_is_observed_outlives_new_settings() {
    let (layer, notes) = observed(EndpointSettings::new());
    let client = client(&layer, |_| tile());
    layer.endpoints().reload(Endpoints::builder()).unwrap();
    client.oneshot(get_map()).await.unwrap();
    assert_eq!(notes.with("began").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn all_observers_are_told_and_none_of_other_endpoints() {
    let (layer, notes) = observed(EndpointSettings::new());
    let second = Notes::default();
    layer.endpoints().observe(second.clone());
    let others = SpatialLayer::new(Endpoints::default());
    client(&layer, |_| tile()).oneshot(get_map()).await.unwrap();
    client(&others, |_| tile())
        .oneshot(get_map())
        .await
        .unwrap();
    assert_eq!(notes.lines(), second.lines());
    assert_eq!(notes.with("began").len(), 1);
}

#[cfg(feature = "completeness")]
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_whole_is_told_whether_it_was_collected_or_streamed() {
    use tower_spatial::verify::completeness::Completeness;
    for mode in [Completeness::Collect, Completeness::Streaming] {
        let (layer, notes) = observed(EndpointSettings::new().completeness(mode));
        let client = client(&layer.retry(once()), |_| {
            Ok(Response::new(Full::new(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")))
        });
        let result = match client.oneshot(get_map()).await {
            Ok(answer) => answer.into_body().collect().await.map(drop),
            Err(error) => Err(error),
        };
        result.unwrap_err();
        assert_eq!(
            notes.with("truncated"),
            ["truncated"],
            "{mode:?} {:?}",
            notes.lines()
        );
    }
}
