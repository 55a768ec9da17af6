//! Lists and watches of what baselines are kept in: Secrets and ConfigMaps by their metadata alone, and Leases.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

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

/// How long the server is asked to keep a watch open. Short, so that one that says nothing any more is soon found out.
const WATCH: u32 = 60;
const PATIENCE: Duration = Duration::from_secs(20);
const PAGE: u32 = 200;
/// Notices that wait until somebody takes them.
const NOTICES: usize = 64;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Where Terraform writes down who holds a lock.
const LOCK_INFO: &str = "app.terraform.io/lock-info";

/// What is listed and watched, and where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Feed<Of> {
    /// What it is to whoever asks for it.
    pub(super) of: Of,
    pub(super) objects: Objects,
    pub(super) selector: String,
    /// None for all namespaces.
    pub(super) namespace: Option<Box<str>>,
}

/// What baselines are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Objects {
    Secrets,
    ConfigMaps,
    Leases,
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
pub(super) enum Notice<Of> {
    /// Everything there is.
    Listed(Feed<Of>, Vec<Entry>),
    Seen(Feed<Of>, Entry),
    Gone(Feed<Of>, Entry),
    /// It does not work; what it said before stands.
    Failed(Feed<Of>, Refusal),
}

impl<Of: Copy> Feed<Of> {
    /// One feed of these objects for each namespace, or one for all of them.
    pub(super) fn within(scope: &Scope, of: Of, objects: Objects, selector: &str) -> Vec<Self> {
        let feed = |namespace| Self { of, objects, selector: selector.to_owned(), namespace };
        match scope {
            Scope::AllBut(_) => vec![feed(None)],
            Scope::In(names) => names.iter().cloned().map(|name| feed(Some(name))).collect(),
        }
    }
}

/// Starts feeds within this scope, and gives what they say; they end with the set.
pub(super) fn start<Of>(
    client: &Client,
    feeds: impl IntoIterator<Item = Feed<Of>>,
    scope: &Scope,
    look: WatchMode,
) -> (JoinSet<()>, mpsc::Receiver<Notice<Of>>)
where
    Of: Clone + Send + Sync + 'static,
{
    let (notices, heard) = mpsc::channel(NOTICES);
    let fields = match scope {
        Scope::AllBut(excluded) => {
            excluded.iter().map(|name| format!("metadata.namespace!={name}")).collect::<Vec<_>>().join(",")
        }
        Scope::In(_) => String::new(),
    };
    let mut tasks = JoinSet::new();
    for feed in feeds {
        let (client, fields, notices) = (client.clone(), fields.clone(), notices.clone());
        match feed.objects {
            Objects::Secrets => {
                let api = api::<PartialObjectMeta<Secret>>(client, feed.namespace.as_deref());
                let read = |object: PartialObjectMeta<Secret>| entry(object.metadata, None);
                tasks.spawn(Task { api, read, feed, fields, look, notices }.run());
            }
            Objects::ConfigMaps => {
                let api = api::<PartialObjectMeta<ConfigMap>>(client, feed.namespace.as_deref());
                let read = |object: PartialObjectMeta<ConfigMap>| entry(object.metadata, None);
                tasks.spawn(Task { api, read, feed, fields, look, notices }.run());
            }
            Objects::Leases => {
                let api = api::<Lease>(client, feed.namespace.as_deref());
                tasks.spawn(Task { api, read: lock_entry, feed, fields, look, notices }.run());
            }
        }
    }
    (tasks, heard)
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

struct Task<K, Of, Read> {
    api: Api<K>,
    read: Read,
    feed: Feed<Of>,
    fields: String,
    look: WatchMode,
    notices: mpsc::Sender<Notice<Of>>,
}

impl<K, Of, Read> Task<K, Of, Read>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    Of: Clone + Send + Sync + 'static,
    Read: Fn(K) -> Entry + Send + Sync,
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
        if self.look == WatchMode::Once {
            // The set that it is in ends it.
            return std::future::pending().await;
        }
        let doing = self.doing("watch");
        loop {
            let mut params = WatchParams::default().labels(&self.feed.selector).timeout(WATCH);
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
        let mut params = ListParams::default().labels(&self.feed.selector).limit(PAGE);
        if !self.fields.is_empty() {
            params = params.fields(&self.fields);
        }
        let mut entries = Vec::new();
        loop {
            let page = timeout(PATIENCE, self.api.list(&params)).await;
            let page = page.map_err(|_| Refusal::stalled(&doing))?;
            let page = page.map_err(|error| Refusal::new(&error, &doing))?;
            entries.extend(page.items.into_iter().map(&self.read));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok((entries, page.metadata.resource_version.unwrap_or_default())),
            }
        }
    }

    async fn say(&self, notice: Notice<Of>) {
        // Who does not listen any more ends this task.
        let _ = self.notices.send(notice).await;
    }

    /// What is being done, for messages: `list Secrets with label tfstate=true in namespace shop`.
    fn doing(&self, verb: &str) -> String {
        let objects = match self.feed.objects {
            Objects::Secrets => "Secrets",
            Objects::ConfigMaps => "ConfigMaps",
            Objects::Leases => "Leases",
        };
        let place = self
            .feed
            .namespace
            .as_deref()
            .map_or("all namespaces".to_owned(), |name| format!("namespace {name}"));
        format!("{verb} {objects} with label {} in {place}", self.feed.selector)
    }
}

