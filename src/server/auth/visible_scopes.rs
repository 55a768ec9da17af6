//! Which objects an account may see: those of kinds that it may list, in namespaces where it may list them.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
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
    engine::Snapshot,
    server::{BlockingPool, api::Problem},
    types::{GroupKind, Kind, RedactionKey, Scope, WatchSpec, is_namespace},
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
    pub(super) pool: &'a BlockingPool,
}

/// A kind in one namespace, or in all of them.
struct ListedScope {
    kind: Arc<Kind>,
    namespace: Option<Box<str>>,
}

impl Authorizer<'_> {
    async fn may_list_all(&self, scopes: Vec<ListedScope>) -> Result<Vec<(ListedScope, bool)>, Problem> {
        let reviews = stream::iter(scopes).map(|scope| self.may_list(scope));
        reviews.buffered(CONCURRENT_REVIEWS).try_collect().await.map_err(review_unavailable)
    }

    async fn may_list(&self, scope: ListedScope) -> Result<(ListedScope, bool), ReviewUnavailable> {
        // A cached review is ready at once, so thousands of them would occupy the thread.
        consume_budget().await;
        let permission = Permission::List { kind: &scope.kind, namespace: scope.namespace.as_deref() };
        let allowed = self.reviews.is_allowed(self.key, self.account, permission, self.deadline).await?;
        Ok((scope, allowed))
    }
}

/// The namespaces in which a caller may see objects.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct VisibleScopes {
    /// Computed once: a caller may see thousands of namespaces.
    digest: u64,
    /// Sorted by kind.
    scopes: Vec<VisibleScope>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct VisibleScope {
    kind: GroupKind,
    scope: Scope,
}

impl Hash for VisibleScopes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl Default for VisibleScopes {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl VisibleScopes {
    fn new(mut scopes: Vec<VisibleScope>) -> Self {
        scopes.sort_by(|one, other| one.kind.cmp(&other.kind));
        let mut hasher = DefaultHasher::new();
        scopes.hash(&mut hasher);
        Self { digest: hasher.finish(), scopes }
    }

