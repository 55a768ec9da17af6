//! The API server of the demo, and its behaviour with misbehaving clients.

use std::sync::Arc;

use drift_exporter::{
    demo::Cluster,
    types::{Kind, ObjectKey},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use crate::support::{embedded::Embedded, live_objects::service, wait::completes};

const SERVICES: &str = "/api/v1/namespaces/shop/services";

async fn shop() -> Embedded {
    let embedded = Embedded::start().await;
    embedded.cluster.create(&Kind::namespace(), "test", json!({"metadata": {"name": "shop"}})).unwrap();
    embedded.cluster.create(&Kind::service(), "test", service("web")).unwrap();
    embedded
}

fn web() -> ObjectKey {
    ObjectKey { kind: Arc::new(Kind::service()), namespace: "shop".into(), name: "web".into() }
}

fn label(embedded: &Embedded, value: &str) {
    embedded.cluster.patch(&web(), "test", json!({"metadata": {"labels": {"round": value}}})).unwrap();
}

/// Opens a watch that starts at a resource version.
async fn watch(port: u16, version: u64) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!("GET {SERVICES}?watch=1&resourceVersion={version} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    BufReader::new(stream)
}

async fn read_until_line(reader: &mut BufReader<TcpStream>, word: &str) {
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        let read = completes(word, reader.read_line(&mut line)).await.unwrap();
        assert_ne!(read, 0, "the watch ended before {word}");
    }
}

