use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::SystemTime,
};

use http::Response;
use http_body::Body;
use tower::BoxError;

use super::{
    Stale, StaleError,
    sign::{Expected, Sign},
};
use crate::drain::Drain;

pin_project_lite::pin_project! {
    /// The response, or the error that it is stale.
    pub struct ResponseFuture<F, R> {
        #[pin]
        pub(super) inner: F,
        // `None`: nothing is expected of this answer.
        pub(super) expected: Option<Expected>,
        pub(super) annotate: bool,
        // Boxed: only a stale answer needs it.
        pub(super) draining: Option<Box<Draining<R>>>,
    }
}

/// The rest of a stale answer on its way to nobody, so that its connection lives.
pub(super) struct Draining<R> {
    drain: Option<Pin<Box<Drain<R>>>>,
    error: Option<StaleError>,
}

impl<F, R, E> Future for ResponseFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
    R: Body + Unpin,
{
    type Output = Result<Response<R>, BoxError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if this.draining.is_none() {
            let mut response = match ready!(this.inner.poll(cx)) {
                Ok(response) => response,
                Err(error) => return Poll::Ready(Err(error.into())),
            };
            let Some(expected) = this.expected.take() else {
                return Poll::Ready(Ok(response));
            };
            if !response.status().is_success() {
                return Poll::Ready(Ok(response));
            }
            let Some(sign) = Sign::of(response.headers(), &expected, SystemTime::now) else {
                return Poll::Ready(Ok(response));
            };
            let stale = Stale { sign };
            if *this.annotate {
                response.extensions_mut().insert(stale);
                return Poll::Ready(Ok(response));
            }
            let (parts, body) = response.into_parts();
            *this.draining = Some(Box::new(Draining {
                drain: Drain::new(body, parts.version).map(Box::pin),
                error: Some(StaleError { stale, parts }),
            }));
        }
        let Some(draining) = this.draining else {
            return Poll::Pending;
        };
        if let Some(drain) = &mut draining.drain {
            ready!(drain.as_mut().poll(cx));
            draining.drain = None;
        }
        match draining.error.take() {
            Some(error) => Poll::Ready(Err(error.into())),
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
