//! The documentation matches metrics, rules, settings and flags.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use drift_exporter::{
    app::drift_event,
    config::{Overrides, load},
    engine::Transition,
    rules::{EffectSpec, RuleSpec, built_in_rules},
    server::CATALOG,
    types::{Actor, Advice, ChangeKind, FieldClass, Severity, Source},
};
use jiff::Timestamp;
use kube::runtime::events::EventType;
use serde_json::{Value, json};

fn document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The rows of all tables whose first cell is code: name and the other cells.
#[track_caller]
fn rows(document: &str) -> BTreeMap<String, Vec<String>> {
    let lines: Vec<&str> = document.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair[1].starts_with("| `")) {
        assert!(pair[0].starts_with('|'), "table row without a header: {}", pair[1]);
    }
    lines
        .into_iter()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|row| {
            let (name, rest) = row.split_once('`').unwrap();
            let cells = rest.trim_start_matches(" |").trim_end_matches('|').split(" | ");
            (name.to_owned(), cells.map(|cell| cell.trim().to_owned()).collect())
        })
        .collect()
}

#[test]
fn metrics_reference_matches_the_catalog() {
    let rows = rows(&document("docs/metrics.md"));
    for metric in CATALOG {
        let row =
            rows.get(metric.name).unwrap_or_else(|| panic!("docs/metrics.md has no row for {}", metric.name));
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(" ") };
        assert_eq!(
            row[..],
            [metric.kind.as_str().to_owned(), labels, metric.help.to_owned()],
            "row of {}",
            metric.name
        );
    }
    for name in rows.keys() {
        assert!(
            CATALOG.iter().any(|metric| metric.name == name),
            "docs/metrics.md documents unknown metric {name}"
        );
    }
}

#[test]
fn metric_names_follow_prometheus_conventions() {
    for metric in CATALOG {
        assert_eq!(metric.name.ends_with("_total"), metric.kind.as_str() == "counter", "{}", metric.name);
        assert!(metric.name.starts_with("drift_") || metric.name.starts_with("process_"), "{}", metric.name);
        assert!(
            !metric.help.ends_with('.') && !metric.help.contains(['\n', '"', '\\']),
            "help of {}",
            metric.name
        );
        for label in metric.labels {
            assert!(
                !["cluster", "type", "service", "env", "owner", "instance", "job"].contains(label),
                "{}",
                metric.name
            );
        }
    }
}

/// A rule as a row of the table in docs/rules.md.
fn row(rule: &RuleSpec) -> String {
    let condition = serde_json::to_value(&rule.matches).unwrap();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let keys = condition.as_object().unwrap().iter().map(|(key, list)| {
        let members: Vec<String> =
            list.as_array().unwrap().iter().map(|member| format!("`{}`", text(member))).collect();
        format!("{key}: {}", members.join(" "))
    });
    let keys: Vec<String> = keys.collect();
    let effects = rule.effect.0.iter().map(|effect| match effect {
        EffectSpec::Word(word) | EffectSpec::Severity(word) | EffectSpec::Advice(word) => format!("`{word}`"),
    });
    let effects: Vec<String> = effects.collect();
    let reason = rule.reason.as_deref().unwrap_or("");
    format!("| `{}` | {} | {} | {reason} |", rule.name, keys.join("; "), effects.join(" "))
}

#[test]
fn rules_guide_lists_built_in_rules() {
    let document = document("docs/rules.md");
    let listed = document.split("## Built-in rules").nth(1).unwrap();
    let listed: Vec<&str> = listed.lines().filter(|line| line.starts_with("| `")).collect();
    let wanted: Vec<String> = built_in_rules().iter().map(row).collect();
    assert_eq!(listed, wanted, "docs/rules.md should have\n{}", wanted.join("\n"));
}

#[test]
fn rules_guide_documents_every_enum_value() {
    let document = document("docs/rules.md");
    let words = [
        Actor::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>(),
        FieldClass::ALL.iter().map(|value| value.as_str()).collect(),
        ChangeKind::ALL.iter().map(|value| value.as_str()).collect(),
        Source::ALL.iter().filter(|value| **value != Source::Unclaimed).map(|value| value.as_str()).collect(),
        Severity::ALL.iter().map(|value| value.as_str()).collect(),
        Advice::ALL.iter().map(|value| value.as_str()).collect(),
    ];
    for word in words.concat() {
        assert!(document.contains(&format!("`{word}`")), "docs/rules.md does not document {word}");
    }
}

