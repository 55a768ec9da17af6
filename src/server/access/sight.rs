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
    config::is_namespace,
    engine::Snapshot,
    types::{Kind, RedactionKey, Scope, WatchSpec},
};

/// Questions of one caller that are under way at a time.
const AT_ONCE: usize = 64;
/// Callers with different rights whose view is remembered.
const VIEWS: usize = 64;
/// Questions about single namespaces that one request may make us ask: as many as are answered before somebody gives up, and never so many that
/// answers are forgotten before all are there.
const MOST: usize = 4096;

/// Somebody about whom it is asked.
pub(super) struct Asking<'a> {
    pub(super) reviews: &'a Reviews,
    pub(super) key: &'a RedactionKey,
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

/// Why nobody can say what an account may see.
#[derive(Clone, Copy, Debug)]
pub(super) enum Blind {
    /// The API server does not say.
    Unanswered,
    /// It would have to be asked for too many single namespaces.
    TooMany,
}

impl From<Unanswered> for Blind {
    fn from(Unanswered: Unanswered) -> Self {
        Self::Unanswered
    }
}

/// The namespaces in which a caller may see objects, by group and name of the kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sight(BTreeMap<Box<str>, BTreeMap<Box<str>, Scope>>);

impl Sight {
    /// Asks what an account may see of a snapshot; where it named a namespace, only of that one. Of each kind it is asked for all namespaces
    /// first, and for single ones only where that is denied.
    pub(super) async fn ask(
        asking: &Asking<'_>,
        snapshot: &Snapshot,
        named: Option<&str>,
    ) -> Result<Self, Blind> {
        let kinds: Vec<_> = snapshot.kinds.iter().map(|state| (state.kind.clone(), None)).collect();
        let everywhere = asking.all(kinds).await?;
        let mut sight = Self::default();
        let mut single = Vec::new();
        for (kind, _, allowed) in everywhere {
            if allowed {
                sight.put(&kind, &Scope::default());
            } else if kind.namespaced {
                let places = named.map_or_else(|| namespaces(snapshot, &kind), one_namespace);
                single.extend(places.into_iter().map(|name| (kind.clone(), Some(name))));
            }
        }
        if single.len() > MOST {
            return Err(Blind::TooMany);
        }
        for (kind, name, allowed) in asking.all(single).await? {
            if let Some(name) = name.filter(|_| allowed) {
                sight.put(&kind, &Scope::In([name].into()));
            }
        }
        Ok(sight)
    }

    fn put(&mut self, kind: &Kind, more: &Scope) {
        let kinds = self.0.entry(kind.group.clone()).or_default();
        let scope = kinds.entry(kind.kind.clone()).or_insert_with(Scope::nothing);
        *scope = &*scope | more;
    }

    /// Where objects of a kind may be seen; none where nowhere.
    pub(super) fn of(&self, kind: &Kind) -> Option<&Scope> {
        self.0.get(&kind.group)?.get(&kind.kind)
    }

    /// Whether all that a stream brings may be seen, or what it brings of one namespace.
    pub(super) fn sees_stream(&self, stream: &WatchSpec, namespace: Option<&str>) -> bool {
        let Some(scope) = self.of(&stream.kind) else { return false };
        match stream.namespace.as_deref().or(namespace) {
            Some(namespace) => scope.has(namespace),
            None => *scope == Scope::default(),
        }
    }

    /// Whether anything may be seen in a namespace.
    pub(super) fn sees_namespace(&self, namespace: &str) -> bool {
        self.0.values().flat_map(BTreeMap::values).any(|scope| scope.has(namespace))
    }
}

fn one_namespace(name: &str) -> BTreeSet<Box<str>> {
    Some(name).filter(|name| is_namespace(name)).map(Into::into).into_iter().collect()
}

/// The namespaces in which a kind has, had, or may have objects.
fn namespaces(snapshot: &Snapshot, kind: &Kind) -> BTreeSet<Box<str>> {
    let states = || snapshot.kinds.iter().filter(|state| state.kind.is_same_type(kind));
    let now = states().flat_map(|state| state.blocks.namespaces());
    let watched = states().flat_map(|state| &state.streams).filter_map(|own| own.spec.namespace.as_deref());
    let keys = snapshot.history.newest_first().map(|transition| &transition.key);
    let before = keys.filter(|key| key.kind.is_same_type(kind)).map(|key| &*key.namespace);
    now.chain(watched).chain(before).filter(|name| !name.is_empty()).map(Into::into).collect()
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
    /// A snapshot as it is seen. Where nothing has changed that is seen, it has the numbers of the one before: nobody can tell that something else has.
    pub(super) fn seen(&self, snapshot: &Arc<Snapshot>, sight: &Arc<Sight>) -> Arc<Snapshot> {
        let is_newest = |view: &View| std::ptr::eq(view.of.as_ptr(), Arc::as_ptr(snapshot));
        // What is in it is whole at any time.
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match lock().get(sight) {
            Some(view) if is_newest(view) => return view.seen.clone(),
            view => view.map(|view| view.seen.clone()),
        };
        let mut seen = snapshot.only(|kind| sight.of(kind));
        if let Some(before) = before.filter(|before| before.has_the_same(&seen)) {
            (seen.sequence, seen.edition) = (before.sequence, before.edition);
        }
        let seen = Arc::new(seen);
        let mut views = lock();
        if views.len() >= VIEWS {
            views.retain(|_, view| view.of.strong_count() > 0);
        }
        if views.len() < VIEWS || views.contains_key(sight) {
            views.insert(sight.clone(), View { of: Arc::downgrade(snapshot), seen: seen.clone() });
        }
        seen
    }
}
