use std::{
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{runtime::Handle, task::JoinHandle};

/// File I/O on a thread that may block: a write goes to the page cache in microseconds, but waits for the disk once the
/// kernel has too many dirty pages, and a temporary directory may lie on a network.
pub(super) enum Task<T> {
    Running(JoinHandle<io::Result<T>>),
    /// Done at once, since there is no runtime to do it elsewhere; `None` once it was taken.
    Done(Option<io::Result<T>>),
}

impl<T: Send + 'static> Task<T> {
    pub(super) fn new(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> Self {
        match Handle::try_current() {
            Ok(runtime) => Self::Running(runtime.spawn_blocking(work)),
            Err(_) => Self::Done(Some(work())),
        }
    }
}

impl<T> Future for Task<T> {
    type Output = io::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        Poll::Ready(match &mut *self {
            Self::Running(handle) => match ready!(Pin::new(handle).poll(cx)) {
                Ok(result) => result,
                // The runtime is going away.
                Err(error) => Err(io::Error::other(error)),
            },
            Self::Done(result) => match result.take() {
                Some(result) => result,
                None => Err(io::Error::other("polled after its end")),
            },
        })
    }
}

impl<T> Unpin for Task<T> {}
