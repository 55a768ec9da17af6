//! Types that own single keys of an object: those in the state, and those that their field manager owns.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{attributes, flatten::flatten_element, table::Table};
use crate::{
    diff::{
        findings::{Findings, text},
        ownership::Owners,
    },
    types::{DeclaredObject, RedactionKey, Segment},
};

/// Compares the keys, or variables, that a resource owns.
pub(super) fn compare_parts<'a>(
    declared: &'a DeclaredObject,
    state: &'a Value,
    live: &'a Value,
    owners: &Owners<'a>,
    findings: &mut Findings<'a>,
) {
    let manager = state["field_manager"].as_str().unwrap_or("Terraform");
    let template = template_of(&declared.object.kind);
    let keys = |attribute: &'a str, path: &[&'static str], findings: &mut Findings<'a>| {
        compare_keys(attribute, &state[attribute], live, path, owners, manager, findings);
    };
    match &*declared.resource_type {
        "kubernetes_labels" => keys("labels", &["metadata", "labels"], findings),
        "kubernetes_annotations" => {
            keys("annotations", &["metadata", "annotations"], findings);
            keys("template_annotations", &[template, &["metadata", "annotations"]].concat(), findings);
        }
        "kubernetes_config_map_v1_data" | "kubernetes_secret_v1_data" => keys("data", &["data"], findings),
        "kubernetes_env" => compare_env(state, live, template, &declared.key, findings),
        _ => {}
    }
}

/// Where the template of Pods is in objects of a kind.
pub(super) fn template_of(kind: &str) -> &'static [&'static str] {
    match kind {
        "CronJob" => &["spec", "jobTemplate", "spec", "template"],
        _ => &["spec", "template"],
    }
}

/// The shape of an environment variable.
pub(super) fn variable_shape(table: &Table) -> Option<usize> {
    table.shape_at("kubernetes_deployment", &["spec", "template", "spec", "container", "env"])
}

fn compare_keys<'a>(
    attribute: &'a str,
    state: &'a Value,
    live: &'a Value,
    path: &[&'static str],
    owners: &Owners<'a>,
    manager: &str,
    findings: &mut Findings<'a>,
) {
    let empty = Map::new();
    let declared = state.as_object().unwrap_or(&empty);
    let live = path.iter().fold(live, |at, name| &at[*name]);
    let owned = owners.names_of(manager, path).filter(|name| live.get(name).is_some());
    let names: BTreeSet<&str> = declared.keys().map(String::as_str).chain(owned).collect();
    for name in names {
        let written = |value: Option<&Value>| value.map(text).unwrap_or_default();
        let (expected, actual) = (written(declared.get(name)), written(live.get(name)));
        let same_presence = declared.get(name).is_some() == live.get(name).is_some();
        if !same_presence || !findings.is_same(&expected, &actual) {
            let outer = path.iter().map(|name| Segment::Field((*name).into()));
            let segments = outer.chain([Segment::Field(name.into())]).collect();
            findings.at_path(attribute, segments, |findings| findings.differs(&expected, &actual));
        }
    }
}

fn compare_env<'a>(
    state: &'a Value,
    live: &'a Value,
    template: &[&str],
    key: &RedactionKey,
    findings: &mut Findings<'a>,
) {
    let table = Table::get();
    let Some(shape) = variable_shape(table) else { return };
    let named = |attribute: &str| state[attribute].as_str().filter(|name| !name.is_empty());
    let (list, container) = match named("container") {
        Some(name) => ("containers", name),
        None => ("initContainers", named("init_container").unwrap_or_default()),
    };
    let pod = &template.iter().fold(live, |at, name| &at[*name])["spec"];
    let elements = |value: &'a Value| value.as_array().map_or(&[][..], Vec::as_slice);
    let name_of = |element: &'a Value| element["name"].as_str().unwrap_or_default();
    let find = |list: &'a Value, name: &str, findings: &Findings<'_>| {
        elements(list).iter().find(|element| findings.is_same(name, name_of(element)))
    };
    let container_value = find(&pod[list], container, findings);
    for variable in elements(&state["env"]) {
        let name = name_of(variable);
        let present = container_value.and_then(|container| find(&container["env"], name, findings));
        let read = present.map(|present| flatten_element(table, shape, present, key));
        let named = |name: &str| Segment::Element(vec![("name".into(), name.into())]);
        let mut segments: Vec<Segment> = template.iter().map(|name| Segment::Field((*name).into())).collect();
        segments.extend(["spec", list].map(|name| Segment::Field(name.into())));
        segments.push(named(container_value.map_or(container, name_of)));
        segments.push(Segment::Field("env".into()));
        segments.push(named(present.map_or(name, name_of)));
        findings.at_path("env", segments, |findings| {
            attributes::compare_blocks(table, shape, variable.as_object(), read.as_ref(), findings);
        });
    }
}