/// What there is, as far as feeds have shown it.
pub(super) struct Shown<Of> {
    feeds: BTreeMap<Feed<Of>, Part>,
}

type EntryKey = (Box<str>, Box<str>);

/// What one feed has shown.
#[derive(Default)]
struct Part {
    /// By namespace and name; none before the first list.
    entries: Option<BTreeMap<EntryKey, Entry>>,
    refusal: Option<Refusal>,
}

impl<Of: Copy + Ord> Shown<Of> {
    /// Nothing yet of these feeds.
    pub(super) fn new(feeds: Vec<Feed<Of>>) -> Self {
        Self { feeds: feeds.into_iter().map(|feed| (feed, Part::default())).collect() }
    }

    pub(super) fn take(&mut self, notice: Notice<Of>) {
        match notice {
            Notice::Listed(feed, entries) => {
                let entries = entries.into_iter().map(|entry| (key(&entry), entry)).collect();
                self.feeds.insert(feed, Part { entries: Some(entries), refusal: None });
            }
            Notice::Seen(feed, entry) => {
                let part = self.feeds.entry(feed).or_default();
                part.entries.get_or_insert_default().insert(key(&entry), entry);
            }
            Notice::Gone(feed, entry) => {
                let part = self.feeds.entry(feed).or_default();
                part.entries.get_or_insert_default().remove(&key(&entry));
            }
            Notice::Failed(feed, refusal) => self.feeds.entry(feed).or_default().refusal = Some(refusal),
        }
    }

    /// Whether every feed has said something.
    pub(super) fn all_answered(&self) -> bool {
        self.feeds.values().all(|part| part.entries.is_some() || part.refusal.is_some())
    }

    /// What does not work.
    pub(super) fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.feeds.values().filter_map(|part| part.refusal.as_ref())
    }

    /// Whether it is known what there is in a namespace.
    pub(super) fn is_listed(&self, of: Of, namespace: &str) -> bool {
        let covers = |feed: &Feed<Of>| feed.namespace.as_deref().is_none_or(|own| own == namespace);
        self.feeds.iter().any(|(feed, part)| feed.of == of && covers(feed) && part.entries.is_some())
    }

    /// All that there is of something.
    pub(super) fn entries(&self, of: Of) -> impl Iterator<Item = &Entry> {
        let feeds = self.feeds.iter().filter(move |(feed, _)| feed.of == of);
        feeds.flat_map(|(_, part)| part.entries.iter().flat_map(BTreeMap::values))
    }
}

fn key(entry: &Entry) -> EntryKey {
    (entry.namespace.clone(), entry.name.clone())
}

/// Why the API server did not give us something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reason: DownReason,
    pub(super) message: Box<str>,
}

impl Refusal {
    /// What an error means for whoever wanted to do this: `list Secrets with label tfstate=true in namespace shop`.
    pub(super) fn new(error: &kube::Error, doing: &str) -> Self {
        let (reason, said) = match error {
            kube::Error::Api(status) => {
                let reason = match status.code {
                    401 | 403 => DownReason::Forbidden,
                    404 => DownReason::NotFound,
                    _ => DownReason::Error,
                };
                (reason, status.message.clone())
            }
            // What it stumbled over may be a secret.
            kube::Error::SerdeError(_) => {
                (DownReason::Error, "the answer is not what it should be".to_owned())
            }
            other => (DownReason::Error, innermost(other)),
        };
        let hint = if reason == DownReason::Forbidden {
            "; grant this right (`drift-exporter check` names all that are needed)"
        } else {
            ""
        };
        Self { reason, message: format!("cannot {doing}: {said}{hint}").into() }
    }

    /// The server says nothing.
    pub(super) fn stalled(doing: &str) -> Self {
        let message = format!("cannot {doing}: the API server does not answer").into();
        Self { reason: DownReason::Stalled, message }
    }
}

/// The last cause names the fault; those before it name the layers it went through.
pub fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

/// Up where nothing is refused. What is forbidden comes first: somebody has to do something about it.
pub(super) fn health<'a>(refusals: impl Iterator<Item = &'a Refusal>) -> WatchHealth {
    let mut refusals: Vec<&Refusal> = refusals.collect();
    refusals.sort_by_key(|refusal| (refusal.reason, &refusal.message));
    refusals.dedup();
    let Some(first) = refusals.first() else { return WatchHealth::Up };
    let messages: Vec<&str> = refusals.iter().map(|refusal| &*refusal.message).collect();
    WatchHealth::Down { reason: first.reason, message: messages.join("; ").into() }
}
