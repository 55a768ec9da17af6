//! The description of a dashboard: its panels and queries, without the boilerplate of Grafana.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, de::DeserializeOwned};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Description {
    pub(super) uid: String,
    pub(super) title: String,
    #[serde(rename = "description")]
    pub(super) about: String,
    /// Names in `variables.yaml`.
    pub(super) variables: Vec<String>,
    /// The path of the exporter's page with more details.
    pub(super) page: String,
    pub(super) rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) title: String,
    pub(super) panels: Vec<Panel>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Panel {
    #[serde(rename = "type")]
    pub(super) kind: PanelKind,
    pub(super) title: String,
    pub(super) description: String,
    /// In 24 grid columns.
    pub(super) width: u8,
    pub(super) height: Option<u8>,
    pub(super) unit: Option<String>,
    /// Value mappings: numbers shown as text.
    #[serde(default)]
    pub(super) words: BTreeMap<u8, String>,
    pub(super) red_from: Option<f64>,
    pub(super) red_below: Option<f64>,
    /// The labels that a table shows as columns, from left to right.
    #[serde(default)]
    pub(super) columns: Vec<String>,
    /// The labels that only its links use.
    #[serde(default)]
    pub(super) hidden: Vec<String>,
    /// Whether names link to the dashboard and the page of the object.
    #[serde(default)]
    pub(super) object_links: bool,
    pub(super) queries: Vec<Query>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PanelKind {
    Stat,
    Bargauge,
    Timeseries,
    StateTimeline,
    Table,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    pub(super) expr: String,
    #[serde(default)]
    pub(super) legend: String,
    /// Header of the value column in a table; its unit and value mappings follow.
    pub(super) name: Option<String>,
    pub(super) unit: Option<String>,
    #[serde(default)]
    pub(super) words: BTreeMap<u8, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Variable {
    pub(super) label: String,
    pub(super) query: String,
    /// The value of "All"; unset if the user has to select one.
    pub(super) all: Option<String>,
    #[serde(default)]
    pub(super) multi: bool,
}

pub(super) type Variables = BTreeMap<String, Variable>;

/// Reads a file of the directory `descriptions`.
pub(super) fn read<T: DeserializeOwned>(folder: &Path, name: &str) -> T {
    let path = folder.join("descriptions").join(name).with_extension("yaml");
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
