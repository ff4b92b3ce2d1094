use std::fs;
use std::time::{Duration, Instant};

use boon::{Compiler, Schemas};
use serde_json::Value;
use tower_spatial::Endpoints;
use tower_spatial::config::{SCHEMA, SettingsFile, Source, Switch, UnknownHosts};

use super::{crate_file, environment};

fn parse(text: &str) -> SettingsFile {
    SettingsFile::from_yaml_with(text, "f", environment).unwrap_or_else(|error| panic!("{error}"))
}

fn is_valid(settings: &Value) -> Result<(), String> {
    let mut schemas = Schemas::new();
    let mut compiler = Compiler::new();
    let schema = serde_json::from_str(SCHEMA).unwrap();
    compiler.add_resource("settings.json", schema).unwrap();
    let index = compiler.compile("settings.json", &mut schemas).unwrap();
    let result = schemas.validate(settings, index);
    result.map_err(|error| error.to_string())
}

#[test]
fn the_articles_block_loads_as_it_stands() {
    let file = SettingsFile::load(crate_file("tests/config/article.yaml")).unwrap();
    let names: Vec<_> = file.endpoints().map(|(name, _)| name).collect();
    assert_eq!(names, ["national_wfs", "tile_wms", "geocoder"]);
    let seconds = Duration::from_secs_f64;
    let wfs = file.endpoint("national_wfs").unwrap();
    assert_eq!(
        (wfs.base, wfs.cap),
        (Some(seconds(2.0)), Some(seconds(120.0)))
    );
    assert_eq!(wfs.budget, Some(seconds(1800.0)));
    assert_eq!(wfs.connect_timeout, Some(seconds(10.0)));
    assert_eq!(wfs.read_timeout, Some(seconds(600.0)));
    assert_eq!((wfs.concurrency, wfs.honour_retry_after), (Some(2), None));
    let tiles = file.endpoint("tile_wms").unwrap();
    assert_eq!(
        (tiles.base, tiles.concurrency),
        (Some(seconds(0.5)), Some(16))
    );
    let geocoder = file.endpoint("geocoder").unwrap();
    assert_eq!(
        (geocoder.concurrency, geocoder.honour_retry_after),
        (Some(1), Some(true))
    );
    assert!(file.warnings().is_empty(), "{:?}", file.warnings());
    file.build().unwrap();
}

