//! Whatever the bytes, and however they are split.

use proptest::prelude::*;

use super::*;

/// Pieces of documents, sane and insane, in any order.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&[u8]] = &[
        b"<?xml version='1.0'?>",
        b"<a>",
        b"</a>",
        b"<b c='>'/>",
        b"<!-- <a> -",
        b"-->",
        b"<![CDATA[",
        b"]]>",
        b"]",
        b"--",
        b"?>",
        b"<FeatureCollection numberReturned='2'>",
        b"<member>",
        b"</member>",
        b"<featureMembers>",
        b"</FeatureCollection>",
        b"<osm>",
        b"<remark>",
        b"runtime error: timed out",
        b"<ows:ExceptionReport>",
        b"<!DOCTYPE a [",
        b"]>",
        b"'",
        b"\"",
        b">",
        b"<",
        b"/",
        b"{\"features\":[",
        b"{\"type\":\"Feature\",\"coordinates\":[[[[1.25,2.5],[3.75,4.0],[5.5,6.25],[1,2]]]]},",
        b"}",
        b"]}",
        b",\"numberReturned\":2",
        b",\"error\":{\"code\":500}",
        b"\"a\\\"b\"",
        b"\\",
        b":",
        b",",
        b"{",
        b"[",
        b"cb(",
        b")",
        b"\x1E",
        b" \r\n",
        b"\0",
        b"\x89PNG\r\n\x1a\n",
        b"\0\0\0\x01IDAT",
        b"\0\0\0\0IEND....",
        b"\xFF\xD8\xFF",
        b"\xFF\xD9",
        b"\xFF\xDA\0\x02",
        b"GIF89a",
        b"\x2C",
        b"\x3B",
        b"II*\0\x08\0\0\0",
        b"\x01\0\x11\x01\x04\0\x02\0\0\0\x08\0\0\0",
        b"PK\x03\x04",
        b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        b"RIFF\x10\0\0\0WEBP",
        b"\x1A\x03abc",
        b"\xFE\xFF",
        b"\xFF\xFE<\0a\0/\0>\0",
        b"\xEF\xBB\xBF",
        b"a,b\n",
        b"--x--",
        b"0123456789abcdef0123456789abcdef",
    ];
    let known = proptest::sample::select(PIECES).prop_map(<[u8]>::to_vec);
    let noise = proptest::collection::vec(any::<u8>(), 0..20);
    let piece = prop_oneof![9 => known, 1 => noise];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_verdict_is_the_same_however_the_bytes_are_split(
        body in pieces(),
        sizes in proptest::collection::vec(1_usize..40, 1..6),
        setting in 0_usize..7,
    ) {
        let (target, label) = [
            (GET_FEATURE, "text/xml"), (ITEMS, "application/json"), (GET_MAP, "image/png"), (VECTOR_TILE, ""),
            (CSV, "text/csv"), (ANY, "multipart/mixed; boundary=x"), (ANY, "text/javascript"),
        ][setting];
        let at_once = check(target, label, &body);
        let mut split = document(Method::GET, 200, target, label);
        let mut rest = &body[..];
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at(rest.len().min(*size));
            split.push(piece);
            rest = after;
        }
        prop_assert_eq!(split.finish(), at_once);
    }

    #[test]
    fn a_tree_of_elements_is_whole_and_none_of_its_cuts_is(names in proptest::collection::vec("[a-z]{1,3}", 1..12), text in "[a-z\"' ]{0,9}") {
        let mut body = String::new();
        for name in &names {
            body += &format!("<{name} b='{}'>{text}<!-- </{name}> -->", text.replace('\'', ""));
        }
        for name in names.iter().rev() {
            body += &format!("</{name}>");
        }
        no_cut_is_whole(GET_FEATURE, "text/xml", body.as_bytes());
    }

    #[test]
    fn a_value_is_whole_and_none_of_its_cuts_is(value in json()) {
        no_cut_is_whole(ITEMS, "application/json", format!("{{\"a\":{value}}}").as_bytes());
    }
}

fn json() -> impl Strategy<Value = String> {
    let string = "[a-z{}\\[\\]<:, ]{0,12}".prop_map(|text| format!("\"{text}\\\"\\\\\""));
    let leaf = prop_oneof![string, Just("1.5e3".to_owned()), Just("null".to_owned())];
    leaf.prop_recursive(8, 40, 5, |inner| {
        let values = proptest::collection::vec(inner, 0..5);
        prop_oneof![
            values
                .clone()
                .prop_map(|values| format!("[{}]", values.join(","))),
            values.prop_map(|values| {
                let members: Vec<_> = values
                    .iter()
                    .map(|value| format!("\"k\": {value}"))
                    .collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}
