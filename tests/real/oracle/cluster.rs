//! The objects of the oracle's cluster: read, edited and restored.

use std::{collections::BTreeMap, thread, time::Duration};

use drift_exporter::types::{DeclaredObject, ObjectRef};
use http::{Method, Request};
use serde_json::{Value, json};

use super::at;
use crate::support::{cluster::Cluster, wait::eventually};

pub(crate) struct Objects<'a> {
    cluster: &'a Cluster,
    client: kube::Client,
    /// Whether service accounts get token Secrets, as in old Kubernetes versions.
    makes_tokens: bool,
}

impl<'a> Objects<'a> {
    pub(crate) fn new(cluster: &'a Cluster, makes_tokens: bool) -> Self {
        Self { cluster, client: cluster.client(), makes_tokens }
    }

    /// Creates objects of which Terraform owns only some fields.
    pub(super) fn create_partly_owned(&self, copies: &BTreeMap<&str, usize>) {
        for copy in 0..copies.values().copied().max().unwrap_or_default() {
            let named = |name: &str| json!({"name": format!("{name}-{copy}"), "namespace": "default"});
            let container =
                json!({"name": "web", "image": "nginx:1.27", "env": [{"name": "OWN", "value": "1"}]});
            let labels = json!({"app": "noted"});
            let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [container]}});
            let spec = json!({"selector": {"matchLabels": labels}, "template": template});
            let (core, apps) = ("/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default");
            for (resource, path, body) in [
                (
                    "kubernetes_config_map_v1_data.more",
                    format!("{core}/configmaps"),
                    json!({"data": {"own": "x"}}),
                ),
                ("kubernetes_labels.marked", format!("{core}/configmaps"), json!({"data": {"own": "x"}})),
                (
                    "kubernetes_secret_v1_data.hidden",
                    format!("{core}/secrets"),
                    json!({"data": {"own": "eA=="}}),
                ),
                ("kubernetes_annotations.noted", format!("{apps}/deployments"), json!({"spec": spec})),
                ("kubernetes_env.tuned", format!("{apps}/deployments"), json!({"spec": spec})),
            ] {
                if copies.get(resource).is_some_and(|count| *count > copy) {
                    let mut object = body;
                    object["metadata"] = named(resource.split('.').next_back().unwrap());
                    self.send(&Method::POST, &path, "application/json", &object).unwrap();
                }
            }
        }
    }

    /// Creates CRDs, and waits until they are served.
    pub(super) fn create_crds(&self) {
        let text = json!({"type": "string"});
        let widget = json!({"type": "object", "properties": {
            "size": {"type": "integer"}, "mode": {"type": "string", "default": "fast"}, "on": {"type": "boolean"},
            "tags": {"type": "array", "items": text}, "labels": {"type": "object", "additionalProperties": text},
            "target": {"x-kubernetes-int-or-string": true}, "nested": {"type": "object", "properties": {"a": text, "b": text}},
            "parts": {"type": "array", "items": {"type": "object", "properties": {"name": text, "size": {"type": "integer"}}}}}});
        let port = json!({"type": "object", "required": ["name"], "properties": {
            "name": text, "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}});
        let loose = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "size": {"type": "integer"}, "note": text, "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "ports": {"type": "array", "items": port, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            "hosts": {"type": "array", "items": text, "x-kubernetes-list-type": "set"}}});
        for (kind, spec) in [("Widget", widget), ("Loose", loose)] {
            self.create_crd(kind, &spec);
        }
        eventually("the kinds are served", || {
            let published = self.send(&Method::GET, "/openapi/v2", "application/json", &Value::Null).ok()?;
            let is_there =
                |kind: &str| published["definitions"].get(format!("com.example.v1.{kind}")).is_some();
            (is_there("Widget") && is_there("Loose")).then_some(())
        });
    }

    fn create_crd(&self, kind: &str, spec: &Value) {
        let plural = format!("{}s", kind.to_lowercase());
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true}}}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
        let definition = json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {"group": "example.com",
            "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [version]}});
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.send(&Method::POST, path, "application/json", &definition).unwrap();
    }

    /// Runs an action that waits for a controller, and acts as that controller.
    pub(super) fn run_as_controller<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let working = scope.spawn(work);
            while !working.is_finished() {
                self.confirm_quotas();
                self.confirm_volumes();
                if self.makes_tokens {
                    self.create_tokens();
                }
                thread::sleep(Duration::from_millis(100));
            }
            working.join().unwrap()
        })
    }

    /// Acts as the resource quota controller, which Terraform waits for.
    fn confirm_quotas(&self) {
        let list =
            self.send(&Method::GET, "/api/v1/resourcequotas", "application/json", &Value::Null).unwrap();
        for quota in list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|quota| quota["status"]["hard"] != quota["spec"]["hard"])
        {
            let (namespace, name) = (&quota["metadata"]["namespace"], &quota["metadata"]["name"]);
            let [namespace, name] = [namespace, name].map(|text| text.as_str().unwrap_or_default());
            let path = format!("/api/v1/namespaces/{namespace}/resourcequotas/{name}/status");
            let status = json!({"status": {"hard": quota["spec"]["hard"]}});
            self.send(&Method::PATCH, &path, "application/merge-patch+json", &status).unwrap();
        }
    }

    /// Acts as the persistent volume controller.
    fn confirm_volumes(&self) {
        let volumes = "/api/v1/persistentvolumes";
        let list = self.send(&Method::GET, volumes, "application/json", &Value::Null).unwrap();
        let of_none = |volume: &&Value| volume["status"]["phase"] != "Available";
        for volume in list["items"].as_array().into_iter().flatten().filter(of_none) {
            let path =
                format!("{volumes}/{}/status", volume["metadata"]["name"].as_str().unwrap_or_default());
            let status = json!({"status": {"phase": "Available"}});
            self.send(&Method::PATCH, &path, "application/merge-patch+json", &status).unwrap();
        }
    }

    /// Acts as the token controller, which the old provider waits for.
    fn create_tokens(&self) {
        let accounts = "/api/v1/namespaces/shop/serviceaccounts";
        let list = self.send(&Method::GET, accounts, "application/json", &Value::Null).unwrap();
        for account in list["items"].as_array().into_iter().flatten() {
            let name = account["metadata"]["name"].as_str().unwrap_or_default();
            let token = json!({"name": format!("{name}-token-x7k2p")});
            let mut secrets = account["secrets"].as_array().cloned().unwrap_or_default();
            if secrets.contains(&token) {
                continue;
            }
            let annotations = json!({"kubernetes.io/service-account.name": name});
            let metadata = json!({"name": token["name"], "annotations": annotations});
            let secret = json!({"metadata": metadata, "type": "kubernetes.io/service-account-token"});
            self.send(&Method::POST, "/api/v1/namespaces/shop/secrets", "application/json", &secret).unwrap();
            secrets.push(token);
            let (account, edit) = (format!("{accounts}/{name}"), json!({"secrets": secrets}));
            self.send(&Method::PATCH, &account, "application/merge-patch+json", &edit).unwrap();
        }
    }

    pub(crate) fn get(&self, object: &DeclaredObject) -> Value {
        self.send(&Method::GET, &path_of(&object.object), "application/json", &Value::Null).unwrap()
    }

    /// An array is a JSON patch, an object a merge patch.
    pub(super) fn patch(&self, object: &DeclaredObject, patch: &Value) -> Result<Value, String> {
        let format = if patch.is_array() { "json-patch" } else { "merge-patch" };
        let url = format!("{}?fieldManager=kubectl-edit", path_of(&object.object));
        self.send(&Method::PATCH, &url, &format!("application/{format}+json"), patch)
    }

    /// Restores an object.
    pub(super) fn restore(&self, object: &DeclaredObject, original: &Value, edited: &Value) {
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

fn path_of(object: &ObjectRef) -> String {
    let ObjectRef { group, version, kind, namespace, name } = object;
    let start = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let kind = kind.to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(start) => format!("{start}ies"),
        None if kind == "endpoints" => kind,
        None if kind.ends_with('s') => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    match &**namespace {
        "" => format!("{start}/{plural}/{name}"),
        namespace => format!("{start}/namespaces/{namespace}/{plural}/{name}"),
    }
}
