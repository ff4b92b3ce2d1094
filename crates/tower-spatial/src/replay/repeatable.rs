use std::{borrow::Cow, fmt};

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
    /// Whether it can be sent, from its begin.
    fn is_repeatable(&self) -> bool {
        self.why_not().is_none()
    }

    /// Why it cannot be sent again; `None` where it can.
    fn why_not(&self) -> Option<NotRepeatable> {
        None
    }

    /// Its first bytes, at least 2 KB or all, where they are at hand: they tell a GetFeature from a Transaction. Fewer are
    /// enough of an XML document, up to the end of a tag.
    fn head(&self) -> Option<Bytes> {
        None
    }

    /// Told by a retry before it clones the body for the first time. A body that keeps a copy of what it sends asks
    /// `decide` what to keep; what is whole anyway does not.
    fn keep(&self, decide: impl FnOnce() -> Keep) {
        drop(decide);
    }
}

/// Whether a request whose body begins so is safe to repeat.
pub type JudgeHead = dyn FnOnce(&[u8]) -> bool + Send;

/// What a streaming body keeps of what it sends.
#[non_exhaustive]
pub enum Keep {
    /// All, as far as there is room.
    All,
    /// All where the closure says so of the body's first 4 KB (or all of a shorter one), nothing where it does not.
    ByHead(Box<JudgeHead>),
    /// Nothing: no repeat follows, whatever is in it.
    Nothing,
}

impl fmt::Debug for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "All",
            Self::ByHead(_) => "ByHead",
            Self::Nothing => "Nothing",
        })
    }
}

/// Why a request's body cannot be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotRepeatable {
    /// It is longer than what is kept.
    TooLong {
        /// How many bytes are kept.
        cap: usize,
    },
    /// Where it comes from has failed.
    Failed,
    /// A later attempt reads it now.
    TakenOver,
    /// It was sent when nobody had asked for it to be kept.
    Sent,
    /// It was not kept, since a request that is not safe to repeat is not repeated.
    NotKept,
}

impl fmt::Display for NotRepeatable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request's body cannot be sent again: ")?;
        f.write_str(match self {
            Self::TooLong { cap } => return write!(f, "it is longer than the {cap} bytes kept"),
            Self::Failed => "where it comes from has failed",
            Self::TakenOver => "a later attempt reads it now",
            Self::Sent => "it was sent without being kept",
            Self::NotKept => "the request is not known to be safe to repeat",
        })
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
    fn why_not(&self) -> Option<NotRepeatable> {
        match self {
            Self::Left(body) => body.why_not(),
            Self::Right(body) => body.why_not(),
        }
    }

    fn head(&self) -> Option<Bytes> {
        match self {
            Self::Left(body) => body.head(),
            Self::Right(body) => body.head(),
        }
    }

    fn keep(&self, decide: impl FnOnce() -> Keep) {
        match self {
            Self::Left(body) => body.keep(decide),
            Self::Right(body) => body.keep(decide),
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

/// What can be read of the begin of a body whose rest is not at hand: of an XML document up to the end of a tag, since the
/// begin of `GetFeatureWithLock` is another operation's name. Of anything else nothing.
pub(super) fn partial_head_of(bytes: &[u8]) -> Option<Bytes> {
    let text = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    if text.trim_ascii_start().first() != Some(&b'<') {
        return None;
    }
    let end = bytes.iter().rposition(|byte| *byte == b'>')?;
    Some(head_of(&bytes[..=end]))
}

/// Where the name of an operation stands even behind a long comment.
pub(super) const HEAD: usize = 4096;
