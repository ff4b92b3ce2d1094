//! The demo's report as one HTML page: the picture, the table, what was promised. It loads nothing, and its own policy
//! says so.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::chart;
use super::report::{ROWS, promises};
use super::run::Outcome;
use super::script::{SECONDS_IN_ONE, TROUBLES, WORKERS};

/// The file that the report goes to.
#[derive(Debug)]
pub(super) struct Page {
    file: File,
}

impl Page {
    /// Opened before the demo runs, so that a path which cannot be written is told at once. What the file holds stays until
    /// the report is there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = options.open(path).map_err(|error| {
            let path = path.display();
            io::Error::new(
                error.kind(),
                format!("cannot write the report to {path}: {error}"),
            )
        })?;
        Ok(Self { file })
    }

    pub(super) fn write(mut self, outcomes: &[Outcome; 3], seed: u64) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all(html(outcomes, seed).as_bytes())
    }
}

/// Well-formed as XML too, so that any reader can take it apart.
fn html(outcomes: &[Outcome; 3], seed: u64) -> String {
    let tiles = outcomes[0].tiles;
    let mut page = format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<title>tower-spatial demo</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{WORKERS} workers, {tiles} tiles, a map server that has a bad day</h1>
<p>Each client met a server of its own with the same troubles. All times are the story's: {SECONDS_IN_ONE} of its seconds
took a real one. Seed {seed}.</p>
"#
    );
    page.push_str(&chart::draw(outcomes));
    page.push_str("\n<ol>\n");
    for trouble in &TROUBLES {
        let (from, to) = (trouble.seconds.start, trouble.seconds.end);
        let name = escape(trouble.name);
        page.push_str(&format!("<li>{from} to {to} s: {name}</li>\n"));
    }
    page.push_str("</ol>\n<table>\n<tr><th></th>");
    for outcome in outcomes {
        let (name, what) = (escape(outcome.name), escape(outcome.what));
        page.push_str(&format!("<th>{name}<br/><small>{what}</small></th>"));
    }
    page.push_str("</tr>\n");
    for (title, value) in ROWS {
        page.push_str(&format!("<tr><th>{}</th>", escape(title)));
        for outcome in outcomes {
            page.push_str(&format!("<td>{}</td>", escape(&value(outcome))));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n<ul>\n");
    let ours = escape(outcomes[2].name);
    for (kept, promise) in promises(outcomes) {
        let kept = if kept { "kept" } else { "MISSED" };
        page.push_str(&format!("<li>{kept}: {ours}, {}</li>\n", escape(promise)));
    }
    page.push_str(&format!(
        "</ul>\n<p>Made by <code>tower-spatial demo --seed {seed} --tiles {tiles} --report FILE</code>.</p>\n</body>\n</html>\n"
    ));
    page
}

/// A text as HTML and XML have it.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

const STYLE: &str = "\
:root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.3rem}svg{width:100%;height:auto}table{border-collapse:collapse;margin:1rem 0}\
th,td{padding:.25rem .8rem;text-align:right;vertical-align:top;border-bottom:1px solid #8884}\
th:first-child{text-align:left;font-weight:400}small{font-weight:400;opacity:.75}\
ol{columns:2;font-size:.9rem}";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flaky_ogc::Counts;

    use super::*;
    use crate::demo::run::{Sample, Tally};

    #[test]
    fn whatever_a_client_is_called_stays_a_text() {
        let outcome = || Outcome {
            name: "<script>alert('1')</script>",
            what: "\"&\"",
            counts: Counts::default(),
            tally: Tally::default(),
            tiles: 1,
            took: Duration::ZERO,
            samples: vec![Sample::default()],
        };
        let page = html(&[outcome(), outcome(), outcome()], 1);
        assert!(!page.contains("<script") && !page.contains("\"&\""));
        // The legend, the table's head, the promises.
        let escaped = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;";
        assert_eq!(page.matches(escaped).count(), 3 + 3 + 3);
    }
}
