//! Charts of the corpus and of Helm's own features.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::super::corpus::Document;

/// Strings that become values: a field, its value, and the value of an upgrade.
const VALUES: &[[&str; 3]] = &[
    ["image", "registry.example/web:1.2.3", "registry.example/web:1.3.0"],
    ["replicas", "3", "4"],
    ["mode", "fast", "slow"],
    ["size", "3", "5"],
    ["parallelism", "2", "1"],
    ["schedule", "\"0 3 * * *\"", "\"0 4 * * *\""],
];

/// Templates with features that only Helm has.
const HELM_FEATURES: &[(&str, &str)] = &[
    ("hooks", include_str!("templates/hooks.yaml")),
    ("kept", include_str!("templates/kept.yaml")),
    ("lists", include_str!("templates/lists.yaml")),
    ("nothing", include_str!("templates/nothing.yaml")),
    ("places", include_str!("templates/places.yaml")),
    ("silent", include_str!("templates/silent.yaml")),
    ("spelled", include_str!("templates/spelled.yaml")),
];

/// A chart in its own folder.
pub(super) struct Chart {
    folder: PathBuf,
}

impl Chart {
    /// An empty chart.
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        let chart = Self { folder: folder.join(name) };
        fs::create_dir_all(chart.folder.join("templates")).unwrap();
        chart.write(
            "Chart.yaml",
            &format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\nappVersion: '1.10'\n"),
        );
        let values = VALUES.iter().map(|[field, value, _]| format!("{field}: {value}\n"));
        chart.write("values.yaml", &values.collect::<String>());
        chart
    }

    /// Adds documents, each as its own template.
    pub(super) fn with<'a>(self, documents: impl IntoIterator<Item = &'a Document>, copy: &str) -> Self {
        for (number, document) in documents.into_iter().enumerate() {
            let mut text = document.yaml("", copy);
            for [field, value, _] in VALUES {
                text = text.replace(
                    &format!(" {field}: {value}\n"),
                    &format!(" {field}: {{{{ .Values.{field} }}}}\n"),
                );
            }
            self.write(&format!("templates/document{copy}-{number}.yaml"), &text);
        }
        self
    }

    /// Adds Helm's own features, with CRLF line endings.
    pub(super) fn with_helm_features(self) -> Self {
        for (name, text) in HELM_FEATURES {
            let text = if *name == "lists" { text.replace('\n', "\r\n") } else { (*text).to_owned() };
            self.write(&format!("templates/{name}.yaml"), &text);
        }
        self
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.join(file), text).unwrap();
    }
}

/// The flags of an upgrade with other values.
pub(super) fn other_values() -> Vec<String> {
    let flag =
        |[field, _, other]: &[&str; 3]| ["--set-json".to_owned(), format!("{field}={}", as_json(other))];
    VALUES.iter().flat_map(flag).collect()
}

fn as_json(value: &str) -> String {
    if value.starts_with('"') || value.parse::<u64>().is_ok() {
        value.to_owned()
    } else {
        format!("\"{value}\"")
    }
}
