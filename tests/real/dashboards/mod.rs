//! Every query of the dashboards, answered by a real Prometheus that scrapes real exporters.

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
    page,
    prometheus::Prometheus,
};

/// Queries that have no answer in what is scraped, and why. None should be here that can be made to have one.
const WITHOUT_ANSWER: [(&str, &str); 0] = [];

/// Seconds between two points of what is drawn.
const STEP: f64 = 2.0;

/// What Grafana puts in for the variables of a dashboard: «All» where that is possible, else what is asked for.
struct Choice(BTreeMap<String, String>);

impl Choice {
    /// Asks for everything, and in the dashboard of an object for one that has all there is to show.
    fn of(dashboard: &Dashboard) -> Self {
        let chosen = |name: &str| match name {
            "namespace" if dashboard.name == "object" => "payments",
            "kind" => "Deployment",
            "name" => "checkout-eu",
            _ => "",
        };
        let queried = dashboard.variables().iter().filter(|own| own["type"] == "query");
        let values = queried.map(|own| {
            let name = text(own, "name");
            let all = own["allValue"].as_str().unwrap_or("");
            (name.to_owned(), if chosen(name).is_empty() { all } else { chosen(name) }.to_owned())
        });
        Self(values.collect())
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.to_owned());
        self
    }

    /// A query with what the variables are.
    fn fill(&self, query: &str) -> String {
        let range = format!("{RANGE}s");
        let built_in = [("__rate_interval", "20s"), ("__range", &*range)];
        let own = self.0.iter().map(|(name, value)| (&**name, &**value));
        // The longest first: `$name` begins `$namespace`.
        let mut all: Vec<(&str, &str)> = built_in.into_iter().chain(own).collect();
        all.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        all.into_iter()
            .fold(query.to_owned(), |query, (name, value)| query.replace(&format!("${name}"), value))
    }
}

/// The answers to the queries of a panel: for each the series, with their values over time or at the end.
fn answers(feed: &Feed, panel: &Value, choice: &Choice) -> Vec<Vec<Value>> {
    answers_at(&feed.prometheus, feed.now, panel, choice)
}

fn answers_at(prometheus: &Prometheus, now: f64, panel: &Value, choice: &Choice) -> Vec<Vec<Value>> {
    let answer = |target: &Value| {
        let query = choice.fill(text(target, "expr"));
        let [then, now, step] = [now - f64::from(RANGE), now, STEP].map(|number| number.to_string());
        let data = if target["instant"] == true {
            prometheus.ask("query", &[("query", &query), ("time", &now)])
        } else {
            prometheus
                .ask("query_range", &[("query", &query), ("start", &then), ("end", &now), ("step", &step)])
        };
        let data = data.unwrap_or_else(|error| panic!("{query}: {error}"));
        data["result"].as_array().unwrap().clone()
    };
    targets(panel).iter().map(answer).collect()
}

/// What a query says where it does not fall back to zero.
fn without_fallback(panel: &Value) -> Value {
    let mut panel = panel.clone();
    for target in panel["targets"].as_array_mut().unwrap() {
        let query = text(target, "expr");
        let query = query.strip_suffix(" or vector(0)").unwrap_or(query);
        target["expr"] = query.into();
    }
    panel
}

/// The values that Grafana would offer for a variable.
fn offered(feed: &Feed, variable: &Value, choice: &Choice) -> Vec<String> {
    let asked = text(variable, "query").strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap();
    let (selector, label) = asked.rsplit_once(", ").unwrap();
    let data = feed.prometheus.ask(&format!("label/{label}/values"), &[("match[]", &choice.fill(selector))]);
    data.unwrap().as_array().unwrap().iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_query_of_every_dashboard_has_an_answer() {
    let (exporters, folder) = (Exporters::start(), tempfile::tempdir().unwrap());
    let prometheus = Rc::new(Prometheus::start(folder.path(), &[exporters.job()]));
    check(&exporters.seen_by(prometheus));
}

/// Asks every query, draws what is answered, and follows the links.
pub(crate) fn check(feed: &Feed) {
    let (mut asked, mut unanswered) = (0, Vec::new());
    for dashboard in Dashboard::all() {
        let choice = Choice::of(&dashboard);
        for variable in dashboard.variables().iter().filter(|own| own["type"] == "query") {
            asked += 1;
            if offered(feed, variable, &choice).is_empty() {
                unanswered.push(format!("{}: ${}", dashboard.title(), text(variable, "name")));
            }
        }
        for panel in dashboard.panels() {
            let place = format!("{}: {}", dashboard.title(), text(panel, "title"));
            let answers = answers(feed, &without_fallback(panel), &choice);
            for (target, series) in targets(panel).iter().zip(answers) {
                asked += 1;
                if series.is_empty() {
                    unanswered.push(format!("{place}, {}", text(target, "refId")));
                    continue;
                }
                for label in legend_labels(target) {
                    let is_there = series.iter().any(|own| own["metric"][label].is_string());
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
    let excused: Vec<&str> = WITHOUT_ANSWER.iter().map(|(place, _)| *place).collect();
    assert_eq!(unanswered, excused, "of {asked} queries");
    println!("{asked} queries, all answered");

    filters_leave_out_the_others(feed);
    names_in_tables_lead_to_pages(feed);
}

/// What may have no answer while one Deployment drifts for the first time: nothing is missing, unknown or has ended, Terraform reads all that was
/// set, and `metrics.health` is off.
const NOT_YET: [&str; 7] = [
    "Drift / Overview: Missing",
    "Drift / Overview: Not compared",
    "Drift / Overview: Gone within a day",
    "Drift / Overview: Mean time to resolve",
    "Drift / Overview: How long drift lasts",
    "Drift / Object: Fields that Terraform never reads",
    "Drift / Object: Health over time",
];

/// Asks for one cluster in which an object drifts what the dashboards of all objects and of one show.
pub(crate) fn check_while_it_drifts(prometheus: &Prometheus, cluster: &str) {
    let data = prometheus.ask("query", &[("query", "time()")]).unwrap();
    let now = data["result"][0].as_f64().unwrap();
    let mut unanswered = Vec::new();
    for name in ["overview", "object"] {
        let dashboard = Dashboard::read(name);
        let choice = Choice::of(&dashboard).with("cluster", cluster);
        for panel in dashboard.panels() {
            let answers = answers_at(prometheus, now, &without_fallback(panel), &choice);
            let place = format!("{}: {}", dashboard.title(), text(panel, "title"));
            if answers.iter().all(Vec::is_empty) && !NOT_YET.contains(&&*place) {
                unanswered.push(place);
            }
        }
    }
    assert!(unanswered.is_empty(), "{unanswered:#?}");
}

/// The rows of the table of all that drifts: their labels.
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
        // An object that is gone has a page, too, with its history, that says 404.
        let answer = page::get(feed.shop.port, &path, &[]).unwrap();
        let shown = answer.text().contains(text(&row, "name"));
        assert!(shown && [200, 404].contains(&answer.status), "{path}: {}", answer.status);
    }
}
