//! Following states: where they are, what they declare, who writes them.
//!
//! Secrets are watched by their metadata alone. When one changes, all Secrets of its state are listed, read, and forgotten but for
//! what they declare in Kubernetes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::{
    files::{FileSeen, Stamp, changes_objects, read_lock, scan},
    secrets::{Outcome, group_chunks, part_of, read_file, read_secrets},
    state::StateReader,
};
use crate::{
    sources::{
        driver::{SourceContext, other_than},
        metadata_watch::{self, Entry, Feed, Notice, Objects, Refusal, Shown},
        publisher::{Closed, Known, Publisher, Reading, SELDOM, SOON},
    },
    types::{BaselineFault, BaselineTrouble, Lock, Origin, Scope, Source},
};

/// Where states are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSources {
    /// Whether they are looked for at all.
    pub enabled: bool,
    /// The namespaces in which state Secrets, their locks and published baselines are looked for.
    pub scope: Scope,
    /// States in files, and directories of such.
    pub files: Vec<PathBuf>,
    /// For how long whoever holds a lock is believed to be at work.
    pub lock_max_age: SignedDuration,
    /// Whether all of them declare objects of this cluster, so that nobody has to find out.
    pub here: bool,
    /// What labels and annotations of published baselines begin with, without a slash.
    pub prefix: Box<str>,
}

impl Default for StateSources {
    fn default() -> Self {
        Self {
            enabled: false,
            scope: Scope::default(),
            files: Vec::new(),
            lock_max_age: SignedDuration::from_mins(30),
            here: false,
            prefix: "tfdrift.jin.dev".into(),
        }
    }
}

/// How often files are looked at: mounted volumes do not tell of changes.
const LOOK: Duration = Duration::from_secs(1);

/// Reads all states there are, and tells of them and of every change, until nobody listens.
///
/// What is there at first is told of before the source is called up, and what is to be watched for it after that.
pub async fn follow(follow: SourceContext<StateSources>) {
    let sources = follow.sources.borrow().clone();
    let states = Publisher::new(Source::Terraform, &follow);
    let mut follower = Follower { follow, sources, states };
    while follower.session().await.is_ok() {}
}

struct Follower {
    follow: SourceContext<StateSources>,
    sources: Arc<StateSources>,
    states: Publisher<Place, State>,
}

impl Follower {
    /// Follows what the settings name, until they name something else.
    async fn session(&mut self) -> Result<(), Closed> {
        let (sources, mut newest) = self.follow.newest();
        self.change_sources(sources).await?;
        let mut seen = Seen::new(&self.sources);
        let (client, scope, look) = (&self.follow.client, &self.sources.scope, self.follow.look);
        let (_feeds, mut notices) = metadata_watch::start(client, feeds(&self.sources), scope, look);
        let has_files = self.sources.enabled && !self.sources.files.is_empty();
        let mut look_at = has_files.then(Instant::now);
        loop {
            if look_at.is_some_and(|at| at <= Instant::now()) {
                self.look_at_files().await?;
                look_at = Some(Instant::now() + LOOK);
            }
            self.meet(&seen).await?;
            self.states.settle().await?;
            let mut wake = None;
            // Locks that were taken meanwhile come before what was written under them.
            if seen.all_answered() && notices.is_empty() {
                if let Some(place) = self.states.next_due(|_| true) {
                    self.read(&place).await?;
                }
                self.states.report(self.sources.enabled, seen.refusals().collect()).await?;
                wake = self.states.read_at(|_| true);
            }
            let wake = wake.into_iter().chain(look_at).chain(self.states.settled_at()).min();
            tokio::select! {
                biased;
                () = self.follow.changes.closed() => return Err(Closed),
                () = other_than(&mut newest, &self.sources) => return Ok(()),
                Some(notice) = notices.recv() => seen.take(notice),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
        }
    }

    /// Reads a state, and tells what came of it.
    async fn read(&mut self, place: &Place) -> Result<(), Closed> {
        let Some(known) = self.states.known.get_mut(place) else { return Ok(()) };
        let reader = known.own.reader.take();
        let reader = reader.unwrap_or_else(|| StateReader::new(self.follow.key.clone()));
        let (reader, outcome) = match (place, &known.own.version) {
            (Place::File(path), _) => read_file(path, reader).await,
            (_, Some(Version::Secrets(group))) => {
                read_secrets(&self.follow.client, place, group, &self.sources.prefix, reader).await
            }
            (_, Some(Version::File(_)) | None) => (reader, Outcome::Absent),
        };
        known.own.reader = Some(reader);
        known.take(outcome, place, Instant::now(), self.follow.clock.now());
        self.states.tell(place).await
    }
}

impl Follower {
    /// Forgets what does not belong to other settings.
    pub(super) async fn change_sources(&mut self, sources: Arc<StateSources>) -> Result<(), Closed> {
        let before = std::mem::replace(&mut self.sources, sources);
        self.states.here = self.sources.here;
        self.states.keep(|place| place.belongs(&before, &self.sources)).await?;
        for place in self.states.known.keys().cloned().collect::<Vec<_>>() {
            self.states.tell(&place).await?;
        }
        Ok(())
    }

