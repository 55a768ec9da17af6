//! The resources that the cluster serves: their schemas and their discovery documents.

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Namespace, Secret, Service, ServiceAccount},
        networking::v1::{Ingress, NetworkPolicy},
    },
    serde::{Serialize, de::DeserializeOwned},
};
use serde_json::{Map, Value, json};

use self::Feature::{CategoryAll, Generation, ReturnsDeletedObject, ScaleSubresource, StatusSubresource};
use crate::types::{Kind, api_version};

#[derive(Debug)]
pub(super) struct Resource {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    /// Empty if there is none.
    pub(super) short_name: &'static str,
    pub(super) namespaced: bool,
    pub(super) features: &'static [Feature],
    /// Decodes an object into its type and encodes it again, which drops unknown fields.
    pub(super) decode: fn(Value) -> serde_json::Result<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feature {
    /// `kubectl get all` lists the resource.
    CategoryAll,
    StatusSubresource,
    ScaleSubresource,
    /// `metadata.generation` counts changes of the spec.
    Generation,
    /// A deletion returns the object instead of a `Status`.
    ReturnsDeletedObject,
}

/// In the order of the groups in the discovery of the real API server.
#[rustfmt::skip]
pub(super) const RESOURCES: &[Resource] = &[
    Resource { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps", short_name: "cm", namespaced: true, features: &[], decode: round_trip::<ConfigMap> },
    Resource { group: "", version: "v1", kind: "Namespace", plural: "namespaces", short_name: "ns", namespaced: false, features: &[StatusSubresource, ReturnsDeletedObject], decode: round_trip::<Namespace> },
    Resource { group: "", version: "v1", kind: "Secret", plural: "secrets", short_name: "", namespaced: true, features: &[], decode: round_trip::<Secret> },
    Resource { group: "", version: "v1", kind: "ServiceAccount", plural: "serviceaccounts", short_name: "sa", namespaced: true, features: &[ReturnsDeletedObject], decode: round_trip::<ServiceAccount> },
    Resource { group: "", version: "v1", kind: "Service", plural: "services", short_name: "svc", namespaced: true, features: &[CategoryAll, StatusSubresource, ReturnsDeletedObject], decode: round_trip::<Service> },
    Resource { group: "apps", version: "v1", kind: "Deployment", plural: "deployments", short_name: "deploy", namespaced: true, features: &[CategoryAll, StatusSubresource, ScaleSubresource, Generation], decode: round_trip::<Deployment> },
    Resource { group: "autoscaling", version: "v2", kind: "HorizontalPodAutoscaler", plural: "horizontalpodautoscalers", short_name: "hpa", namespaced: true, features: &[CategoryAll, StatusSubresource], decode: round_trip::<HorizontalPodAutoscaler> },
    Resource { group: "networking.k8s.io", version: "v1", kind: "Ingress", plural: "ingresses", short_name: "ing", namespaced: true, features: &[StatusSubresource, Generation], decode: round_trip::<Ingress> },
    Resource { group: "networking.k8s.io", version: "v1", kind: "NetworkPolicy", plural: "networkpolicies", short_name: "netpol", namespaced: true, features: &[Generation], decode: round_trip::<NetworkPolicy> },
    Resource { group: "coordination.k8s.io", version: "v1", kind: "Lease", plural: "leases", short_name: "", namespaced: true, features: &[], decode: round_trip::<Lease> },
];

impl Resource {
    pub(super) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|resource| {
            resource.group == group && resource.version == version && resource.plural == plural
        })
    }

    pub(super) fn for_kind(kind: &Kind) -> Option<&'static Self> {
        Self::find(&kind.group, &kind.version, &kind.plural)
    }

    pub(super) fn for_manifest(api_version: &str, kind: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|resource| resource.kind == kind && resource.api_version() == api_version)
    }

    pub(super) fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// `deployment`.
    pub(super) fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// `apps/v1`, or `v1` for the core group.
    pub(super) fn api_version(&self) -> String {
        api_version(self.group, self.version)
    }

    /// `deployments.apps`.
    pub(super) fn group_resource(&self) -> String {
        self.with_group(self.plural)
    }

    /// `Deployment.apps`.
    pub(super) fn group_kind(&self) -> String {
        self.with_group(self.kind)
    }

    fn with_group(&self, name: &str) -> String {
        if self.group.is_empty() { name.to_owned() } else { format!("{name}.{}", self.group) }
    }
}

/// Decodes an object into its type and encodes it again, which drops unknown fields.
pub(super) fn round_trip<T: Serialize + DeserializeOwned>(object: Value) -> serde_json::Result<Value> {
    let mut object = serde_json::to_value(serde_json::from_value::<T>(object)?)?;
    drop_empty(&mut object);
    Ok(object)
}

