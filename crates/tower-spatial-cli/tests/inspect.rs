//! The command `tower-spatial inspect`, as people call it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus")
}

fn inspect(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tower-spatial"))
        .arg("inspect")
        .args(arguments)
        .output()
        .unwrap()
}

fn json(arguments: &[&str]) -> Vec<Value> {
    let output = inspect(&[&["--json"], arguments].concat());
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines = String::from_utf8(output.stdout).unwrap();
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Fields of a tab-separated line, quoted as in RFC 4180 where they hold a quote.
fn fields(line: &str) -> Vec<String> {
    line.split('\t')
        .map(|field| {
            match field
                .strip_prefix('"')
                .and_then(|field| field.strip_suffix('"'))
            {
                Some(quoted) => quoted.replace("\"\"", "\""),
                None => field.to_owned(),
            }
        })
        .collect()
}

#[test]
fn every_answer_of_the_corpus_is_judged_as_whoever_arranged_it_knows() {
    let (mut judged, mut wrong) = (0, Vec::new());
    let (mut tellable, mut told) = (0, 0);
    for folder in ["modelled", "recorded"] {
        let folder = corpus().join(folder);
        let index = fs::read_to_string(folder.join("index.tsv")).unwrap();
        let mut lines = index.lines().map(fields);
        let names = lines.next().unwrap();
        for row in lines {
            let field =
                |name: &str| row[names.iter().position(|known| known == name).unwrap()].as_str();
            let file = folder.join(field("file"));
            let mut arguments = vec!["--request".to_owned(), field("request").to_owned()];
            if field("post_body_file") != "-" {
                let body =
                    file.with_file_name(Path::new(field("post_body_file")).file_name().unwrap());
                arguments.extend(["--request-body".to_owned(), body.display().to_string()]);
            }
            arguments.push(file.display().to_string());
            let answer = &json(&arguments.iter().map(String::as_str).collect::<Vec<_>>())[0];
            let (truth, told_by) = (field("verdict"), field("told_by"));
            if told_by.starts_with("NOT") {
                continue;
            }
            judged += 1;
            let verdict = answer["verdict"].as_str().unwrap();
            let code = field("exception_code");
            let without_code = matches!(code, "" | "-" | "(no code)");
            let general = without_code || code.eq_ignore_ascii_case("NoApplicableCode");
            let server_error = answer["status"]
                .as_u64()
                .is_some_and(|status| status >= 500);
            let right = verdict == truth
                || (truth != "ok" && verdict == "ambiguous" && general)
                || (truth != "ok" && verdict == "transient" && without_code && server_error);
            // A failure of the line or of the document, and no other, shows in what is complete.
            let cut = ["document end", "counts", "tail", "last line", "transport"]
                .iter()
                .any(|start| told_by.starts_with(start));
            let right = right
                && (truth != "ok" || answer["complete"] != false)
                && (!cut || answer["complete"] == false)
                && (answer["complete"] == false) == answer["missing"].is_string();
            if !right {
                wrong.push(format!(
                    "{}: {truth}, not {verdict}: {answer}",
                    field("file")
                ));
            }
            if general && matches!(truth, "transient" | "throttled") && told_by.contains("head") {
                tellable += 1;
                told += u32::from(verdict == truth);
            }
        }
    }
    let summary = format!(
        "{judged} answers, {} wrong; {told} of {tellable} dispositions without a code told\n",
        wrong.len()
    );
    let _ = std::io::Write::write_all(&mut std::io::stdout(), summary.as_bytes());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(judged > 400 && told * 10 >= tellable * 9);
}

#[test]
fn an_answer_is_told_in_json_with_every_key() {
    let file = corpus()
        .join("modelled/wms130-layernotdefined.http")
        .display()
        .to_string();
    let request = "GET https://maps.example.org/ows?SERVICE=WMS&REQUEST=GetMap&FORMAT=image/png";
    let answer = &json(&["--request", request, &file])[0];
    let keys: Vec<_> = answer
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "file",
        "status",
        "verdict",
        "dialect",
        "code",
        "locator",
        "message",
        "retry_after_ms",
        "safe_to_repeat",
        "complete",
        "missing",
        "why",
    ];
    assert_eq!(
        (keys.len(), expected.iter().all(|key| keys.contains(key))),
        (expected.len(), true),
        "{keys:?}"
    );
    assert_eq!(answer["code"], "LayerNotDefined");
    assert_eq!(answer["retry_after_ms"], Value::Null);
    assert_eq!(
        (&answer["safe_to_repeat"], &answer["complete"]),
        (&Value::Bool(true), &Value::Bool(true))
    );
}