    /// Takes in which Secrets there are, and who holds which lock.
    pub(super) async fn meet(&mut self, seen: &Seen) -> Result<(), Closed> {
        let groups = seen.groups(&self.sources);
        self.states.keep(|place| !seen.is_known(place) || groups.contains_key(place)).await?;
        for (place, group) in groups {
            self.state(place, &group.labels).see(Version::Secrets(group));
        }
        let mut locks: Vec<(Place, Option<Lock>)> = Vec::new();
        for place in self.states.known.keys() {
            if let Place::State(secret) = place
                && seen.knows_locks(&secret.namespace)
            {
                let lock = seen.lock_of(secret).map(|entry| {
                    let info = entry.held.as_deref().unwrap_or_default();
                    read_lock(info, entry.written, self.sources.lock_max_age)
                });
                locks.push((place.clone(), lock));
            }
        }
        for (place, lock) in locks {
            self.take_lock(&place, lock).await?;
        }
        Ok(())
    }

    /// Takes in which files there are.
    pub(super) async fn look_at_files(&mut self) -> Result<(), Closed> {
        let given = self.sources.files.clone();
        let Ok(found) = tokio::task::spawn_blocking(move || scan(&given)).await else { return Ok(()) };
        // What is in a directory that cannot be read now is not gone.
        let closed: Vec<&PathBuf> =
            found.iter().filter(|(_, seen)| seen.stamp.is_err()).map(|(path, _)| path).collect();
        let stays = |place: &Place| match place {
            Place::File(path) => found.contains_key(path) || closed.iter().any(|own| path.starts_with(own)),
            Place::State(_) | Place::Published(_) => true,
        };
        self.states.keep(stays).await?;
        for (path, FileSeen { stamp, held }) in found {
            let place = Place::File(path);
            let known = self.state(place.clone(), &BTreeMap::new());
            match stamp {
                Ok(stamp) => known.see(Version::File(stamp)),
                Err(why) => {
                    (known.own.version, known.read_at) = (None, None);
                    known.take_fault(not_opened(&place, &why));
                    self.states.tell(&place).await?;
                }
            }
            let lock = held.map(|(info, since)| read_lock(&info, since, self.sources.lock_max_age));
            self.take_lock(&place, lock).await?;
        }
        Ok(())
    }

    async fn take_lock(&mut self, place: &Place, lock: Option<Lock>) -> Result<(), Closed> {
        let Some(known) = self.states.known.get_mut(place) else { return Ok(()) };
        if known.take_lock(lock, Instant::now()) { self.states.tell(place).await } else { Ok(()) }
    }

    /// What is known about a state, be it new.
    fn state(&mut self, place: Place, labels: &BTreeMap<String, String>) -> &mut Known<State> {
        let name = self.name_of(&place, labels);
        let origin = place.origin();
        self.states.known.entry(place).or_insert_with(|| Known::new(name, origin, State::default()))
    }

