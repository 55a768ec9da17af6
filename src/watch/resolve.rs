//! Which kinds of the cluster are meant by a wanted kind. Pure.

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock},
};

use crate::types::{DownReason, Kind, KindName, Served, ServedKind, WantedKind, WatchHealth};

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
