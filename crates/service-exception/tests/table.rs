//! The table of dialects in the crate's documentation is the one in the code.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use service_exception::Dialects;

#[test]
fn the_documented_table_is_made_from_the_code() {
    let mut table = String::from(HEAD);
    for (name, summary) in Dialects::standard().table() {
        let summary = summary
            .replace('|', "\\|")
            .replace('<', "\\<")
            .replace('[', "\\[")
            .replace(']', "\\]");
        writeln!(table, "| `{name}` | {summary} |").unwrap();
    }
    table.push_str("| `range` | a range that is not the one that was asked for, by status and `Content-Range` alone |\n");
    table.push_str(LIMITS);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/dialects.md");
    if std::env::var_os("UPDATE_TABLE").is_some() {
        fs::write(&file, &table).unwrap();
    }
    assert_eq!(
        fs::read_to_string(file).unwrap(),
        table,
        "run this test with UPDATE_TABLE=1"
    );
}

const HEAD: &str = "\
# What is recognised

Asked in this order; a form of its own comes before what is only a page or a text.

| dialect | what it reads |
|---|---|
";

const LIMITS: &str = "
# What cannot be known

* An image that shows an error (`EXCEPTIONS=INIMAGE`, `BLANK`, a blocked tile), a blank image in place of one, a map of which
  some layers are missing: the bytes are a good image.
* Overpass's CSV: it leaves its errors out. A CSV that was cut at the end of a line.
* What a `HEAD` would have said.
* A failure behind the first 2 KB: a root behind a long comment, a report in the middle of a long document, a document that was
  cut. [`Recognizer::whole_document`] finds the first two.
* A filter or a format that the server did not know and passed over: the answer is good, to another question.
";
