//! Plans which collections to watch, from the requested kinds and the kinds that the API server serves.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Arc, LazyLock},
    time::Duration,
};

use kube::Client;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::{info, warn};

use super::{WatcherConfig, discovery::DiscoveryClient};
use crate::types::{
    DecodeConfig, DownReason, GroupKind, Kind, KindName, NameSet, NamespacedName, ObjectFilter, Scope,
    Selector, ServedKind, ServedKinds, SyncHealth, Unwatched, WantedKind, Watch, WatchConfig, WatchId,
    WatchIds, WatchPlan, WatchSpec,
};

/// With an unchanged `ETag` the response has no body.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(5);

/// Kinds that every supported cluster serves in this version: they are watched before discovery has finished.
static WELL_KNOWN: LazyLock<[Arc<Kind>; 2]> =
    LazyLock::new(|| [Kind::deployment(), Kind::service()].map(Arc::new));

#[derive(Clone, Debug, Default)]
pub enum Discovery {
    #[default]
    Pending,
    /// Discovery has never succeeded.
    Failed(SyncHealth),
    /// The newest answer. It remains valid while later requests fail.
    Complete(Arc<ServedKinds>),
}

impl Discovery {
    fn served(&self) -> Option<&Arc<ServedKinds>> {
        match self {
            Self::Complete(served) => Some(served),
            Self::Pending | Self::Failed(_) => None,
        }
    }
}

/// The watches to keep open, and how to decode their objects.
#[derive(Clone, Debug)]
pub(crate) struct PlannedWatches {
    pub(crate) plan: Arc<WatchPlan>,
    pub(crate) decode: Arc<DecodeConfig>,
}

/// Publishes a new plan whenever the config or the served kinds change.
pub(crate) struct Planner {
    plans: watch::Sender<PlannedWatches>,
    ids: WatchIds,
    discovery_client: DiscoveryClient,
    discovery: Discovery,
    /// Whether the last request failed, so that a failure is logged once.
    is_failing: bool,
}

impl Planner {
    /// Returns the planner and its plans. The first plan is made without discovery.
    pub(crate) fn new(
        client: Client,
        timing: WatcherConfig,
        config: &WatchConfig,
    ) -> (Self, watch::Receiver<PlannedWatches>) {
        let (discovery, mut ids) = (Discovery::default(), WatchIds::default());
        let plan = Arc::new(plan(&config.kinds, &discovery, &mut ids));
        let (plans, receiver) = watch::channel(PlannedWatches { plan, decode: config.decode.clone() });
        let discovery_client = DiscoveryClient::new(client, timing.idle_timeout);
        (Self { plans, ids, discovery_client, discovery, is_failing: false }, receiver)
    }

    /// Runs forever. `select` returns the part of the config to follow. Discovery runs only while a kind is requested that
    /// needs it.
    pub(crate) async fn run<C>(
        mut self,
        mut config: watch::Receiver<Arc<C>>,
        select: impl Fn(&C) -> &WatchConfig,
    ) {
        let mut next_discovery = Instant::now();
        loop {
            let current = select(&config.borrow_and_update()).clone();
            self.publish(&current);
            let needs_discovery = current.kinds.iter().any(needs_discovery);
            let discovery = async {
                sleep_until(next_discovery).await;
                self.discover().await;
            };
            tokio::select! {
                () = config_changed(&mut config, |config| *select(config) != current) => {}
                () = discovery, if needs_discovery => next_discovery = Instant::now() + DISCOVERY_INTERVAL,
            }
        }
    }

