//! What the server says that it has.

use serde_json::{Value, json};

use super::resource::{RESOURCES, Resource};

/// `GET /version`.
pub(super) fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": concat!("v1.36.0+drift-exporter-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "",
        "platform": "",
    })
}

/// `GET /api`.
pub(super) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
}

/// `GET /apis`.
pub(super) fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group_entry("apps")]})
}

/// The type of the document that has all kinds at once, for those who ask for it.
pub(super) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `GET /api` and `GET /apis` with all their kinds; none for other paths.
pub(super) fn aggregated(path: &[&str]) -> Option<Value> {
    let group = match path {
        ["api"] => "",
        ["apis"] => "apps",
        _ => return None,
    };
    let resources: Vec<Value> = of(group, "v1").into_iter().map(aggregated_entry).collect();
    let version = json!({"version": "v1", "freshness": "Current", "resources": resources});
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    Some(json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{"metadata": metadata, "versions": [version]}],
    }))
}

fn aggregated_entry(resource: &Resource) -> Value {
    // Of their own group and version nobody says so.
    let own_kind = || json!({"group": "", "version": "", "kind": resource.kind});
    let part = |name: &str, kind: Value| json!({"subresource": name, "responseKind": kind, "verbs": ["get", "patch", "update"]});
    let mut parts = vec![part("status", own_kind())];
    if resource.scales {
        parts.push(part("scale", json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})));
    }
    let mut own = json!({
        "resource": resource.plural, "singularResource": resource.singular, "responseKind": own_kind(),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "verbs": VERBS, "shortNames": [resource.short_name], "subresources": parts,
    });
    if resource.namespaced {
        own["categories"] = json!(["all"]);
    }
    own
}

const VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

/// `GET /apis/{group}`.
pub(super) fn group(name: &str) -> Option<Value> {
    RESOURCES.iter().find(|own| own.group == name && !name.is_empty())?;
    let mut group = group_entry(name);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

fn group_entry(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

/// `GET /api/v1` and `GET /apis/{group}/{version}`.
pub(super) fn resources(group: &str, version: &str) -> Option<Value> {
    let own: Vec<&Resource> = of(group, version);
    let api_version = own.first()?.api_version();
    let entries: Vec<Value> = own.into_iter().flat_map(entries).collect();
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": entries}),
    )
}

fn of(group: &str, version: &str) -> Vec<&'static Resource> {
    RESOURCES.iter().filter(|own| own.group == group && own.version == version).collect()
}

fn entries(resource: &Resource) -> Vec<Value> {
    let mut own = json!({
        "name": resource.plural, "singularName": resource.singular, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": VERBS,
        "shortNames": [resource.short_name],
    });
    if resource.namespaced {
        own["categories"] = json!(["all"]);
    }
    let part = |name: &str| {
        json!({
            "name": format!("{}/{name}", resource.plural), "singularName": "", "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": ["get", "patch", "update"],
        })
    };
    let mut entries = vec![own, part("status")];
    if resource.scales {
        let mut scale = part("scale");
        scale["group"] = "autoscaling".into();
        scale["version"] = "v1".into();
        scale["kind"] = "Scale".into();
        entries.push(scale);
    }
    entries
}

/// `GET /openapi/v3`: where the document of each group is.
pub(super) fn openapi_index() -> Value {
    let url = |path: &str| json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
    json!({"paths": {"api/v1": url("api/v1"), "apis/apps/v1": url("apis/apps/v1")}})
}

/// `GET /openapi/v3/…`: no schemas, only that fields are checked here. kubectl asks before it sends an object.
pub(super) fn openapi(group: &str, version: &str) -> Option<Value> {
    let own = of(group, version);
    let mut paths = serde_json::Map::new();
    for resource in &own {
        let root = if group.is_empty() { "/api/v1".to_owned() } else { format!("/apis/{group}/{version}") };
        let scope = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
        let checks = json!({
            "parameters": [{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}],
            "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": resource.kind},
            "responses": {},
        });
        paths.insert(format!("{root}{scope}/{}/{{name}}", resource.plural), json!({"patch": checks}));
    }
    let info = json!({"title": "Kubernetes", "version": "v1"});
    (!own.is_empty())
        .then(|| json!({"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}))
}
