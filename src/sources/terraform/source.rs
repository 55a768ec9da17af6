//! Finds and reads Terraform states, published baselines and their locks.
//!
//! Secrets are watched by their metadata. When one of a state changes, all its Secrets are listed and decoded.

use std::{collections::BTreeMap, fmt, io, path::PathBuf, time::Duration};

use futures_util::future::{BoxFuture, FutureExt as _};
use jiff::Timestamp;
use kube::Client;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    files::{LockFile, StateFile, changes_objects, find_state_files, lock_of, read_file},
    secrets::{SecretRequest, chunk_of, decode_published, decode_state, group_chunks, read_secrets},
    state::StateReader,
};
use crate::{
    config::{BaselineLimits, FileVersion, Settings, StateLocations},
    sources::{
        driver::{self, BaselineSource, DecodeSlots, ReadFailure, ReadResult, SourceContext},
        metadata_watch::{ChangedNamespaces, MetadataCache, ObjectMetadata, ObjectQuery, StorageResource},
        publisher::{DecodedBaseline, MAX_RETRY, MIN_RETRY, Publisher, TrackedBaseline},
    },
    types::{Authority, BaselineFault, BaselineOrigin, Clock, Lock, NamespacedName, Scope, Selector, Source},
};

/// Terraform writes a large state as several Secrets. An incomplete state is reported only after this time.
const WRITE_TIME: Duration = Duration::from_secs(5);
/// The labels that tell states of Terraform's Kubernetes backend apart.
const STATE_LABELS: [&str; 2] = ["tfstateSecretSuffix", "tfstateWorkspace"];

/// Publishes all states and every change, until the receiver of events is gone.
pub async fn run(context: SourceContext) {
    driver::run::<TerraformSource>(context).await;
}

struct TerraformSource {
    client: Client,
    clock: Clock,
    settings: StateSettings,
    slots: DecodeSlots,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct StateSettings {
    locations: StateLocations,
    /// The prefix of the labels and annotations of published baselines, without a slash.
    prefix: Box<str>,
}

/// Identifies a state by its first Secret or its file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StateLocation {
    /// Secrets of Terraform's Kubernetes backend.
    Backend(NamespacedName),
    /// Secrets that `drift-exporter baseline` created.
    Published(NamespacedName),
    File(PathBuf),
}

/// What the source tracks about one state.
#[derive(Default)]
struct StateTracking {
    /// The version that was last observed.
    version: Option<StateVersion>,
    incomplete_since: Option<Instant>,
    /// Whether the lock was released and the state has not been read since.
    is_lock_released: bool,
}

/// Differs if a state has to be read again.
#[derive(Clone, PartialEq, Eq)]
enum StateVersion {
    Secrets(SecretGroup),
    File(FileVersion),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct SecretGroup {
    /// Names and resource versions.
    versions: Vec<(Box<str>, Box<str>)>,
    /// The labels that all of them share.
    labels: BTreeMap<String, String>,
    /// When the first of them was created.
    created: Option<Timestamp>,
}

enum ObservedLock {
    /// The locks of the namespace are not listed, or this kind of state has none.
    Unknown,
    Free,
    Held(Lock),
}

impl StateLocation {
    fn origin(&self) -> BaselineOrigin {
        match self {
            Self::Backend(_) => BaselineOrigin::StateSecret,
            Self::Published(_) => BaselineOrigin::Published,
            Self::File(_) => BaselineOrigin::File,
        }
    }

    fn is_covered_by(&self, before: &StateSettings, now: &StateSettings) -> bool {
        let StateLocations { scope, files, .. } = &now.locations;
        match self {
            Self::Backend(secret) => scope.has(&secret.namespace),
            Self::Published(secret) => scope.has(&secret.namespace) && before.prefix == now.prefix,
            Self::File(path) => files.iter().any(|given| path.starts_with(given)),
        }
    }

