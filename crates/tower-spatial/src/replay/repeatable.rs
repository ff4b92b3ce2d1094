use std::borrow::Cow;

use bytes::{Buf, Bytes};
use http_body_util::{Either, Empty, Full};

/// A request body of which a clone can be sent again.
///
/// Implemented for what is whole and cheap to clone: http-body-util's `Full` and `Empty`, bytes, strings and
/// [`ReplayBody`](super::ReplayBody). For a body of your own that is `Clone`, an empty `impl` block is enough;
/// everything else goes into a `ReplayBody`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is a request body that cannot be sent again, as a retry must",
    note = "wrap it above the retry: `.map_request(|request: http::Request<_>| request.map(ReplayBody::new))`"
)]
pub trait RepeatableBody: Clone {
    /// Whether this very body is still whole. A streaming one is not once it has been sent.
    fn is_repeatable(&self) -> bool {
        true
    }

    /// Its first bytes, at least 2 KB or all, where they are at hand: they tell a GetFeature from a Transaction.
    fn head(&self) -> Option<Bytes> {
        None
    }
}

impl RepeatableBody for () {}

impl<D> RepeatableBody for Empty<D> {}

impl<D: Buf + Clone> RepeatableBody for Full<D> {
    fn head(&self) -> Option<Bytes> {
        self.clone().into_inner().map(|data| head_of(data.chunk()))
    }
}

impl<L: RepeatableBody, R: RepeatableBody> RepeatableBody for Either<L, R> {
    fn is_repeatable(&self) -> bool {
        match self {
            Self::Left(body) => body.is_repeatable(),
            Self::Right(body) => body.is_repeatable(),
        }
    }

    fn head(&self) -> Option<Bytes> {
        match self {
            Self::Left(body) => body.head(),
            Self::Right(body) => body.head(),
        }
    }
}

macro_rules! whole {
    ($($body:ty),*) => {$(
        impl RepeatableBody for $body {
            fn head(&self) -> Option<Bytes> {
                Some(head_of(self.as_ref()))
            }
        }
    )*};
}

whole!(Bytes, Vec<u8>, String, &'static str, &'static [u8]);

impl RepeatableBody for Cow<'static, str> {
    fn head(&self) -> Option<Bytes> {
        Some(head_of(self.as_bytes()))
    }
}

pub(super) fn head_of(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&bytes[..bytes.len().min(HEAD)])
}

/// Where the name of an operation stands even behind a long comment.
const HEAD: usize = 4096;
