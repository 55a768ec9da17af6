//! A script of requests to an API server, and a transcript of its answers.

use bytes::Bytes;
use futures::future::join_all;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use crate::{denied_requests, other_kinds};

pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/shop/deployments";
pub(crate) const SERVICES: &str = "/api/v1/namespaces/shop/services";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";

/// A client that records all answers.
pub(crate) struct Server {
    client: Client,
    pub(crate) transcript: Vec<Answer>,
}

pub(crate) struct Answer {
    pub(crate) request: String,
    pub(crate) status: u16,
    /// One document, or the events of a watch.
    pub(crate) documents: Vec<Value>,
}

impl Server {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, transcript: Vec::new() }
    }

    pub(crate) async fn send_request(
        &mut self,
        method: &str,
        url: &str,
        content_type: &str,
        body: impl Into<Vec<u8>>,
    ) -> Value {
        let sent = body.into();
        let request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(url)
            .header("content-type", content_type)
            .header("user-agent", "script/1.0 (test)")
            .body(Body::from(sent.clone()))
            .unwrap();
        let (status, bytes) = self.send(request).await;
        let documents = documents(&bytes);
        let first = documents.first().cloned().unwrap_or(Value::Null);
        let body = String::from_utf8_lossy(&sent).into_owned();
        self.transcript.push(Answer { request: format!("{method} {url} {body}"), status, documents });
        first
    }

    async fn send(&self, request: Request<Body>) -> (u16, Bytes) {
        let response = self.client.send(request).await.unwrap();
        let status = response.status().as_u16();
        (status, response.into_body().collect().await.unwrap().to_bytes())
    }

    /// Requests aggregated discovery, and keeps the kinds that both servers have.
    async fn discover(&mut self, url: &str) {
        let request = Request::get(url).header("accept", ALL_KINDS).body(Body::empty()).unwrap();
        let (status, bytes) = self.send(request).await;
        let mut document: Value = serde_json::from_slice(&bytes).unwrap();
        let keep = |list: &mut Value, predicate: &dyn Fn(&Value) -> bool| {
            list.as_array_mut().unwrap().retain(predicate);
        };
        keep(&mut document["items"], &|group| {
            GROUPS.contains(&group["metadata"]["name"].as_str().unwrap_or(""))
        });
        for group in document["items"].as_array_mut().unwrap() {
            // The age is irrelevant.
            group["metadata"]["creationTimestamp"] = Value::Null;
            for version in group["versions"].as_array_mut().unwrap() {
                keep(&mut version["resources"], &|kind| KINDS.contains(&kind["resource"].as_str().unwrap()));
                version["resources"].as_array_mut().unwrap().iter_mut().for_each(keep_common_fields);
            }
            // Older versions of the same group.
            let newest = if group["metadata"]["name"] == "autoscaling" { "v2" } else { "v1" };
            keep(&mut group["versions"], &|version| version["version"] == newest);
        }
        self.transcript.push(Answer {
            request: format!("GET {url}, all kinds"),
            status,
            documents: vec![document],
        });
    }

    /// Requests object metadata only.
    pub(crate) async fn metadata(&mut self, url: &str, kind: &str) {
        let (status, bytes) = self.send(as_metadata(url, kind)).await;
        self.transcript.push(Answer {
            request: format!("GET {url}, {kind}"),
            status,
            documents: documents(&bytes),
        });
    }

    /// Opens watches of objects or of their metadata at the same time. The time-out is long enough for a busy server to
    /// deliver all events.
    pub(crate) async fn watch(&mut self, watches: &[(String, Option<&str>)]) {
        let send = async |(url, kind): &(String, Option<&str>)| {
            let url = format!("{url}&watch=1&timeoutSeconds=10");
            let request = match kind {
                Some(kind) => as_metadata(&url, kind),
                None => Request::get(&url).body(Body::empty()).unwrap(),
            };
            let (status, bytes) = self.send(request).await;
            Answer { request: format!("GET {url}, {kind:?}"), status, documents: documents(&bytes) }
        };
        let answers = join_all(watches.iter().map(send)).await;
        self.transcript.extend(answers);
    }

    pub(crate) async fn get(&mut self, url: &str) -> Value {
        self.send_request("GET", url, "", "").await
    }

    pub(crate) async fn post(&mut self, url: &str, object: &Value) -> Value {
        self.send_request("POST", url, "application/json", object.to_string()).await
    }

    pub(crate) async fn put(&mut self, url: &str, object: &Value) -> Value {
        self.send_request("PUT", url, "application/json", object.to_string()).await
    }

    pub(crate) async fn patch(&mut self, url: &str, kind: &str, patch: &Value) -> Value {
        self.send_request("PATCH", url, kind, patch.to_string()).await
    }

    pub(crate) async fn delete(&mut self, url: &str, options: &Value) -> Value {
        let body = if options.is_null() { String::new() } else { options.to_string() };
        self.send_request("DELETE", url, "application/json", body).await
    }
}

