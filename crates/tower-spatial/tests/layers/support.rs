//! What several tests of the layers share: bodies that do what they are told, and a recorder of requests.

use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Empty, Full};
use tokio::time::{Instant, Sleep, sleep};
use tower::BoxError;

pub(crate) type NoBody = Empty<Bytes>;

pub(crate) const GET_MAP: &str = "https://maps.example.org/ows?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap&LAYERS=roads\
    &STYLES=&CRS=EPSG:3857&BBOX=0,0,1,1&WIDTH=256&HEIGHT=256&FORMAT=image/png";

pub(crate) const LAYER_NOT_DEFINED: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ServiceExceptionReport version="1.3.0" xmlns="http://www.opengis.net/ogc">
<ServiceException code="LayerNotDefined" locator="layers">msWMSLoadGetMapParams(): no such layer</ServiceException>
</ServiceExceptionReport>"#;

pub(crate) const CONNECTION_FAILED: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ServiceExceptionReport version="1.3.0" xmlns="http://www.opengis.net/ogc">
<ServiceException>msDrawMap(): Image handling error. Failed to draw layer named 'roads'.
msPostGISLayerOpen(): Query error. Database connection failed (could not connect to server: Connection refused)
</ServiceException></ServiceExceptionReport>"#;

pub(crate) fn get_map() -> Request<NoBody> {
    Request::get(GET_MAP).body(Empty::new()).unwrap()
}

/// One thing that a [`Scripted`] body does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Data(Bytes),
    Trailers(HeaderMap),
    Wait(Duration),
    Fail,
    Hang,
}

impl Step {
    pub(crate) fn data(bytes: impl Into<Bytes>) -> Self {
        Self::Data(bytes.into())
    }
}

/// A body that does its steps, then ends; it panics where it is polled after its end, and counts what was taken of it.
#[derive(Debug)]
pub(crate) struct Scripted {
    steps: VecDeque<Step>,
    sleep: Option<Pin<Box<Sleep>>>,
    ended: bool,
    known_length: bool,
    pub(crate) taken: Arc<AtomicUsize>,
}

impl Scripted {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            sleep: None,
            ended: false,
            known_length: false,
            taken: Arc::default(),
        }
    }

    pub(crate) fn known_length(mut self) -> Self {
        self.known_length = true;
        self
    }

    pub(crate) fn frames<T: Into<Bytes>>(frames: impl IntoIterator<Item = T>) -> Self {
        Self::new(frames.into_iter().map(Step::data))
    }
}

impl Body for Scripted {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        assert!(!self.ended, "polled after its end");
        loop {
            if let Some(sleep) = &mut self.sleep {
                std::task::ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            let Some(step) = self.steps.pop_front() else {
                self.ended = true;
                return Poll::Ready(None);
            };
            return Poll::Ready(Some(Ok(match step {
                Step::Data(bytes) => {
                    self.taken.fetch_add(1, Ordering::Relaxed);
                    Frame::data(bytes)
                }
                Step::Trailers(trailers) => Frame::trailers(trailers),
                Step::Wait(duration) => {
                    self.sleep = Some(Box::pin(sleep(duration)));
                    continue;
                }
                Step::Fail => {
                    self.ended = true;
                    let error = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                    return Poll::Ready(Some(Err(error.into())));
                }
                Step::Hang => {
                    self.steps.push_front(Step::Hang);
                    return Poll::Pending;
                }
            })));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || (self.known_length && self.steps.is_empty() && self.sleep.is_none())
    }

    fn size_hint(&self) -> SizeHint {
        if !self.known_length {
            return SizeHint::new();
        }
        SizeHint::with_exact(
            self.steps
                .iter()
                .map(|step| match step {
                    Step::Data(bytes) => bytes.len() as u64,
                    _ => 0,
                })
                .sum(),
        )
    }
}

pub(crate) fn answer(status: u16, label: &str, body: Scripted) -> Response<Scripted> {
    Response::builder()
        .status(status)
        .header("content-type", label)
        .body(body)
        .unwrap()
}

/// A server that answers from a script and notes when it was asked; its last answer repeats.
#[derive(Clone)]
pub(crate) struct Server {
    script: Arc<Mutex<VecDeque<Reply>>>,
    pub(crate) asked_at: Arc<Mutex<Vec<Instant>>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Status(u16, Vec<(&'static str, &'static str)>, &'static str),
    Io(std::io::ErrorKind),
    Error(&'static str),
    Hang,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self::Status(status, vec![], "")
    }

    pub(crate) fn header(self, name: &'static str, value: &'static str) -> Self {
        match self {
            Self::Status(status, mut headers, body) => {
                headers.push((name, value));
                Self::Status(status, headers, body)
            }
            other => other,
        }
    }

    pub(crate) fn body(self, body: &'static str) -> Self {
        match self {
            Self::Status(status, headers, _) => Self::Status(status, headers, body),
            other => other,
        }
    }
}

impl Server {
    pub(crate) fn new(script: impl IntoIterator<Item = Reply>) -> Self {
        Self {
            script: Arc::new(Mutex::new(script.into_iter().collect())),
            asked_at: Arc::default(),
        }
    }

    pub(crate) fn requests(&self) -> usize {
        self.asked_at.lock().unwrap().len()
    }
}

impl<B: Send + 'static> tower::Service<Request<B>> for Server {
    type Response = Response<Full<Bytes>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        let mut asked_at = self.asked_at.lock().unwrap();
        asked_at.push(Instant::now());
        assert!(asked_at.len() < 10_000, "a retry that does not end");
        let mut script = self.script.lock().unwrap();
        let reply = if script.len() > 1 {
            script.pop_front()
        } else {
            script.front().cloned()
        };
        Box::pin(async move {
            match reply.expect("a script has an answer") {
                Reply::Status(status, headers, body) => {
                    let mut response = Response::builder().status(status);
                    for (name, value) in headers {
                        response = response.header(name, value);
                    }
                    Ok(response.body(Full::from(body))?)
                }
                Reply::Io(kind) => Err(std::io::Error::from(kind).into()),
                Reply::Error(text) => Err(text.into()),
                Reply::Hang => std::future::pending().await,
            }
        })
    }
}
