//! A server that breaks the first answer to each case and gives the whole one to every later request. It writes HTTP/1.1 by
//! itself: it shares no code with what it tests.

use std::{
    collections::HashMap,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// How an answer's length is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Framing {
    ContentLength,
    Chunked,
    /// By the end of the connection.
    Close,
    /// gzip, chunked.
    Gzip,
    Http2,
}

/// What happens to an answer after some of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Break {
    Reset,
    /// The connection is closed.
    Fin,
    /// Nothing more comes.
    Stall,
    /// It ends as if it were whole, as where a worker behind a proxy was killed.
    Clean,
}

/// One case: a whole answer, and how the first one breaks.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) media_type: &'static str,
    /// As sent: encoded where it is.
    pub(crate) body: Bytes,
    pub(crate) framing: Framing,
    pub(crate) broken: Break,
    pub(crate) after: usize,
}

/// Cases by the number in the request's header `case`, and how often each was asked for.
#[derive(Clone, Default)]
pub(crate) struct Cases(Arc<Mutex<HashMap<usize, (Case, usize)>>>);

impl Cases {
    pub(crate) fn insert(&self, number: usize, case: Case) {
        self.0.lock().unwrap().insert(number, (case, 0));
    }

    pub(crate) fn requests(&self, number: usize) -> usize {
        self.0.lock().unwrap()[&number].1
    }

    /// The case, and whether this request is the first one.
    fn next(&self, number: usize) -> (Case, bool) {
        let mut cases = self.0.lock().unwrap();
        let (case, requests) = cases.get_mut(&number).expect("a case has a number");
        *requests += 1;
        (case.clone(), *requests == 1)
    }
}

pub(crate) async fn start_http1(cases: Cases) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(http1(stream, cases.clone()));
        }
    });
    address
}

async fn http1(mut stream: TcpStream, cases: Cases) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut read = Vec::new();
    loop {
        let head_end = loop {
            if let Some(at) = read.windows(4).position(|end| end == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&read[..head_end]).to_lowercase();
        let number = |name: &str| {
            let value = head.split(&format!("\r\n{name}: ")).nth(1)?;
            value.split("\r\n").next()?.parse::<usize>().ok()
        };
        let length = number("content-length").unwrap_or(0);
        while read.len() < head_end + length {
            if stream.read_buf(&mut read).await? == 0 {
                return Ok(());
            }
        }
        read.drain(..head_end + length);
        let (case, is_first) = cases.next(number("case").expect("the header"));
        let end = if is_first {
            case.after
        } else {
            case.body.len()
        };
        let sent = &case.body[..end];
        let is_clean = !is_first || case.broken == Break::Clean;
        let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-type: {}\r\n", case.media_type);
        match case.framing {
            Framing::ContentLength => {
                let length = if is_clean {
                    sent.len()
                } else {
                    case.body.len()
                };
                answer += &format!("content-length: {length}\r\n");
            }
            Framing::Chunked => answer += "transfer-encoding: chunked\r\n",
            Framing::Gzip => answer += "transfer-encoding: chunked\r\ncontent-encoding: gzip\r\n",
            Framing::Close => answer += "connection: close\r\n",
            Framing::Http2 => unreachable!(),
        }
        let mut answer = (answer + "\r\n").into_bytes();
        let is_chunked = matches!(case.framing, Framing::Chunked | Framing::Gzip);
        if is_chunked && !sent.is_empty() {
            answer.extend(format!("{:x}\r\n", sent.len()).into_bytes());
        }
        answer.extend_from_slice(sent);
        if is_chunked {
            if !sent.is_empty() {
                answer.extend_from_slice(b"\r\n");
            }
            if is_clean {
                answer.extend_from_slice(b"0\r\n\r\n");
            }
        }
        stream.write_all(&answer).await?;
        match case.broken {
            _ if is_clean && case.framing != Framing::Close => continue,
            _ if is_clean => {}
            Break::Reset => {
                // What was written is read first: a reset discards what has not been.
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                stream.set_zero_linger()?;
                return Ok(());
            }
            Break::Fin | Break::Clean => {}
            Break::Stall => while stream.read_buf(&mut read).await? > 0 {},
        }
        return stream.shutdown().await;
    }
}

pub(crate) async fn start_http2(cases: Cases) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let cases = cases.clone();
            let answer = service_fn(move |request: Request<Incoming>| {
                let number = request.headers()["case"].to_str().unwrap().parse();
                let (case, is_first) = cases.next(number.unwrap());
                async move { Ok::<_, std::convert::Infallible>(http2(case, is_first)) }
            });
            let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http2.serve_connection(TokioIo::new(stream), answer));
        }
    });
    address
}

fn http2(case: Case, is_first: bool) -> Response<Broken> {
    let end = if is_first {
        case.after
    } else {
        case.body.len()
    };
    let body = Broken {
        bytes: Some(case.body.slice(..end)),
        broken: is_first.then_some(case.broken),
    };
    let response = Response::builder().header("content-type", case.media_type);
    response.body(body).unwrap()
}

/// A body of bytes, and what comes after them in place of its end.
struct Broken {
    bytes: Option<Bytes>,
    broken: Option<Break>,
}

impl Body for Broken {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(bytes) = self.bytes.take().filter(|bytes| !bytes.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        match self.broken {
            // The stream is reset; HTTP/2 has nothing else for one answer of many.
            Some(Break::Reset | Break::Fin) => {
                Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())))
            }
            Some(Break::Stall) => Poll::Pending,
            Some(Break::Clean) | None => Poll::Ready(None),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::new()
    }
}