fn as_metadata(url: &str, kind: &str) -> Request<Body> {
    let accept = format!("application/json;as={kind};g=meta.k8s.io;v=v1");
    Request::get(url).header("accept", accept).body(Body::empty()).unwrap()
}

fn documents(bytes: &[u8]) -> Vec<Value> {
    let documents = serde_json::Deserializer::from_slice(bytes).into_iter();
    documents.collect::<Result<_, _>>().unwrap_or_default()
}

const ALL_KINDS: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const GROUPS: [&str; 5] = ["", "apps", "autoscaling", "networking.k8s.io", "coordination.k8s.io"];
#[rustfmt::skip]
const KINDS: [&str; 10] = [
    "namespaces", "services", "deployments", "secrets", "configmaps", "serviceaccounts", "leases", "ingresses", "networkpolicies",
    "horizontalpodautoscalers",
];

/// Keeps the verbs and subresources of a kind that the embedded API server has too.
fn keep_common_fields(kind: &mut Value) {
    let lacks = ["deletecollection", "proxy", "finalize"];
    let has = |word: &Value| !lacks.contains(&word.as_str().unwrap_or(""));
    kind["verbs"].as_array_mut().unwrap().retain(has);
    if kind["resource"] == "serviceaccounts" {
        kind.as_object_mut().unwrap().remove("subresources");
    }
    let Some(parts) = kind.get_mut("subresources").and_then(Value::as_array_mut) else { return };
    parts.retain(|part| has(&part["subresource"]));
    parts.sort_by_key(|part| part["subresource"].to_string());
    for part in parts {
        // Not every subresource has a response kind.
        part["acceptedTypes"] = Value::Null;
    }
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": name, "tier": "front"}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "containers": [{
                        "name": "web", "image": "nginx:1.27", "args": ["-v"],
                        "ports": [{"containerPort": 8080}, {"containerPort": 9090, "name": "metrics"}],
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                        "resources": {"requests": {"cpu": "250m", "memory": "128Mi"}},
                        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}},
                        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                    }],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                },
            },
        },
    })
}

pub(crate) fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}, {"name": "x", "port": 81}]},
    })
}

/// A resource version and a continue token that expire later.
pub(crate) struct ExpiredVersions {
    version: String,
    token: String,
}

/// Requests an expired resource version and an expired continue token.
pub(crate) async fn request_expired_versions(server: &mut Server, expired: &ExpiredVersions) {
    let ExpiredVersions { version, token } = expired;
    server.get(&format!("{DEPLOYMENTS}?watch=1&timeoutSeconds=1&resourceVersion={version}")).await;
    server.get(&format!("{DEPLOYMENTS}?limit=2&continue={token}")).await;
    server.get(&format!("{DEPLOYMENTS}?resourceVersion={version}&resourceVersionMatch=Exact")).await;
    server.get(&format!("{DEPLOYMENTS}?resourceVersion={version}")).await;
}

