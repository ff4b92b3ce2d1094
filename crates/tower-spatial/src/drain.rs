//! Reads the rest of an answer that nobody wants, so that its connection can be used again.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Buf;
use http_body::Body;
use tokio::time::{Duration, Sleep, sleep};

/// An HTTP/1 connection is lost with a body that is dropped before its end; another handshake costs the server more
/// than a few kilobytes. Past these bounds the connection is the cheaper loss.
const MAX_BYTES: usize = 64 * 1024;
const MAX_TIME: Duration = Duration::from_millis(100);

pin_project_lite::pin_project! {
    /// Done when the body has ended or failed, or when it has taken its bytes or its time; the body is dropped then.
    pub(crate) struct Drain<R> {
        body: Option<R>,
        left: usize,
        #[pin]
        time: Sleep,
    }
}

impl<R> Drain<R> {
    /// Drains `body`, which came with `version`; nothing where that saves no connection.
    pub(crate) fn new(body: R, version: http::Version) -> Option<Self>
    where
        R: Body,
    {
        // HTTP/2 resets the one stream and keeps the connection.
        if version >= http::Version::HTTP_2 || body.is_end_stream() {
            return None;
        }
        if body.size_hint().lower() > MAX_BYTES as u64 {
            return None;
        }
        Some(Self {
            body: Some(body),
            left: MAX_BYTES,
            time: sleep(MAX_TIME),
        })
    }
}

impl<R: Body + Unpin> Future for Drain<R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        while let Some(body) = this.body {
            match Pin::new(body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let bytes = frame.data_ref().map_or(0, Buf::remaining);
                    // An empty frame counts too: a body of those would never end.
                    let bytes = bytes.max(1);
                    if bytes > *this.left {
                        *this.body = None;
                        break;
                    }
                    *this.left -= bytes;
                }
                Poll::Ready(Some(Err(_)) | None) => {
                    *this.body = None;
                    break;
                }
                Poll::Pending => {
                    ready!(this.time.poll(cx));
                    *this.body = None;
                    break;
                }
            }
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, convert::Infallible};

    use bytes::Bytes;
    use http_body::Frame;
    use http_body_util::Full;
    use tokio::time::Instant;

    use super::*;

    /// A body that gives what it is told to, then stays pending for ever.
    #[derive(Default)]
    struct Scripted(VecDeque<Frame<Bytes>>);

    impl Body for Scripted {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            self.0
                .pop_front()
                .map_or(Poll::Pending, |frame| Poll::Ready(Some(Ok(frame))))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_is_let_go_after_its_time() {
        let start = Instant::now();
        let body = Scripted([Frame::data(Bytes::from_static(b"late"))].into());
        Drain::new(body, http::Version::HTTP_11).unwrap().await;
        assert_eq!(start.elapsed(), MAX_TIME);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_stop_is_let_go_after_its_bytes() {
        let start = Instant::now();
        let endless = (0..1_000).map(|_| Frame::data(Bytes::from_static(&[0; 1024])));
        Drain::new(Scripted(endless.collect()), http::Version::HTTP_11)
            .unwrap()
            .await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn what_cannot_save_a_connection_is_not_drained() {
        let of = |bytes: usize| Full::new(Bytes::from(vec![0; bytes]));
        assert!(Drain::new(of(9), http::Version::HTTP_2).is_none());
        assert!(Drain::new(of(0), http::Version::HTTP_11).is_none());
        assert!(Drain::new(of(MAX_BYTES + 1), http::Version::HTTP_11).is_none());
        assert!(Drain::new(of(MAX_BYTES), http::Version::HTTP_11).is_some());
    }
}
