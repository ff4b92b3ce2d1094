use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Buf;
use http::{HeaderMap, Response, response::Parts};
use http_body::Body;
use tower::BoxError;

use super::{
    Check, CheckedBody, CollectError, IncompleteError,
    service::Question,
    store::{Limits, Store},
};

pin_project_lite::pin_project! {
    /// The response once its body is known to be whole; at once where it is checked while it is read.
    pub struct ResponseFuture<F, R> {
        #[pin]
        inner: F,
        // `None`: nothing is checked of this answer, or it has come.
        question: Option<Box<Question>>,
        // `None`: what is checked is checked while it is read.
        collect: Option<Arc<Limits>>,
        collecting: Option<Box<Collecting<R>>>,
    }
}

impl<F, R> ResponseFuture<F, R> {
    pub(super) fn new(
        inner: F,
        question: Option<Box<Question>>,
        collect: Option<Arc<Limits>>,
    ) -> Self {
        Self {
            inner,
            question,
            collect,
            collecting: None,
        }
    }
}

struct Collecting<R> {
    /// `None` once it was handed on.
    parts: Option<Parts>,
    /// `None` once it has ended.
    body: Option<R>,
    check: Option<Check>,
    store: Store,
    trailers: Option<HeaderMap>,
}

impl<F, R, E> Future for ResponseFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
    R: Body + Unpin,
    R::Error: Into<BoxError>,
{
    type Output = Result<Response<CheckedBody<R>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if this.collecting.is_none() {
            let response = match ready!(this.inner.poll(cx)) {
                Ok(response) => response,
                Err(error) => return Poll::Ready(Err(error.into())),
            };
            let mut question = this.question.take();
            let context = question.as_mut().and_then(|question| question.context());
            let check =
                question.and_then(|question| question.check(response.status(), response.headers()));
            let Some(check) = check else {
                return Poll::Ready(Ok(response.map(CheckedBody::untouched)));
            };
            let Some(limits) = this.collect.take() else {
                return Poll::Ready(Ok(
                    response.map(|body| CheckedBody::checked(body, check, context))
                ));
            };
            let (parts, body) = response.into_parts();
            if body.size_hint().lower() > limits.total {
                let limit = limits.total;
                return Poll::Ready(Err(CollectError::TooLarge { limit }.into()));
            }
            *this.collecting = Some(Box::new(Collecting {
                parts: Some(parts),
                body: Some(body),
                check: Some(check),
                store: Store::new(limits),
                trailers: None,
            }));
        }
        match this.collecting {
            Some(collecting) => collecting.poll(cx),
            None => Poll::Pending,
        }
    }
}

impl<R> Collecting<R>
where
    R: Body + Unpin,
    R::Error: Into<BoxError>,
{
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<CheckedBody<R>>, BoxError>> {
        let mut looked_at = 0;
        while let Some(body) = &mut self.body {
            ready!(self.store.poll_room(cx))?;
            if looked_at > LONGEST_TURN {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(mut data) => {
                        let bytes = data.copy_to_bytes(data.remaining());
                        looked_at += bytes.len();
                        if let Some(check) = &mut self.check {
                            check.push(&bytes);
                        }
                        self.store.push(bytes)?;
                    }
                    Err(frame) => self.trailers = frame.into_trailers().ok(),
                },
                Some(Err(error)) => {
                    self.body = None;
                    return Poll::Ready(Err(error.into()));
                }
                None => {
                    // The permit below is free from here on.
                    self.body = None;
                    if let Some(check) = self.check.take() {
                        check.finish().map_err(IncompleteError::new)?;
                    }
                }
            }
        }
        let kept = ready!(self.store.poll_kept(cx))?;
        match self.parts.take() {
            Some(parts) => {
                let body = CheckedBody::kept(kept, self.trailers.take());
                Poll::Ready(Ok(Response::from_parts(parts, body)))
            }
            // Polled again after it has ended, which nobody may do.
            None => Poll::Pending,
        }
    }
}

impl<F, R> std::fmt::Debug for ResponseFuture<F, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// Bytes after which a task that always finds more lets others run: checking them takes a millisecond or two.
const LONGEST_TURN: usize = 1024 * 1024;
