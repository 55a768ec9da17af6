//! Maps the sensitive attributes of a state to the fields of the live object that contain the same values.

use super::{
    parts::{env_block, pod_template_path},
    table::{INLINE, PART_TYPES, ProviderTable},
};
use crate::{
    diff::redaction::{REDACTED_IN_SECRETS, is_secret},
    types::{DeclaredBody, DeclaredObject, is_within},
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

/// The sensitive fields of a live object by this declaration, without indices: `spec.template.spec.containers.env.value`. The
/// empty path is the whole object.
///
/// An attribute without a known field maps to the nearest block that has one.
pub fn sensitive_fields(declared: &DeclaredObject) -> Vec<Box<str>> {
    let fields = declared.sensitive.iter().flat_map(|path| fields_of(declared, path));
    let is_always_redacted = |field: &str| {
        is_secret(&declared.object.group, &declared.object.kind)
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
        Some(resource_type) => block_fields(resource_type.block, String::new(), path),
        None => vec![String::new()],
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
    if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::{ProviderTable, block_fields, sensitive_fields};
    use crate::types::{DeclaredBody, DeclaredObject, ObjectRef, RedactionKey, UnknownReason};

    #[track_caller]
    fn check_kind(kind: &str, resource_type: &str, attributes: &[&str], fields: &[&str]) {
        let object = ObjectRef::new("", "v1", kind, "shop", "a");
        // An object that cannot be compared may have sensitive attributes too.
        let body = DeclaredBody::Opaque(UnknownReason::NewerSchema);
        let declared = DeclaredObject {
            sensitive: attributes.iter().map(|path| (*path).into()).collect(),
            ..DeclaredObject::new(resource_type, object, RedactionKey::new([1; 32]), body)
        };
        let found = sensitive_fields(&declared);
        assert_eq!(found.iter().map(|field| &**field).collect::<Vec<_>>(), fields, "{attributes:?}");
    }

    #[track_caller]
    fn check(resource_type: &str, attribute: &str, fields: &[&str]) {
        check_kind("Any", resource_type, &[attribute], fields);
    }

    #[test]
    fn attribute_maps_to_the_field_that_it_is_read_from() {
        let deployment = "kubernetes_deployment_v1";
        check(
            deployment,
            "spec.template.spec.container.env.value",
            &["spec.template.spec.containers.env.value"],
        );
        check(deployment, "spec.template.spec.container.env", &["spec.template.spec.containers.env"]);
        check(
            deployment,
            "spec.template.spec.init_container.env.value_from.secret_key_ref.key",
            &["spec.template.spec.initContainers.env.valueFrom.secretKeyRef.key"],
        );
        check(deployment, "metadata.annotations", &["metadata.annotations"]);
        check(deployment, "spec.replicas", &["spec.replicas"]);
        check("kubernetes_config_map", "data", &["data"]);
        check("kubernetes_config_map_v1", "binary_data", &["binaryData"]);
        check("kubernetes_ingress_v1", "spec.rule.http.path.path", &["spec.rules.http.paths.path"]);
        check("kubernetes_service", "spec.external_name", &["spec.externalName"]);
        check(
            "kubernetes_cron_job_v1",
            "spec.job_template.spec.template.spec.container.args",
            &["spec.jobTemplate.spec.template.spec.containers.args"],
        );
        check(
            "kubernetes_validating_webhook_configuration_v1",
            "webhook.client_config.ca_bundle",
            &["webhooks.clientConfig.caBundle"],
        );
    }

    #[test]
    fn key_of_a_map_maps_to_the_map() {
        check("kubernetes_config_map_v1", "data.password", &["data"]);
    }

    #[test]
    fn inline_block_maps_to_its_fields() {
        let volume = "kubernetes_persistent_volume_v1";
        check(volume, "spec.persistent_volume_source.csi.volume_attributes", &["spec.csi.volumeAttributes"]);
        let source = sensitive_source(volume);
        assert!(source.contains(&"spec.csi".into()) && source.contains(&"spec.nfs".into()), "{source:?}");
        assert!(!source.contains(&"spec".into()) && !source.contains(&"spec.capacity".into()), "{source:?}");
    }

    fn sensitive_source(resource_type: &str) -> Vec<String> {
        let resource_type = ProviderTable::get().resource_type(resource_type).unwrap();
        block_fields(resource_type.block, String::new(), "spec.persistent_volume_source")
    }

    #[test]
    fn unknown_attribute_maps_to_the_nearest_known_block() {
        let deployment = "kubernetes_deployment";
        check(deployment, "spec.template.spec.container.novelty.value", &["spec.template.spec.containers"]);
        check(deployment, "spec.paused", &["spec"]);
        check(deployment, "novelty", &[""]);
        check(deployment, "", &[""]);
        check("kubernetes_novelty", "spec", &[""]);
    }

    #[test]
    fn identity_of_an_object_is_not_sensitive() {
        check_kind("Any", "kubernetes_deployment", &["metadata.name", "metadata.namespace", "id"], &[]);
        check("kubernetes_labels", "metadata.name", &[]);
    }

    #[test]
    fn manifest_resources_have_field_paths() {
        for resource_type in ["kubernetes_manifest", "kubectl_manifest"] {
            check(resource_type, "spec.users.password", &["spec.users.password"]);
            check(resource_type, "", &[""]);
        }
    }

    #[test]
    fn part_types_map_to_the_fields_that_they_own() {
        check("kubernetes_labels", "labels", &["metadata.labels"]);
        check("kubernetes_annotations", "annotations", &["metadata.annotations"]);
        check("kubernetes_annotations", "template_annotations", &["spec.template.metadata.annotations"]);
        check("kubernetes_config_map_v1_data", "data", &["data"]);
        check(
            "kubernetes_env",
            "env.value",
            &["spec.template.spec.containers.env.value", "spec.template.spec.initContainers.env.value"],
        );
        let template = "spec.jobTemplate.spec.template";
        let fields = ["containers", "initContainers"].map(|list| format!("{template}.spec.{list}.env"));
        check_kind("CronJob", "kubernetes_env", &["env"], &[&fields[0], &fields[1]]);
        let annotations = format!("{template}.metadata.annotations");
        check_kind("CronJob", "kubernetes_annotations", &[""], &["metadata.annotations", &annotations]);
    }

    #[test]
    fn fields_that_every_secret_redacts_are_left_out() {
        for attribute in ["data", "binary_data", "metadata.annotations"] {
            check_kind("Secret", "kubernetes_secret_v1", &[attribute], &[]);
        }
        check_kind("Secret", "kubernetes_secret_v1_data", &["data"], &[]);
        check_kind("Secret", "kubernetes_secret_v1", &["metadata.labels"], &["metadata.labels"]);
        check_kind("Secret", "kubernetes_manifest", &["stringData", "type"], &["type"]);
    }
}
