//! The corpus cut, split and re-encoded: what must hold of the documents in it.

use service_exception::document::{Document, Format};

use super::{all_cases, stored::Stored};

/// The good answers whose document is of a form that shows its end.
fn whole() -> impl Iterator<Item = (super::Case, Format)> {
    all_cases().filter_map(|case| {
        let stored = case.stored.as_ref()?;
        if stored.cut || !stored.status.is_success() || case.verdict != "ok" {
            return None;
        }
        let format = case.by_document(stored, usize::MAX).ok()?.format()?;
        Some((case, format))
    })
}

fn body(case: &super::Case) -> &Stored {
    case.stored.as_ref().unwrap()
}

#[test]
fn the_verdict_is_the_same_however_the_bytes_are_split() {
    for case in all_cases() {
        let Some(stored) = &case.stored else { continue };
        let at_once = case.by_document(stored, usize::MAX);
        for pieces in [1, 2, 3, 7, 64, 127, 128, 129, 1000] {
            let split = case.by_document(stored, pieces);
            assert_eq!(split, at_once, "{} in pieces of {pieces}", case.file);
        }
    }
}

#[test]
fn a_good_document_that_is_cut_anywhere_is_incomplete() {
    let mut formats = std::collections::BTreeMap::new();
    for (case, format) in whole() {
        let stored = body(&case);
        let text = matches!(
            format,
            Format::Xml | Format::Json | Format::Csv | Format::Dxf
        );
        let end = if text {
            stored.body.trim_ascii_end().len()
        } else {
            stored.body.len()
        };
        *formats.entry(format!("{format}")).or_insert(0) += 1;
        // All of the small ones, every so many bytes of the others, and all of the last bytes.
        let step = (end / 400).max(1);
        let mut missed = Vec::new();
        for cut in (1..end)
            .step_by(step)
            .chain(end.saturating_sub(100).max(1)..end)
        {
            let mut document = Document::new(&case.asked(), stored.status, &stored.headers);
            document.push(&stored.body[..cut]);
            if document.finish().is_ok() {
                missed.push(cut);
            }
        }
        // A CSV that is cut between two lines is a shorter CSV; a boundary's line break may be missing.
        missed.retain(|&cut| match format {
            Format::Csv => !stored.body[..cut].ends_with(b"\n") && stored.body[cut - 1] != b'\r',
            Format::Multipart => !stored.body[cut..].trim_ascii().is_empty(),
            _ => true,
        });
        assert!(
            missed.is_empty(),
            "{} ({format}) cut at {missed:?} of {end}",
            case.file
        );
    }
    let formats: Vec<_> = formats.into_iter().collect();
    let kinds: Vec<_> = formats.iter().map(|(format, _)| format.as_str()).collect();
    let expected = [
        "CSV",
        "DXF",
        "JPEG",
        "JSON",
        "PNG",
        "TIFF",
        "WebP",
        "XML",
        "multipart",
        "zip",
    ];
    assert_eq!(kinds, expected, "{formats:?}");
}

#[test]
fn utf_16_has_the_same_verdict() {
    for (case, format) in whole() {
        let stored = body(&case);
        let Ok(text) = std::str::from_utf8(&stored.body) else {
            continue;
        };
        if !matches!(format, Format::Xml | Format::Json) {
            continue;
        }
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let check = |bytes: &[u8]| {
            let mut document = Document::new(&case.asked(), stored.status, &stored.headers);
            document.push(b"\xFE\xFF");
            document.push(bytes);
            document.finish()
        };
        let plain = case.by_document(stored, usize::MAX);
        assert_eq!(check(&wide), plain, "{}", case.file);
        let cut = text.trim_ascii_end().encode_utf16().count() * 2 - 2;
        assert!(check(&wide[..cut]).is_err(), "{}", case.file);
    }
}

#[test]
fn blanks_comments_and_instructions_behind_the_end_change_nothing() {
    for (case, format) in whole() {
        let stored = body(&case);
        let behind: &[u8] = match format {
            Format::Xml => b"\r\n<!-- <a> --> <?pi <b ?>\n\0",
            Format::Json => b" \r\n\t\n",
            _ => continue,
        };
        let mut document = Document::new(&case.asked(), stored.status, &stored.headers);
        document.push(&stored.body);
        document.push(behind);
        assert_eq!(
            document.finish(),
            case.by_document(stored, usize::MAX),
            "{}",
            case.file
        );
    }
}
