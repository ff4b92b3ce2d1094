//! What is written by `tracing`, and what is not.
//!
//! A program of its own whose tests run one after the other: `tracing` loses an event that one thread meets for the first
//! time while another sets its subscriber.

use std::{
    fmt::{Debug, Write as _},
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response, header};
use http_body_util::{BodyExt, Full};
use metrics_util::debugging::DebuggingRecorder;
use tokio::time::sleep;
use tower::{Layer, ServiceExt, retry::RetryLayer, service_fn};
use tower_spatial::{
    Deadline, EndpointSettings, Endpoints, Quota, SpatialLayer, observe::Metrics,
    retry::RetryPolicy, verify::completeness::Completeness,
};
use tracing::{Event, Id, Metadata, Subscriber, field::Field, span};

type Answer = Result<Response<Full<&'static [u8]>>, io::Error>;
type OfAttempt = fn(usize) -> Answer;

static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
const SECOND: Duration = Duration::from_secs(1);

/// Each has its own word, so that a failure says where it came from.
const SECRETS: [&str; 12] = [
    "secret-in-query",
    "secret-user",
    "secret-password",
    "secret-in-path",
    "secret-in-header",
    "secret-cookie",
    "secret-in-body",
    "secret-in-answer",
    "secret-location",
    "secret-in-message",
    "secret-in-locator",
    "SecretCode",
];