#[test]
fn cut_and_empty_answers_are_read_as_the_line_would_have_brought_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let cases: [(&str, &[u8], &str, Value, Value); 7] = [
        ("empty", b"", "transient", Value::Null, false.into()),
        (
            "head",
            b"HTTP/1.1 200 OK\r\nContent-Le",
            "transient",
            200.into(),
            false.into(),
        ),
        (
            "cut",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nabc",
            "transient",
            200.into(),
            false.into(),
        ),
        (
            "chunks",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "transient",
            200.into(),
            false.into(),
        ),
        (
            "whole",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            "ok",
            200.into(),
            true.into(),
        ),
        (
            "close",
            b"HTTP/1.1 200 OK\r\n\r\nabc",
            "ok",
            200.into(),
            Value::Null,
        ),
        (
            "hint",
            b"HTTP/1.1 429 Slow\r\nRetry-After: 86400\r\nContent-Length: 0\r\n\r\n",
            "throttled",
            429.into(),
            true.into(),
        ),
    ];
    for (name, bytes, verdict, status, complete) in cases {
        let answer = &json(&[&file(name, bytes)])[0];
        assert_eq!(
            (
                answer["verdict"].as_str().unwrap(),
                &answer["status"],
                &answer["complete"]
            ),
            (verdict, &status, &complete),
            "{name}: {answer}"
        );
        if name == "hint" {
            assert_eq!(answer["retry_after_ms"], 86_400_000, "before the clamp");
        }
    }
}

#[test]
fn a_har_file_is_read_entry_by_entry() {
    let folder = tempfile::tempdir().unwrap();
    let har = folder.path().join("a.har");
    let report = "<ServiceExceptionReport><ServiceException code='InvalidCRS'>no</ServiceException></ServiceExceptionReport>";
    let entry = |url: &str, status: u16, content: Value| {
        serde_json::json!({"request": {"method": "GET", "url": url, "headers": [{"name": ":authority", "value": "x"}]},
            "response": {"status": status, "headers": [{"name": "Content-Encoding", "value": "br"}], "content": content}})
    };
    let url = "https://example.org/ows?SERVICE=WMS&REQUEST=GetMap&BBOX={1}";
    let entries = [
        entry(
            url,
            200,
            serde_json::json!({"mimeType": "text/xml", "text": report}),
        ),
        entry(
            url,
            200,
            serde_json::json!({"mimeType": "image/png", "text": "iVBORw0KGgoAAAAASUVORK5CYII=", "encoding": "base64"}),
        ),
        entry(url, 0, serde_json::json!({})),
        entry("data:image/png;base64,AAAA", 200, serde_json::json!({})),
    ];
    fs::write(
        &har,
        serde_json::json!({"log": {"version": "1.2", "entries": entries}}).to_string(),
    )
    .unwrap();
    let answers = json(&["--har", &har.display().to_string()]);
    let verdicts: Vec<_> = answers
        .iter()
        .map(|answer| answer["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(verdicts, ["permanent", "ok", "transient"]);
    assert!(answers[1]["file"].as_str().unwrap().ends_with("a.har#1"));
}

#[test]
fn bad_usage_and_unreadable_files_exit_with_2_and_say_why() {
    for (arguments, words) in [
        (vec!["/nowhere/a.http"], "/nowhere/a.http"),
        (vec!["--request", "nonsense", "/dev/null"], "METHOD URL"),
        (vec![], "required"),
        (vec!["--har", "/dev/null"], "not a HAR file"),
        (vec!["--no-such-option"], "--no-such-option"),
        (
            vec!["--request", "GET http://a/", "--har", "/dev/null"],
            "cannot be used with",
        ),
    ] {
        let output = inspect(&arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
}

#[test]
fn the_text_says_why_in_words() {
    let file = corpus()
        .join("modelled/retryafter-huge-429.http")
        .display()
        .to_string();
    let text = String::from_utf8(inspect(&[&file]).stdout).unwrap();
    assert!(
        text.contains("throttled")
            && text.contains("it is repeated no sooner than the server asks"),
        "{text}"
    );
}

#[test]
fn what_is_missing_is_said_in_words() {
    let file = corpus()
        .join("modelled/wfs200-numberreturned-mismatch.http")
        .display()
        .to_string();
    let request = "GET https://example.org/wfs?service=WFS&request=GetFeature&typeNames=a";
    let answer = &json(&["--request", request, &file])[0];
    assert_eq!(answer["verdict"], "transient");
    assert_eq!(answer["complete"], false);
    assert_eq!(
        answer["missing"],
        "expected the 5 members it announces, 3 came"
    );
    let text = String::from_utf8(inspect(&["--request", request, &file]).stdout).unwrap();
    assert!(text.contains("no: expected the 5 members"), "{text}");
}

#[test]
fn an_exception_that_is_glued_into_a_document_of_another_form_is_told_with_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("glued.http");
    let feature = r#"{"type":"Feature","properties":{}},"#.repeat(1000);
    let body = format!(
        "{{\"type\":\"FeatureCollection\",\"features\":[{feature}\n<?xml version='1.0'?><ows:ExceptionReport \
         xmlns:ows='http://www.opengis.net/ows/1.1'><ows:Exception exceptionCode='NoApplicableCode'>\
         <ows:ExceptionText>connection lost</ows:ExceptionText></ows:Exception></ows:ExceptionReport>"
    );
    let length = body.len();
    let raw = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    fs::write(&path, raw).unwrap();
    let request = "GET https://example.org/wfs?service=WFS&request=GetFeature&typeNames=a&outputFormat=geojson";
    let answer = &json(&["--request", request, &path.display().to_string()])[0];
    assert_eq!(answer["verdict"], "transient", "{answer}");
    assert_eq!(answer["code"], "NoApplicableCode", "{answer}");
    assert_eq!(answer["complete"], false, "{answer}");
}
