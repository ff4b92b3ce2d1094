use std::{error::Error, fmt, sync::Arc, time::Duration};

use http_body::Body;
use hyper_rustls::ConfigBuilderExt;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, crypto::ring};
use tower::BoxError;

use super::{Client, Connector};
use crate::Endpoints;

/// Sets the numbers of a [`Client`].
///
/// ```
/// use std::time::Duration;
/// use bytes::Bytes;
/// use http_body_util::Full;
/// use tower_spatial::client::hyper::{Client, ClientBuilder};
///
/// let client: Client<Full<Bytes>> = ClientBuilder::new()
///     .connect_timeout(Duration::from_secs(5))
///     .pool_max_idle_per_host(4)
///     .build()?;
/// let error = ClientBuilder::new().http2_connection_window(100_000).build::<Full<Bytes>>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "client: http2_connection_window 100000 is smaller than http2_stream_window 1048576"
/// );
/// # Ok::<(), tower_spatial::client::hyper::InvalidClient>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct ClientBuilder {
    connect_timeout: Duration,
    endpoints: Option<Endpoints>,
    pool_idle_timeout: Duration,
    pool_max_idle_per_host: usize,
    http2_only: bool,
    http2_keep_alive_interval: Duration,
    http2_keep_alive_timeout: Duration,
    http2_stream_window: u32,
    http2_connection_window: u32,
    tls: Option<ClientConfig>,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            endpoints: None,
            pool_idle_timeout: Duration::from_secs(60),
            pool_max_idle_per_host: 16,
            http2_only: false,
            http2_keep_alive_interval: Duration::from_secs(20),
            http2_keep_alive_timeout: Duration::from_secs(10),
            http2_stream_window: 1 << 20,
            http2_connection_window: 64 << 20,
            tls: None,
        }
    }
}

impl ClientBuilder {
    /// The defaults, which stand at each setting.
    pub fn new() -> Self {
        Self::default()
    }

    /// The longest time until a connection stands: the name is resolved, TCP and TLS are established. Default 10 s;
    /// above zero.
    pub fn connect_timeout(self, connect_timeout: Duration) -> Self {
        Self {
            connect_timeout,
            ..self
        }
    }

    /// Endpoints whose own [`connect_timeout`](crate::EndpointSettings::connect_timeout) holds for their hosts. A connection
    /// is made to a host: an endpoint that only a path or a name tells from others has none of its own.
    pub fn endpoints(self, endpoints: Endpoints) -> Self {
        Self {
            endpoints: Some(endpoints),
            ..self
        }
    }

    /// How long a connection is kept for the next request. Default 60 s; above zero.
    ///
    /// Shorter than the server's own keep-alive (nginx 75 s), since a request on a connection that the server closes just
    /// then is lost.
    pub fn pool_idle_timeout(self, pool_idle_timeout: Duration) -> Self {
        Self {
            pool_idle_timeout,
            ..self
        }
    }

    /// How many idle connections are kept for one host. Default 16, as many as the default limit lets be in use; 0 keeps
    /// none.
    pub fn pool_max_idle_per_host(self, pool_max_idle_per_host: usize) -> Self {
        Self {
            pool_max_idle_per_host,
            ..self
        }
    }

    /// Speaks HTTP/2 only, also without TLS and without asking the server (RFC 9113 section 3.3). Default false: HTTP/2
    /// where the server offers it over TLS, else HTTP/1.1.
    pub fn http2_only(self, http2_only: bool) -> Self {
        Self { http2_only, ..self }
    }

    /// How long a server may be silent on an HTTP/2 connection with a request outstanding before it is sent a PING.
    /// Default 20 s; above zero.
    pub fn http2_keep_alive_interval(self, http2_keep_alive_interval: Duration) -> Self {
        Self {
            http2_keep_alive_interval,
            ..self
        }
    }

    /// How long the server has to answer that PING before the connection counts as dead. Default 10 s; above zero.
    pub fn http2_keep_alive_timeout(self, http2_keep_alive_timeout: Duration) -> Self {
        Self {
            http2_keep_alive_timeout,
            ..self
        }
    }

    /// How many bytes of one answer the server may send before they are read. Default 1 MiB; 65 535 to 2^31 - 1.
    ///
    /// A single answer comes at no more than this in each round trip: 10 MB/s at 100 ms.
    pub fn http2_stream_window(self, http2_stream_window: u32) -> Self {
        Self {
            http2_stream_window,
            ..self
        }
    }

    /// How many bytes of all answers of one connection may be there unread, and with it the memory they take. Default
    /// 64 MiB; [`http2_stream_window`](Self::http2_stream_window) to 2^31 - 1.
    ///
    /// Where it is full, no answer's bytes come on that connection any more, and so no head through a
    /// [`ServiceExceptionLayer`](crate::exception::ServiceExceptionLayer), which waits for the first of them. Divided by
    /// the stream window it is the number of answers that nobody need read.
    pub fn http2_connection_window(self, http2_connection_window: u32) -> Self {
        Self {
            http2_connection_window,
            ..self
        }
    }

    /// The TLS settings: another set of root certificates, a client certificate. Default: rustls with ring and the root
    /// certificates that the machine trusts.
    ///
    /// Protocol names (ALPN) in it are replaced.
    pub fn tls(self, tls: ClientConfig) -> Self {
        Self {
            tls: Some(tls),
            ..self
        }
    }

