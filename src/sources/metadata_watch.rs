//! A cache of the objects that store baselines: the metadata of Secrets and ConfigMaps, and Leases.
//!
//! [`MetadataCache`] is all that sources see: its content, a wake-up for each update, and the failures of its watches.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use kube::{Client, api::ObjectMeta};
use serde::Deserialize;
use tokio::{sync::mpsc, task::JoinSet};

use crate::{
    types::{
        Clock, DownReason, Kind, NamespacedName, Scope, Selector, SyncHealth, WatchMode, WatchSpec, shorten,
    },
    watch::{
        ApiError, MalformedResponse, Operation, ReceiverClosed, Representation, WatchHandler, WatchMetrics,
        Watcher, WatcherConfig, WatcherEvent,
    },
};

/// How long to wait for the response to a single request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
const UPDATE_QUEUE: usize = 64;
/// The annotation in which Terraform describes the holder of a lock.
const LOCK_INFO: &str = "app.terraform.io/lock-info";

/// Selects objects in all watched namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectQuery {
    pub(super) resource: StorageResource,
    pub(super) selector: Selector,
    /// The labels to cache.
    pub(super) labels: Vec<Box<str>>,
}

/// The resources that store baselines and their locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StorageResource {
    Secrets,
    ConfigMaps,
    Leases,
}

impl StorageResource {
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Secrets => "Secret",
            Self::ConfigMaps => "ConfigMap",
            Self::Leases => "Lease",
        }
    }

    fn watched_kind(self) -> Kind {
        let (group, plural) = match self {
            Self::Secrets => ("", "secrets"),
            Self::ConfigMaps => ("", "configmaps"),
            Self::Leases => ("coordination.k8s.io", "leases"),
        };
        Kind { plural: plural.into(), ..Kind::undiscovered(group, "v1", self.kind()) }
    }
}

/// The cached part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectMetadata {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) resource_version: Box<str>,
    /// Those that the query names.
    pub(super) labels: BTreeMap<String, String>,
    pub(super) last_write: Option<Timestamp>,
    pub(super) created: Option<Timestamp>,
    /// For a Lease that has a holder: the description of the lock.
    pub(super) lock_info: Option<LockInfo>,
}

/// Terraform's description of a lock, shortened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LockInfo {
    pub(super) operation: Box<str>,
    pub(super) who: Box<str>,
    pub(super) created: Option<Timestamp>,
}

impl LockInfo {
    /// Parses the text of Terraform. Empty if the text is invalid.
    pub(super) fn parse(text: &str) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "PascalCase", default)]
        struct Info<'a> {
            #[serde(borrow)]
            operation: Cow<'a, str>,
            #[serde(borrow)]
            who: Cow<'a, str>,
            #[serde(borrow)]
            created: Cow<'a, str>,
        }
        let Info { operation, who, created } = serde_json::from_str(text).unwrap_or_default();
        Self {
            operation: shorten(&operation).into(),
            who: shorten(&who).into(),
            created: created.parse().ok(),
        }
    }
}

/// The namespaces with objects that were added, modified or deleted.
pub(super) enum ChangedNamespaces {
    All,
    Only(BTreeSet<Box<str>>),
}

impl ChangedNamespaces {
    pub(super) fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(namespaces) => namespaces.contains(namespace),
        }
    }
}

/// Objects as they were last listed and watched. Dropping the cache ends its watches.
pub(super) struct MetadataCache {
    partitions: Vec<Partition>,
    updates: mpsc::Receiver<(usize, Update)>,
    changed: Option<ChangedNamespaces>,
    _watches: JoinSet<()>,
}

type Update = WatcherEvent<ObjectMetadata>;

type ObjectsByName = BTreeMap<NamespacedName, ObjectMetadata>;

/// The objects of one watch: of a query in one namespace, or in all of them.
struct Partition {
    query: ObjectQuery,
    namespace: Option<Box<str>>,
    /// `None` before the first list.
    objects: Option<ObjectsByName>,
    /// The part of a list that has arrived.
    listed: ObjectsByName,
    failure: Option<ApiFailure>,
}