    /// The name of the baseline, and a longer one in case it is taken.
    fn names(&self, labels: &BTreeMap<String, String>, prefix: &str) -> [String; 2] {
        let label = |name: &str| labels.get(name).map(String::as_str).filter(|value| !value.is_empty());
        match self {
            Self::Backend(secret) => {
                let rest = secret.name.strip_prefix("tfstate-").unwrap_or(&secret.name);
                let (workspace, suffix) = rest.split_once('-').unwrap_or(("default", rest));
                let workspace = label("tfstateWorkspace").unwrap_or(workspace);
                let suffix = label("tfstateSecretSuffix").unwrap_or(suffix);
                [format!("{}/{workspace}/{suffix}", secret.namespace), secret.to_string()]
            }
            Self::Published(secret) => {
                let name = label(&format!("{prefix}/baseline-name"));
                let name = name.unwrap_or_else(|| secret.name.trim_start_matches("drift-baseline-"));
                [name.to_owned(), format!("{}/{name}", secret.namespace)]
            }
            Self::File(path) => [path.display().to_string(), path.display().to_string()],
        }
    }
}

/// `Secret terraform/tfstate-default-shop`
impl fmt::Display for StateLocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backend(secret) | Self::Published(secret) => write!(formatter, "Secret {secret}"),
            Self::File(path) => write!(formatter, "file {}", path.display()),
        }
    }
}

impl BaselineSource for TerraformSource {
    const SOURCE: Source = Source::Terraform;
    /// Each read holds the Secrets of a whole state in memory.
    const MAX_CONCURRENT_READS: usize = 2;

    type Settings = StateSettings;
    type Location = StateLocation;
    type State = StateTracking;
    type Reader = StateReader;
    type Scan = BTreeMap<PathBuf, StateFile>;

    fn new(context: &SourceContext) -> Self {
        let settings = StateSettings::default();
        let (client, clock) = (context.client.clone(), context.clock.clone());
        Self { client, clock, settings, slots: context.decode_slots.clone() }
    }

    fn namespace(location: &StateLocation) -> &str {
        match location {
            StateLocation::Backend(secret) | StateLocation::Published(secret) => &secret.namespace,
            StateLocation::File(_) => "",
        }
    }

    fn settings(settings: &Settings) -> StateSettings {
        StateSettings { locations: settings.terraform.clone(), prefix: settings.annotation_prefix.clone() }
    }

    fn authority(location: &StateLocation) -> Authority {
        match location {
            StateLocation::Backend(secret) | StateLocation::Published(secret) => {
                Authority::Namespace(secret.namespace.clone())
            }
            StateLocation::File(_) => Authority::Cluster,
        }
    }

    fn apply_settings(&mut self, settings: StateSettings, publisher: &mut Publisher<Self>) {
        publisher.retain(|location| location.is_covered_by(&self.settings, &settings));
        publisher.this_cluster = settings.locations.this_cluster;
        publisher.trusted_namespaces.clone_from(&settings.locations.trusted_namespaces);
        self.settings = settings;
    }

    fn queries(&self) -> (Vec<ObjectQuery>, Scope) {
        let queries = vec![state_query(), lock_query(), self.published_query()];
        (queries, self.settings.locations.scope.clone())
    }

    fn observe_objects(
        &mut self,
        cache: &MetadataCache,
        changed: &ChangedNamespaces,
        publisher: &mut Publisher<Self>,
    ) {
        let found = self.find_secret_groups(cache, changed);
        publisher.retain(|location| {
            let (secret, query) = match location {
                StateLocation::Backend(secret) => (secret, state_query()),
                StateLocation::Published(secret) => (secret, self.published_query()),
                StateLocation::File(_) => return true,
            };
            !changed.contains(&secret.namespace)
                || found.contains_key(location)
                || !cache.has_listed(&query, &secret.namespace)
        });
        // The first one with a name gets it. A Secret of another namespace must not take it from one that already exists, not even
        // at the next start.
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by_key(|(location, group)| {
            (!self.is_trusted(location), group.created.unwrap_or(Timestamp::MAX))
        });
        for (location, group) in found {
            let lock = self.find_lock(cache, &location);
            let names = || location.names(&group.labels, &self.settings.prefix);
            let Some(tracked) = publisher.track(&location, location.origin(), names, StateTracking::default)
            else {
                continue;
            };
            observe_version(tracked, StateVersion::Secrets(group));
            if observe_lock(tracked, lock) {
                publisher.publish(&location);
            }
        }
    }

