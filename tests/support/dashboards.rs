//! The shipped dashboards.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

pub const NAMES: [&str; 4] = ["overview", "object", "sources", "health"];

/// The folder of the dashboards.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards")
}

pub struct Dashboard {
    /// The file name without its extension.
    pub name: &'static str,
    pub json: Value,
}

impl Dashboard {
    pub fn all() -> Vec<Self> {
        NAMES.map(Self::read).into()
    }

    pub fn read(name: &'static str) -> Self {
        let path = folder().join(name).with_extension("json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { name, json: serde_json::from_str(&text).expect("JSON") }
    }

    pub fn title(&self) -> &str {
        text(&self.json, "title")
    }

    /// All panels without rows.
    pub fn panels(&self) -> impl Iterator<Item = &Value> {
        list(&self.json, "panels").iter().filter(|panel| panel["type"] != "row")
    }

    pub fn variables(&self) -> &[Value] {
        list(&self.json["templating"], "list")
    }
}

pub fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("no text {key} in {value}"))
}

pub fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key} in {value}"))
}

/// The queries of a panel.
pub fn targets(panel: &Value) -> &[Value] {
    list(panel, "targets")
}

/// The labels in a legend.
pub fn legend_labels(target: &Value) -> Vec<&str> {
    let pieces = text(target, "legendFormat").split("{{").skip(1);
    pieces.map(|piece| piece.split("}}").next().expect("a piece").trim()).collect()
}
