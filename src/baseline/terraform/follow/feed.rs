//! Lists and watches of what states are kept in: Secrets by their metadata alone, and Leases.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use futures_util::{StreamExt as _, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Secret};
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

use super::{StateSources, trouble::Refusal};
use crate::model::Scope;

/// How long the server is asked to keep a watch open. Short, so that one that says nothing any more is soon found out.
const WATCH: u32 = 60;
const PATIENCE: Duration = Duration::from_secs(20);
const PAGE: u32 = 200;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Where Terraform writes down who holds a lock.
const LOCK_INFO: &str = "app.terraform.io/lock-info";

/// What is listed and watched, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Feed {
    pub(super) of: FeedOf,
    /// None for all namespaces.
    pub(super) namespace: Option<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FeedOf {
    States,
    Locks,
    Published,
}

/// An object as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) version: Box<str>,
    pub(super) labels: BTreeMap<String, String>,
    /// When somebody last wrote it.
    pub(super) written: Option<Timestamp>,
    /// For a Lease that somebody holds: what is written down about it.
    pub(super) held: Option<Box<str>>,
}

/// What a feed has to say.
#[derive(Debug)]
pub(super) enum Notice {
    /// Everything there is.
    Listed(Feed, Vec<Entry>),
    Seen(Feed, Entry),
    Gone(Feed, Entry),
    /// It does not work; what it said before stands.
    Failed(Feed, Refusal),
}

/// The feeds that these settings want.
pub(super) fn feeds(sources: &StateSources) -> Vec<Feed> {
    let namespaces: Vec<Option<Box<str>>> = match &sources.scope {
        _ if !sources.enabled => Vec::new(),
        Scope::AllBut(_) => vec![None],
        Scope::In(names) => names.iter().cloned().map(Some).collect(),
    };
    let of = [FeedOf::States, FeedOf::Locks, FeedOf::Published];
    let each = namespaces.iter().flat_map(|namespace| of.map(|of| Feed { of, namespace: namespace.clone() }));
    each.collect()
}

/// Starts the feeds; they end with the set.
pub(super) fn start(client: &Client, sources: &StateSources, notices: &mpsc::Sender<Notice>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for feed in feeds(sources) {
        let selector = match feed.of {
            FeedOf::States | FeedOf::Locks => "tfstate=true".to_owned(),
            FeedOf::Published => format!("{}/baseline=true", sources.prefix),
        };
        let fields = match &sources.scope {
            Scope::AllBut(excluded) => excluded
                .iter()
                .map(|name| format!("metadata.namespace!={name}"))
                .collect::<Vec<_>>()
                .join(","),
            Scope::In(_) => String::new(),
        };
        let (client, notices) = (client.clone(), notices.clone());
        match feed.of {
            FeedOf::States | FeedOf::Published => {
                let task = Task::<PartialObjectMeta<Secret>> {
                    api: api(client, feed.namespace.as_deref()),
                    read: |object| entry(object.metadata, None),
                    feed,
                    selector,
                    fields,
                    notices,
                };
                tasks.spawn(task.run());
            }
            FeedOf::Locks => {
                let task = Task::<Lease> {
                    api: api(client, feed.namespace.as_deref()),
                    read: lock_entry,
                    feed,
                    selector,
                    fields,
                    notices,
                };
                tasks.spawn(task.run());
            }
        }
    }
    tasks
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

fn lock_entry(lease: Lease) -> Entry {
    let holder = lease.spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty());
    let info = lease.metadata.annotations.as_ref().and_then(|own| own.get(LOCK_INFO)).cloned();
    entry(lease.metadata, holder.map(|_| info.unwrap_or_default().into()))
}

fn entry(metadata: ObjectMeta, held: Option<Box<str>>) -> Entry {
    let written = last_write(&metadata);
    Entry {
        namespace: metadata.namespace.unwrap_or_default().into(),
        name: metadata.name.unwrap_or_default().into(),
        version: metadata.resource_version.unwrap_or_default().into(),
        labels: metadata.labels.unwrap_or_default(),
        written,
        held,
    }
}

