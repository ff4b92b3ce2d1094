//! The layers over reqwest: `cargo run -p examples --example reqwest_client`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use flaky_ogc::{Exception, Fault, Form, Script, Server};
use http::{Request, header};
use http_body_util::Empty;
use tower::{BoxError, ServiceBuilder, ServiceExt, retry::RetryLayer};
use tower_spatial::{
    ConcurrencyLimitLayer,
    call::Cause,
    client::reqwest::ReqwestClient,
    exception::ServiceExceptionLayer,
    find,
    retry::{GaveUp, RetryPolicy},
};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let timeout = Exception::new(Form::Ows11, "Connection timed out").code("NoApplicableCode");
    let faults = [Fault::reset(), Fault::exception(timeout)];
    // Who does not say who he is gets nothing.
    let nameless = |asked: &flaky_ogc::Asked| {
        let agent = asked.headers.get(header::USER_AGENT);
        agent.is_none_or(|agent| agent != AGENT)
    };
    let script = Script::default().first(faults);
    let server = Server::start(script.when(nameless, Fault::status(403))).await?;

    // All that reqwest's builder offers stays; its own repeats and redirects are switched off.
    let builder = reqwest::Client::builder()
        .user_agent(AGENT)
        .no_proxy()
        .connect_timeout(Duration::from_secs(10))
        .read_timeout(Duration::from_secs(60));
    // In earnest: RetryPolicy::default(), with a base of 1 s and a budget of 600 s.
    let policy = RetryPolicy::builder()
        .base(Duration::from_millis(10))
        .budget(Duration::from_secs(30))
        .attempts(4)
        .build()?;
    let client = ServiceBuilder::new()
        .layer(RetryLayer::new(policy))
        .layer(ConcurrencyLimitLayer::per_host(16))
        .timeout(Duration::from_secs(60))
        .layer(ServiceExceptionLayer::new())
        .service(ReqwestClient::build(builder)?);

    let url = format!(
        "{}/wfs?SERVICE=WFS&VERSION=2.0.0&REQUEST=GetFeature&TYPENAMES=places&COUNT=5\
         &OUTPUTFORMAT=application/json&token={KEY}",
        server.url()
    );
    let request = Request::get(&url).body(Empty::<Bytes>::new())?;
    let response = client.clone().oneshot(request).await?;
    // reqwest's own response, for `text()`, `json()` and the like.
    let response = reqwest::Response::from(response.map(reqwest::Body::wrap));
    let text = response.text().await?;
    assert!(text.contains("\"numberReturned\":5"), "{text}");
    assert_eq!(server.counts().requests, 3);
    println!("five places at the third attempt");

    // The server goes away. What is told of it holds no key; reqwest's own error would print the URL.
    server.shutdown().await;
    let request = Request::get(&url).body(Empty::<Bytes>::new())?;
    let Err(error) = client.oneshot(request).await else {
        return Err("nobody is there".into());
    };
    let gave_up = find::<GaveUp>(&error).ok_or("four attempts were made")?;
    assert_eq!(gave_up.attempts().len(), 4);
    assert_eq!(gave_up.attempts()[3].cause(), &Cause::Refused);
    let mut next: Option<&(dyn Error + 'static)> = Some(&*error);
    while let Some(error) = next {
        let told = format!("{error} {error:?}");
        assert!(!told.contains(KEY), "{told}");
        next = error.source();
    }
    println!("then: {error}");
    Ok(())
}

const AGENT: &str = "places/1.0 (places@example.org)";
const KEY: &str = "S3cretKey";
