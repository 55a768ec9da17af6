//! The seventeen rules of Grafana's dashboard-linter 0.2.0 and its file of exceptions.
//!
//! The linter applies some rules to a few panel types only; here they apply to all panels.

use std::{collections::BTreeMap, fs};

use serde::Deserialize;
use serde_json::{Value, json};

use super::queries::{is_balanced, selectors};
use crate::support::dashboards::{Dashboard, folder, list, targets, text};

/// The units in use, all of which the linter knows.
const UNITS: [&str; 7] = ["none", "short", "percentunit", "s", "bytes", "ops", "dateTimeFromNow"];

const DATA_SOURCES: [&str; 2] = ["$datasource", "${datasource}"];

/// A violation of a rule.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) rule: &'static str,
    pub(super) dashboard: String,
    /// Empty for a finding about the whole dashboard.
    pub(super) panel: String,
    pub(super) what: String,
}

/// The `.lint` file of the linter.
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

pub(super) fn lint(dashboard: &Dashboard) -> Vec<Finding> {
    let mut linter = Linter { dashboard, panel: "", findings: Vec::new() };
    linter.variable_rules();
    linter.check("uneditable-dashboard", dashboard.json["editable"] == false, "the dashboard is editable");
    for panel in dashboard.panels() {
        linter.panel = panel["title"].as_str().unwrap_or("without a title");
        linter.panel_rules(panel);
        targets(panel).iter().for_each(|target| linter.target_rules(text(target, "expr")));
    }
    linter.findings
}

struct Linter<'a> {
    dashboard: &'a Dashboard,
    panel: &'a str,
    findings: Vec<Finding>,
}

impl Linter<'_> {
    fn check(&mut self, rule: &'static str, is_satisfied: bool, what: &str) {
        if !is_satisfied {
            let (dashboard, panel) = (self.dashboard.title().to_owned(), self.panel.to_owned());
            self.findings.push(Finding { rule, dashboard, panel, what: what.to_owned() });
        }
    }

    fn variable_rules(&mut self) {
        let all = self.dashboard.variables();
        let sources: Vec<&Value> = all.iter().filter(|variable| variable["type"] == "datasource").collect();
        let is_valid = matches!(sources[..], [one] if one["name"] == "datasource" && one["label"] == "Data source" && one["query"] == "prometheus");
        self.check("template-datasource-rule", is_valid, "not exactly one variable for the data source");
        for (rule, name, label) in
            [("template-job-rule", "job", "Job"), ("template-instance-rule", "instance", "Instance")]
        {
            let variable = all.iter().find(|variable| variable["name"] == name);
            let is_valid = variable.is_some_and(|variable| {
                uses_datasource_variable(variable)
                    && variable["type"] == "query"
                    && variable["label"] == label
                    && variable["multi"] == true
                    && variable["allValue"] == ".+"
            });
            self.check(rule, is_valid, name);
        }
        for variable in all.iter().filter(|variable| variable["type"] == "query") {
            self.check(
                "template-on-time-change-reload-rule",
                variable["refresh"] == 2,
                text(variable, "name"),
            );
            let arguments =
                text(variable, "query").strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')'));
            let selector = arguments
                .and_then(|arguments| arguments.rsplit_once(", "))
                .map_or("", |(selector, _)| selector);
            let is_valid =
                !selector.is_empty() && is_balanced(selector) && uses_datasource_variable(variable);
            self.check("template-label-promql-rule", is_valid, text(variable, "query"));
        }
    }

    fn panel_rules(&mut self, panel: &Value) {
        let is_set = |key: &str| panel[key].as_str().is_some_and(|text| !text.is_empty());
        self.check(
            "panel-title-description-rule",
            is_set("title") && is_set("description"),
            "no title or description",
        );
        self.check("panel-no-targets-rule", !targets(panel).is_empty(), "no query");
        let mut sources = targets(panel).iter().chain([panel]);
        let is_valid = sources.all(uses_datasource_variable);
        self.check("panel-datasource-rule", is_valid, "does not use the data source variable");
        let has_unit = |unit: &Value| unit.as_str().is_some_and(|unit| UNITS.contains(&unit));
        let defaults = &panel["fieldConfig"]["defaults"];
        let overrides =
            list(&panel["fieldConfig"], "overrides").iter().flat_map(|rule| list(rule, "properties"));
        let units = overrides.filter(|property| property["id"] == "unit").map(|property| &property["value"]);
        let is_valid = units.chain([&defaults["unit"]]).all(has_unit);
        self.check("panel-units-rule", is_valid, "missing or unknown unit");
    }

    fn target_rules(&mut self, query: &str) {
        // No panel queries Loki, so a PromQL query satisfies the LogQL rules as well.
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

fn uses_datasource_variable(value: &Value) -> bool {
    DATA_SOURCES.iter().any(|name| value["datasource"] == json!({"type": "prometheus", "uid": name}))
}
