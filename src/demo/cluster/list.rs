//! Lists: selection, pagination at one resource version, and the tables that `kubectl get` prints.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{
    Cluster,
    errors::StatusError,
    resources::Resource,
    routes::{QueryParameters, partial_object_metadata},
    store::{StoreKey, StoredObject},
};
use crate::types::{self, format_age};

#[derive(Debug)]
pub(super) struct ListPage {
    resource_version: u64,
    pub(super) items: Vec<Arc<StoredObject>>,
    /// The token for the next page; empty on the last page.
    continue_token: String,
    /// Unset for a list with a selector, as in the real API server.
    remaining_item_count: Option<usize>,
}

impl ListPage {
    /// The `metadata` of the list.
    pub(super) fn metadata(&self) -> Value {
        let mut metadata = json!({"resourceVersion": self.resource_version.to_string()});
        if !self.continue_token.is_empty() {
            metadata["continue"] = self.continue_token.as_str().into();
        }
        if let Some(remaining) = self.remaining_item_count {
            metadata["remainingItemCount"] = remaining.into();
        }
        metadata
    }
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
    StatusError::expired(EXPIRED_CONTINUE_TOKEN, after.map(|last| continue_token(LATEST, last)))
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
        let metadata = match (page, objects) {
            (Some(page), _) => page.metadata(),
            (None, [object]) => {
                json!({"resourceVersion": object.to_value()["metadata"]["resourceVersion"]})
            }
            (None, _) => json!({}),
        };
        let columns = columns(resource.kind);
        let definitions: Vec<Value> = columns.iter().map(Column::definition).collect();
        let rows: Vec<Value> = objects.iter().map(|object| self.row(&columns, object)).collect();
        json!({
            "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
            "columnDefinitions": definitions, "rows": rows,
        })
    }

    fn row(&self, columns: &[Column], stored: &StoredObject) -> Value {
        let object = stored.to_value();
        let cells: Vec<Value> = columns.iter().map(|column| (column.cell)(&object, self.now)).collect();
        let mut row = json!({"cells": cells});
        match &*self.include_object {
            "None" => {}
            "Object" => row["object"] = object,
            _ => row["object"] = partial_object_metadata(stored),
        }
        row
    }
}

/// A column of the table that `kubectl get` prints.
struct Column {
    name: &'static str,
    /// Printed with `-o wide` only.
    wide: bool,
    cell: Cell,
}

type Cell = fn(&Value, Timestamp) -> Value;

impl Column {
    fn new(name: &'static str, cell: Cell) -> Self {
        Self { name, wide: false, cell }
    }

    fn definition(&self) -> Value {
        let format = if self.name == "Name" { "name" } else { "" };
        json!({"name": self.name, "type": "string", "format": format, "description": "", "priority": u8::from(self.wide)})
    }
}

/// The columns of a kind: its name, its own columns, its age, and its wide columns.
fn columns(kind: &str) -> Vec<Column> {
    let own: &[(&'static str, Cell)] = match kind {
        "Deployment" => &[
            ("Ready", |object, _| {
                let (status, spec) = (&object["status"], &object["spec"]);
                format!("{}/{}", count(&status["readyReplicas"]), count(&spec["replicas"])).into()
            }),
            ("Up-to-date", |object, _| count(&object["status"]["updatedReplicas"]).into()),
            ("Available", |object, _| count(&object["status"]["availableReplicas"]).into()),
        ],
        "Service" => &[
            ("Type", |object, _| object["spec"]["type"].clone()),
            ("Cluster-IP", |object, _| object["spec"]["clusterIP"].as_str().unwrap_or("<none>").into()),
            ("External-IP", |_, _| "<none>".into()),
            ("Port(s)", |object, _| format_ports(&object["spec"]["ports"]).into()),
        ],
        "Secret" => &[
            ("Type", |object, _| object["type"].clone()),
            ("Data", |object, _| map_len(&object["data"]).into()),
        ],
        "ConfigMap" => {
            &[("Data", |object, _| (map_len(&object["data"]) + map_len(&object["binaryData"])).into())]
        }
        "Lease" => &[("Holder", |object, _| object["spec"]["holderIdentity"].as_str().unwrap_or("").into())],
        "NetworkPolicy" => &[("Pod-Selector", |object, _| {
            format_labels(&object["spec"]["podSelector"]["matchLabels"]).into()
        })],
        "HorizontalPodAutoscaler" => &[
            ("Reference", |object, _| {
                let target = &object["spec"]["scaleTargetRef"];
                let text = |name: &str| target[name].as_str().unwrap_or("");
                format!("{}/{}", text("kind"), text("name")).into()
            }),
            ("MinPods", |object, _| object["spec"]["minReplicas"].clone()),
            ("MaxPods", |object, _| object["spec"]["maxReplicas"].clone()),
            ("Replicas", |object, _| count(&object["status"]["currentReplicas"]).into()),
        ],
        "Ingress" => &[
            ("Class", |object, _| object["spec"]["ingressClassName"].as_str().unwrap_or("<none>").into()),
            ("Hosts", |object, _| join_field(&object["spec"]["rules"], "host").into()),
        ],
        "Namespace" => &[("Status", |object, _| object["status"]["phase"].clone())],
        _ => &[],
    };
    let wide: &[(&'static str, Cell)] = match kind {
        "Deployment" => &[
            ("Containers", |object, _| join_field(containers(object), "name").into()),
            ("Images", |object, _| join_field(containers(object), "image").into()),
            ("Selector", |object, _| format_labels(&object["spec"]["selector"]["matchLabels"]).into()),
        ],
        "Service" => &[("Selector", |object, _| format_labels(&object["spec"]["selector"]).into())],
        _ => &[],
    };
    let name = Column::new("Name", |object, _| object["metadata"]["name"].clone());
    let age = Column::new("Age", |object, now| age(object, now).into());
    let own = own.iter().map(|(name, cell)| Column::new(name, *cell));
    let wide = wide.iter().map(|(name, cell)| Column { wide: true, ..Column::new(name, *cell) });
    [name].into_iter().chain(own).chain([age]).chain(wide).collect()
}

fn count(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn containers(deployment: &Value) -> &Value {
    &deployment["spec"]["template"]["spec"]["containers"]
}

fn map_len(map: &Value) -> usize {
    map.as_object().map_or(0, Map::len)
}

fn join_field(list: &Value, field: &str) -> String {
    let texts = list.as_array().into_iter().flatten().filter_map(|element| element[field].as_str());
    texts.collect::<Vec<_>>().join(",")
}

fn format_labels(labels: &Value) -> String {
    let text = join_labels(labels);
    if text.is_empty() { "<none>".to_owned() } else { text }
}

pub(super) fn join_labels(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let pairs = labels.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or("")));
    pairs.collect::<Vec<_>>().join(",")
}

fn age(object: &Value, now: Timestamp) -> String {
    let created = object["metadata"]["creationTimestamp"].as_str().and_then(|text| text.parse().ok());
    let age = created.map(|created: Timestamp| format_age(now.duration_since(created)));
    age.unwrap_or_else(|| "<unknown>".to_owned())
}

fn format_ports(ports: &Value) -> String {
    let ports = ports.as_array().into_iter().flatten();
    let texts: Vec<String> = ports
        .map(|port| format!("{}/{}", port["port"], port["protocol"].as_str().unwrap_or("TCP")))
        .collect();
    if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") }
}
