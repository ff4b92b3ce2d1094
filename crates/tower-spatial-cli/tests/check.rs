//! `tower-spatial check`, as people call it.

use std::process::{Command, Output};

fn check(arguments: &[&str], file: &str) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("endpoints.yaml");
    std::fs::write(&path, file).expect("written");
    Command::new(env!("CARGO_BIN_EXE_tower-spatial"))
        .arg("check")
        .args(arguments)
        .arg(path)
        .env("TOWER_SPATIAL_SECRET", "hunter2")
        .output()
        .expect("the binary starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_effective_settings_are_printed_with_where_they_come_from() {
    let file = "defaults: {read_timeout: 30}\nendpoints:\n  geocoder:\n    hosts: [api.geocoder.example]\n    rate: 1/s\n\
                \x20   published_limit: ${TOWER_SPATIAL_SECRET}\nunknown_hosts: refuse\n";
    let output = check(&[], file);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    for line in [
        "geocoder\n  hosts               api.geocoder.example\n",
        "  base_seconds        1s  (built in)\n",
        "  read_timeout        30s  (defaults)\n",
        "  rate                1/s\n",
        "  published_limit     ${TOWER_SPATIAL_SECRET}\n",
        "(any other host)\n  refused\n",
        "1 endpoint, 0 warnings\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn warnings_are_no_failure() {
    let output = check(
        &["--quiet"],
        "endpoints:\n  wfs:\n    read_timeout: 180\n    healthy_p99: 400\n",
    );
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines[0].starts_with("warning: ")
            && lines[0].contains("endpoints.yaml:3:19: endpoint `wfs`: read_timeout 180s is below"),
        "{text}"
    );
    assert_eq!(lines[1..], ["1 endpoint, 1 warning"]);
}

#[test]
fn an_error_is_a_failure() {
    let output = check(
        &[],
        "endpoints:\n  wfs:\n    concurency: 2\n    rate: ${TOWER_SPATIAL_SECRET}\n",
    );
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("endpoints.yaml:3:5: endpoint `wfs`: `concurency` is no key here; did you mean `concurrency`?"), "{text}");
    assert!(
        text.ends_with("2 errors\n") && !text.contains("hunter2"),
        "{text}"
    );
    let missing = Command::new(env!("CARGO_BIN_EXE_tower-spatial"))
        .args(["check", "no-such-file.yaml"])
        .output()
        .expect("the binary starts");
    assert_eq!(missing.status.code(), Some(1));
    assert!(self::text(&missing).contains("no-such-file.yaml: cannot be read"));
}
