//! What `prometheus.rs` serves is read by a Prometheus parser, and the queries of `grafana-dashboard.json` and of the guide are
//! held against it.

// A test and an example cannot share a library without publishing it, so the example is a module here.
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../prometheus.rs"]
mod example;
mod promql;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use prometheus_parse::{Sample, Scrape, Value};
use promql::{Matcher, Query, Selector};
use tower_spatial::observe::{Metric, MetricKind, Metrics};

const DASHBOARD: &str = include_str!("../../grafana-dashboard.json");
const GUIDE: &str = include_str!("../../../crates/tower-spatial/src/guide/numbers.md");

/// One test, since a process has one recorder.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_has_all_metrics_and_dashboard_and_guide_ask_only_for_what_is_there() {
    let page = example::metrics_of_a_bad_day().await.unwrap();
    let scrape = Scrape::parse(page.lines().map(|line| Ok(line.to_owned()))).unwrap();
    has_all_metrics(&scrape);
    holds_no_secret(&page);
    let asked: BTreeSet<&str> = queries()
        .iter()
        .flat_map(|(panel, query)| resolves(panel, query, &scrape))
        .collect();
    let listed: BTreeSet<&str> = Metrics::all().iter().map(|metric| metric.name).collect();
    assert_eq!(asked, listed, "each metric is drawn somewhere");
    let alarms = alarms();
    assert_eq!(alarms.len(), 5);
    for alarm in alarms {
        resolves("the guide", &alarm, &scrape);
    }
}

fn has_all_metrics(scrape: &Scrape) {
    for metric in Metrics::all() {
        let name = metric.name;
        assert_eq!(
            scrape.docs.get(name).map(String::as_str),
            Some(metric.meaning),
            "{name}"
        );
        let samples: Vec<_> = scrape
            .samples
            .iter()
            .filter(|it| it.metric == name)
            .collect();
        assert!(!samples.is_empty(), "{name}");
        for Sample { labels, value, .. } in samples {
            let names: BTreeSet<&str> = labels.keys().map(String::as_str).collect();
            assert_eq!(names, metric.labels.iter().copied().collect(), "{name}");
            let is_its_kind = match metric.kind {
                MetricKind::Counter => matches!(value, Value::Counter(times) if *times > 0.0),
                MetricKind::Gauge => matches!(value, Value::Gauge(_)),
                MetricKind::Histogram => {
                    matches!(value, Value::Histogram(buckets) if buckets.len() == Metrics::BUCKETS.len() + 1)
                }
            };
            assert!(is_its_kind, "{name}: {value:?}");
        }
    }
    let calls = scrape.samples.iter().find(|sample| {
        sample.metric == "tower_spatial_calls_total"
            && sample.labels.get("endpoint") == Some("tiles")
            && sample.labels.get("outcome") == Some("answer")
    });
    assert_eq!(calls.unwrap().value, Value::Counter(24.0));
    for sample in &scrape.samples {
        assert!(
            metric_of(&sample.metric).is_some(),
            "{} is not in the list",
            sample.metric
        );
    }
}

/// The geocoder's key, and the paths of the URLs.
fn holds_no_secret(page: &str) {
    for secret in ["mine", "Bern", "/search", "http", "BBOX"] {
        assert!(!page.contains(secret), "{secret}");
    }
}

/// Every query of the dashboard, with its panel's title and what its legend names.
fn queries() -> Vec<(String, Query)> {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut queries = Vec::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().unwrap() {
            let query = Query::parse(target["expr"].as_str().unwrap());
            let query = query.unwrap_or_else(|problem| panic!("{title}: {problem}"));
            let legend = target["legendFormat"].as_str().unwrap();
            for named in legend.split("{{").skip(1) {
                let label = named.split("}}").next().unwrap();
                assert!(
                    query.groups.iter().all(|group| group.contains(label)),
                    "{title}: {legend}"
                );
            }
            queries.push((title.to_owned(), query));
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        if variable["type"] == "query" {
            let text = variable["query"].as_str().unwrap();
            let inner = text
                .strip_prefix("label_values(")
                .and_then(|it| it.strip_suffix(')'));
            let (name, label) = inner.unwrap().split_once(", ").unwrap();
            let mut query = Query::parse(name).unwrap();
            query.groups.push(BTreeSet::from([label.to_owned()]));
            queries.push((variable["name"].as_str().unwrap().to_owned(), query));
        }
    }
    assert!(queries.len() > 15, "{}", queries.len());
    queries
}

