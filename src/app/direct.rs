//! The same exporter in this process, and nothing listens. What is looked at where nobody has written settings: every source that
//! needs none, and every kind that people declare.

use std::{net::Ipv4Addr, time::Duration};

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

use super::{AppError, Exporter, Parts, SettingsHandle, assemble, spawn_ingest};
use crate::{
    config::Settings,
    engine::{History, Snapshot, StateReader},
    server::{Peer, router},
    types::{Kind, Scope, Served, Source, WantedKind, WatchHealth},
};

/// What does not answer after this is shown as not seen.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often is told how far it is.
const TELLING: Duration = Duration::from_millis(100);

/// An exporter that looks at a cluster and is asked in this process.
#[derive(Debug)]
pub struct Direct {
    router: Router,
    state: StateReader,
    ended: oneshot::Receiver<()>,
    stop: CancellationToken,
    /// Held, or settings could not change any more.
    _settings: SettingsHandle,
}

/// How far a look is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// States and releases that were read.
    pub read: usize,
    /// Kinds whose list was answered.
    pub done: usize,
    /// Kinds that are listed; none while it is still being read what is declared.
    pub all: usize,
}

impl Direct {
    /// Begins to look.
    pub fn start(parts: &Parts) -> Result<Self, AppError> {
        let Exporter { ingest, exposed, settings, .. } = assemble(parts, History::default());
        let state = exposed.state.clone();
        let ended = spawn_ingest(ingest.run_in_turn())?;
        let stop = parts.stop.clone();
        Ok(Self { router: router(exposed), state, ended, stop, _settings: settings })
    }

    /// Waits until all has been answered, or will not be, and tells how far it is meanwhile.
    pub async fn settled(&mut self, mut tell: impl FnMut(Progress)) -> Result<(), AppError> {
        let mut wait = Wait::from(Instant::now());
        let mut ticks = interval(TELLING);
        loop {
            let snapshot = self.state.newest();
            if wait.is_over(&snapshot, Instant::now()) {
                return Ok(());
            }
            tell(progress(&snapshot));
            tokio::select! {
                more = self.state.changed() => if !more {
                    return Err(AppError::EngineStopped);
                },
                _ = &mut self.ended => return Err(AppError::EngineStopped),
                _ = ticks.tick() => {}
            }
        }
    }

    /// Whether the server has not said yet how objects of some kinds are compared. Nothing is said about these.
    pub fn awaits_shapes(&self) -> bool {
        self.state.snapshot().awaits_shapes
    }

