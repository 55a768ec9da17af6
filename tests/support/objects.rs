//! Deployments and Services for tests, and requests that change them.

use std::sync::Arc;

use drift_exporter::{
    diff::{Algorithm, fingerprint},
    types::{Kind, LiveObject, RedactionKey, RedactionPolicy, WatchSpec},
    watch::{DecodeConfig, Decoded, ObjectDecoder},
};
use futures::StreamExt as _;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Service},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

pub const LABEL: &str = "tfdrift.jin.dev/enabled";
pub const HASH: &str = "tfdrift.jin.dev/spec-hash";

/// A Deployment with the opt-in label.
pub fn deployment(namespace: &str, name: &str) -> Deployment {
    from_json(json!({
        "metadata": {"namespace": namespace, "name": name, "labels": {LABEL: "true", "app.kubernetes.io/instance": "shop"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{
                    "name": "web", "image": "nginx:1.27",
                    "ports": [{"containerPort": 8080}],
                    "resources": {"requests": {"cpu": "250m", "memory": "128Mi"}},
                }]},
            },
        },
    }))
}

/// A Service with the opt-in label.
pub fn service(namespace: &str, name: &str) -> Service {
    from_json(json!({
        "metadata": {"namespace": namespace, "name": name, "labels": {LABEL: "true"}},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    }))
}

pub fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the object is well formed")
}

/// A live object as a watch of its kind decodes it, from its text and from its tree alike.
#[track_caller]
pub fn decode_live(kind: &Kind, config: &DecodeConfig, object: &Value) -> LiveObject {
    let text = object.to_string();
    let decoded = decode_text(kind, config, &text);
    assert_eq!(decode_tree(kind, config, &text), decoded, "{text}");
    match decoded {
        Decoded::Object(object) => Arc::unwrap_or_clone(object),
        other => panic!("{other:?}"),
    }
}

pub fn decode_text(kind: &Kind, config: &DecodeConfig, text: &str) -> Decoded {
    let spec = Arc::new(WatchSpec::all(Arc::new(kind.clone())));
    ObjectDecoder::new(spec, config).decode(text.as_bytes())
}

/// Decodes an object that is cached whole, and drops its document.
pub fn decode_tree(kind: &Kind, config: &DecodeConfig, text: &str) -> Decoded {
    let policy = Arc::new(RedactionPolicy::new(RedactionKey::new([1; 32])));
    let documents = [(kind.group_kind().into_owned(), policy)].into();
    match decode_text(kind, &DecodeConfig { documents, ..config.clone() }, text) {
        Decoded::Object(mut object) => {
            assert!(Arc::make_mut(&mut object).document.take().is_some(), "{text}");
            Decoded::Object(object)
        }
        other => other,
    }
}

pub async fn create_namespace(client: &Client, name: &str) {
    let namespace: Namespace = from_json(json!({"metadata": {"name": name}}));
    Api::all(client.clone())
        .create(&PostParams::default(), &namespace)
        .await
        .expect("the namespace can be created");
}

/// Creates an object with Terraform's field manager, and records its hash in the annotation.
pub async fn create_with_hash<K>(client: &Client, kind: &Kind, object: &K) -> K
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
{
    let api = Api::<K>::namespaced(client.clone(), object.meta().namespace.as_deref().expect("a namespace"));
    let created = api.create(&terraform_manager(), object).await.expect("the object can be created");
    let name = created.meta().name.clone().expect("a name");
    let hash = hash_of(kind, &created);
    patch(&api, &name, "HashiCorp", json!({"metadata": {"annotations": {HASH: hash}}})).await
}

fn terraform_manager() -> PostParams {
    PostParams { field_manager: Some("HashiCorp".to_owned()), ..PostParams::default() }
}

/// The hash of an object, as recorded in the annotation.
pub fn hash_of(kind: &Kind, object: &impl Serialize) -> String {
    let text = serde_json::to_string(object).expect("an object is JSON");
    let digest =
        fingerprint(Algorithm::TfdriftV1, kind, &text, "tfdrift.jin.dev").expect("the object can be hashed");
    digest.to_string()
}

/// Patches an object with a field manager.
pub async fn patch<K>(api: &Api<K>, name: &str, manager: &str, change: Value) -> K
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let parameters = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    api.patch(name, &parameters, &Patch::Merge(change)).await.expect("the object can be patched")
}

pub async fn delete<K: Clone + DeserializeOwned + std::fmt::Debug>(api: &Api<K>, name: &str) {
    api.delete(name, &DeleteParams::default()).await.expect("the object can be deleted");
}

/// Runs many requests, sixteen at a time.
pub async fn all<F: Future<Output = ()>>(requests: impl IntoIterator<Item = F>) {
    futures::stream::iter(requests).buffer_unordered(16).collect::<()>().await;
}

/// Allows the exporter to list and watch these resources only.
pub async fn grant(client: &Client, name: &str, rules: Value) {
    let role: ClusterRole = from_json(json!({"metadata": {"name": name}, "rules": rules}));
    let binding: ClusterRoleBinding = from_json(json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "exporter"}],
    }));
    Api::all(client.clone()).create(&PostParams::default(), &role).await.expect("the role can be created");
    Api::all(client.clone())
        .create(&PostParams::default(), &binding)
        .await
        .expect("the binding can be created");
}

/// Creates the namespaces of the demo's Terraform configuration, and grants the exporter permission to compare its objects.
pub async fn prepare_for_terraform(client: &Client) {
    for name in ["payments", "terraform"] {
        create_namespace(client, name).await;
    }
    let read = json!(["list", "watch"]);
    let rules = json!([
        {"apiGroups": [""], "resources": ["secrets", "services", "configmaps"], "verbs": read},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": read},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": read},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": read},
        {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"], "verbs": read},
    ]);
    grant(client, "exporter", rules).await;
}

/// RBAC rules for the two default kinds.
pub fn read_only_rules() -> Value {
    json!([
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
    ])
}