async fn send(port: u16, request: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (mut reader, mut writer) = stream.split();
    let mut answer = String::new();
    // The server may respond before it has read the whole request.
    let (_, read) = tokio::join!(writer.write_all(request.as_bytes()), reader.read_to_string(&mut answer));
    assert!(read.is_ok() || !answer.is_empty(), "{read:?}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn a_thousand_watches_get_events_and_idle_clients_block_none() {
    // The test holds both ends of each connection.
    let files = rlimit::increase_nofile_limit(4096).unwrap();
    assert!(files >= 2200, "the limit of open files is {files}: see ulimit -Hn");
    let embedded = shop().await;
    let version: u64 = embedded.cluster.get(&web()).unwrap()["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .unwrap();
    let mut watchers = Vec::new();
    for _ in 0..1000 {
        watchers.push(watch(embedded.port, version).await);
    }
    let mut idle = watchers.split_off(995);
    label(&embedded, "first-round");
    for watcher in &mut watchers {
        read_until_line(watcher, "first-round").await;
    }
    // More data than the socket buffers and the log hold: idle clients fall behind and block no other.
    watchers.truncate(100);
    let mut reader = watchers.remove(7);
    let filler = "x".repeat(100_000);
    for round in 0..150 {
        let annotations = json!({"filler": format!("{round}{filler}")});
        embedded.cluster.patch(&web(), "test", json!({"metadata": {"annotations": annotations}})).unwrap();
        let word = format!("\"{round}xxx");
        read_until_line(&mut reader, &word).await;
    }
    embedded.cluster.patch(&web(), "test", json!({"metadata": {"annotations": null}})).unwrap();
    label(&embedded, "second-round");
    read_until_line(&mut reader, "second-round").await;
    // A watch that fell behind gets 410 Gone.
    read_until_line(&mut idle[0], "\"code\":410").await;
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
}

fn request(method: &str, path: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn every_kind_supports_discovery_list_and_selectors() {
    let embedded = shop().await;
    let mut kinds = Vec::new();
    for path in [
        "/api/v1",
        "/apis/apps/v1",
        "/apis/autoscaling/v2",
        "/apis/networking.k8s.io/v1",
        "/apis/coordination.k8s.io/v1",
    ] {
        let (_, list) = send(embedded.port, &get(path)).await;
        for resource in list["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            if !name.contains('/') {
                kinds.push(format!("{path}/{name}"));
            }
        }
    }
    assert_eq!(kinds.len(), 10, "{kinds:?}");
    for path in kinds {
        let (status, list) = send(embedded.port, &get(&format!("{path}?labelSelector=tfstate%3Dtrue"))).await;
        assert_eq!((status, &list["items"]), (200, &json!([])), "{path}");
    }
    let secret = Cluster::resolve_kind("v1", "Secret").unwrap();
    for (name, labels) in [("state", json!({"tfstate": "true"})), ("other", json!({"tfstate": "false"}))] {
        let metadata = json!({"namespace": "shop", "name": name, "labels": labels});
        let object = json!({"metadata": metadata, "data": {"a": "b2xk"}, "stringData": {"a": "new"}});
        embedded.cluster.create(&secret, "test", object).unwrap();
    }
    for query in ["labelSelector=tfstate%3Dtrue", "fieldSelector=metadata.name%3Dstate"] {
        let (_, list) = send(embedded.port, &get(&format!("/api/v1/secrets?{query}"))).await;
        let items = list["items"].as_array().unwrap();
        assert_eq!((items.len(), &items[0]["metadata"]["name"]), (1, &"state".into()), "{query}");
        assert_eq!((&items[0]["data"], items[0].get("stringData")), (&json!({"a": "bmV3"}), None));
        assert_eq!((items[0].get("kind"), &items[0]["type"]), (None, &"Opaque".into()));
    }
}

#[tokio::test]
async fn selector_requires_labels_and_fields() {
    let embedded = shop().await;
    let labels = json!({"metadata": {"labels": {"app": "web", "a/b": "1"}}});
    embedded.cluster.patch(&web(), "test", labels).unwrap();
    for (labels, fields, matches) in [
        ("app=web", "", true),
        ("!app", "", false),
        ("app in (x, web),a/b=1", "metadata.namespace!=default", true),
        ("app", "metadata.namespace!=shop", false),
        ("", "metadata.name=web,metadata.namespace!=default", true),
        ("", "metadata.name!=web", false),
    ] {
        let (status, list) = select_services(&embedded, labels, fields).await;
        assert_eq!(status, 200, "{labels} {fields}: {list}");
        assert_eq!(list["items"].as_array().unwrap().len(), usize::from(matches), "{labels} {fields}");
    }
    for (labels, fields) in
        [("a b", ""), ("app in web", ""), ("=x", ""), ("", "spec.x=1"), ("", "metadata.name")]
    {
        let (status, list) = select_services(&embedded, labels, fields).await;
        assert_eq!((status, &list["kind"]), (400, &"Status".into()), "{labels} {fields}: {list}");
    }
}

async fn select_services(embedded: &Embedded, labels: &str, fields: &str) -> (u16, Value) {
    let [labels, fields] =
        [labels, fields].map(|text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string());
    let path = format!("{SERVICES}?labelSelector={labels}&fieldSelector={fields}");
    send(embedded.port, &get(&path)).await
}

/// Applies a strategic merge patch to a Deployment with these labels, strategy and containers.
async fn strategic_merge(spec: Value, patch: &Value) -> (u16, Value) {
    let embedded = shop().await;
    let mut object = json!({"metadata": {"name": "db", "namespace": "shop", "labels": {"a": "1", "b": "2"}}, "spec": {
        "selector": {"matchLabels": {"app": "db"}}, "template": {"metadata": {"labels": {"app": "db"}}}}});
    object["spec"]["strategy"] =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    object["spec"]["template"]["spec"] = spec;
    embedded.cluster.create(&Kind::deployment(), "test", object).unwrap();
    let (path, kind) =
        ("/apis/apps/v1/namespaces/shop/deployments/db", "application/strategic-merge-patch+json");
    send(embedded.port, &request("PATCH", path, kind, &patch.to_string())).await
}

/// The patched containers, with only these of their fields.
#[track_caller]
fn containers((status, object): (u16, Value), fields: &[&str]) -> Value {
    assert_eq!(status, 200, "{object}");
    let list = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let only = |container: &Value| {
        let present =
            fields.iter().filter_map(|field| Some(((*field).to_owned(), container.get(field)?.clone())));
        Value::Object(present.collect())
    };
    list.iter().map(only).collect()
}

#[tokio::test]
async fn containers_merge_by_name_and_keep_their_order() {
    let before =
        json!({"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:1", "args": ["x"]}]});
    let patch = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}], "containers": [{"name": "b", "image": "i:2"}]}}}});
    assert_eq!(
        containers(strategic_merge(before, &patch).await, &["name", "image", "args"]),
        json!([{"name": "a", "image": "i:1"}, {"name": "b", "image": "i:2", "args": ["x"]}])
    );
}

