//! Which objects an account may see: those of kinds that it may list, in namespaces where it may list them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use http::StatusCode;
use tokio::{task::coop::consume_budget, time::Instant};

use super::{
    guard::review_unavailable,
    reviews::{Account, Permission, ReviewUnavailable, Reviews},
};
use crate::{
    config::is_namespace,
    engine::Snapshot,
    server::api::Problem,
    types::{Kind, RedactionKey, Scope, WatchSpec},
};

/// Concurrent reviews for one request.
const CONCURRENT_REVIEWS: usize = 64;
/// Snapshots that are cached, one per set of visible scopes.
const CACHED_SNAPSHOTS: usize = 64;
/// Reviews of single namespaces that one request may cause. They finish within a client's deadline, and fit into the cache.
const MAX_NAMESPACE_REVIEWS: usize = 4096;

/// Reviews on behalf of one request.
pub(super) struct Authorizer<'a> {
    pub(super) reviews: &'a Reviews,
    pub(super) key: &'a RedactionKey,
    pub(super) account: &'a Account,
    pub(super) deadline: Instant,
}

/// A kind in one namespace, or in all of them.
type KindScope = (Arc<Kind>, Option<Box<str>>);

impl Authorizer<'_> {
    async fn may_list_all(&self, scopes: Vec<KindScope>) -> Result<Vec<(KindScope, bool)>, Problem> {
        let reviews = stream::iter(scopes).map(|scope| self.may_list(scope));
        reviews.buffered(CONCURRENT_REVIEWS).try_collect().await.map_err(review_unavailable)
    }

    async fn may_list(&self, (kind, namespace): KindScope) -> Result<(KindScope, bool), ReviewUnavailable> {
        // A cached review is ready at once, so thousands of them would occupy the thread.
        consume_budget().await;
        let permission = Permission::List { kind: &kind, namespace: namespace.as_deref() };
        let allowed = self.reviews.is_allowed(self.key, self.account, permission, self.deadline).await?;
        Ok(((kind, namespace), allowed))
    }
}

/// The namespaces in which a caller may see objects, by group and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct VisibleScopes(BTreeMap<Box<str>, BTreeMap<Box<str>, Scope>>);

impl VisibleScopes {
    /// Reviews each kind for all namespaces, and for single namespaces only if that is denied. A request that names a namespace
    /// needs no review of any other.
    pub(super) async fn review(
        authorizer: &Authorizer<'_>,
        snapshot: &Snapshot,
        requested: Option<&str>,
    ) -> Result<Self, Problem> {
        let kinds: Vec<_> = snapshot.kinds.iter().map(|state| (state.kind.clone(), None)).collect();
        let mut visible = Self::default();
        let mut single = Vec::new();
        for ((kind, _), allowed) in authorizer.may_list_all(kinds).await? {
            if allowed {
                visible.add(&kind, &Scope::default());
            } else if kind.namespaced {
                let namespaces = requested.map_or_else(|| namespaces(snapshot, &kind), valid_namespace);
                single.extend(namespaces.into_iter().map(|namespace| (kind.clone(), Some(namespace))));
            }
        }
        if single.len() > MAX_NAMESPACE_REVIEWS {
            let detail = "this account may list single namespaces only, and there are too many to review them all; select one with `namespace`";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        for ((kind, namespace), allowed) in authorizer.may_list_all(single).await? {
            if let Some(namespace) = namespace.filter(|_| allowed) {
                visible.add(&kind, &Scope::In([namespace].into()));
            }
        }
        Ok(visible)
    }

    fn add(&mut self, kind: &Kind, more: &Scope) {
        let kinds = self.0.entry(kind.group.clone()).or_default();
        let scope = kinds.entry(kind.kind.clone()).or_insert_with(Scope::nothing);
        *scope = &*scope | more;
    }

    pub(super) fn scope_of(&self, kind: &Kind) -> Option<&Scope> {
        self.0.get(&kind.group)?.get(&kind.kind)
    }

    /// Whether all objects of a watch are visible, or all of its objects in one namespace.
    pub(super) fn covers_watch(&self, watch: &WatchSpec, namespace: Option<&str>) -> bool {
        let Some(scope) = self.scope_of(&watch.kind) else { return false };
        match watch.namespace.as_deref().or(namespace) {
            Some(namespace) => scope.has(namespace),
            None => *scope == Scope::default(),
        }
    }

    /// Whether any kind is visible in a namespace.
    pub(super) fn includes_namespace(&self, namespace: &str) -> bool {
        self.0.values().flat_map(BTreeMap::values).any(|scope| scope.has(namespace))
    }
}

fn valid_namespace(name: &str) -> BTreeSet<Box<str>> {
    Some(name).filter(|name| is_namespace(name)).map(Into::into).into_iter().collect()
}

/// The namespaces in which a kind has objects now, had some in the history, or is watched.
fn namespaces(snapshot: &Snapshot, kind: &Kind) -> BTreeSet<Box<str>> {
    let states = || snapshot.kinds.iter().filter(|state| state.kind.is_same_type(kind));
    let current = states().flat_map(|state| state.blocks.namespaces());
    let watched =
        states().flat_map(|state| state.watches.iter()).filter_map(|watch| watch.spec.namespace.as_deref());
    let keys = snapshot.history.newest_first().map(|transition| &transition.key);
    let past = keys.filter(|key| key.kind.is_same_type(kind)).map(|key| &*key.namespace);
    let names: BTreeSet<&str> = current.chain(watched).chain(past).filter(|name| !name.is_empty()).collect();
    names.into_iter().map(Into::into).collect()
}

/// The newest snapshot as callers with the same visible scopes see it, so that they share one copy.
#[derive(Debug, Default)]
pub(super) struct ScopedSnapshots(Mutex<HashMap<Arc<VisibleScopes>, ScopedSnapshot>>);

#[derive(Debug)]
struct ScopedSnapshot {
    of: Weak<Snapshot>,
    scoped: Arc<Snapshot>,
}

impl ScopedSnapshots {
    /// The visible part of a snapshot. If nothing visible changed it keeps its numbers, so that they reveal no change elsewhere.
    pub(super) fn get(&self, snapshot: &Arc<Snapshot>, visible: &Arc<VisibleScopes>) -> Arc<Snapshot> {
        let is_current = |cached: &ScopedSnapshot| std::ptr::eq(cached.of.as_ptr(), Arc::as_ptr(snapshot));
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = match lock().get(visible) {
            Some(cached) if is_current(cached) => return cached.scoped.clone(),
            cached => cached.map(|cached| cached.scoped.clone()),
        };
        let mut scoped = snapshot.scoped_to(|kind| visible.scope_of(kind));
        if let Some(previous) = previous.filter(|previous| previous.same_content(&scoped)) {
            (scoped.sequence, scoped.edition) = (previous.sequence, previous.edition);
        }
        let scoped = Arc::new(scoped);
        let mut cache = lock();
        if cache.len() >= CACHED_SNAPSHOTS {
            cache.retain(|_, cached| cached.of.strong_count() > 0);
        }
        if cache.len() < CACHED_SNAPSHOTS || cache.contains_key(visible) {
            let cached = ScopedSnapshot { of: Arc::downgrade(snapshot), scoped: scoped.clone() };
            cache.insert(visible.clone(), cached);
        }
        scoped
    }
}
