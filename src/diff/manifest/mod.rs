//! Compares manifests with live objects, as the API server would store the manifest.
//!
//! Manifests, Helm charts and the last-applied annotation of kubectl declare a part of an object: only declared fields are
//! compared. Elements that are added to a declared list are drift; fields that are added elsewhere are not. [`Schemas`]
//! describe how the server changes declared values.

mod last_applied;
mod openapi;
#[cfg(test)]
mod properties;
mod schema;
mod walk;

use serde_json::Value;

pub use self::{
    last_applied::{last_applied, unreadable_last_applied},
    schema::{ClusterSchemas, Schemas, TypeMeta},
};
use self::{schema::FieldType, walk::compare_members};
pub(super) use self::{
    schema::SchemaNode,
    walk::{element_step, guess_keys, is_quantity_name, key_values, schema_keys},
};
use super::{
    document::pack,
    redaction::{LAST_APPLIED, is_secret, redact_secret},
    reporter::DiffReporter,
    tree::Node,
};
use crate::types::{DeclaredBody, DeclaredObject, ObjectRef, RedactionKey};

/// An object as a manifest declares it.
pub fn declared_object(object: ObjectRef, document: Value, key: &RedactionKey) -> DeclaredObject {
    let mut document = Node::from(document);
    let key = key.of_namespace(&object.namespace);
    normalize(&mut document, &key);
    let is_secret = is_secret(object.group_kind());
    let sensitive = ["data", "metadata.annotations"].iter().filter(|_| is_secret).map(|path| (*path).into());
    let (kind, body) = (object.kind.clone(), DeclaredBody::Subset(pack(&document)));
    DeclaredObject { sensitive: sensitive.collect(), ..DeclaredObject::new(&kind, object, key, body) }
}

pub(super) fn compare_manifest<'a>(
    declared: &'a Node,
    live: &'a Node,
    schemas: &'a Schemas,
    reporter: &mut DiffReporter<'a>,
) {
    let Node::Object(members) = declared else {
        return;
    };
    let is_content = |name: &str| !["apiVersion", "kind", "metadata", "status"].contains(&name);
    compare_members(root_node(declared, schemas), members, live.as_object(), is_content, reporter);
    if let Some(Node::Object(metadata)) = members.get("metadata") {
        let node = SchemaNode::new(Schemas::built_in(), Schemas::metadata());
        let is_declared = |name: &str| !SERVER_METADATA.contains(&name);
        reporter.in_field("metadata", "metadata", |reporter| {
            compare_members(node, metadata, live["metadata"].as_object(), is_declared, reporter);
        });
    }
}

/// The schema of a custom resource. The schemas of built-in kinds are not used.
pub(super) fn custom_resource_node<'a>(declared: &Node, schemas: &'a Schemas) -> SchemaNode<'a> {
    SchemaNode::new(schemas, schemas.kind(type_meta(declared)).unwrap_or(&FieldType::Unknown))
}

fn root_node<'a>(declared: &Node, schemas: &'a Schemas) -> SchemaNode<'a> {
    let kind = type_meta(declared);
    let node = [Schemas::built_in(), schemas]
        .into_iter()
        .find_map(|schemas| Some(SchemaNode::new(schemas, schemas.kind(kind)?)));
    node.unwrap_or_else(|| SchemaNode::new(schemas, &FieldType::Unknown))
}

fn type_meta(document: &Node) -> TypeMeta<&str> {
    let text = |name: &str| document[name].as_str().unwrap_or_default();
    TypeMeta::new(text("apiVersion"), text("kind"))
}

/// Metadata that the server writes, or that identifies the object.
pub(super) const SERVER_METADATA: &[&str] = &[
    "name",
    "namespace",
    "generateName",
    "uid",
    "creationTimestamp",
    "resourceVersion",
    "generation",
    "selfLink",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

const SERVER_ANNOTATIONS: &[&str] =
    &[LAST_APPLIED, "deployment.kubernetes.io/revision", "deprecated.daemonset.template.generation"];

/// Reduces a manifest to its declared fields and redacts the values of a Secret.
///
/// A null is not declared: the server defaults or drops it.
pub fn normalize(document: &mut Node, key: &RedactionKey) {
    let Node::Object(members) = document else {
        *document = Node::Null;
        return;
    };
    members.remove("status");
    if let Some(Node::Object(metadata)) = members.get_mut("metadata") {
        metadata.retain(|name, _| !SERVER_METADATA.contains(&name.as_str()));
        if let Some(Node::Object(annotations)) = metadata.get_mut("annotations") {
            annotations.retain(|name, _| !SERVER_ANNOTATIONS.contains(&name.as_str()));
        }
    }
    let TypeMeta { api_version, kind } = type_meta(document);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let (group, kind) = (group.to_owned(), kind.to_owned());
    document.retain_members(&|_, member| !member.is_null());
    redact_secret(document, &group, &kind, std::slice::from_ref(key));
}
