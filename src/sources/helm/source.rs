//! Finds and reads Helm releases.
//!
//! The storage objects are watched by their metadata, whose labels name the deployed revision. Only that revision is read.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::future::{BoxFuture, FutureExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use tracing::info;
use zeroize::Zeroizing;

use super::{
    release::decode,
    revisions::{ReleaseStatus, Revision, RevisionObject, release_status},
};
use crate::{
    config::{BaselineLimits, ReleaseLocations, Settings},
    sources::{
        document_reader::{DecodedDocuments, DocumentReader, ManifestText, decode_documents},
        driver::{self, BaselineSource, DecodeSlots, ReadFailure, ReadResult, SourceContext},
        metadata_watch::{
            ApiFailure, ChangedNamespaces, MetadataCache, ObjectQuery, REQUEST_TIMEOUT, StorageResource,
        },
        publisher::{DecodedBaseline, Publisher, TrackedBaseline},
        scopes::{KindScopes, SharedScopes},
    },
    types::{
        Authority, BaselineFault, BaselineOrigin, Clock, DownReason, HelmRelease, Lock, Scope, Selector,
        Source,
    },
    watch::request_with_timeout,
};

/// Helm's storage drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StorageDriver {
    Secret,
    ConfigMap,
}

impl StorageDriver {
    const ALL: [Self; 2] = [Self::Secret, Self::ConfigMap];

    fn resource(self) -> StorageResource {
        match self {
            Self::Secret => StorageResource::Secrets,
            Self::ConfigMap => StorageResource::ConfigMaps,
        }
    }
}

/// Publishes all releases and every change, until the receiver of events is gone.
pub async fn run(context: SourceContext) {
    driver::run::<HelmSource>(context).await;
}

struct HelmSource {
    client: Client,
    clock: Clock,
    settings: ReleaseLocations,
    scopes: SharedScopes,
    slots: DecodeSlots,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ReleaseId {
    driver: StorageDriver,
    namespace: Box<str>,
    name: Box<str>,
}

/// What the source tracks about one release.
struct ReleaseState {
    /// The revision that is deployed, once there is one.
    deployed: Option<RevisionObject>,
    /// Whether an operation has ended and its result has not been read.
    operation_ended: bool,
    /// Whether the release and its objects existed before the source was up, so that no install is in progress.
    existed_at_start: bool,
}

impl ReleaseId {
    fn origin(&self) -> BaselineOrigin {
        match self.driver {
            StorageDriver::ConfigMap => BaselineOrigin::HelmConfigMap,
            StorageDriver::Secret => BaselineOrigin::HelmSecret,
        }
    }
}

/// All storage objects of Helm carry this label.
fn query(driver: StorageDriver) -> ObjectQuery {
    let labels = ["name", "status", "version"].map(Into::into).into();
    ObjectQuery { resource: driver.resource(), selector: Selector::equals("owner", "helm"), labels }
}

/// `release shop/web`
impl fmt::Display for ReleaseId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "release {}/{}", self.namespace, self.name)
    }
}

impl BaselineSource for HelmSource {
    const SOURCE: Source = Source::Helm;
    const MAX_CONCURRENT_READS: usize = 8;

    type Settings = ReleaseLocations;
    type Location = ReleaseId;
    type State = ReleaseState;
    type Reader = DocumentReader;
    type Scan = ();

    fn new(context: &SourceContext) -> Self {
        Self {
            client: context.client.clone(),
            clock: context.clock.clone(),
            settings: ReleaseLocations::default(),
            scopes: SharedScopes::new(context.client.clone()),
            slots: context.decode_slots.clone(),
        }
    }

    fn namespace(id: &ReleaseId) -> &str {
        &id.namespace
    }

    fn settings(settings: &Settings) -> ReleaseLocations {
        settings.helm.clone()
    }

    fn authority(id: &ReleaseId) -> Authority {
        Authority::Release(HelmRelease { namespace: id.namespace.clone(), name: id.name.clone() })
    }

    fn apply_settings(&mut self, settings: ReleaseLocations, publisher: &mut Publisher<Self>) {
        publisher.retain(|id| settings.scope.has(&id.namespace));
        publisher.trusted_namespaces.clone_from(&settings.trusted_namespaces);
        self.settings = settings;
    }

    fn queries(&self) -> (Vec<ObjectQuery>, Scope) {
        (StorageDriver::ALL.map(query).into(), self.settings.scope.clone())
    }

