//! From a request to an answer: what the service says, and what the script makes of it.

mod arcgis;
mod features;
mod geocoder;
pub(crate) mod wfs;
mod wfs_xml;
mod wms;

use std::collections::HashMap;
use std::future::pending;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use crate::Exception;
use crate::body::{ScriptedBody, Source};
use crate::connection::{Control, Takeover};
use crate::counters::{Counters, InFlight, Render};
use crate::fault::{Answer, Cut, Delivery, End, Fault, Kind, Silence};
use crate::renderer::Renderer;
use crate::request::Asked;
use crate::script::{Clock, Script, Weather};

/// All that one server knows.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) script: Arc<Script>,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
    pub(crate) renderer: Renderer,
    seen: Mutex<Seen>,
    geocoder_free: Mutex<Duration>,
}

/// What was asked for before.
#[derive(Debug, Default)]
struct Seen {
    requests: u64,
    operations: HashMap<String, u64>,
    targets: HashMap<String, u64>,
    /// For each quota window: the period, and the requests let through in it.
    quotas: HashMap<usize, (u64, u64)>,
}

/// What the service says before the script gets at it.
pub(crate) struct Reply {
    status: StatusCode,
    content_type: HeaderValue,
    retry_after: Option<u64>,
    source: Source,
    kind: Kind,
    render: Option<Render>,
}

impl Reply {
    fn good(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self::new(
            StatusCode::OK,
            content_type,
            Source::Bytes(body.into()),
            Kind::Good,
        )
    }

    fn status(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self::new(
            status,
            content_type,
            Source::Bytes(body.into()),
            Kind::Status(status.as_u16()),
        )
    }

    fn stream(content_type: &'static str, stream: wfs::Stream) -> Self {
        Self::new(
            StatusCode::OK,
            content_type,
            Source::Stream(stream),
            Kind::Good,
        )
    }

    fn exception(exception: &Exception) -> Self {
        let status = exception
            .status
            .and_then(|status| StatusCode::from_u16(status).ok())
            .unwrap_or(StatusCode::OK);
        Self::new(
            status,
            exception.form.content_type(),
            Source::Bytes(exception.bytes()),
            Kind::Exception,
        )
    }

    fn new(status: StatusCode, content_type: &'static str, source: Source, kind: Kind) -> Self {
        Self {
            status,
            content_type: HeaderValue::from_static(content_type),
            retry_after: None,
            source,
            kind,
            render: None,
        }
    }
}

impl State {
    pub(crate) fn start(script: Script) -> Arc<Self> {
        let clock = Clock::starting_now(script.scale);
        let script = Arc::new(script);
        let counters = Arc::new(Counters::default());
        let renderer = Renderer::new(&script, clock, &counters);
        Arc::new(Self {
            script,
            clock,
            counters,
            renderer,
            seen: Mutex::default(),
            geocoder_free: Mutex::default(),
        })
    }

