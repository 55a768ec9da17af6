//! Dashboards match their descriptions, pass the linter, and use metrics of the catalog.
//! `make test-real` checks that every query returns data.

mod description;
mod lint;
mod queries;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use drift_exporter::server::CATALOG;
use regex::Regex;
use serde_json::{Value, json};

use self::{
    description::{Description, Variables, read},
    lint::{Exceptions, Finding, lint},
    queries::{grouped_labels, outer_grouping, selectors},
    write::{PAGE, TAG},
};
use crate::{
    alerts::{ADDED_LABELS, metric},
    support::dashboards::{Dashboard, NAMES, folder, legend_labels, list, targets, text},
};

/// Metrics without a panel, and the reason.
const WITHOUT_PANEL: [(&str, &str); 0] = [];

/// Every query of all dashboards with its location.
fn all_queries() -> Vec<(String, String)> {
    let mut queries = Vec::new();
    for dashboard in Dashboard::all() {
        for panel in dashboard.panels() {
            let location = format!("{}: {}", dashboard.title(), text(panel, "title"));
            queries.extend(
                targets(panel).iter().map(|target| (location.clone(), text(target, "expr").to_owned())),
            );
        }
        for variable in dashboard.variables().iter().filter(|variable| variable["type"] == "query") {
            queries.push((
                format!("{}: ${}", dashboard.title(), text(variable, "name")),
                text(variable, "query").to_owned(),
            ));
        }
    }
    queries
}