    fn observe_objects(
        &mut self,
        cache: &MetadataCache,
        changed: &ChangedNamespaces,
        publisher: &mut Publisher<Self>,
    ) {
        let found = self.find_releases(cache, changed);
        publisher.retain(|id| {
            !changed.contains(&id.namespace)
                || found.contains_key(id)
                || !cache.has_listed(&query(id.driver), &id.namespace)
        });
        let existed_at_start = !publisher.has_reported();
        for (id, status) in found {
            let names = || {
                let name = format!("{}/{}", id.namespace, id.name);
                let longer = format!("{name} ({})", id.driver.resource().kind());
                [name, longer]
            };
            let state = || ReleaseState { deployed: None, operation_ended: false, existed_at_start };
            let Some(tracked) = publisher.track(&id, id.origin(), names, state) else { continue };
            if self.observe_status(&id, tracked, status) {
                publisher.publish(&id);
            }
        }
    }

    fn read(
        &mut self,
        id: &ReleaseId,
        tracked: &TrackedBaseline<Self>,
        reader: DocumentReader,
        limits: BaselineLimits,
    ) -> BoxFuture<'static, (DocumentReader, ReadResult)> {
        let Some(RevisionObject { name: object, .. }) = tracked.state.deployed.clone() else {
            return std::future::ready((reader, Err(ReadFailure::NotFound))).boxed();
        };
        let (client, scopes, id) = (self.client.clone(), self.scopes.clone(), id.clone());
        let slots = self.slots.clone();
        async move {
            let stored = match fetch(&client, &id, &object).await {
                Ok(Some(stored)) => Arc::new(stored),
                Ok(None) => return (reader, Err(ReadFailure::NotFound)),
                Err(failure) => return (reader, Err(ReadFailure::Api(failure))),
            };
            let size = stored.len();
            let decode = move |reader: &mut DocumentReader, scopes: &KindScopes| {
                decode_release(&stored, &id, reader, scopes, &limits)
            };
            decode_documents(reader, &scopes, &slots, size, decode).await
        }
        .boxed()
    }

    fn finish_read(&mut self, id: &ReleaseId, tracked: &mut TrackedBaseline<Self>, result: ReadResult) {
        let mut is_other_version = false;
        match result {
            Ok(decoded) => {
                let before = tracked.decoded.as_ref().map(|decoded| &decoded.version);
                is_other_version =
                    before.map_or(!tracked.state.existed_at_start, |before| *before != decoded.version);
                log_revision(tracked, &decoded);
                tracked.set_decoded(decoded);
            }
            Err(ReadFailure::Invalid(fault)) => tracked.set_fault(fault, explain(fault, id)),
            Err(ReadFailure::TooLarge(limit)) => tracked.set_too_large(id, limit),
            // The last revision holds until the watch brings the next one, for which a one-time run does not wait.
            Err(ReadFailure::NotFound | ReadFailure::Io(_) | ReadFailure::Api(_)) => {
                tracked.mark_synced();
                return;
            }
        }
        let is_operation_running = tracked.is_locked() && !tracked.state.operation_ended;
        if (is_other_version || tracked.state.operation_ended) && !is_operation_running {
            self.start_grace_period(tracked);
        }
    }
}

impl HelmSource {
    fn find_releases(
        &self,
        cache: &MetadataCache,
        changed: &ChangedNamespaces,
    ) -> BTreeMap<ReleaseId, ReleaseStatus> {
        let mut revisions: BTreeMap<ReleaseId, Vec<Revision>> = BTreeMap::new();
        for driver in StorageDriver::ALL {
            let query = query(driver);
            let objects = cache.objects(&query).filter(|object| {
                changed.contains(&object.namespace) && self.settings.scope.has(&object.namespace)
            });
            for object in objects {
                if let Some((release, revision)) = Revision::from_metadata(object) {
                    let id = ReleaseId { driver, namespace: object.namespace.clone(), name: release.into() };
                    revisions.entry(id).or_default().push(revision);
                }
            }
        }
        let statuses = revisions.into_iter().filter_map(|(id, revisions)| {
            Some((id, release_status(&revisions, self.settings.pending_max_age)?))
        });
        statuses.collect()
    }

