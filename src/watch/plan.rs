//! From what is wanted and what the cluster has to the streams that are to be open. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::resolve::{Discovery, Resolution, in_version, resolve};
use crate::types::{
    Clause, DownReason, Kind, KindName, NameSet, Plan, Scope, Selector, Unwatched, WantedKind, WatchHealth,
    WatchSpec,
};

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
