//! The objects of the oracle's cluster: read, edited as people edit them, put back.

use std::time::Duration;

use drift_exporter::model::{DeclaredObject, ObjectName};
use http::{Method, Request};
use serde_json::{Value, json};

use super::at;
use crate::support::{cluster::Cluster, process::eventually};

pub(crate) struct Objects<'a> {
    cluster: &'a Cluster,
    client: kube::Client,
}

impl<'a> Objects<'a> {
    pub(crate) fn new(cluster: &'a Cluster) -> Self {
        Self { cluster, client: cluster.client() }
    }

    /// Objects that Terraform owns only parts of.
    pub(super) fn create_those_of_others(&self, copies: usize) {
        for copy in 0..copies {
            let named = |name: &str| json!({"name": format!("{name}-{copy}"), "namespace": "default"});
            let container =
                json!({"name": "web", "image": "nginx:1.27", "env": [{"name": "OWN", "value": "1"}]});
            let labels = json!({"app": "noted"});
            let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
            let spec = json!({"selector": {"matchLabels": labels}, "template": template});
            let (core, apps) = ("/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default");
            for (path, object) in [
                (format!("{core}/configmaps"), json!({"metadata": named("more"), "data": {"own": "x"}})),
                (format!("{core}/configmaps"), json!({"metadata": named("marked"), "data": {"own": "x"}})),
                (format!("{core}/secrets"), json!({"metadata": named("hidden"), "data": {"own": "eA=="}})),
                (format!("{apps}/deployments"), json!({"metadata": named("noted"), "spec": spec})),
                (format!("{apps}/deployments"), json!({"metadata": named("tuned"), "spec": spec})),
            ] {
                self.send(&Method::POST, &path, "application/json", &object).unwrap();
            }
        }
    }

    /// A kind of our own, and waits until it is served.
    pub(super) fn create_kind(&self) {
        let text = json!({"type": "string"});
        let spec = json!({"type": "object", "properties": {
            "size": {"type": "integer"}, "mode": {"type": "string", "default": "fast"}, "on": {"type": "boolean"},
            "tags": {"type": "array", "items": text}, "labels": {"type": "object", "additionalProperties": text},
            "target": {"x-kubernetes-int-or-string": true}, "nested": {"type": "object", "properties": {"a": text, "b": text}},
            "parts": {"type": "array", "items": {"type": "object", "properties": {"name": text, "size": {"type": "integer"}}}}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true}}}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
        let kind = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"}, "versions": [version]}});
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.send(&Method::POST, path, "application/json", &kind).unwrap();
        eventually("the kind is served", Duration::from_secs(30), || {
            let published = self.send(&Method::GET, "/openapi/v2", "application/json", &Value::Null).ok()?;
            published["definitions"].get("com.example.v1.Widget").map(|_| ())
        });
    }

    /// Does what the controller of quotas would: Terraform waits for it.
    pub(super) fn confirm_quotas(&self) {
        let list =
            self.send(&Method::GET, "/api/v1/resourcequotas", "application/json", &Value::Null).unwrap();
        for quota in
            list["items"].as_array().into_iter().flatten().filter(|quota| quota["status"]["hard"].is_null())
        {
            let (namespace, name) = (&quota["metadata"]["namespace"], &quota["metadata"]["name"]);
            let [namespace, name] = [namespace, name].map(|text| text.as_str().unwrap_or_default());
            let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/{name}/status");
            let status = json!({"status": {"hard": quota["spec"]["hard"]}});
            self.send(&Method::PATCH, &path, "application/merge-patch+json", &status).unwrap();
        }
    }

    pub(crate) fn get(&self, object: &DeclaredObject) -> Value {
        self.send(&Method::GET, &path_of(&object.object), "application/json", &Value::Null).unwrap()
    }

    /// A list is a JSON patch, an object a merge patch.
    pub(super) fn patch(&self, object: &DeclaredObject, patch: &Value) -> Result<Value, String> {
        let format = if patch.is_array() { "json-patch" } else { "merge-patch" };
        let url = format!("{}?fieldManager=kubectl-edit", path_of(&object.object));
        self.send(&Method::PATCH, &url, &format!("application/{format}+json"), patch)
    }

    /// Makes an object what it was.
    pub(super) fn put_back(&self, object: &DeclaredObject, original: &Value, edited: &Value) {
        let mut original = original.clone();
        original["metadata"]["resourceVersion"] = at(edited, &["metadata", "resourceVersion"]).clone();
        let path = format!("{}?fieldManager=HashiCorp", path_of(&object.object));
        self.send(&Method::PUT, &path, "application/json", &original).unwrap();
    }

    fn send(&self, method: &Method, path: &str, form: &str, body: &Value) -> Result<Value, String> {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let request =
            Request::builder().method(method).uri(path).header("content-type", form).body(body).unwrap();
        self.cluster.block_on(self.client.request(request)).map_err(|error| error.to_string())
    }
}

fn path_of(object: &ObjectName) -> String {
    let ObjectName { group, version, kind, namespace, name } = object;
    let start = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let kind = kind.to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(start) => format!("{start}ies"),
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    match &**namespace {
        "" => format!("{start}/{plural}/{name}"),
        namespace => format!("{start}/namespaces/{namespace}/{plural}/{name}"),
    }
}
