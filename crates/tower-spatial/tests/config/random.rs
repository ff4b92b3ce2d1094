//! Random files: no panic, and whatever is accepted can be built.

use std::fs;

use proptest::prelude::*;

use super::crate_file;

#[path = "../../../../fuzz/claims/settings.rs"]
mod settings;

#[test]
fn the_claims_on_settings_hold_of_every_seed() {
    let seeds = fs::read_dir(crate_file("../../fuzz/seeds/settings")).unwrap();
    let mistakes = fs::read_dir(crate_file("tests/config/mistakes")).unwrap();
    let files = seeds.chain(mistakes).map(|entry| entry.unwrap().path());
    let count = files
        .map(|file| settings::hold(&fs::read(file).unwrap()))
        .count();
    assert!(count > 50);
}

/// A key that is one, or nearly.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "hosts", "base_seconds", "cap_seconds", "budget_seconds", "concurrency", "rate", "key", "statuses",
            "breaker", "adaptive", "freshness", "completeness", "dialects", "published_limit", "healthy_p99",
            "read_timeout", "open", "share", "failure_rate", "query", "max_age", "500", "start", "park", "<<",
        ]).prop_map(str::to_owned),
        1 => "[a-z_]{1,8}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "true",
            "none",
            "transient",
            "1/s",
            "10/s burst 2",
            "5m",
            "wms.example",
            "*.a.example/b",
            "streaming",
            "2026-03-01",
            "${SECRET}",
            "${NONE}",
            "$${x}",
            "1 rps",
            "~",
            "''",
            "*a",
            "-ogc-xml",
        ])
        .prop_map(str::to_owned),
        any::<i32>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| n.to_string()),
        "\\PC{0,12}".prop_map(|text| format!("{text:?}")),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|all| format!("[{}]", all.join(", "))),
            prop::collection::vec((key(), inner), 0..5).prop_map(|all| {
                let entries: Vec<_> = all
                    .iter()
                    .map(|(key, value)| format!("{key}: {value}"))
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn random_structures_are_read_or_refused(
        blocks in prop::collection::vec(("[a-c]", prop::collection::vec((key(), value()), 0..6)), 0..4),
        top in prop::sample::select(vec!["endpoints", "defaults", "unknown_hosts"]),
    ) {
        let mut text = String::from("x-a: &a {concurrency: 3}\n");
        text += top;
        text += ":\n";
        for (name, entries) in blocks {
            text += &format!("  {name}:\n");
            for (key, value) in entries {
                text += &format!("    {key}: {value}\n");
            }
        }
        settings::hold(text.as_bytes());
    }

    #[test]
    fn random_text_is_read_or_refused(text in "(endpoints:\n)?([ \\-]{0,4}[a-z\"'{}\\[\\]&*!|>%@#?<]{0,6}(: ?)?[0-9a-z~.\n\t]{0,6}){0,20}") {
        settings::hold(text.as_bytes());
    }
}