    /// What a state is called. Where the name is taken, its place is told as well.
    fn name_of(&self, place: &Place, labels: &BTreeMap<String, String>) -> Arc<str> {
        if let Some(known) = self.states.known.get(place) {
            return known.name.clone();
        }
        let label = |name: &str| labels.get(name).map(String::as_str).filter(|value| !value.is_empty());
        let (name, longer) = match place {
            Place::State(secret) => {
                let rest = secret.name.strip_prefix("tfstate-").unwrap_or(&secret.name);
                let (workspace, suffix) = rest.split_once('-').unwrap_or(("default", rest));
                let workspace = label("tfstateWorkspace").unwrap_or(workspace);
                let suffix = label("tfstateSecretSuffix").unwrap_or(suffix);
                (format!("{}/{workspace}/{suffix}", secret.namespace), secret.to_string())
            }
            Place::Published(secret) => {
                let own = label(&format!("{}/baseline-name", self.sources.prefix));
                let own = own.unwrap_or_else(|| secret.name.trim_start_matches("drift-baseline-"));
                (own.to_owned(), format!("{}/{own}", secret.namespace))
            }
            Place::File(path) => (path.display().to_string(), path.display().to_string()),
        };
        if self.states.is_taken(&name) { longer.into() } else { name.into() }
    }
}

/// A place where a state is: the first of its Secrets, or a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// Secrets of Terraform's Kubernetes backend.
    State(SecretName),
    /// Secrets that `drift-exporter baseline` made.
    Published(SecretName),
    /// A file, or something that should have been one.
    File(PathBuf),
}

/// The name of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SecretName {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
}

impl Place {
    pub(super) fn origin(&self) -> Origin {
        match self {
            Self::State(_) => Origin::StateSecret,
            Self::Published(_) => Origin::Published,
            Self::File(_) => Origin::File,
        }
    }

    /// Whether it is still looked at with other settings.
    pub(super) fn belongs(&self, before: &StateSources, now: &StateSources) -> bool {
        let has = |scope: &Scope, secret: &SecretName| scope.has(&secret.namespace);
        now.enabled
            && match self {
                Self::State(secret) => has(&now.scope, secret),
                Self::Published(secret) => has(&now.scope, secret) && before.prefix == now.prefix,
                Self::File(path) => now.files.iter().any(|given| is_of(path, given)),
            }
    }
}

/// Whether a file was found where one, or a directory, was given.
fn is_of(path: &Path, given: &Path) -> bool {
    path.starts_with(given)
}

impl fmt::Display for SecretName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// `Secret terraform/tfstate-default-shop`, as messages say where something is wrong.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(secret) | Self::Published(secret) => write!(formatter, "Secret {secret}"),
            Self::File(path) => write!(formatter, "file {}", path.display()),
        }
    }
}

/// What the feeds of this source are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FeedOf {
    States,
    Locks,
    Published,
}

/// The feeds that these settings want.
pub(super) fn feeds(sources: &StateSources) -> Vec<Feed<FeedOf>> {
    if !sources.enabled {
        return Vec::new();
    }
    let published = format!("{}/baseline=true", sources.prefix);
    [
        Feed::within(&sources.scope, FeedOf::States, Objects::Secrets, "tfstate=true"),
        Feed::within(&sources.scope, FeedOf::Locks, Objects::Leases, "tfstate=true"),
        Feed::within(&sources.scope, FeedOf::Published, Objects::Secrets, &published),
    ]
    .concat()
}

/// What there is, as far as the feeds have shown it.
pub(super) struct Seen {
    shown: Shown<FeedOf>,
}

/// The Secrets of one state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    /// Their names and versions: another one means another state.
    pub(super) versions: Vec<(Box<str>, Box<str>)>,
    /// The labels that all of them have.
    pub(super) labels: BTreeMap<String, String>,
}

impl Seen {
    pub(super) fn new(sources: &StateSources) -> Self {
        Self { shown: Shown::new(feeds(sources)) }
    }

    pub(super) fn take(&mut self, notice: Notice<FeedOf>) {
        self.shown.take(notice);
    }

    /// Whether every feed has said something.
    pub(super) fn all_answered(&self) -> bool {
        self.shown.all_answered()
    }

