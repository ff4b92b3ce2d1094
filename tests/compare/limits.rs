//! Concurrency limits: until when, and for whom.

use std::time::Duration;

use http_body_util::BodyExt;
use tokio::time::timeout;
use tower::{Service, ServiceBuilder, ServiceExt, limit::ConcurrencyLimitLayer};
use tower_resilience::bulkhead::BulkheadLayer;
use tower_spatial::ConcurrencyLimitLayer as PerHost;

use crate::support::*;

/// Of a call that waits for a permit.
const WAITS: Duration = Duration::from_secs(1);

/// Whether, under a limit of one, a second call is answered while nobody has read the first one's answer.
macro_rules! second_beside_an_unread_first {
    ($layer:expr) => {{
        let memory = Memory::new(|_| answer(200, "an image"));
        let service = ServiceBuilder::new().layer($layer).service(memory);
        let ask = |url| {
            let service = service.clone();
            async move { service.oneshot(get(url)).await.unwrap() }
        };
        let first = ask(IN_MEMORY).await;
        let second = timeout(WAITS, ask(IN_MEMORY)).await.is_ok();
        first.into_body().collect().await.unwrap();
        assert!(timeout(WAITS, ask(IN_MEMORY)).await.is_ok());
        second
    }};
}

#[tokio::test(start_paused = true)]
async fn a_permit_lasts_until_the_head_or_until_the_body_has_ended() {
    let bulkhead = BulkheadLayer::builder().max_concurrent_calls(1);
    assert!(second_beside_an_unread_first!(ConcurrencyLimitLayer::new(
        1
    )));
    assert!(second_beside_an_unread_first!(
        bulkhead.backpressure().build().unwrap()
    ));
    assert!(!second_beside_an_unread_first!(PerHost::per_host(1)));
}

/// Whether, under a limit of one, a call to one host is answered while another host's call is on its way.
macro_rules! another_host_beside {
    ($layer:expr) => {{
        let slow = tower::service_fn(async |request: Asked| {
            if request.uri().host() == Some("slow") {
                std::future::pending::<()>().await;
            }
            Ok::<_, tower::BoxError>(answer(200, ""))
        });
        let service = ServiceBuilder::new().layer($layer).service(slow);
        let mut held = service.clone();
        let held = held.ready().await.unwrap().call(get("http://slow/"));
        let mut held = std::pin::pin!(held);
        assert!(timeout(WAITS, &mut held).await.is_err());
        let other = service.clone().oneshot(get("http://quick/"));
        timeout(WAITS, other).await.is_ok()
    }};
}

#[tokio::test(start_paused = true)]
async fn a_slow_host_holds_up_the_others_or_does_not() {
    let bulkhead = BulkheadLayer::builder().max_concurrent_calls(1);
    assert!(!another_host_beside!(ConcurrencyLimitLayer::new(1)));
    assert!(!another_host_beside!(
        bulkhead.backpressure().build().unwrap()
    ));
    assert!(another_host_beside!(PerHost::per_host(1)));
}
