//! Objects as the rows that `kubectl get` prints.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{list::Page, resource::Resource, store::Stored};

/// What rows hold.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// `None`, `Metadata` or `Object`: what comes with each row.
    pub(super) include: String,
    pub(super) now: Timestamp,
}

impl Table {
    /// The table of some objects; of a page with what is needed to go on.
    pub(super) fn of(&self, resource: &Resource, objects: &[&Stored], page: Option<&Page>) -> Value {
        let version = match (page, objects) {
            (Some(page), _) => page.version.to_string(),
            (None, [object]) => {
                object.value()["metadata"]["resourceVersion"].as_str().unwrap_or("").to_owned()
            }
            (None, _) => String::new(),
        };
        let mut metadata = json!({"resourceVersion": version});
        if let Some(page) = page.filter(|page| !page.next.is_empty()) {
            metadata["continue"] = page.next.as_str().into();
            if let Some(remaining) = page.remaining {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        let rows: Vec<Value> = objects.iter().map(|object| self.row(resource, &object.value())).collect();
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "columnDefinitions": columns(resource), "rows": rows,
        })
    }

    fn row(&self, resource: &Resource, object: &Value) -> Value {
        let mut row = json!({"cells": cells(resource, object, self.now)});
        match &*self.include {
            "None" => {}
            "Object" => row["object"] = object.clone(),
            _ => {
                row["object"] = json!({
                    "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
                });
            }
        }
        row
    }
}

/// Name and priority of each column; those above 0 are for `-o wide`.
fn columns(resource: &Resource) -> Vec<Value> {
    let names: &[(&str, u8)] = match resource.kind {
        "Deployment" => &[
            ("Name", 0),
            ("Ready", 0),
            ("Up-to-date", 0),
            ("Available", 0),
            ("Age", 0),
            ("Containers", 1),
            ("Images", 1),
            ("Selector", 1),
        ],
        "Service" => &[
            ("Name", 0),
            ("Type", 0),
            ("Cluster-IP", 0),
            ("External-IP", 0),
            ("Port(s)", 0),
            ("Age", 0),
            ("Selector", 1),
        ],
        "Secret" => &[("Name", 0), ("Type", 0), ("Data", 0), ("Age", 0)],
        "ConfigMap" => &[("Name", 0), ("Data", 0), ("Age", 0)],
        "Lease" => &[("Name", 0), ("Holder", 0), ("Age", 0)],
        "NetworkPolicy" => &[("Name", 0), ("Pod-Selector", 0), ("Age", 0)],
        "HorizontalPodAutoscaler" => {
            &[("Name", 0), ("Reference", 0), ("MinPods", 0), ("MaxPods", 0), ("Replicas", 0), ("Age", 0)]
        }
        "Ingress" => &[("Name", 0), ("Class", 0), ("Hosts", 0), ("Age", 0)],
        "Namespace" => &[("Name", 0), ("Status", 0), ("Age", 0)],
        _ => &[("Name", 0), ("Age", 0)],
    };
    let column = |(name, priority): &(&str, u8)| {
        let format = if *name == "Name" { "name" } else { "" };
        json!({"name": name, "type": "string", "format": format, "description": "", "priority": priority})
    };
    names.iter().map(column).collect()
}

fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Value {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    let count = |value: &Value| value.as_i64().unwrap_or(0);
    let age = age(metadata["creationTimestamp"].as_str(), now);
    match resource.kind {
        "Deployment" => {
            let ready = format!("{}/{}", count(&status["readyReplicas"]), count(&spec["replicas"]));
            let containers = &spec["template"]["spec"]["containers"];
            json!([
                metadata["name"],
                ready,
                count(&status["updatedReplicas"]),
                count(&status["availableReplicas"]),
                age,
                joined(containers, "name"),
                joined(containers, "image"),
                pairs(&spec["selector"]["matchLabels"]),
            ])
        }
        "Service" => {
            let ip = spec["clusterIP"].as_str().unwrap_or("<none>");
            json!([
                metadata["name"],
                spec["type"],
                ip,
                "<none>",
                ports(&spec["ports"]),
                age,
                pairs(&spec["selector"])
            ])
        }
        "Secret" => json!([metadata["name"], object["type"], size(&object["data"]), age]),
        "ConfigMap" => {
            json!([metadata["name"], size(&object["data"]) + size(&object["binaryData"]), age])
        }
        "Lease" => json!([metadata["name"], spec["holderIdentity"].as_str().unwrap_or(""), age]),
        "NetworkPolicy" => json!([metadata["name"], pairs(&spec["podSelector"]["matchLabels"]), age]),
        "HorizontalPodAutoscaler" => {
            let target = &spec["scaleTargetRef"];
            let text = |name: &str| target[name].as_str().unwrap_or("");
            let reference = format!("{}/{}", text("kind"), text("name"));
            let replicas = count(&status["currentReplicas"]);
            json!([metadata["name"], reference, spec["minReplicas"], spec["maxReplicas"], replicas, age])
        }
        "Ingress" => {
            let class = spec["ingressClassName"].as_str().unwrap_or("<none>");
            json!([metadata["name"], class, joined(&spec["rules"], "host"), age])
        }
        "Namespace" => json!([metadata["name"], status["phase"], age]),
        _ => json!([metadata["name"], age]),
    }
}

fn size(map: &Value) -> usize {
    map.as_object().map_or(0, serde_json::Map::len)
}

fn joined(list: &Value, field: &str) -> String {
    let texts = list.as_array().into_iter().flatten().filter_map(|element| element[field].as_str());
    texts.collect::<Vec<_>>().join(",")
}

fn pairs(labels: &Value) -> String {
    let pairs = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or("")));
    let text = pairs.collect::<Vec<_>>().join(",");
    if text.is_empty() { "<none>".to_owned() } else { text }
}

fn ports(ports: &Value) -> String {
    let ports = ports.as_array().into_iter().flatten();
    let texts: Vec<String> = ports
        .map(|port| format!("{}/{}", port["port"], port["protocol"].as_str().unwrap_or("TCP")))
        .collect();
    if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") }
}

/// As kubectl writes it: two units while the first is small.
fn age(created: Option<&str>, now: Timestamp) -> String {
    let Some(created) = created.and_then(|text| text.parse::<Timestamp>().ok()) else {
        return "<unknown>".to_owned();
    };
    let seconds = now.duration_since(created).as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 != 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..28_800 if minutes % 60 != 0 => format!("{hours}h{}m", minutes % 60),
        10_800..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}
