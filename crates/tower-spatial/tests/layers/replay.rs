//! Request bodies that can be sent again.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full};
use proptest::prelude::*;
use tokio::time::Instant;
use tower_spatial::{
    find,
    replay::{BodyNotRepeatable, Keep, NotRepeatable, RepeatableBody, ReplayBody},
};

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

async fn bytes<B: Body<Data = Bytes, Error = tower::BoxError>>(
    body: B,
) -> Result<Bytes, tower::BoxError> {
    Ok(body.collect().await?.to_bytes())
}

#[tokio::test]
async fn empty_and_buffered_bodies_repeat() {
    let whole = "<GetFeature/>";
    let bodies = [
        (
            ReplayBody::new(Scripted::frames([whole]).known_length()),
            whole,
        ),
        (ReplayBody::buffered(whole), whole),
        (ReplayBody::empty(), ""),
        (
            ReplayBody::new(Scripted::frames::<Bytes>([]).known_length()),
            "",
        ),
    ];
    for (body, expected) in bodies {
        assert!(body.is_repeatable() && body.clone().is_repeatable());
        assert_eq!(body.size_hint().exact(), Some(expected.len() as u64));
        for _ in 0..3 {
            assert_eq!(bytes(body.clone()).await.unwrap(), expected);
        }
        assert_eq!(bytes(body).await.unwrap(), expected);
    }
    assert!(
        bytes(ReplayBody::new(Full::<Bytes>::from(whole)))
            .await
            .unwrap()
            == whole
    );
    assert!(ReplayBody::new(Empty::<Bytes>::new()).is_end_stream());
}

