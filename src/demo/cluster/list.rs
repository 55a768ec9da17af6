//! Lists: selection, pagination at one resource version, and the tables that `kubectl get` prints.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    Cluster,
    errors::StatusError,
    resources::Resource,
    routes::QueryParameters,
    store::{StoreKey, StoredObject},
};
use crate::types;

#[derive(Debug)]
pub(super) struct ListPage {
    pub(super) resource_version: u64,
    pub(super) items: Vec<Arc<StoredObject>>,
    /// The token for the next page; empty on the last page.
    pub(super) continue_token: String,
    /// Unset for a list with a selector, as in the real API server.
    pub(super) remaining_item_count: Option<usize>,
}

impl Cluster {
    pub(super) fn list_page(
        &self,
        resource: &Resource,
        selector: &ObjectSelector,
        parameters: &QueryParameters,
    ) -> Result<ListPage, StatusError> {
        let (requested, after) = match &*parameters.r#continue {
            "" => (parameters.requested_version()?, None),
            token => {
                let (resource_version, key) = parse_continue_token(resource, token)?;
                ((resource_version != LATEST).then_some(resource_version), Some(key))
            }
        };
        let store = self.lock();
        let current_version = store.resource_version();
        let exact = (requested.is_some() && after.is_some()) || parameters.resource_version_match == "Exact";
        let (resource_version, objects) = match requested {
            Some(version) if version > current_version => {
                return Err(StatusError::too_large_resource_version(version, current_version));
            }
            Some(version) if exact => {
                let objects = store.objects_at(&resource.group_resource(), version);
                (version, objects.map_err(|_| expired_list(after.as_ref()))?)
            }
            Some(_) | None => (current_version, store.objects(&resource.group_resource())),
        };
        drop(store);
        // The real API server serves `resourceVersion=0` from its watch cache and ignores the limit.
        let limit = if requested == Some(0) { None } else { parameters.limit()? };
        let mut matching = objects
            .into_iter()
            .filter(|(key, _)| after.as_ref().is_none_or(|after| key > after))
            .filter(|(_, stored)| selector.matches(&stored.selectable()));
        let page: Vec<_> = matching.by_ref().take(limit.unwrap_or(usize::MAX)).collect();
        let remaining = matching.count();
        let continue_token = match page.last() {
            Some((last, _)) if remaining > 0 => continue_token(resource_version, last),
            _ => String::new(),
        };
        Ok(ListPage {
            resource_version,
            items: page.into_iter().map(|(_, stored)| stored).collect(),
            continue_token,
            remaining_item_count: (remaining > 0 && !selector.has_requirements()).then_some(remaining),
        })
    }
}

/// A continue token with this resource version continues at the latest one.
const LATEST: u64 = 0;

fn continue_token(resource_version: u64, last: &StoreKey) -> String {
    format!("{resource_version}/{}/{}", last.namespace, last.name)
}

/// A client in the middle of a list gets a token that continues inconsistently, at the latest resource version.
fn expired_list(after: Option<&StoreKey>) -> StatusError {
    let error = StatusError::expired(EXPIRED_CONTINUE_TOKEN);
    match after {
        Some(last) => error.with_continue(&continue_token(LATEST, last)),
        None => error,
    }
}

const EXPIRED_CONTINUE_TOKEN: &str = "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.";

fn parse_continue_token(resource: &Resource, token: &str) -> Result<(u64, StoreKey), StatusError> {
    let mut parts = token.splitn(3, '/');
    let resource_version = parts.next().and_then(|version| version.parse().ok());
    match (resource_version, parts.next(), parts.next()) {
        (Some(resource_version), Some(namespace), Some(name)) => {
            Ok((resource_version, StoreKey::new(resource, namespace, name)))
        }
        _ => Err(StatusError::bad_request("invalid continue token: continue key is not valid")),
    }
}

