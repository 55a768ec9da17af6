//! The live objects of the documents.

use std::{cell::RefCell, collections::HashMap};

use drift_exporter::diff::manifest::{Schemas, TypeMeta};
use http::{Method, Request};
use serde_json::{Value, json};

use crate::support::{cluster::Cluster, wait::eventually};

pub(super) const NAMESPACE: &str = "shop";

pub(super) struct Objects<'a> {
    cluster: &'a Cluster,
    client: kube::Client,
    /// The kinds of each API version.
    resources: RefCell<HashMap<String, Kinds>>,
}

/// Plural and scope of kinds.
type Kinds = HashMap<String, (String, bool)>;

impl<'a> Objects<'a> {
    pub(super) fn new(cluster: &'a Cluster) -> Self {
        let objects = Self { cluster, client: cluster.client(), resources: RefCell::default() };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        objects.send(&Method::POST, "/api/v1/namespaces", "application/json", &namespace).unwrap();
        // No controller creates it.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        objects.create(&account).unwrap();
        objects
    }

    pub(super) fn get(&self, document: &Value) -> Value {
        self.send(&Method::GET, &self.path(document), "application/json", &Value::Null).unwrap()
    }

    pub(super) fn create(&self, document: &Value) -> Result<Value, String> {
        let path = self.path(document);
        let (collection, _) = path.rsplit_once('/').unwrap();
        self.send(
            &Method::POST,
            &format!("{collection}?fieldManager=kubectl-create"),
            "application/json",
            document,
        )
    }

    pub(super) fn delete(&self, document: &Value) {
        let now = json!({"gracePeriodSeconds": 0});
        self.send(&Method::DELETE, &self.path(document), "application/json", &now).unwrap();
    }

    /// Restores an object, or recreates it if it cannot be patched.
    pub(super) fn restore(&self, document: &Value, before: &Value) -> Value {
        let mut whole = before.clone();
        whole["metadata"]["resourceVersion"] = self.get(document)["metadata"]["resourceVersion"].take();
        let put = self.send(&Method::PUT, &self.path(document), "application/json", &whole);
        put.unwrap_or_else(|_| {
            let released = json!({"metadata": {"finalizers": null}});
            self.send(&Method::PATCH, &self.path(document), "application/merge-patch+json", &released)
                .unwrap();
            self.delete(document);
            let mut again = document.clone();
            for name in ["labels", "annotations"] {
                again["metadata"][name] = before["metadata"][name].clone();
            }
            self.create(&again).unwrap()
        })
    }

    /// Patches an object with a JSON patch.
    pub(super) fn patch(&self, document: &Value, patch: &Value) -> Result<Value, String> {
        let url = format!("{}?fieldManager=kubectl-edit", self.path(document));
        self.send(&Method::PATCH, &url, "application/json-patch+json", patch)
    }

    /// Waits for the OpenAPI schemas of a custom API group.
    pub(super) fn wait_for_schemas(&self, group: &str) -> Schemas {
        let path = format!("/openapi/v3/apis/{group}/v1");
        eventually("the kinds are described", || {
            let request = Request::get(&path).body(Vec::new()).unwrap();
            let text = self.cluster.block_on(self.client.request_text(request)).ok()?;
            let schemas = Schemas::from_openapi(text.as_bytes(), |_| true).unwrap();
            schemas.has(TypeMeta::new(&format!("{group}/v1"), "Widget")).then_some(schemas)
        })
    }

    fn path(&self, document: &Value) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&document["apiVersion"]), text(&document["kind"]));
        let start =
            if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
        let mut resources = self.resources.borrow_mut();
        let of_version = resources.entry(version).or_insert_with(|| self.discover(&start));
        let (plural, is_namespaced) = &of_version[&kind];
        let name = text(&document["metadata"]["name"]);
        if *is_namespaced {
            let namespace = document["metadata"]["namespace"].as_str().unwrap_or(NAMESPACE);
            format!("{start}/namespaces/{namespace}/{plural}/{name}")
        } else {
            format!("{start}/{plural}/{name}")
        }
    }

    fn discover(&self, path: &str) -> Kinds {
        let list = eventually("the kinds are served", || {
            self.send(&Method::GET, path, "application/json", &Value::Null).ok()
        });
        let resources = list["resources"].as_array().cloned().unwrap_or_default().into_iter();
        let top_level =
            resources.filter(|resource| !resource["name"].as_str().unwrap_or_default().contains('/'));
        top_level
            .map(|resource| {
                let text = |name: &str| resource[name].as_str().unwrap_or_default().to_owned();
                (text("kind"), (text("name"), resource["namespaced"] == true))
            })
            .collect()
    }

    fn send(&self, method: &Method, path: &str, form: &str, body: &Value) -> Result<Value, String> {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let request =
            Request::builder().method(method).uri(path).header("content-type", form).body(body).unwrap();
        self.cluster.block_on(self.client.request(request)).map_err(|error| error.to_string())
    }
}