    /// Reviews each kind for all namespaces, and for single namespaces only if that is denied. A request that names a namespace
    /// needs no review of any other.
    pub(super) async fn review(
        authorizer: &Authorizer<'_>,
        snapshot: &Arc<Snapshot>,
        requested: Option<&str>,
    ) -> Result<Self, Problem> {
        let kinds = snapshot.kinds.iter();
        let kinds = kinds.map(|state| ListedScope { kind: state.kind.clone(), namespace: None }).collect();
        let mut visible = Vec::new();
        let mut add = |kind: &Kind, scope: Scope| {
            visible.push(VisibleScope { kind: kind.group_kind().into_owned(), scope });
        };
        let mut denied = Vec::new();
        for (ListedScope { kind, .. }, allowed) in authorizer.may_list_all(kinds).await? {
            if allowed {
                add(&kind, Scope::default());
            } else if kind.namespaced {
                denied.push(kind);
            }
        }
        let single: Vec<ListedScope> = match requested {
            Some(name) if is_namespace(name) => {
                denied.into_iter().map(|kind| ListedScope { kind, namespace: Some(name.into()) }).collect()
            }
            None if !denied.is_empty() => {
                let snapshot = snapshot.clone();
                authorizer.pool.run(move || namespaces_to_review(&snapshot, &denied)).await
            }
            Some(_) | None => Vec::new(),
        };
        if single.len() > MAX_NAMESPACE_REVIEWS {
            let detail = "this account may list single namespaces only, and there are too many to review them all; select one with `namespace`";
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        let reviewed = authorizer.may_list_all(single).await?;
        for of_kind in reviewed.chunk_by(|(one, _), (next, _)| Arc::ptr_eq(&one.kind, &next.kind)) {
            let allowed = of_kind.iter().filter(|(_, allowed)| *allowed);
            let names: BTreeSet<Box<str>> =
                allowed.filter_map(|(scope, _)| scope.namespace.clone()).collect();
            if let Some((ListedScope { kind, .. }, _)) = of_kind.first().filter(|_| !names.is_empty()) {
                add(kind, Scope::In(names));
            }
        }
        Ok(Self::new(visible))
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    pub(super) fn scope_of(&self, kind: &Kind) -> Option<&Scope> {
        let at = self.scopes.binary_search_by(|visible| visible.kind.as_deref().cmp(&kind.group_kind()));
        at.ok().map(|at| &self.scopes[at].scope)
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
        self.scopes.iter().any(|visible| visible.scope.has(namespace))
    }
}

/// The namespaces in which each of these kinds has objects now, had some in the history, or is watched. At most one more than
/// are reviewed.
fn namespaces_to_review(snapshot: &Snapshot, kinds: &[Arc<Kind>]) -> Vec<ListedScope> {
    let mut names: HashMap<GroupKind<&str>, BTreeSet<&str>> =
        kinds.iter().map(|kind| (kind.group_kind(), BTreeSet::new())).collect();
    for state in &snapshot.kinds {
        if let Some(names) = names.get_mut(&state.kind.group_kind()) {
            names.extend(state.blocks.namespaces());
            names.extend(state.watches.iter().filter_map(|watch| watch.spec.namespace.as_deref()));
        }
    }
    for key in snapshot.history.newest_first().map(|transition| &transition.key) {
        if let Some(names) = names.get_mut(&key.kind.group_kind()) {
            names.insert(&key.namespace);
        }
    }
    let of_kind = |kind: &Arc<Kind>| {
        let (kind, names) = (kind.clone(), names.get(&kind.group_kind()));
        let names = names.into_iter().flatten().filter(|name| !name.is_empty());
        let scope = |name: &&str| ListedScope { kind: kind.clone(), namespace: Some((*name).into()) };
        names.map(scope).collect::<Vec<_>>()
    };
    kinds.iter().flat_map(of_kind).take(MAX_NAMESPACE_REVIEWS + 1).collect()
}

/// The newest snapshot as callers with the same visible scopes see it, so that they share one copy.
#[derive(Debug, Default)]
pub(super) struct ScopedSnapshots(Mutex<ScopedCache>);

#[derive(Debug, Default)]
struct ScopedCache {
    by_scopes: HashMap<Arc<VisibleScopes>, ScopedSnapshot>,
    /// Snapshots that are not cached, which handlers may hold. So a handler never drops the last reference: that takes long.
    replaced: Vec<Arc<Snapshot>>,
}

#[derive(Debug)]
struct ScopedSnapshot {
    of: Weak<Snapshot>,
    scoped: Arc<Snapshot>,
}

impl ScopedSnapshots {
    /// The visible part of a snapshot. If nothing visible changed it keeps its numbers, so that they reveal no change elsewhere.
    /// Runs off the threads that serve requests.
    pub(super) fn get(&self, snapshot: &Arc<Snapshot>, visible: &Arc<VisibleScopes>) -> Arc<Snapshot> {
        let is_current = |cached: &ScopedSnapshot| std::ptr::eq(cached.of.as_ptr(), Arc::as_ptr(snapshot));
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = match lock().by_scopes.get(visible) {
            Some(cached) if is_current(cached) => return cached.scoped.clone(),
            cached => cached.map(|cached| cached.scoped.clone()),
        };
        let mut scoped = snapshot.scoped_to(|kind| visible.scope_of(kind));
        if let Some(previous) = previous.filter(|previous| previous.same_content(&scoped)) {
            (scoped.sequence, scoped.edition) = (previous.sequence, previous.edition);
        }
        let scoped = Arc::new(scoped);
        let new = ScopedSnapshot { of: Arc::downgrade(snapshot), scoped: scoped.clone() };
        let unread = lock().insert(visible, new);
        // After the lock is released.
        drop(unread);
        scoped
    }
}

impl ScopedCache {
    /// Returns replaced snapshots that no handler holds any more.
    fn insert(&mut self, visible: &Arc<VisibleScopes>, new: ScopedSnapshot) -> Vec<Arc<Snapshot>> {
        if self.by_scopes.len() >= CACHED_SNAPSHOTS {
            let outdated = self.by_scopes.extract_if(|_, cached| cached.of.strong_count() == 0);
            self.replaced.extend(outdated.map(|(_, cached)| cached.scoped));
        }
        if self.by_scopes.len() < CACHED_SNAPSHOTS || self.by_scopes.contains_key(visible) {
            let replaced = self.by_scopes.insert(visible.clone(), new);
            self.replaced.extend(replaced.map(|cached| cached.scoped));
        } else {
            self.replaced.push(new.scoped);
        }
        self.replaced.extract_if(.., |snapshot| Arc::strong_count(snapshot) == 1).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, PoisonError};

    use super::{CACHED_SNAPSHOTS, GroupKind, ScopedSnapshots, VisibleScope, VisibleScopes};
    use crate::{engine::Snapshot, types::Scope};

    fn visible(namespace: &str) -> Arc<VisibleScopes> {
        let scope = Scope::In([namespace.into()].into());
        let kind = GroupKind::new("apps", "Deployment").into_owned();
        Arc::new(VisibleScopes::new(vec![VisibleScope { kind, scope }]))
    }

    #[test]
    fn handler_never_drops_the_last_reference_to_a_snapshot() {
        let snapshots = ScopedSnapshots::default();
        let newest = || Arc::new(Snapshot::default());
        let held = snapshots.get(&newest(), &visible("shop"));
        snapshots.get(&newest(), &visible("shop"));
        let weak = Arc::downgrade(&held);
        drop(held);
        assert!(weak.strong_count() > 0, "it is replaced, but not dropped yet");
        snapshots.get(&newest(), &visible("shop"));
        assert_eq!(weak.strong_count(), 0);

        // Snapshots that find no room are not cached.
        let current = newest();
        for number in 0..CACHED_SNAPSHOTS {
            snapshots.get(&current, &visible(&format!("team-{number}")));
        }
        let held = snapshots.get(&current, &visible("another"));
        assert_eq!(Arc::strong_count(&held), 2);
        drop(held);
        snapshots.get(&current, &visible("another"));
        let cache = snapshots.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!((cache.by_scopes.len(), cache.replaced.len()), (CACHED_SNAPSHOTS, 1));
    }

    #[test]
    fn digest_depends_on_the_visible_namespaces() {
        assert_eq!(visible("shop").digest(), visible("shop").digest());
        assert_ne!(visible("shop").digest(), visible("attic").digest());
        assert_ne!(visible("shop").digest(), VisibleScopes::default().digest());
    }
}
