//! The schema and the table of keys, made from the rows that also read the file: they cannot drift.
//!
//! `UPDATE=1 cargo test -p tower-spatial --features config` writes them anew.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::keys::{BLOCK, FILE, FRESHNESS, Kind, Row, VERDICTS};
use super::read::wanted;

#[test]
fn the_committed_schema_is_that_of_the_keys() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Settings of tower-spatial",
        "type": "object",
        "properties": properties(FILE),
        "patternProperties": { "^x-": {} },
        "additionalProperties": false,
        "$defs": { "block": object(BLOCK), "fromEnvironment": from_environment() },
    });
    let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
    up_to_date("settings.schema.json", &text);
}

#[test]
fn the_documented_keys_are_those_that_are_read() {
    let mut text = String::from("| key | expected | default | what it is |\n|---|---|---|---|\n");
    table(BLOCK, "", &mut text);
    up_to_date("src/config/keys.md", &text);
}

fn table(rows: &[Row], parent: &str, text: &mut String) {
    for row in rows {
        let name = format!("{parent}{}", row.name);
        let range = match row.kind {
            Kind::Time => "time".to_owned(),
            Kind::Block(_) => "block".to_owned(),
            _ => wanted(row).replace('|', "\\|"),
        };
        writeln!(
            text,
            "| `{name}` | {range} | {} | {} |",
            row.default, row.meaning
        )
        .unwrap();
        if let Kind::Block(below) | Kind::Choice(_, below) = row.kind {
            table(below, &format!("{name}."), text);
        }
    }
}

/// `file` within the crate.
fn up_to_date(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "{file} is out of date: run the test again with UPDATE=1"
    );
}

fn properties(rows: &[Row]) -> Value {
    let property = |row: &Row| {
        let mut schema = of(row);
        if let Value::Object(map) = &mut schema {
            let meaning = format!("{} Default: {}.", row.meaning, row.default);
            map.insert("description".to_owned(), meaning.into());
        }
        (row.name.to_owned(), schema)
    };
    Value::Object(rows.iter().map(property).collect::<Map<_, _>>())
}