/// The queries of the guide's page, one a line.
fn alarms() -> Vec<Query> {
    let blocks = GUIDE.split("```promql\n").skip(1);
    let queries = blocks.flat_map(|block| block.split("```").next().unwrap_or_default().lines());
    queries.map(|query| Query::parse(query).unwrap()).collect()
}

/// Each selector of a query selects something, by labels that its metric has, and no aggregation asks for others.
fn resolves(panel: &str, query: &Query, scrape: &Scrape) -> Vec<&'static str> {
    assert!(!query.selectors.is_empty(), "{panel}");
    let kept = |group: &BTreeSet<String>| {
        let labels = group.iter().filter(|label| *label != "le");
        labels.cloned().collect::<BTreeSet<_>>()
    };
    let groups: BTreeSet<_> = query.groups.iter().map(kept).collect();
    assert!(
        groups.len() <= 1,
        "{panel}: both sides of an operator have the same labels"
    );
    let select = |selector: &Selector| {
        let name = &*selector.metric;
        let (metric, part) = metric_of(name).unwrap_or_else(|| panic!("{panel}: no metric {name}"));
        assert_eq!(
            part.is_empty(),
            metric.kind != MetricKind::Histogram,
            "{panel}: {name}"
        );
        let has =
            |label: &str| metric.labels.contains(&label) || label == "le" && part == "_bucket";
        for matcher in &selector.matchers {
            assert!(
                has(&matcher.label),
                "{panel}: {name} has no label {}",
                matcher.label
            );
        }
        for label in query.groups.iter().flatten() {
            assert!(has(label), "{panel}: {name} has no label {label}");
        }
        let of_a_bucket = if part == "_bucket" { metric.name } else { name };
        let found = scrape.samples.iter().any(|sample| {
            sample.metric == of_a_bucket
                && selector
                    .matchers
                    .iter()
                    .all(|it| matches(it, &sample.labels))
        });
        assert!(found, "{panel}: nothing is selected by {selector:?}");
        metric.name
    };
    query.selectors.iter().map(select).collect()
}

fn matches(matcher: &Matcher, labels: &HashMap<String, String>) -> bool {
    matcher.matches(labels.get(&matcher.label).map_or("", String::as_str))
}

/// A metric of the list by the name of a series, and what a histogram's series have behind the name.
fn metric_of(series: &str) -> Option<(&'static Metric, &'static str)> {
    let parts = ["", "_bucket", "_sum", "_count"];
    let of = |metric: &'static Metric| {
        let part = series.strip_prefix(metric.name)?;
        let part = parts.into_iter().find(|known| *known == part)?;
        let has_parts = metric.kind == MetricKind::Histogram;
        (part.is_empty() || has_parts).then_some((metric, part))
    };
    Metrics::all().iter().find_map(of)
}

#[test]
fn a_query_that_asks_for_what_is_not_there_is_seen() {
    let scrape = Scrape {
        docs: HashMap::new(),
        samples: Scrape::parse(
            [
                "# TYPE tower_spatial_retries_total counter",
                "tower_spatial_retries_total{endpoint=\"a\",reason=\"status\"} 1",
            ]
            .into_iter()
            .map(|line| Ok(line.to_owned())),
        )
        .unwrap()
        .samples,
    };
    let verdicts: BTreeMap<&str, bool> = [
        "sum by (reason) (rate(tower_spatial_retries_total{endpoint=~\"$endpoint\"}[5m]))",
        "tower_spatial_retries_total{reason=~\"refused|status\"}",
        "tower_spatial_retries{reason=\"status\"}",
        "tower_spatial_retries_total_bucket",
        "tower_spatial_retries_total{code=\"status\"}",
        "sum by (code) (tower_spatial_retries_total)",
        "tower_spatial_retries_total{reason!=\"status\"}",
        "sum by (reason) (tower_spatial_retries_total) / sum by (endpoint) (tower_spatial_retries_total)",
        "tower_spatial_stale_answers_total",
    ]
    .into_iter()
    .map(|text| {
        let query = Query::parse(text).unwrap();
        let seen = std::panic::catch_unwind(|| resolves("test", &query, &scrape));
        (text, seen.is_ok())
    })
    .collect();
    let good: Vec<_> = verdicts.iter().filter(|(_, is_good)| **is_good).collect();
    assert_eq!(good.len(), 2, "{verdicts:#?}");
}
