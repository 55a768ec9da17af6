//! Requests for Secrets, `ConfigMap`s, Leases and other kinds that Terraform manages.

use serde_json::{Value, json};

use crate::script::{JSON_PATCH, MERGE, STRATEGIC, Server};

const SECRETS: &str = "/api/v1/namespaces/shop/secrets";
const CONFIG_MAPS: &str = "/api/v1/namespaces/shop/configmaps";
const SERVICE_ACCOUNTS: &str = "/api/v1/namespaces/shop/serviceaccounts";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/shop/leases";
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies";
const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/shop/ingresses";
const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers";

/// Creates, patches, lists and deletes objects of other kinds.
pub(crate) async fn send_requests(server: &mut Server) {
    let begin = server.get(SECRETS).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    secrets(server).await;
    config_maps(server).await;
    leases(server).await;
    policies_and_routes(server).await;
    autoscalers(server).await;
    server.metadata(SECRETS, "PartialObjectMetadataList").await;
    server.metadata(&format!("{SECRETS}/state"), "PartialObjectMetadata").await;
    let (states, everywhere) = ("&labelSelector=tfstate%3Dtrue", "/apis/coordination.k8s.io/v1/leases");
    let watch = |url: &str, selector: &str| format!("{url}?resourceVersion={begin}{selector}");
    let watches = [
        (watch(SECRETS, ""), None),
        (watch(SECRETS, states), None),
        (watch(SECRETS, "&fieldSelector=metadata.name%3Dstate"), None),
        (watch(SECRETS, states), Some("PartialObjectMetadata")),
        (watch(everywhere, states), None),
    ];
    server.watch(&watches).await;
}

async fn secrets(server: &mut Server) {
    let create = format!("{SECRETS}?fieldManager=HashiCorp");
    let labels = json!({"tfstate": "true", "tfstateWorkspace": "default"});
    server
        .post(&create, &json!({"metadata": {"name": "state", "labels": labels}, "data": {"tfstate": "H4sI"}}))
        .await;
    server
        .post(
            &create,
            &json!({
                "metadata": {"name": "login"}, "type": "example.com/login",
                "data": {"user": "YWxpY2U=", "password": "b2xk"}, "stringData": {"password": "new", "note": ""},
            }),
        )
        .await;
    server.post(&create, &json!({"metadata": {"name": "empty"}, "data": {}, "immutable": true})).await;
    let login = format!("{SECRETS}/login");
    server.get(&login).await;
    server.get(&format!("{login}/status")).await;
    for (kind, patch) in [
        (STRATEGIC, json!({"stringData": {"password": "edited"}})),
        (MERGE, json!({"data": {"user": null, "more": "eA=="}})),
        (JSON_PATCH, json!([{"op": "replace", "path": "/data/password", "value": "cGF0Y2hlZA=="}])),
        (MERGE, json!({"data": {"password": "not base64!"}})),
        (MERGE, json!({"data": {"bad key": "eA=="}})),
        (MERGE, json!({"type": "Opaque"})),
        (MERGE, json!({"stringData": {"password": 7}})),
    ] {
        server.patch(&format!("{login}?fieldManager=kubectl-edit"), kind, &patch).await;
    }
    let mut read = server.get(&login).await;
    read["data"] = json!({"password": "cHV0"});
    server.put(&format!("{login}?fieldManager=put"), &read).await;
    for query in ["?labelSelector=tfstate%3Dtrue", "?fieldSelector=metadata.name%3Dlogin"] {
        server.get(&format!("{SECRETS}{query}")).await;
        server.get(&format!("/api/v1/secrets{query}")).await;
    }
    server.delete(&login, &Value::Null).await;
    server.get(&login).await;
}