    async fn discover(&mut self) {
        match self.discovery_client.refresh().await {
            Ok(changed) => {
                if changed || self.discovery.served().is_none() {
                    self.discovery = Discovery::Complete(Arc::new(self.discovery_client.served()));
                }
                self.is_failing = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    warn!(%error, "Discovery failed; using the last known kinds.");
                }
                if self.discovery.served().is_none() {
                    let message = format!("discovery failed: {error}").into();
                    self.discovery =
                        Discovery::Failed(SyncHealth::Down { reason: error.down_reason(), message });
                }
            }
        }
    }

    fn publish(&mut self, WatchConfig { kinds: wanted, decode }: &WatchConfig) {
        let plan = plan(wanted, &self.discovery, &mut self.ids);
        let PlannedWatches { plan: previous, decode: previous_decode } = self.plans.borrow().clone();
        if *previous == plan && previous_decode == *decode {
            return;
        }
        for unwatched in plan.unwatched.iter().filter(|unwatched| !previous.unwatched.contains(unwatched)) {
            if let SyncHealth::Down { message, .. } = &unwatched.health {
                warn!(kind = %unwatched.spec.kind, %message, "A requested kind is not watched.");
            }
        }
        let is_watched_in = |version: &str, kind: &Kind| {
            let mut kinds = plan.watches.iter().map(|watch| &watch.spec.kind);
            kinds.any(|watched| watched.is_same_type(kind) && *watched.version == *version)
        };
        let known: HashSet<WatchId> = previous.watches.iter().map(|watch| watch.id).collect();
        for Watch { spec, .. } in plan.watches.iter().filter(|watch| !known.contains(&watch.id)) {
            let in_other_version = |want: &&WantedKind| {
                let version = want.version.as_ref().filter(|_| !want.implicit);
                want.matches(&spec.kind) && version.is_some_and(|version| !is_watched_in(version, &spec.kind))
            };
            if let Some(requested) = wanted.iter().find(in_other_version) {
                let version = &spec.kind.version;
                info!(watch = %spec, %version, %requested, "The requested version is not served.");
            }
        }
        self.plans.send_replace(PlannedWatches { plan: Arc::new(plan), decode: decode.clone() });
    }
}

/// Waits for another config. Never resolves once the config cannot change any more.
pub(crate) async fn config_changed<C>(config: &mut watch::Receiver<Arc<C>>, is_other: impl Fn(&C) -> bool) {
    if config.wait_for(|config| is_other(config)).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Plans the watches. The result does not depend on the order of `wanted`, and every object is reported by exactly one
/// watch: a relist can delete the objects that it lacks.
pub fn plan(wanted: &[WantedKind], discovery: &Discovery, ids: &mut WatchIds) -> WatchPlan {
    let mut wanted: Vec<&WantedKind> = wanted.iter().collect();
    wanted.sort();
    let mut kinds: BTreeMap<GroupKind, KindPlan> = BTreeMap::new();
    let mut unwatched = BTreeMap::new();
    for want in wanted {
        for resolution in resolve(want, discovery) {
            match resolution {
                Resolution::Unwatched(kind, health) => {
                    unwatched.entry(kind).or_insert(health);
                }
                Resolution::Kind { kind, rank } => match refusal(want, &kind) {
                    None => {
                        let key = kind.group_kind().into_owned();
                        // An implicit request does not choose the version.
                        let rank = if want.implicit { usize::MAX } else { rank };
                        let kind_plan = kinds.entry(key).or_insert_with(|| KindPlan::new(rank, &kind));
                        kind_plan.add(rank, &kind, want);
                        for (version, objects) in &*want.versions {
                            kind_plan.pin(in_version(&kind, version, discovery), objects);
                        }
                    }
                    Some(refusal) if want.kind != KindName::Any && !want.implicit => {
                        unwatched.entry(kind).or_insert_with(|| refusal.into());
                    }
                    // It was requested implicitly or as part of a group.
                    Some(_) => {}
                },
            }
        }
    }
    let mut kinds: Vec<KindPlan> = kinds.into_values().collect();
    kinds.sort_by(|a, b| (&a.kind.kind, &a.kind.group).cmp(&(&b.kind.kind, &b.kind.group)));
    let mut specs = Vec::new();
    for kind_plan in kinds {
        let kind = kind_plan.kind.clone();
        let (of_kind, refusal) = kind_plan.watch_specs();
        specs.extend(of_kind.into_iter().map(Arc::new));
        if let Some(refusal) = refusal {
            unwatched.entry(kind).or_insert_with(|| refusal.into());
        }
    }
    // A refused request does not matter if another one watches all objects of the kind.
    let is_fully_watched = |kind: &Kind| {
        let is_cluster_wide = |spec: &WatchSpec| spec.namespace.is_none() && !spec.selects_by_name();
        specs.iter().any(|spec| *spec.kind == *kind && is_cluster_wide(spec))
    };
    let unwatched = unwatched
        .into_iter()
        .filter(|(kind, _)| !is_fully_watched(kind))
        .map(|(kind, health)| Unwatched { spec: Arc::new(WatchSpec::none(kind)), health })
        .collect();
    WatchPlan { watches: ids.assign(specs), unwatched, served: discovery.served().cloned() }
}

/// Why a served kind cannot be watched as requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error("none of its namespaces is to be watched")]
    NoNamespace,
    #[error("its objects are in namespaces, and the declarations name none")]
    Namespaced,
    #[error("its objects are in no namespace, and only some namespaces are to be watched")]
    ClusterScoped,
    #[error("objects of this kind are asked for by a name or a selector, and in named namespaces only")]
    RequiresSelector,
    #[error("objects of this kind are asked for by one selector in each namespace")]
    SeveralSelectors,
}