/// Selects the objects of a list or watch by namespace, labels and fields.
#[derive(Clone, Debug, Default)]
pub(super) struct ObjectSelector {
    namespace: Option<String>,
    labels: Option<types::Selector>,
    fields: Vec<FieldRequirement>,
}

#[derive(Clone, Debug)]
struct FieldRequirement {
    /// `name` or `namespace`, a field of the metadata.
    field: &'static str,
    value: String,
    is_equal: bool,
}

impl ObjectSelector {
    pub(super) fn parse(namespace: Option<&str>, labels: &str, fields: &str) -> Result<Self, StatusError> {
        let namespace = namespace.map(str::to_owned);
        let labels = types::Selector::parse(labels)
            .map_err(|error| StatusError::bad_request(format!("unable to parse requirement: {error}")))?;
        Ok(Self {
            namespace,
            labels: Some(labels).filter(|labels| !labels.is_empty()),
            fields: parse_field_selector(fields)?,
        })
    }

    /// Whether there is a label or field selector.
    pub(super) fn has_requirements(&self) -> bool {
        self.labels.is_some() || !self.fields.is_empty()
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or("");
        self.namespace.as_deref().is_none_or(|namespace| namespace == text("namespace"))
            && self
                .labels
                .as_ref()
                .is_none_or(|labels| labels.matches(|key| metadata["labels"][key].as_str()))
            && self
                .fields
                .iter()
                .all(|requirement| (text(requirement.field) == requirement.value) == requirement.is_equal)
    }
}

fn parse_field_selector(text: &str) -> Result<Vec<FieldRequirement>, StatusError> {
    let parse = |requirement: &str| {
        let (field, value, is_equal) = if let Some((field, value)) = requirement.split_once("!=") {
            (field, value, false)
        } else if let Some((field, value)) =
            requirement.split_once("==").or_else(|| requirement.split_once('='))
        {
            (field, value, true)
        } else {
            return Err(StatusError::bad_request(format!(
                "invalid selector: '{requirement}'; can't understand '{requirement}'"
            )));
        };
        let field = match field {
            "metadata.name" => "name",
            "metadata.namespace" => "namespace",
            _ => {
                return Err(StatusError::bad_request(format!(
                    "\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                )));
            }
        };
        Ok(FieldRequirement { field, value: value.to_owned(), is_equal })
    };
    text.split(',').filter(|requirement| !requirement.is_empty()).map(parse).collect()
}

/// Prints objects as a `Table` of `meta.k8s.io/v1`.
#[derive(Clone, Debug)]
pub(super) struct TablePrinter {
    /// The `includeObject` parameter: `None`, `Metadata` or `Object`.
    pub(super) include_object: String,
    pub(super) now: Timestamp,
}

impl TablePrinter {
    /// The table of a page has the list metadata of the page, that of a single object its resource version.
    pub(super) fn render(
        &self,
        resource: &Resource,
        objects: &[&StoredObject],
        page: Option<&ListPage>,
    ) -> Value {
        let resource_version = match (page, objects) {
            (Some(page), _) => page.resource_version.to_string(),
            (None, [object]) => {
                object.to_value()["metadata"]["resourceVersion"].as_str().unwrap_or("").to_owned()
            }
            (None, _) => String::new(),
        };
        let mut metadata = json!({"resourceVersion": resource_version});
        if let Some(page) = page.filter(|page| !page.continue_token.is_empty()) {
            metadata["continue"] = page.continue_token.as_str().into();
            if let Some(remaining) = page.remaining_item_count {
                metadata["remainingItemCount"] = remaining.into();
            }
        }
        let rows: Vec<Value> = objects.iter().map(|object| self.row(resource, &object.to_value())).collect();
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "columnDefinitions": column_definitions(resource), "rows": rows,
        })
    }

    fn row(&self, resource: &Resource, object: &Value) -> Value {
        let mut row = json!({"cells": cells(resource, object, self.now)});
        match &*self.include_object {
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

/// Columns with a priority above 0 are printed with `-o wide` only.
fn column_definitions(resource: &Resource) -> Vec<Value> {
    let columns: &[(&str, u8)] = match resource.kind {
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
    columns.iter().map(column).collect()
}

fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Value {
    let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
    let count = |value: &Value| value.as_i64().unwrap_or(0);
    let age = format_age(metadata["creationTimestamp"].as_str(), now);
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
                join_field(containers, "name"),
                join_field(containers, "image"),
                format_labels(&spec["selector"]["matchLabels"]),
            ])
        }
        "Service" => {
            let ip = spec["clusterIP"].as_str().unwrap_or("<none>");
            json!([
                metadata["name"],
                spec["type"],
                ip,
                "<none>",
                format_ports(&spec["ports"]),
                age,
                format_labels(&spec["selector"])
            ])
        }
        "Secret" => json!([metadata["name"], object["type"], map_len(&object["data"]), age]),
        "ConfigMap" => {
            json!([metadata["name"], map_len(&object["data"]) + map_len(&object["binaryData"]), age])
        }
        "Lease" => json!([metadata["name"], spec["holderIdentity"].as_str().unwrap_or(""), age]),
        "NetworkPolicy" => json!([metadata["name"], format_labels(&spec["podSelector"]["matchLabels"]), age]),
        "HorizontalPodAutoscaler" => {
            let target = &spec["scaleTargetRef"];
            let text = |name: &str| target[name].as_str().unwrap_or("");
            let reference = format!("{}/{}", text("kind"), text("name"));
            let replicas = count(&status["currentReplicas"]);
            json!([metadata["name"], reference, spec["minReplicas"], spec["maxReplicas"], replicas, age])
        }
        "Ingress" => {
            let class = spec["ingressClassName"].as_str().unwrap_or("<none>");
            json!([metadata["name"], class, join_field(&spec["rules"], "host"), age])
        }
        "Namespace" => json!([metadata["name"], status["phase"], age]),
        _ => json!([metadata["name"], age]),
    }
}

fn map_len(map: &Value) -> usize {
    map.as_object().map_or(0, Map::len)
}

fn join_field(list: &Value, field: &str) -> String {
    let texts = list.as_array().into_iter().flatten().filter_map(|element| element[field].as_str());
    texts.collect::<Vec<_>>().join(",")
}

fn format_labels(labels: &Value) -> String {
    let pairs = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or("")));
    let text = pairs.collect::<Vec<_>>().join(",");
    if text.is_empty() { "<none>".to_owned() } else { text }
}

