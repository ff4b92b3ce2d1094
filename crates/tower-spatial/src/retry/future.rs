use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Response;
use http_body::Body;
use tokio::time::{Sleep, sleep};

use crate::drain::Drain;

/// The sleep before a repeat, during which the failed answer is read to its end within narrow bounds.
///
/// It takes as long as the longer of the two.
// Boxed: it would make tower's future larger, which moves on every call, also where nothing fails.
pub struct RetryFuture<R> {
    parts: Pin<Box<Parts<R>>>,
}

pin_project_lite::pin_project! {
    struct Parts<R> {
        #[pin]
        drain: Option<Drain<R>>,
        #[pin]
        sleep: Sleep,
    }
}

impl<R: Body + Unpin> RetryFuture<R> {
    pub(super) fn new(delay: Duration, failed: Option<Response<R>>) -> Self {
        let drain = failed.and_then(|response| {
            let version = response.version();
            Drain::new(response.into_body(), version)
        });
        Self {
            parts: Box::pin(Parts {
                drain,
                sleep: sleep(delay),
            }),
        }
    }
}

impl<R: Body + Unpin> Future for RetryFuture<R> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut parts = self.parts.as_mut().project();
        if let Some(drain) = parts.drain.as_mut().as_pin_mut()
            && drain.poll(cx).is_ready()
        {
            parts.drain.set(None);
        }
        match parts.sleep.poll(cx) {
            Poll::Ready(()) if parts.drain.is_none() => Poll::Ready(()),
            _ => Poll::Pending,
        }
    }
}

impl<R> std::fmt::Debug for RetryFuture<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetryFuture").finish_non_exhaustive()
    }
}