impl From<Refusal> for SyncHealth {
    fn from(refusal: Refusal) -> Self {
        Self::Down { reason: DownReason::Refused, message: refusal.to_string().into() }
    }
}

fn refusal(want: &WantedKind, kind: &Kind) -> Option<Refusal> {
    let names_namespaces = matches!(want.scope, Scope::In(_));
    let selects = want.name.is_some() || want.selector.as_ref().is_some_and(|selector| !selector.is_empty());
    if want.scope.is_empty() {
        Some(Refusal::NoNamespace)
    } else if kind.namespaced && want.scope == Scope::In([Box::default()].into()) {
        Some(Refusal::Namespaced)
    } else if !kind.namespaced && names_namespaces && !want.scope.has("") {
        Some(Refusal::ClusterScoped)
    } else if kind.requires_selector() && !(selects && names_namespaces) {
        Some(Refusal::RequiresSelector)
    } else {
        None
    }
}

struct KindPlan {
    /// Position of the version in the preference order of the API server; the smallest wins.
    rank: usize,
    kind: Arc<Kind>,
    /// The requested namespaces of each selector; `None` requests all objects.
    scopes: BTreeMap<Option<Selector>, Scope>,
    /// Single objects, each with the version in which it was requested.
    single_objects: BTreeMap<NamespacedName, Arc<Kind>>,
    /// Objects that must be read in this version, whatever the version of the others is.
    pinned: BTreeMap<Arc<Kind>, NameSet>,
    implicit: Scope,
}

impl KindPlan {
    fn new(rank: usize, kind: &Arc<Kind>) -> Self {
        Self {
            rank,
            kind: kind.clone(),
            scopes: BTreeMap::new(),
            single_objects: BTreeMap::new(),
            pinned: BTreeMap::new(),
            implicit: Scope::nothing(),
        }
    }

    fn add(&mut self, rank: usize, kind: &Arc<Kind>, want: &WantedKind) {
        if rank < self.rank {
            (self.rank, self.kind) = (rank, kind.clone());
        }
        let mut scope = if kind.namespaced { want.scope.clone() } else { Scope::default() };
        if let Scope::In(namespaces) = &mut scope {
            namespaces.remove("");
        }
        if let (Some(name), Scope::In(namespaces)) = (&want.name, &scope) {
            for namespace in namespaces {
                let key = NamespacedName { namespace: namespace.clone(), name: name.clone() };
                self.single_objects.entry(key).or_insert_with(|| kind.clone());
            }
        } else if want.implicit {
            self.implicit = &self.implicit | &scope;
        } else {
            self.widen(want.selector.clone().filter(|selector| !selector.is_empty()), &scope);
        }
    }

    fn widen(&mut self, selector: Option<Selector>, by: &Scope) {
        let scope = self.scopes.entry(selector).or_insert_with(Scope::nothing);
        *scope = &*scope | by;
    }

    fn pin(&mut self, kind: Option<Arc<Kind>>, objects: &NameSet) {
        if let Some(kind) = kind {
            self.pinned.entry(kind).or_default().extend(objects.iter());
        }
    }

