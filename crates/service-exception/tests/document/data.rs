//! Images, archives, tables: made here byte by byte, so that each part's place is known.

use service_exception::document::{Format, Incomplete};

use super::*;

#[test]
fn no_cut_of_a_png_is_whole() {
    no_cut_is_whole(GET_MAP, "image/png", &png());
    assert!(check(GET_MAP, "image/png", [&png()[..], b"junk"].concat()).is_ok());
    let mut broken = png();
    broken[8] = 0xFF;
    assert!(matches!(
        check(GET_MAP, "image/png", broken),
        Err(Incomplete::Malformed {
            format: Format::Png,
            at: 8
        })
    ));
}

fn png() -> Vec<u8> {
    let mut image = b"\x89PNG\r\n\x1a\n\0\0\0\x0DIHDR".to_vec();
    image.extend([1; 17]);
    // A text that holds the last chunk's name is not the last chunk.
    image.extend(b"\0\0\0\x0CtEXt\0\0\0\0IEND\xAE\x42\x60\x82crc.");
    image.extend(b"\0\0\0\x03IDATabccrc.\0\0\0\0IEND\xAE\x42\x60\x82");
    image
}

#[test]
fn no_cut_of_a_jpeg_is_whole_and_its_thumbnail_does_not_end_it() {
    let thumbnail = b"\xFF\xD8\xFF\xDB\0\x03a\xFF\xDA\0\x02x\xFF\xD9";
    let mut image = b"\xFF\xD8\xFF\xE1".to_vec();
    image.extend((thumbnail.len() as u16 + 2).to_be_bytes());
    image.extend(thumbnail);
    image.extend(b"\xFF\xFF\xC4\0\x05abc\xFF\xDA\0\x04hi data \xFF\0\xFF\xD0 more \xFF\xDA\0\x02scan\xFF\xD9");
    no_cut_is_whole(GET_MAP, "image/jpeg", &image);
    image.extend(thumbnail);
    image.extend(b"trailer");
    assert!(check(GET_MAP, "image/jpeg", &image).is_ok());
}

#[test]
fn no_cut_of_a_gif_is_whole() {
    let image = b"GIF89a\x02\0\x02\0\x80\0\0rgbrgb!\xFF\x0BNETSCAPE2.0\x03\x01\0\0\0!\xF9\x04\0\0\0\0\0,\0\0\0\0\x02\0\x02\0\x81rgbrgbrgbrgb\x02\x03;;;\x01;\0;";
    no_cut_is_whole(GET_MAP, "image/gif", image);
    assert!(check(GET_MAP, "image/gif", [&image[..], b"\0"].concat()).is_ok());
}

#[test]
fn no_cut_of_a_webp_is_whole() {
    let mut image = b"RIFF\x10\0\0\0WEBPVP8L\x04\0\0\0abcd".to_vec();
    no_cut_is_whole(GET_MAP, "image/webp", &image);
    image.push(0);
    assert!(check(GET_MAP, "image/webp", &image).is_ok());
}

#[test]
fn no_cut_of_a_tiff_is_whole_wherever_its_directory_lies() {
    for big in [false, true] {
        for little in [false, true] {
            for layout in [
                Layout::DirectoryFirst,
                Layout::DirectoryLast,
                Layout::ArraysFirst,
                Layout::Pyramid,
            ] {
                let image = tiff(big, little, layout);
                for target in [TILE, ANY] {
                    no_cut_is_whole(target, "image/tiff", &image);
                }
                // Whatever the pieces, and with data of another kind behind it.
                for pieces in [1, 3, 17, 64] {
                    assert!(check_in(ANY, "image/tiff", &image, pieces).is_ok());
                }
                assert!(check(ANY, "", [&image[..], &[0; 4]].concat()).is_ok());
            }
        }
    }
    let mut unfinished = tiff(false, true, Layout::DirectoryFirst);
    unfinished[4..8].fill(0);
    assert!(check(ANY, "image/tiff", unfinished).is_err());
}