/// Sends all requests, except those for expired versions.
pub(crate) async fn run_script(server: &mut Server) -> ExpiredVersions {
    server.discover("/api").await;
    server.discover("/apis").await;
    server.post("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}})).await;
    let begin = server.get(DEPLOYMENTS).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    create(server).await;
    change(server).await;
    other_kinds::send_requests(server).await;
    let token = select_and_page(server).await;
    denied_requests::send_invalid_requests(server).await;
    delete(server).await;
    let selectors = [
        "",
        "&labelSelector=tier%3Dback",
        "&fieldSelector=metadata.name%3Dweb",
        "&labelSelector=tier+in+(front,back),!gone",
    ];
    let selected = selectors.map(|selector| format!("{DEPLOYMENTS}?resourceVersion={begin}{selector}"));
    let others = [format!("{SERVICES}?resourceVersion={begin}"), format!("{DEPLOYMENTS}?")];
    let watches: Vec<_> = selected.into_iter().chain(others).map(|url| (url, None)).collect();
    server.watch(&watches).await;
    // A real server sends no bookmark if a watch ends so soon.
    server
        .get(&format!("{DEPLOYMENTS}?watch=1&timeoutSeconds=1&resourceVersion=0&allowWatchBookmarks=true"))
        .await;
    ExpiredVersions { version: begin, token }
}

async fn create(server: &mut Server) {
    for name in ["web", "api", "cart", "pay", "zoo"] {
        server.post(&format!("{DEPLOYMENTS}?fieldManager=HashiCorp"), &deployment(name)).await;
    }
    server.post(SERVICES, &service("web")).await;
    server.post(DEPLOYMENTS, &deployment("web")).await;
    server.get(&format!("{DEPLOYMENTS}/web")).await;
    server.get(&format!("{DEPLOYMENTS}/web/scale")).await;
    server.get("/api/v1/namespaces/shop").await;
    server.get(&format!("{SERVICES}/web")).await;
}

async fn change(server: &mut Server) {
    let web = format!("{DEPLOYMENTS}/web");
    let manager = |name: &str| format!("{web}?fieldManager={name}");
    server.patch(&format!("{web}/scale"), MERGE, &json!({"spec": {"replicas": 5}})).await;
    server.get(&web).await;
    // The patches of kubectl set image, annotate, label, rollout restart and edit.
    server
        .patch(
            &manager("kubectl-set"),
            STRATEGIC,
            &json!({"spec": {"template": {"spec": {
                "$setElementOrder/containers": [{"name": "web"}], "containers": [{"name": "web", "image": "nginx:1.28"}],
            }}}}),
        )
        .await;
    server
        .patch(&manager("kubectl-annotate"), MERGE, &json!({"metadata": {"annotations": {"note": "x"}}}))
        .await;
    server.patch(&manager("kubectl-label"), MERGE, &json!({"metadata": {"labels": {"tier": "back"}}})).await;
    server.patch(&manager("kubectl-label"), MERGE, &json!({"metadata": {"labels": {"tier": null}}})).await;
    server
        .patch(
            &manager("kubectl-rollout"),
            STRATEGIC,
            &json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}}}}}),
        )
        .await;
    server
        .patch(
            &manager("kubectl-edit"),
            STRATEGIC,
            &json!({"spec": {
                "strategy": {"$retainKeys": ["type"], "rollingUpdate": null, "type": "Recreate"},
                "template": {"spec": {
                    "$setElementOrder/containers": [{"name": "side"}, {"name": "web"}],
                    "containers": [
                        {"name": "side", "image": "busybox"},
                        {"name": "web", "$setElementOrder/env": [{"name": "C"}, {"name": "B"}],
                         "env": [{"name": "C", "value": "3"}, {"$patch": "delete", "name": "A"}],
                         "$setElementOrder/ports": [{"containerPort": 8080}], "ports": [{"$patch": "delete", "containerPort": 9090}],
                         "args": null, "resources": {"limits": {"cpu": "1"}}},
                    ],
                }},
            }}),
        )
        .await;
    // Deleting the last annotation deletes the map.
    server
        .patch(&manager("kubectl-annotate"), MERGE, &json!({"metadata": {"annotations": {"note": null}}}))
        .await;
    // A patch without effect creates neither a version nor an event.
    server.patch(&manager("someone"), MERGE, &json!({"spec": {"replicas": 5}})).await;
    server
        .patch(
            &manager("patch"),
            JSON_PATCH,
            &json!([{"op": "replace", "path": "/spec/replicas", "value": 3}]),
        )
        .await;
    server.patch(&format!("{web}/status?fieldManager=ctl"), MERGE, &json!({
        "status": {"replicas": 3, "readyReplicas": 2, "observedGeneration": 2}, "spec": {"replicas": 9}, "metadata": {"labels": {"q": "r"}},
    })).await;
    server.patch(&format!("{web}?dryRun=All"), MERGE, &json!({"spec": {"replicas": 55}})).await;
    let mut read = server.get(&web).await;
    read["spec"]["paused"] = true.into();
    server.put(&manager("put"), &read).await;
    server.put(&manager("late"), &read).await;
    read["metadata"]["resourceVersion"] = Value::Null;
    read["spec"]["minReadySeconds"] = 7.into();
    server.put(&manager("bold"), &read).await;
    let mut scale = server.get(&format!("{web}/scale")).await;
    scale["spec"]["replicas"] = 4.into();
    server.put(&format!("{web}/scale"), &scale).await;
    server.put(&format!("{web}/scale"), &scale).await;
    server.patch(&format!("{web}/scale"), MERGE, &json!({"spec": {"replicas": 0}})).await;
    server.get(&web).await;
    server
        .patch(
            &format!("{SERVICES}/web"),
            STRATEGIC,
            &json!({"spec": {"ports": [{"port": 80, "targetPort": 9999}], "selector": {"x": "y"}}}),
        )
        .await;
    server.patch(&format!("{SERVICES}/web"), MERGE, &json!({"spec": {"ports": [{"port": 8080}]}})).await;
}