    /// The watches that cover all requests, and why a request is not covered.
    fn watch_specs(mut self) -> (Vec<WatchSpec>, Option<Refusal>) {
        let implicit_only = self.merge_implicit();
        let (mut specs, refusal) = self.specs_of(self.clauses());
        if !implicit_only.is_empty() {
            specs.extend(self.specs_of(vec![ObjectFilter { scope: implicit_only, selector: None }]).0);
        }
        self.split_off_pinned(&mut specs);
        for (NamespacedName { namespace, name }, kind) in &self.single_objects {
            if !specs.iter().any(|spec| spec.is_authoritative_for(namespace, name)) {
                // Exactly one watch reports an object.
                for other in specs.iter_mut().filter(|spec| spec.name.is_none() && spec.covers(namespace)) {
                    Arc::make_mut(&mut other.excluded_names).insert(namespace, name);
                }
                let (namespace, name) = (Some(namespace.clone()), Some(name.clone()));
                specs.push(WatchSpec { namespace, name, ..WatchSpec::all(kind.clone()) });
            }
        }
        (specs, refusal)
    }

    /// Moves objects that are pinned to another version to watches of that version.
    fn split_off_pinned(&self, specs: &mut Vec<WatchSpec>) {
        let mut of_pinned = Vec::new();
        for (kind, objects) in self.pinned.iter().filter(|(kind, _)| **kind != self.kind) {
            for spec in specs.iter_mut() {
                let reported =
                    objects.iter().filter(|(namespace, name)| spec.is_authoritative_for(namespace, name));
                let only: NameSet = reported.collect();
                if !only.is_empty() {
                    Arc::make_mut(&mut spec.excluded_names).extend(only.iter());
                    of_pinned.push(WatchSpec {
                        namespace: spec.namespace.clone(),
                        excluded: spec.excluded.clone(),
                        included_names: Arc::new(only),
                        ..WatchSpec::all(kind.clone())
                    });
                }
            }
        }
        specs.extend(of_pinned);
    }

    /// Adds implicit requests to explicit ones in the same namespaces. Returns the other namespaces: they get watches of
    /// their own, so that explicit requests need no further permissions.
    fn merge_implicit(&mut self) -> Scope {
        let explicit = self.scopes.values().fold(Scope::nothing(), |all, scope| &all | scope);
        let shared = self.implicit.within(&explicit);
        if !shared.is_empty() {
            self.widen(None, &shared);
        }
        &self.implicit - &explicit
    }

    /// One cluster-wide watch if any clause needs it, else one watch for each namespace.
    fn specs_of(&self, clauses: Vec<ObjectFilter>) -> (Vec<WatchSpec>, Option<Refusal>) {
        let mut namespaces = BTreeSet::new();
        let mut excluded = BTreeSet::new();
        for clause in &clauses {
            match &clause.scope {
                Scope::In(names) => namespaces.extend(names.iter().cloned()),
                Scope::AllExcept(names) => excluded.extend(names.iter().cloned()),
            }
        }
        if clauses.iter().any(|clause| matches!(clause.scope, Scope::AllExcept(_))) {
            excluded.retain(|name| !clauses.iter().any(|clause| clause.scope.has(name)));
            let mut spec = self.spec_of(clauses);
            spec.excluded = excluded.into_iter().collect();
            return (vec![spec], None);
        }
        let mut refusal = None;
        let mut specs = Vec::new();
        for namespace in namespaces {
            let scope = Scope::In([namespace.clone()].into());
            let in_namespace = clauses.iter().filter(|clause| clause.scope.has(&namespace));
            let mut in_namespace: Vec<ObjectFilter> =
                in_namespace.map(|clause| ObjectFilter { scope: scope.clone(), ..clause.clone() }).collect();
            if self.kind.requires_selector() && in_namespace.len() > 1 {
                in_namespace.truncate(1);
                refusal = Some(Refusal::SeveralSelectors);
            }
            let mut spec = self.spec_of(in_namespace);
            spec.namespace = Some(namespace);
            specs.push(spec);
        }
        (specs, refusal)
    }

