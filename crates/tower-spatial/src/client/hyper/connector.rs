use std::{
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::{BoxError, timeout::Timeout};
use tower_service::Service;

/// Connects with or without TLS within one time limit.
#[derive(Clone)]
pub struct Connector {
    inner: Timeout<HttpsConnector<HttpConnector>>,
}

impl Connector {
    /// Connects within `timeout`; the protocols that `tls` announces (ALPN) are replaced by HTTP/2 and HTTP/1.1, or by
    /// HTTP/2 alone.
    pub(super) fn new(mut tls: ClientConfig, timeout: Duration, only_http2: bool) -> Self {
        // hyper-rustls panics where they are set.
        tls.alpn_protocols.clear();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        // Shares the time between a host's addresses, so that a dead one does not use up that of the others.
        http.set_connect_timeout(Some(timeout));
        let builder = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http();
        let https = if only_http2 {
            builder.enable_http2().wrap_connector(http)
        } else {
            builder.enable_all_versions().wrap_connector(http)
        };
        Self {
            inner: Timeout::new(https, timeout),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    // hyper-util wants it Unpin, which a timer is not; one allocation a connection.
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.inner.call(uri))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
