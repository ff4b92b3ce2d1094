use std::future::{Future, pending};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::connection::{Control, Socket, finish};
use crate::counters::Counts;
use crate::script::Script;
use crate::service::State;

/// A running server. It stops when it is dropped.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// use flaky_ogc::{Script, Server, Tile};
///
/// let server = Server::start(Script::default()).await?;
/// let url = format!("{}/wms?{}", server.url(), Tile::xyz(3, 2, 1).query());
/// assert!(url.starts_with("http://127.0.0.1:"));
/// assert_eq!(server.counts().requests, 0);
/// server.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    state: Arc<State>,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Server {
    /// Starts at a free port of 127.0.0.1, inside a tokio runtime; the script's time begins now.
    ///
    /// # Errors
    ///
    /// Where no port can be bound.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::start_at((Ipv4Addr::LOCALHOST, 0).into(), script).await
    }

    /// Starts at a given address.
    ///
    /// # Errors
    ///
    /// Where it cannot be bound.
    pub async fn start_at(address: SocketAddr, script: Script) -> io::Result<Self> {
        let port = Port::reserve(address)?;
        let listener = port.listen()?;
        let address = port.address;
        let state = State::start(script);
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(serve(port, listener, Arc::clone(&state), stopped));
        Ok(Self {
            address,
            state,
            stop: Some(stop),
            serving,
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Where it listens, as `http://127.0.0.1:1234`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What has reached it so far.
    pub fn counts(&self) -> Counts {
        self.state.counters.snapshot()
    }

    /// Waits for what is to reach it; the counts for which `holds` was true.
    pub async fn until(&self, holds: impl Fn(&Counts) -> bool) -> Counts {
        self.state.counters.until(holds).await
    }

    /// The script's time.
    pub fn elapsed(&self) -> Duration {
        self.state.clock.now()
    }

    /// Stops: closes the port and every connection. Maps in work are not finished. Returns the last counts.
    pub async fn shutdown(mut self) -> Counts {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        let _ = (&mut self.serving).await;
        self.counts()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The connections are in a set inside this task and end with it.
        self.serving.abort();
    }
}

async fn serve(
    port: Port,
    listener: TcpListener,
    state: Arc<State>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    let (outages, _) = watch::channel(0u64);
    let mut renderer = std::pin::pin!(state.renderer.run());
    let mut change = state.script.next_change(Duration::ZERO);
    if !state.script.capacity(Duration::ZERO).up {
        listener = None;
    }
    loop {
        let accept = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => pending().await,
            }
        };
        let changes = async {
            match change {
                Some(at) => tokio::time::sleep_until(state.clock.instant(at)).await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = &mut stopped => return,
            () = &mut renderer => {}
            () = changes => {
                let now = change.unwrap_or_default();
                change = state.script.next_change(now);
                if !state.script.capacity(now).up {
                    listener = None;
                    outages.send_modify(|outage| *outage += 1);
                } else if listener.is_none() {
                    match port.listen() {
                        Ok(again) => listener = Some(again),
                        // Somebody else has the port: tried again soon.
                        Err(_) => change = Some(now + RETRY_LISTEN).into_iter().chain(change).min(),
                    }
                }
            }
            accepted = accept => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&state), outages.subscribe()));
                }
                // Out of file descriptors, or a client that gave up in the backlog.
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, state: Arc<State>, mut outages: watch::Receiver<u64>) {
    struct Open(Arc<State>);
    impl Drop for Open {
        fn drop(&mut self) {
            self.0
                .counters
                .change(|counts| counts.connections_open -= 1);
        }
    }
    state.counters.change(|counts| {
        counts.connections += 1;
        counts.connections_open += 1;
    });
    let _open = Open(Arc::clone(&state));
    // A drip of small parts must not wait for the peer's acknowledgements. Fails only where the peer is gone.
    let _ = stream.set_nodelay(true);
    let stream = Arc::new(stream);
    let (control, mut takeovers) = Control::new(&stream);
    let socket = Socket::new(Arc::clone(&stream), control.clone());
    let streams = Streams::default();
    let takeover = {
        let service = hyper::service::service_fn(|request| {
            Arc::clone(&state).answer(request, control.clone())
        });
        let mut server = auto::Builder::new(streams.clone());
        if let Some(timeout) = state.script.idle_timeout {
            server
                .http1()
                .timer(TokioTimer::new())
                .header_read_timeout(timeout);
        }
        // A hundred workers over one connection must not be told apart from a hundred connections.
        server
            .http2()
            .max_concurrent_streams(1_000)
            .max_local_error_reset_streams(None);
        let serving = server.serve_connection(TokioIo::new(socket), service);
        tokio::select! {
            biased;
            _ = outages.changed() => None,
            takeover = takeovers.recv() => takeover,
            // A client's broken protocol or lost connection is no business of the server's.
            _ = serving => return,
        }
    };
    // Streams hold the socket, too.
    streams.end().await;
    // An error means that the peer is gone already.
    let _ = match takeover {
        Some(takeover) => finish(&stream, takeover, |pause| state.clock.real(pause)).await,
        None => stream.set_zero_linger(),
    };
}

/// The tasks in which hyper runs the streams of an HTTP/2 connection: they end with it, and not when they notice.
#[derive(Clone, Debug, Default)]
struct Streams(Arc<Mutex<JoinSet<()>>>);

impl Streams {
    async fn end(&self) {
        let mut tasks = std::mem::take(&mut *self.lock());
        tasks.shutdown().await;
    }

    fn lock(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let mut tasks = self.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(stream);
    }
}

/// The address, kept while nobody listens: an outage must not lose the port to somebody else.
#[derive(Debug)]
struct Port {
    address: SocketAddr,
    _reserved: Option<TcpSocket>,
}

impl Port {
    fn reserve(address: SocketAddr) -> io::Result<Self> {
        let socket = Self::bind(address)?;
        let address = socket.local_addr()?;
        // Two sockets can be bound to one port while only one of them listens: on Linux, not everywhere.
        Ok(Self {
            address,
            _reserved: cfg!(target_os = "linux").then_some(socket),
        })
    }

    fn listen(&self) -> io::Result<TcpListener> {
        Self::bind(self.address)?.listen(1_024)
    }

    fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
        let socket = if address.is_ipv4() {
            TcpSocket::new_v4()
        } else {
            TcpSocket::new_v6()
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    }
}

/// Script time until the next try to get the port back.
const RETRY_LISTEN: Duration = Duration::from_millis(20);

/// The futures of a connection must be able to move between threads.
const _: fn() = || {
    fn sendable<F: Future + Send>(_: impl Fn(TcpStream, Arc<State>, watch::Receiver<u64>) -> F) {}
    sendable(connection);
};