#[test]
fn a_tiff_of_many_strips_is_checked_to_its_last_strip_within_bounds() {
    let strips = 300_000_u32;
    let mut image = b"II*\0\x08\0\0\0\x02\0".to_vec();
    let arrays = 8 + 2 + 24 + 4;
    let data = arrays + 8 * strips;
    for (tag, at) in [(273_u16, arrays), (279, arrays + 4 * strips)] {
        image.extend(tag.to_le_bytes());
        image.extend(4_u16.to_le_bytes());
        image.extend(strips.to_le_bytes());
        image.extend(at.to_le_bytes());
    }
    image.extend([0; 4]);
    image.extend((0..strips).flat_map(|strip| (data + 3 * strip).to_le_bytes()));
    image.extend((0..strips).flat_map(|_| 3_u32.to_le_bytes()));
    image.extend(vec![7; 3 * strips as usize]);
    assert!(check_in(ANY, "image/tiff", &image, 4096).is_ok());
    let end = image.len();
    for cut in [end - 1, end - 2, end - 3, end - 500_000, 1_000_000] {
        let error = check_in(ANY, "image/tiff", &image[..cut], 4096).unwrap_err();
        assert!(matches!(error, Incomplete::Short { .. }), "{cut}: {error}");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    DirectoryFirst,
    DirectoryLast,
    /// Data, arrays, directory.
    ArraysFirst,
    /// Two directories, as in a cloud-optimised file: all of the directories first, the smaller image's data first.
    Pyramid,
}

/// Two strips of 5 and 7 bytes, and a description that is too long for its entry.
fn tiff(big: bool, little: bool, layout: Layout) -> Vec<u8> {
    let word = if big { 8 } else { 4 };
    let number = |number: usize, size: usize| {
        let bytes = (number as u64).to_le_bytes();
        let mut bytes = bytes[..size].to_vec();
        if !little {
            bytes.reverse();
        }
        bytes
    };
    let header = if big { 16 } else { 8 };
    let count = if big { 8 } else { 2 };
    let directory = count + 3 * (4 + 2 * word) + word;
    let arrays = 4 * word + 20;
    let data = 12;
    let make = |at: usize, arrays_at: usize, data_at: usize, next: usize| {
        let mut bytes = number(3, count);
        for (tag, kind, length, value) in [
            (270, 2, 20, arrays_at),
            (273, if big { 16 } else { 4 }, 2, arrays_at + 20),
            (279, if big { 16 } else { 4 }, 2, arrays_at + 20 + 2 * word),
        ] {
            bytes.extend(number(tag, 2));
            bytes.extend(number(kind, 2));
            bytes.extend(number(length, word));
            bytes.extend(number(value, word));
        }
        bytes.extend(number(next, word));
        let mut tail = b"twenty bytes of text".to_vec();
        for value in [data_at, data_at + 5, 5, 7] {
            tail.extend(number(value, word));
        }
        (at, bytes, arrays_at, tail, data_at)
    };
    let parts = match layout {
        Layout::DirectoryFirst => vec![make(
            header,
            header + directory,
            header + directory + arrays,
            0,
        )],
        Layout::DirectoryLast => vec![make(header + data, header + data + directory, header, 0)],
        Layout::ArraysFirst => vec![make(header + data + arrays, header + data, header, 0)],
        Layout::Pyramid => {
            let both = header + 2 * (directory + arrays);
            vec![
                make(
                    header,
                    header + directory,
                    both + data,
                    header + directory + arrays,
                ),
                make(
                    header + directory + arrays,
                    header + 2 * directory + arrays,
                    both,
                    0,
                ),
            ]
        }
    };
    let mut file = Vec::new();
    let mut put = |at: usize, bytes: &[u8]| {
        file.resize(file.len().max(at + bytes.len()), 0);
        file[at..at + bytes.len()].copy_from_slice(bytes);
    };
    put(0, if little { b"II" } else { b"MM" });
    put(2, &number(if big { 43 } else { 42 }, 2));
    if big {
        put(4, &number(8, 2));
        put(8, &number(parts[0].0, 8));
    } else {
        put(4, &number(parts[0].0, 4));
    }
    for (at, directory, arrays_at, arrays, data_at) in parts {
        put(at, &directory);
        put(arrays_at, &arrays);
        put(data_at, &[9; 12]);
    }
    file
}

#[test]
fn no_cut_of_a_zip_is_whole() {
    for wide in [false, true] {
        let archive = zip(b"attributes", wide, b"");
        no_cut_is_whole(ANY, "application/zip", &archive);
        assert!(check_in(ANY, "", &archive, 5).is_ok());
        // An archive in an archive, stored as it is: where the inner one ends, the outer one does not.
        no_cut_is_whole(ANY, "application/zip", &zip(&archive, wide, b""));
        assert!(check(ANY, "application/zip", zip(b"a", wide, b"a comment")).is_ok());
    }
    no_cut_is_whole(
        ANY,
        "application/zip",
        b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    );
}

/// One stored file, with zip64's records where `wide`.
fn zip(content: &[u8], wide: bool, comment: &[u8]) -> Vec<u8> {
    let size = (content.len() as u32).to_le_bytes();
    let mut file = b"PK\x03\x04\x0A\0\0\0\0\0\0\0\0\0crc.".to_vec();
    file.extend(size);
    file.extend(size);
    file.extend(b"\x01\0\0\0a");
    file.extend(content);
    let directory = file.len();
    file.extend(b"PK\x01\x02\x0A\0\x0A\0\0\0\0\0\0\0\0\0crc.");
    file.extend(size);
    file.extend(size);
    file.extend(b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0a");
    let length = file.len() - directory;
    let record = file.len();
    if wide {
        file.extend(b"PK\x06\x06\x2C\0\0\0\0\0\0\0\x2D\0\x2D\0\0\0\0\0\0\0\0\0");
        file.extend(1_u64.to_le_bytes());
        file.extend(1_u64.to_le_bytes());
        file.extend((length as u64).to_le_bytes());
        file.extend((directory as u64).to_le_bytes());
        file.extend(b"PK\x06\x07\0\0\0\0");
        file.extend((record as u64).to_le_bytes());
        file.extend(b"\x01\0\0\0");
    }
    file.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    let or = |number: usize| if wide { u32::MAX } else { number as u32 };
    file.extend(or(length).to_le_bytes());
    file.extend(or(directory).to_le_bytes());
    file.extend((comment.len() as u16).to_le_bytes());
    file.extend(comment);
    file
}

#[test]
fn no_cut_of_a_geopackage_is_whole() {
    let mut file = b"SQLite format 3\0\x02\0".to_vec();
    file.resize(1024, 0);
    file[24..28].copy_from_slice(&7_u32.to_be_bytes());
    file[92..96].copy_from_slice(&7_u32.to_be_bytes());
    file[28..32].copy_from_slice(&2_u32.to_be_bytes());
    no_cut_is_whole(ANY, "application/geopackage+sqlite3", &file);
}

#[test]
fn no_cut_of_a_vector_tile_within_a_layer_is_whole() {
    let mut tile = vec![0x1A, 0x85, 0x01];
    tile.resize(3 + 133, 7);
    no_cut_is_whole(VECTOR_TILE, "application/vnd.mapbox-vector-tile", &tile);
    let two = [&tile[..], &tile].concat();
    for cut in 1..two.len() {
        assert_eq!(
            check(VECTOR_TILE, "", &two[..cut]).is_ok(),
            cut == tile.len()
        );
    }
    // Glyphs and OpenStreetMap's own files have the same ending.
    assert!(check("/fonts/a/0-255.pbf", "application/x-protobuf", b"\x0A\x99").is_ok());
    assert!(check("/a.osm.pbf", "application/octet-stream", b"\0\0\0\x0D\x0A").is_ok());
}

#[test]
fn a_table_ends_with_the_end_of_a_line_outside_of_quotes() {
    let table = "id,name,note\r\n1,\"a, \"\"b\"\"\",5\" pipe\r\n2,\"two\nlines\",\"\"\r\n";
    for (target, label) in [
        (CSV, "text/csv; charset=utf-8"),
        (CSV, "text/plain"),
        (ANY, "text/csv"),
    ] {
        assert!(check(target, label, table).is_ok(), "{label}");
        for cut in 1..table.len() {
            let cut = &table[..cut];
            let is_line = cut.ends_with(['\n', '\r']) && !cut.ends_with("\"two\n");
            let checked = check(target, label, cut);
            assert_eq!(checked.is_ok(), is_line, "{label} {cut:?}");
            for pieces in [1, 2, 3] {
                assert_eq!(
                    check_in(target, label, cut.as_bytes(), pieces),
                    checked,
                    "{cut:?}"
                );
            }
        }
    }
    assert!(check(CSV, "text/csv", "id,name\n").is_ok());
}

#[test]
fn last_words_are_looked_for() {
    no_cut_is_whole(
        ANY,
        "application/pdf",
        b"%PDF-1.7\n%%EOG\nstartxref\n1\n%%EOF",
    );
    no_cut_is_whole(ANY, "image/vnd.dxf", b"  0\nSECTION\n  0\nENDSEC\n  0\nEOF");
    for label in [
        "multipart/mixed; boundary=wcs",
        "multipart/related; boundary=\"wcs\"; type=\"text/xml\"",
    ] {
        no_cut_is_whole(
            ANY,
            label,
            b"--wcs\r\nContent-Type: text/xml\r\n\r\n<a>\r\n--wcs--",
        );
    }
}