    /// The client. Reads the machine's root certificates from disk where no [`tls`](Self::tls) was given.
    ///
    /// # Errors
    /// Names the setting that makes no sense and what was expected, or says that there are no root certificates.
    pub fn build<B>(self) -> Result<Client<B>, InvalidClient>
    where
        B: Body + Send,
        B::Data: Send,
    {
        self.validate().map_err(InvalidClient)?;
        let tls = match self.tls {
            Some(tls) => tls,
            None => native().map_err(|error| InvalidClient(Kind::Roots(error)))?,
        };
        let (timeout, endpoints) = (self.connect_timeout, self.endpoints);
        let connector = Connector::new(tls, timeout, endpoints, self.http2_only);
        Ok(
            hyper_util::client::legacy::Client::builder(TokioExecutor::new())
                .timer(TokioTimer::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(self.pool_idle_timeout)
                .pool_max_idle_per_host(self.pool_max_idle_per_host)
                .http2_only(self.http2_only)
                .http2_keep_alive_interval(self.http2_keep_alive_interval)
                .http2_keep_alive_timeout(self.http2_keep_alive_timeout)
                .http2_initial_stream_window_size(self.http2_stream_window)
                .http2_initial_connection_window_size(self.http2_connection_window)
                .build(connector),
        )
    }

    fn validate(&self) -> Result<(), Kind> {
        let durations = [
            ("connect_timeout", self.connect_timeout),
            ("pool_idle_timeout", self.pool_idle_timeout),
            ("http2_keep_alive_interval", self.http2_keep_alive_interval),
            ("http2_keep_alive_timeout", self.http2_keep_alive_timeout),
        ];
        if let Some((setting, _)) = durations.iter().find(|(_, value)| value.is_zero()) {
            return Err(Kind::Zero { setting });
        }
        let (stream, connection) = (self.http2_stream_window, self.http2_connection_window);
        for (setting, bytes) in [
            ("http2_stream_window", stream),
            ("http2_connection_window", connection),
        ] {
            if !(MIN_WINDOW..=MAX_WINDOW).contains(&bytes) {
                return Err(Kind::Window { setting, bytes });
            }
        }
        if connection < stream {
            return Err(Kind::Windows { stream, connection });
        }
        Ok(())
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the TLS settings, which can hold a client's key.
        f.debug_struct("ClientBuilder")
            .field("connect_timeout", &self.connect_timeout)
            .field("pool_idle_timeout", &self.pool_idle_timeout)
            .field("pool_max_idle_per_host", &self.pool_max_idle_per_host)
            .field("http2_only", &self.http2_only)
            .field("http2_keep_alive_interval", &self.http2_keep_alive_interval)
            .field("http2_keep_alive_timeout", &self.http2_keep_alive_timeout)
            .field("http2_stream_window", &self.http2_stream_window)
            .field("http2_connection_window", &self.http2_connection_window)
            .finish_non_exhaustive()
    }
}

/// rustls with ring, whatever other provider another crate has brought in, and the machine's root certificates.
fn native() -> Result<ClientConfig, BoxError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_native_roots()?;
    Ok(builder.with_no_client_auth())
}

/// A setting of a [`ClientBuilder`] that makes no sense, or a machine without root certificates.
#[derive(Debug)]
pub struct InvalidClient(Kind);

#[derive(Debug)]
enum Kind {
    Zero { setting: &'static str },
    Window { setting: &'static str, bytes: u32 },
    Windows { stream: u32, connection: u32 },
    Roots(BoxError),
}

impl fmt::Display for InvalidClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("client: ")?;
        match &self.0 {
            Kind::Zero { setting } => write!(f, "{setting} is zero, expected more"),
            Kind::Window { setting, bytes } => {
                write!(
                    f,
                    "{setting} is {bytes}, expected {MIN_WINDOW} to {MAX_WINDOW}"
                )
            }
            Kind::Windows { stream, connection } => write!(
                f,
                "http2_connection_window {connection} is smaller than http2_stream_window {stream}"
            ),
            Kind::Roots(error) => write!(
                f,
                "{error}; install the machine's (Debian package ca-certificates) or give TLS settings"
            ),
        }
    }
}

impl Error for InvalidClient {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0 {
            Kind::Roots(error) => Some(error.as_ref()),
            Kind::Zero { .. } | Kind::Window { .. } | Kind::Windows { .. } => None,
        }
    }
}

/// RFC 9113 section 6.9.2: what a connection begins with, and the most there can be.
const MIN_WINDOW: u32 = 65_535;
const MAX_WINDOW: u32 = (1 << 31) - 1;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::Empty;

    use super::*;

    fn error(builder: ClientBuilder) -> String {
        builder.build::<Empty<Bytes>>().unwrap_err().to_string()
    }

    #[test]
    fn a_setting_that_makes_no_sense_is_named() {
        let zero = Duration::ZERO;
        let new = ClientBuilder::new;
        for (builder, setting) in [
            (new().connect_timeout(zero), "connect_timeout"),
            (new().pool_idle_timeout(zero), "pool_idle_timeout"),
            (
                new().http2_keep_alive_interval(zero),
                "http2_keep_alive_interval",
            ),
            (
                new().http2_keep_alive_timeout(zero),
                "http2_keep_alive_timeout",
            ),
        ] {
            assert_eq!(
                error(builder),
                format!("client: {setting} is zero, expected more")
            );
        }
        assert_eq!(
            error(new().http2_stream_window(65_534)),
            "client: http2_stream_window is 65534, expected 65535 to 2147483647"
        );
        assert_eq!(
            error(new().http2_connection_window(u32::MAX)),
            "client: http2_connection_window is 4294967295, expected 65535 to 2147483647"
        );
    }
}