fn format_ports(ports: &Value) -> String {
    let ports = ports.as_array().into_iter().flatten();
    let texts: Vec<String> = ports
        .map(|port| format!("{}/{}", port["port"], port["protocol"].as_str().unwrap_or("TCP")))
        .collect();
    if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") }
}

/// As `HumanDuration` of the API machinery: two units while the first is small.
fn format_age(created: Option<&str>, now: Timestamp) -> String {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ObjectSelector;

    #[track_caller]
    fn check(labels: &str, fields: &str, matches: bool) {
        let object =
            json!({"metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web", "a/b": "1"}}});
        let selector = ObjectSelector::parse(None, labels, fields).unwrap();
        assert_eq!(selector.matches(&object), matches, "{labels} {fields}");
    }

    #[test]
    fn selector_requires_labels_and_fields() {
        check("app=web", "", true);
        check("!app", "", false);
        check("app in (x, web),a/b=1", "metadata.namespace!=default", true);
        check("app", "metadata.namespace!=shop", false);
        check("", "metadata.name=web,metadata.namespace!=default", true);
        check("", "metadata.name!=web", false);
    }

    #[test]
    fn malformed_selectors_are_rejected() {
        for (labels, fields) in
            [("a b", ""), ("app in web", ""), ("=x", ""), ("", "spec.x=1"), ("", "metadata.name")]
        {
            assert!(ObjectSelector::parse(None, labels, fields).is_err(), "{labels} {fields}");
        }
    }
}
