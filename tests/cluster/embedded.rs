//! The embedded cluster answers as the real one does: the same requests, asked of both.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::{
    script::{Answer, Server, come_back, play},
    support::{cluster::Cluster, embedded::Embedded},
};

#[test]
fn the_embedded_cluster_answers_as_the_real_one() {
    let mut cluster = Cluster::start();
    let mut real = Server::new(cluster.client());
    let old = cluster.block_on(play(&mut real));
    // It remembers what it has in its own memory, too, until it starts anew.
    cluster.compact();
    cluster.kill_apiserver();
    cluster.start_apiserver();
    cluster.block_on(come_back(&mut real, &old));
    let embedded = cluster.block_on(Embedded::start());
    let mut own = Server::new(cluster.block_on(async { embedded.client() }));
    let old = cluster.block_on(play(&mut own));
    embedded.cluster.compact();
    cluster.block_on(come_back(&mut own, &old));

    let (wanted, got) = (normal(&real.transcript), normal(&own.transcript));
    assert!(wanted.len() > 100, "{}", wanted.len());
    let mut different = Vec::new();
    for (wanted, got) in wanted.iter().zip(&got) {
        if wanted["answer"] != got["answer"] {
            let mut found = Vec::new();
            differences("", &wanted["answer"], &got["answer"], &mut found);
            different.push(format!("{}\n    {}", wanted["asked"].as_str().unwrap(), found.join("\n    ")));
        }
    }
    assert!(
        different.is_empty(),
        "real and embedded differ in {} answers:\n{}",
        different.len(),
        different.join("\n")
    );
    assert_eq!(wanted.len(), got.len());
}

/// The answers without what is different each time: identities, times, addresses; versions by their order.
fn normal(transcript: &[Answer]) -> Vec<Value> {
    let mut versions = BTreeSet::new();
    for document in transcript.iter().flat_map(|answer| &answer.documents) {
        collect_versions(document, &mut versions);
    }
    let order: BTreeMap<u64, usize> = versions.into_iter().zip(1..).collect();
    transcript
        .iter()
        .map(|answer| {
            let documents: Vec<Value> = answer.documents.iter().map(|own| normalised(own, &order)).collect();
            let asked: String = answer.asked.chars().take(200).collect();
            json!({"asked": asked, "answer": {"status": answer.status, "documents": documents}})
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

fn normalised(value: &Value, order: &BTreeMap<u64, usize>) -> Value {
    let mut value = value.clone();
    if value["kind"] == "Status" {
        // The words may be others; what they are about may not.
        value["message"] = Value::Null;
        if let Some(causes) = value["details"]["causes"].as_array_mut() {
            causes.iter_mut().for_each(|cause| cause["message"] = Value::Null);
            causes.dedup();
        }
    }
    if value["type"] == "BOOKMARK" {
        // It tells a version; the rest of its object is what the type has when nothing is set.
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
                        // Which second each wrote in is different each time, so each server is held against its own times.
                        assert_in_order(field);
                        *field = by_manager(normalised(field, order));
                    }
                    _ => *field = normalised(field, order),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = normalised(item, order)),
        _ => {}
    }
    value
}

/// Owners of fields stand by their times, and those of one second by their names.
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

fn differences(path: &str, wanted: &Value, got: &Value, found: &mut Vec<String>) {
    match (wanted, got) {
        (Value::Object(wanted), Value::Object(got)) => {
            for name in wanted.keys().chain(got.keys().filter(|name| !wanted.contains_key(*name))) {
                let null = Value::Null;
                let (a, b) = (wanted.get(name).unwrap_or(&null), got.get(name).unwrap_or(&null));
                differences(&format!("{path}.{name}"), a, b, found);
            }
        }
        (Value::Array(wanted), Value::Array(got)) if wanted.len() == got.len() => {
            for (index, (wanted, got)) in wanted.iter().zip(got).enumerate() {
                differences(&format!("{path}[{index}]"), wanted, got, found);
            }
        }
        (Value::Array(wanted), Value::Array(got)) => {
            let outline = |items: &[Value]| {
                let names = |item: &Value| {
                    json!([item["type"], item["object"]["metadata"]["name"], item["manager"], item["field"]])
                        .to_string()
                };
                items.iter().map(names).collect::<Vec<_>>().join(" ")
            };
            found.push(format!("{path}: real [{}], embedded [{}]", outline(wanted), outline(got)));
        }
        _ if wanted == got => {}
        _ => found.push(format!("{path}: real {wanted}, embedded {got}")),
    }
}