#[test]
fn the_example_file_loads_without_a_warning_and_fits_the_schema() {
    let path = crate_file("../../examples/endpoints.yaml");
    let endpoints = Endpoints::load(&path).unwrap();
    let geocoder = endpoints.find(&"https://api.geocoder.example/search".parse().unwrap());
    assert_eq!((geocoder.name(), geocoder.limit()), ("geocoder", 1));
    assert!(SettingsFile::load(&path).unwrap().warnings().is_empty());
    for file in [
        "../../examples/endpoints.yaml",
        "tests/config/article.yaml",
        "tests/config/everything.yaml",
    ] {
        let text = fs::read_to_string(crate_file(file)).unwrap();
        is_valid(&json_of(&text)).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

/// Block style YAML without anchors as JSON, by a reader that shares nothing with ours.
fn json_of(text: &str) -> Value {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).unwrap()
}

#[test]
fn the_schema_refuses_what_is_refused_here() {
    // What a schema cannot say: duplicates, values against each other, what a pattern or a name is.
    let beyond = [
        "07", "08", "09", "10", "11", "12", "13", "21", "22", "26", "27", "30", "31", "36", "37",
        "39", "40", "41", "42", "44", "47", "49", "50",
    ];
    for entry in fs::read_dir(crate_file("tests/config/mistakes")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|extension| extension == "txt")
            || beyond.contains(&&name[..2])
        {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(is_valid(&json_of(&text)).is_err(), "{name}");
    }
}

#[test]
fn every_key_can_stand_in_one_file() {
    let text = fs::read_to_string(crate_file("tests/config/everything.yaml")).unwrap();
    let file = parse(&text);
    let own: Vec<_> = file.effective()[0]
        .rows
        .iter()
        .filter(|row| row.source == Source::BuiltIn)
        .map(|row| row.key)
        .collect();
    // It excludes `concurrency`.
    assert_eq!(own, ["adaptive"]);
    file.build().unwrap();
}

#[test]
fn a_block_inherits_from_the_defaults_and_those_from_the_table() {
    let file = parse(
        "defaults: {read_timeout: 30, adaptive: true, idle_timeout: 5}\n\
         endpoints:\n  a:\n  b: {concurrency: 3, read_timeout: 1m}\n\
         unknown_hosts: {concurrency: 1}",
    );
    let shown = |endpoint: usize, key: &str| {
        let effective = &file.effective()[endpoint];
        let row = effective.rows.iter().find(|row| row.key == key).unwrap();
        (row.value.clone(), row.source)
    };
    assert_eq!(
        shown(0, "read_timeout"),
        ("30s".to_owned(), Source::Defaults)
    );
    assert_eq!(shown(0, "base_seconds"), ("1s".to_owned(), Source::BuiltIn));
    assert_eq!(shown(0, "concurrency").0, "as `adaptive` finds");
    assert_eq!(shown(1, "concurrency"), ("3".to_owned(), Source::Own));
    assert_eq!(shown(1, "adaptive").1, Source::BuiltIn);
    assert_eq!(shown(1, "idle_timeout").1, Source::BuiltIn);
    assert_eq!(shown(2, "concurrency"), ("1".to_owned(), Source::Own));
    assert!(matches!(file.unknown_hosts(), UnknownHosts::Block(_)));

    let file = parse(
        "defaults: {concurrency: 4}\nendpoints: {a: {hosts: a.example}}\nunknown_hosts: {concurrency: 1}",
    );
    let endpoints = file.build().unwrap();
    let limit = |uri: &str| endpoints.find(&uri.parse().unwrap()).limit();
    assert_eq!(
        (limit("http://a.example"), limit("http://b.example")),
        (4, 1)
    );
}

#[test]
fn toml_and_json_come_by_serde() {
    let text = "[endpoints.geocoder]\nhosts = ['api.geocoder.example']\nconcurrency = 1\nrate = ['1/s', '2500/day']\n";
    let file: SettingsFile = toml_edit::de::from_str(text).unwrap();
    assert_eq!(file.endpoint("geocoder").unwrap().rate.len(), 2);

    let json = r#"{"endpoints": {"geocoder": {"concurency": 1}}}"#;
    let error = serde_json::from_str::<SettingsFile>(json).unwrap_err();
    assert!(
        error.to_string().contains(
            "endpoint `geocoder`: `concurency` is no key here; did you mean `concurrency`?"
        ),
        "{error}"
    );
    let json = json.replace("concurency", "concurrency");
    assert_eq!(
        parse(&json).endpoint("geocoder").unwrap().concurrency,
        Some(1)
    );
}

#[test]
fn what_came_from_the_environment_is_shown_nowhere() {
    let file = parse(
        "endpoints:\n  a:\n    hosts: ['a.example/${SECRET}/wms']\n    published_limit: ${SECRET}\n    key: {query: '${SECRET}'}\n\
         \x20   freshness: {cache_busting: '${SECRET}'}\n",
    );
    let block = file.endpoint("a").unwrap();
    assert_eq!(block.hosts[0].as_str(), "a.example/hunter2/wms");
    let builder = file.builder();
    let shown = format!(
        "{file:?} {block:#?} {:?} {:?} {builder:?}",
        file.effective(),
        file.warnings()
    );
    assert!(!shown.contains("hunter2"), "{shown}");
    let endpoints = file.build().unwrap();
    let of = |uri: &str| endpoints.find(&uri.parse().unwrap()).name().to_owned();
    assert_eq!(of("http://a.example/hunter2/wms"), "a");
}

#[test]
fn a_reference_stands_for_a_value_of_any_kind() {
    let environment = |name: &str| match name {
        "LIMIT" => Some("4".to_owned()),
        "TIME" => Some("90s".to_owned()),
        "ON" => Some("true".to_owned()),
        _ => None,
    };
    let text = "endpoints: {a: {concurrency: '${LIMIT}', read_timeout: '${TIME}', park: '${ON}', breaker: '${ON}', \
                published_limit: 'costs $${LIMIT}'}}";
    let file = SettingsFile::from_yaml_with(text, "f", environment).unwrap();
    let block = file.endpoint("a").unwrap();
    assert_eq!((block.concurrency, block.park), (Some(4), Some(true)));
    assert_eq!(block.read_timeout, Some(Duration::from_secs(90)));
    assert!(matches!(block.breaker, Some(Switch::On(_))));
    let limit = block.published_limit.as_ref().unwrap();
    assert_eq!(limit.as_str(), "costs ${LIMIT}");
}

#[test]
fn anchors_and_merges_save_words() {
    let file = parse(
        "x-slow: &slow {read_timeout: 600, concurrency: 2}\n\
         endpoints:\n  a: {<<: *slow, concurrency: 1}\n  b: *slow\n",
    );
    let of = |name: &str| {
        let block = file.endpoint(name).unwrap();
        (
            block.read_timeout.map(|time| time.as_secs()),
            block.concurrency,
        )
    };
    assert_eq!(
        (of("a"), of("b")),
        ((Some(600), Some(1)), (Some(600), Some(2)))
    );
}

#[test]
fn what_looks_wrong_is_said() {
    let warnings = |block: &str| {
        let warnings = parse(&format!("endpoints: {{a: {{{block}}}}}")).warnings();
        warnings
            .iter()
            .map(|one| one.message().to_owned())
            .collect::<Vec<_>>()
    };
    for (block, expected) in [
        (
            "read_timeout: 180, healthy_p99: 400, budget_seconds: 1800",
            "read_timeout 180s is below 1.2 x healthy_p99 400s",
        ),
        (
            "read_timeout: 600, budget_seconds: 300",
            "budget_seconds 300s is shorter than one attempt may take, 600s",
        ),
        (
            "concurrency: 16, published_limit: 2 slots per IP",
            "read as 2 answers in flight",
        ),
        (
            "concurrency: 16, published_limit: 1 rps on a shared key",
            "read as 1 a second: with answers of 1s it asks for 16 a second",
        ),
        (
            "concurrency: 1, rate: 2/s, published_limit: 1 rps",
            "rate 2/s is over the published limit",
        ),
        (
            "concurrency: 16, rate: 1/s",
            "far above what a rate of 1/s without a burst keeps in flight",
        ),
        (
            "cap_seconds: 500, budget_seconds: 300",
            "cap_seconds 500s is longer than budget_seconds 300s",
        ),
        (
            "max_park: 1h",
            "max_park has no effect without `park: true`",
        ),
        (
            "whole_timeout: 60",
            "whole_timeout 60s is shorter than the head alone may take, 180s",
        ),
    ] {
        let said = warnings(block);
        assert!(
            said.len() == 1 && said[0].contains(expected),
            "{block}: {said:?}"
        );
    }
    for block in [
        "read_timeout: 600, healthy_p99: 400, budget_seconds: 1800",
        "concurrency: 1, published_limit: 1 rps on a shared key",
        "concurrency: 16, rate: 1/s, healthy_p99: 20s",
        "concurrency: 2, published_limit: 2 slots per IP",
        "concurrency: 16, published_limit: ask the operator",
        "max_park: 1h, park: true",
    ] {
        assert_eq!(warnings(block), [""; 0], "{block}");
    }
}

#[test]
fn a_file_that_changed_is_loaded_anew_and_one_that_is_wrong_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("endpoints.yaml");
    fs::write(&path, "endpoints: {a: {concurrency: 2}}").unwrap();
    let endpoints = Endpoints::load(&path).unwrap();
    let limit = || {
        let snapshot = endpoints.snapshot();
        snapshot.iter().find(|one| one.name == "a").unwrap().limit
    };
    assert_eq!(limit(), 2);
    fs::write(&path, "endpoints: {a: {concurrency: 3}}").unwrap();
    endpoints
        .reload(SettingsFile::load(&path).unwrap().builder())
        .unwrap();
    assert_eq!(limit(), 3);
    fs::write(&path, "endpoints: {a: {concurrency: 0}}").unwrap();
    assert!(SettingsFile::load(&path).is_err());

    let error = Endpoints::load(directory.path().join("none.yaml")).unwrap_err();
    assert!(
        error.to_string().contains("none.yaml: cannot be read"),
        "{error}"
    );
    fs::write(&path, b"endpoints:\n  a\xff: {}").unwrap();
    let error = Endpoints::load(&path).unwrap_err();
    assert!(
        error.to_string().ends_with(":2:4: a byte that is no UTF-8"),
        "{error}"
    );
}

/// `cargo test --release -p tower-spatial --features config --test config -- --ignored --nocapture`
#[test]
#[ignore = "measures"]
#[expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it measures"
)]
fn ten_thousand_endpoints() {
    let mut text = String::from("endpoints:\n");
    for n in 0..10_000 {
        text += &format!(
            "  wms_{n}:\n    hosts: [\"h{n}.example\", \"*.h{n}.example/wms\"]\n    base_seconds: 2.0\n    cap_seconds: 120.0\n\
             \x20   budget_seconds: 1800.0\n    connect_timeout: 10s\n    read_timeout: 600.0\n    concurrency: 2\n"
        );
    }
    let mut read: Vec<Duration> = Vec::new();
    let mut build: Vec<Duration> = Vec::new();
    for _ in 0..20 {
        let begin = Instant::now();
        let file = SettingsFile::from_yaml_with(&text, "f", |_| None).unwrap();
        read.push(begin.elapsed());
        let endpoints = file.build().unwrap();
        build.push(begin.elapsed());
        drop(endpoints);
    }
    read.sort();
    build.sort();
    println!(
        "{} B: read {:?}, read and built {:?} (the best of 20; median {:?})",
        text.len(),
        read[0],
        build[0],
        build[10]
    );
}