async fn config_maps(server: &mut Server) {
    let object = json!({
        "metadata": {"name": "rates", "labels": {"a": "b"}},
        "data": {"eur": "1.0", "empty": ""}, "binaryData": {"blob": "AAEC"},
    });
    server.post(CONFIG_MAPS, &object).await;
    let rates = format!("{CONFIG_MAPS}/rates?fieldManager=kubectl-edit");
    for (kind, patch) in [
        (STRATEGIC, json!({"data": {"eur": "1.1", "usd": "0.9"}})),
        (MERGE, json!({"data": null})),
        (MERGE, json!({"data": {"eur": 1}})),
        (MERGE, json!({"data": {"bad key": "1"}})),
        (MERGE, json!({"nonsense": 1})),
        (MERGE, json!({"metadata": {"annotations": {"note": "x"}}})),
    ] {
        server.patch(&rates, kind, &patch).await;
    }
    server
        .post(SERVICE_ACCOUNTS, &json!({"metadata": {"name": "web"}, "automountServiceAccountToken": false}))
        .await;
    server.patch(&format!("{SERVICE_ACCOUNTS}/web"), MERGE, &json!({"secrets": [{"name": "x"}]})).await;
    server.delete(&format!("{SERVICE_ACCOUNTS}/web"), &Value::Null).await;
    server.delete(&format!("{CONFIG_MAPS}/rates"), &Value::Null).await;
}

async fn leases(server: &mut Server) {
    let held = json!({
        "metadata": {
            "name": "lock-state", "labels": {"tfstate": "true"},
            "annotations": {"app.terraform.io/lock-info": r#"{"ID":"1","Operation":"OperationTypeApply"}"#},
        },
        "spec": {"holderIdentity": "1"},
    });
    let mut lease = server.post(&format!("{LEASES}?fieldManager=HashiCorp"), &held).await;
    lease["spec"] = json!({});
    lease["metadata"]["annotations"] = Value::Null;
    server.put(&format!("{LEASES}/lock-state?fieldManager=HashiCorp"), &lease).await;
    server.put(&format!("{LEASES}/lock-state?fieldManager=late"), &lease).await;
    let times = json!({"spec": {"renewTime": "2026-01-01T00:00:00.500000Z", "leaseDurationSeconds": 15}});
    server.patch(&format!("{LEASES}/lock-state"), MERGE, &times).await;
    server.patch(&format!("{LEASES}/lock-state"), MERGE, &json!({"spec": {"renewTime": "yesterday"}})).await;
    server.get(&format!("{LEASES}?labelSelector=tfstate%3Dtrue")).await;
}

async fn policies_and_routes(server: &mut Server) {
    let policy = json!({
        "metadata": {"name": "web"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "web"}},
            "ingress": [{"from": [{"namespaceSelector": {}}, {"podSelector": {"matchLabels": {"app": "api"}}}], "ports": [{"port": 80}, {"port": "x"}]}],
        },
    });
    server.post(POLICIES, &policy).await;
    server
        .post(POLICIES, &json!({"metadata": {"name": "all"}, "spec": {"podSelector": {}, "egress": [{}]}}))
        .await;
    let web = format!("{POLICIES}/web?fieldManager=kubectl-edit");
    server.patch(&web, STRATEGIC, &json!({"spec": {"ingress": [{"ports": [{"port": 81}]}]}})).await;
    server.patch(&web, MERGE, &json!({"metadata": {"annotations": {"note": "x"}}})).await;
    server.delete(&format!("{POLICIES}/web"), &Value::Null).await;
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend});
    let ingress = json!({"metadata": {"name": "web"}, "spec": {"rules": [{"host": "a.example", "http": {"paths": [path]}}]}});
    server.post(INGRESSES, &ingress).await;
    let host = json!([{"op": "replace", "path": "/spec/rules/0/host", "value": "b.example"}]);
    server.patch(&format!("{INGRESSES}/web?fieldManager=kubectl-patch"), JSON_PATCH, &host).await;
    server.delete(&format!("{INGRESSES}/web"), &Value::Null).await;
}

async fn autoscalers(server: &mut Server) {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let object = |name: &str, more: Value| {
        let mut spec = json!({"scaleTargetRef": target, "maxReplicas": 5});
        for (field, value) in more.as_object().unwrap() {
            spec[field] = value.clone();
        }
        json!({"metadata": {"name": name}, "spec": spec})
    };
    server.post(AUTOSCALERS, &object("plain", json!({}))).await;
    let average = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}});
    server.post(AUTOSCALERS, &object("web", json!({"minReplicas": 2, "metrics": [average]}))).await;
    let web = format!("{AUTOSCALERS}/web?fieldManager=kubectl-edit");
    server.patch(&web, MERGE, &json!({"spec": {"maxReplicas": 9}})).await;
    server.patch(&web, MERGE, &json!({"spec": {"maxReplicas": "many"}})).await;
    server.delete(&format!("{AUTOSCALERS}/plain"), &Value::Null).await;
}
