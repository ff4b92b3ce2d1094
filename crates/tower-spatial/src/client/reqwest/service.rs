use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use reqwest::{Client, ClientBuilder};
use tower::BoxError;
use tower_service::Service;

use super::{ResponseFuture, body::SyncBody};

/// A [`reqwest::Client`] as a `Service<http::Request<B>>`. Clones share the connections.
///
/// Its error is a [`reqwest::Error`] without the URL, so that none of its Display, Debug and sources prints a key. Where
/// a source holds a URL that cannot be taken away (reqwest's own refusal of a redirect), an error without sources takes its
/// place.
#[derive(Clone, Debug)]
pub struct ReqwestClient {
    client: Client,
}

impl ReqwestClient {
    /// Builds a client whose own retry and redirects are off; all else is as `builder` says.
    ///
    /// ```
    /// use tower_spatial::client::reqwest::ReqwestClient;
    ///
    /// let client = ReqwestClient::build(reqwest::Client::builder().user_agent("tiles/1.0"))?;
    /// # Ok::<(), reqwest::Error>(())
    /// ```
    ///
    /// # Errors
    /// What reqwest's builder says: TLS that cannot be set up, a header that is none.
    pub fn build(builder: ClientBuilder) -> reqwest::Result<Self> {
        let client = builder
            .retry(reqwest::retry::never())
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self { client })
    }
}

/// A client with its own retry, redirects and all else as it has them.
impl From<Client> for ReqwestClient {
    fn from(client: Client) -> Self {
        Self { client }
    }
}

impl<B> Service<Request<B>> for ReqwestClient
where
    B: Body + Send + 'static,
    B::Data: Into<Bytes>,
    B::Error: Into<BoxError>,
{
    type Response = Response<reqwest::Body>;
    type Error = BoxError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.client.poll_ready(cx).map_err(ResponseFuture::strip)
    }

    fn call(&mut self, request: Request<B>) -> ResponseFuture {
        let request = request.map(|body| {
            if body.is_end_stream() {
                reqwest::Body::default()
            } else {
                reqwest::Body::wrap(SyncBody::new(body))
            }
        });
        match reqwest::Request::try_from(request) {
            Ok(request) => ResponseFuture::sent(self.client.call(request)),
            Err(error) => ResponseFuture::failed(error),
        }
    }
}
