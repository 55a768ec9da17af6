//! The exporter in one process with its caller, for commands that read a cluster once: nothing listens. And
//! the settings for a cluster without a settings file: all sources that need no configuration, and all kinds
//! that people declare.

use std::{future, net::Ipv4Addr, time::Duration};

use axum::{Router, body::Body};
use futures_util::{StreamExt as _, stream};
use http::{Request, Response};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, Client,
    api::{ListParams, PartialObjectMeta},
};
use tokio::{
    sync::oneshot,
    time::{Instant, interval},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::{AppError, Exporter, ExporterDeps, SettingsHandle, assemble, spawn_thread};
use crate::{
    config::Settings,
    engine::{History, Snapshot, SnapshotReader},
    server::{Peer, router},
    types::{GroupKind, Kind, Scope, ServedKinds, Source, SyncHealth, WantedKind},
};

/// A watch that keeps failing is reported as down after this time. Schemas get the same time after all lists.
const SYNC_TIMEOUT: Duration = Duration::from_secs(15);
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);
const CONCURRENT_CHECKS: usize = 16;

/// An exporter without a listener. Dropping it stops it.
#[derive(Debug)]
pub struct InProcessExporter {
    router: Router,
    state: SnapshotReader,
    ended: oneshot::Receiver<()>,
    stop: CancellationToken,
    /// Keeps the settings channel open.
    _settings: SettingsHandle,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncProgress {
    pub read: usize,
    /// Watches whose first list was answered.
    pub done: usize,
    /// All watches; 0 until all sources were read.
    pub all: usize,
}

impl InProcessExporter {
    pub fn start(deps: &ExporterDeps) -> Result<Self, AppError> {
        let Exporter { ingest, exposed, settings, .. } = assemble(deps, History::default());
        let state = exposed.state.clone();
        let ended = spawn_thread("watch", ingest.run_sources_first())?;
        let stop = deps.stop.clone();
        Ok(Self { router: router(exposed), state, ended, stop, _settings: settings })
    }

    /// Waits until all watches are synced or have timed out.
    pub async fn wait_until_synced(&mut self, mut report: impl FnMut(SyncProgress)) -> Result<(), AppError> {
        let mut wait = SyncWait::new(Instant::now());
        let mut ticks = interval(PROGRESS_INTERVAL);
        loop {
            let snapshot = self.state.snapshot_and_update();
            if wait.is_over(&snapshot, Instant::now()) {
                return Ok(());
            }
            report(progress(&snapshot));
            tokio::select! {
                running = self.state.changed() => if !running {
                    return Err(AppError::EngineStopped);
                },
                _ = &mut self.ended => return Err(AppError::EngineStopped),
                _ = ticks.tick() => {}
            }
        }
    }

    /// Whether schemas of custom resources are missing: their objects are not judged.
    pub fn awaits_schemas(&self) -> bool {
        self.state.snapshot().awaits_schemas
    }

    /// Handles a request like one over HTTP from this host. The exporter has the caller's permissions, so the
    /// caller may see everything.
    pub async fn request(&self, mut request: Request<Body>) -> Response<Body> {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        request.extensions_mut().insert(Peer { address, certified: false });
        let response = self.router.clone().oneshot(request).await;
        response.unwrap_or_else(|never| match never {})
    }
}

impl Drop for InProcessExporter {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The timeouts of a wait: one for the lists, and then one for the schemas.
struct SyncWait {
    started: Instant,
    /// When all lists were answered or had timed out.
    listed: Option<Instant>,
}

impl SyncWait {
    fn new(started: Instant) -> Self {
        Self { started, listed: None }
    }

