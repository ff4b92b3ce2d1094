use std::{fmt, sync::Arc};

use http::{HeaderMap, StatusCode};
use service_exception::{
    Asked,
    document::{Document, Framing, Incomplete, Whole},
};

#[cfg(feature = "decode")]
use super::decode::Decoder;
use super::{
    Problem,
    counts::{ByHits, CountMemory, ExpectedCount, QueryKey},
};
use crate::exception::Encoding;

/// Everything that is checked of one answer, for whoever reads its body by other means than the layer.
///
/// It takes the body as it comes from the client, encoded where it is: framing and document are checked, the latter
/// through a decoder where the feature `decode` is on and the encoding is gzip or deflate.
///
/// ```
/// use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
/// use tower_spatial::verify::completeness::{Asked, Check};
///
/// let asked = Asked::new(&Method::GET, &Uri::from_static("/a/items"), &HeaderMap::new());
/// let headers = HeaderMap::from_iter([(header::CONTENT_LENGTH, HeaderValue::from_static("9"))]);
/// let mut check = Check::new(&asked, StatusCode::OK, &headers);
/// check.push(b"[1, 2");
/// let problem = check.finish().unwrap_err();
/// assert_eq!(problem.to_string(), "expected the 9 bytes that were announced, 5 came");
/// ```
pub struct Check {
    framing: Framing,
    content: Content,
    counts: Counts,
}

#[expect(
    clippy::large_enum_variant,
    reason = "it is within what is boxed as a whole"
)]
enum Content {
    Plain(Document),
    #[cfg(feature = "decode")]
    Encoded(Box<Decoder>),
    /// Encoded in a way that is not known here.
    Opaque,
}

/// Numbers of members that are known from elsewhere.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) expected: Option<ExpectedCount>,
    pub(super) hits: Option<ByHits>,
    pub(super) before: Option<Before>,
}

pub(super) struct Before {
    pub(super) memory: Arc<dyn CountMemory>,
    pub(super) query: QueryKey,
    /// The share that may be missing, from 0 to 1.
    pub(super) drop: f64,
}

impl Check {
    /// For the answer with `status` and `headers` to the request `asked`.
    pub fn new(asked: &Asked, status: StatusCode, headers: &HeaderMap) -> Self {
        let document = Document::new(asked, status, headers);
        // A part of an encoded file is no stream that can be decoded.
        let encoding = if status == StatusCode::PARTIAL_CONTENT {
            Encoding::Identity
        } else {
            Encoding::of(headers)
        };
        Self {
            framing: Framing::new(asked, status, headers),
            content: match encoding {
                Encoding::Identity => Content::Plain(document),
                #[cfg(feature = "decode")]
                encoding @ (Encoding::Gzip | Encoding::Deflate) => {
                    Content::Encoded(Box::new(Decoder::new(encoding, document, MAX_DECODED)))
                }
                Encoding::Unknown => Content::Opaque,
            },
            counts: Counts::default(),
        }
    }

    pub(super) fn with_counts(self, counts: Counts) -> Self {
        Self { counts, ..self }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.framing.push(bytes.len());
        match &mut self.content {
            Content::Plain(document) => document.push(bytes),
            #[cfg(feature = "decode")]
            Content::Encoded(decoder) => decoder.push(bytes),
            Content::Opaque => {}
        }
    }

    /// The body has ended.
    ///
    /// # Errors
    /// What was expected and what came, where the answer is not whole.
    pub fn finish(self) -> Result<Whole, Problem> {
        let framing = self.framing.finish();
        let whole = match self.content {
            Content::Plain(document) => document.finish().map_err(Problem::Document),
            #[cfg(feature = "decode")]
            Content::Encoded(decoder) => decoder.finish(),
            Content::Opaque => Ok(Whole::default()),
        };
        let whole = match (framing, whole) {
            // What broke the answer off says more than how much of it came.
            (_, Err(found @ Problem::Document(Incomplete::Exception { .. }))) => return Err(found),
            (Err(incomplete), _) => return Err(Problem::Document(incomplete)),
            (Ok(()), whole) => whole?,
        };
        self.counts.check(&whole)?;
        Ok(whole)
    }
}

impl Counts {
    fn check(&self, whole: &Whole) -> Result<(), Problem> {
        let Some(came) = whole.members() else {
            return Ok(());
        };
        let by_hits = self.hits.filter(|_| !whole.has_next());
        let by_hits = by_hits.map(|ByHits(n)| ExpectedCount { n, tolerance: 0 });
        // The caller knows better.
        if let Some(ExpectedCount { n, tolerance }) = self.expected.or(by_hits)
            && came.saturating_add(tolerance) < n
        {
            let expected = n;
            return Err(Problem::Count {
                expected,
                tolerance,
                came,
            });
        }
        let Some(Before {
            memory,
            query,
            drop,
        }) = &self.before
        else {
            return Ok(());
        };
        if let Some(before) = memory.last_good(*query)
            && (came as f64) < before as f64 * (1.0 - drop)
        {
            return Err(Problem::FewerThanBefore { before, came });
        }
        memory.remember(*query, came);
        Ok(())
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("framing", &self.framing)
            .finish_non_exhaustive()
    }
}

/// Decoded bytes that are looked at: none of them is kept, but each costs time, and a small body can have many.
#[cfg(feature = "decode")]
const MAX_DECODED: u64 = 8 << 30;
