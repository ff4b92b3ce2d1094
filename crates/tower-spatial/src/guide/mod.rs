//! How to do what people come for: one page a task.
//!
//! | page | for |
//! |---|---|
//! | [`slow_wfs`] | answers that take minutes, and may be cut |
//! | [`retry_after`] | geocoders and other services that set the pace |
//! | [`breaker`] | a map server that is down for a while |
//! | [`writes`] | transactions and other requests that change something |
//! | [`timeouts`] | what ends what, and when a call is dropped |
//! | [`processes`] | restarts, fleets, and what is not shared between machines |
//! | [`numbers`] | metrics, a dashboard, alarms, logs |
//! | [`giving_up`] | handing failures on: orchestrators, dead-letter files, logs |
//! | [`coming_from`] | those who know httpx, requests, tenacity, Prefect or Dagster |
//!
//! Every example is compiled, and most run, with the tests. They have a function for a server, so that nothing has to be
//! installed. In earnest a client stands in its place, such as hyper-util's or the one in `client` (feature
//! `client-hyper`).
#![cfg_attr(
    not(all(
        feature = "config",
        feature = "completeness",
        feature = "metrics",
        feature = "serde"
    )),
    allow(
        rustdoc::broken_intra_doc_links,
        reason = "what pages link is left out"
    )
)]

#[doc = include_str!("slow_wfs.md")]
pub mod slow_wfs {}

#[doc = include_str!("retry_after.md")]
pub mod retry_after {}

#[doc = include_str!("breaker.md")]
pub mod breaker {}

#[doc = include_str!("writes.md")]
pub mod writes {}

#[doc = include_str!("timeouts.md")]
pub mod timeouts {}

#[doc = include_str!("processes.md")]
pub mod processes {}

#[doc = include_str!("numbers.md")]
pub mod numbers {}

#[doc = include_str!("giving_up.md")]
pub mod giving_up {}

#[doc = include_str!("coming_from.md")]
pub mod coming_from {}
