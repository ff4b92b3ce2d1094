use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::Response;
use tokio::time::Instant;
use tower::BoxError;

use super::{AttemptBody, TimeoutKind, limits::Watch};
use crate::call::{Endpoint, Kind, TooLate};

pin_project_lite::pin_project! {
    /// The response, or the error that its head did not come in time.
    pub struct ResponseFuture<F> {
        // `None`: it was too late to call it, or it has ended.
        #[pin]
        pub(super) inner: Option<F>,
        // Taken by the body.
        pub(super) watch: Option<Watch>,
        pub(super) endpoint: Arc<Endpoint>,
        pub(super) kind: Option<Kind>,
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response<AttemptBody<R>>, BoxError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let (Some(inner), Some(watch)) = (this.inner.as_mut().as_pin_mut(), this.watch.as_mut())
        else {
            return Poll::Ready(Err(TooLate::error()));
        };
        match inner.poll(cx) {
            Poll::Ready(Ok(response)) => {
                if let Some(began) = watch.began()
                    && response.status().is_success()
                {
                    let now = Instant::now();
                    let took = now.duration_since(began);
                    this.endpoint.heads().note(now, took, this.kind.take());
                }
                let watch = this.watch.take().expect("it was there above");
                let endpoint = Arc::clone(this.endpoint);
                Poll::Ready(Ok(
                    response.map(|body| AttemptBody::new(body, watch, endpoint))
                ))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
            Poll::Pending => {
                let mut since = Some(watch.begin());
                let error = ready!(watch.poll(TimeoutKind::Head, &mut since, cx));
                error.note(this.endpoint);
                // Dropped: what it holds below is not held by who keeps a future that has ended.
                this.inner.set(None);
                Poll::Ready(Err(error.into()))
            }
        }
    }
}

impl<F> std::fmt::Debug for ResponseFuture<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
