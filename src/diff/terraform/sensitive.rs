//! From what a state marks as sensitive to the fields of the live object that have the same values.

use super::{
    parts::{template_of, variable_shape},
    table::{INLINE, PART_TYPES, Table},
};
use crate::{
    diff::redaction::{SEALED_IN_SECRETS, is_secret},
    types::{DeclaredBody, DeclaredObject, is_within},
};

/// Attributes that say which object it is. That is known of every object, and no part of what is declared.
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

/// The fields of a live object, without indices, that hold what may not be told by the word of this declaration:
/// `spec.template.spec.containers.env.value`. The empty one is the whole object.
///
/// What no field is known for is anywhere in the nearest block that one is known for.
pub fn sensitive_fields(declared: &DeclaredObject) -> Vec<Box<str>> {
    let fields = declared.sensitive.iter().flat_map(|path| fields_at(declared, path));
    // Of Secrets these are sealed whatever anybody says.
    let is_sealed = |field: &str| {
        is_secret(&declared.object.group, &declared.object.kind)
            && SEALED_IN_SECRETS.iter().any(|sealed| is_within(field, sealed))
    };
    fields.filter(|field| !is_sealed(field)).map(Into::into).collect()
}

fn fields_at(declared: &DeclaredObject, path: &str) -> Vec<String> {
    let resource_type = &*declared.resource_type;
    // A document has the fields of the object.
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
    match Table::get().type_called(resource_type) {
        Some(row) => table_fields(row.shape, String::new(), path),
        None => vec![String::new()],
    }
}

/// The fields that a path of attributes in a block stands for.
fn table_fields(shape: usize, field: String, path: &str) -> Vec<String> {
    let (attribute, rest) = path.split_once('.').unwrap_or((path, ""));
    let row = Table::get().shape(shape).fields.iter().find(|row| row.attribute == attribute);
    let Some(row) = row else { return vec![field] };
    if row.field == INLINE {
        let Some(inner) = row.holds.shape() else { return vec![field] };
        if !rest.is_empty() {
            return table_fields(inner, field, rest);
        }
        let fields = &Table::get().shape(inner).fields;
        return fields.iter().map(|row| within(&field, row.field)).collect();
    }
    let field = within(&field, row.field);
    match row.holds.shape() {
        Some(inner) if !rest.is_empty() => table_fields(inner, field, rest),
        Some(_) | None => vec![field],
    }
}

/// The fields of an object that a resource owns parts of.
fn part_fields(declared: &DeclaredObject, path: &str) -> Vec<String> {
    let (attribute, rest) = path.split_once('.').unwrap_or((path, ""));
    let template = template_of(&declared.object.kind).join(".");
    let owned: Vec<(&str, String)> = match &*declared.resource_type {
        "kubernetes_labels" => vec![("labels", "metadata.labels".to_owned())],
        "kubernetes_annotations" => vec![
            ("annotations", "metadata.annotations".to_owned()),
            ("template_annotations", format!("{template}.metadata.annotations")),
        ],
        // Which container it is does not count: fields have no indices.
        "kubernetes_env" => {
            ["containers", "initContainers"].map(|list| ("env", format!("{template}.spec.{list}.env"))).into()
        }
        _ => vec![("data", "data".to_owned())],
    };
    let marked = owned.iter().filter(|(own, _)| *own == attribute);
    let fields: Vec<String> = marked
        .flat_map(|(_, field)| match variable_shape(Table::get()) {
            Some(shape) if attribute == "env" && !rest.is_empty() => table_fields(shape, field.clone(), rest),
            Some(_) | None => vec![field.clone()],
        })
        .collect();
    if fields.is_empty() { owned.into_iter().map(|(_, field)| field).collect() } else { fields }
}

fn within(outer: &str, name: &str) -> String {
    if outer.is_empty() { name.to_owned() } else { format!("{outer}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::sensitive_fields;
    use crate::types::{DeclaredBody, DeclaredObject, ObjectName, RedactionKey, UnknownReason};

    #[track_caller]
    fn check_kind(kind: &str, resource_type: &str, marked: &[&str], fields: &[&str]) {
        let declared = DeclaredObject {
            address: "a".into(),
            resource_type: resource_type.into(),
            object: ObjectName {
                group: "".into(),
                version: "v1".into(),
                kind: kind.into(),
                namespace: "shop".into(),
                name: "a".into(),
            },
            uid: None,
            sensitive: marked.iter().map(|path| (*path).into()).collect(),
            key: RedactionKey::new([1; 32]),
            // What cannot be compared may be marked all the same.
            body: DeclaredBody::Opaque(UnknownReason::NewerSchema),
        };
        let found = sensitive_fields(&declared);
        assert_eq!(found.iter().map(|field| &**field).collect::<Vec<_>>(), fields, "{marked:?}");
    }

    #[track_caller]
    fn check(resource_type: &str, marked: &str, fields: &[&str]) {
        check_kind("Any", resource_type, &[marked], fields);
    }

    #[test]
    fn attributes_are_called_as_the_fields_that_they_are_read_from() {
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
    fn a_key_of_a_map_is_its_map() {
        check("kubernetes_config_map_v1", "data.password", &["data"]);
    }

    #[test]
    fn blocks_that_stand_for_no_field_stand_for_their_fields() {
        let volume = "kubernetes_persistent_volume_v1";
        check(volume, "spec.persistent_volume_source.csi.volume_attributes", &["spec.csi.volumeAttributes"]);
        let source = sensitive_source(volume);
        assert!(source.contains(&"spec.csi".into()) && source.contains(&"spec.nfs".into()), "{source:?}");
        assert!(!source.contains(&"spec".into()) && !source.contains(&"spec.capacity".into()), "{source:?}");
    }

    fn sensitive_source(resource_type: &str) -> Vec<String> {
        let row = super::Table::get().type_called(resource_type).unwrap();
        super::table_fields(row.shape, String::new(), "spec.persistent_volume_source")
    }

    #[test]
    fn what_no_field_is_known_for_is_the_nearest_block_that_one_is_known_for() {
        let deployment = "kubernetes_deployment";
        check(deployment, "spec.template.spec.container.novelty.value", &["spec.template.spec.containers"]);
        check(deployment, "spec.paused", &["spec"]);
        check(deployment, "novelty", &[""]);
        check(deployment, "", &[""]);
        check("kubernetes_novelty", "spec", &[""]);
    }

    #[test]
    fn which_object_it_is_is_no_secret() {
        check_kind("Any", "kubernetes_deployment", &["metadata.name", "metadata.namespace", "id"], &[]);
        check("kubernetes_labels", "metadata.name", &[]);
    }

    #[test]
    fn manifests_have_fields_in_place_of_attributes() {
        for resource_type in ["kubernetes_manifest", "kubectl_manifest"] {
            check(resource_type, "spec.users.password", &["spec.users.password"]);
            check(resource_type, "", &[""]);
        }
    }

    #[test]
    fn parts_of_objects_are_where_their_owners_write_them() {
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
    fn what_is_sealed_in_every_secret_is_not_told_once_more() {
        for marked in ["data", "binary_data", "metadata.annotations"] {
            check_kind("Secret", "kubernetes_secret_v1", &[marked], &[]);
        }
        check_kind("Secret", "kubernetes_secret_v1_data", &["data"], &[]);
        check_kind("Secret", "kubernetes_secret_v1", &["metadata.labels"], &["metadata.labels"]);
        check_kind("Secret", "kubernetes_manifest", &["stringData", "type"], &["type"]);
    }
}