/// `omitempty` of Go: empty lists and maps are omitted, structs without fields are not.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(drop_empty),
        Value::Object(members) => {
            members.values_mut().for_each(drop_empty);
            members.retain(|name, field| {
                !is_empty(field) || (field.is_object() && !MAPS.contains(&name.as_str()))
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[rustfmt::skip]
const MAPS: [&str; 9] = [
    "labels", "annotations", "matchLabels", "nodeSelector", "limits", "requests", "data", "binaryData", "stringData",
];

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// The path of the first field that decoding dropped.
pub(super) fn unknown_field(requested: &Value, decoded: &Value) -> Option<String> {
    first_dropped_field(requested, decoded, "")
}

fn first_dropped_field(requested: &Value, decoded: &Value, path: &str) -> Option<String> {
    match (requested, decoded) {
        (Value::Object(requested), Value::Object(decoded)) => {
            let mut non_empty = requested.iter().filter(|(_, value)| !value.is_null() && !is_empty(value));
            non_empty.find_map(|(name, value)| {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                decoded
                    .get(name)
                    .map_or_else(|| Some(path.clone()), |decoded| first_dropped_field(value, decoded, &path))
            })
        }
        (Value::Array(requested), Value::Array(decoded)) => {
            let mut pairs = requested.iter().zip(decoded).enumerate();
            pairs.find_map(|(index, (requested, decoded))| {
                first_dropped_field(requested, decoded, &format!("{path}[{index}]"))
            })
        }
        _ => None,
    }
}

/// `x-kubernetes-list-type` of the OpenAPI schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListType {
    Atomic,
    Set,
    /// The list map keys. The first one is also the merge key of strategic merge patches.
    Map(&'static [&'static str]),
}

/// The names of a list and of its parent identify it in the kinds that are served.
pub(super) fn list_type(parent: &str, field: &str) -> ListType {
    match (parent, field) {
        (_, "finalizers") => ListType::Set,
        ("", "secrets") => ListType::Map(&["name"]),
        (_, "containers" | "initContainers" | "env" | "volumes" | "imagePullSecrets") => {
            ListType::Map(&["name"])
        }
        ("spec", "ports") => ListType::Map(&["port", "protocol"]),
        (_, "ports") => ListType::Map(&["containerPort", "protocol"]),
        (_, "volumeMounts") => ListType::Map(&["mountPath"]),
        (_, "volumeDevices") => ListType::Map(&["devicePath"]),
        (_, "hostAliases") => ListType::Map(&["ip"]),
        (_, "topologySpreadConstraints") => ListType::Map(&["topologyKey", "whenUnsatisfiable"]),
        (_, "conditions") => ListType::Map(&["type"]),
        (_, "ownerReferences") => ListType::Map(&["uid"]),
        _ => ListType::Atomic,
    }
}

/// Whether a map has one owner: `x-kubernetes-map-type: atomic`. The field name of a list element is empty.
pub(super) fn is_atomic_map(parent: &str, field: &str) -> bool {
    let element = parent == "secrets" && field.is_empty();
    element
        || matches!(
            field,
            "selector"
                | "nodeSelector"
                | "labelSelector"
                | "podSelector"
                | "fieldRef"
                | "resourceFieldRef"
                | "configMapKeyRef"
                | "secretKeyRef"
        )
}

/// The zero value of the Go type: fields that are encoded although they are unset. They have no owner.
pub(super) fn zero_value(kind: &str) -> Value {
    match kind {
        "Deployment" => json!({
            "metadata": {},
            "spec": {"strategy": {}, "template": {"metadata": {}, "spec": {"containers": []}}},
            "status": {},
        }),
        "Service" | "Ingress" => json!({"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        "HorizontalPodAutoscaler" => {
            let status = json!({"currentMetrics": null, "desiredReplicas": 0});
            json!({"metadata": {}, "spec": {"scaleTargetRef": {}}, "status": status})
        }
        "NetworkPolicy" => json!({"metadata": {}, "spec": {"podSelector": {}}}),
        "Lease" => json!({"metadata": {}, "spec": {}}),
        "ConfigMap" | "Secret" | "ServiceAccount" => json!({"metadata": {}}),
        _ => json!({"metadata": {}, "spec": {}, "status": {}}),
    }
}

/// `GET /version`.
pub(super) fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": concat!("v1.36.0+drift-exporter-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "",
        "platform": "",
    })
}

