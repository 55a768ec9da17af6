//! The fields that sensitive attributes of Terraform are read from.

use drift_exporter::{
    diff::terraform::sensitive_fields,
    types::{DeclaredBody, DeclaredObject, ObjectRef, RedactionKey, UnknownReason},
};

#[track_caller]
fn check_kind(kind: &str, resource_type: &str, attributes: &[&str], fields: &[&str]) {
    assert_eq!(fields_of(kind, resource_type, attributes), fields, "{attributes:?}");
}

fn fields_of(kind: &str, resource_type: &str, attributes: &[&str]) -> Vec<String> {
    let object = ObjectRef::new("", "v1", kind, "shop", "a");
    // An object that cannot be compared may have sensitive attributes too.
    let body = DeclaredBody::Opaque(UnknownReason::NewerSchema);
    let declared = DeclaredObject {
        sensitive: attributes.iter().map(|path| (*path).into()).collect(),
        ..DeclaredObject::new(resource_type, object, RedactionKey::new([1; 32]), body)
    };
    sensitive_fields(&declared).into_iter().map(Into::into).collect()
}

#[track_caller]
fn check(resource_type: &str, attribute: &str, fields: &[&str]) {
    check_kind("Any", resource_type, &[attribute], fields);
}

#[test]
fn attribute_maps_to_the_field_that_it_is_read_from() {
    let deployment = "kubernetes_deployment_v1";
    check(deployment, "spec.template.spec.container.env.value", &["spec.template.spec.containers.env.value"]);
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
    let source = fields_of("Any", volume, &["spec.persistent_volume_source"]);
    assert!(source.contains(&"spec.csi".into()) && source.contains(&"spec.nfs".into()), "{source:?}");
    assert!(!source.contains(&"spec".into()) && !source.contains(&"spec.capacity".into()), "{source:?}");
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