/// When somebody last wrote an object, as far as it says so.
pub(super) fn last_write(metadata: &ObjectMeta) -> Option<Timestamp> {
    let managed = metadata.managed_fields.iter().flatten();
    let newest = managed.filter_map(|entry| entry.time.as_ref()).map(|time| time.0).max();
    newest.or(metadata.creation_timestamp.as_ref().map(|time| time.0))
}

struct Task<K> {
    api: Api<K>,
    read: fn(K) -> Entry,
    feed: Feed,
    selector: String,
    fields: String,
    notices: mpsc::Sender<Notice>,
}

impl<K> Task<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    /// Lists and watches until nobody listens.
    async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            if let Err(refusal) = self.once().await
                && self.notices.send(Notice::Failed(self.feed.clone(), refusal)).await.is_err()
            {
                return;
            }
            pause =
                if begun.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
            sleep(pause.mul_f32(0.5 + fastrand::f32() / 2.0)).await;
        }
    }

    /// Lists, then watches until the server has forgotten too much or something goes wrong.
    async fn once(&self) -> Result<(), Refusal> {
        let (entries, mut version) = self.list().await?;
        self.say(Notice::Listed(self.feed.clone(), entries)).await;
        let doing = self.doing("watch");
        loop {
            let mut params = WatchParams::default().labels(&self.selector).timeout(WATCH);
            if !self.fields.is_empty() {
                params = params.fields(&self.fields);
            }
            let begun = Instant::now();
            let opened = timeout(PATIENCE, self.api.watch(&params, &version)).await;
            let events = match opened.map_err(|_| Refusal::stalled(&doing))? {
                Ok(events) => events,
                Err(kube::Error::Api(status)) if status.code == 410 => return Ok(()),
                Err(error) => return Err(Refusal::new(&error, &doing)),
            };
            pin_mut!(events);
            let end = begun + Duration::from_secs(WATCH.into()) + PATIENCE;
            loop {
                let event = tokio::time::timeout_at(end, events.next()).await;
                match event.map_err(|_| Refusal::stalled(&doing))? {
                    Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                        let entry = (self.read)(object);
                        version = entry.version.to_string();
                        self.say(Notice::Seen(self.feed.clone(), entry)).await;
                    }
                    Some(Ok(WatchEvent::Deleted(object))) => {
                        let entry = (self.read)(object);
                        version = entry.version.to_string();
                        self.say(Notice::Gone(self.feed.clone(), entry)).await;
                    }
                    Some(Ok(WatchEvent::Bookmark(bookmark))) => version = bookmark.metadata.resource_version,
                    Some(Ok(WatchEvent::Error(status))) if status.code == 410 => return Ok(()),
                    Some(Ok(WatchEvent::Error(status))) => {
                        return Err(Refusal::new(&kube::Error::Api(status), &doing));
                    }
                    Some(Err(error)) => return Err(Refusal::new(&error, &doing)),
                    None => break,
                }
            }
            // A server that ends watches at once is not to be asked all the time.
            if begun.elapsed() < FIRST_PAUSE {
                sleep(FIRST_PAUSE).await;
            }
        }
    }

    async fn list(&self) -> Result<(Vec<Entry>, String), Refusal> {
        let doing = self.doing("list");
        let mut params = ListParams::default().labels(&self.selector).limit(PAGE);
        if !self.fields.is_empty() {
            params = params.fields(&self.fields);
        }
        let mut entries = Vec::new();
        loop {
            let page = timeout(PATIENCE, self.api.list(&params)).await;
            let page = page.map_err(|_| Refusal::stalled(&doing))?;
            let page = page.map_err(|error| Refusal::new(&error, &doing))?;
            entries.extend(page.items.into_iter().map(self.read));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok((entries, page.metadata.resource_version.unwrap_or_default())),
            }
        }
    }

    async fn say(&self, notice: Notice) {
        // Who does not listen any more ends this task.
        let _ = self.notices.send(notice).await;
    }

    /// What is being done, for messages: `list Secrets with label tfstate=true in namespace shop`.
    fn doing(&self, verb: &str) -> String {
        let objects = match self.feed.of {
            FeedOf::States | FeedOf::Published => "Secrets",
            FeedOf::Locks => "Leases",
        };
        let place = self
            .feed
            .namespace
            .as_deref()
            .map_or("all namespaces".to_owned(), |name| format!("namespace {name}"));
        format!("{verb} {objects} with label {} in {place}", self.selector)
    }
}