    /// Schedules a read if another revision is deployed. Returns whether there is something to publish before that.
    fn observe_status(
        &self,
        id: &ReleaseId,
        tracked: &mut TrackedBaseline<Self>,
        status: ReleaseStatus,
    ) -> bool {
        let lock = match status {
            ReleaseStatus::Deployed(revision, lock) => {
                if tracked.state.deployed.as_ref() != Some(&revision) {
                    tracked.state.deployed = Some(revision);
                    tracked.read_now();
                }
                lock
            }
            ReleaseStatus::Pending(lock) => {
                if !tracked.has_pending_read() {
                    tracked.mark_synced();
                }
                Some(lock)
            }
            ReleaseStatus::NotDeployed => {
                tracked.state.deployed = None;
                tracked.cancel_read();
                let fault = BaselineFault::NotDeployed;
                if tracked.fault.as_ref().is_none_or(|trouble| trouble.fault != fault) {
                    tracked.set_fault(fault, explain(fault, id));
                    tracked.lock = None;
                    return true;
                }
                None
            }
        };
        self.observe_operation(tracked, lock)
    }

    /// Returns whether there is something to publish.
    fn observe_operation(&self, tracked: &mut TrackedBaseline<Self>, lock: Option<Lock>) -> bool {
        if let Some(lock) = lock {
            let is_new = tracked.lock.as_ref() != Some(&lock);
            if is_new {
                tracked.set_lock(Some(lock));
                tracked.state.operation_ended = false;
            }
            return is_new;
        }
        let has_ended = tracked.is_locked() && !tracked.state.operation_ended;
        tracked.state.operation_ended |= has_ended;
        // A failed operation leaves the last revision deployed, so that no read follows.
        let has_failed = has_ended && !tracked.has_pending_read();
        if has_failed {
            self.start_grace_period(tracked);
        }
        has_failed
    }

    fn start_grace_period(&self, tracked: &mut TrackedBaseline<Self>) {
        tracked.start_grace_period(self.clock.now());
        tracked.state.operation_ended = false;
    }
}