impl MetadataCache {
    /// Lists and watches these objects within a scope.
    pub(super) fn start(client: &Client, queries: Vec<ObjectQuery>, scope: &Scope, mode: WatchMode) -> Self {
        let (sender, updates) = mpsc::channel(UPDATE_QUEUE);
        let (namespaces, excluded) = match scope {
            Scope::AllExcept(excluded) => (vec![None], excluded.iter().cloned().collect()),
            Scope::In(names) => (names.iter().cloned().map(Some).collect(), Vec::new()),
        };
        let metrics = WatchMetrics::unregistered(Clock::system());
        let config = WatcherConfig { mode, ..WatcherConfig::default() };
        let (mut watches, mut partitions) = (JoinSet::new(), Vec::new());
        for query in queries {
            for namespace in namespaces.clone() {
                let spec = WatchSpec {
                    namespace: namespace.clone(),
                    excluded: excluded.clone(),
                    selector: Some(query.selector.clone()),
                    ..WatchSpec::all(Arc::new(query.resource.watched_kind()))
                };
                let metrics = metrics.for_kind(&spec.kind);
                let (partition, updates) = (partitions.len(), sender.clone());
                let ObjectQuery { resource, labels, .. } = query.clone();
                let handler = PartitionHandler { partition, resource, labels, updates };
                watches.spawn(Watcher::new(Arc::new(spec), client.clone(), config, metrics, handler).run());
                let (query, listed) = (query.clone(), BTreeMap::new());
                partitions.push(Partition { query, namespace, objects: None, listed, failure: None });
            }
        }
        Self { partitions, updates, changed: None, _watches: watches }
    }

    /// Waits for the next change of the content or of the failures, and applies it. Safe to cancel. Also returns after the
    /// last update in the queue: the caller waits with other work until the queue is empty.
    pub(super) async fn update(&mut self) {
        while let Some((partition, update)) = self.updates.recv().await {
            if self.apply(partition, update) || self.updates.is_empty() {
                return;
            }
        }
        // Nothing is watched.
        std::future::pending::<()>().await;
    }

    /// Returns whether sources see a change.
    fn apply(&mut self, partition: usize, update: Update) -> bool {
        let partition = &mut self.partitions[partition];
        let key = |object: &ObjectMetadata| NamespacedName {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        };
        let namespace = match update {
            Update::ListStarted => {
                partition.listed.clear();
                return false;
            }
            Update::Listed(object) => {
                partition.listed.insert(key(&object), object);
                return false;
            }
            Update::ListEnded => {
                partition.objects = Some(std::mem::take(&mut partition.listed));
                partition.failure = None;
                self.changed = Some(ChangedNamespaces::All);
                return true;
            }
            Update::Applied(object) => {
                let namespace = object.namespace.clone();
                partition.objects.get_or_insert_default().insert(key(&object), object);
                namespace
            }
            Update::Deleted(object) => {
                partition.objects.get_or_insert_default().remove(&key(&object));
                object.namespace
            }
            Update::Up => {
                partition.failure = None;
                return true;
            }
            Update::Failed(operation, error) => {
                partition.failure = Some(ApiFailure::new(&error, &partition.describe(operation)));
                return true;
            }
            Update::Interrupted => return false,
        };
        match self.changed.get_or_insert_with(|| ChangedNamespaces::Only(BTreeSet::new())) {
            ChangedNamespaces::All => {}
            ChangedNamespaces::Only(namespaces) => drop(namespaces.insert(namespace)),
        }
        true
    }

    /// The changes since the last call. Baselines get their names and shares in order, so none before all lists ended or failed.
    pub(super) fn take_changed(&mut self) -> Option<ChangedNamespaces> {
        if self.has_synced_or_failed() { self.changed.take() } else { None }
    }

