//! From what is wanted and what the cluster has to the streams that are to be open, kept up to date.

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

use super::{Timing, discovery::Discoverer, request::Fault};
use crate::types::{
    Clause, DownReason, Kind, KindName, NameSet, Plan, Scope, Selector, Served, ServedKind, Unwatched,
    WantedKind, WatchHealth, WatchSpec,
};

/// How often the API server is asked which kinds it has.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(5);

/// Makes plans. Asks the API server for its kinds only while something is wanted that is not known without asking.
pub struct Planner {
    client: Client,
    timing: Timing,
    plans: watch::Sender<Arc<Plan>>,
    discoverer: Discoverer,
    discovery: Discovery,
    /// Whether the last answer was a fault, so that it is logged once.
    failing: bool,
}

impl std::fmt::Debug for Planner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Planner").field("discovery", &self.discovery).finish_non_exhaustive()
    }
}

impl Planner {
    /// A planner, and its plans; the first one is made from what is known without asking.
    pub fn new(client: Client, timing: Timing, wanted: &[WantedKind]) -> (Self, watch::Receiver<Arc<Plan>>) {
        let discovery = Discovery::default();
        let (plans, receiver) = watch::channel(Arc::new(plan(wanted, &discovery)));
        let discoverer = Discoverer::new();
        (Self { client, timing, plans, discoverer, discovery, failing: false }, receiver)
    }

    /// Plans whenever `settings`, of which `wanted` tells the kinds, or the kinds of the cluster change.
    pub async fn run<S>(
        mut self,
        mut settings: watch::Receiver<Arc<S>>,
        wanted: impl Fn(&S) -> Vec<WantedKind>,
    ) {
        let mut next_question = Instant::now();
        loop {
            let wanted = wanted(&settings.borrow_and_update().clone());
            self.publish(plan(&wanted, &self.discovery), &wanted);
            let asks = wanted.iter().any(needs_discovery);
            let question = async {
                sleep_until(next_question).await;
                self.discover().await;
            };
            tokio::select! {
                () = change_of(&mut settings) => {}
                () = question, if asks => next_question = Instant::now() + DISCOVERY_INTERVAL,
            }
        }
    }

    async fn discover(&mut self) {
        match self.discoverer.ask(&self.client, self.timing.silence).await {
            Ok(news) => {
                if let Some(served) = news {
                    self.discovery = Discovery::Answered(served);
                }
                self.failing = false;
            }
            Err(fault) => {
                if !std::mem::replace(&mut self.failing, true) {
                    warn!(%fault, "Cannot ask the API server for its kinds; what it last said stands.");
                }
                if self.discovery.served().is_none() {
                    self.discovery = Discovery::Failed(down(&fault));
                }
            }
        }
    }

    fn publish(&self, plan: Plan, wanted: &[WantedKind]) {
        let before = self.plans.borrow().clone();
        if *before == plan {
            return;
        }
        for missing in plan.unwatched.iter().filter(|own| !before.unwatched.contains(own)) {
            if let WatchHealth::Down { message, .. } = &missing.health {
                warn!(kind = %missing.spec.kind, %message, "Wanted, and not watched.");
            }
        }
        let comes_in = |version: &str, kind: &Kind| {
            plan.streams.iter().any(|own| own.kind.is_same_type(kind) && *own.kind.version == *version)
        };
        for spec in plan.streams.iter().filter(|spec| !before.streams.contains(spec)) {
            let other = |want: &&WantedKind| {
                let version = want.version.as_ref().filter(|_| !want.by_the_way);
                want.means(&spec.kind) && version.is_some_and(|version| !comes_in(version, &spec.kind))
            };
            if let Some(want) = wanted.iter().find(other) {
                let version = &spec.kind.version;
                info!(stream = %spec, %version, "`{want}` is watched in another version.");
            }
        }
        self.plans.send_replace(Arc::new(plan));
    }
}