#[test]
fn dashboards_are_what_their_descriptions_say() {
    let variables: Variables = read(&folder(), "variables");
    for name in NAMES {
        let description: Description = read(&folder(), name);
        let wanted = write::file(&description, &variables);
        let path = folder().join(name).with_extension("json");
        if std::env::var_os("UPDATE_DASHBOARDS").is_some() {
            fs::write(&path, &wanted).unwrap();
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert!(text == wanted, "{name}.json does not match its description: run `make dashboards`");
    }
    let files =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files: BTreeSet<String> =
        files.filter_map(|name| Some(name.strip_suffix(".json")?.to_owned())).collect();
    assert_eq!(files, NAMES.map(str::to_owned).into(), "dashboards without a description");
}

#[test]
fn dashboards_pass_the_linter() {
    let findings: Vec<_> = Dashboard::all().iter().flat_map(lint).collect();
    let exceptions = Exceptions::read().exclusions;
    for finding in &findings {
        let excused = exceptions
            .get(finding.rule)
            .is_some_and(|exception| exception.entries.iter().any(|entry| entry.covers(finding)));
        let Finding { rule, dashboard, panel, what } = finding;
        assert!(excused, "{rule} in {dashboard}: {panel}: {what}");
    }
    for (rule, exception) in &exceptions {
        assert!(exception.reason.len() > 20, "{rule} has no reason");
        for entry in &exception.entries {
            let is_needed = findings.iter().any(|finding| finding.rule == rule && entry.covers(finding));
            assert!(is_needed, "unused exception {entry:?} from {rule}");
        }
    }
}

#[test]
fn linter_reports_violations() {
    let broken: [(&str, &str, Value); 14] = [
        ("template-datasource-rule", "/templating/list/0/name", json!("prometheus")),
        ("template-job-rule", "/templating/list/2/multi", json!(false)),
        ("template-instance-rule", "/templating/list/3/allValue", json!(".*")),
        ("template-on-time-change-reload-rule", "/templating/list/1/refresh", json!(1)),
        ("template-label-promql-rule", "/templating/list/1/query", json!("label_values(up{, cluster)")),
        ("uneditable-dashboard", "/editable", json!(true)),
        ("panel-title-description-rule", "/panels/1/description", json!("")),
        ("panel-no-targets-rule", "/panels/1/targets", json!([])),
        ("panel-datasource-rule", "/panels/1/datasource/uid", json!("P1809F7CD0C75ACF3")),
        ("panel-units-rule", "/panels/1/fieldConfig/defaults/unit", json!("parsecs")),
        (
            "target-promql-rule",
            "/panels/1/targets/0/expr",
            json!("sum(up{job=~\"$job\",instance=~\"$instance\"}"),
        ),
        ("target-job-rule", "/panels/1/targets/0/expr", json!("up{job=\"x\",instance=~\"$instance\"}")),
        (
            "target-rate-interval-rule",
            "/panels/1/targets/0/expr",
            json!("rate(x_total{job=~\"$job\",instance=~\"$instance\"}[5m])"),
        ),
        (
            "target-counter-agg-rule",
            "/panels/1/targets/0/expr",
            json!("sum(x_total{job=~\"$job\",instance=~\"$instance\"})"),
        ),
    ];
    for (rule, pointer, value) in broken {
        let mut dashboard = Dashboard::read("health");
        assert!(lint(&dashboard).is_empty());
        *dashboard.json.pointer_mut(pointer).unwrap() = value;
        let rules: Vec<&str> = lint(&dashboard).iter().map(|finding| finding.rule).collect();
        assert!(rules.contains(&rule), "{pointer}: {rules:?}");
    }
}

#[test]
fn dashboards_use_only_metrics_and_labels_of_the_catalog() {
    for (location, query) in all_queries() {
        for selector in selectors(&query) {
            let metric = metric(&selector.metric)
                .unwrap_or_else(|| panic!("{location}: unknown metric {}", selector.metric));
            let known = |label: &str| metric.labels.contains(&label) || ADDED_LABELS.contains(&label);
            for [label, ..] in &selector.matchers {
                assert!(known(label), "{location}: {} has no label {label}", metric.name);
            }
            for label in grouped_labels(&query) {
                assert!(known(label), "{location}: {} has no label {label} to group by", metric.name);
            }
        }
    }
}

#[test]
fn every_metric_of_the_catalog_is_on_a_dashboard() {
    let queries = all_queries();
    let shown: BTreeSet<&str> = queries
        .iter()
        .flat_map(|(_, query)| selectors(query))
        .filter_map(|selector| Some(metric(&selector.metric)?.name))
        .collect();
    for entry in CATALOG {
        let excused = WITHOUT_PANEL.iter().any(|(name, _)| *name == entry.name);
        assert_ne!(
            shown.contains(entry.name),
            excused,
            "{}: want either a panel or a reason for none",
            entry.name
        );
    }
}

#[test]
fn legends_use_labels_that_their_queries_keep() {
    for dashboard in Dashboard::all() {
        for target in dashboard.panels().flat_map(targets) {
            let query = text(target, "expr");
            for label in legend_labels(target) {
                let kept = outer_grouping(query).map_or_else(
                    || {
                        selectors(query).iter().all(|selector| {
                            metric(&selector.metric).unwrap().labels.contains(&label)
                                || ADDED_LABELS.contains(&label)
                        })
                    },
                    |labels| labels.contains(&label),
                );
                assert!(kept, "{}: {label} in the legend of {query}", dashboard.title());
            }
        }
    }
}

#[test]
fn legends_show_cluster_if_their_queries_keep_it() {
    for dashboard in Dashboard::all() {
        for target in dashboard.panels().filter(|panel| panel["type"] != "table").flat_map(targets) {
            let (query, shown) = (text(target, "expr"), legend_labels(target));
            let kept = outer_grouping(query).is_some_and(|labels| labels.contains(&"cluster"));
            assert!(
                shown.is_empty() || !kept || shown.contains(&"cluster"),
                "{}: {query}",
                dashboard.title()
            );
        }
    }
}

#[test]
fn queries_merge_replicas_and_avoid_division_by_zero() {
    for (location, query) in all_queries() {
        let since = query.contains("drift_resource_drifted_timestamp_seconds{") && query.contains("* 1000");
        assert!(!since || query.contains("min by (cluster, "), "{location}: {query}");
        // Only an `increase` may be zero; every other divisor is always positive.
        let divisor = query.split_once(" / ").map_or("", |(_, divisor)| divisor);
        assert!(!divisor.contains("increase(") || divisor.ends_with(" > 0)"), "{location}: {query}");
    }
}

#[test]
fn variables_in_use_and_defined_variables_match() {
    let names = Regex::new(r"\$\{?([a-z_]+)").unwrap();
    for dashboard in Dashboard::all() {
        let defined: BTreeSet<String> =
            dashboard.variables().iter().map(|variable| text(variable, "name").to_owned()).collect();
        let mut rest = dashboard.json.clone();
        // The definition of a variable does not count as its use.
        rest["templating"]["list"].as_array_mut().unwrap().retain(|variable| variable["type"] == "query");
        let used: BTreeSet<String> = names
            .captures_iter(&rest.to_string())
            .map(|found| found[1].to_owned())
            .filter(|name| !name.starts_with("__"))
            .collect();
        assert_eq!(defined, used, "{}", dashboard.title());
        let filters: BTreeSet<&str> = if dashboard.name == "health" {
            ["cluster"].into()
        } else {
            ["cluster", "namespace", "team"].into()
        };
        assert!(filters.iter().all(|name| defined.contains(*name)), "{}", dashboard.title());
    }
}

#[test]
fn units_match_their_queries() {
    for dashboard in Dashboard::all() {
        for panel in dashboard.panels() {
            let location = format!("{}: {}", dashboard.title(), text(panel, "title"));
            for (index, target) in targets(panel).iter().enumerate() {
                let query = text(target, "expr");
                let unit = if panel["type"] == "table" {
                    &panel["fieldConfig"]["overrides"][index]["properties"][0]["value"]
                } else {
                    &panel["fieldConfig"]["defaults"]["unit"]
                };
                let is_counted = query.starts_with("count") || query.starts_with("topk");
                let selects =
                    |ending: &str| selectors(query).iter().any(|selector| selector.metric.ends_with(ending));
                if is_counted || query.contains("_bucket{") || query.contains("_count{") {
                    continue;
                }
                if selects("_timestamp_seconds") || selects("_time_seconds") {
                    let since = query.starts_with("time() - ");
                    assert_eq!(unit, if since { "s" } else { "dateTimeFromNow" }, "{location}");
                    assert_eq!(
                        since,
                        !query.contains(" * 1000"),
                        "{location}: Grafana's dates are in milliseconds"
                    );
                } else if selects("_bytes") {
                    assert_eq!(unit, "bytes", "{location}");
                }
            }
            let words = list(&panel["fieldConfig"]["defaults"], "mappings");
            let has_verdict = targets(panel).iter().any(|target| {
                text(target, "expr").starts_with("max by (cluster, source) (drift_resource_drifted{")
            });
            assert!(!has_verdict || !words.is_empty(), "{location}: 0 and 1 need value mappings");
        }
    }
}

#[test]
fn panels_do_not_overlap_and_have_unique_ids() {
    for dashboard in Dashboard::all() {
        let mut taken: BTreeMap<(u64, u64), &str> = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for panel in list(&dashboard.json, "panels") {
            let [left, top, width, height] =
                ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
            assert!(left + width <= 24, "{}: {}", dashboard.title(), panel["title"]);
            for cell in (left..left + width).flat_map(|x| (top..top + height).map(move |y| (x, y))) {
                let other = taken.insert(cell, text(panel, "title"));
                assert_eq!(other, None, "{}: {}", dashboard.title(), panel["title"]);
            }
            assert!(ids.insert(panel["id"].as_u64().unwrap()), "{}: {}", dashboard.title(), panel["title"]);
        }
        let titles: Vec<&str> = dashboard.panels().map(|panel| text(panel, "title")).collect();
        assert_eq!(
            titles.iter().collect::<BTreeSet<_>>().len(),
            titles.len(),
            "{}: {titles:?}",
            dashboard.title()
        );
    }
}

/// The dashboard UIDs of all `/d/UID?var-…` links in a text, with the variables that they set.
fn deep_links(text: &str) -> Vec<(String, Vec<String>)> {
    let link = Regex::new(r"/d/([a-z-]+)\?([^\s#)]*)").unwrap();
    let variable = Regex::new(r"var-([a-z]+)=").unwrap();
    let found = link.captures_iter(text).map(|found| {
        let given = variable.captures_iter(&found[2]).map(|captures| captures[1].to_owned());
        (found[1].to_owned(), given.collect())
    });
    found.collect()
}

#[test]
fn links_lead_to_existing_dashboards_and_variables() {
    let by_uid: BTreeMap<String, Dashboard> = Dashboard::all()
        .into_iter()
        .map(|dashboard| (text(&dashboard.json, "uid").to_owned(), dashboard))
        .collect();
    let wanted = NAMES.map(|name| format!("drift-exporter-{name}"));
    assert_eq!(by_uid.keys().cloned().collect::<BTreeSet<_>>(), wanted.into());

    // Links in dashboards and alerts. The next test checks the placeholder of the page.
    let root = folder().parent().unwrap().to_owned();
    let mut texts: Vec<String> = by_uid.values().map(|dashboard| dashboard.json.to_string()).collect();
    for entry in fs::read_dir(root.join("alerts/rules")).unwrap() {
        texts.push(fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    let links: Vec<_> = texts.iter().flat_map(|text| deep_links(text)).collect();
    assert!(links.len() > 5, "{links:?}");
    for (uid, given) in links {
        let dashboard = by_uid.get(&uid).unwrap_or_else(|| panic!("unknown dashboard {uid}"));
        for name in given {
            assert!(
                dashboard.variables().iter().any(|variable| variable["name"] == *name),
                "{uid} has no variable {name}"
            );
        }
    }
    for dashboard in by_uid.values() {
        let links = list(&dashboard.json, "links");
        assert!(links.iter().any(|link| link["type"] == "dashboards"
            && link["tags"] == json!([TAG])
            && link["includeVars"] == true));
        assert_eq!(dashboard.json["tags"], json!([TAG]));
        let to_page =
            links.iter().any(|link| link["url"].as_str().is_some_and(|url| url.starts_with("${page:raw}/")));
        assert!(to_page, "{}", dashboard.title());
    }
}

#[test]
fn dashboards_and_alerts_share_the_page_placeholder() {
    let alerts = fs::read_to_string(folder().parent().unwrap().join("alerts/rules/resources.yaml")).unwrap();
    assert!(alerts.contains(PAGE), "{PAGE}");
}

#[test]
fn guide_shows_every_dashboard_and_its_picture() {
    let docs = folder().parent().unwrap().join("docs");
    let guide = fs::read_to_string(docs.join("dashboards.md")).unwrap();
    for dashboard in Dashboard::all() {
        assert!(guide.contains(&format!("`{}`", text(&dashboard.json, "uid"))), "{}", dashboard.title());
        let picture = format!("images/dashboard-{}.svg", dashboard.name);
        assert!(guide.contains(&format!("]({picture})")), "{picture}");
        let drawn = fs::read_to_string(docs.join(&picture)).unwrap();
        for title in dashboard.panels().map(|panel| text(panel, "title")) {
            assert!(drawn.contains(title), "{picture} lacks {title}: run `make dashboard-pictures`");
        }
    }
}
