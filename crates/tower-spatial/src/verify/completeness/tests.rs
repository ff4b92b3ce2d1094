//! What only the inside can show: where an answer lies, and what becomes of it when the disk is full.

use std::{convert::Infallible, fs::File, io, os::unix::fs::MetadataExt, sync::Arc};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use tower::{BoxError, ServiceBuilder, ServiceExt, service_fn};

use super::{CollectError, CompletenessLayer, store::Place};
use crate::find;

const SIZE: usize = 300_000;

async fn collect(layer: CompletenessLayer) -> Result<Bytes, BoxError> {
    let server = service_fn(|_: Request<Empty<Bytes>>| async {
        let body = format!("<a>{}</a>", "b".repeat(SIZE));
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(body)))
    });
    let service = ServiceBuilder::new().layer(layer).service(server);
    let uri = "https://example.org/wfs?service=WFS&request=GetFeature&typeNames=a";
    let request = Request::get(uri).body(Empty::new())?;
    let response = service.oneshot(request).await?;
    Ok(response.into_body().collect().await?.to_bytes())
}

#[tokio::test]
async fn a_full_disk_is_an_error_that_says_so() {
    for open in [
        // Every write fails with ENOSPC.
        (|| File::options().write(true).open("/dev/full")) as fn() -> io::Result<File>,
        || Err(io::ErrorKind::PermissionDenied.into()),
    ] {
        let layer = CompletenessLayer::new()
            .memory(1000)
            .place(Place::Made(Arc::new(open)));
        let error = collect(layer).await.unwrap_err();
        let Some(CollectError::Storage(source)) = find::<CollectError>(&error) else {
            panic!("{error}")
        };
        let kind = source.kind();
        assert!(
            matches!(
                kind,
                io::ErrorKind::StorageFull | io::ErrorKind::PermissionDenied
            ),
            "{kind:?}"
        );
        let outcome = crate::call::Outcome::of_error(&error);
        assert_eq!(outcome.verdict(), crate::call::Verdict::Permanent);
    }
}

#[tokio::test]
async fn the_file_has_no_name_and_is_its_owners_only() {
    let directory = tempfile::tempdir().unwrap();
    for place in [Place::Temporary, Place::Directory(directory.path().into())] {
        let metadata = place.make().unwrap().metadata().unwrap();
        assert_eq!(
            (metadata.mode() & 0o777, metadata.nlink()),
            (0o600, 0),
            "{place:?}"
        );
        let body = collect(CompletenessLayer::new().memory(1000).place(place))
            .await
            .unwrap();
        assert_eq!(body.len(), SIZE + 7);
    }
    assert_eq!(directory.path().read_dir().unwrap().count(), 0);
}

#[test]
fn without_a_runtime_it_is_written_at_once() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    drop(runtime);
    let body = futures_lite_block_on(collect(CompletenessLayer::new().memory(1000)));
    assert_eq!(body.unwrap().len(), SIZE + 7);
}

/// Polls to the end on this thread, outside of any runtime.
fn futures_lite_block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(done) = future.as_mut().poll(&mut context) {
            return done;
        }
    }
}
