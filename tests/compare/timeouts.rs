//! What a timeout looks like from outside.

use std::time::Duration;

use http::StatusCode;
use http_body::Body;
use tower::{BoxError, Layer, ServiceBuilder, ServiceExt, timeout::error::Elapsed};
use tower_http::timeout::{ResponseBodyTimeoutLayer, TimeoutLayer};
use tower_spatial::{ConcurrencyLimitLayer, exception::ServiceExceptionLayer, find};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_timeout_is_an_error_or_looks_like_an_answer() {
    let hangs = || {
        tower::service_fn(async |_: Asked| {
            std::future::pending::<()>().await;
            Ok::<_, BoxError>(answer(200, ""))
        })
    };
    let limit = Duration::from_secs(1);

    let tower = ServiceBuilder::new().timeout(limit).service(hangs());
    let error = tower.oneshot(get(IN_MEMORY)).await.unwrap_err();
    assert!(find::<Elapsed>(&error).is_some());

    // Nothing tells it from a gateway's own answer.
    let status = StatusCode::GATEWAY_TIMEOUT;
    let tower_http = TimeoutLayer::with_status_code(status, limit).layer(hangs());
    let response = tower_http.oneshot(get(IN_MEMORY)).await.unwrap();
    assert_eq!(response.status(), status);
    assert!(response.headers().is_empty());
}

#[tokio::test]
async fn the_length_of_a_wrapped_body_is_hidden_or_kept() {
    let memory = || Memory::new(|_| answer(200, "GIF89a, an image"));
    let tower_http = ResponseBodyTimeoutLayer::new(Duration::from_secs(1)).layer(memory());
    let response = tower_http.oneshot(get(IN_MEMORY)).await.unwrap();
    assert_eq!(response.body().size_hint().exact(), None);

    let ours = ServiceBuilder::new()
        .layer(ConcurrencyLimitLayer::per_host(1))
        .layer(ServiceExceptionLayer::new())
        .service(memory());
    let response = ours.oneshot(get(IN_MEMORY)).await.unwrap();
    assert_eq!(response.body().size_hint().exact(), Some(16));
}
