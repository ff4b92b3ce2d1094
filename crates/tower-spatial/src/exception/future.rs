use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use http::Response;
use http_body::Body;
use service_exception::Asked;
use tower::BoxError;

use super::{
    InspectedBody,
    inspection::{self, Begin, Inspection, Step},
    layer::Settings,
};
use crate::call::TooLate;

pin_project_lite::pin_project! {
    /// The response with its body as it came, or the error that it is an exception.
    pub struct ResponseFuture<F, R: Body> {
        // `None`: it was too late to call it.
        #[pin]
        pub(super) inner: Option<F>,
        pub(super) asked: Option<Asked>,
        pub(super) settings: Settings,
        // Boxed: only an answer whose first frame does not decide needs it.
        pub(super) inspection: Option<Box<Inspection<R>>>,
    }
}

impl<F, R: Body> ResponseFuture<F, R> {
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

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(inspection) = this.inspection {
            return inspection.poll(cx);
        }
        let Some(inner) = this.inner.as_pin_mut() else {
            return Poll::Ready(Err(TooLate::error()));
        };
        let mut response = match inner.poll(cx) {
            Poll::Ready(Ok(response)) => response,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
            Poll::Pending => return Poll::Pending,
        };
        let begin = match this.asked {
            Some(asked) => inspection::begin(&mut response, asked, cx),
            None => Begin::Good(None),
        };
        let first = match begin {
            Begin::Good(first) => {
                return Poll::Ready(Ok(response.map(|rest| InspectedBody {
                    first,
                    held: None,
                    rest,
                })));
            }
            Begin::Look(first) => first,
        };
        let asked = this.asked.take().expect("it was asked about above");
        match inspection::look(response, first, asked, this.settings.clone(), cx) {
            Step::Done(result) => Poll::Ready(result),
            Step::More(inspection) => this.inspection.insert(inspection).poll(cx),
        }
    }
}

impl<F, R: Body> std::fmt::Debug for ResponseFuture<F, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