fn object(rows: &[Row]) -> Value {
    let mut schema = json!({
        "type": "object",
        "properties": properties(rows),
        "additionalProperties": false,
    });
    let required: Vec<_> = rows
        .iter()
        .filter(|row| row.default == "required")
        .map(|row| row.name)
        .collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn block(rows: &'static [Row]) -> Value {
    match std::ptr::eq(rows, BLOCK) {
        true => json!({ "$ref": "#/$defs/block" }),
        false => object(rows),
    }
}

fn of(row: &Row) -> Value {
    let environment = json!({ "$ref": "#/$defs/fromEnvironment" });
    let text = || json!({ "type": "string", "minLength": 1 });
    match &row.kind {
        Kind::Time => json!({ "anyOf": [
            { "type": "number", "exclusiveMinimum": 0, "maximum": 315_360_000 },
            { "type": "string", "pattern": r"^([0-9]+(\.[0-9]+)?(ms|s|min|m|h|d))+$" },
            environment,
        ] }),
        Kind::Count { least, most } => json!({ "anyOf": [
            { "type": "integer", "minimum": least, "maximum": most },
            environment,
        ] }),
        Kind::Number { least, most } => json!({ "anyOf": [
            { "type": "number", "minimum": least, "maximum": most },
            environment,
        ] }),
        Kind::Switch => json!({ "anyOf": [{ "type": "boolean" }, environment] }),
        Kind::Words(words) => json!({ "anyOf": [{ "enum": words }, environment] }),
        Kind::Text | Kind::Moment => text(),
        Kind::Texts => json!({ "anyOf": [text(), list(&text(), None)] }),
        Kind::Rates => {
            let rate = json!({ "anyOf": [
                { "type": "string", "pattern": r"^ *[0-9]+ */ *[0-9]*(s|sec|second|min|minute|h|hour|d|day)( burst +[0-9]+)? *$" },
                environment,
            ] });
            json!({ "anyOf": [rate, list(&rate, Some(3))] })
        }
        Kind::Statuses => json!({
            "type": "object",
            "patternProperties": {
                "^[1-5][0-9]{2}( *- *[1-5][0-9]{2})?$": { "anyOf": [{ "enum": VERDICTS }, environment] },
            },
            "additionalProperties": false,
        }),
        Kind::Block(rows) => nullable(std::ptr::eq(*rows, BLOCK), block(rows)),
        Kind::Choice(words, rows) => {
            let words: Vec<Value> = words
                .iter()
                .map(|word| match *word {
                    "true" => true.into(),
                    "false" => false.into(),
                    word => word.into(),
                })
                .collect();
            json!({ "anyOf": [{ "enum": words }, environment, block(rows)] })
        }
        Kind::Endpoints => json!({
            "type": ["object", "null"],
            "propertyNames": { "minLength": 1 },
            "additionalProperties": nullable(true, block(BLOCK)),
        }),
    }
}

/// A block can be left empty.
fn nullable(is_block: bool, schema: Value) -> Value {
    match is_block {
        true => json!({ "anyOf": [schema, { "type": "null" }] }),
        false => schema,
    }
}

fn list(of: &Value, most: Option<usize>) -> Value {
    let mut list = json!({ "type": "array", "items": of, "minItems": 1 });
    if let Some(most) = most {
        list["maxItems"] = most.into();
    }
    list
}

fn from_environment() -> Value {
    json!({ "type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}" })
}

/// Every row leads to something: a key that is documented and not read would be dropped without a word.
#[test]
fn every_key_is_read_shown_and_applied() {
    let sample = |row: &Row| match &row.kind {
        Kind::Time => "7s".to_owned(),
        Kind::Count { .. } => "7".to_owned(),
        Kind::Number { .. } => "1".to_owned(),
        Kind::Switch => "true".to_owned(),
        Kind::Words(words) => words[0].to_owned(),
        Kind::Text => "name".to_owned(),
        Kind::Texts if row.name == "dialects" => "[ogc-xml]".to_owned(),
        Kind::Texts => "[a.example]".to_owned(),
        Kind::Statuses => "{500: transient}".to_owned(),
        Kind::Rates => "1/s".to_owned(),
        Kind::Moment => "2026-03-01".to_owned(),
        Kind::Block(rows) => format!("{{{}: 7s}}", rows[0].name),
        Kind::Choice(words, _) => words[0].to_owned(),
        Kind::Endpoints => String::new(),
    };
    for row in BLOCK {
        let text = format!("endpoints: {{a: {{{}: {}}}}}", row.name, sample(row));
        let file = super::SettingsFile::from_yaml_with(&text, "f", |_| None);
        let file = file.unwrap_or_else(|error| panic!("{text}: {error}"));
        let (_, block) = file.endpoints().next().unwrap();
        assert!(block.shown(row.name).is_some(), "{text}");
        assert!(
            super::Block::default().shown(row.name).is_none(),
            "{}",
            row.name
        );
        let applied = format!("{:?}", block.apply(crate::EndpointSettings::new()));
        let says_something = applied != format!("{:?}", crate::EndpointSettings::new());
        let is_needed = !matches!(row.name, "hosts" | "healthy_p99" | "max_park")
            && (row.name != "completeness" || cfg!(feature = "completeness"));
        assert!(says_something || !is_needed, "{text}");
        let inherited = super::Block::default().or(block);
        assert_eq!(
            inherited.shown(row.name).is_some(),
            row.name != "hosts",
            "{text}"
        );
    }
    for row in FRESHNESS {
        let text = format!(
            "endpoints: {{a: {{freshness: {{{}: {}}}}}}}",
            row.name,
            sample(row)
        );
        let file = super::SettingsFile::from_yaml_with(&text, "f", |_| None).unwrap();
        assert!(
            file.endpoints()
                .next()
                .unwrap()
                .1
                .shown("freshness")
                .is_some(),
            "{text}"
        );
    }
}
