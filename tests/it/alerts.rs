//! Alerts use metrics of the catalog, and each has a runbook and tests. `make test-real` runs promtool and amtool on them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use drift_exporter::server::{CATALOG, Metric};
use regex::Regex;
use serde_json::Value;

/// Labels that Prometheus, Alertmanager or `metrics.labels` add.
pub(crate) const ADDED_LABELS: [&str; 5] = ["cluster", "team", "job", "instance", "le"];

/// The alerts with severity `critical`.
const PAGING_ALERTS: [&str; 3] = ["DriftResourceCritical", "DriftResourceMissing", "DriftStorm"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    assert!(!files.is_empty(), "{folder} has no .{extension}");
    files
}

fn yaml(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn members<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key} in {value}"))
}

fn rules() -> Vec<Value> {
    let groups =
        files("alerts/rules", "yaml").into_iter().flat_map(|path| members(&yaml(&path), "groups").to_vec());
    groups.flat_map(|group| members(&group, "rules").to_vec()).collect()
}

/// Alerts by name.
fn alerts() -> BTreeMap<String, Value> {
    let alerts = rules().into_iter().filter_map(|rule| Some((rule["alert"].as_str()?.to_owned(), rule)));
    alerts.collect()
}

/// All queries of a rule, including those in its annotations.
fn queries(rule: &Value) -> String {
    let annotations = rule["annotations"].as_object().into_iter().flatten().map(|(_, text)| text);
    let texts = annotations.chain([&rule["expr"]]).filter_map(Value::as_str);
    texts.collect::<Vec<_>>().join("\n").replace("\\\"", "\"")
}

/// The metric of the catalog that a name in a query refers to.
pub(crate) fn metric(name: &str) -> Option<&'static Metric> {
    CATALOG.iter().find(|metric| {
        let suffix = name.strip_prefix(metric.name);
        match metric.kind.as_str() {
            "histogram" => suffix.is_some_and(|suffix| ["_bucket", "_count", "_sum"].contains(&suffix)),
            _ => suffix == Some(""),
        }
    })
}

#[test]
fn rules_use_only_metrics_and_labels_of_the_catalog() {
    let names = Regex::new(r"\b((?:drift|process)_[a-z_]+)(?:\{([^}]*)\})?").unwrap();
    let labels = Regex::new(r"([a-z_]+)\s*(?:=~|!~|!=|=)").unwrap();
    let mut seen = BTreeSet::new();
    for rule in rules() {
        for found in names.captures_iter(&queries(&rule)) {
            let metric = metric(&found[1]).unwrap_or_else(|| panic!("unknown metric {}", &found[1]));
            seen.insert(metric.name);
            for label in labels.captures_iter(found.get(2).map_or("", |selector| selector.as_str())) {
                let known = metric.labels.contains(&&label[1]) || ADDED_LABELS.contains(&&label[1]);
                assert!(known, "{} has no label {}", metric.name, &label[1]);
            }
        }
    }
    assert!(seen.len() > 15, "{seen:?}");
}

#[test]
fn every_recording_rule_is_used_and_defined() {
    let names = Regex::new(r"\bdrift:[a-z_:0-9]+").unwrap();
    let recorded: BTreeSet<String> =
        rules().iter().filter_map(|rule| rule["record"].as_str().map(str::to_owned)).collect();
    let used: BTreeSet<String> = rules()
        .iter()
        .flat_map(|rule| {
            names.find_iter(&queries(rule)).map(|found| found.as_str().to_owned()).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(recorded, used);
}

#[test]
fn alerts_have_severity_summary_description_and_urls() {
    for (name, alert) in alerts() {
        assert!(name.starts_with("Drift"), "{name}");
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning", "info"].contains(&severity), "{name}: {severity}");
        assert_eq!(severity == "critical", PAGING_ALERTS.contains(&&*name), "{name}: {severity}");
        // A label whose value changes would create a new alert.
        assert_eq!(alert["labels"].as_object().unwrap().len(), 1, "{name}");
        let annotations = &alert["annotations"];
        let text = |key: &str| annotations[key].as_str().unwrap_or_else(|| panic!("{name} has no {key}"));
        assert!(
            !text("summary").contains("{{") && text("summary").ends_with('.'),
            "{name}: {}",
            text("summary")
        );
        assert!(text("description").contains("$labels"), "{name}");
        assert!(text("runbook_url").ends_with(&format!("/{name}")), "{name}: {}", text("runbook_url"));
        for key in ["dashboard_url", "page_url"] {
            assert!(text(key).starts_with("https://"), "{name}: {}", text(key));
        }
    }
}

#[test]
fn paging_alerts_use_onset_instead_of_for() {
    let alerts = alerts();
    for name in PAGING_ALERTS {
        assert!(alerts[name]["for"].is_null(), "{name}");
        assert!(alerts[name]["keep_firing_for"].is_null(), "{name}");
    }
    let age = "drift:resource_critical_age_seconds:steady10m";
    let recorded = rules().into_iter().find(|rule| rule["record"] == age).unwrap();
    let expression = recorded["expr"].as_str().unwrap();
    assert!(
        expression.starts_with("time() - drift:resource_onset_timestamp_seconds:min15m\n"),
        "{expression}"
    );
    for name in ["DriftResourceCritical", "DriftResourceMissing"] {
        let expression = alerts[name]["expr"].as_str().unwrap();
        assert!(expression.contains(age), "{name}");
        assert!(expression.trim_end().ends_with(">= 600"), "{name}");
    }
}

#[test]
fn alerts_and_runbooks_match() {
    let mut pages = BTreeSet::new();
    for path in files("docs/runbooks", "md") {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&format!("# {name}\n")), "{name}");
        let sections: Vec<(&str, &str)> =
            text.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap()).collect();
        let headings: Vec<&str> = sections.iter().map(|(heading, _)| *heading).collect();
        assert_eq!(headings, ["Meaning", "Impact", "Diagnosis", "Mitigation"], "{name}");
        assert!(sections.iter().all(|(_, body)| body.trim().len() > 20), "{name}");
        pages.insert(name);
    }
    assert_eq!(pages, alerts().into_keys().collect());
}