    fn paths(&self) -> &[PathBuf] {
        &self.settings.locations.files
    }

    fn scan(paths: &[PathBuf]) -> Self::Scan {
        find_state_files(paths)
    }

    fn observe_files(&mut self, found: Self::Scan, publisher: &mut Publisher<Self>) {
        // Files in a directory that cannot be read now are not deleted.
        let unreadable: Vec<&PathBuf> =
            found.iter().filter(|(_, file)| file.version.is_err()).map(|(path, _)| path).collect();
        publisher.retain(|location| match location {
            StateLocation::File(path) => {
                found.contains_key(path) || unreadable.iter().any(|parent| path.starts_with(parent))
            }
            StateLocation::Backend(_) | StateLocation::Published(_) => true,
        });
        for (path, StateFile { version, lock }) in found {
            let location = StateLocation::File(path);
            let names = || location.names(&BTreeMap::new(), "");
            let Some(tracked) =
                publisher.track(&location, BaselineOrigin::File, names, StateTracking::default)
            else {
                continue;
            };
            let is_readable = version.is_ok();
            match version {
                Ok(version) => observe_version(tracked, StateVersion::File(version)),
                Err(error) => {
                    tracked.state.version = None;
                    tracked.cancel_read();
                    tracked.set_fault(BaselineFault::Unreadable, explain_file_error(&location, &error));
                }
            }
            let lock = lock.map_or(ObservedLock::Free, |LockFile { info, modified }| {
                ObservedLock::Held(lock_of(&info, modified, self.settings.locations.lock_max_age))
            });
            if observe_lock(tracked, lock) || !is_readable {
                publisher.publish(&location);
            }
        }
    }

    fn read(
        &mut self,
        location: &StateLocation,
        tracked: &TrackedBaseline<Self>,
        reader: StateReader,
        limits: BaselineLimits,
    ) -> BoxFuture<'static, (StateReader, ReadResult)> {
        let (client, slots) = (self.client.clone(), self.slots.clone());
        match (location.clone(), &tracked.state.version) {
            (StateLocation::File(path), _) => read_file(path, reader, slots, limits).boxed(),
            (StateLocation::Backend(secret), Some(StateVersion::Secrets(group))) => {
                let selector = group.selector(&state_query(), &STATE_LABELS);
                let namespace = secret.namespace;
                let request = SecretRequest { client, namespace, selector, slots, limits };
                read_secrets(request, reader, move |secrets, reader, limits| {
                    decode_state(secrets, &secret.name, reader, limits)
                })
                .boxed()
            }
            (StateLocation::Published(secret), Some(StateVersion::Secrets(group))) => {
                let prefix = self.settings.prefix.clone();
                let name_label = format!("{prefix}/baseline-name");
                let selector = group.selector(&self.published_query(), &[&name_label]);
                let namespace = secret.namespace;
                let request = SecretRequest { client, namespace, selector, slots, limits };
                read_secrets(request, reader, move |secrets, _, limits| {
                    decode_published(secrets, &secret.name, &prefix, limits)
                })
                .boxed()
            }
            _ => std::future::ready((reader, Err(ReadFailure::NotFound))).boxed(),
        }
    }

    fn finish_read(
        &mut self,
        location: &StateLocation,
        tracked: &mut TrackedBaseline<Self>,
        result: ReadResult,
    ) {
        // A writer truncates a file before it writes it. An empty state that had content therefore counts as truncated.
        let had_content = tracked.decoded.as_ref().is_some_and(|before| !is_blank(before));
        let result = match result {
            Ok(decoded) if is_blank(&decoded) && had_content => {
                Err(ReadFailure::Invalid(BaselineFault::Truncated))
            }
            result => result,
        };
        match result {
            Ok(decoded) => {
                log_version(tracked, &decoded);
                tracked.set_decoded(decoded);
                tracked.state.incomplete_since = None;
            }
            Err(ReadFailure::Invalid(fault)) => {
                if !take_fault(location, tracked, fault) {
                    return;
                }
            }
            Err(ReadFailure::TooLarge(limit)) => tracked.set_too_large(location, limit),
            Err(ReadFailure::Io(error)) => {
                tracked.set_fault(BaselineFault::Unreadable, explain_file_error(location, &error));
            }
            Err(ReadFailure::NotFound | ReadFailure::Api(_)) => {}
        }
        tracked.mark_synced();
        if std::mem::take(&mut tracked.state.is_lock_released) {
            let operation = tracked.lock.take().and_then(|lock| lock.operation);
            let has_applied = operation.is_some_and(|operation| changes_objects(&operation));
            if has_applied {
                tracked.start_grace_period(self.clock.now());
            }
        }
    }
}

