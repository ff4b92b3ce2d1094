//! When a repeat is sent.

use std::time::{Duration, SystemTime};

use flaky_ogc::Fault;
use reqwest_retry::{Jitter, RetryDecision, policies::ExponentialBackoff};
use tokio::time::Instant;
use tower::{
    Layer, ServiceBuilder, ServiceExt,
    retry::{
        RetryLayer,
        backoff::{Backoff, ExponentialBackoffMaker, MakeBackoff},
        budget::{Budget, TpsBudget},
    },
    util::rng::HasherRng,
};
use tower_resilience::retry::{ExponentialBackoff as Exponential, IntervalFunction};
use tower_spatial::retry::{GaveUp, RetryPolicy, StopReason};

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn two_sessions_wait_the_same_times_or_different_ones() {
    // tower: the maker's generator is cloned with its counter.
    let mut maker =
        ExponentialBackoffMaker::new(SECOND / 10, 60 * SECOND, 0.9, HasherRng::new()).unwrap();
    let mut session = || {
        let mut backoff = maker.make_backoff();
        let mut next = || backoff.next_backoff().deadline() - Instant::now();
        [next(), next(), next()]
    };
    assert_eq!(session(), session());

    // tower-resilience: its exponential backoff draws nothing.
    let resilience = || {
        let backoff = Exponential::new(SECOND);
        [0, 1, 2].map(|attempt| backoff.next_interval(attempt))
    };
    assert_eq!(resilience(), resilience());

    // reqwest-retry: full jitter.
    let policy = ExponentialBackoff::builder().build_with_max_retries(3);
    let middleware = || {
        [0, 1, 2].map(|n| match policy_decides(&policy, n) {
            RetryDecision::Retry { execute_after } => execute_after
                .duration_since(SystemTime::now())
                .unwrap_or_default(),
            RetryDecision::DoNotRetry => unreachable!("at most three"),
        })
    };
    let differ = (0..10).any(|_| {
        let (one, other) = (middleware(), middleware());
        let apart = one[2].abs_diff(other[2]);
        apart > Duration::from_millis(50)
    });
    assert!(differ);

    let mut sessions = Vec::new();
    for _ in 0..2 {
        let memory = Memory::new(|call| answer(if call < 3 { 503 } else { 200 }, ""));
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryPolicy::default()))
            .service(memory.clone());
        service.oneshot(get(IN_MEMORY)).await.unwrap();
        sessions.push(memory.pauses());
    }
    assert_ne!(sessions[0], sessions[1]);
}

fn policy_decides(policy: &impl reqwest_retry::RetryPolicy, n: u32) -> RetryDecision {
    policy.should_retry(SystemTime::now(), n)
}

#[tokio::test(start_paused = true)]
async fn jitter_of_whole_seconds_is_lost_or_kept() {
    let mut maker =
        ExponentialBackoffMaker::new(SECOND, 60 * SECOND, 0.99, HasherRng::new()).unwrap();
    let mut backoff = maker.make_backoff();
    for _ in 0..3 {
        let delay = backoff.next_backoff().deadline() - Instant::now();
        assert_eq!(delay.subsec_nanos(), 0, "{delay:?}");
    }
    let memory = Memory::new(|call| answer(if call < 3 { 503 } else { 200 }, ""));
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(RetryPolicy::default()))
        .service(memory.clone());
    service.oneshot(get(IN_MEMORY)).await.unwrap();
    assert!(
        memory
            .pauses()
            .iter()
            .any(|delay| delay.subsec_millis() > 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_after_is_waited_for_or_not() {
    let answers = |call| if call == 0 { busy(20) } else { answer(200, "") };

    let memory = Memory::new(answers);
    let tower = RetryLayer::new(Repeats(1)).layer(memory.clone());
    tower.oneshot(get(IN_MEMORY)).await.unwrap();
    assert!(memory.pauses()[0] < SECOND);

    let memory = Memory::new(answers);
    let resilience = ServiceBuilder::new()
        .layer(resilience(2))
        .service(memory.clone());
    resilience.oneshot(get(IN_MEMORY)).await.unwrap();
    assert!(memory.pauses()[0] < SECOND);

    let memory = Memory::new(answers);
    let ours = RetryLayer::new(RetryPolicy::default()).layer(memory.clone());
    ours.oneshot(get(IN_MEMORY)).await.unwrap();
    assert!((20 * SECOND..=21 * SECOND + SHORT).contains(&memory.pauses()[0]));
}

#[tokio::test]
async fn a_retry_after_is_not_waited_for_by_reqwest_retry() {
    let script = flaky_ogc::Script::default().first([Fault::status(503).retry_after(20)]);
    let server = start(script).await;
    let asked = middleware(1).get(get_map_url(&server)).send();
    let answered = tokio::time::timeout(10 * SECOND, asked).await;
    let response = answered.expect("sooner than the server asked").unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(server.counts().requests, 2);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_does_not_fit_into_the_budget_is_begun_or_not() {
    // reqwest-retry: five seconds in all, and a pause of ten.
    let policy = ExponentialBackoff::builder()
        .retry_bounds(10 * SECOND, 10 * SECOND)
        .jitter(Jitter::None)
        .build_with_total_retry_duration(5 * SECOND);
    let start = SystemTime::now();
    let RetryDecision::Retry { execute_after } = policy_decides(&policy, 0) else {
        panic!("a retry");
    };
    assert!(execute_after > start + 5 * SECOND);

    // tower-resilience: attempts, no time. Ours: five seconds, and a server that asks for ten.
    let answers = |_| busy(10);
    let memory = Memory::new(answers);
    let policy = RetryPolicy::builder().budget(5 * SECOND).build().unwrap();
    let ours = RetryLayer::new(policy).layer(memory.clone());
    let begun = Instant::now();
    let response = ours.oneshot(get(IN_MEMORY)).await.unwrap();
    let gave_up = response.extensions().get::<GaveUp>().unwrap();
    assert_eq!(gave_up.reason(), StopReason::HintTooLong);
    assert!(begun.elapsed() < SECOND);
    assert_eq!(memory.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn towers_budget_is_a_burst_and_then_nothing() {
    let budget = TpsBudget::default();
    let allowed = (0..1_000).filter(|_| budget.withdraw()).count();
    assert_eq!(allowed, 100);
    tokio::time::advance(9 * SECOND).await;
    assert!(!budget.withdraw());
    tokio::time::advance(3 * SECOND).await;
    assert!(budget.withdraw());
}

#[tokio::test(start_paused = true)]
async fn our_retries_without_a_token_wait() {
    let memory = Memory::new(|call| answer(if call < 30 { 500 } else { 200 }, ""));
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(ours(3)))
        .layer(tower_spatial::CircuitBreakerLayer::per_host())
        .service(memory.clone());
    let began = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..30 {
        calls.spawn(service.clone().oneshot(get(IN_MEMORY)));
    }
    for answer in calls.join_all().await {
        assert_eq!(answer.unwrap().status(), 200);
    }
    let repeats = memory.calls().split_off(30);
    let at_once = repeats.iter().filter(|at| **at - began < SECOND).count();
    let held = |at: &&Instant| **at - began >= 5 * SECOND;
    // Each success of those who went has earned a fifth of a token.
    assert!((20..=25).contains(&at_once), "{at_once}");
    assert_eq!(at_once + repeats.iter().filter(held).count(), 30);
}
