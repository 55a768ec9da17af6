//! Compares resource types that own single keys of an object: the keys in the state, and those of their field manager.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{attributes, flatten::flatten_element, table::ProviderTable};
use crate::{
    diff::{
        ownership::FieldOwners,
        reporter::{DiffReporter, scalar_text},
    },
    types::{DeclaredObject, RedactionKey, Segment},
};

pub(in crate::diff) fn compare_parts<'a>(
    declared: &'a DeclaredObject,
    state: &'a Value,
    live: &'a Value,
    owners: &FieldOwners<'a>,
    reporter: &mut DiffReporter<'a>,
) {
    let manager = state["field_manager"].as_str().unwrap_or("Terraform");
    let template = pod_template_path(&declared.object.kind);
    let keys = |attribute: &'a str, path: &[&'static str], reporter: &mut DiffReporter<'a>| {
        compare_keys(attribute, &state[attribute], live, path, owners, manager, reporter);
    };
    match &*declared.resource_type {
        "kubernetes_labels" => keys("labels", &["metadata", "labels"], reporter),
        "kubernetes_annotations" => {
            keys("annotations", &["metadata", "annotations"], reporter);
            keys("template_annotations", &[template, &["metadata", "annotations"]].concat(), reporter);
        }
        "kubernetes_config_map_v1_data" | "kubernetes_secret_v1_data" => keys("data", &["data"], reporter),
        "kubernetes_env" => compare_env(state, live, template, &declared.key, reporter),
        _ => {}
    }
}

pub(super) fn pod_template_path(kind: &str) -> &'static [&'static str] {
    match kind {
        "CronJob" => &["spec", "jobTemplate", "spec", "template"],
        _ => &["spec", "template"],
    }
}

pub(super) fn env_block(table: &ProviderTable) -> Option<usize> {
    table.block_at("kubernetes_deployment", &["spec", "template", "spec", "container", "env"])
}

fn compare_keys<'a>(
    attribute: &'a str,
    state: &'a Value,
    live: &'a Value,
    path: &[&'static str],
    owners: &FieldOwners<'a>,
    manager: &str,
    reporter: &mut DiffReporter<'a>,
) {
    let empty = Map::new();
    let declared = state.as_object().unwrap_or(&empty);
    let live = path.iter().fold(live, |at, name| &at[*name]);
    let owned = owners.keys_owned_by(manager, path).filter(|key| live.get(key).is_some());
    let keys: BTreeSet<&str> = declared.keys().map(String::as_str).chain(owned).collect();
    for key in keys {
        let text = |value: Option<&Value>| value.map(scalar_text).unwrap_or_default();
        let (expected, actual) = (text(declared.get(key)), text(live.get(key)));
        let is_in_both = declared.get(key).is_some() == live.get(key).is_some();
        if !is_in_both || !reporter.is_same(&expected, &actual) {
            let outer = path.iter().map(|name| Segment::Field((*name).into()));
            let segments = outer.chain([Segment::Field(key.into())]).collect();
            reporter.at_path(attribute, segments, |reporter| reporter.report(&expected, &actual));
        }
    }
}

fn compare_env<'a>(
    state: &'a Value,
    live: &'a Value,
    template: &[&str],
    key: &RedactionKey,
    reporter: &mut DiffReporter<'a>,
) {
    let table = ProviderTable::get();
    let Some(block) = env_block(table) else { return };
    let container_name = |attribute: &str| state[attribute].as_str().filter(|name| !name.is_empty());
    let (list, container) = match container_name("container") {
        Some(name) => ("containers", name),
        None => ("initContainers", container_name("init_container").unwrap_or_default()),
    };
    let pod = &template.iter().fold(live, |at, name| &at[*name])["spec"];
    let elements = |value: &'a Value| value.as_array().map_or(&[][..], Vec::as_slice);
    let name_of = |element: &'a Value| element["name"].as_str().unwrap_or_default();
    let find_named = |list: &'a Value, name: &str, reporter: &DiffReporter<'_>| {
        elements(list).iter().find(|element| reporter.is_same(name, name_of(element)))
    };
    let live_container = find_named(&pod[list], container, reporter);
    for variable in elements(&state["env"]) {
        let name = name_of(variable);
        let live_variable =
            live_container.and_then(|container| find_named(&container["env"], name, reporter));
        let flattened = live_variable.map(|variable| flatten_element(table, block, variable, key));
        let named = |name: &str| Segment::Element([("name".into(), name.into())].into());
        let mut segments: Vec<Segment> = template.iter().map(|name| Segment::Field((*name).into())).collect();
        segments.extend(["spec", list].map(|name| Segment::Field(name.into())));
        segments.push(named(live_container.map_or(container, name_of)));
        segments.push(Segment::Field("env".into()));
        segments.push(named(live_variable.map_or(name, name_of)));
        reporter.at_path("env", segments, |reporter| {
            attributes::compare_blocks(table, block, variable.as_object(), flattened.as_ref(), reporter);
        });
    }
}
