//! Bodies, clocks and callers that do not behave: what a review found, and what holds since.

use crate::support::*;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, retry::RetryLayer, service_fn};
use tower_spatial::{exception::*, retry::*, timeout::deadline::*, *};
const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn nested_retries_do_not_multiply() {
    let p = |n| RetryPolicy::builder().attempts(n).build().unwrap();
    let eager = Server::new([Reply::status(503)]);
    let _ = ServiceBuilder::new()
        .layer(DeadlineLayer::new())
        .layer(RetryLayer::new(p(4)))
        .layer(RetryLayer::new(p(3)))
        .service(eager.clone())
        .oneshot(get_map())
        .await;
    let lazy = Server::new([Reply::status(503)]);
    let _ = ServiceBuilder::new()
        .layer(RetryLayer::new(p(4)))
        .layer(RetryLayer::new(p(3)))
        .service(lazy.clone())
        .oneshot(get_map())
        .await;
    let errors = Server::new([Reply::Io(std::io::ErrorKind::ConnectionReset)]);
    let _ = ServiceBuilder::new()
        .layer(RetryLayer::new(p(4)))
        .layer(RetryLayer::new(p(3)))
        .service(errors.clone())
        .oneshot(get_map())
        .await;
    assert_eq!(
        (lazy.requests(), eager.requests(), errors.requests()),
        (3, 3, 3)
    );
}

#[tokio::test(start_paused = true)]
async fn a_deadline_in_the_past_sends_nothing() {
    let server = Server::new([Reply::status(200)]);
    let client = ServiceBuilder::new()
        .layer(DeadlineLayer::new())
        .layer(RetryLayer::new(RetryPolicy::default()))
        .service(server.clone());
    let d = Deadline::after(SECOND);
    tokio::time::sleep(5 * SECOND).await;
    let mut r = get_map();
    r.extensions_mut().insert(d);
    let _ = client.oneshot(r).await;
    assert_eq!(server.requests(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cut_answer_never_announces_a_whole_one() {
    let svc = service_fn(|_: Request<NoBody>| async {
        Ok::<_, BoxError>(answer(
            502,
            "text/html",
            Scripted::new([Step::data("<html><body>bad"), Step::Fail]),
        ))
    });
    let r = ServiceBuilder::new()
        .layer(ServiceExceptionLayer::new())
        .service(svc)
        .oneshot(get_map())
        .await
        .unwrap();
    let hint = r.body().size_hint();
    assert!(r.into_body().collect().await.is_err());
    assert_eq!(
        hint.exact(),
        None,
        "a proxy announces a whole answer of that length"
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_cut_by_the_deadline_gives_its_permit_back() {
    let limit = ConcurrencyLimitLayer::per_host(1);
    let e = limit.endpoints().find(get_map().uri());
    let svc = service_fn(|_: Request<NoBody>| async {
        Ok::<_, BoxError>(answer(
            200,
            "image/png",
            Scripted::new([Step::data("a"), Step::Hang]),
        ))
    });
    let client = ServiceBuilder::new()
        .layer(DeadlineLayer::after(5 * SECOND))
        .layer(limit)
        .service(svc);
    let mut b = client.clone().oneshot(get_map()).await.unwrap().into_body();
    b.frame().await.unwrap().unwrap();
    assert!(b.frame().await.unwrap().is_err());
    assert!(b.frame().await.is_none());
    assert_eq!(e.snapshot().in_flight, 0, "the body has failed");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_too_late_leaves_no_readiness_reserved_below() {
    let inner = tower::limit::ConcurrencyLimit::new(Server::new([Reply::status(200)]), 1);
    let mut a = ServiceBuilder::new()
        .layer(ConcurrencyLimitLayer::per_host(4))
        .service(inner);
    let mut b = a.clone();
    let d = Deadline::after(SECOND);
    tokio::time::sleep(5 * SECOND).await;
    let mut r = get_map();
    r.extensions_mut().insert(d);
    assert!(
        ServiceExt::<Request<NoBody>>::ready(&mut a)
            .await
            .unwrap()
            .call(r)
            .await
            .is_err()
    );
    let r = tokio::time::timeout(60 * SECOND, async {
        ServiceExt::<Request<NoBody>>::ready(&mut b)
            .await
            .unwrap()
            .call(get_map())
            .await
    })
    .await;
    drop(a);
    assert!(
        r.is_ok(),
        "the refused call's service keeps the permit below"
    );
}

#[tokio::test(start_paused = true)]
async fn a_drain_of_empty_frames_ends() {
    let n = Arc::new(AtomicUsize::new(0));
    let m = n.clone();
    let svc = service_fn(move |_: Request<NoBody>| {
        let m = m.clone();
        async move { Ok::<_, BoxError>(Response::builder().status(503).body(Empties(m)).unwrap()) }
    });
    let _ = ServiceBuilder::new()
        .layer(RetryLayer::new(
            RetryPolicy::builder().attempts(2).build().unwrap(),
        ))
        .service(svc)
        .oneshot(get_map())
        .await;
    assert!(n.load(Ordering::Relaxed) < 100_000, "{n:?}");
}

#[tokio::test(start_paused = true)]
async fn gzip_that_decodes_to_nothing_is_held_within_bounds() {
    // gzip head with an endless file name; then deflate's empty stored blocks
    for blocks in [false, true] {
        let mut first = vec![0x1f, 0x8b, 8, if blocks { 0 } else { 8 }, 0, 0, 0, 0, 0, 3];
        let unit: &[u8] = if blocks {
            &[0, 0, 0, 0xff, 0xff]
        } else {
            b"aaaaa"
        };
        first.extend(unit.repeat(10));
        let frame = Bytes::from(unit.repeat(13_000)); // 65 KB
        let body = Scripted::frames(
            std::iter::once(Bytes::from(first)).chain(std::iter::repeat_n(frame, 5_000)),
        );
        let taken = body.taken.clone();
        let body = std::sync::Mutex::new(Some(body));
        let svc = service_fn(|_: Request<NoBody>| {
            let mut r = answer(200, "text/xml", body.lock().unwrap().take().unwrap());
            r.headers_mut()
                .insert("content-encoding", "gzip".parse().unwrap());
            async { Ok::<_, BoxError>(r) }
        });
        let _r = ServiceBuilder::new()
            .layer(ServiceExceptionLayer::new())
            .service(svc)
            .oneshot(get_map())
            .await;
        let n = taken.load(Ordering::Relaxed);
        if blocks {
            assert!(n <= 2, "{n} frames of 65 KB held for a limit of 2 KB");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_endless_deadline_of_the_caller_is_kept() {
    let slow = service_fn(|_: Request<NoBody>| async {
        tokio::time::sleep(5 * SECOND).await;
        Ok::<_, BoxError>(answer(200, "image/png", Scripted::frames(["x"])))
    });
    let mut r = get_map();
    r.extensions_mut().insert(Deadline::after(Duration::MAX));
    assert!(
        ServiceBuilder::new()
            .layer(DeadlineLayer::after(SECOND))
            .service(slow)
            .oneshot(r)
            .await
            .is_ok()
    );
}

struct Empties(Arc<AtomicUsize>);
impl Body for Empties {
    type Data = Bytes;
    type Error = BoxError;
    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.0.fetch_add(1, Ordering::Relaxed) > 1_000_000 {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::new()))))
    }
}
