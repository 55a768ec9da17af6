//! Compares an object as the provider read it back after an apply, all fields of which are declared.

use std::collections::BTreeSet;

use super::blind::UNSET;
use crate::diff::{
    manifest::{
        SERVER_METADATA, SchemaNode, Schemas, custom_resource_node, element_step, guess_keys,
        is_quantity_name, key_values, schema_keys,
    },
    ownership::Step,
    reporter::DiffReporter,
    tree::{Members, Node},
};

/// Fields that were added since the apply differ too.
pub(in crate::diff) fn compare_whole_object<'a>(
    declared: &'a Node,
    live: &'a Node,
    schemas: &'a Schemas,
    reporter: &mut DiffReporter<'a>,
) {
    let node = custom_resource_node(declared, schemas);
    for name in field_names(declared, live) {
        let (node, declared, live) = (node.member(name), declared.get(name), live.get(name));
        match name {
            "apiVersion" | "kind" | "status" => {}
            "metadata" => reporter.in_field(name, name, |reporter| {
                let (declared, live) = (or_null(declared), or_null(live));
                let names = field_names(declared, live).into_iter();
                for name in names.filter(|name| !SERVER_METADATA.contains(name)) {
                    let (node, declared, live) = (node.member(name), declared.get(name), live.get(name));
                    reporter.in_field(name, name, |reporter| compare_values(node, declared, live, reporter));
                }
            }),
            _ => reporter.in_field(name, name, |reporter| compare_values(node, declared, live, reporter)),
        }
    }
}

/// Compares two values, each of which may be absent. Absent, null and an empty text are equal to Terraform.
fn compare_values<'a>(
    node: SchemaNode<'a>,
    declared_value: Option<&'a Node>,
    live_value: Option<&'a Node>,
    reporter: &mut DiffReporter<'a>,
) {
    let (declared, live) = (or_null(declared_value), or_null(live_value));
    match (declared, live) {
        (Node::Object(_), Node::Object(_) | Node::Null) | (Node::Null, Node::Object(_)) => {
            for name in field_names(declared, live) {
                let (node, declared, live) = (node.member(name), declared.get(name), live.get(name));
                reporter.in_field(name, name, |reporter| compare_values(node, declared, live, reporter));
            }
        }
        (Node::Array(_), Node::Array(_) | Node::Null) | (Node::Null, Node::Array(_)) => {
            compare_lists(node, declared_value, live_value, reporter);
        }
        (declared, live) => {
            let (expected, actual) = (declared.scalar(), live.scalar());
            let is_same = reporter.is_same(&expected, &actual)
                || is_quantity_name(node.name) && reporter.is_same_quantity(&expected, &actual);
            if !is_same {
                reporter.report(reporter.value(declared_value), reporter.value(live_value));
            }
        }
    }
}

fn or_null(value: Option<&Node>) -> &Node {
    value.unwrap_or(&Node::Null)
}

fn compare_lists<'a>(
    node: SchemaNode<'a>,
    declared_list: Option<&'a Node>,
    live_list: Option<&'a Node>,
    reporter: &mut DiffReporter<'a>,
) {
    let [declared, live] = [declared_list, live_list].map(|list| or_null(list).elements());
    if !declared.iter().chain(live).any(Node::is_object) {
        // A set in another order is drift to Terraform.
        let are_same = declared.len() == live.len()
            && declared.iter().zip(live).all(|(one, other)| is_same_element(one, other, reporter));
        if !are_same {
            reporter.report_lists(declared_list, live_list);
        }
        return;
    }
    let element = node.element();
    let Some(keys) = schema_keys(node).or_else(|| guess_keys(declared, live)) else {
        for at in 0..declared.len().max(live.len()) {
            let (declared, live) = (declared.get(at), live.get(at));
            reporter.at(Step::Index(at), |reporter| compare_elements(element, declared, live, reporter));
        }
        return;
    };
    let mut added: Vec<&Node> = live.iter().collect();
    let mut pairs = Vec::new();
    for declared in declared {
        let values = key_values(&keys, declared);
        let is_same = |live: &&Node| reporter.are_same(&values, &key_values(&keys, live));
        let live = added.iter().position(is_same).map(|at| added.remove(at));
        pairs.push((Some(declared), live));
    }
    pairs.extend(added.into_iter().map(|live| (None, Some(live))));
    for (declared, live) in pairs {
        let values = live.or(declared).map(|element| key_values(&keys, element)).unwrap_or_default();
        reporter.at(element_step(&keys, &values), |reporter| {
            compare_elements(element, declared, live, reporter);
        });
    }
}

/// Compares two elements, one of which may be absent. An empty element differs from an absent one.
fn compare_elements<'a>(
    node: SchemaNode<'a>,
    declared: Option<&'a Node>,
    live: Option<&'a Node>,
    reporter: &mut DiffReporter<'a>,
) {
    let before = reporter.count();
    compare_values(node, declared, live, reporter);
    if declared.is_some() != live.is_some() && reporter.count() == before {
        reporter.report(DiffReporter::empty_object(declared), DiffReporter::empty_object(live));
    }
}

/// Compares two list elements that are not objects.
fn is_same_element(declared: &Node, live: &Node, reporter: &DiffReporter<'_>) -> bool {
    match (declared, live) {
        (Node::Array(declared), Node::Array(live)) => {
            declared.len() == live.len()
                && declared.iter().zip(live).all(|(one, other)| is_same_element(one, other, reporter))
        }
        (declared, live) => reporter.is_same(&declared.scalar(), &live.scalar()),
    }
}

/// The fields of both objects, except live fields that the schema of the provider does not have.
fn field_names<'a>(declared: &'a Node, live: &'a Node) -> BTreeSet<&'a str> {
    let names = |value: &'a Node| value.as_object().into_iter().flat_map(Members::keys).map(String::as_str);
    let unset = declared[UNSET].as_array();
    let is_read = |name: &&str| {
        unset.is_none_or(|unset| declared.get(name).is_some() || unset.iter().any(|other| other == name))
    };
    names(declared).filter(|name| *name != UNSET).chain(names(live).filter(is_read)).collect()
}