    fn is_over(&mut self, snapshot: &Snapshot, now: Instant) -> bool {
        let is_timed_out = |since: Instant| now.saturating_duration_since(since) > SYNC_TIMEOUT;
        if self.listed.is_none() && is_listed(snapshot, is_timed_out(self.started)) {
            self.listed = Some(now);
        }
        self.listed.is_some_and(|listed| !snapshot.awaits_schemas || is_timed_out(listed))
    }
}

/// Whether all lists are done. After the timeout, a list that fails and is retried counts as done.
fn is_listed(snapshot: &Snapshot, timed_out: bool) -> bool {
    let is_down = |health: &SyncHealth| matches!(health, SyncHealth::Down { .. });
    let sources_read = snapshot.sources.values().all(|health| *health != SyncHealth::Starting);
    let has_watches = snapshot.watches().next().is_some();
    let answered =
        snapshot.watches().all(|watch| watch.first_list_ended || (timed_out && is_down(&watch.health)));
    snapshot.ready || (sources_read && has_watches && answered)
}

fn progress(snapshot: &Snapshot) -> SyncProgress {
    let read = snapshot.baselines.values().count();
    if snapshot.sources.values().any(|health| *health == SyncHealth::Starting) {
        return SyncProgress { read, ..SyncProgress::default() };
    }
    let done = snapshot.watches().filter(|watch| watch.first_list_ended).count();
    SyncProgress { read, done, all: snapshot.watches().count() }
}

/// Kinds, by group and name, that controllers create and people do not declare, or that are numerous without
/// showing drift. `*`: all kinds of a group.
const UNDECLARED: &[GroupKind<&str>] = &[
    GroupKind::new("", "ComponentStatus"),
    GroupKind::new("", "Endpoints"),
    GroupKind::new("", "Event"),
    GroupKind::new("", "Node"),
    GroupKind::new("", "Pod"),
    GroupKind::new("", "Secret"),
    GroupKind::new("apps", "ControllerRevision"),
    GroupKind::new("apps", "ReplicaSet"),
    GroupKind::new("certificates.k8s.io", "CertificateSigningRequest"),
    GroupKind::new("coordination.k8s.io", "*"),
    GroupKind::new("discovery.k8s.io", "*"),
    GroupKind::new("events.k8s.io", "*"),
    GroupKind::new("internal.apiserver.k8s.io", "*"),
    GroupKind::new("metrics.k8s.io", "*"),
    GroupKind::new("networking.k8s.io", "IPAddress"),
    GroupKind::new("resource.k8s.io", "ResourceSlice"),
    GroupKind::new("storage.k8s.io", "CSINode"),
    GroupKind::new("storage.k8s.io", "CSIStorageCapacity"),
    GroupKind::new("storage.k8s.io", "VolumeAttachment"),
];

/// The settings without a settings file. `kinds`: the requested kinds, or none for all that people declare.
/// `namespace`: the only requested namespace.
pub fn default_settings(served: &ServedKinds, kinds: &[Kind], namespace: Option<&str>) -> Settings {
    let scope = |kind: &Kind| if kind.namespaced { Scope::new(namespace, []) } else { Scope::default() };
    let mut wanted: Vec<WantedKind> = if kinds.is_empty() {
        declared_kinds(served, namespace.is_none()).map(WantedKind::exactly).collect()
    } else {
        // Autoscalers are needed to explain changed replicas, even if they are not requested.
        let kind = Kind::autoscaler();
        let autoscaler = WantedKind { implicit: true, scope: scope(&kind), ..WantedKind::exactly(&kind) };
        let requested = kinds.iter().filter(|kind| !kind.requires_selector());
        let requested = requested.map(|kind| WantedKind { scope: scope(kind), ..WantedKind::exactly(kind) });
        requested.chain([autoscaler]).collect()
    };
    wanted.sort();
    wanted.dedup();
    let mut settings = Settings {
        kinds: wanted,
        sources: vec![Source::Annotation, Source::Terraform, Source::Helm, Source::LastApplied],
        ..Settings::default()
    };
    // Baselines of cluster-scoped objects may be in any namespace.
    if let Some(name) = namespace.filter(|_| kinds.iter().all(|kind| kind.namespaced)) {
        limit_to_namespace(&mut settings, name);
    }
    settings
}

/// Limits the settings to one namespace. Helm stores a release in the namespace of its objects; Terraform
/// states are often in another namespace, and few, so they are not limited.
pub fn limit_to_namespace(settings: &mut Settings, namespace: &str) {
    settings.namespaces = vec![namespace.into()];
    settings.helm.scope = settings.helm.scope.within(&Scope::new([namespace], []));
}

/// Whether states or releases are read in all namespaces.
pub fn reads_all_namespaces(settings: &Settings) -> bool {
    let is_unlimited =
        |source, scope: &Scope| settings.sources.contains(&source) && matches!(scope, Scope::AllExcept(_));
    is_unlimited(Source::Terraform, &settings.terraform.scope)
        || is_unlimited(Source::Helm, &settings.helm.scope)
}

/// Limits states and releases to the readable namespaces, unless the settings name namespaces.
pub fn limit_sources(settings: &mut Settings, readable: &Scope) {
    for scope in [&mut settings.terraform.scope, &mut settings.helm.scope] {
        if matches!(scope, Scope::AllExcept(_)) {
            *scope = scope.within(readable);
        }
    }
}

/// All kinds that people declare, in the version that the API server prefers.
fn declared_kinds(served: &ServedKinds, cluster_scoped: bool) -> impl Iterator<Item = &Kind> {
    let mut seen = Vec::new();
    // The API server lists the preferred version of a group first.
    let is_preferred = move |kind: &&Kind| {
        let name = kind.group_kind().into_owned();
        let is_first = !seen.contains(&name);
        seen.push(name);
        is_first
    };
    let watchable = served.kinds.iter().filter(|served| served.watchable).map(|served| &*served.kind);
    watchable
        .filter(|kind| is_declared(kind))
        .filter(move |kind| cluster_scoped || kind.namespaced)
        .filter(is_preferred)
}

fn is_declared(kind: &Kind) -> bool {
    let kind = kind.group_kind();
    let whole_group = GroupKind { kind: "*", ..kind };
    !UNDECLARED.iter().any(|undeclared| [kind, whole_group].contains(undeclared))
}

/// Whether a namespace exists, as far as the caller may know.
pub async fn may_have_namespace(client: &Client, name: &str) -> bool {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    !matches!(namespaces.get_metadata_opt(name).await, Ok(None))
}

/// The namespaces in which Secrets may be listed.
#[derive(Debug)]
pub struct ReadableSecrets {
    /// All namespaces if the caller may list Secrets in all of them, or if that cannot be determined.
    pub scope: Scope,
    pub missed: Option<MissedNamespaces>,
}

/// The namespaces in which Secrets may not be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissedNamespaces {
    /// All but the requested one.
    Others,
    Number(usize),
}

/// Determines in which namespaces Secrets may be listed. If the caller may not list them in all namespaces,
/// only the requested `namespace` is used, or each namespace is checked if objects may be declared
/// `anywhere`.
pub async fn readable_secrets(client: &Client, namespace: Option<&str>, anywhere: bool) -> ReadableSecrets {
    // Selects nothing, so the check is cheap and shows no Secret.
    let nothing = ListParams::default().labels("owner=helm,!owner").limit(1);
    let everywhere: Api<PartialObjectMeta<Secret>> = Api::all(client.clone());
    let all = || ReadableSecrets { scope: Scope::default(), missed: None };
    if !is_forbidden(&everywhere.list(&nothing).await) {
        return all();
    }
    let one =
        |name| ReadableSecrets { scope: Scope::new([name], []), missed: Some(MissedNamespaces::Others) };
    if let Some(name) = namespace.filter(|_| !anywhere) {
        return one(name);
    }
    let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
    let Ok(found) = namespaces.list(&ListParams::default()).await else {
        return namespace.map_or_else(all, one);
    };
    let names: Vec<String> =
        found.items.into_iter().filter_map(|namespace| namespace.metadata.name).collect();
    let count = names.len();
    let checks = stream::iter(names).map(async |name| {
        let secrets: Api<PartialObjectMeta<Secret>> = Api::namespaced(client.clone(), &name);
        // Other errors are retried and reported by the watch.
        (!is_forbidden(&secrets.list(&nothing).await)).then_some(name)
    });
    let readable: Vec<String> =
        checks.buffer_unordered(CONCURRENT_CHECKS).filter_map(future::ready).collect().await;
    if readable.is_empty() {
        // The watch of all namespaces reports that it is forbidden.
        return all();
    }
    let missed = Some(count - readable.len()).filter(|count| *count > 0).map(MissedNamespaces::Number);
    ReadableSecrets { scope: Scope::new(readable, []), missed }
}

fn is_forbidden<T>(result: &Result<T, kube::Error>) -> bool {
    matches!(result, Err(kube::Error::Api(status)) if status.code == 403)
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, SYNC_TIMEOUT, Snapshot, SyncWait};

    #[test]
    fn timeout_for_schemas_starts_when_all_lists_are_done() {
        let started = Instant::now();
        let mut wait = SyncWait::new(started);
        // The lists of a large cluster take longer than the timeout.
        let listed = started + SYNC_TIMEOUT * 2;
        assert!(!wait.is_over(&Snapshot::default(), started));
        let awaiting = Snapshot { ready: true, awaits_schemas: true, ..Snapshot::default() };
        assert!(!wait.is_over(&awaiting, listed) && !wait.is_over(&awaiting, listed + SYNC_TIMEOUT));
        assert!(wait.is_over(&awaiting, listed + SYNC_TIMEOUT + Duration::from_millis(1)));
        assert!(SyncWait::new(started).is_over(&Snapshot { awaits_schemas: false, ..awaiting }, started));
    }
}
