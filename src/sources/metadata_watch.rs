//! A cache of the objects that store baselines: the metadata of Secrets and ConfigMaps, and Leases.
//!
//! [`MetadataCache`] is all that sources see: its content, a wake-up for each update, and the failures of its watches.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::Duration,
};

use futures_util::{StreamExt as _, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Client, Resource,
    api::{ListParams, ObjectMeta, PartialObjectMeta, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::types::{DownReason, Scope, WatchHealth, WatchMode};

/// How long the API server keeps a watch open. Short, so that a connection that went silent is soon replaced.
const WATCH_TIMEOUT_SECONDS: u32 = 60;
/// How long to wait for any answer of the API server.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
const PAGE_SIZE: u32 = 200;
const UPDATE_QUEUE: usize = 64;
const MIN_BACKOFF: Duration = Duration::from_millis(500);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// The annotation in which Terraform describes the holder of a lock.
const LOCK_INFO: &str = "app.terraform.io/lock-info";

/// Selects objects in all watched namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectQuery {
    pub(super) resource: StorageResource,
    pub(super) label_selector: String,
}

/// The resources that store baselines and their locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StorageResource {
    Secrets,
    ConfigMaps,
    Leases,
}

/// The cached part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ObjectMetadata {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) last_write: Option<Timestamp>,
    /// For a Lease that has a holder: the description of the lock.
    pub(super) lock_info: Option<Box<str>>,
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
    partitions: BTreeMap<WatchTarget, Partition>,
    updates: mpsc::Receiver<(WatchTarget, Update)>,
    changed: Option<ChangedNamespaces>,
    _watches: JoinSet<()>,
}

/// One list and watch request: a query in one namespace, or in all of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WatchTarget {
    query: ObjectQuery,
    namespace: Option<Box<str>>,
}

/// By namespace and name.
type ObjectsByName = BTreeMap<(Box<str>, Box<str>), ObjectMetadata>;

/// The objects of one watch.
#[derive(Default)]
struct Partition {
    /// `None` before the first list.
    objects: Option<ObjectsByName>,
    failure: Option<ApiFailure>,
}

#[derive(Debug)]
enum Update {
    Listed(Vec<ObjectMetadata>),
    Applied(ObjectMetadata),
    Deleted(ObjectMetadata),
    /// The cached objects stay.
    Failed(ApiFailure),
}

impl MetadataCache {
    /// Lists and watches these objects within a scope.
    pub(super) fn start(client: &Client, queries: Vec<ObjectQuery>, scope: &Scope, mode: WatchMode) -> Self {
        let (sender, updates) = mpsc::channel(UPDATE_QUEUE);
        let (namespaces, field_selector) = match scope {
            Scope::AllExcept(excluded) => {
                let excluded = excluded.iter().map(|name| format!("metadata.namespace!={name}"));
                (vec![None], excluded.collect::<Vec<_>>().join(","))
            }
            Scope::In(names) => (names.iter().cloned().map(Some).collect(), String::new()),
        };
        let (mut watches, mut partitions) = (JoinSet::new(), BTreeMap::new());
        for query in queries {
            for namespace in namespaces.clone() {
                let target = WatchTarget { query: query.clone(), namespace };
                partitions.insert(target.clone(), Partition::default());
                let field_selector = field_selector.clone();
                target.spawn(&mut watches, client.clone(), field_selector, mode, sender.clone());
            }
        }
        Self { partitions, updates, changed: None, _watches: watches }
    }

    /// Waits for the next update and applies it. Safe to cancel.
    pub(super) async fn update(&mut self) {
        match self.updates.recv().await {
            Some((target, update)) => self.apply(target, update),
            // Nothing is watched.
            None => std::future::pending().await,
        }
    }

