use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use http_body::Body;
use service_exception::Asked;
use tower::BoxError;

use super::{
    InspectedBody,
    inspection::{self, Inspection, Step},
    layer::Settings,
};

pin_project_lite::pin_project! {
    /// The response with its body as it came, or the error that it is an exception.
    pub struct ResponseFuture<F, R: Body> {
        #[pin]
        inner: F,
        asked: Option<Asked>,
        settings: Settings,
        // Boxed: only an answer whose first frame does not decide needs it.
        inspection: Option<Box<Inspection<R>>>,
    }
}

impl<F, R: Body> ResponseFuture<F, R> {
    pub(super) fn new(inner: F, asked: Option<Asked>, settings: Settings) -> Self {
        Self {
            inner,
            asked,
            settings,
            inspection: None,
        }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<BoxError>,
    R: Body + Unpin,
    R::Error: Into<BoxError>,
{
    type Output = Result<Response<InspectedBody<R>>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if this.inspection.is_none() {
            let response = match ready!(this.inner.poll(cx)) {
                Ok(response) => response,
                Err(error) => return Poll::Ready(Err(error.into())),
            };
            let Some(asked) = this.asked.take() else {
                return Poll::Ready(Ok(response.map(InspectedBody::untouched)));
            };
            match inspection::begin(response, asked, *this.settings, cx) {
                Step::Done(result) => return Poll::Ready(result),
                Step::More(inspection) => *this.inspection = Some(inspection),
            }
        }
        let inspection = this.inspection.as_mut().expect("set above");
        inspection.poll(cx)
    }
}

impl<F, R: Body> std::fmt::Debug for ResponseFuture<F, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
