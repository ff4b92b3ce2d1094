//! Circuit breakers.

use std::time::Duration;

use http_body_util::BodyExt;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};
use tower_resilience::circuitbreaker::CircuitBreakerLayer;

use crate::support::*;

#[tokio::test]
async fn tower_resiliences_count_window_does_not_slide() {
    // Opens where at least half of ten calls fail: so it says.
    let breaker = CircuitBreakerLayer::builder()
        .sliding_window_size(10)
        .failure_rate_threshold(0.5)
        .failure_classifier(|result: &Result<Answered, BoxError>| {
            result
                .as_ref()
                .map_or(true, |answer| answer.status().is_server_error())
        })
        .build()
        .unwrap();
    let memory = Memory::new(|call| answer(if call < 1_000 { 200 } else { 503 }, ""));
    let mut service = ServiceBuilder::new().layer(breaker).service(memory.clone());
    let mut answered = 0;
    while answered < 5_000 {
        let service = service.ready().await.unwrap();
        if service.call(get(IN_MEMORY)).await.is_err() {
            break;
        }
        answered += 1;
    }
    // A thousand good answers, long ago, are weighed against each failure.
    assert_eq!(answered, 2_000);
    assert_eq!(memory.calls().len(), 2_000);
}

#[tokio::test(start_paused = true)]
async fn ours_counts_the_failures_in_a_row() {
    let memory = Memory::new(|call| answer(if call < 1_000 { 200 } else { 503 }, ""));
    let breaker = tower_spatial::CircuitBreakerLayer::per_host();
    let mut service = ServiceBuilder::new().layer(breaker).service(memory.clone());
    let mut answered = 0;
    while answered < 5_000 {
        let service = service.ready().await.unwrap();
        let answer = service.call(get(IN_MEMORY)).await;
        tokio::time::advance(Duration::from_secs(1)).await;
        match answer {
            Ok(answer) => drop(answer.into_body().collect().await.unwrap()),
            Err(refused) => {
                assert!(tower_spatial::find::<tower_spatial::CircuitOpen>(&refused).is_some());
                break;
            }
        }
        answered += 1;
    }
    assert_eq!(answered, 1_005);
    assert_eq!(memory.calls().len(), 1_005);
}