impl TerraformSource {
    fn is_trusted(&self, location: &StateLocation) -> bool {
        let trusted = &self.settings.locations.trusted_namespaces;
        Self::authority(location).extended_by(trusted) == Authority::Cluster
    }

    fn published_query(&self) -> ObjectQuery {
        let selector = Selector::equals(&format!("{}/baseline", self.settings.prefix), "true");
        let labels = vec![format!("{}/baseline-name", self.settings.prefix).into()];
        ObjectQuery { resource: StorageResource::Secrets, selector, labels }
    }

    fn find_secret_groups(
        &self,
        cache: &MetadataCache,
        changed: &ChangedNamespaces,
    ) -> BTreeMap<StateLocation, SecretGroup> {
        let mut groups = BTreeMap::new();
        for is_published in [false, true] {
            let query = if is_published { self.published_query() } else { state_query() };
            let mut namespaces: BTreeMap<&str, BTreeMap<&str, &ObjectMetadata>> = BTreeMap::new();
            for object in cache.objects(&query) {
                if changed.contains(&object.namespace) && self.settings.locations.scope.has(&object.namespace)
                {
                    namespaces.entry(&object.namespace).or_default().insert(&object.name, object);
                }
            }
            for (namespace, objects) in namespaces {
                for chunks in group_chunks(objects.keys().copied()) {
                    let members = chunks.parts.iter().flatten().filter_map(|name| objects.get(&**name));
                    let group = SecretGroup::new(&members.copied().collect::<Vec<_>>());
                    let secret = NamespacedName { namespace: namespace.into(), name: chunks.name };
                    if !is_published {
                        groups.insert(StateLocation::Backend(secret), group);
                    } else if chunk_of(&secret.name).is_none() {
                        // A chunk without the first one is a leftover.
                        groups.insert(StateLocation::Published(secret), group);
                    }
                }
            }
        }
        groups
    }

    fn find_lock(&self, cache: &MetadataCache, location: &StateLocation) -> ObservedLock {
        let StateLocation::Backend(NamespacedName { namespace, name }) = location else {
            return ObservedLock::Unknown;
        };
        if !cache.has_listed(&lock_query(), namespace) {
            return ObservedLock::Unknown;
        }
        let lease = cache.get(&lock_query(), namespace, &format!("lock-{name}"));
        let held = lease.and_then(|lease| Some((lease.lock_info.as_ref()?, lease.last_write)));
        held.map_or(ObservedLock::Free, |(info, since)| {
            ObservedLock::Held(lock_of(info, since, self.settings.locations.lock_max_age))
        })
    }
}

impl SecretGroup {
    fn new(objects: &[&ObjectMetadata]) -> Self {
        let versions = objects.iter().map(|object| (object.name.clone(), object.resource_version.clone()));
        let mut labels = objects.first().map(|first| first.labels.clone()).unwrap_or_default();
        labels.retain(|name, value| objects.iter().all(|object| object.labels.get(name) == Some(value)));
        let created = objects.iter().filter_map(|object| object.created).min();
        Self { versions: versions.collect(), labels, created }
    }

    /// A selector for these Secrets. The labels that all of them share exclude other states of the namespace.
    fn selector(&self, query: &ObjectQuery, names: &[&str]) -> String {
        let labels = names.iter().filter_map(|name| Some(format!(",{name}={}", self.labels.get(*name)?)));
        labels.fold(query.selector.to_string(), |selector, label| selector + &label)
    }
}

fn state_query() -> ObjectQuery {
    let labels = STATE_LABELS.map(Into::into).into();
    ObjectQuery { resource: StorageResource::Secrets, selector: Selector::equals("tfstate", "true"), labels }
}

