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
use crate::call::TooLate;

pin_project_lite::pin_project! {
    /// The response with its body as it came, or the error that it is an exception.
    pub struct ResponseFuture<F, R: Body> {
        // `None`: it was too late to call it.
        #[pin]
        inner: Option<F>,
        asked: Option<Asked>,
        settings: Settings,
        // Boxed: only an answer whose first frame does not decide needs it.
        inspection: Option<Box<Inspection<R>>>,
    }
}

impl<F, R: Body> ResponseFuture<F, R> {
    pub(super) fn new(inner: F, asked: Option<Asked>, settings: Settings) -> Self {
        Self {
            inner: Some(inner),
            asked,
            settings,
            inspection: None,
        }
    }

    pub(super) fn too_late(settings: Settings) -> Self {
        Self {
            inner: None,
            asked: None,
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
            let Some(inner) = this.inner.as_pin_mut() else {
                return Poll::Ready(Err(TooLate::error()));
            };
            let response = match ready!(inner.poll(cx)) {
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