/// Waits for other settings; for ever, when nobody can change them any more.
async fn change_of<S>(settings: &mut watch::Receiver<Arc<S>>) {
    if settings.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn down(fault: &Fault) -> WatchHealth {
    let message = format!("cannot ask for the kinds of the cluster: {fault}");
    WatchHealth::Down { reason: fault.down_reason(), message: message.into() }
}

/// Plans the streams. The order of what is wanted does not matter, and nothing is watched twice: an object comes
/// through exactly one stream, so that a list of that stream can say that it is gone.
pub fn plan(wanted: &[WantedKind], discovery: &Discovery) -> Plan {
    let mut wanted: Vec<&WantedKind> = wanted.iter().collect();
    wanted.sort();
    let mut kinds: BTreeMap<(Box<str>, Box<str>), Wishes> = BTreeMap::new();
    let mut unwatched = BTreeMap::new();
    for want in wanted {
        for resolution in resolve(want, discovery) {
            match resolution {
                Resolution::Unwatched(kind, health) => {
                    unwatched.entry(kind).or_insert(health);
                }
                Resolution::Kind { kind, rank } => match Wish::new(want, &kind) {
                    Ok(wish) => {
                        let key = (kind.kind.clone(), kind.group.clone());
                        // In which version something comes is not for those to say who did not ask for it.
                        let rank = if want.by_the_way { usize::MAX } else { rank };
                        let wishes = kinds.entry(key).or_insert_with(|| Wishes::new(rank, &kind));
                        wishes.add(rank, &kind, wish);
                        for (version, objects) in &*want.versions {
                            wishes.pin(in_version(&kind, version, discovery), objects);
                        }
                    }
                    Err(NotWatched::LeftOut) => {}
                    Err(NotWatched::Refused(why)) => {
                        unwatched.entry(kind).or_insert_with(|| refused(why));
                    }
                },
            }
        }
    }
    let mut streams = Vec::new();
    for wishes in kinds.into_values() {
        let kind = wishes.kind.clone();
        let (specs, left_over) = wishes.streams();
        streams.extend(specs.into_iter().map(Arc::new));
        if let Some(why) = left_over {
            unwatched.entry(kind).or_insert_with(|| refused(why));
        }
    }
    // Where everything comes anyway, there is nothing left to complain about, nor a second line to say it in.
    let comes_anyway = |kind: &Kind| {
        let brings_all = |spec: &WatchSpec| spec.namespace.is_none() && !spec.is_of_single_objects();
        streams.iter().any(|spec| *spec.kind == *kind && brings_all(spec))
    };
    let unwatched = unwatched
        .into_iter()
        .filter(|(kind, _)| !comes_anyway(kind))
        .map(|(kind, health)| Unwatched { spec: Arc::new(WatchSpec::nothing(kind)), health })
        .collect();
    Plan { streams, unwatched, served: discovery.served().cloned() }
}

fn refused(why: &str) -> WatchHealth {
    WatchHealth::Down { reason: DownReason::Refused, message: why.into() }
}

/// What is wanted of one kind.
struct Wish {
    scope: Scope,
    selector: Option<Selector>,
    name: Option<Box<str>>,
    by_the_way: bool,
}

/// Why a kind that is there is not watched.
enum NotWatched {
    /// It came with others of its group, and nobody asked for it by its name.
    LeftOut,
    /// It was asked for by its name.
    Refused(&'static str),
}

impl Wish {
    fn new(want: &WantedKind, kind: &Kind) -> Result<Self, NotWatched> {
        let not = |why| match want.kind {
            KindName::Named(_) if !want.by_the_way => NotWatched::Refused(why),
            KindName::Named(_) | KindName::Every => NotWatched::LeftOut,
        };
        let selector = want.selector.clone().filter(|selector| !selector.is_empty());
        let named = matches!(want.scope, Scope::In(_));
        if want.scope.is_empty() {
            return Err(not("none of its namespaces is to be watched"));
        }
        if !kind.namespaced && named {
            return Err(not("its objects are in no namespace, and only some namespaces are to be watched"));
        }
        if kind.is_guarded() && ((selector.is_none() && want.name.is_none()) || !named) {
            return Err(not(
                "objects of this kind are asked for by a name or a selector, and in named namespaces only",
            ));
        }
        let scope = if kind.namespaced { want.scope.clone() } else { Scope::default() };
        Ok(Self { scope, selector, name: want.name.clone(), by_the_way: want.by_the_way })
    }
}

/// Everything that is wanted of one kind.
struct Wishes {
    /// How much the API server prefers this version; the smallest is the most preferred.
    rank: usize,
    kind: Arc<Kind>,
    /// In which namespaces objects of each selector are wanted.
    scopes: BTreeMap<Option<Selector>, Scope>,
    /// Single objects that are wanted, by namespace and name, each in its version.
    named: BTreeMap<(Box<str>, Box<str>), Arc<Kind>>,
    /// Objects that have to be read in exactly this version, whatever the others are read in.
    pinned: BTreeMap<Arc<Kind>, NameSet>,
    /// In which namespaces all objects are looked at, though nobody asked for them.
    by_the_way: Scope,
}

impl Wishes {
    fn new(rank: usize, kind: &Arc<Kind>) -> Self {
        let (scopes, named, pinned) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { rank, kind: kind.clone(), scopes, named, pinned, by_the_way: Scope::nothing() }
    }

    fn add(&mut self, rank: usize, kind: &Arc<Kind>, wish: Wish) {
        if rank < self.rank {
            (self.rank, self.kind) = (rank, kind.clone());
        }
        if let (Some(name), Scope::In(namespaces)) = (&wish.name, &wish.scope) {
            for namespace in namespaces {
                self.named.entry((namespace.clone(), name.clone())).or_insert_with(|| kind.clone());
            }
            return;
        }
        if wish.by_the_way {
            self.by_the_way = &self.by_the_way | &wish.scope;
        } else {
            self.widen(wish.selector, &wish.scope);
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

    /// The streams that bring all of it, and why something is left over, if it is.
    fn streams(mut self) -> (Vec<WatchSpec>, Option<&'static str>) {
        let elsewhere = self.share_by_the_way();
        let (mut streams, left_over) = self.selected_streams(self.clauses());
        if !elsewhere.is_empty() {
            streams.extend(self.selected_streams(vec![Clause { scope: elsewhere, selector: None }]).0);
        }
        self.put_apart(&mut streams);
        for ((namespace, name), kind) in &self.named {
            if !streams.iter().any(|spec| spec.misses_nothing(namespace, name)) {
                // An object comes through exactly one stream.
                for other in streams.iter_mut().filter(|spec| spec.name.is_none() && spec.covers(namespace)) {
                    Arc::make_mut(&mut other.without).insert(namespace, name);
                }
                let whole = WatchSpec::whole(kind.clone());
                let (namespace, name) = (Some(namespace.clone()), Some(name.clone()));
                streams.push(WatchSpec { namespace, name, ..whole });
            }
        }
        (streams, left_over)
    }

    /// Takes what has to be read in other versions out of the streams, into others that ask like them.
    fn put_apart(&self, streams: &mut Vec<WatchSpec>) {
        let mut others = Vec::new();
        for (kind, objects) in self.pinned.iter().filter(|(kind, _)| **kind != self.kind) {
            for stream in streams.iter_mut() {
                let of_stream = objects.iter().filter(|(space, name)| stream.misses_nothing(space, name));
                let only: NameSet = of_stream.collect();
                if !only.is_empty() {
                    Arc::make_mut(&mut stream.without).extend(only.iter());
                    let (namespace, excluded) = (stream.namespace.clone(), stream.excluded.clone());
                    let whole = WatchSpec::whole(kind.clone());
                    others.push(WatchSpec { namespace, excluded, only: Arc::new(only), ..whole });
                }
            }
        }
        streams.extend(others);
    }

    /// Looks at what nobody asked for with what somebody did, where namespaces are the same. Gives the others: these have streams
    /// of their own, so that whoever asked for something needs no more rights than that takes.
    fn share_by_the_way(&mut self) -> Scope {
        let asked = self.scopes.values().fold(Scope::nothing(), |all, own| &all | own);
        let shared = self.by_the_way.within(&asked);
        if !shared.is_empty() {
            self.widen(None, &shared);
        }
        &self.by_the_way - &asked
    }

    fn selected_streams(&self, clauses: Vec<Clause>) -> (Vec<WatchSpec>, Option<&'static str>) {
        let mut namespaces = BTreeSet::new();
        let mut excluded = BTreeSet::new();
        for clause in &clauses {
            match &clause.scope {
                Scope::In(named) => namespaces.extend(named.iter().cloned()),
                Scope::AllBut(names) => excluded.extend(names.iter().cloned()),
            }
        }
        if clauses.iter().any(|clause| matches!(clause.scope, Scope::AllBut(_))) {
            excluded.retain(|name| !clauses.iter().any(|clause| clause.scope.has(name)));
            let mut spec = self.stream(clauses);
            spec.excluded = excluded.into_iter().collect();
            return (vec![spec], None);
        }
        let mut left_over = None;
        let mut streams = Vec::new();
        for namespace in namespaces {
            let only = Scope::In([namespace.clone()].into());
            let here = clauses.iter().filter(|clause| clause.scope.has(&namespace));
            let mut here: Vec<Clause> =
                here.map(|clause| Clause { scope: only.clone(), ..clause.clone() }).collect();
            if self.kind.is_guarded() && here.len() > 1 {
                here.truncate(1);
                left_over = Some("objects of this kind are asked for by one selector in each namespace");
            }
            let mut spec = self.stream(here);
            spec.namespace = Some(namespace);
            streams.push(spec);
        }
        (streams, left_over)
    }

    /// What is wanted, without what a clause without a selector brings anyway.
    fn clauses(&self) -> Vec<Clause> {
        let everything = self.scopes.get(&None);
        let mut clauses = Vec::new();
        for (selector, scope) in &self.scopes {
            let scope = match (selector, everything) {
                (Some(_), Some(everything)) => scope - everything,
                (Some(_), None) | (None, _) => scope.clone(),
            };
            if !scope.is_empty() {
                clauses.push(Clause { scope, selector: selector.clone() });
            }
        }
        clauses
    }

    /// One stream for these clauses: the API server selects if all want the same labels, else we do.
    fn stream(&self, mut clauses: Vec<Clause>) -> WatchSpec {
        let whole = WatchSpec::whole(self.kind.clone());
        match clauses.pop() {
            Some(only) if clauses.is_empty() => WatchSpec { selector: only.selector, ..whole },
            last => {
                clauses.extend(last);
                WatchSpec { kept: clauses, ..whole }
            }
        }
    }
}

/// What is known about the kinds of the cluster.
#[derive(Clone, Debug, Default)]
pub enum Discovery {
    /// The API server has not answered yet.
    #[default]
    Awaited,
    /// The API server never told, and why.
    Failed(WatchHealth),
    /// What it last said.
    Answered(Arc<Served>),
}

impl Discovery {
    /// What the API server last said.
    pub fn served(&self) -> Option<&Arc<Served>> {
        match self {
            Self::Answered(served) => Some(served),
            Self::Awaited | Self::Failed(_) => None,
        }
    }
}

/// One kind that is meant.
#[derive(Debug)]
pub(super) enum Resolution {
    /// It can be watched. The smaller the rank, the more the API server prefers this version.
    Kind { kind: Arc<Kind>, rank: usize },
    /// It cannot be watched now, and why.
    Unwatched(Arc<Kind>, WatchHealth),
}

/// Kinds that every cluster has had in this version for years: nobody has to be asked, and nothing waits for an answer.
static KNOWN: LazyLock<[Arc<Kind>; 2]> =
    LazyLock::new(|| [Kind::deployment(), Kind::service()].map(Arc::new));

/// Whether the API server has to be asked what is meant.
pub(super) fn needs_discovery(want: &WantedKind) -> bool {
    known(want).is_none()
}

/// The kinds that are meant, each in one version: the wanted one where it is served, else the preferred one.
pub(super) fn resolve(want: &WantedKind, discovery: &Discovery) -> Vec<Resolution> {
    if let Some(kind) = known(want) {
        return vec![Resolution::Kind { kind, rank: 0 }];
    }
    let served = match discovery {
        Discovery::Awaited => return vec![unwatched(want, WatchHealth::Starting)],
        Discovery::Failed(health) => return vec![unwatched(want, health.clone())],
        Discovery::Answered(served) => served,
    };
    let mut seen = HashSet::new();
    let of_each_kind = served.kinds.iter().filter(|own| want.means(&own.kind) && seen.insert(&own.kind.kind));
    let resolved: Vec<Resolution> =
        of_each_kind.filter_map(|first| in_best_version(want, first, served)).collect();
    if resolved.is_empty() && !want.by_the_way {
        let message = format!("the API server has no {want} that can be watched; it is looked for again");
        let health = WatchHealth::Down { reason: DownReason::NotFound, message: message.into() };
        return vec![unwatched(want, health)];
    }
    resolved
}

/// A kind in this version, where it can be watched in it.
pub(super) fn in_version(kind: &Kind, version: &str, discovery: &Discovery) -> Option<Arc<Kind>> {
    let is_meant =
        |own: &&ServedKind| own.watchable && own.kind.is_same_type(kind) && *own.kind.version == *version;
    discovery.served()?.kinds.iter().find(is_meant).map(|own| own.kind.clone())
}

fn known(want: &WantedKind) -> Option<Arc<Kind>> {
    let exactly = |kind: &Kind| want.version.as_ref().is_none_or(|version| *version == kind.version);
    let named = want.kind != KindName::Every;
    KNOWN.iter().find(|kind| named && want.means(kind) && exactly(kind)).cloned()
}

/// `first` is the preferred version of a kind.
fn in_best_version(want: &WantedKind, first: &ServedKind, served: &Served) -> Option<Resolution> {
    let versions = served.kinds.iter().enumerate();
    let mut versions = versions.filter(|(_, own)| own.kind.is_same_type(&first.kind) && own.watchable);
    let preferred = versions.clone().next()?;
    let wanted =
        versions.find(|(_, own)| want.version.as_ref().is_some_and(|want| *want == own.kind.version));
    let (rank, best) = wanted.unwrap_or(preferred);
    Some(Resolution::Kind { kind: best.kind.clone(), rank: rank + 1 })
}

fn unwatched(want: &WantedKind, health: WatchHealth) -> Resolution {
    let name = match &want.kind {
        KindName::Every => "*",
        KindName::Named(name) => name,
    };
    let kind = Kind::unseen(&want.group, want.version.as_deref().unwrap_or(""), name);
    Resolution::Unwatched(Arc::new(kind), health)
}
