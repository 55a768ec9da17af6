//! What an account may see of what is known: objects of kinds that it may list, where it may list them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::Instant;

use super::{
    questions::Unanswered,
    reviews::{Account, Reviews, Wish},
};
use crate::{
    model::{Kind, Scope, SealKey},
    state::Snapshot,
};

/// Questions of one caller that are under way at a time.
const AT_ONCE: usize = 64;
/// Callers with different rights whose view is remembered.
const VIEWS: usize = 64;

/// Somebody about whom it is asked.
pub(super) struct Asking<'a> {
    pub(super) reviews: &'a Reviews,
    pub(super) key: &'a SealKey,
    pub(super) account: &'a Account,
    pub(super) deadline: Instant,
}

/// Objects of a kind, in one namespace or in all of them.
type Place = (Arc<Kind>, Option<Box<str>>);

impl Asking<'_> {
    /// Whether the objects of each place may be listed. Where one cannot be asked for, nobody knows what may be seen.
    async fn all(&self, places: Vec<Place>) -> Result<Vec<(Arc<Kind>, Option<Box<str>>, bool)>, Unanswered> {
        stream::iter(places).map(|place| self.one(place)).buffered(AT_ONCE).try_collect().await
    }

    async fn one(&self, (kind, name): Place) -> Result<(Arc<Kind>, Option<Box<str>>, bool), Unanswered> {
        let wish = Wish::List { kind: &kind, namespace: name.as_deref() };
        let allowed = self.reviews.may(self.key, self.account, wish, self.deadline).await?;
        Ok((kind, name, allowed))
    }
}

/// The namespaces in which a caller may see objects, by group and name of the kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sight(BTreeMap<(Box<str>, Box<str>), Scope>);

impl Sight {
    /// Asks what an account may see of a snapshot, and in a namespace that it named. Of each kind it is asked for all namespaces
    /// first, and for single ones only where that is denied.
    pub(super) async fn ask(
        asking: &Asking<'_>,
        snapshot: &Snapshot,
        named: Option<&str>,
    ) -> Result<Self, Unanswered> {
        let kinds: Vec<_> = snapshot.kinds.iter().map(|state| (state.kind.clone(), None)).collect();
        let everywhere = asking.all(kinds).await?;
        let mut sight = Self::default();
        let mut single = Vec::new();
        for (kind, _, allowed) in everywhere {
            if allowed {
                sight.0.insert(name_of(&kind), Scope::default());
            } else if kind.namespaced {
                let places = namespaces(snapshot, &kind, named);
                single.extend(places.into_iter().map(|name| (kind.clone(), Some(name))));
            }
        }
        for (kind, name, allowed) in asking.all(single).await? {
            if let Some(name) = name.filter(|_| allowed) {
                let scope = sight.0.entry(name_of(&kind)).or_insert_with(Scope::nothing);
                *scope = &*scope | &Scope::In([name].into());
            }
        }
        Ok(sight)
    }

    /// Whether objects of a kind may be seen in a namespace; without one, where it is empty.
    pub(super) fn sees(&self, kind: &Kind, namespace: &str) -> bool {
        self.0.get(&name_of(kind)).is_some_and(|scope| scope.has(namespace))
    }

    /// Whether anything may be seen in a namespace.
    pub(super) fn sees_namespace(&self, namespace: &str) -> bool {
        self.0.values().any(|scope| scope.has(namespace))
    }
}

fn name_of(kind: &Kind) -> (Box<str>, Box<str>) {
    (kind.group.clone(), kind.kind.clone())
}

/// The namespaces in which a kind has, had, or may have objects.
fn namespaces(snapshot: &Snapshot, kind: &Kind, named: Option<&str>) -> BTreeSet<Box<str>> {
    let states = || snapshot.kinds.iter().filter(|state| state.kind.is_same_type(kind));
    let now = states().flat_map(|state| state.blocks.namespaces());
    let watched = states().flat_map(|state| &state.streams).filter_map(|own| own.spec.namespace.as_deref());
    let keys = snapshot.history.newest_first().map(|transition| &transition.key);
    let before = keys.filter(|key| key.kind.is_same_type(kind)).map(|key| &*key.namespace);
    let all = now.chain(watched).chain(before).chain(named);
    all.filter(|name| !name.is_empty()).map(Into::into).collect()
}

/// The last snapshots as callers with the same rights see them, so that not each of them has one made.
#[derive(Debug, Default)]
pub(super) struct Views(Mutex<HashMap<Arc<Sight>, View>>);

#[derive(Debug)]
struct View {
    of: Weak<Snapshot>,
    seen: Arc<Snapshot>,
}

impl Views {
    /// A snapshot as it is seen.
    pub(super) fn seen(&self, snapshot: &Arc<Snapshot>, sight: &Arc<Sight>) -> Arc<Snapshot> {
        let is_newest = |view: &View| std::ptr::eq(view.of.as_ptr(), Arc::as_ptr(snapshot));
        // What is in it is whole at any time.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(view) = lock().get(sight).filter(|view| is_newest(view)) {
            return view.seen.clone();
        }
        let seen = Arc::new(snapshot.only(&|kind: &Kind, namespace: &str| sight.sees(kind, namespace)));
        let mut views = lock();
        views.retain(|_, view| view.of.strong_count() > 0);
        if views.len() < VIEWS {
            views.insert(sight.clone(), View { of: Arc::downgrade(snapshot), seen: seen.clone() });
        }
        seen
    }
}