/// The value of the key `release`; `None` if the revision is gone or no longer deployed.
async fn fetch(
    client: &Client,
    id: &ReleaseId,
    object: &str,
) -> Result<Option<Zeroizing<Vec<u8>>>, ApiFailure> {
    const KEY: &str = "release";
    let namespace = &*id.namespace;
    let request = format!("get {} {object} in namespace {namespace}", id.driver.resource().kind());
    let get = async {
        match id.driver {
            StorageDriver::Secret => {
                let secret = Api::<Secret>::namespaced(client.clone(), namespace).get(object).await?;
                let value = secret.data.and_then(|mut data| data.remove(KEY)).map(|value| value.0);
                Ok((secret.metadata, value))
            }
            StorageDriver::ConfigMap => {
                let map = Api::<ConfigMap>::namespaced(client.clone(), namespace).get(object).await?;
                let value = map.data.and_then(|mut data| data.remove(KEY)).map(String::into_bytes);
                Ok((map.metadata, value))
            }
        }
    };
    match request_with_timeout(REQUEST_TIMEOUT, get).await.map_err(|error| ApiFailure::new(&error, &request))
    {
        Ok((metadata, value)) => {
            let status = metadata.labels.as_ref().and_then(|labels| labels.get("status"));
            let is_deployed = status.is_some_and(|status| status == "deployed");
            Ok(is_deployed.then(|| Zeroizing::new(value.unwrap_or_default())))
        }
        Err(failure) if failure.reason == DownReason::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn decode_release(
    stored: &[u8],
    id: &ReleaseId,
    reader: &mut DocumentReader,
    scopes: &KindScopes,
    limits: &BaselineLimits,
) -> ReadResult {
    let release = decode(stored, limits)?;
    // The object may be a copy from another namespace.
    let matches = |stored: &str, expected: &str| stored.is_empty() || stored == expected;
    if !matches(&release.name, &id.name) || !matches(&release.namespace, &id.namespace) {
        return Err(BaselineFault::Foreign.into());
    }
    let mut decoder = reader.start(scopes, limits);
    decoder.add(&ManifestText {
        text: &release.manifest,
        default_namespace: &id.namespace,
        address: None,
    })?;
    let DecodedDocuments { objects, skipped } = decoder.finish();
    Ok(DecodedBaseline::new(release.version(), objects, skipped, None))
}

fn log_revision(tracked: &TrackedBaseline<HelmSource>, decoded: &DecodedBaseline) {
    let (release, revision) = (&tracked.name, decoded.version.serial);
    let objects = decoded.objects.len();
    match &tracked.decoded {
        None => info!(%release, revision, objects, "Found a Helm release."),
        Some(before) if before.version != decoded.version => {
            info!(%release, revision, objects, "Another revision of a Helm release was deployed.");
        }
        Some(_) => {}
    }
    tracked.log_skipped(decoded);
}

fn explain(fault: BaselineFault, id: &ReleaseId) -> String {
    let kind = id.driver.resource().kind();
    let redeploy = "deploy it again with helm upgrade or helm rollback";
    match fault {
        BaselineFault::Incomplete | BaselineFault::Truncated => {
            format!("cannot read {id}: its {kind} is truncated; {redeploy}")
        }
        BaselineFault::Foreign => {
            format!("cannot read {id}: its {kind} contains another release, like a copy; delete the {kind}")
        }
        BaselineFault::NotDeployed => {
            format!("cannot read {id}: no revision is deployed; see helm history, and {redeploy}")
        }
        BaselineFault::TooLarge
        | BaselineFault::Encrypted
        | BaselineFault::UnsupportedVersion
        | BaselineFault::Unreadable => {
            format!("cannot read {id}: its {kind} is not a valid Helm 3 release; {redeploy}")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Arc};

    use kube::Client;
    use tokio::sync::{mpsc, watch};

    use super::{HelmSource, Publisher, ReleaseId, ReleaseState, SourceContext, StorageDriver};
    use crate::{
        config::{Limits, NamespaceLimits, RuntimeConfig, Settings},
        types::{Clock, RedactionKey, WatchMode},
    };

    fn publisher() -> Publisher<HelmSource> {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Ok::<_, Infallible>(http::Response::new(kube::client::Body::empty()))
        });
        Publisher::new(&SourceContext {
            client: Client::new(service, "default"),
            config: watch::channel(Arc::new(RuntimeConfig::new(Settings::default()))).1,
            events: mpsc::channel(1).0,
            declarations: watch::channel(Arc::default()).0,
            clock: Clock::system(),
            watch_mode: WatchMode::Continuous,
            decode_slots: super::DecodeSlots::default(),
            key: RedactionKey::new([7; 32]),
        })
    }

    fn id(namespace: &str, name: &str) -> ReleaseId {
        ReleaseId { driver: StorageDriver::Secret, namespace: namespace.into(), name: name.into() }
    }

    /// The name of a release with this id, if it is tracked.
    fn track(publisher: &mut Publisher<HelmSource>, id: &ReleaseId) -> Option<String> {
        let names = || [id.name.to_string(), format!("{}/{}", id.namespace, id.name)];
        let state = || ReleaseState { deployed: None, operation_ended: false, existed_at_start: true };
        publisher.track(id, id.origin(), names, state).map(|tracked| tracked.name.to_string())
    }

    #[tokio::test]
    async fn one_release_more_than_a_namespace_may_have_is_tracked() {
        let mut publisher = publisher();
        let namespace = NamespaceLimits { baselines: 2, ..NamespaceLimits::default() };
        publisher.set_limits(Limits { namespace, ..Limits::default() });
        let is_tracked = |publisher: &mut Publisher<HelmSource>, namespace: &str, name: &str| {
            track(publisher, &id(namespace, name)).is_some()
        };
        let evil = ["a", "b", "c", "d", "a"].map(|name| is_tracked(&mut publisher, "evil", name));
        assert_eq!(evil, [true, true, true, false, true]);
        assert!(is_tracked(&mut publisher, "shop", "web"), "another namespace has a share of its own");
        publisher.retain(|id| &*id.name != "a");
        assert!(is_tracked(&mut publisher, "evil", "d"));
        assert!(!is_tracked(&mut publisher, "evil", "a"));
    }

    #[tokio::test]
    async fn name_is_free_again_after_its_release_was_deleted() {
        let mut publisher = publisher();
        let (one, other) = (id("a", "web"), id("b", "web"));
        assert_eq!(track(&mut publisher, &one).as_deref(), Some("web"));
        assert_eq!(track(&mut publisher, &other).as_deref(), Some("b/web"));
        publisher.retain(|id| *id != one);
        assert_eq!(track(&mut publisher, &other).as_deref(), Some("b/web"), "names do not change");
        assert_eq!(track(&mut publisher, &one).as_deref(), Some("web"));
    }
}
