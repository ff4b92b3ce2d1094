//! The socket below hyper. hyper has no way to end a connection between two bytes of an answer, nor to send bytes that
//! are no HTTP: so the socket is shared with the task that serves it, and a fault takes it away from hyper.
//!
//! A body that is to be cut arms the takeover and yields nothing more. hyper then flushes what it has; the flush
//! reaches [`Socket::poll_flush`] only when every byte before it is with the kernel, and that is where the armed takeover
//! fires. The serving task drops hyper's connection, sends what is to be sent, and resets, closes or holds the socket.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::fault::End;

/// Bytes, each after its pause, and an end.
#[derive(Debug)]
pub(crate) struct Takeover {
    pub(crate) parts: Vec<(Duration, Bytes)>,
    pub(crate) end: End,
}

/// How a request's fault reaches the connection it came on.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    stream: Arc<TcpStream>,
    armed: Arc<Mutex<Option<Takeover>>>,
    takeovers: mpsc::UnboundedSender<Takeover>,
}

impl Control {
    pub(crate) fn new(stream: &Arc<TcpStream>) -> (Self, mpsc::UnboundedReceiver<Takeover>) {
        let (takeovers, fired) = mpsc::unbounded_channel();
        (
            Self {
                stream: Arc::clone(stream),
                armed: Arc::default(),
                takeovers,
            },
            fired,
        )
    }

    /// Takes the connection away from hyper now.
    pub(crate) fn take_over(&self, takeover: Takeover) {
        // The serving task is gone only where the connection is, too.
        let _ = self.takeovers.send(takeover);
    }

    /// Takes the connection away from hyper when all that it has written is with the kernel.
    pub(crate) fn arm(&self, takeover: Takeover) {
        *self.lock() = Some(takeover);
    }

    /// Writes bytes at once, past hyper: only while hyper has nothing to write.
    pub(crate) async fn write(&self, bytes: &[u8]) -> io::Result<()> {
        write_all(&self.stream, bytes).await
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Takeover>> {
        self.armed
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Sends the parts and ends the connection, which hyper no longer holds.
pub(crate) async fn finish(
    stream: &TcpStream,
    takeover: Takeover,
    real: impl Fn(Duration) -> Duration,
) -> io::Result<()> {
    for (pause, bytes) in takeover.parts {
        if !pause.is_zero() {
            tokio::time::sleep(real(pause)).await;
        }
        write_all(stream, &bytes).await?;
    }
    match takeover.end {
        End::Reset => stream.set_zero_linger(),
        End::Close => Ok(()),
        End::Hold => read_to_end(stream).await,
    }
}

/// What hyper reads from and writes to.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Arc<TcpStream>,
    control: Control,
}

impl Socket {
    pub(crate) fn new(stream: Arc<TcpStream>, control: Control) -> Self {
        Self { stream, control }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(cx))?;
            match self.stream.try_read(buffer.initialize_unfilled()) {
                Ok(n) => {
                    buffer.advance(n);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            match self.stream.try_write_vectored(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return Poll::Ready(other),
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let armed = self.control.lock().take();
        if let Some(takeover) = armed {
            self.control.take_over(takeover);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper drops the socket next, and the kernel sends the FIN then: the task's own share of it goes with the task.
        Poll::Ready(Ok(()))
    }
}

async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

async fn read_to_end(stream: &TcpStream) -> io::Result<()> {
    let mut ignored = [0; 1024];
    loop {
        stream.readable().await?;
        match stream.try_read(&mut ignored) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