async fn select_and_page(server: &mut Server) -> String {
    let first = server.get(&format!("{DEPLOYMENTS}?limit=2")).await;
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    // All pages have the version of the first one.
    server.patch(&format!("{DEPLOYMENTS}/zoo"), MERGE, &json!({"spec": {"replicas": 8}})).await;
    let second = server.get(&format!("{DEPLOYMENTS}?limit=2&continue={token}")).await;
    let token = second["metadata"]["continue"].as_str().unwrap().to_owned();
    server.get(&format!("{DEPLOYMENTS}?limit=2&continue={token}")).await;
    for query in [
        "?labelSelector=tier%3Dfront",
        "?labelSelector=tier!%3Dfront",
        "?labelSelector=app+in+(web,pay)",
        "?labelSelector=!tier",
        "?labelSelector=app+notin+(web),tier",
        "?fieldSelector=metadata.name%3Dpay",
        "?fieldSelector=metadata.name!%3Dpay",
        "?limit=2&labelSelector=tier%3Dfront",
        "?limit=2&resourceVersion=0",
        "?labelSelector=app%3Dnobody",
    ] {
        server.get(&format!("{DEPLOYMENTS}{query}")).await;
    }
    server.get("/apis/apps/v1/deployments?fieldSelector=metadata.namespace%3Dshop").await;
    token
}

async fn delete(server: &mut Server) {
    server.delete(&format!("{DEPLOYMENTS}/web"), &json!({"preconditions": {"uid": "other"}})).await;
    server.delete(&format!("{DEPLOYMENTS}/web?dryRun=All"), &Value::Null).await;
    server
        .delete(
            &format!("{DEPLOYMENTS}/web"),
            &json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}),
        )
        .await;
    server.delete(&format!("{DEPLOYMENTS}/web"), &Value::Null).await;
    server.delete(&format!("{SERVICES}/web"), &Value::Null).await;
    server.post(DEPLOYMENTS, &deployment("web")).await;
}