    fn apply(&mut self, target: WatchTarget, update: Update) {
        let partition = self.partitions.entry(target).or_default();
        let key = |object: &ObjectMetadata| (object.namespace.clone(), object.name.clone());
        let namespace = match update {
            Update::Listed(objects) => {
                let objects = objects.into_iter().map(|object| (key(&object), object)).collect();
                *partition = Partition { objects: Some(objects), failure: None };
                self.changed = Some(ChangedNamespaces::All);
                return;
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
            Update::Failed(failure) => {
                partition.failure = Some(failure);
                return;
            }
        };
        match self.changed.get_or_insert_with(|| ChangedNamespaces::Only(BTreeSet::new())) {
            ChangedNamespaces::All => {}
            ChangedNamespaces::Only(namespaces) => drop(namespaces.insert(namespace)),
        }
    }

    /// The changes since the last call.
    pub(super) fn take_changed(&mut self) -> Option<ChangedNamespaces> {
        self.changed.take()
    }

    /// Whether updates wait to be applied.
    pub(super) fn has_updates(&self) -> bool {
        !self.updates.is_empty()
    }

    /// Whether every watch has either listed its objects or failed to.
    pub(super) fn has_answered(&self) -> bool {
        self.partitions.values().all(|partition| partition.objects.is_some() || partition.failure.is_some())
    }

    pub(super) fn failures(&self) -> impl Iterator<Item = &ApiFailure> {
        self.partitions.values().filter_map(|partition| partition.failure.as_ref())
    }

    /// Whether the objects of a namespace have been listed, so that one that is not cached does not exist.
    pub(super) fn has_listed(&self, query: &ObjectQuery, namespace: &str) -> bool {
        self.partitions_of(query).any(|(target, partition)| {
            target.namespace.as_deref().is_none_or(|watched| watched == namespace)
                && partition.objects.is_some()
        })
    }

    pub(super) fn objects(&self, query: &ObjectQuery) -> impl Iterator<Item = &ObjectMetadata> {
        self.partitions_of(query)
            .flat_map(|(_, partition)| partition.objects.iter().flat_map(BTreeMap::values))
    }

    pub(super) fn get(&self, query: &ObjectQuery, namespace: &str, name: &str) -> Option<&ObjectMetadata> {
        let key = (namespace.into(), name.into());
        self.partitions_of(query).find_map(|(_, partition)| partition.objects.as_ref()?.get(&key))
    }

    fn partitions_of(&self, query: &ObjectQuery) -> impl Iterator<Item = (&WatchTarget, &Partition)> {
        self.partitions.iter().filter(move |(target, _)| target.query == *query)
    }
}

impl WatchTarget {
    fn spawn(
        self,
        watches: &mut JoinSet<()>,
        client: Client,
        field_selector: String,
        mode: WatchMode,
        updates: mpsc::Sender<(Self, Update)>,
    ) {
        let namespace = self.namespace.clone();
        match self.query.resource {
            StorageResource::Secrets => {
                let api = api::<PartialObjectMeta<Secret>>(client, namespace.as_deref());
                let decode = |object: PartialObjectMeta<Secret>| metadata_of(object.metadata, None);
                watches.spawn(Watch { api, decode, target: self, field_selector, mode, updates }.run());
            }
            StorageResource::ConfigMaps => {
                let api = api::<PartialObjectMeta<ConfigMap>>(client, namespace.as_deref());
                let decode = |object: PartialObjectMeta<ConfigMap>| metadata_of(object.metadata, None);
                watches.spawn(Watch { api, decode, target: self, field_selector, mode, updates }.run());
            }
            StorageResource::Leases => {
                let (api, decode) = (api::<Lease>(client, namespace.as_deref()), metadata_of_lease);
                watches.spawn(Watch { api, decode, target: self, field_selector, mode, updates }.run());
            }
        }
    }

    /// The request in messages: `list Secrets with label tfstate=true in namespace shop`.
    fn describe(&self, verb: &str) -> String {
        let resource = match self.query.resource {
            StorageResource::Secrets => "Secrets",
            StorageResource::ConfigMaps => "ConfigMaps",
            StorageResource::Leases => "Leases",
        };
        let namespaces = self.namespace.as_deref();
        let namespaces = namespaces.map_or("all namespaces".to_owned(), |name| format!("namespace {name}"));
        format!("{verb} {resource} with label {} in {namespaces}", self.query.label_selector)
    }
}

fn api<K>(client: Client, namespace: Option<&str>) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    }
}

fn metadata_of_lease(lease: Lease) -> ObjectMetadata {
    let holder = lease.spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty());
    let annotations = lease.metadata.annotations.as_ref();
    let info = annotations.and_then(|annotations| annotations.get(LOCK_INFO)).cloned();
    metadata_of(lease.metadata, holder.map(|_| info.unwrap_or_default().into()))
}

fn metadata_of(metadata: ObjectMeta, lock_info: Option<Box<str>>) -> ObjectMetadata {
    let last_write = last_write(&metadata);
    ObjectMetadata {
        namespace: metadata.namespace.unwrap_or_default().into(),
        name: metadata.name.unwrap_or_default().into(),
        resource_version: metadata.resource_version.unwrap_or_default().into(),
        labels: metadata.labels.unwrap_or_default(),
        last_write,
        lock_info,
    }
}

/// The newest time in `managedFields`, else the creation time.
pub(super) fn last_write(metadata: &ObjectMeta) -> Option<Timestamp> {
    let managed = metadata.managed_fields.iter().flatten();
    let newest = managed.filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max();
    newest.or(metadata.creation_timestamp.as_ref().map(|time| time.0))
}

/// The list/watch loop behind one partition of the cache.
struct Watch<K, D> {
    api: Api<K>,
    decode: D,
    target: WatchTarget,
    field_selector: String,
    mode: WatchMode,
    updates: mpsc::Sender<(WatchTarget, Update)>,
}

impl<K, D> Watch<K, D>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    D: Fn(K) -> ObjectMetadata + Send + Sync,
{
    /// Lists and watches until the cache is dropped.
    async fn run(self) {
        let mut backoff = MIN_BACKOFF;
        loop {
            let begun = Instant::now();
            if let Err(failure) = self.list_and_watch().await {
                self.send(Update::Failed(failure)).await;
            }
            let was_stable = begun.elapsed() > MAX_BACKOFF;
            backoff = if was_stable { MIN_BACKOFF } else { (backoff * 2).min(MAX_BACKOFF) };
            sleep(backoff.mul_f32(0.5 + fastrand::f32() / 2.0)).await;
        }
    }

