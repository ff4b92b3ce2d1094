//! `tower-spatial demo --report`, as people call it: with a few tiles, which are fetched before anything goes wrong.

use std::path::Path;
use std::process::{Command, Output};

use quick_xml::Reader;
use quick_xml::events::Event;

fn demo(report: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tower-spatial"))
        .args(["demo", "--tiles", "20", "--report"])
        .arg(report)
        .output()
        .expect("the binary starts")
}

#[test]
fn the_page_is_well_formed_shows_each_client_and_loads_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("<report> & \"more\".html");
    // What a longer report has left behind does not stay at the end.
    std::fs::write(&path, "</html>old ".repeat(10_000)).expect("written");
    let output = demo(&path);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}");
    assert!(printed.contains("tiles right"), "the table: {printed}");

    let page = std::fs::read_to_string(&path).expect("the page");
    assert!(!page.contains("old "));
    let mut reader = Reader::from_str(&page);
    reader.config_mut().check_end_names = true;
    let (mut open, mut lines) = (0, 0);
    loop {
        match reader.read_event().expect("well-formed") {
            Event::Eof => break,
            Event::Start(tag) => {
                open += 1;
                assert_loads_nothing(tag.name().as_ref());
            }
            Event::Empty(tag) => {
                assert_loads_nothing(tag.name().as_ref());
                let class = tag.try_get_attribute("class").expect("an attribute");
                let is_line = class.is_some_and(|class| class.value.starts_with("line client"));
                lines += usize::from(is_line);
            }
            Event::End(_) => open -= 1,
            _ => {}
        }
    }
    assert_eq!(open, 0, "each element is closed");
    // Three clients in the legend and in four panels.
    assert_eq!(lines, 3 + 3 * 4);
    for client in ["plain", "article", "tower-spatial"] {
        assert!(page.contains(client), "{client}");
    }
    // The namespace of SVG is a name and no place.
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
    for reference in ["http:", "https:", "src=", "href=", "url(", "@import"] {
        assert!(!elsewhere.contains(reference), "{reference}");
    }
}

fn assert_loads_nothing(name: &str) {
    assert!(
        ![
            "script", "link", "img", "image", "iframe", "object", "embed", "base"
        ]
        .contains(&name),
        "{name}"
    );
}

#[test]
fn a_path_that_cannot_be_written_is_told_before_the_demo_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("missing").join("report.html");
    let output = demo(&path);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "nothing has begun");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!(
        "tower-spatial: cannot write the report to {}: ",
        path.display()
    );
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn a_server_that_is_kept_up_has_nothing_to_report() {
    let output = Command::new(env!("CARGO_BIN_EXE_tower-spatial"))
        .args(["demo", "--serve", "127.0.0.1:0", "--report", "report.html"])
        .output()
        .expect("the binary starts");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be used with"));
}
