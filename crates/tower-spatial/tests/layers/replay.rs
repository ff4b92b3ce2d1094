//! Request bodies that can be sent again.

use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::{BodyExt, Empty, Full};
use tower_spatial::{
    find,
    replay::{BodyNotRepeatable, RepeatableBody, ReplayBody},
};

use crate::support::*;

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
async fn a_streaming_body_goes_out_whole_and_its_clone_never() {
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
        let body = ReplayBody::new(body);
        assert!(!body.is_repeatable() && !body.clone().is_repeatable());
        assert_eq!(body.size_hint().exact(), length);
        let error = bytes(body.clone()).await.unwrap_err();
        assert!(find::<BodyNotRepeatable>(&error).is_some());
        assert_eq!(bytes(body).await.unwrap(), "abc");
    }
}

#[tokio::test(start_paused = true)]
async fn the_head_of_a_streaming_body_is_known_where_it_was_at_hand() {
    let late = Step::Wait(Duration::from_secs(1));
    let steps = [Step::data("<wfs:GetFeature"), late, Step::data("/>")];
    let body = ReplayBody::new(Scripted::new(steps).known_length());
    assert!(!body.is_repeatable());
    assert_eq!(body.clone().head().unwrap(), "<wfs:GetFeature");
    assert_eq!(bytes(body).await.unwrap(), "<wfs:GetFeature/>");
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
    assert!(!body.is_repeatable());
    assert!(bytes(body).await.is_err());
}

#[tokio::test]
async fn trailers_of_a_request_are_not_lost() {
    let trailers = http::HeaderMap::from_iter([(http::header::ETAG, "a".parse().unwrap())]);
    let body = ReplayBody::new(Scripted::new([
        Step::data("x"),
        Step::Trailers(trailers.clone()),
    ]));
    assert_eq!(body.collect().await.unwrap().trailers(), Some(&trailers));
}