    /// Whether updates wait to be applied.
    pub(super) fn has_updates(&self) -> bool {
        !self.updates.is_empty()
    }

    /// Whether every watch has either listed its objects or failed to.
    pub(super) fn has_synced_or_failed(&self) -> bool {
        self.partitions.iter().all(|partition| partition.objects.is_some() || partition.failure.is_some())
    }

    pub(super) fn failures(&self) -> impl Iterator<Item = &ApiFailure> {
        self.partitions.iter().filter_map(|partition| partition.failure.as_ref())
    }

    /// Whether the objects of a namespace have been listed, so that one that is not cached does not exist.
    pub(super) fn has_listed(&self, query: &ObjectQuery, namespace: &str) -> bool {
        self.partitions_of(query).any(|partition| {
            partition.namespace.as_deref().is_none_or(|watched| watched == namespace)
                && partition.objects.is_some()
        })
    }

    pub(super) fn objects(&self, query: &ObjectQuery) -> impl Iterator<Item = &ObjectMetadata> {
        self.partitions_of(query).flat_map(|partition| partition.objects.iter().flat_map(BTreeMap::values))
    }

    pub(super) fn get(&self, query: &ObjectQuery, namespace: &str, name: &str) -> Option<&ObjectMetadata> {
        let key = NamespacedName { namespace: namespace.into(), name: name.into() };
        self.partitions_of(query).find_map(|partition| partition.objects.as_ref()?.get(&key))
    }

    fn partitions_of(&self, query: &ObjectQuery) -> impl Iterator<Item = &Partition> {
        self.partitions.iter().filter(move |partition| partition.query == *query)
    }
}

impl Partition {
    /// The request in messages: `list Secrets with label tfstate=true in namespace shop`.
    fn describe(&self, operation: Operation) -> String {
        let verb = match operation {
            Operation::List => "list",
            Operation::Watch => "watch",
        };
        let namespaces = self.namespace.as_deref();
        let namespaces = namespaces.map_or("all namespaces".to_owned(), |name| format!("namespace {name}"));
        let ObjectQuery { resource, selector, .. } = &self.query;
        format!("{verb} {}s with label {selector} in {namespaces}", resource.kind())
    }
}

/// Sends the events of one watch to the cache.
struct PartitionHandler {
    partition: usize,
    resource: StorageResource,
    labels: Vec<Box<str>>,
    updates: mpsc::Sender<(usize, Update)>,
}

impl WatchHandler for PartitionHandler {
    type Object = ObjectMetadata;

    fn representation(&self) -> Representation {
        match self.resource {
            StorageResource::Secrets | StorageResource::ConfigMaps => Representation::MetadataOnly,
            StorageResource::Leases => Representation::Full,
        }
    }

    /// The source logs the failures of all its watches together.
    fn logs_failures(&self) -> bool {
        true
    }

    fn decode(&self, json: &[u8]) -> Result<ObjectMetadata, ApiError> {
        let object = serde_json::from_slice::<StorageObject>(json);
        // The message of the error may quote a secret.
        let malformed = |error: serde_json::Error| {
            let (kind, column) = (self.resource.kind(), error.column());
            ApiError::Malformed(MalformedResponse::Object { kind, column })
        };
        let mut object = object.map(ObjectMetadata::from).map_err(malformed)?;
        object.labels.retain(|name, _| self.labels.iter().any(|label| **label == *name));
        Ok(object)
    }

    fn resource_version(object: &ObjectMetadata) -> Option<&str> {
        Some(&object.resource_version)
    }

    async fn handle(&self, event: Update) -> Result<(), ReceiverClosed> {
        self.updates.send((self.partition, event)).await.map_err(|_| ReceiverClosed)
    }

    async fn closed(&self) {
        self.updates.closed().await;
    }
}

#[derive(Deserialize)]
struct StorageObject {
    metadata: ObjectMeta,
    /// Only for Leases.
    #[serde(default)]
    spec: LeaseSpec,
}

