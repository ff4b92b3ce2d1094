//! One call as every row makes it: a request, an inner service that answers after one `Pending`, a body read to its end.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, CONTENT_TYPE, REFERER, USER_AGENT};
use http::{HeaderName, HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Empty};
use tower::{BoxError, Service, ServiceExt};

pub(crate) type Get = Request<Empty<Bytes>>;

/// What every stack is: a service that answers with a body of bytes.
pub(crate) trait Call: Service<Get, Response = Response<Self::Body>, Error: Debug> {
    type Body: Body<Data = Bytes, Error: Debug> + Unpin;
}

impl<S, R> Call for S
where
    S: Service<Get, Response = Response<R>, Error: Debug>,
    R: Body<Data = Bytes, Error: Debug> + Unpin,
{
    type Body = R;
}

/// Sends one request and reads the answer to its end.
///
/// # Panics
///
/// When the call fails or the body is not `length` bytes long: the row would measure something else than it says.
pub(crate) async fn exchange(service: &mut impl Call, request: Get, length: usize) {
    let mut body = answer(service, request).await;
    let mut read = 0;
    while let Some(frame) = next_frame(&mut body).await {
        read += frame;
    }
    assert_eq!(read, length, "the body arrives whole");
}

/// Sends one request and hands back the body.
pub(crate) async fn answer<S: Call>(service: &mut S, request: Get) -> S::Body {
    let ready = service.ready().await.expect("ready");
    ready.call(request).await.expect("an answer").into_body()
}

/// The number of bytes in the next frame.
pub(crate) async fn next_frame<R>(body: &mut R) -> Option<usize>
where
    R: Body<Data = Bytes> + Unpin,
    R::Error: Debug,
{
    let frame = body.frame().await?.expect("a frame");
    frame.data_ref().map(Bytes::len)
}

/// Polls a future by hand: no scheduler, no parking of the driver, hence no system call in the number.
///
/// # Panics
///
/// When the future is still pending after 64 polls: something waits for what nobody will do.
pub(crate) fn drive<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..64 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
    panic!("the call never ends");
}

/// The innermost service: as a network client it is pending once, then has a response with one header and a body.
#[derive(Clone, Debug)]
pub(crate) struct Inner {
    content_type: HeaderValue,
    body: Frames,
}

impl Inner {
    /// 256 KB of PNG in one frame, as every peer was measured; what a frame costs is a table of its own.
    pub(crate) fn image() -> Self {
        Self::new("image/png", image(256 * 1024))
    }

    /// The same bytes under a label that says nothing.
    pub(crate) fn octets() -> Self {
        Self::new("application/octet-stream", image(256 * 1024))
    }

    /// 2 KB of PNG in one frame.
    pub(crate) fn small() -> Self {
        Self::new("image/png", image(2 * 1024))
    }

    /// 2 KB of GML in one frame.
    pub(crate) fn gml() -> Self {
        Self::new("text/xml; subtype=gml/3.1.1", features(2 * 1024))
    }

    /// 64 KB of PNG in one frame.
    pub(crate) fn frame() -> Self {
        Self::new("image/png", image(FRAME))
    }

    /// The first frame of this, so many times.
    pub(crate) fn repeated(&self, frames: usize) -> Self {
        let mut inner = self.clone();
        inner.body.frames = frames;
        inner
    }

    pub(crate) fn length(&self) -> usize {
        self.body.remaining()
    }

    fn new(content_type: &'static str, bytes: Bytes) -> Self {
        Self {
            content_type: HeaderValue::from_static(content_type),
            body: Frames {
                frame: bytes,
                frames: 1,
            },
        }
    }
}

impl<B> Service<Request<B>> for Inner {
    type Response = Response<Frames>;
    type Error = BoxError;
    type Future = PendingOnce;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> PendingOnce {
        PendingOnce {
            answer: Some(self.clone()),
            polled: false,
        }
    }
}

#[derive(Debug)]
pub(crate) struct PendingOnce {
    answer: Option<Inner>,
    polled: bool,
}

impl Future for PendingOnce {
    type Output = Result<Response<Frames>, BoxError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if !self.polled {
            self.polled = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let answer = self.answer.take().expect("not polled after its end");
        let mut response = Response::new(answer.body);
        response
            .headers_mut()
            .insert(CONTENT_TYPE, answer.content_type);
        Poll::Ready(Ok(response))
    }
}