/// Whatever becomes of a call with a key in every place that can have one, and of what the server says of it.
#[tokio::test(start_paused = true)]
async fn no_secret_is_in_any_span_event_or_label() {
    let _alone = ALONE.lock().await;
    let writer = Writer::default();
    let _subscribed = tracing::subscriber::set_default(writer.clone());
    let recorder = DebuggingRecorder::new();
    let _installed = metrics::set_default_local_recorder(&recorder);

    let settings = EndpointSettings::new;
    let once = RetryPolicy::builder().attempts(1).build().unwrap();
    let answers: [(EndpointSettings, OfAttempt); 12] = [
        (settings(), |n| if n < 3 { status(503) } else { tile() }),
        (settings(), |_| status(403)),
        (settings(), |n| if n == 1 { throttled() } else { tile() }),
        (settings(), |_| exception("LayerNotDefined")),
        (settings(), |_| exception("ServerBusy")),
        (settings(), |_| exception("SecretCode")),
        (settings(), |_| {
            Err(io::Error::other(format!("for {URI}: {}", SECRETS[7])))
        }),
        (settings().retry(once.clone()), |_| {
            Err(io::ErrorKind::ConnectionRefused.into())
        }),
        (settings().completeness(Completeness::Collect), |_| cut()),
        (settings().completeness(Completeness::Streaming), |_| cut()),
        (settings().max_age(SECOND).retry(once), |_| stale()),
        (
            settings().rate([Quota::new(1, 5 * SECOND).unwrap()]),
            |_| tile(),
        ),
    ];
    for (settings, answer) in answers {
        let client = client(
            at(settings.published_limit("16 at once (its terms)")),
            answer,
        );
        for _ in 0..6 {
            let mut request = request();
            request
                .extensions_mut()
                .insert(Deadline::after(120 * SECOND));
            if let Ok(answer) = client.clone().oneshot(request).await {
                _ = answer.into_body().collect().await;
            }
        }
    }
    // Held and not read, waited for in vain, dropped.
    let client = client(at(settings().concurrency(1)), |_| tile());
    let held = client.clone().oneshot(request()).await.unwrap();
    let impatient = tokio::time::timeout(SECOND, client.clone().oneshot(request()));
    assert!(impatient.await.is_err());
    client.oneshot(request()).await.unwrap();
    drop(held);
    // Cut off by a limit that is shorter than what was good before.
    let endpoints = at(settings());
    let client = self::client(endpoints.clone(), |_| tile());
    client.clone().oneshot(request()).await.unwrap();
    let shorter = Endpoints::builder().defaults(settings().head_timeout(SECOND / 2));
    endpoints.reload(shorter).unwrap();
    client.oneshot(request()).await.unwrap();

    // The policy by itself, which knows no endpoint.
    let policy = RetryPolicy::builder().attempts(2).build().unwrap();
    let client = RetryLayer::new(policy).layer(service_fn(async |_| {
        status(503).map_err(tower::BoxError::from)
    }));
    client.oneshot(request()).await.unwrap();

    let written = writer.lines();
    for message in [
        "span call",
        "attempt failed",
        "gave up",
        "queued",
        "waited for the rate",
        "cooldown",
        "circuit breaker",
        "a body that nobody reads",
        "an answer was not whole",
        "attempts are cut off",
    ] {
        assert!(
            written.iter().any(|line| line.contains(message)),
            "{message} was not written"
        );
    }
    let labels = recorder.snapshotter().snapshot().into_vec();
    assert!(labels.len() > 20);
    let labels = labels.into_iter().map(|(key, ..)| format!("{key:?}"));
    for line in written.into_iter().chain(labels) {
        for secret in SECRETS.into_iter().chain(["?", "REQUEST"]) {
            assert!(!line.contains(secret), "{line}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_published_limit_stands_beside_what_can_follow_from_it() {
    let _alone = ALONE.lock().await;
    let writer = Writer::default();
    let _subscribed = tracing::subscriber::set_default(writer.clone());
    let limited = || EndpointSettings::new().published_limit("1 rps (its terms)");
    let rated = limited().rate([Quota::new(1, 5 * SECOND).unwrap()]);
    for (settings, answer, message) in [
        (rated, tile as fn() -> Answer, "waited for the rate"),
        (limited().concurrency(1), tile, "queued"),
        (limited(), throttled, "cooldown"),
    ] {
        let client = client(at(settings), move |_| answer());
        let both = [client.clone().oneshot(request()), client.oneshot(request())];
        let [first, second] = both.map(tokio::spawn);
        sleep(40 * SECOND).await;
        first.abort();
        second.abort();
        let lines = writer.lines();
        let lines: Vec<_> = lines
            .iter()
            .filter(|line| line.contains(&format!("message={message} ")))
            .collect();
        assert!(!lines.is_empty(), "{message}");
        for line in lines {
            assert!(
                line.contains("published_limit=\"1 rps (its terms)\""),
                "{line}"
            );
        }
    }
}

const URI: &str = "https://secret-user:secret-password@maps.example.org/secret-in-path/ows?SERVICE=WMS&VERSION=1.3.0\
    &REQUEST=GetMap&LAYERS=roads&FORMAT=image/png&apikey=secret-in-query&token=secret-in-query";

fn request() -> Request<Full<bytes::Bytes>> {
    Request::get(URI)
        .header(header::AUTHORIZATION, "Bearer secret-in-header")
        .header(header::COOKIE, "session=secret-cookie")
        .body(Full::from("secret-in-body"))
        .unwrap()
}

fn response(status: u16, body: &'static [u8]) -> Response<Full<&'static [u8]>> {
    Response::builder()
        .status(status)
        .header(
            header::LOCATION,
            "https://maps.example.org/?key=secret-location",
        )
        .header(header::SET_COOKIE, "session=secret-cookie")
        .body(Full::new(body))
        .unwrap()
}

fn tile() -> Answer {
    Ok(response(200, b"\x89PNG\r\n\x1a\n..."))
}

fn cut() -> Answer {
    Ok(response(200, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"))
}

fn status(status: u16) -> Answer {
    Ok(response(
        status,
        b"<html>the key secret-in-answer is not known</html>",
    ))
}

fn throttled() -> Answer {
    let mut answer = response(503, b"secret-in-answer");
    let pause = header::HeaderValue::from_static("3");
    answer.headers_mut().insert(header::RETRY_AFTER, pause);
    Ok(answer)
}

fn stale() -> Answer {
    let mut answer = tile()?;
    let age = header::HeaderValue::from_static("86400");
    answer.headers_mut().insert(header::AGE, age);
    Ok(answer)
}

fn exception(code: &str) -> Answer {
    let report = format!(
        "<?xml version=\"1.0\"?><ServiceExceptionReport version=\"1.3.0\" xmlns=\"http://www.opengis.net/ogc\">\
         <ServiceException code=\"{code}\" locator=\"secret-in-locator\">Database password secret-in-message refused\
         </ServiceException></ServiceExceptionReport>"
    );
    Ok(response(200, report.leak().as_bytes()))
}

fn at(settings: EndpointSettings) -> Endpoints {
    Endpoints::builder().defaults(settings).build().unwrap()
}

/// All layers, counted, around a server that takes a second for an answer.
fn client(
    endpoints: Endpoints,
    answer: impl Fn(usize) -> Answer + Clone + Send + Sync + 'static,
) -> impl tower::Service<
    Request<Full<bytes::Bytes>>,
    Response = Response<impl http_body::Body<Error = tower::BoxError> + Send>,
    Error = tower::BoxError,
    Future: Send,
> + Clone
+ Send
+ 'static {
    let metrics = Metrics::new();
    metrics.refresh(&endpoints);
    let layer = SpatialLayer::new(endpoints).observer(metrics);
    let count = Arc::new(AtomicUsize::new(0));
    layer.layer(service_fn(move |_: Request<Full<bytes::Bytes>>| {
        let answer = answer(count.fetch_add(1, Ordering::Relaxed) + 1);
        async move {
            let takes = answer
                .as_ref()
                .ok()
                .and_then(|it| it.extensions().get().copied());
            sleep(takes.unwrap_or(SECOND)).await;
            answer
        }
    }))
}

/// A subscriber that writes down every field of every span and event.
#[derive(Clone, Default)]
struct Writer {
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

impl Writer {
    fn write(&self, begin: String, record: impl FnOnce(&mut Line)) {
        let mut line = Line(begin);
        record(&mut line);
        self.lines.lock().unwrap().push(line.0);
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

struct Line(String);

impl tracing::field::Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Writer {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> Id {
        let begin = format!("span {}", span.metadata().name());
        self.write(begin, |line| span.record(line));
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, values: &span::Record<'_>) {
        self.write("record".to_owned(), |line| values.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let begin = format!("{} {}", event.metadata().level(), event.metadata().target());
        self.write(begin, |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
