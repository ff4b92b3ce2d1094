//! What COMPARE-RETRIES.md says of tower, tower-http, tower-resilience, reqwest-middleware with reqwest-retry, and of us.

mod answers;
mod breaker;
mod delays;
mod limits;
mod requests;
mod support;
mod timeouts;

/// A row without a test, or with the name of one that is gone, is not a fact.
#[test]
fn every_row_names_tests_that_exist() {
    let sources = [
        ("answers", include_str!("answers.rs")),
        ("breaker", include_str!("breaker.rs")),
        ("delays", include_str!("delays.rs")),
        ("limits", include_str!("limits.rs")),
        ("requests", include_str!("requests.rs")),
        ("timeouts", include_str!("timeouts.rs")),
    ];
    let rows: Vec<&str> = include_str!("../../COMPARE-RETRIES.md")
        .lines()
        .filter(|line| line.starts_with("| ") && line.ends_with("` |"))
        .collect();
    assert!(rows.len() > 10, "{rows:?}");
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit("| ").next().unwrap();
        for name in cell.split(", ").map(|name| name.trim_matches('`')) {
            let (module, test) = name.split_once("::").expect(row);
            let source = sources.iter().find(|(of, _)| *of == module);
            let (_, source) = source.expect(row);
            assert!(source.contains(&format!("async fn {test}()")), "{row}");
        }
    }
}
