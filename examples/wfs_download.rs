//! All features of one WFS type, page by page: `cargo run -p examples --example wfs_download`.
//!
//! A page is read, parsed and counted inside the retry. So a body that is cut, even where its framing ends well, is one
//! more failed attempt, and what leaves the retry is whole.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use flaky_ogc::{Cut, Exception, Fault, Form, Script, Server};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use serde_json::Value;
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    ConcurrencyLimitLayer, call::Verdict, client::hyper::ClientBuilder,
    exception::ServiceExceptionLayer, retry::RetryPolicy,
};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // What happens to the first requests of a thousand features in pages of 300.
    let gone = Exception::new(
        Form::Ows11,
        "could not connect to server: Connection refused",
    )
    .code("NoApplicableCode");
    let script = Script::default().features(1_000).first([
        Fault::status(503),
        Fault::delivery().cut_after(9_000, Cut::Close),
        Fault::delivery().chunked().cut_after(9_000, Cut::CleanEnd),
        Fault::exception(gone),
    ]);
    let server = Server::start(script).await?;

    // In earnest: RetryPolicy::batch(), with a base of 1 s and a budget of 1 800 s.
    let policy = RetryPolicy::builder()
        .base(Duration::from_millis(10))
        .budget(Duration::from_secs(30))
        .classify_error(|error| error.is::<Incomplete>().then_some(Verdict::Transient))
        .build()?;
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .and_then(Page::read)
        // Held until the page is read.
        .layer(ConcurrencyLimitLayer::per_host(4))
        .timeout(Duration::from_secs(60))
        .layer(ServiceExceptionLayer::new())
        .map_err(BoxError::from)
        .service(ClientBuilder::new().build()?);

    let mut features: Vec<Value> = Vec::new();
    let mut pages = 0;
    loop {
        let url = format!(
            "{}/wfs?SERVICE=WFS&VERSION=2.0.0&REQUEST=GetFeature&TYPENAMES=places&COUNT={PAGE}&STARTINDEX={}\
             &OUTPUTFORMAT=application/json",
            server.url(),
            features.len()
        );
        let request = Request::get(url).body(Empty::<Bytes>::new())?;
        let mut response = client.clone().oneshot(request).await?;
        let page = response.extensions_mut().remove::<Arc<Page>>();
        let page = page.ok_or_else(|| format!("no page, but {}", response.status()))?;
        pages += 1;
        features.extend(page.features.iter().cloned());
        if page.features.is_empty() || features.len() as u64 >= page.matched {
            break;
        }
    }

    let ids = features.iter().map(|feature| feature["id"].as_str());
    let expected: Vec<_> = (0..1_000).map(|index| format!("places.{index}")).collect();
    assert!(
        ids.eq(expected.iter().map(|id| Some(id.as_str()))),
        "each once, in order"
    );
    let counts = server.shutdown().await;
    assert_eq!((pages, counts.requests), (4, 4 + 4));
    println!(
        "{} features in {pages} pages and {} requests",
        features.len(),
        counts.requests
    );
    Ok(())
}

/// One page, whole.
#[derive(Debug)]
struct Page {
    matched: u64,
    features: Vec<Value>,
}

impl Page {
    /// Reads the body of a good answer to its end, and leaves the page among the extensions.
    async fn read<B>(response: Response<B>) -> Result<Response<Full<Bytes>>, BoxError>
    where
        B: BodyExt<Data = Bytes, Error: Into<BoxError>>,
    {
        let (mut head, body) = response.into_parts();
        let body = body.collect().await.map_err(Into::into)?.to_bytes();
        if head.status.is_success() {
            head.extensions.insert(Arc::new(Self::parse(&body)?));
        }
        Ok(Response::from_parts(head, Full::new(body)))
    }

    fn parse(body: &[u8]) -> Result<Self, Incomplete> {
        let mut page: Value =
            serde_json::from_slice(body).map_err(|_| Incomplete("a document without its end"))?;
        let number = |name: &str| page[name].as_u64();
        let (returned, matched) = (number("numberReturned"), number("numberMatched"));
        let Value::Array(features) = page["features"].take() else {
            return Err(Incomplete("no features"));
        };
        if returned != Some(features.len() as u64) {
            return Err(Incomplete("not as many features as numberReturned says"));
        }
        let matched = matched.ok_or(Incomplete("no numberMatched"))?;
        Ok(Self { matched, features })
    }
}

/// A page that came with fewer features than it should have.
#[derive(Debug)]
struct Incomplete(&'static str);

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Incomplete {}

const PAGE: u64 = 300;
