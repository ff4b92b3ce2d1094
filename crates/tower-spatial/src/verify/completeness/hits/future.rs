use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use service_exception::{Asked, document::Document};
use tower::BoxError;
use tower_service::Service;

use super::{Known, Query, QueryKey};
use crate::{
    find,
    verify::completeness::{Problem, counts::ByHits, error::IncompleteError},
};

pin_project_lite::pin_project! {
    /// The response to the query, after the answer to the question for its number of members.
    pub struct HitsProbeFuture<S, B, R>
    where
        S: Service<Request<B>>,
    {
        // The call that is under way: the question, then the query.
        #[pin]
        call: Option<S::Future>,
        // Boxed: it is there for the question only. `None`: the query is under way.
        probing: Option<Box<Probing<S, B>>>,
        // What is read of the answer to the question.
        reading: Option<Box<Reading<R>>>,
        known: Option<(Arc<Known>, QueryKey)>,
    }
}

pub(super) struct Probing<S, B> {
    pub(super) service: S,
    pub(super) request: Option<Request<B>>,
    pub(super) query: Query,
    pub(super) key: QueryKey,
    pub(super) known: Arc<Known>,
    pub(super) asked: Asked,
}

struct Reading<R> {
    body: R,
    document: Option<Document>,
    left: usize,
}

/// Bytes of the answer to the question: it has no members.
const MAX_ANSWER: usize = 64 * 1024;

impl<S: Service<Request<B>>, B, R> HitsProbeFuture<S, B, R> {
    pub(super) fn asking(call: S::Future, known: Option<(Arc<Known>, QueryKey)>) -> Self {
        Self {
            call: Some(call),
            probing: None,
            reading: None,
            known,
        }
    }

    pub(super) fn probing(call: S::Future, probing: Probing<S, B>) -> Self {
        Self {
            call: Some(call),
            probing: Some(Box::new(probing)),
            reading: None,
            known: None,
        }
    }
}

impl<S, B, R> Future for HitsProbeFuture<S, B, R>
where
    S: Service<Request<B>, Response = Response<R>, Error = BoxError>,
    R: Body<Data = Bytes> + Unpin,
{
    type Output = Result<Response<R>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        while let Some(probing) = this.probing.as_mut() {
            let matched = if let Some(reading) = this.reading.as_mut() {
                let matched = ready!(reading.poll_matched(cx));
                // Its permit is free before the query asks for one.
                *this.reading = None;
                matched
            } else if let Some(call) = this.call.as_mut().as_pin_mut() {
                match ready!(call.poll(cx)) {
                    Ok(response) if response.status().is_success() => {
                        let (parts, body) = response.into_parts();
                        let document = Document::new(&probing.asked, parts.status, &parts.headers);
                        *this.reading = Some(Box::new(Reading {
                            body,
                            document: Some(document),
                            left: MAX_ANSWER,
                        }));
                        this.call.set(None);
                        continue;
                    }
                    // The query itself shows what is wrong.
                    _ => {
                        this.call.set(None);
                        None
                    }
                }
            } else {
                ready!(probing.service.poll_ready(cx))?;
                if let Some(request) = probing.request.take() {
                    let call = probing.service.call(request);
                    this.call.set(Some(call));
                }
                *this.probing = None;
                continue;
            };
            if let (Some(matched), Some(request)) = (matched, &mut probing.request) {
                probing.known.insert(probing.key, matched);
                *this.known = Some((Arc::clone(&probing.known), probing.key));
                let page = probing.query.page(matched);
                request.extensions_mut().insert(ByHits(page));
            }
        }
        let Some(call) = this.call.as_mut().as_pin_mut() else {
            return Poll::Pending;
        };
        let result = ready!(call.poll(cx));
        if let (Err(error), Some((known, key))) = (&result, &this.known)
            && let Some(incomplete) = find::<IncompleteError>(error)
            && matches!(incomplete.problem(), Problem::Count { .. })
        {
            // Perhaps it is not so many any more.
            known.forget(*key);
        }
        Poll::Ready(result)
    }
}

impl<R: Body<Data = Bytes> + Unpin> Reading<R> {
    fn poll_matched(&mut self, cx: &mut Context<'_>) -> Poll<Option<u64>> {
        loop {
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        // An empty frame counts too: a body of those would never end.
                        let Some(left) = self.left.checked_sub(data.len().max(1)) else {
                            return Poll::Ready(None);
                        };
                        self.left = left;
                        if let Some(document) = &mut self.document {
                            document.push(&data);
                        }
                    }
                }
                Some(Err(_)) => return Poll::Ready(None),
                None => break,
            }
        }
        let whole = self
            .document
            .take()
            .and_then(|document| document.finish().ok());
        Poll::Ready(whole.and_then(|whole| whole.matched()))
    }
}

impl<S: Service<Request<B>>, B, R> std::fmt::Debug for HitsProbeFuture<S, B, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HitsProbeFuture").finish_non_exhaustive()
    }
}