    /// The requests without those that a request for all objects includes.
    fn clauses(&self) -> Vec<ObjectFilter> {
        let all_objects = self.scopes.get(&None);
        let mut clauses = Vec::new();
        for (selector, scope) in &self.scopes {
            let scope = match (selector, all_objects) {
                (Some(_), Some(all_objects)) => scope - all_objects,
                (Some(_), None) | (None, _) => scope.clone(),
            };
            if !scope.is_empty() {
                clauses.push(ObjectFilter { scope, selector: selector.clone() });
            }
        }
        clauses
    }

    /// The API server applies the selector of a single clause. Several clauses are applied by the decoder.
    fn spec_of(&self, mut clauses: Vec<ObjectFilter>) -> WatchSpec {
        let whole = WatchSpec::all(self.kind.clone());
        match clauses.pop() {
            Some(single) if clauses.is_empty() => WatchSpec { selector: single.selector, ..whole },
            last => {
                clauses.extend(last);
                WatchSpec { filters: clauses, ..whole }
            }
        }
    }
}

/// A kind that a [`WantedKind`] matches.
#[derive(Debug)]
enum Resolution {
    /// It can be watched. `rank` is the position of the version in the preference order of the API server.
    Kind {
        kind: Arc<Kind>,
        rank: usize,
    },
    Unwatched(Arc<Kind>, SyncHealth),
}

pub(super) fn needs_discovery(want: &WantedKind) -> bool {
    well_known(want).is_none()
}

/// The matching kinds, each in one version: the requested one if it is served, else the preferred one.
fn resolve(want: &WantedKind, discovery: &Discovery) -> Vec<Resolution> {
    if let Some(kind) = well_known(want) {
        return vec![Resolution::Kind { kind, rank: 0 }];
    }
    let served = match discovery {
        Discovery::Pending => return vec![unwatched(want, SyncHealth::Starting)],
        Discovery::Failed(health) => return vec![unwatched(want, health.clone())],
        Discovery::Complete(served) => served,
    };
    let mut seen = HashSet::new();
    let matching =
        served.kinds.iter().filter(|served| want.matches(&served.kind) && seen.insert(&served.kind.kind));
    let resolved: Vec<Resolution> =
        matching.filter_map(|preferred| in_best_version(want, preferred, served)).collect();
    if resolved.is_empty() && !want.implicit {
        let message = format!("the API server has no {want} that can be watched; it is looked for again");
        let health = SyncHealth::Down { reason: DownReason::NotFound, message: message.into() };
        return vec![unwatched(want, health)];
    }
    resolved
}

/// The kind in this version if it is served and watchable.
fn in_version(kind: &Kind, version: &str, discovery: &Discovery) -> Option<Arc<Kind>> {
    let matches = |served: &&ServedKind| {
        served.watchable && served.kind.is_same_type(kind) && *served.kind.version == *version
    };
    discovery.served()?.kinds.iter().find(matches).map(|served| served.kind.clone())
}

fn well_known(want: &WantedKind) -> Option<Arc<Kind>> {
    let has_version = |kind: &Kind| want.version.as_ref().is_none_or(|version| *version == kind.version);
    let is_named = want.kind != KindName::Any;
    WELL_KNOWN.iter().find(|kind| is_named && want.matches(kind) && has_version(kind)).cloned()
}

/// `preferred` is the kind in the preferred version.
fn in_best_version(want: &WantedKind, preferred: &ServedKind, served: &ServedKinds) -> Option<Resolution> {
    let versions = served.kinds.iter().enumerate();
    let mut watchable =
        versions.filter(|(_, served)| served.kind.is_same_type(&preferred.kind) && served.watchable);
    let first = watchable.clone().next()?;
    let requested = watchable
        .find(|(_, served)| want.version.as_ref().is_some_and(|version| *version == served.kind.version));
    let (rank, best) = requested.unwrap_or(first);
    Some(Resolution::Kind { kind: best.kind.clone(), rank: rank + 1 })
}

fn unwatched(want: &WantedKind, health: SyncHealth) -> Resolution {
    let name = match &want.kind {
        KindName::Any => "*",
        KindName::Named(name) => name,
    };
    let kind = Kind::undiscovered(&want.group, want.version.as_deref().unwrap_or(""), name);
    Resolution::Unwatched(Arc::new(kind), health)
}