#[tokio::test]
async fn directives_order_and_delete_list_elements() {
    let env = json!([{"name": "A", "value": "1"}, {"name": "C", "value": "3"}]);
    let before = json!({"containers": [{"name": "a", "image": "i:1", "env": env}]});
    let patch = json!({"spec": {"template": {"spec": {"containers": [{
        "name": "a",
        "$setElementOrder/env": [{"name": "B"}, {"name": "C"}],
        "env": [{"name": "B", "value": "2"}, {"name": "A", "$patch": "delete"}],
    }]}}}});
    assert_eq!(
        containers(strategic_merge(before, &patch).await, &["env"]),
        json!([{"env": [{"name": "B", "value": "2"}, {"name": "C", "value": "3"}]}])
    );
}

#[tokio::test]
async fn null_deletes_retain_keys_retains_and_atomic_lists_are_replaced() {
    let before = json!({"containers": [{"name": "a", "image": "i:1", "args": ["x"]}]});
    let patch = json!({
        "metadata": {"labels": {"a": null}},
        "spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"},
            "template": {"spec": {"containers": [{"name": "a", "args": ["y", "z"]}]}}},
    });
    let answer = strategic_merge(before, &patch).await;
    assert_eq!(answer.1["metadata"]["labels"], json!({"b": "2"}));
    assert_eq!(answer.1["spec"]["strategy"], json!({"type": "Recreate"}));
    assert_eq!(containers(answer, &["args"]), json!([{"args": ["y", "z"]}]));
}

#[tokio::test]
async fn list_element_without_merge_key_is_rejected() {
    let before = json!({"containers": [{"name": "a", "image": "i:1"}]});
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}});
    let (status, error) = strategic_merge(before, &patch).await;
    assert_ne!(status, 200);
    assert!(
        error["message"].as_str().unwrap().contains("does not contain declared merge key: name"),
        "{error}"
    );
}

#[tokio::test]
async fn stalled_client_is_disconnected_and_blocks_no_other() {
    let embedded = shop().await;
    let mut stalled = TcpStream::connect(("127.0.0.1", embedded.port)).await.unwrap();
    stalled.write_all(b"PATCH /api/v1/namespaces/shop/services/web HTTP/1.1\r\nhost: x\r\n").await.unwrap();
    let (status, _) =
        send(embedded.port, &format!("GET {SERVICES}/web HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
            .await;
    assert_eq!(status, 200);
    let mut rest = Vec::new();
    completes("cut off", stalled.read_to_end(&mut rest)).await.unwrap();
}

#[tokio::test]
async fn unsupported_requests_return_a_status_object() {
    let embedded = shop().await;
    let web = format!("{SERVICES}/web");
    let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    for (method, path, kind, body, expected) in [
        ("DELETE", SERVICES, "", "", 405),
        ("POST", &*web, "application/json", "{}", 405),
        ("TRACE", &*web, "", "", 405),
        ("PATCH", &*web, "application/apply-patch+yaml", "{}", 501),
        ("GET", "/api/v1/namespaces/shop/services?watch=1&sendInitialEvents=true", "", "", 501),
        ("PATCH", &*web, "application/merge-patch+json", "nonsense", 400),
        ("PATCH", &*web, "application/merge-patch+json", &*deep, 400),
        (
            "PATCH",
            &*web,
            "application/json-patch+json",
            r#"[{"op":"add","path":"no pointer","value":1}]"#,
            422,
        ),
        (
            "PATCH",
            &*web,
            "application/json-patch+json",
            r#"[{"op":"add","path":"/metadata","value":1}]"#,
            422,
        ),
        ("PATCH", &*web, "application/merge-patch+json", r#"{"metadata":null}"#, 422),
        ("PUT", &*web, "application/json", r#"{"metadata":{"name":"web"},"spec":[]}"#, 400),
        ("PUT", &*web, "application/yaml", "a: b", 415),
        ("GET", "/api/v1/namespaces/shop/pods", "", "", 404),
        ("GET", "/api/v1/namespaces/%00/services/%ff", "", "", 404),
    ] {
        let (status, answer) = send(embedded.port, &request(method, path, kind, body)).await;
        let case = format!("{method} {path} {}", &body[..body.len().min(60)]);
        assert_eq!(
            (status, &answer["kind"], &answer["code"]),
            (expected, &"Status".into(), &expected.into()),
            "{case}: {answer}"
        );
    }
    let large = "x".repeat(4 << 20);
    let (status, _) =
        send(embedded.port, &request("PATCH", &web, "application/merge-patch+json", &large)).await;
    assert_eq!(status, 413);
}
