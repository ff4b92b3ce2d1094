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
use tower::{BoxError, timeout::error::Elapsed};
use tower_service::Service;

use crate::Endpoints;

/// Connects with or without TLS within one time limit.
#[derive(Clone)]
pub struct Connector {
    inner: HttpsConnector<HttpConnector>,
    timeout: Duration,
    endpoints: Option<Endpoints>,
}

impl Connector {
    /// Connects within `timeout`; the protocols that `tls` announces (ALPN) are replaced by HTTP/2 and HTTP/1.1, or by
    /// HTTP/2 alone.
    pub(super) fn new(
        mut tls: ClientConfig,
        timeout: Duration,
        endpoints: Option<Endpoints>,
        only_http2: bool,
    ) -> Self {
        // hyper-rustls panics where they are set.
        tls.alpn_protocols.clear();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        // Shares the time between a host's addresses, so that a dead one does not use up that of the others. Where hosts
        // have times of their own, the longest: what is over is cut all the same.
        let longest = endpoints.as_ref().map(Endpoints::longest_connect_timeout);
        http.set_connect_timeout(Some(longest.unwrap_or_default().max(timeout)));
        let builder = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http();
        let https = if only_http2 {
            builder.enable_http2().wrap_connector(http)
        } else {
            builder.enable_all_versions().wrap_connector(http)
        };
        Self {
            inner: https,
            timeout,
            endpoints,
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
        let endpoint = self
            .endpoints
            .as_ref()
            .map(|endpoints| endpoints.find(&uri));
        let own = endpoint.and_then(|endpoint| endpoint.settings().timeouts.connect);
        let timeout = own.unwrap_or(self.timeout);
        let connecting = self.inner.call(uri);
        Box::pin(async move {
            match tokio::time::timeout(timeout, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(Elapsed::new().into()),
            }
        })
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}