    /// One request. An error resets the stream on HTTP/2 and closes the connection on HTTP/1.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        control: Control,
    ) -> Result<Response<ScriptedBody>, h2::Error> {
        let (head, body) = request.into_parts();
        let body = match Limited::new(body, LONGEST_REQUEST).collect().await {
            Ok(collected) => String::from_utf8_lossy(&collected.to_bytes()).into_owned(),
            Err(_) => String::new(),
        };
        let mut asked = Asked::new(&head, body);
        let in_flight = InFlight::arrive(
            &self.counters,
            format!("{} {} {}", asked.method, asked.path, asked.operation),
        );
        let fault = self.fault(&mut asked);
        let (fault, window_end) = fault.unwrap_or_else(|| (Fault::delivery(), asked.elapsed));

        let own = match &fault.answer {
            Answer::Own => Some(self.serve(&asked).await),
            _ if fault.after_work => {
                // Done, and dropped: a render that comes back from here counts as wasted.
                drop(self.serve(&asked).await);
                None
            }
            _ => None,
        };
        let http2 = head.version == Version::HTTP_2;
        let delivery = fault.delivery;
        if !delivery.late_head.is_zero() {
            tokio::time::sleep(self.clock.real(delivery.late_head)).await;
        }
        let mut reply = match (own, fault.answer) {
            (Some(reply), _) => reply,
            (None, Answer::Other { status, body, kind }) => {
                Reply::new(status, "text/plain", Source::Bytes(body), kind)
            }
            (None, Answer::None(silence)) => {
                return self.stay_silent(silence, http2, &control).await;
            }
            (None, Answer::Own) => pending().await,
        };
        if reply.kind == Kind::Good
            && delivery
                .cut
                .is_some_and(|(bytes, _)| bytes < reply.source.len())
        {
            reply.kind = Kind::Cut;
        }
        self.count(reply.kind);
        if !http2 {
            for status in &delivery.informational {
                let phrase = StatusCode::from_u16(*status)
                    .ok()
                    .and_then(|status| status.canonical_reason())
                    .unwrap_or("Interim");
                // Where this fails the client is gone, and hyper notices.
                let _ = control
                    .write(format!("HTTP/1.1 {status} {phrase}\r\n\r\n").as_bytes())
                    .await;
            }
        }
        if let Some(render) = reply
            .render
            .as_mut()
            .filter(|_| asked.method == Method::HEAD)
        {
            render.deliver();
        }
        Ok(self.deliver(reply, delivery, window_end, http2, control, in_flight))
    }

    fn deliver(
        &self,
        reply: Reply,
        delivery: Delivery,
        window_end: Duration,
        http2: bool,
        control: Control,
        in_flight: InFlight,
    ) -> Response<ScriptedBody> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, reply.content_type);
        if let Some(seconds) = reply.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if delivery.retry_after_window {
            let left = self.clock.real(window_end.saturating_sub(self.clock.now()));
            headers.insert(header::RETRY_AFTER, whole_seconds(left).into());
        }
        for (name, value) in delivery.headers {
            headers.insert(name, value);
        }
        let mut source = reply.source;
        if let (true, Source::Bytes(bytes)) = (delivery.gzip, &source) {
            source = Source::Bytes(gzip(bytes));
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let mut trailers = None;
        for (name, value) in delivery.trailers {
            headers.append(header::TRAILER, HeaderValue::from(name.clone()));
            trailers
                .get_or_insert_with(HeaderMap::new)
                .append(name, value);
        }
        let ends_early = matches!(delivery.cut, Some((_, Cut::CleanEnd)));
        let announced = !delivery.chunked && !ends_early && trailers.is_none();
        let pause = (!delivery.late_body.is_zero())
            .then(|| Box::pin(tokio::time::sleep(self.clock.real(delivery.late_body))));
        if http2 && announced && delivery.cut.is_some() {
            headers.insert(header::CONTENT_LENGTH, source.len().into());
        }
        let mut response = Response::new(ScriptedBody {
            source,
            announced,
            part: delivery.part,
            gap: self.clock.real(delivery.gap),
            pause,
            cut: delivery.cut,
            trailers,
            control,
            http2,
            settled: false,
            render: reply.render,
            _in_flight: in_flight,
        });
        *response.status_mut() = reply.status;
        *response.headers_mut() = headers;
        response
    }

    async fn stay_silent(
        &self,
        silence: Silence,
        http2: bool,
        control: &Control,
    ) -> Result<Response<ScriptedBody>, h2::Error> {
        let (kind, takeover) = match silence {
            Silence::End(End::Reset) => (
                Kind::Reset,
                Some(Takeover {
                    parts: Vec::new(),
                    end: End::Reset,
                }),
            ),
            Silence::End(end) => (
                Kind::Closed,
                Some(Takeover {
                    parts: Vec::new(),
                    end,
                }),
            ),
            Silence::Raw(parts, end) => (Kind::Raw, Some(Takeover { parts, end })),
            Silence::Stall => (Kind::Stalled, None),
            Silence::ResetStream(code) => {
                self.count(if http2 { Kind::Reset } else { Kind::Closed });
                return Err(h2::Reason::from(code).into());
            }
        };
        self.count(kind);
        if let Some(takeover) = takeover {
            control.take_over(takeover);
        }
        // Until the client leaves or the connection has been taken over: both drop this future.
        pending().await
    }

    /// What the script has for this request, with the end of the window it came from. Numbers the request.
    fn fault(&self, asked: &mut Asked) -> Option<(Fault, Duration)> {
        let mut seen = self.seen();
        asked.nth = seen.requests;
        seen.requests += 1;
        asked.nth_of_operation = next(&mut seen.operations, &asked.operation);
        asked.visit = next(&mut seen.targets, &asked.target);
        asked.elapsed = self.clock.now();
        if let Some(fault) = self.script.fault_by_rule(asked) {
            return Some((fault, asked.elapsed));
        }
        self.script
            .open_windows(asked.elapsed)
            .find_map(|(index, weather, end)| match weather {
                Weather::Cores(_) => None,
                // A request that was on its way when the server went down.
                Weather::Outage => Some((Fault::reset(), end)),
                Weather::Faults { share, fault } => {
                    (self.script.draw(index, asked) < *share).then(|| (fault.clone(), end))
                }
                Weather::Quota { requests, per } => {
                    let number = (asked.elapsed.as_nanos() / per.as_nanos().max(1)) as u64;
                    let (period, passed) = seen.quotas.entry(index).or_default();
                    if *period != number {
                        (*period, *passed) = (number, 0);
                    }
                    if *passed < *requests {
                        *passed += 1;
                        return None;
                    }
                    let period_end = per.mul_f64((number + 1) as f64);
                    Some((Fault::status(429).retry_after_window(), period_end))
                }
            })
    }

    /// The service itself, without a script.
    async fn serve(&self, asked: &Asked) -> Reply {
        match asked.path.as_str() {
            "/wms" => self.wms(asked).await,
            "/wfs" => self.wfs(asked),
            "/search" => self.geocode(asked),
            "/" => Reply::good(
                "text/plain",
                "flaky-ogc: /wms /wfs /search?q= /collections /arcgis/rest/services/places/FeatureServer/0/query\n",
            ),
            path if path == "/collections" || path.starts_with("/collections/") => {
                self.collections(asked)
            }
            path if path.starts_with("/arcgis/rest/services/") => self.arcgis(asked),
            _ => Reply::status(StatusCode::NOT_FOUND, "text/plain", "404 Not Found\n"),
        }
    }

    fn count(&self, kind: Kind) {
        self.counters
            .change(|counts| *counts.by_kind.entry(kind).or_default() += 1);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts `key` up; how often it had been there before. A server that is kept up for days forgets in between.
fn next(counts: &mut HashMap<String, u64>, key: &str) -> u64 {
    if let Some(count) = counts.get_mut(key) {
        *count += 1;
        return *count;
    }
    if counts.len() >= MOST_REMEMBERED {
        counts.clear();
    }
    counts.insert(key.to_owned(), 0);
    0
}

/// Rounded up, and at least 1: `Retry-After: 0` says nothing.
fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0 || duration.is_zero())
}

fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let encoded = encoder.write_all(bytes).and_then(|()| encoder.finish());
    // Writing to memory does not fail.
    Bytes::from(encoded.unwrap_or_default())
}

/// The longest request body that is read, in bytes.
const LONGEST_REQUEST: usize = 1 << 20;

/// Targets and operations whose visits are counted.
const MOST_REMEMBERED: usize = 200_000;
