//! Every dashboard query, evaluated by a real Prometheus that scrapes real exporters.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod drawing;
mod feed;
mod values;

use std::{collections::BTreeMap, fs, path::Path, rc::Rc};

use serde_json::Value;

pub(crate) use self::feed::{Exporters, Feed};
use self::{drawing::draw, feed::RANGE};
use crate::support::{
    dashboards::{Dashboard, legend_labels, targets, text},
    http_client,
    prometheus::Prometheus,
};

/// Queries that return no data here, with the reason. Add only queries that cannot return data.
const WITHOUT_DATA: [(&str, &str); 0] = [];

/// The step of range queries in seconds.
const STEP: f64 = 2.0;

/// The values of a dashboard's variables: «All» if available, else the given value.
struct Choice(BTreeMap<String, String>);

impl Choice {
    /// Selects everything, and for the dashboard of one object, an object with all details.
    fn of(dashboard: &Dashboard) -> Self {
        let chosen = |name: &str| match name {
            "namespace" if dashboard.name == "object" => "payments",
            "kind" => "Deployment",
            "name" => "checkout-eu",
            _ => "",
        };
        let queried = dashboard.variables().iter().filter(|variable| variable["type"] == "query");
        let values = queried.map(|variable| {
            let name = text(variable, "name");
            let all = variable["allValue"].as_str().unwrap_or("");
            (name.to_owned(), if chosen(name).is_empty() { all } else { chosen(name) }.to_owned())
        });
        Self(values.collect())
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Replaces the variables in a query.
    fn fill(&self, query: &str) -> String {
        let range = format!("{RANGE}s");
        let built_in = [("__rate_interval", "20s"), ("__range", &*range)];
        let chosen = self.0.iter().map(|(name, value)| (&**name, &**value));
        // Longest name first: `$name` is a prefix of `$namespace`.
        let mut all: Vec<(&str, &str)> = built_in.into_iter().chain(chosen).collect();
        all.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        all.into_iter()
            .fold(query.to_owned(), |query, (name, value)| query.replace(&format!("${name}"), value))
    }
}

/// The results of a panel's queries: for each query its series, as a range or at one time.
fn answers(feed: &Feed, panel: &Value, choice: &Choice) -> Vec<Vec<Value>> {
    answers_at(&feed.prometheus, feed.now, panel, choice)
}

fn answers_at(prometheus: &Prometheus, now: f64, panel: &Value, choice: &Choice) -> Vec<Vec<Value>> {
    let answer = |target: &Value| {
        let query = choice.fill(text(target, "expr"));
        let [then, now, step] = [now - f64::from(RANGE), now, STEP].map(|number| number.to_string());
        let data = if target["instant"] == true {
            prometheus.request("query", &[("query", &query), ("time", &now)])
        } else {
            prometheus.request(
                "query_range",
                &[("query", &query), ("start", &then), ("end", &now), ("step", &step)],
            )
        };
        let data = data.unwrap_or_else(|error| panic!("{query}: {error}"));
        data["result"].as_array().unwrap().clone()
    };
    targets(panel).iter().map(answer).collect()
}

/// A query without its fallback to zero.
fn without_fallback(panel: &Value) -> Value {
    let mut panel = panel.clone();
    for target in panel["targets"].as_array_mut().unwrap() {
        let query = text(target, "expr");
        let query = query.strip_suffix(" or vector(0)").unwrap_or(query);
        target["expr"] = query.into();
    }
    panel
}

/// The values that Grafana offers for a variable.
fn offered(feed: &Feed, variable: &Value, choice: &Choice) -> Vec<String> {
    let arguments = text(variable, "query").strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap();
    let (selector, label) = arguments.rsplit_once(", ").unwrap();
    let data =
        feed.prometheus.request(&format!("label/{label}/values"), &[("match[]", &choice.fill(selector))]);
    data.unwrap().as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_dashboard_query_returns_data() {
    let (exporters, folder) = (Exporters::start(), tempfile::tempdir().unwrap());
    let prometheus = Rc::new(Prometheus::start(folder.path(), &[exporters.job()]));
    check(&exporters.scraped_by(prometheus));
}

/// Runs every query, draws the results, and follows the links.
pub(crate) fn check(feed: &Feed) {
    let (mut queries, mut without_data) = (0, Vec::new());
    for dashboard in Dashboard::all() {
        let choice = Choice::of(&dashboard);
        for variable in dashboard.variables().iter().filter(|variable| variable["type"] == "query") {
            queries += 1;
            if offered(feed, variable, &choice).is_empty() {
                without_data.push(format!("{}: ${}", dashboard.title(), text(variable, "name")));
            }
        }
        for panel in dashboard.panels() {
            let place = format!("{}: {}", dashboard.title(), text(panel, "title"));
            let answers = answers(feed, &without_fallback(panel), &choice);
            for (target, series) in targets(panel).iter().zip(answers) {
                queries += 1;
                if series.is_empty() {
                    without_data.push(format!("{place}, {}", text(target, "refId")));
                    continue;
                }
                for label in legend_labels(target) {
                    let is_there = series.iter().any(|one_series| one_series["metric"][label].is_string());
                    assert!(is_there, "{place}: no series has the label {label} of its legend");
                }
            }
        }
        let drawn = draw(&dashboard, feed.now, |panel| answers(feed, panel, &choice));
        for panel in dashboard.panels() {
            assert!(drawn.contains(&drawing::escape(text(panel, "title"))), "{}", panel["title"]);
        }
        if std::env::var_os("UPDATE_PICTURES").is_some() {
            let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images");
            fs::write(images.join(format!("dashboard-{}.svg", dashboard.name)), drawn).unwrap();
        }
    }
    let excused: Vec<&str> = WITHOUT_DATA.iter().map(|(place, _)| *place).collect();
    assert_eq!(without_data, excused, "of {queries} queries");
    println!("{queries} queries, all with data");

    filters_leave_out_the_others(feed);
    names_in_tables_lead_to_pages(feed);
}

/// Queries that may return no data while one Deployment drifts for the first time: no object is missing, unknown or resolved, Terraform reads all
/// set fields, and `metrics.health` is off.
const NOT_YET: [&str; 7] = [
    "Drift / Overview: Missing",
    "Drift / Overview: Not compared",
    "Drift / Overview: Gone within a day",
    "Drift / Overview: Mean time to resolve",
    "Drift / Overview: How long drift lasts",
    "Drift / Object: Fields that Terraform never reads",
    "Drift / Object: Health over time",
];

/// Runs the queries of the overview and of one object for a cluster in which an object drifts.
pub(crate) fn check_during_drift(prometheus: &Prometheus, cluster: &str) {
    let data = prometheus.request("query", &[("query", "time()")]).unwrap();
    let now = data["result"][0].as_f64().unwrap();
    let mut without_data = Vec::new();
    for name in ["overview", "object"] {
        let dashboard = Dashboard::read(name);
        let choice = Choice::of(&dashboard).with("cluster", cluster);
        for panel in dashboard.panels() {
            let answers = answers_at(prometheus, now, &without_fallback(panel), &choice);
            let place = format!("{}: {}", dashboard.title(), text(panel, "title"));
            if answers.iter().all(Vec::is_empty) && !NOT_YET.contains(&&*place) {
                without_data.push(place);
            }
        }
    }
    assert!(without_data.is_empty(), "{without_data:#?}");
}

/// The labels of the rows in the table of drifted objects.
fn rows(feed: &Feed, choice: &Choice) -> Vec<Value> {
    let overview = Dashboard::read("overview");
    let table = overview.panels().find(|panel| panel["type"] == "table").unwrap().clone();
    answers(feed, &table, choice).concat().into_iter().map(|row| row["metric"].clone()).collect()
}

fn filters_leave_out_the_others(feed: &Feed) {
    let overview = Dashboard::read("overview");
    let all = rows(feed, &Choice::of(&overview)).len();
    for (name, value) in [("team", "front"), ("namespace", "payments"), ("cluster", "shop")] {
        let rows = rows(feed, &Choice::of(&overview).with(name, value));
        assert!(!rows.is_empty() && rows.iter().all(|row| row[name] == value), "{name}: {rows:?}");
        assert!(name == "cluster" || rows.len() < all, "{name} leaves out nothing");
    }
}

fn names_in_tables_lead_to_pages(feed: &Feed) {
    let rows = rows(feed, &Choice::of(&Dashboard::read("overview")));
    assert!(rows.iter().any(|row| row.get("group").is_none()), "none of the core group: {rows:?}");
    for row in rows {
        let path =
            format!("/objects/{}/{}/{}", text(&row, "resource"), text(&row, "place"), text(&row, "name"));
        // A deleted object has a page with its history, with status 404.
        let answer = http_client::get(feed.shop.port, &path, &[]).unwrap();
        let shown = answer.text().contains(text(&row, "name"));
        assert!(shown && [200, 404].contains(&answer.status), "{path}: {}", answer.status);
    }
}
