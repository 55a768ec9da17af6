//! Compares resource types that own single keys of an object: the keys in the state, and those of their field manager.

use std::collections::BTreeSet;

use super::{attributes, flatten::flatten_element, table::ProviderTable};
use crate::{
    diff::{
        ownership::{FieldOwners, Identity, Step},
        reporter::DiffReporter,
        tree::{Members, Node, Scalar},
    },
    types::{DeclaredObject, RedactionKey},
};

pub(in crate::diff) fn compare_parts<'a>(
    declared: &'a DeclaredObject,
    state: &'a Node,
    live: &'a Node,
    owners: &FieldOwners<'a>,
    reporter: &mut DiffReporter<'a>,
) {
    let manager = match &state["field_manager"] {
        // It is not known who owns the other keys.
        Node::Redacted(_) => "",
        manager => manager.as_str().unwrap_or("Terraform"),
    };
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
    state: &'a Node,
    live: &'a Node,
    path: &[&'static str],
    owners: &FieldOwners<'a>,
    manager: &str,
    reporter: &mut DiffReporter<'a>,
) {
    let empty = Members::new();
    let declared = state.as_object().unwrap_or(&empty);
    let live = path.iter().fold(live, |at, name| &at[*name]);
    let owned = owners.keys_owned_by(manager, path).filter(|key| live.get(key).is_some());
    let keys: BTreeSet<&str> = declared.keys().map(String::as_str).chain(owned).collect();
    for key in keys {
        // An empty value differs from an absent one.
        let (expected, actual) = (declared.get(key), live.get(key));
        let is_same = match (expected, actual) {
            (Some(expected), Some(actual)) => reporter.is_same(&expected.scalar(), &actual.scalar()),
            (expected, actual) => expected.is_none() && actual.is_none(),
        };
        if !is_same {
            let (expected, actual) = (reporter.value(expected), reporter.value(actual));
            let steps = path.iter().chain([&key]).map(|name| Step::Field((*name).into())).collect();
            reporter.at_path(attribute, steps, |reporter| reporter.report(expected, actual));
        }
    }
}

fn compare_env<'a>(
    state: &'a Node,
    live: &'a Node,
    template: &[&str],
    key: &RedactionKey,
    reporter: &mut DiffReporter<'a>,
) {
    let table = ProviderTable::get();
    let Some(block) = env_block(table) else { return };
    let (list, container) = match state["container"].scalar() {
        absent if absent.is_empty() => ("initContainers", state["init_container"].scalar()),
        name => ("containers", name),
    };
    let pod = &template.iter().fold(live, |at, name| &at[*name])["spec"];
    let name_of = |element: &'a Node| element["name"].scalar();
    let find_named = |list: &'a Node, name: &Scalar<'_>, reporter: &DiffReporter<'_>| {
        list.elements().iter().find(|element| reporter.is_same(name, &name_of(element)))
    };
    let live_container = find_named(&pod[list], &container, reporter);
    for variable in state["env"].elements() {
        let name = name_of(variable);
        let live_variable =
            live_container.and_then(|container| find_named(&container["env"], &name, reporter));
        let flattened = live_variable.map(|variable| flatten_element(table, block, variable, key));
        let named = |name: &Scalar<'_>| Step::Element([("name".into(), Identity::from(name))].into());
        let outer = template.iter().copied().chain(["spec", list]);
        let mut steps: Vec<Step> = outer.map(|name| Step::Field(name.into())).collect();
        steps.push(named(&live_container.map_or(container.clone(), name_of)));
        steps.push(Step::Field("env".into()));
        steps.push(named(&live_variable.map_or(name, name_of)));
        reporter.at_path("env", steps, |reporter| {
            attributes::compare_blocks(table, block, variable.as_object(), flattened.as_ref(), reporter);
        });
    }
}
