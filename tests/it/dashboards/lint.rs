//! The rules of Grafana's dashboard-linter 0.2.0, all seventeen, and its file of exceptions.
//!
//! Panels of every sort have to keep the rules that the linter applies to some.

use std::{collections::BTreeMap, fs};

use serde::Deserialize;
use serde_json::{Value, json};

use super::queries::{is_balanced, selectors};
use crate::programs::dashboards::{Dashboard, folder, list, targets, text};

/// Those of the units that the linter knows that are used here.
const UNITS: [&str; 7] = ["none", "short", "percentunit", "s", "bytes", "ops", "dateTimeFromNow"];

const DATA_SOURCES: [&str; 2] = ["$datasource", "${datasource}"];

/// A rule that is not kept.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) rule: &'static str,
    pub(super) dashboard: String,
    /// Empty where it is about the whole dashboard.
    pub(super) panel: String,
    pub(super) what: String,
}

/// Exceptions, as the linter reads them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exceptions {
    pub(super) exclusions: BTreeMap<String, Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exception {
    pub(super) reason: String,
    pub(super) entries: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    dashboard: String,
}

impl Exceptions {
    pub(super) fn read() -> Self {
        serde_saphyr::from_str(&fs::read_to_string(folder().join(".lint")).unwrap()).unwrap()
    }
}

impl Entry {
    pub(super) fn covers(&self, finding: &Finding) -> bool {
        self.dashboard == finding.dashboard
    }
}

/// What a dashboard gets wrong.
pub(super) fn lint(dashboard: &Dashboard) -> Vec<Finding> {
    let mut report = Report { dashboard, panel: "", findings: Vec::new() };
    report.variables();
    report.check("uneditable-dashboard", dashboard.json["editable"] == false, "it can be edited");
    for panel in dashboard.panels() {
        report.panel = panel["title"].as_str().unwrap_or("without a title");
        report.look_at(panel);
        targets(panel).iter().for_each(|target| report.query(text(target, "expr")));
    }
    report.findings
}

struct Report<'a> {
    dashboard: &'a Dashboard,
    panel: &'a str,
    findings: Vec<Finding>,
}

impl Report<'_> {
    fn check(&mut self, rule: &'static str, is_kept: bool, what: &str) {
        if !is_kept {
            let (dashboard, panel) = (self.dashboard.title().to_owned(), self.panel.to_owned());
            self.findings.push(Finding { rule, dashboard, panel, what: what.to_owned() });
        }
    }

    fn variables(&mut self) {
        let all = self.dashboard.variables();
        let sources: Vec<&Value> = all.iter().filter(|own| own["type"] == "datasource").collect();
        let is_right = matches!(sources[..], [one] if one["name"] == "datasource" && one["label"] == "Data source" && one["query"] == "prometheus");
        self.check("template-datasource-rule", is_right, "no one variable for the data source");
        for (rule, name, label) in
            [("template-job-rule", "job", "Job"), ("template-instance-rule", "instance", "Instance")]
        {
            let own = all.iter().find(|own| own["name"] == name);
            let is_right = own.is_some_and(|own| {
                uses_the_data_source(own)
                    && own["type"] == "query"
                    && own["label"] == label
                    && own["multi"] == true
                    && own["allValue"] == ".+"
            });
            self.check(rule, is_right, name);
        }
        for own in all.iter().filter(|own| own["type"] == "query") {
            self.check("template-on-time-change-reload-rule", own["refresh"] == 2, text(own, "name"));
            let asked =
                text(own, "query").strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
            let selector =
                asked.and_then(|asked| asked.rsplit_once(", ")).map_or("", |(selector, _)| selector);
            let is_right = !selector.is_empty() && is_balanced(selector) && uses_the_data_source(own);
            self.check("template-label-promql-rule", is_right, text(own, "query"));
        }
    }

    fn look_at(&mut self, panel: &Value) {
        let told = |key: &str| panel[key].as_str().is_some_and(|text| !text.is_empty());
        self.check("panel-title-description-rule", told("title") && told("description"), "not described");
        self.check("panel-no-targets-rule", !targets(panel).is_empty(), "no query");
        let mut sources = targets(panel).iter().chain([panel]);
        let is_right = sources.all(uses_the_data_source);
        self.check("panel-datasource-rule", is_right, "another data source");
        let has_unit = |unit: &Value| unit.as_str().is_some_and(|unit| UNITS.contains(&unit));
        let defaults = &panel["fieldConfig"]["defaults"];
        let overrides =
            list(&panel["fieldConfig"], "overrides").iter().flat_map(|own| list(own, "properties"));
        let units = overrides.filter(|own| own["id"] == "unit").map(|own| &own["value"]);
        let is_right = units.chain([&defaults["unit"]]).all(has_unit);
        self.check("panel-units-rule", is_right, "no unit, or one that is unknown");
    }

    fn query(&mut self, query: &str) {
        // Nothing here asks Loki, so its two rules are kept by keeping this one.
        let found = selectors(query);
        let is_promql = is_balanced(query) && !found.is_empty() && !query.contains("|=");
        for rule in ["target-promql-rule", "target-logql-rule", "target-logql-auto-rule"] {
            self.check(rule, is_promql, query);
        }
        for selector in found {
            let has = |label: &str| {
                selector.matchers.contains(&[label, "=~", &format!("${label}")].map(str::to_owned))
            };
            self.check("target-job-rule", has("job"), query);
            self.check("target-instance-rule", has("instance"), query);
            let function = selector.function.as_deref().unwrap_or("");
            let is_rate = ["rate", "irate"].contains(&function);
            let by_interval = selector.range.as_deref() == Some("$__rate_interval");
            self.check("target-rate-interval-rule", !is_rate || by_interval, query);
            let is_counted = selector.range.is_some() && ["rate", "irate", "increase"].contains(&function);
            self.check("target-counter-agg-rule", is_counted || !selector.metric.ends_with("_total"), query);
        }
    }
}

fn uses_the_data_source(own: &Value) -> bool {
    DATA_SOURCES.iter().any(|name| own["datasource"] == json!({"type": "prometheus", "uid": name}))
}
