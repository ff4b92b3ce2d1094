use std::{io::Read, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use service_exception::{Asked, Finding, Recognizer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};
use tower_spatial::{
    call::{Outcome, Verdict},
    exception::{Operation, ServiceException, ServiceExceptionLayer},
    find,
    replay::{RepeatableBody, ReplayBody},
    retry::{RetryAfter, is_safe_to_repeat},
    verify::completeness::{Check, IncompleteError, Problem, Whole},
};

use super::question::Question;

/// An answer, as the layers and a reader to its end see it.
pub(super) struct Judged {
    pub(super) status: Option<StatusCode>,
    pub(super) outcome: Outcome,
    pub(super) exception: Option<ServiceException>,
    pub(super) retry_after: Option<Duration>,
    pub(super) safe_to_repeat: bool,
    /// `None`: neither framing nor document tells.
    pub(super) complete: Option<bool>,
    /// What is missing, in words.
    pub(super) missing: Option<String>,
}

/// Sends `raw` over an in-memory pipe to hyper's client, through the layers.
pub(super) async fn judge(question: &Question, raw: Bytes, milliseconds: bool) -> Judged {
    let mut request = question.request();
    let safe_to_repeat = is_safe_to_repeat(&request);
    let head = request.body().head();
    let operation = Operation::of(
        &question.method,
        &question.uri,
        &question.headers,
        head.as_deref(),
    );
    request.extensions_mut().insert(operation.clone());

    let server = service_fn(|request| send(request, raw.clone()));
    let stack = ServiceBuilder::new()
        .layer(ServiceExceptionLayer::new().annotate())
        .map_err(BoxError::from)
        .service(server);
    let response = match stack.oneshot(request).await {
        Ok(response) => response,
        Err(error) => {
            // Not even a head, or cut before it told anything: the status of a cut one is in the bytes.
            return Judged {
                status: status_of(&raw),
                outcome: Outcome::of_error(&error),
                exception: find::<ServiceException>(&error).cloned(),
                retry_after: None,
                safe_to_repeat,
                complete: Some(false),
                missing: Some("expected a head, and none came".to_owned()),
            };
        }
    };

    let (mut parts, body) = response.into_parts();
    let framed = parts.headers.contains_key(header::CONTENT_LENGTH)
        || parts.headers.contains_key(header::TRANSFER_ENCODING)
        || body.is_end_stream();
    let asked = Asked::new(&question.method, &question.uri, &question.headers)
        .with_operation(operation.clone());
    let mut check = Check::new(&asked, parts.status, &parts.headers);
    let (bytes, cut) = read(body, &mut check).await;
    let whole: Result<Whole, BoxError> = check
        .finish()
        .map_err(|problem| IncompleteError::new(problem).into());
    if parts
        .extensions
        .get::<ServiceException>()
        .is_none_or(|found| found.code().is_none())
        && let Some(exception) = whole_document(question, operation, &parts, &bytes, cut.is_none())
    {
        parts.extensions.insert(exception);
    }
    // One in the midst of a document of another form is found by the check alone.
    let midst = || find::<Problem>(whole.as_ref().err()?)?.exception().cloned();
    let exception = parts
        .extensions
        .get::<ServiceException>()
        .cloned()
        .or_else(midst);
    let response = Response::from_parts(parts, ());
    let mut outcome = Outcome::of_response(&response);
    if outcome.verdict() == Verdict::Success {
        match (&cut, &whole) {
            (Some(error), _) => outcome = Outcome::of_error(error),
            (None, Err(error)) => outcome = Outcome::of_error(error),
            (None, Ok(_)) => {}
        }
    }
    let now = std::time::SystemTime::now();
    let read = if milliseconds {
        RetryAfter::read_milliseconds
    } else {
        RetryAfter::read
    };
    let hint = read(response.headers(), now).map(RetryAfter::duration);
    Judged {
        status: Some(response.status()),
        retry_after: hint.or_else(|| exception.as_ref()?.pause(now)),
        outcome,
        exception,
        safe_to_repeat,
        complete: match (&cut, &whole) {
            (None, Ok(whole)) => (framed || whole.format().is_some()).then_some(true),
            _ => Some(false),
        },
        missing: match (cut, whole) {
            (_, Err(error)) => find::<Problem>(&error).map(Problem::to_string),
            (Some(_), Ok(_)) => {
                let came = bytes.len();
                Some(format!(
                    "expected more, the connection ended after {came} bytes"
                ))
            }
            (None, Ok(_)) => None,
        },
    }
}

async fn send(
    request: Request<ReplayBody<Full<Bytes>>>,
    raw: Bytes,
) -> Result<Response<Incoming>, hyper::Error> {
    let (client, mut server) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        // Not before something was asked: an answer, or an end, that comes first belongs to no request.
        let asked = server.read_u8().await;
        // The end of the file is the end of the connection. A client that has seen enough is no failure.
        if asked.is_ok() {
            let _ = server.write_all(&raw).await;
        }
        let _ = server.shutdown().await;
        let _ = tokio::io::copy(&mut server, &mut tokio::io::sink()).await;
    });
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(1_000)
        .handshake(TokioIo::new(client))
        .await?;
    tokio::spawn(connection);
    sender.send_request(request).await
}

