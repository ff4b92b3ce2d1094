use std::{
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use reqwest::Client;
use tower::BoxError;
use tower_service::Service;

use crate::call::chain;

pin_project_lite::pin_project! {
    /// The answer to come.
    pub struct ResponseFuture {
        #[pin]
        state: State,
    }
}

pin_project_lite::pin_project! {
    #[project = StateProjection]
    enum State {
        Sent { #[pin] pending: Pending },
        Failed { error: Option<reqwest::Error> },
    }
}

type Pending = <Client as Service<reqwest::Request>>::Future;

impl ResponseFuture {
    pub(super) fn sent(pending: Pending) -> Self {
        Self {
            state: State::Sent { pending },
        }
    }

    pub(super) fn failed(error: reqwest::Error) -> Self {
        let error = Some(error);
        Self {
            state: State::Failed { error },
        }
    }

    /// The error without any URL.
    pub(super) fn strip(error: reqwest::Error) -> BoxError {
        let error = error.without_url();
        let holds_url = |source: &(dyn Error + 'static)| {
            let nested = source.downcast_ref::<reqwest::Error>();
            nested.is_some_and(|nested| nested.url().is_some())
        };
        if chain(&error).any(holds_url) {
            Box::new(Unspeakable(error.to_string()))
        } else {
            Box::new(error)
        }
    }
}

impl Future for ResponseFuture {
    type Output = Result<Response<reqwest::Body>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match self.project().state.project() {
            StateProjection::Sent { pending } => ready!(pending.poll(cx)).map(Response::from),
            StateProjection::Failed { error } => {
                Err(error.take().expect("a future is not polled after its end"))
            }
        };
        Poll::Ready(result.map_err(Self::strip))
    }
}

impl fmt::Debug for ResponseFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // reqwest's future prints the URL.
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}

/// What is left of an error that has a URL among its sources: its own words.
#[derive(Debug)]
struct Unspeakable(String);

impl fmt::Display for Unspeakable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Unspeakable {}