    /// Returns when a relist is necessary: the resource version has expired, or a request failed.
    async fn list_and_watch(&self) -> Result<(), ApiFailure> {
        let (objects, mut version) = self.list().await?;
        self.send(Update::Listed(objects)).await;
        if self.mode == WatchMode::Once {
            // The task ends with its set.
            return std::future::pending().await;
        }
        let request = self.target.describe("watch");
        loop {
            let mut params = WatchParams::default();
            params = params.labels(&self.target.query.label_selector).timeout(WATCH_TIMEOUT_SECONDS);
            if !self.field_selector.is_empty() {
                params = params.fields(&self.field_selector);
            }
            let begun = Instant::now();
            let opened = timeout(REQUEST_TIMEOUT, self.api.watch(&params, &version)).await;
            let events = match opened.map_err(|_| ApiFailure::timeout(&request))? {
                Ok(events) => events,
                Err(kube::Error::Api(status)) if status.code == 410 => return Ok(()),
                Err(error) => return Err(ApiFailure::new(&error, &request)),
            };
            pin_mut!(events);
            let end = begun + Duration::from_secs(WATCH_TIMEOUT_SECONDS.into()) + REQUEST_TIMEOUT;
            loop {
                let event = tokio::time::timeout_at(end, events.next()).await;
                match event.map_err(|_| ApiFailure::timeout(&request))? {
                    Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                        let object = (self.decode)(object);
                        version = object.resource_version.to_string();
                        self.send(Update::Applied(object)).await;
                    }
                    Some(Ok(WatchEvent::Deleted(object))) => {
                        let object = (self.decode)(object);
                        version = object.resource_version.to_string();
                        self.send(Update::Deleted(object)).await;
                    }
                    Some(Ok(WatchEvent::Bookmark(bookmark))) => version = bookmark.metadata.resource_version,
                    Some(Ok(WatchEvent::Error(status))) if status.code == 410 => return Ok(()),
                    Some(Ok(WatchEvent::Error(status))) => {
                        return Err(ApiFailure::new(&kube::Error::Api(status), &request));
                    }
                    Some(Err(error)) => return Err(ApiFailure::new(&error, &request)),
                    None => break,
                }
            }
            // Some servers close watches at once.
            if begun.elapsed() < MIN_BACKOFF {
                sleep(MIN_BACKOFF).await;
            }
        }
    }

    async fn list(&self) -> Result<(Vec<ObjectMetadata>, String), ApiFailure> {
        let request = self.target.describe("list");
        let mut params = ListParams::default().labels(&self.target.query.label_selector).limit(PAGE_SIZE);
        if !self.field_selector.is_empty() {
            params = params.fields(&self.field_selector);
        }
        let mut objects = Vec::new();
        loop {
            let page = timeout(REQUEST_TIMEOUT, self.api.list(&params)).await;
            let page = page.map_err(|_| ApiFailure::timeout(&request))?;
            let page = page.map_err(|error| ApiFailure::new(&error, &request))?;
            objects.extend(page.items.into_iter().map(&self.decode));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok((objects, page.metadata.resource_version.unwrap_or_default())),
            }
        }
    }

    async fn send(&self, update: Update) {
        // It fails only if the cache is dropped, which ends this task.
        let _ = self.updates.send((self.target.clone(), update)).await;
    }
}

/// A failed request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiFailure {
    pub(super) reason: DownReason,
    pub(super) message: Box<str>,
}

impl ApiFailure {
    /// `request` is the request in words: `list Secrets with label tfstate=true in namespace shop`.
    pub(super) fn new(error: &kube::Error, request: &str) -> Self {
        let (reason, cause) = match error {
            kube::Error::Api(status) => {
                let reason = match status.code {
                    401 | 403 => DownReason::Forbidden,
                    404 => DownReason::NotFound,
                    _ => DownReason::Error,
                };
                (reason, status.message.clone())
            }
            // The error may quote a secret.
            kube::Error::SerdeError(_) => (DownReason::Error, "the response is malformed".to_owned()),
            other => (DownReason::Error, root_cause(other)),
        };
        let hint = if reason == DownReason::Forbidden {
            "; grant this permission (`drift-exporter check` lists all that are required)"
        } else {
            ""
        };
        Self { reason, message: format!("cannot {request}: {cause}{hint}").into() }
    }

    pub(super) fn timeout(request: &str) -> Self {
        let message = format!("cannot {request}: the API server does not respond").into();
        Self { reason: DownReason::Stalled, message }
    }
}

/// The last error in the chain of sources. The others only name the layers that it passed.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), root_cause)
}

/// Down if there is any failure. Missing permissions come first, since an administrator has to act on them.
pub(super) fn health_of(mut failures: Vec<&ApiFailure>) -> WatchHealth {
    failures.sort_by_key(|failure| (failure.reason, &failure.message));
    failures.dedup();
    let Some(first) = failures.first() else { return WatchHealth::Up };
    let messages: Vec<&str> = failures.iter().map(|failure| &*failure.message).collect();
    WatchHealth::Down { reason: first.reason, message: messages.join("; ").into() }
}