#[tokio::test(start_paused = true)]
async fn a_streaming_body_goes_out_whole_as_often_as_it_is_asked_for() {
    let pieces = || {
        [
            Step::data("a"),
            Step::Wait(Duration::from_secs(1)),
            Step::data("bc"),
        ]
    };
    for body in [
        Scripted::new(pieces()),
        Scripted::new(pieces()).known_length(),
    ] {
        let length = body.size_hint().exact();
        let mut body = ReplayBody::new(body);
        for _ in 0..3 {
            let next = body.clone();
            assert!(body.is_repeatable() && next.is_repeatable());
            if length.is_some() {
                assert_eq!(body.size_hint().exact(), length);
            }
            assert_eq!(bytes(body).await.unwrap(), "abc");
            body = next;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_asked_to_keep_goes_out_once() {
    let source = || Scripted::new([Step::data("a"), Step::Wait(SECOND), Step::data("bc")]);
    let mut body = ReplayBody::new(source());
    body.frame().await.unwrap().unwrap();
    let late = body.clone();
    assert_eq!(late.why_not(), Some(NotRepeatable::Sent));
    let error = bytes(late).await.unwrap_err();
    let refused = find::<BodyNotRepeatable>(&error).unwrap();
    assert_eq!(refused.why(), NotRepeatable::Sent);
    assert_eq!(bytes(body).await.unwrap(), "bc");

    let body = ReplayBody::new(source());
    body.keep(|| Keep::Nothing);
    let next = body.clone();
    assert_eq!(bytes(body).await.unwrap(), "abc");
    assert_eq!(next.why_not(), Some(NotRepeatable::NotKept));

    let mut body = ReplayBody::new(source());
    drop(body.clone());
    body.frame().await.unwrap().unwrap();
    assert_eq!(body.why_not(), Some(NotRepeatable::Sent), "nobody was left");
}

#[tokio::test(start_paused = true)]
async fn what_is_longer_than_the_cap_goes_out_once_and_says_so() {
    for known in [true, false] {
        let steps = (0..10).flat_map(|_| [Step::data(vec![7; 30]), Step::Wait(SECOND)]);
        let source = Scripted::new(steps);
        let source = if known { source.known_length() } else { source };
        let body = ReplayBody::with_cap(source, 299);
        let next = body.clone();
        assert!(next.is_repeatable(), "nothing has been sent");
        assert_eq!(bytes(body).await.unwrap(), [7; 300].as_slice());
        assert_eq!(next.why_not(), Some(NotRepeatable::TooLong { cap: 299 }));
        assert_eq!(next.head().unwrap(), [7; 300].as_slice());
        assert_eq!(
            bytes(next).await.unwrap_err().to_string(),
            "the request's body cannot be sent again: it is longer than the 299 bytes kept"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_head_decides_what_is_kept_as_soon_as_it_has_passed() {
    for (first, safe) in [("safe", true), ("wild", false)] {
        let steps = [
            Step::data(first),
            Step::Wait(SECOND),
            Step::data(vec![b'x'; 4096]),
            Step::Wait(SECOND),
            Step::data("end"),
        ];
        let mut body = ReplayBody::new(Scripted::new(steps));
        body.keep(|| {
            Keep::ByHead(Box::new(|head| {
                head.starts_with(b"safe") && head.len() == 4096
            }))
        });
        let next = body.clone();
        body.frame().await.unwrap().unwrap();
        assert!(next.is_repeatable(), "the head is not whole yet");
        body.frame().await.unwrap().unwrap();
        assert_eq!(next.is_repeatable(), safe);
        if safe {
            let all = [first.as_bytes(), &[b'x'; 4096], b"end"].concat();
            assert_eq!(bytes(next).await.unwrap(), all);
        } else {
            assert_eq!(next.why_not(), Some(NotRepeatable::NotKept));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_begin_of_a_name_is_not_taken_for_a_name() {
    for (begin, head) in [
        ("<wfs:GetFeature", None),
        (
            "<?xml version='1.0'?>\n<wfs:GetFeature",
            Some("<?xml version='1.0'?>"),
        ),
        (
            "\u{feff} <a><wfs:GetFeature>x",
            Some("\u{feff} <a><wfs:GetFeature>"),
        ),
        ("request=GetFeature", None),
        ("{\"a\":\"<b>\"", None),
    ] {
        let steps = [
            Step::data(begin),
            Step::Wait(SECOND),
            Step::data("WithLock/>"),
        ];
        let body = ReplayBody::new(Scripted::new(steps));
        assert_eq!(body.head().as_deref(), head.map(str::as_bytes), "at hand");
        let mut reader = body.clone();
        reader.frame().await.unwrap().unwrap();
        assert_eq!(body.head().as_deref(), head.map(str::as_bytes), "sent");
        bytes(reader).await.unwrap();
        let whole = [begin, "WithLock/>"].concat();
        assert_eq!(body.head().unwrap(), whole, "all of it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeat_takes_the_body_over_from_an_attempt_that_still_sends() {
    let steps = [Step::data("a"), Step::Wait(SECOND), Step::data("bc")];
    let body = ReplayBody::new(Scripted::new(steps));
    let mut first = body.clone();
    first.frame().await.unwrap().unwrap();
    let first = tokio::spawn(bytes(first));
    tokio::task::yield_now().await;
    assert!(body.is_repeatable());
    let start = Instant::now();
    let second = tokio::spawn(bytes(body));
    let first = tokio::time::timeout(60 * SECOND, first).await;
    let error = first.expect("it is told").unwrap().unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO, "and does not wait");
    let refused = find::<BodyNotRepeatable>(&error).unwrap();
    assert_eq!(refused.why(), NotRepeatable::TakenOver);
    assert_eq!(second.await.unwrap().unwrap(), "abc");
}

/// A body in these pieces; `None` is a wait.
struct Pieces(std::collections::VecDeque<Option<Bytes>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = tower::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tower::BoxError>>> {
        match self.0.pop_front() {
            Some(Some(data)) => Poll::Ready(Some(Ok(Frame::data(data)))),
            Some(None) => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Ready(None),
        }
    }
}

proptest! {
    #[test]
    fn every_attempt_sends_what_the_first_one_does(
        pieces in prop::collection::vec(prop::option::weighted(0.8, prop::collection::vec(any::<u8>(), 0..40)), 0..20),
        attempts in prop::collection::vec((0usize..25, any::<bool>()), 0..6),
        cap in 0usize..400,
    ) {
        let whole: Vec<u8> = pieces.iter().flatten().flatten().copied().collect();
        let source = Pieces(pieces.into_iter().map(|piece| piece.map(Bytes::from)).collect());
        let mut cx = Context::from_waker(Waker::noop());
        let mut body = ReplayBody::with_cap(source, cap);
        let (mut alive, mut taken) = (Vec::new(), 0);
        for (polls, is_kept_alive) in attempts {
            let mut reader = std::mem::replace(&mut body, ReplayBody::empty());
            body = reader.clone();
            let mut sent = Vec::new();
            for _ in 0..polls {
                match Pin::new(&mut reader).poll_frame(&mut cx) {
                    Poll::Ready(Some(Ok(frame))) => sent.extend(frame.into_data().unwrap()),
                    Poll::Ready(Some(Err(_))) => {
                        prop_assert!(whole.len() > cap && sent.is_empty());
                        break;
                    }
                    Poll::Ready(None) => {
                        prop_assert_eq!(&sent, &whole);
                        break;
                    }
                    Poll::Pending => {}
                }
                prop_assert!(whole.starts_with(&sent));
            }
            taken = taken.max(sent.len());
            // Where it has not been polled it has not taken the body over.
            if is_kept_alive && polls > 0 {
                alive.push(reader);
            }
        }
        // What is known to be too long is not kept from its begin.
        prop_assert!(body.is_repeatable() || whole.len() > cap);
        prop_assert!(!body.is_repeatable() || taken <= cap);
        let mut sent = Vec::new();
        let refused = loop {
            match Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Ready(Some(Ok(frame))) => sent.extend(frame.into_data().unwrap()),
                Poll::Ready(Some(Err(error))) => break Some(error),
                Poll::Ready(None) => break None,
                Poll::Pending => {}
            }
        };
        match refused {
            Some(error) => {
                let refused = find::<BodyNotRepeatable>(&error).unwrap();
                prop_assert_eq!(refused.why(), NotRepeatable::TooLong { cap });
                prop_assert!(whole.len() > cap && sent.is_empty());
            }
            None => {
                prop_assert_eq!(&sent, &whole);
                for mut reader in alive {
                    let polled = Pin::new(&mut reader).poll_frame(&mut cx);
                    prop_assert!(whole.is_empty() || matches!(polled, Poll::Ready(Some(Err(_)))), "two read at once");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_body_in_pieces_that_are_all_at_hand_repeats() {
    let body = ReplayBody::new(Scripted::frames(["<wfs:GetFeature", "/>"]).known_length());
    assert_eq!(bytes(body.clone()).await.unwrap(), "<wfs:GetFeature/>");
    assert_eq!(bytes(body).await.unwrap(), "<wfs:GetFeature/>");
}

#[tokio::test]
async fn an_error_of_a_request_body_is_not_lost() {
    let steps = [Step::data("half"), Step::Fail, Step::data("rest")];
    let body = ReplayBody::new(Scripted::new(steps).known_length());
    let next = body.clone();
    let error = bytes(body).await.unwrap_err();
    assert!(find::<std::io::Error>(&error).is_some());
    assert_eq!(next.why_not(), Some(NotRepeatable::Failed));
    assert!(bytes(next).await.is_err(), "half of a request is none");
}

#[tokio::test]
async fn trailers_of_a_request_are_not_lost() {
    let trailers = http::HeaderMap::from_iter([(http::header::ETAG, "a".parse().unwrap())]);
    let body = ReplayBody::new(Scripted::new([
        Step::data("x"),
        Step::Trailers(trailers.clone()),
    ]));
    for body in [body.clone(), body] {
        let body = body.collect().await.unwrap();
        assert_eq!(body.trailers(), Some(&trailers));
        assert_eq!(body.to_bytes(), "x");
    }
}