    /// Asks as one would ask over HTTP. Whoever asks is here, and sees what his own rights let him see.
    pub async fn ask(&self, mut request: Request<Body>) -> Response<Body> {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        request.extensions_mut().insert(Peer { address, certified: false });
        let answer = self.router.clone().oneshot(request).await;
        answer.unwrap_or_else(|never| match never {})
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// How long it is waited for what.
struct Wait {
    begun: Instant,
    /// When every list was answered, or was not waited for any longer.
    listed: Option<Instant>,
}

impl Wait {
    fn from(begun: Instant) -> Self {
        Self { begun, listed: None }
    }

    /// Whether there is nothing left to wait for. It is waited for what has failed so far, and once all is listed for how kinds
    /// are compared, but not for ever.
    fn is_over(&mut self, snapshot: &Snapshot, now: Instant) -> bool {
        let is_patient = |since: Instant| now.saturating_duration_since(since) <= PATIENCE;
        if self.listed.is_none() && is_listed(snapshot, !is_patient(self.begun)) {
            self.listed = Some(now);
        }
        self.listed.is_some_and(|listed| !snapshot.awaits_shapes || !is_patient(listed))
    }
}

/// Whether all is listed. Those who are `impatient` do not wait for what has failed so far.
fn is_listed(snapshot: &Snapshot, impatient: bool) -> bool {
    let failed = |health: &WatchHealth| matches!(health, WatchHealth::Down { .. });
    let sources = snapshot.sources.values().all(|health| *health != WatchHealth::Starting);
    let mut streams = snapshot.streams();
    let any = streams.next().is_some();
    let answered = snapshot.streams().all(|stream| stream.answered || (impatient && failed(&stream.health)));
    snapshot.ready || (sources && any && answered)
}

fn progress(snapshot: &Snapshot) -> Progress {
    let waits = snapshot.sources.values().any(|health| *health == WatchHealth::Starting);
    if waits {
        return Progress { read: snapshot.baselines.len(), ..Progress::default() };
    }
    let done = snapshot.streams().filter(|stream| stream.answered).count();
    Progress { read: snapshot.baselines.len(), done, all: snapshot.streams().count() }
}

/// Kinds, by group and name, that controllers make and nobody declares, or that are many and tell nothing. `*`: all of a group.
const UNDECLARED: &[(&str, &str)] = &[
    ("", "ComponentStatus"),
    ("", "Endpoints"),
    ("", "Event"),
    ("", "Node"),
    ("", "Pod"),
    ("", "Secret"),
    ("apps", "ControllerRevision"),
    ("apps", "ReplicaSet"),
    ("certificates.k8s.io", "CertificateSigningRequest"),
    ("coordination.k8s.io", "*"),
    ("discovery.k8s.io", "*"),
    ("events.k8s.io", "*"),
    ("internal.apiserver.k8s.io", "*"),
    ("metrics.k8s.io", "*"),
    ("networking.k8s.io", "IPAddress"),
    ("resource.k8s.io", "ResourceSlice"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("storage.k8s.io", "VolumeAttachment"),
];

/// Namespaces that are tried at a time.
const AT_ONCE: usize = 16;

/// Settings for one look. `named`: the only kinds that matter; none for all that are usually declared. `namespace`: the only one
/// that matters, to those that have namespaces.
pub fn usual_settings(served: &Served, named: &[Kind], namespace: Option<&str>) -> Settings {
    let scope = |kind: &Kind| if kind.namespaced { Scope::new(namespace, []) } else { Scope::default() };
    let mut kinds: Vec<WantedKind> = if named.is_empty() {
        usual_kinds(served, namespace.is_none()).map(WantedKind::exactly).collect()
    } else {
        // Who scales an object is told by its autoscaler, which need not be asked for.
        let autoscaler = Kind::autoscaler();
        let by_the_way =
            WantedKind { by_the_way: true, scope: scope(&autoscaler), ..WantedKind::exactly(&autoscaler) };
        let named = named.iter().filter(|kind| !kind.is_guarded());
        let named = named.map(|kind| WantedKind { scope: scope(kind), ..WantedKind::exactly(kind) });
        named.chain([by_the_way]).collect()
    };
    kinds.sort();
    kinds.dedup();
    let mut settings = Settings {
        kinds,
        sources: vec![Source::Annotation, Source::Terraform, Source::Helm, Source::LastApplied],
        ..Settings::default()
    };
    // Objects without a namespace may be declared anywhere.
    if let Some(name) = namespace.filter(|_| named.iter().all(|kind| kind.namespaced)) {
        narrow(&mut settings, name);
    }
    settings
}

/// Looks in one namespace only. States often lie elsewhere than what they declare, and are few; releases are many, and lie where
/// they are installed.
pub fn narrow(settings: &mut Settings, namespace: &str) {
    settings.namespaces = vec![namespace.into()];
    settings.helm.scope = settings.helm.scope.within(&Scope::new([namespace], []));
}

/// Whether states or releases are looked for in namespaces that nobody named.
pub fn has_wide_sources(settings: &Settings) -> bool {
    let is_wide =
        |source, scope: &Scope| settings.sources.contains(&source) && matches!(scope, Scope::AllBut(_));
    is_wide(Source::Terraform, &settings.terraform.scope) || is_wide(Source::Helm, &settings.helm.scope)
}

/// Looks for states and releases within this scope, unless somebody named where they are.
pub fn narrow_sources(settings: &mut Settings, readable: &Scope) {
    for scope in [&mut settings.terraform.scope, &mut settings.helm.scope] {
        if matches!(scope, Scope::AllBut(_)) {
            *scope = scope.within(readable);
        }
    }
}

/// Every kind that people declare, in the version that the API server prefers.
fn usual_kinds(served: &Served, cluster_scoped: bool) -> impl Iterator<Item = &Kind> {
    let mut seen = Vec::new();
    let first = move |kind: &&Kind| {
        let name = (kind.group.clone(), kind.kind.clone());
        let is_first = !seen.contains(&name);
        seen.push(name);
        is_first
    };
    let watchable = served.kinds.iter().filter(|own| own.watchable).map(|own| &*own.kind);
    watchable
        .filter(|kind| is_declared(kind))
        .filter(move |kind| cluster_scoped || kind.namespaced)
        .filter(first)
}

fn is_declared(kind: &Kind) -> bool {
    let (group, name) = (&*kind.group, &*kind.kind);
    !UNDECLARED.iter().any(|own| *own == (group, name) || *own == (group, "*"))
}

/// The namespaces in which Secrets may be listed.
#[derive(Debug)]
pub struct Readable {
    /// These: all of them, where that is allowed at once or cannot be found out.
    pub scope: Scope,
    /// In which of them they may not.
    pub missed: Missed,
}

/// Namespaces that nobody may look into.
#[derive(Debug, PartialEq, Eq)]
pub enum Missed {
    /// None.
    Nothing,
    /// So many.
    Namespaces(usize),
    /// Those beside the one that matters.
    Others,
}

/// The namespaces in which Secrets may be listed. `namespace`: the only one that matters; where objects may be declared `anywhere`,
/// the first one that does.
pub async fn readable_scope(client: &Client, namespace: Option<&str>, anywhere: bool) -> Readable {
    // Asking with a label that none has shows nothing and costs nothing.
    let nothing = ListParams::default().labels("owner=helm,!owner").limit(1);
    let everywhere: Api<PartialObjectMeta<Secret>> = Api::all(client.clone());
    let all = || Readable { scope: Scope::default(), missed: Missed::Nothing };
    if !is_forbidden(&everywhere.list(&nothing).await) {
        return all();
    }
    let one = |name| Readable { scope: Scope::new([name], []), missed: Missed::Others };
    if let Some(name) = namespace.filter(|_| !anywhere) {
        return one(name);
    }
    let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
    let Ok(found) = namespaces.list(&ListParams::default()).await else {
        return namespace.map_or_else(all, one);
    };
    let names: Vec<String> = found.items.into_iter().filter_map(|own| own.metadata.name).collect();
    let count = names.len();
    let tried = stream::iter(names).map(async |name| {
        let there: Api<PartialObjectMeta<Secret>> = Api::namespaced(client.clone(), &name);
        // Whoever does not answer now is asked again, and what becomes of that is told.
        (!is_forbidden(&there.list(&nothing).await)).then_some(name)
    });
    let readable: Vec<String> =
        tried.buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await;
    match count - readable.len() {
        // What cannot be read anywhere is refused as a whole, which is told.
        _ if readable.is_empty() => all(),
        0 => Readable { scope: Scope::new(readable, []), missed: Missed::Nothing },
        count => Readable { scope: Scope::new(readable, []), missed: Missed::Namespaces(count) },
    }
}

fn is_forbidden<T>(answer: &Result<T, kube::Error>) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 403)
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, PATIENCE, Snapshot, Wait};

