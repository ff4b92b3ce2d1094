//! Whether a partial answer is the part that was asked for (RFC 9110 §14).

use http::header::CONTENT_RANGE;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::{Disposition, ServiceException};

/// What `Range`, status and `Content-Range` show without the body.
pub(crate) fn mismatch(
    range: &HeaderValue,
    status: StatusCode,
    headers: &HeaderMap,
) -> Option<Box<ServiceException>> {
    let asked = asked(range.to_str().ok()?)?;
    match status {
        // The whole in place of a part that begins at its first byte is what was asked for, and more.
        StatusCode::OK if asked.first != Some(0) => Some(exception(
            "the server sent the whole file in place of the range that was asked for",
            Disposition::Permanent,
        )),
        StatusCode::PARTIAL_CONTENT => {
            let given = given(headers.get(CONTENT_RANGE)?.to_str().ok()?)?;
            let starts = asked.first.is_none_or(|first| first == given.0);
            let ends = asked.last.is_none_or(|last| given.1 <= last);
            (!starts || !ends).then(|| {
                exception(
                    "the server sent another range than was asked for",
                    Disposition::Ambiguous,
                )
            })
        }
        _ => None,
    }
}

/// The last byte asked for and the last byte given, where the answer stops before both the range and the file do.
pub(crate) fn shortened(range: &HeaderValue, headers: &HeaderMap) -> Option<(u64, u64)> {
    let asked = asked(range.to_str().ok()?)?;
    let value = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    let given = given(value)?;
    let total = value.rsplit('/').next()?.trim().parse::<u64>().ok()?;
    let end = total.checked_sub(1)?;
    let expected = match (asked.first, asked.last) {
        (_, Some(last)) => last.min(end),
        (None, None) => end,
        // As much as the server likes to send at a time.
        (Some(_), None) => return None,
    };
    (given.1 < expected).then_some((expected, given.1))
}

fn exception(message: &str, disposition: Disposition) -> Box<ServiceException> {
    Box::new(ServiceException {
        dialect: "range",
        code: None,
        locator: None,
        message: message.into(),
        disposition,
        credentials: false,
        retry_after: None,
        retry_at: None,
    })
}

struct Asked {
    /// `None`: the last bytes were asked for, however many there are.
    first: Option<u64>,
    last: Option<u64>,
}

/// One range of bytes; several are answered as multipart, and read by nobody here.
fn asked(range: &str) -> Option<Asked> {
    let (first, last) = range.trim().strip_prefix("bytes=")?.split_once('-')?;
    if last.contains(',') {
        return None;
    }
    let first = first.trim();
    if first.is_empty() {
        return Some(Asked {
            first: None,
            last: None,
        });
    }
    Some(Asked {
        first: Some(first.parse().ok()?),
        last: last.trim().parse().ok(),
    })
}

pub(crate) fn given(content_range: &str) -> Option<(u64, u64)> {
    let (range, _) = content_range
        .trim()
        .strip_prefix("bytes ")?
        .split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_part_that_was_not_asked_for_is_a_mismatch() {
        let judge = |range: &'static str, status, content_range: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(given) = content_range {
                headers.insert(CONTENT_RANGE, HeaderValue::from_static(given));
            }
            mismatch(
                &HeaderValue::from_static(range),
                StatusCode::from_u16(status).unwrap(),
                &headers,
            )
            .map(|found| found.disposition())
        };
        assert_eq!(
            judge("bytes=16-31", 200, None),
            Some(Disposition::Permanent)
        );
        assert_eq!(judge("bytes=-8", 200, None), Some(Disposition::Permanent));
        assert_eq!(judge("bytes=0-7", 200, None), None);
        assert_eq!(judge("bytes=0-7", 206, Some("bytes 0-7/600")), None);
        assert_eq!(judge("bytes=0-7", 206, Some("bytes 0-5/6")), None);
        assert_eq!(
            judge("bytes=16-31", 206, Some("bytes 0-15/600")),
            Some(Disposition::Ambiguous)
        );
        assert_eq!(judge("bytes=16-31", 206, Some("garbage")), None);
        assert_eq!(judge("bytes=16-31", 416, None), None);
    }

    #[test]
    fn a_part_may_stop_where_the_range_or_the_file_does() {
        let judge = |range: &'static str, given: &'static str| {
            let headers = HeaderMap::from_iter([(CONTENT_RANGE, HeaderValue::from_static(given))]);
            shortened(&HeaderValue::from_static(range), &headers)
        };
        assert_eq!(judge("bytes=0-99", "bytes 0-99/600"), None);
        assert_eq!(judge("bytes=0-99", "bytes 0-49/600"), Some((99, 49)));
        assert_eq!(judge("bytes=0-99", "bytes 0-49/50"), None);
        assert_eq!(judge("bytes=0-99", "bytes 0-49/*"), None);
        assert_eq!(judge("bytes=-8", "bytes 592-599/600"), None);
        assert_eq!(judge("bytes=-8", "bytes 592-595/600"), Some((599, 595)));
        // As much as the server likes to send at a time.
        assert_eq!(judge("bytes=0-", "bytes 0-49/600"), None);
    }
}
