//! Which object a resource in a state is.

use serde_json::Value;

use crate::{
    diff::terraform::{PART_TYPES, object_type},
    sources::documents::split_version,
    types::ObjectName,
};

/// The object that a resource of a known type stands for; none where the state does not tell.
pub(super) fn object_of(
    resource_type: &str,
    attributes: &Value,
    identity: Option<&Value>,
) -> Option<ObjectName> {
    if let Some((group, version, kind)) = object_type(resource_type) {
        return named(group, version, kind, attributes, identity);
    }
    match resource_type {
        "kubernetes_config_map_v1_data" => named("", "v1", "ConfigMap", attributes, identity),
        "kubernetes_secret_v1_data" => named("", "v1", "Secret", attributes, identity),
        _ if PART_TYPES.contains(&resource_type) => {
            let (group, version) = split_version(attributes["api_version"].as_str()?);
            named(group, version, attributes["kind"].as_str()?, attributes, identity)
        }
        _ => None,
    }
}

fn named(
    group: &str,
    version: &str,
    kind: &str,
    attributes: &Value,
    identity: Option<&Value>,
) -> Option<ObjectName> {
    let metadata = &attributes["metadata"][0];
    let filled = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let of_identity = |name: &str| identity.and_then(|identity| filled(&identity[name]));
    let id = attributes["id"].as_str().filter(|id| !id.contains('='));
    let (id_namespace, id_name) = id.map_or((None, None), |id| match id.split_once('/') {
        Some((namespace, name)) => (Some(namespace.to_owned()), Some(name.to_owned())),
        None => (None, Some(id.to_owned())),
    });
    let name = of_identity("name")
        .or_else(|| filled(&metadata["name"]))
        .or(id_name)
        .filter(|name| !name.is_empty())?;
    let namespace = of_identity("namespace").or_else(|| filled(&metadata["namespace"])).or(id_namespace);
    Some(ObjectName {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        namespace: namespace.unwrap_or_default().into(),
        name: name.into(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::object_of;

    #[track_caller]
    fn check(resource_type: &str, attributes: &Value, identity: Option<&Value>, expected: &str) {
        let object = object_of(resource_type, attributes, identity).unwrap();
        let text = format!(
            "{}/{} {} {}/{}",
            object.group, object.version, object.kind, object.namespace, object.name
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn identity_comes_before_metadata_and_metadata_before_the_id() {
        let metadata = json!({"id": "a/b", "metadata": [{"name": "web", "namespace": "shop"}]});
        check("kubernetes_deployment", &metadata, None, "apps/v1 Deployment shop/web");
        let identity = json!({"name": "web2", "namespace": "shop2"});
        check("kubernetes_deployment_v1", &metadata, Some(&identity), "apps/v1 Deployment shop2/web2");
        check("kubernetes_service", &json!({"id": "a/b"}), None, "/v1 Service a/b");
        check("kubernetes_namespace", &json!({"id": "b"}), None, "/v1 Namespace /b");
    }

    #[test]
    fn types_that_own_parts_say_what_they_own_parts_of() {
        let labels = json!({"id": "apiVersion=apps/v1,kind=Deployment,name=web", "api_version": "apps/v1", "kind": "Deployment",
            "metadata": [{"name": "web", "namespace": "shop"}]});
        check("kubernetes_labels", &labels, None, "apps/v1 Deployment shop/web");
        assert!(object_of("kubernetes_labels", &json!({}), None).is_none());
        assert!(object_of("kubernetes_deployment", &json!({"metadata": 7}), None).is_none());
    }
}