    /// What does not work.
    pub(super) fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.shown.refusals()
    }

    /// Whether it is known what there is where this place is, so that it is gone if it is not there.
    pub(super) fn is_known(&self, place: &Place) -> bool {
        match place {
            Place::State(secret) => self.shown.is_listed(FeedOf::States, &secret.namespace),
            Place::Published(secret) => self.shown.is_listed(FeedOf::Published, &secret.namespace),
            Place::File(_) => false,
        }
    }

    /// Whether it is known who holds locks in a namespace.
    pub(super) fn knows_locks(&self, namespace: &str) -> bool {
        self.shown.is_listed(FeedOf::Locks, namespace)
    }

    /// All states and published baselines.
    pub(super) fn groups(&self, sources: &StateSources) -> BTreeMap<Place, Group> {
        let mut groups = BTreeMap::new();
        for of in [FeedOf::States, FeedOf::Published] {
            let entries = |namespace: &str| {
                self.shown.entries(of).filter(move |entry| *entry.namespace == *namespace).collect::<Vec<_>>()
            };
            let namespaces: BTreeSet<&str> = self.shown.entries(of).map(|entry| &*entry.namespace).collect();
            for namespace in namespaces.into_iter().filter(|namespace| sources.scope.has(namespace)) {
                let entries = entries(namespace);
                for state in group_chunks(entries.iter().map(|entry| &*entry.name)) {
                    let own = |entry: &&&Entry| state.parts.iter().flatten().any(|part| *part == entry.name);
                    let group = group(&entries.iter().filter(own).copied().collect::<Vec<_>>());
                    let secret = SecretName { namespace: namespace.into(), name: state.name };
                    if of == FeedOf::States {
                        groups.insert(Place::State(secret), group);
                    } else if part_of(&secret.name).is_none() {
                        // A part without its beginning is what somebody forgot to delete.
                        groups.insert(Place::Published(secret), group);
                    }
                }
            }
        }
        groups
    }

    /// The lock of a state, where somebody holds it.
    pub(super) fn lock_of(&self, secret: &SecretName) -> Option<&Entry> {
        let name = format!("lock-{}", secret.name);
        let own = |entry: &&Entry| *entry.name == *name && entry.namespace == secret.namespace;
        self.shown.entries(FeedOf::Locks).find(own).filter(|entry| entry.held.is_some())
    }
}

fn group(entries: &[&Entry]) -> Group {
    let versions = entries.iter().map(|entry| (entry.name.clone(), entry.version.clone())).collect();
    let Some((first, others)) = entries.split_first() else { return Group::default() };
    let mut labels = first.labels.clone();
    labels.retain(|name, value| others.iter().all(|other| other.labels.get(name) == Some(value)));
    Group { versions, labels }
}

/// Terraform writes part by part. What is torn for less than this is being written.
const WRITING: Duration = Duration::from_secs(5);

/// What only states have.
#[derive(Default)]
pub(super) struct State {
    pub(super) reader: Option<StateReader>,
    /// By what it was seen to be another one.
    pub(super) version: Option<Version>,
    /// Since when it is torn, where it is.
    torn_since: Option<Instant>,
    /// Whether the lock was released and the state not read since.
    releasing: bool,
}

/// What tells that a state has to be read again.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Version {
    Secrets(Group),
    File(Stamp),
}

impl Known<State> {
    /// It was seen as it is now.
    pub(super) fn see(&mut self, version: Version) {
        if self.own.version.as_ref() != Some(&version) {
            self.own.version = Some(version);
            self.read_at = Some(Instant::now());
        }
    }

    /// Somebody holds the lock, or nobody. Where it was released, the state is read before anything is told.
    /// Says whether there is something to tell at once.
    pub(super) fn take_lock(&mut self, lock: Option<Lock>, now: Instant) -> bool {
        if lock.is_some() {
            let news = lock != self.lock;
            (self.lock, self.own.releasing, self.settled_at) = (lock, false, None);
            return news;
        }
        if self.lock.is_some() && !self.own.releasing && self.settled_at.is_none() {
            self.own.releasing = true;
            self.read_at = Some(now);
        }
        false
    }