/// A body of equal frames that share their memory: a frame costs a reference count, as one from a socket's buffer does.
#[derive(Clone, Debug)]
pub(crate) struct Frames {
    frame: Bytes,
    frames: usize,
}

impl Frames {
    fn remaining(&self) -> usize {
        self.frame.len() * self.frames
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    // As a transport's, which is far too large to be inlined into its reader.
    #[inline(never)]
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.frames == 0 {
            return Poll::Ready(None);
        }
        self.frames -= 1;
        Poll::Ready(Some(Ok(Frame::data(self.frame.clone()))))
    }

    fn is_end_stream(&self) -> bool {
        self.frames == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining() as u64)
    }
}

/// A GetMap request: a query of 300 bytes, six headers.
pub(crate) fn get_map() -> Get {
    request(MAP)
}

/// A request that no geospatial protocol knows, otherwise like [`get_map`].
pub(crate) fn get_unknown() -> Get {
    static URI: LazyLock<String> = LazyLock::new(|| {
        let (_, query) = MAP.split_once('?').expect("a query");
        let opaque: String = query
            .chars()
            .map(|c| if c.is_ascii_uppercase() { 'x' } else { c })
            .collect();
        format!(
            "http://wms.example.org/download/tile?{}",
            opaque.replace('=', "-").replace('&', ".")
        )
    });
    request(&URI)
}

/// A small request to a host of its own, whose name is 35 bytes long.
pub(crate) fn get_from_host(number: usize) -> Get {
    let uri = format!("http://tiles-{number:06}.geodata.example.org.de/wms");
    Request::get(uri).body(Empty::new()).expect("a request")
}

fn request(uri: &str) -> Get {
    let headers: [(HeaderName, &str); 6] = [
        (ACCEPT, "image/png,image/*;q=0.8"),
        (ACCEPT_LANGUAGE, "de,en;q=0.7"),
        (USER_AGENT, "tile-worker/1.0 (+http://example.org/bot)"),
        (REFERER, "http://example.org/atlas"),
        (AUTHORIZATION, "Bearer 0123456789abcdef0123456789abcdef"),
        (
            HeaderName::from_static("x-request-id"),
            "4f0c1d2e-5b6a-4788-9a0b-1c2d3e4f5a6b",
        ),
    ];
    let mut builder = Request::get(uri);
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    builder.body(Empty::new()).expect("a request")
}

/// The signature and header of a PNG, then noise without meaning.
fn image(length: usize) -> Bytes {
    let head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x04\0\0\0\x04\0\x08\x06\0\0\0";
    let noise = (0_u32..).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8);
    head.iter().copied().chain(noise).take(length).collect()
}

fn features(length: usize) -> Bytes {
    let head = concat!(
        r#"<?xml version="1.0" encoding="UTF-8"?>"#,
        r#"<wfs:FeatureCollection xmlns:wfs="http://www.opengis.net/wfs" xmlns:gml="http://www.opengis.net/gml" "#,
        r#"xmlns:topp="http://www.openplans.org/topp" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" "#,
        r#"numberOfFeatures="12" timeStamp="2024-05-01T12:00:00Z" "#,
        r#"xsi:schemaLocation="http://www.opengis.net/wfs http://schemas.opengis.net/wfs/1.1.0/wfs.xsd">"#,
    );
    let member = concat!(
        r#"<gml:featureMember><topp:roads gml:id="roads.1"><topp:geom><gml:LineString srsName="EPSG:4326">"#,
        r#"<gml:posList>52.1 13.2 52.2 13.3</gml:posList></gml:LineString></topp:geom></topp:roads></gml:featureMember>"#,
    );
    head.bytes()
        .chain(member.bytes().cycle())
        .take(length)
        .collect()
}

/// Bytes in a frame.
const FRAME: usize = 64 * 1024;

const MAP: &str = concat!(
    "http://wms.example.org/geoserver/ows?SERVICE=WMS&VERSION=1.3.0&REQUEST=GetMap",
    "&LAYERS=topography:contours,topography:rivers,transport:roads&STYLES=thin,blue,default",
    "&CRS=EPSG:3857&BBOX=1489200.0,6887900.0,1491646.0,6890346.0&WIDTH=1024&HEIGHT=1024",
    "&FORMAT=image/png&TRANSPARENT=TRUE&EXCEPTIONS=XML&TIME=2024-05-01T00:00:00Z&DPI=96&TILED=true&MAP_RESOLUTION=96",
);