impl From<StorageObject> for ObjectMetadata {
    fn from(StorageObject { metadata, spec }: StorageObject) -> Self {
        let is_held = spec.holder_identity.is_some_and(|holder| !holder.is_empty());
        let annotation = metadata.annotations.as_ref().and_then(|annotations| annotations.get(LOCK_INFO));
        Self {
            lock_info: is_held.then(|| annotation.map(|text| LockInfo::parse(text)).unwrap_or_default()),
            last_write: last_write(&metadata),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            namespace: metadata.namespace.unwrap_or_default().into(),
            name: metadata.name.unwrap_or_default().into(),
            resource_version: metadata.resource_version.unwrap_or_default().into(),
            labels: metadata.labels.unwrap_or_default(),
        }
    }
}

/// The newest time in `managedFields`, else the creation time.
pub(super) fn last_write(metadata: &ObjectMeta) -> Option<Timestamp> {
    let managed = metadata.managed_fields.iter().flatten();
    let newest = managed.filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max();
    newest.or(metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// A failed request to the API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(super) struct ApiFailure {
    pub(super) reason: DownReason,
    pub(super) message: Box<str>,
}

impl ApiFailure {
    /// `request` is the request in words: `list Secrets with label tfstate=true in namespace shop`.
    pub(super) fn new(error: &ApiError, request: &str) -> Self {
        let cause = match error {
            ApiError::Status { message, .. } => message.clone(),
            ApiError::Connection(error) => error.to_string(),
            ApiError::Stalled(_) => "the API server does not respond".to_owned(),
            // The error may quote a secret.
            ApiError::Malformed(_) => "the response is malformed".to_owned(),
            ApiError::Gone | ApiError::RolledBack | ApiError::Closed => error.to_string(),
        };
        let reason = match error {
            ApiError::Status { status, .. } if *status == 401 => DownReason::Forbidden,
            error => error.down_reason(),
        };
        let hint = if reason == DownReason::Forbidden {
            "; grant this permission (`drift-exporter check` lists all that are required)"
        } else {
            ""
        };
        Self { reason, message: format!("cannot {request}: {cause}{hint}").into() }
    }
}

/// Down if there is any failure. Missing permissions come first, since an administrator has to act on them.
pub(super) fn health_of(mut failures: Vec<&ApiFailure>) -> SyncHealth {
    failures.sort_by_key(|failure| (failure.reason, &failure.message));
    failures.dedup();
    let Some(first) = failures.first() else { return SyncHealth::Up };
    let messages: Vec<&str> = failures.iter().map(|failure| &*failure.message).collect();
    SyncHealth::Down { reason: first.reason, message: messages.join("; ").into() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::{LockInfo, PartitionHandler, StorageResource, WatchHandler as _};

    #[test]
    fn only_the_used_parts_of_labels_and_annotations_are_cached() {
        let long = "x".repeat(200 << 10);
        let info = json!({"Operation": "OperationTypeApply", "Who": long, "Info": long, "Created": "2026-01-01T00:00:00Z"});
        let lease = json!({"spec": {"holderIdentity": "1"}, "metadata": {
            "namespace": "shop", "name": "lock-a", "labels": {"status": "deployed", "other": "x"},
            "annotations": {"app.terraform.io/lock-info": info.to_string(), "note": long},
        }});
        let (updates, _receiver) = mpsc::channel(1);
        let labels = vec!["status".into()];
        let handler = PartitionHandler { partition: 0, resource: StorageResource::Leases, labels, updates };
        let object = handler.decode(lease.to_string().as_bytes()).unwrap();
        assert_eq!(object.labels, [("status".to_owned(), "deployed".to_owned())].into());
        let LockInfo { operation, who, created } = object.lock_info.clone().unwrap();
        assert_eq!((&*operation, created), ("OperationTypeApply", "2026-01-01T00:00:00Z".parse().ok()));
        assert!(who.starts_with("xxx") && format!("{object:?}").len() < 2000);
    }
}