fn lock_query() -> ObjectQuery {
    ObjectQuery { resource: StorageResource::Leases, ..state_query() }
}

fn observe_version(tracked: &mut TrackedBaseline<TerraformSource>, version: StateVersion) {
    if tracked.state.version.as_ref() != Some(&version) {
        tracked.state.version = Some(version);
        tracked.read_now();
    }
}

/// Returns whether the lock has to be published at once. After its release, the state is read before that.
fn observe_lock(tracked: &mut TrackedBaseline<TerraformSource>, lock: ObservedLock) -> bool {
    match lock {
        ObservedLock::Unknown => false,
        ObservedLock::Held(lock) => {
            let is_new = tracked.lock.as_ref() != Some(&lock);
            tracked.set_lock(Some(lock));
            tracked.state.is_lock_released = false;
            is_new
        }
        ObservedLock::Free => {
            if tracked.is_locked() && !tracked.state.is_lock_released {
                tracked.state.is_lock_released = true;
                tracked.read_now();
            }
            false
        }
    }
}

/// Returns `false` while the state may still be written, and the fault is not reported yet.
fn take_fault(
    location: &StateLocation,
    tracked: &mut TrackedBaseline<TerraformSource>,
    fault: BaselineFault,
) -> bool {
    // Each chunk is a Secret, so a state that grows is truncated until Terraform writes its last Secret.
    if matches!(fault, BaselineFault::Incomplete | BaselineFault::Truncated) {
        let since = *tracked.state.incomplete_since.get_or_insert_with(Instant::now);
        let is_being_written = since.elapsed() < WRITE_TIME;
        tracked.read_after(if is_being_written { MIN_RETRY } else { MAX_RETRY });
        if is_being_written {
            return false;
        }
    }
    tracked.set_fault(fault, explain(fault, location));
    true
}

/// Whether it equals the state before the first write.
fn is_blank(decoded: &DecodedBaseline) -> bool {
    decoded.version.lineage.is_empty() && decoded.objects.is_empty() && decoded.skipped.is_empty()
}

fn log_version(tracked: &TrackedBaseline<TerraformSource>, decoded: &DecodedBaseline) {
    let (state, version, resources) = (&tracked.name, &decoded.version, decoded.objects.len());
    let serial = version.serial;
    match tracked.decoded.as_ref().map(|before| &before.version) {
        None => info!(%state, serial, resources, "Found a Terraform state."),
        Some(before) if before.lineage == version.lineage && before.serial > serial => {
            warn!(%state, serial, before = before.serial, resources, "A Terraform state returned to an earlier serial.");
        }
        Some(before) if *before != *version => {
            info!(%state, serial, resources, "A Terraform state changed.");
        }
        Some(_) => {}
    }
}

fn explain_file_error(location: &StateLocation, error: &io::Error) -> String {
    format!("cannot read {location}: {error}; check the path and its permissions")
}

fn explain(fault: BaselineFault, location: &StateLocation) -> String {
    let is_published = matches!(location, StateLocation::Published(_));
    let rewrite = if is_published {
        "publish it again (drift-exporter baseline)"
    } else {
        "write it again (terraform apply -refresh-only)"
    };
    let (cause, action) = match fault {
        BaselineFault::Incomplete => ("a chunk is missing or of another version", rewrite),
        BaselineFault::Truncated => ("truncated", rewrite),
        BaselineFault::Encrypted => {
            ("encrypted by OpenTofu", "publish it with \"tofu state pull | drift-exporter baseline\"")
        }
        BaselineFault::UnsupportedVersion if is_published => {
            ("published by another version of drift-exporter", rewrite)
        }
        BaselineFault::UnsupportedVersion => {
            ("unsupported format version", "write it with Terraform 0.12 or newer")
        }
        BaselineFault::TooLarge
        | BaselineFault::Unreadable
        | BaselineFault::Foreign
        | BaselineFault::NotDeployed => {
            let what =
                if is_published { "not a valid published baseline" } else { "not a valid Terraform state" };
            (what, rewrite)
        }
    };
    format!("cannot read {location}: {cause}; {action}")
}