#[test]
fn guide_lists_every_alert_with_its_severity() {
    let guide = fs::read_to_string(root().join("docs/alerts.md")).unwrap();
    let row = Regex::new(r"(?m)^\| \[`(\w+)`\]\(runbooks/(\w+)\.md\) \| (\w+) \|").unwrap();
    let listed: BTreeMap<String, String> = row
        .captures_iter(&guide)
        .map(|found| {
            assert_eq!(found[1], found[2]);
            (found[1].to_owned(), found[3].to_owned())
        })
        .collect();
    let severity = |alert: &Value| alert["labels"]["severity"].as_str().unwrap().to_owned();
    let wanted: BTreeMap<String, String> =
        alerts().iter().map(|(name, alert)| (name.clone(), severity(alert))).collect();
    assert_eq!(listed, wanted);
}

#[test]
fn every_alert_has_tests_for_firing_resolving_restart_and_replicas() {
    let mut tested: BTreeMap<String, Vec<(String, Vec<bool>)>> = BTreeMap::new();
    for path in files("alerts/tests", "yaml") {
        for test in members(&yaml(&path), "tests") {
            let name = test["name"].as_str().unwrap().to_owned();
            let mut steps: BTreeMap<&str, Vec<bool>> = BTreeMap::new();
            for step in members(test, "alert_rule_test") {
                let fires = members(step, "exp_alerts");
                for fired in fires {
                    assert!(fired["exp_annotations"]["runbook_url"].is_string(), "{name}: no annotations");
                }
                steps.entry(step["alertname"].as_str().unwrap()).or_default().push(!fires.is_empty());
            }
            for (alert, steps) in steps {
                tested.entry(alert.to_owned()).or_default().push((name.clone(), steps));
            }
        }
    }
    for name in alerts().keys() {
        let tests = tested.get(name).unwrap_or_else(|| panic!("{name} has no test"));
        let has =
            |steps: [bool; 2]| tests.iter().any(|(_, firing)| firing.windows(2).any(|pair| pair == steps));
        assert!(has([false, true]), "no test sees {name} start to fire");
        assert!(has([true, false]), "no test sees {name} resolve");
        for word in ["restart", "replica"] {
            let covers = |(test, _): &&(String, Vec<bool>)| test.starts_with(&**name) && test.contains(word);
            assert!(tests.iter().any(|test| covers(&test)), "{name} has no test with a {word}");
        }
    }
    let unknown: Vec<&String> = tested.keys().filter(|name| !alerts().contains_key(*name)).collect();
    assert!(unknown.is_empty(), "tests of unknown alerts: {unknown:?}");
}

#[test]
fn alertmanager_config_uses_only_existing_alerts() {
    let text = fs::read_to_string(root().join("alerts/alertmanager/alertmanager.yaml")).unwrap();
    let alerts = alerts();
    let names = Regex::new(r"Drift[A-Za-z]+(\.\+)?").unwrap();
    let mut seen = 0;
    for found in names.find_iter(&text).map(|found| found.as_str()) {
        let known = match found.strip_suffix(".+") {
            Some(beginning) => alerts.keys().any(|alert| alert.starts_with(beginning)),
            None => alerts.contains_key(found),
        };
        assert!(known, "unknown alert {found}");
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
    let secrets = Regex::new(r"(?m)^\s*-?\s*(api_url|routing_key|slack_api_url|service_key):").unwrap();
    assert!(!secrets.is_match(&text), "secrets must come from files");
}