/// What arrives, kept up to a bound and checked to its end, and the error that ended it.
async fn read(
    mut body: impl Body<Data = Bytes, Error = hyper::Error> + Unpin,
    check: &mut Check,
) -> (Bytes, Option<BoxError>) {
    let mut bytes = Vec::new();
    loop {
        match body.frame().await {
            None => return (bytes.into(), None),
            Some(Err(error)) => return (bytes.into(), Some(error.into())),
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    check.push(data);
                    if bytes.len() < MAX_BODY {
                        bytes.extend_from_slice(data);
                    }
                }
            }
        }
    }
}

/// What the rest of the document shows: a code behind the head, a report in its middle.
fn whole_document(
    question: &Question,
    operation: Operation,
    parts: &http::response::Parts,
    bytes: &[u8],
    ended: bool,
) -> Option<ServiceException> {
    if question.method == Method::HEAD {
        return None;
    }
    let (plain, ended) = decode(&parts.headers, bytes, ended)?;
    let asked =
        Asked::new(&question.method, &question.uri, &question.headers).with_operation(operation);
    let mut recognizer = Recognizer::new(asked, parts.status, &parts.headers).whole_document();
    match recognizer.push(&plain) {
        Finding::Undecided => match recognizer.finish(ended) {
            Finding::Exception(exception) => Some(*exception),
            _ => None,
        },
        Finding::Exception(exception) => Some(*exception),
        Finding::Clean => None,
    }
}

/// The decoded body as far as it goes, and whether that is all of it; `None` where it cannot be decoded here.
fn decode(headers: &HeaderMap, bytes: &[u8], ended: bool) -> Option<(Vec<u8>, bool)> {
    let encoding = headers
        .get(header::CONTENT_ENCODING)
        .map(|value| value.as_bytes().to_ascii_lowercase());
    let reader: Box<dyn Read + '_> = match encoding.as_deref() {
        None | Some(b"identity" | b"") => return Some((bytes.to_vec(), ended)),
        Some(b"gzip" | b"x-gzip") => Box::new(flate2::read::MultiGzDecoder::new(bytes)),
        Some(b"deflate") if bytes.first().is_some_and(|first| first & 0x0f == 8) => {
            Box::new(flate2::read::ZlibDecoder::new(bytes))
        }
        Some(b"deflate") => Box::new(flate2::read::DeflateDecoder::new(bytes)),
        Some(_) => return None,
    };
    let mut plain = Vec::new();
    let whole = reader.take(MAX_BODY as u64).read_to_end(&mut plain).is_ok();
    Some((plain, ended && whole))
}

fn status_of(raw: &[u8]) -> Option<StatusCode> {
    let line = raw.split(|byte| *byte == b'\n').next()?;
    let status = line
        .strip_prefix(b"HTTP/")?
        .split(|byte| *byte == b' ')
        .nth(1)?;
    StatusCode::from_bytes(status.trim_ascii()).ok()
}

const MAX_BODY: usize = 64 * 1024 * 1024;
