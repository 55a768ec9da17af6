//! The embedded API server answers like kube-apiserver: a script sends the same requests to both.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    script::{Answer, Server, request_expired_versions, run_script},
    support::{cluster::Cluster, embedded::Embedded},
};

#[test]
fn embedded_api_server_answers_like_kube_apiserver() {
    let mut cluster = Cluster::start();
    let mut real = Server::new(cluster.client());
    let expired = cluster.block_on(run_script(&mut real));
    // The watch cache also holds old versions until a restart.
    cluster.compact();
    cluster.kill_apiserver();
    cluster.start_apiserver();
    cluster.block_on(request_expired_versions(&mut real, &expired));
    let embedded = cluster.block_on(Embedded::start());
    let mut fake = Server::new(cluster.block_on(async { embedded.client() }));
    let expired = cluster.block_on(run_script(&mut fake));
    embedded.cluster.compact();
    cluster.block_on(request_expired_versions(&mut fake, &expired));

    let (expected, actual) = (normalize_transcript(&real.transcript), normalize_transcript(&fake.transcript));
    assert!(expected.len() > 100, "{}", expected.len());
    let mut different = Vec::new();
    for (expected, actual) in expected.iter().zip(&actual) {
        if expected["answer"] != actual["answer"] {
            let mut found = Vec::new();
            differences("", &expected["answer"], &actual["answer"], &mut found);
            different.push(format!("{}\n    {}", expected["asked"].as_str().unwrap(), found.join("\n    ")));
        }
    }
    assert!(
        different.is_empty(),
        "real and embedded differ in {} answers:\n{}",
        different.len(),
        different.join("\n")
    );
    assert_eq!(expected.len(), actual.len());
}

/// The answers without UIDs, times and addresses. Resource versions become their rank.
fn normalize_transcript(transcript: &[Answer]) -> Vec<Value> {
    let mut versions = BTreeSet::new();
    for document in transcript.iter().flat_map(|answer| &answer.documents) {
        collect_versions(document, &mut versions);
    }
    let order: BTreeMap<u64, usize> = versions.into_iter().zip(1..).collect();
    transcript
        .iter()
        .map(|answer| {
            let documents: Vec<Value> =
                answer.documents.iter().map(|document| normalize(document, &order)).collect();
            let request: String = answer.request.chars().take(200).collect();
            json!({"asked": request, "answer": {"status": answer.status, "documents": documents}})
        })
        .collect()
}

fn version_of(metadata: &Value) -> Option<u64> {
    metadata.get("name")?;
    metadata["resourceVersion"].as_str()?.parse().ok()
}

fn collect_versions(value: &Value, versions: &mut BTreeSet<u64>) {
    versions.extend(version_of(&value["metadata"]));
    match value {
        Value::Object(fields) => fields.values().for_each(|field| collect_versions(field, versions)),
        Value::Array(items) => items.iter().for_each(|item| collect_versions(item, versions)),
        _ => {}
    }
}

fn normalize(value: &Value, order: &BTreeMap<u64, usize>) -> Value {
    let mut value = value.clone();
    if value["kind"] == "Status" {
        // The message may differ, but not its details.
        value["message"] = Value::Null;
        if let Some(causes) = value["details"]["causes"].as_array_mut() {
            causes.iter_mut().for_each(|cause| cause["message"] = Value::Null);
            causes.dedup();
        }
    }
    if value["type"] == "BOOKMARK" {
        // Only the resource version matters; the rest of the object has the defaults of its type.
        value["object"]["spec"] = Value::Null;
    }
    if let Some(version) = version_of(&value["metadata"]) {
        value["metadata"]["resourceVersion"] = format!("the {}th", order[&version]).into();
    } else if let Some(list) =
        value["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse::<u64>().ok())
    {
        let items = value["items"].as_array().into_iter().flatten();
        let newest = items.filter_map(|item| version_of(&item["metadata"])).max().unwrap_or(0);
        value["metadata"]["resourceVersion"] = if list >= newest { "new enough" } else { "too old" }.into();
    }
    match &mut value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match name.as_str() {
                    "uid" | "creationTimestamp" | "time" | "continue" | "clusterIP" => {
                        *field = name.as_str().into();
                    }
                    "clusterIPs" => *field = json!(["clusterIP"]),
                    "managedFields" => {
                        // The second of each write varies, so the order is checked against the server's own times.
                        assert_in_order(field);
                        *field = by_manager(normalize(field, order));
                    }
                    _ => *field = normalize(field, order),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = normalize(item, order)),
        _ => {}
    }
    value
}

/// managedFields entries are sorted by time, then by manager.
fn assert_in_order(owners: &Value) {
    let text = |owner: &Value, name: &str| owner[name].as_str().unwrap_or("").to_owned();
    let key = |owner: &Value| (text(owner, "time"), text(owner, "manager"), text(owner, "subresource"));
    assert!(owners.as_array().is_none_or(|owners| owners.is_sorted_by_key(key)), "not in order: {owners}");
}

fn by_manager(mut owners: Value) -> Value {
    if let Some(owners) = owners.as_array_mut() {
        owners.sort_by_key(|owner| (owner["manager"].to_string(), owner["subresource"].to_string()));
    }
    owners
}

fn differences(path: &str, expected: &Value, actual: &Value, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(expected), Value::Object(actual)) => {
            for name in expected.keys().chain(actual.keys().filter(|name| !expected.contains_key(*name))) {
                let null = Value::Null;
                let (a, b) = (expected.get(name).unwrap_or(&null), actual.get(name).unwrap_or(&null));
                differences(&format!("{path}.{name}"), a, b, found);
            }
        }
        (Value::Array(expected), Value::Array(actual)) if expected.len() == actual.len() => {
            for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
                differences(&format!("{path}[{index}]"), expected, actual, found);
            }
        }
        (Value::Array(expected), Value::Array(actual)) => {
            let outline = |items: &[Value]| {
                let names = |item: &Value| {
                    json!([item["type"], item["object"]["metadata"]["name"], item["manager"], item["field"]])
                        .to_string()
                };
                items.iter().map(names).collect::<Vec<_>>().join(" ")
            };
            found.push(format!("{path}: real [{}], embedded [{}]", outline(expected), outline(actual)));
        }
        _ if expected == actual => {}
        _ => found.push(format!("{path}: real {expected}, embedded {actual}")),
    }
}
