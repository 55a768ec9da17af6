//! Maps the sensitive attributes of a state to the fields of the live object that contain the same values.

use super::{
    parts::{env_block, pod_template_path},
    table::{INLINE, PART_TYPES, ProviderTable},
};
use crate::{
    diff::redaction::{REDACTED_IN_SECRETS, is_secret},
    types::{DeclaredBody, DeclaredObject, WHOLE_OBJECT, is_within},
};

/// Attributes that identify an object. They are never redacted.
const IDENTITY: &[&str] = &[
    "id",
    "metadata.generate_name",
    "metadata.generation",
    "metadata.name",
    "metadata.namespace",
    "metadata.resource_version",
    "metadata.self_link",
    "metadata.uid",
];

/// The sensitive fields of a live object by this declaration, without indices: `spec.template.spec.containers.env.value`, or
/// [`WHOLE_OBJECT`].
///
/// An attribute without a known field maps to the nearest block that has one.
pub fn sensitive_fields(declared: &DeclaredObject) -> Vec<Box<str>> {
    let fields = declared.sensitive.iter().flat_map(|path| fields_of(declared, path));
    let is_always_redacted = |field: &str| {
        is_secret(declared.object.group_kind())
            && REDACTED_IN_SECRETS.iter().any(|redacted| is_within(field, redacted))
    };
    fields.filter(|field| !is_always_redacted(field)).map(Into::into).collect()
}

fn fields_of(declared: &DeclaredObject, path: &str) -> Vec<String> {
    let resource_type = &*declared.resource_type;
    // The paths of a document are field paths.
    if matches!(declared.body, DeclaredBody::Subset(_) | DeclaredBody::Whole(_))
        || matches!(resource_type, "kubernetes_manifest" | "kubectl_manifest")
    {
        return vec![path.to_owned()];
    }
    if IDENTITY.contains(&path) {
        return Vec::new();
    }
    if PART_TYPES.contains(&resource_type) {
        return part_fields(declared, path);
    }
    match ProviderTable::get().resource_type(resource_type) {
        Some(resource_type) => block_fields(resource_type.block, WHOLE_OBJECT.to_owned(), path),
        None => vec![WHOLE_OBJECT.to_owned()],
    }
}

/// The fields of an attribute path in a block that is read from `field`.
fn block_fields(block: usize, field: String, path: &str) -> Vec<String> {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let attributes = &ProviderTable::get().block(block).attributes;
    let Some(attribute) = attributes.iter().find(|attribute| attribute.name == name) else {
        return vec![field];
    };
    if attribute.field == INLINE {
        let Some(inner) = attribute.value_type.block() else { return vec![field] };
        if !rest.is_empty() {
            return block_fields(inner, field, rest);
        }
        let attributes = &ProviderTable::get().block(inner).attributes;
        return attributes.iter().map(|attribute| join_path(&field, attribute.field)).collect();
    }
    let field = join_path(&field, attribute.field);
    match attribute.value_type.block() {
        Some(inner) if !rest.is_empty() => block_fields(inner, field, rest),
        Some(_) | None => vec![field],
    }
}

/// The fields of an attribute path of a resource that owns single keys.
fn part_fields(declared: &DeclaredObject, path: &str) -> Vec<String> {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    let template = pod_template_path(&declared.object.kind).join(".");
    let owned: Vec<(&str, String)> = match &*declared.resource_type {
        "kubernetes_labels" => vec![("labels", "metadata.labels".to_owned())],
        "kubernetes_annotations" => vec![
            ("annotations", "metadata.annotations".to_owned()),
            ("template_annotations", format!("{template}.metadata.annotations")),
        ],
        // Paths without indices do not distinguish containers.
        "kubernetes_env" => {
            ["containers", "initContainers"].map(|list| ("env", format!("{template}.spec.{list}.env"))).into()
        }
        _ => vec![("data", "data".to_owned())],
    };
    let sensitive = owned.iter().filter(|(attribute, _)| *attribute == name);
    let fields: Vec<String> = sensitive
        .flat_map(|(_, field)| match env_block(ProviderTable::get()) {
            Some(block) if name == "env" && !rest.is_empty() => block_fields(block, field.clone(), rest),
            Some(_) | None => vec![field.clone()],
        })
        .collect();
    if fields.is_empty() { owned.into_iter().map(|(_, field)| field).collect() } else { fields }
}

fn join_path(outer: &str, name: &str) -> String {
    if outer == WHOLE_OBJECT { name.to_owned() } else { format!("{outer}.{name}") }
}