#[test]
fn configured_labels_cannot_override_series_labels() {
    let metrics = CATALOG.iter().filter(|metric| metric.name.starts_with("drift_resource_"));
    let labels: BTreeSet<&str> = metrics.flat_map(|metric| metric.labels).copied().collect();
    assert!(labels.len() >= 11, "{labels:?}");
    for label in labels {
        let text = format!("metrics: {{labels: [{label}]}}\n");
        assert!(load(&text, &Overrides::default(), Timestamp::UNIX_EPOCH).is_err(), "{label}");
    }
}

#[test]
fn readme_example_settings_are_valid() {
    let readme = document("README.md");
    let example = readme.split("```yaml\n").find(|part| part.starts_with("# settings.yaml")).unwrap();
    let loaded =
        load(example.split("```").next().unwrap(), &Overrides::default(), Timestamp::UNIX_EPOCH).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let rules = format!("{} of which are built in", built_in_rules().len());
    assert!(readme.contains(&rules), "{rules}");
}

#[test]
fn operators_guide_example_settings_are_valid() {
    let guide = document("docs/operators.md");
    let examples: Vec<&str> =
        guide.split("```yaml\n").skip(1).filter_map(|part| part.split("```").next()).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let loaded = load(example, &Overrides::default(), Timestamp::UNIX_EPOCH)
            .unwrap_or_else(|problems| panic!("{problems:?}"));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    }
}

#[test]
fn settings_reference_lists_exactly_the_flags() {
    let rows = rows(&document("docs/configuration.md"));
    let help = Command::new(env!("CARGO_BIN_EXE_drift-exporter")).args(["run", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let flags: Vec<&str> = help
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("--"))
        .filter(|flag| *flag != "help")
        .map(|flag| flag.split('[').next().unwrap_or(flag).trim_end_matches([',', '.', ']']))
        .collect();
    assert!(flags.len() > 8, "{help}");
    for flag in &flags {
        let variable = format!("`DRIFT_{}`", flag.to_uppercase().replace(['.', '-'], "_"));
        let row = rows
            .get(&format!("--{flag}"))
            .unwrap_or_else(|| panic!("docs/configuration.md has no row for --{flag}"));
        assert_eq!(row[0], variable, "--{flag}");
    }
    for name in rows.keys().filter(|name| name.starts_with("--")) {
        assert!(
            flags.contains(&name.trim_start_matches("--")),
            "docs/configuration.md documents unknown flag {name}"
        );
    }
}

#[test]
fn events_have_the_documented_reason_of_their_source() {
    let document = document("docs/configuration.md");
    let (_, section) = document.split_once("\n## Events\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let documented: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
    let claims = Source::ALL.iter().filter(|source| **source != Source::Unclaimed);
    let rows = claims.map(|source| {
        let transition = json!({
            "sequence": 1, "time": "2026-01-01T00:00:00Z", "group": "apps", "version": "v1", "kind": "Deployment",
            "plural": "deployments", "namespaced": true, "namespace": "shop", "name": "web", "uid": "u",
            "source": source, "from": "in_sync", "to": "drifted", "reason": null,
            "episode": {"turn": "began", "onset": "2026-01-01T00:00:00Z", "severity": "warning", "actor": "kubectl",
                "manager": "kubectl-edit", "field": "replicas", "paths": ["spec.replicas", "spec.paused"]},
        });
        let transition: Transition = serde_json::from_value(transition).unwrap();
        let event = drift_event(&transition);
        assert!(matches!(event.type_, EventType::Warning));
        let note = format!(
            "Differs from its {source} baseline in spec.replicas, spec.paused; last written by kubectl-edit (kubectl)."
        );
        assert_eq!(event.note, Some(note));
        format!("| `{source}` | `{}` |", event.reason)
    });
    let rows: Vec<String> = rows.collect();
    assert_eq!(documented, rows);
    assert_eq!(rows.iter().collect::<BTreeSet<_>>().len(), 6);
}