    #[test]
    fn how_kinds_are_compared_is_waited_for_from_when_all_is_listed() {
        let begun = Instant::now();
        let mut wait = Wait::from(begun);
        // A large cluster has used up all patience by then.
        let listed = begun + PATIENCE * 2;
        assert!(!wait.is_over(&Snapshot::default(), begun));
        let awaiting = Snapshot { ready: true, awaits_shapes: true, ..Snapshot::default() };
        assert!(!wait.is_over(&awaiting, listed) && !wait.is_over(&awaiting, listed + PATIENCE));
        assert!(wait.is_over(&awaiting, listed + PATIENCE + Duration::from_millis(1)));
        assert!(Wait::from(begun).is_over(&Snapshot { awaits_shapes: false, ..awaiting }, begun));
    }
}

#[cfg(test)]
mod usual_tests {
    use std::sync::Arc;

    use super::{Kind, Served, usual_settings};
    use crate::types::ServedKind;

    fn served() -> Served {
        let kind = |group: &str, version: &str, kind: &str, namespaced| ServedKind {
            kind: Arc::new(Kind { namespaced, ..Kind::unseen(group, version, kind) }),
            watchable: true,
        };
        let kinds = vec![
            kind("", "v1", "ConfigMap", true),
            kind("", "v1", "Secret", true),
            kind("", "v1", "Pod", true),
            kind("events.k8s.io", "v1", "Event", true),
            kind("example.com", "v2", "Widget", true),
            kind("example.com", "v1", "Widget", true),
            kind("rbac.authorization.k8s.io", "v1", "ClusterRole", false),
            ServedKind {
                watchable: false,
                ..kind("authorization.k8s.io", "v1", "SubjectAccessReview", false)
            },
        ];
        Served { kinds }
    }

    fn wanted(named: &[Kind], namespace: Option<&str>) -> Vec<String> {
        let settings = usual_settings(&served(), named, namespace);
        settings.wanted_kinds().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_that_people_declare_is_looked_at_once() {
        let everywhere =
            ["v1 ConfigMap", "example.com/v2 Widget", "rbac.authorization.k8s.io/v1 ClusterRole"];
        assert_eq!(wanted(&[], None), everywhere);
        assert_eq!(wanted(&[], Some("shop")), everywhere[..2]);
    }

    #[test]
    fn of_named_kinds_no_other_is_looked_at_but_who_scales_them() {
        let secret = Kind::unseen("", "v1", "Secret");
        let named = [Kind::deployment(), secret];
        assert_eq!(wanted(&named, None), ["apps/v1 Deployment", "autoscaling/v2 HorizontalPodAutoscaler"]);
    }
}