    /// Takes what came of reading it.
    pub(super) fn take(&mut self, outcome: Outcome, place: &Place, now: Instant, time: Timestamp) {
        (self.read_at, self.refusal) = (None, None);
        // Who writes a file anew empties it first; only what never was anything may be nothing.
        let was_something = self.good.as_ref().is_some_and(|good| !is_blank(good));
        let outcome = match outcome {
            Outcome::Read(reading) if is_blank(&reading) && was_something => {
                Outcome::Fault(BaselineFault::Truncated)
            }
            outcome => outcome,
        };
        match outcome {
            Outcome::Read(reading) => {
                self.log(&reading);
                self.take_good(reading);
                self.own.torn_since = None;
            }
            Outcome::Fault(fault) => {
                if passes(fault) {
                    let since = *self.own.torn_since.get_or_insert(now);
                    self.read_at = Some(now + if now < since + WRITING { SOON } else { SELDOM });
                    if now < since + WRITING {
                        return;
                    }
                }
                self.take_fault(explain(fault, place));
            }
            Outcome::NotOpened(why) => self.take_fault(not_opened(place, &why)),
            Outcome::Refused(refusal) => return self.take_refusal(refusal, now),
            Outcome::Absent => {}
        }
        self.tried = true;
        if std::mem::take(&mut self.own.releasing) {
            let applied = self.lock.take().is_some_and(|lock| changes_objects(&lock.operation));
            if applied {
                self.settle_for_a_moment(now, time);
            }
        }
    }

    fn log(&self, reading: &Reading) {
        let (state, version, resources) = (&self.name, &reading.version, reading.objects.len());
        let serial = version.serial;
        match self.good.as_ref().map(|good| &good.version) {
            None => info!(%state, serial, resources, "A Terraform state was found."),
            Some(before) if before.lineage == version.lineage && before.serial > serial => {
                warn!(%state, serial, before = before.serial, resources, "A Terraform state went back to an earlier serial.");
            }
            Some(before) if *before != *version => {
                info!(%state, serial, resources, "A Terraform state changed.");
            }
            Some(_) => {}
        }
    }
}

/// Whether it is what there is before the first state was written.
fn is_blank(reading: &Reading) -> bool {
    reading.version.lineage.is_empty() && reading.objects.is_empty() && reading.skipped.is_empty()
}

/// Whether a fault may be that of something half written: a state that begins to need a second part ends too early until then.
fn passes(fault: BaselineFault) -> bool {
    match fault {
        BaselineFault::Torn | BaselineFault::Truncated => true,
        BaselineFault::TooLarge
        | BaselineFault::Encrypted
        | BaselineFault::UnsupportedVersion
        | BaselineFault::Unreadable
        | BaselineFault::Foreign
        | BaselineFault::NotDeployed => false,
    }
}

/// A file cannot be opened.
pub(super) fn not_opened(place: &Place, why: &str) -> BaselineTrouble {
    let message = format!("{place} cannot be opened: {why}; check the path and the rights").into();
    BaselineTrouble { fault: BaselineFault::Unreadable, message }
}

/// A fault, and what people are told about it.
pub(super) fn explain(fault: BaselineFault, place: &Place) -> BaselineTrouble {
    let published = matches!(place, Place::Published(_));
    let again = match place {
        Place::State(_) | Place::File(_) => "write it again (terraform apply -refresh-only)",
        Place::Published(_) => "publish it again (drift-exporter baseline)",
    };
    let message = match fault {
        BaselineFault::Torn => {
            format!(
                "{place}: a part of it is missing or of another version; if nobody writes it now, {again}"
            )
        }
        BaselineFault::Truncated => format!("{place} ends too early; {again}"),
        BaselineFault::TooLarge => {
            format!("{place} is larger than anything that is read; split the state, or publish a part of it")
        }
        BaselineFault::Encrypted => {
            format!("{place} is encrypted; publish what is in it (tofu state pull | drift-exporter baseline)")
        }
        BaselineFault::UnsupportedVersion if published => {
            format!("{place} was made by another version of drift-exporter; {again} with this one")
        }
        BaselineFault::UnsupportedVersion => {
            format!(
                "{place} is a state of a version that is not known; Terraform from 0.12 on writes version 4"
            )
        }
        BaselineFault::Unreadable | BaselineFault::Foreign | BaselineFault::NotDeployed if published => {
            format!("{place} is no published baseline; {again}")
        }
        BaselineFault::Unreadable | BaselineFault::Foreign | BaselineFault::NotDeployed => {
            format!("{place} is no Terraform state, or a broken one; {again}")
        }
    };
    BaselineTrouble { fault, message: message.into() }
}