/// `GET /api`.
pub(super) fn api_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `GET /apis`.
pub(super) fn api_group_list() -> Value {
    let groups: Vec<Value> = named_groups().into_iter().map(group_entry).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// All groups except the core group, each with its only version.
fn named_groups() -> Vec<(&'static str, &'static str)> {
    let mut groups: Vec<_> = RESOURCES.iter().map(|resource| (resource.group, resource.version)).collect();
    groups.retain(|(group, _)| !group.is_empty());
    groups.dedup();
    groups
}

/// The media type of the aggregated discovery document.
pub(super) const AGGREGATED_DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `GET /api` and `GET /apis` with [`AGGREGATED_DISCOVERY`]; `None` for other paths.
pub(super) fn aggregated_discovery(path: &[&str]) -> Option<Value> {
    let groups = match path {
        ["api"] => vec![("", "v1")],
        ["apis"] => named_groups(),
        _ => return None,
    };
    let group_discovery = |(group, version): (&'static str, &'static str)| {
        let resources: Vec<Value> = resources_of(group, version).into_iter().map(aggregated_entry).collect();
        let version = json!({"version": version, "freshness": "Current", "resources": resources});
        let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
        json!({"metadata": metadata, "versions": [version]})
    };
    let items: Vec<Value> = groups.into_iter().map(group_discovery).collect();
    Some(json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    }))
}

fn aggregated_entry(resource: &Resource) -> Value {
    let response_kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let subresource = |[name, group, version, kind]: [&str; 4]| json!({"subresource": name, "responseKind": response_kind(group, version, kind), "verbs": SUBRESOURCE_VERBS});
    let subresources: Vec<Value> = subresources(resource).map(subresource).collect();
    let mut entry = json!({
        "resource": resource.plural, "singularResource": resource.singular(),
        "responseKind": response_kind("", "", resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" }, "verbs": VERBS,
    });
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    add_aliases(resource, &mut entry);
    entry
}

fn add_aliases(resource: &Resource, entry: &mut Value) {
    if !resource.short_name.is_empty() {
        entry["shortNames"] = json!([resource.short_name]);
    }
    if resource.has(Feature::CategoryAll) {
        entry["categories"] = json!(["all"]);
    }
}

const SUBRESOURCE_VERBS: &[&str] = &["get", "patch", "update"];
const VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

/// `GET /apis/{group}`.
pub(super) fn api_group(name: &str) -> Option<Value> {
    let mut entry = group_entry(named_groups().into_iter().find(|(group, _)| *group == name)?);
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    Some(entry)
}

fn group_entry((name, version): (&str, &str)) -> Value {
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

/// `GET /api/v1` and `GET /apis/{group}/{version}`.
pub(super) fn api_resource_list(group: &str, version: &str) -> Option<Value> {
    let resources = resources_of(group, version);
    let api_version = resources.first()?.api_version();
    let entries: Vec<Value> = resources.into_iter().flat_map(resource_entries).collect();
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": entries}),
    )
}

fn resources_of(group: &str, version: &str) -> Vec<&'static Resource> {
    RESOURCES.iter().filter(|resource| resource.group == group && resource.version == version).collect()
}

fn resource_entries(resource: &Resource) -> Vec<Value> {
    let mut entry = json!({
        "name": resource.plural, "singularName": resource.singular(), "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": VERBS,
    });
    add_aliases(resource, &mut entry);
    let subresource = |[name, group, version, kind]: [&str; 4]| {
        let mut entry = json!({
            "name": format!("{}/{name}", resource.plural), "singularName": "", "namespaced": resource.namespaced,
            "kind": kind, "verbs": SUBRESOURCE_VERBS,
        });
        if !group.is_empty() {
            entry["group"] = group.into();
            entry["version"] = version.into();
        }
        entry
    };
    [entry].into_iter().chain(subresources(resource).map(subresource)).collect()
}

/// The name, group, version and kind of each subresource. Group and version are empty if they are those of the resource.
fn subresources(resource: &Resource) -> impl Iterator<Item = [&'static str; 4]> {
    let status = resource.has(StatusSubresource).then_some(["status", "", "", resource.kind]);
    let scale = resource.has(ScaleSubresource).then_some(["scale", "autoscaling", "v1", "Scale"]);
    status.into_iter().chain(scale)
}

/// `GET /openapi/v3`.
pub(super) fn openapi_index() -> Value {
    let url = |path: &str| json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
    let named = named_groups().into_iter().map(|(group, version)| format!("apis/{group}/{version}"));
    let paths = named.chain(["api/v1".to_owned()]).map(|path| (path.clone(), url(&path)));
    json!({"paths": paths.collect::<Map<_, _>>()})
}

/// `GET /openapi/v3/…` without schemas. kubectl looks up whether the server supports `fieldValidation`.
pub(super) fn openapi(group: &str, version: &str) -> Option<Value> {
    let resources = resources_of(group, version);
    let mut paths = Map::new();
    for resource in &resources {
        let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/{version}") };
        let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let patch_operation = json!({
            "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": resource.kind},
            "responses": {},
        });
        paths
            .insert(format!("{root}{scope}/{}/{{name}}", resource.plural), json!({"patch": patch_operation}));
    }
    let info = json!({"title": "Kubernetes", "version": "v1"});
    (!resources.is_empty())
        .then(|| json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}))
}
