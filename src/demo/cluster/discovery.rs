//! What the server says that it has.

use serde_json::{Value, json};

use super::resource::{RESOURCES, Resource, Trait};

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
    let groups: Vec<Value> = named_versions().into_iter().map(group_entry).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Every group but the core one, with its version. None has two here.
fn named_versions() -> Vec<(&'static str, &'static str)> {
    let mut groups: Vec<_> = RESOURCES.iter().map(|own| (own.group, own.version)).collect();
    groups.retain(|(group, _)| !group.is_empty());
    groups.dedup();
    groups
}

/// The type of the document that has all kinds at once, for those who ask for it.
pub(super) const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `GET /api` and `GET /apis` with all their kinds; none for other paths.
pub(super) fn aggregated(path: &[&str]) -> Option<Value> {
    let groups = match path {
        ["api"] => vec![("", "v1")],
        ["apis"] => named_versions(),
        _ => return None,
    };
    let group = |(group, version): (&'static str, &'static str)| {
        let resources: Vec<Value> = of(group, version).into_iter().map(aggregated_entry).collect();
        let version = json!({"version": version, "freshness": "Current", "resources": resources});
        let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
        json!({"metadata": metadata, "versions": [version]})
    };
    let items: Vec<Value> = groups.into_iter().map(group).collect();
    Some(json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    }))
}

fn aggregated_entry(resource: &Resource) -> Value {
    // Of their own group and version nobody says so.
    let own_kind = || json!({"group": "", "version": "", "kind": resource.kind});
    let part = |name: &str, kind: Value| json!({"subresource": name, "responseKind": kind, "verbs": ["get", "patch", "update"]});
    let mut parts = Vec::new();
    if resource.has(Trait::Status) {
        parts.push(part("status", own_kind()));
    }
    if resource.has(Trait::Scale) {
        parts.push(part("scale", json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})));
    }
    let mut own = json!({
        "resource": resource.plural, "singularResource": resource.singular(), "responseKind": own_kind(),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" }, "verbs": VERBS,
    });
    if !parts.is_empty() {
        own["subresources"] = parts.into();
    }
    name_shortly(resource, &mut own);
    own
}

/// What kubectl takes for the resource beside its name.
fn name_shortly(resource: &Resource, entry: &mut Value) {
    if !resource.short_name.is_empty() {
        entry["shortNames"] = json!([resource.short_name]);
    }
    if resource.has(Trait::All) {
        entry["categories"] = json!(["all"]);
    }
}

const VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];

/// `GET /apis/{group}`.
pub(super) fn group(name: &str) -> Option<Value> {
    let mut group = group_entry(named_versions().into_iter().find(|(group, _)| *group == name)?);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

fn group_entry((name, version): (&str, &str)) -> Value {
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
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
        "name": resource.plural, "singularName": resource.singular(), "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": VERBS,
    });
    name_shortly(resource, &mut own);
    let part = |name: &str| {
        json!({
            "name": format!("{}/{name}", resource.plural), "singularName": "", "namespaced": resource.namespaced,
            "kind": resource.kind, "verbs": ["get", "patch", "update"],
        })
    };
    let mut entries = vec![own];
    if resource.has(Trait::Status) {
        entries.push(part("status"));
    }
    if resource.has(Trait::Scale) {
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
    let named = named_versions().into_iter().map(|(group, version)| format!("apis/{group}/{version}"));
    let paths = named.chain(["api/v1".to_owned()]).map(|path| (path.clone(), url(&path)));
    json!({"paths": paths.collect::<serde_json::Map<_, _>>()})
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
