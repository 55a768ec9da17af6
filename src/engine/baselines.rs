//! The index of all baselines: which of them declare an object, and which of them belong to this cluster.

use std::{collections::HashMap, hash::RandomState, sync::Arc};

use jiff::Timestamp;

use super::{shared_map::SharedMap, trust::Corroborations};
use crate::{
    diff::{LiveContent, declared_labels, is_written_by_terraform, terraform::sensitive_fields},
    types::{
        Baseline, DeclaredObject, GroupKind, HelmRelease, Kind, LiveObject, NamespacedName, ObjectKey,
        RedactionKey, ShortText, Source, WHOLE_OBJECT,
    },
};

/// A map that is read by borrowed keys. Tenants choose the keys, so their hashes must not be predictable.
type BorrowedKeyMap<K, V> = hashbrown::HashMap<K, V, RandomState>;

/// Identifies a baseline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct BaselineId {
    pub(super) source: Source,
    pub(super) name: Arc<str>,
}

impl BaselineId {
    pub(super) fn of(baseline: &Baseline) -> Self {
        Self { source: baseline.source, name: baseline.name.clone() }
    }
}

#[derive(Debug, Default)]
pub(super) struct Baselines {
    states: BaselineStates,
    declarations: BorrowedKeyMap<GroupKind, KindDeclarations>,
}

/// The declarations of the objects of one kind.
#[derive(Debug)]
struct KindDeclarations {
    /// The keys of these objects share it.
    kind: Arc<Kind>,
    objects: BorrowedKeyMap<NamespacedName<ShortText>, Vec<Declaration>>,
}

impl KindDeclarations {
    fn new(kind: Arc<Kind>) -> Self {
        Self { kind, objects: BorrowedKeyMap::default() }
    }
}

/// The state of each baseline, by source and name. Cheap to clone: a write copies the few states next to it.
#[derive(Clone, Debug, Default)]
pub struct BaselineStates(SharedMap<BaselineId, BaselineState>);

impl BaselineStates {
    pub fn values(&self) -> impl Iterator<Item = &BaselineState> {
        self.0.iter().map(|(_, state)| state)
    }

    /// How many states the other ones do not share.
    #[cfg(test)]
    pub(super) fn copied_since(&self, before: &Self) -> usize {
        self.0.copied_since(&before.0)
    }
}

impl FromIterator<BaselineState> for BaselineStates {
    fn from_iter<I: IntoIterator<Item = BaselineState>>(states: I) -> Self {
        let mut map = SharedMap::default();
        for state in states {
            map.insert(state.id(), state);
        }
        Self(map)
    }
}

#[derive(Clone, Debug)]
pub struct BaselineState {
    pub baseline: Arc<Baseline>,
    pub cluster_match: ClusterMatch,
    /// Whether its lock is held and not stale: an apply may be changing its objects.
    pub in_flight: bool,
    /// The creation time of the stale lock that was last reported.
    reported_stale_lock: Option<Timestamp>,
}

/// Whether a baseline declares objects of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterMatch {
    /// Not all of its kinds are synced.
    Undecided,
    /// One of its objects was found here, or the settings say so.
    Here,
    /// All of its kinds are synced, and none of its objects was found.
    Elsewhere,
}

impl BaselineState {
    fn id(&self) -> BaselineId {
        BaselineId::of(&self.baseline)
    }

    fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.baseline.objects.iter().map(|object| declared_key(object))
    }
}

#[derive(Clone, Debug)]
struct Declaration {
    baseline: BaselineId,
    object: Arc<DeclaredObject>,
}

impl Baselines {
    pub(super) fn states(&self) -> &BaselineStates {
        &self.states
    }

    pub(super) fn get(&self, id: &BaselineId) -> Option<&BaselineState> {
        self.states.0.get(id)
    }

    /// The declarations of an object in the baselines of one source.
    pub(super) fn declared(
        &self,
        source: Source,
        key: &ObjectKey,
    ) -> impl Iterator<Item = (&BaselineState, &DeclaredObject)> {
        let of_source =
            self.declarations_of(key).filter(move |declaration| declaration.baseline.source == source);
        of_source.filter_map(|declaration| Some((self.get(&declaration.baseline)?, &*declaration.object)))
    }

    /// The declarations of an object in baselines with authority over it.
    fn trusted_declarations(
        &self,
        key: &ObjectKey,
        corroborations: &Corroborations,
    ) -> impl Iterator<Item = &DeclaredObject> {
        let is_trusted = |declaration: &&Declaration| {
            self.get(&declaration.baseline).is_some_and(|state| corroborations.trust(&state.baseline, key))
        };
        self.declarations_of(key).filter(is_trusted).map(|declaration| &*declaration.object)
    }

    /// The labels that the first baseline with any labels declares for an object.
    pub(super) fn labels_of(
        &self,
        key: &ObjectKey,
        corroborations: &Corroborations,
    ) -> Box<[(Box<str>, Box<str>)]> {
        let mut labels = self.trusted_declarations(key, corroborations).map(declared_labels);
        labels.find(|labels| !labels.is_empty()).unwrap_or_default()
    }

    /// The fields of an object that any trusted baseline marks as sensitive, with the redaction key of that baseline. Rules match
    /// values, so a baseline without authority over the object must not redact them.
    pub(super) fn sensitive_fields_of(
        &self,
        key: &ObjectKey,
        corroborations: &Corroborations,
    ) -> impl Iterator<Item = (Vec<Box<str>>, &RedactionKey)> {
        let declared = self.trusted_declarations(key, corroborations);
        declared.filter(|declared| !declared.sensitive.is_empty()).map(|declared| {
            // Fields may have other names in another version, so there all of them are sensitive.
            let is_same_version = declared.object.version == key.kind.version;
            let fields = if is_same_version { sensitive_fields(declared) } else { vec![WHOLE_OBJECT.into()] };
            (fields, &declared.key)
        })
    }

    pub(super) fn is_declared(&self, key: &ObjectKey) -> bool {
        self.declarations_of(key).next().is_some()
    }

    pub(super) fn is_declared_by(&self, id: &BaselineId, key: &ObjectKey) -> bool {
        self.declarations_of(key).any(|declaration| declaration.baseline == *id)
    }

    pub(super) fn is_declared_by_release(&self, release: &HelmRelease, key: &ObjectKey) -> bool {
        self.declared(Source::Helm, key).any(|(state, _)| state.baseline.authority.release() == Some(release))
    }

    /// Whether a release exists and cannot be read now.
    pub(super) fn is_faulty_release(&self, release: &HelmRelease) -> bool {
        self.states.values().any(|state| {
            state.baseline.fault.is_some() && state.baseline.authority.release() == Some(release)
        })
    }

    #[cfg(test)]
    pub(super) fn declared_kinds(&self) -> usize {
        self.declarations.len()
    }

    /// The declared objects of a kind.
    pub(super) fn keys_of_kind(&self, kind: &Kind) -> impl Iterator<Item = ObjectKey> {
        let of_kind = self.declarations.get(&kind.group_kind());
        of_kind.into_iter().flat_map(|declarations| {
            declarations.objects.keys().map(|NamespacedName { namespace, name }| ObjectKey {
                kind: declarations.kind.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
            })
        })
    }

    /// The name of another baseline of the same source that declares the whole object, if `baseline` newly
    /// declares the whole object, too. The authority of both covers its namespace.
    pub(super) fn conflicting_owner(&self, baseline: &Baseline, object: &DeclaredObject) -> Option<&str> {
        let key = declared_key(object);
        let namespace = &*object.object.namespace;
        let id = BaselineId::of(baseline);
        let already_declares = self.is_declared_by(&id, &key);
        if object.is_partial() || already_declares || !baseline.authority.covers(namespace) {
            return None;
        }
        let owner = self
            .declared(id.source, &key)
            .map(|(state, declared)| (&*state.baseline, declared))
            .find(|(owner, declared)| !declared.is_partial() && owner.authority.covers(namespace));
        owner.map(|(owner, _)| &*owner.name)
    }

    /// Adds or replaces a baseline. Returns the objects that have to be reconciled.
    pub(super) fn upsert(&mut self, baseline: &Arc<Baseline>, now: Timestamp) -> Vec<ObjectKey> {
        let id = BaselineId::of(baseline);
        let old = self.states.0.get(&id).cloned();
        let in_flight = baseline.is_in_flight(now);
        let cluster_match = match &old {
            _ if baseline.this_cluster => ClusterMatch::Here,
            Some(old) if is_same_lineage(&old.baseline, baseline) => old.cluster_match,
            Some(_) | None => ClusterMatch::Undecided,
        };
        let reported_stale_lock = old.as_ref().and_then(|old| old.reported_stale_lock);
        let state =
            BaselineState { baseline: baseline.clone(), cluster_match, in_flight, reported_stale_lock };
        let affects_all = old.as_ref().is_none_or(|old| {
            old.in_flight != in_flight
                || old.cluster_match != cluster_match
                || old.baseline.authority != baseline.authority
                || old.baseline.fault_kind() != baseline.fault_kind()
        });
        let old_objects = old.as_ref().map_or(&[][..], |old| &old.baseline.objects);
        let identity = |object: &'_ Arc<DeclaredObject>| (object.address.clone(), object.object.clone());
        let mut removed: HashMap<_, &Arc<DeclaredObject>> =
            old_objects.iter().map(|object| (identity(object), object)).collect();
        let mut affected = Vec::new();
        for object in &baseline.objects {
            let old = removed.remove(&identity(object));
            if !old.is_some_and(|old| Arc::ptr_eq(old, object)) {
                affected.push(self.add_declaration(&id, object));
            } else if affects_all {
                affected.push(declared_key(object));
            }
        }
        let removed: Vec<Arc<DeclaredObject>> = removed.into_values().cloned().collect();
        affected.extend(removed.iter().map(|object| self.remove_declaration(&id, object)));
        self.states.0.insert(id, state);
        affected
    }

    /// Removes a baseline. Returns the objects that have to be reconciled.
    pub(super) fn remove(&mut self, id: &BaselineId) -> Vec<ObjectKey> {
        let Some(old) = self.states.0.get(id).cloned() else { return Vec::new() };
        self.states.0.remove(id);
        old.baseline.objects.iter().map(|object| self.remove_declaration(id, object)).collect()
    }

    /// Updates `in_flight` of all baselines. Returns the objects that have to be reconciled; none if nothing changed.
    pub(super) fn refresh_locks(&mut self, now: Timestamp) -> Option<Vec<ObjectKey>> {
        let is_changed = |state: &&BaselineState| state.in_flight != state.baseline.is_in_flight(now);
        let changed: Vec<BaselineId> =
            self.states.values().filter(is_changed).map(BaselineState::id).collect();
        let mut affected = None;
        for state in changed {
            let Some(state) = self.states.0.get_mut(&state) else { continue };
            state.in_flight = !state.in_flight;
            affected.get_or_insert_with(Vec::new).extend(state.keys());
        }
        affected
    }

    /// Baselines whose lock became stale since the last call.
    pub(super) fn newly_stale_locks(&mut self, now: Timestamp) -> Vec<BaselineId> {
        let stale_lock = |state: &BaselineState| {
            let lock = state.baseline.lock.as_ref()?;
            lock.created.filter(|_| lock.in_flight_until.is_some_and(|end| end <= now))
        };
        let is_changed = |state: &&BaselineState| state.reported_stale_lock != stale_lock(state);
        let mut changed: Vec<BaselineId> =
            self.states.values().filter(is_changed).map(BaselineState::id).collect();
        changed.retain(|id| {
            let Some(state) = self.states.0.get_mut(id) else { return false };
            state.reported_stale_lock = stale_lock(state);
            state.reported_stale_lock.is_some()
        });
        changed
    }

    /// Matches all baselines to this cluster that the existence of this object proves to be of it. Returns
    /// the objects that have to be reconciled.
    pub(super) fn match_by_object(&mut self, object: &LiveObject) -> Vec<ObjectKey> {
        let content = object.readable_document().map(LiveContent::new);
        let mut affected = Vec::new();
        for declaration in declarations_of(&self.declarations, &object.key) {
            let proves = |state: &BaselineState| {
                state.cluster_match != ClusterMatch::Here
                    && proves_cluster(&state.baseline, &declaration.object, object, content.as_ref())
            };
            if self.states.0.get(&declaration.baseline).is_some_and(proves)
                && let Some(state) = self.states.0.get_mut(&declaration.baseline)
            {
                state.cluster_match = ClusterMatch::Here;
                affected.extend(state.keys());
            }
        }
        affected
    }

    /// Baselines that may belong to another cluster: it is not decided yet.
    pub(super) fn undecided(&self) -> Vec<BaselineId> {
        let undecided = self.states.values().filter(|state| state.cluster_match == ClusterMatch::Undecided);
        undecided.map(BaselineState::id).collect()
    }

    /// Decides that an undecided baseline is of another cluster if all of its objects that can be watched
    /// are synced. `is_synced` returns none for objects that cannot be watched. Returns the objects that have
    /// to be reconciled; none if it stays as it is.
    pub(super) fn decide_cluster(
        &mut self,
        baseline: &BaselineId,
        is_synced: impl Fn(&ObjectKey) -> Option<bool>,
    ) -> Option<Vec<ObjectKey>> {
        let state =
            self.states.0.get(baseline).filter(|state| state.cluster_match == ClusterMatch::Undecided)?;
        let mut any_watched = false;
        let all_synced = state.keys().filter_map(|key| is_synced(&key)).all(|synced| {
            any_watched = true;
            synced
        });
        if !all_synced || !any_watched {
            return None;
        }
        let state = self.states.0.get_mut(baseline)?;
        state.cluster_match = ClusterMatch::Elsewhere;
        Some(state.keys().collect())
    }

    fn declarations_of(&self, key: &ObjectKey) -> impl Iterator<Item = &Declaration> {
        declarations_of(&self.declarations, key).iter()
    }

    fn add_declaration(&mut self, baseline: &BaselineId, object: &Arc<DeclaredObject>) -> ObjectKey {
        let mut key = declared_key(object);
        let of_kind = self.declarations.entry(key.kind.group_kind().into_owned());
        let of_kind = of_kind.or_insert_with(|| KindDeclarations::new(key.kind.clone()));
        key.kind = of_kind.kind.clone();
        let name = NamespacedName { namespace: key.namespace.clone(), name: key.name.clone() };
        let declarations = of_kind.objects.entry(name).or_default();
        declarations
            .retain(|existing| existing.baseline != *baseline || existing.object.address != object.address);
        declarations.push(Declaration { baseline: baseline.clone(), object: object.clone() });
        // Declarations of whole objects are first. The order must not depend on which baseline was read
        // first.
        declarations.sort_by(|a, b| {
            (a.object.is_partial(), &a.baseline, &a.object.address).cmp(&(
                b.object.is_partial(),
                &b.baseline,
                &b.object.address,
            ))
        });
        key
    }

    fn remove_declaration(&mut self, baseline: &BaselineId, object: &DeclaredObject) -> ObjectKey {
        let key = declared_key(object);
        let Some(of_kind) = self.declarations.get_mut(&key.kind.group_kind()) else { return key };
        let Some(declarations) = of_kind.objects.get_mut(&key.namespaced_name()) else { return key };
        declarations.retain(|existing| {
            existing.baseline != *baseline
                || existing.object.address != object.address
                || existing.object.object != object.object
        });
        if declarations.is_empty() {
            of_kind.objects.remove(&key.namespaced_name());
        }
        if of_kind.objects.is_empty() {
            self.declarations.remove(&key.kind.group_kind());
        }
        key
    }
}

fn declarations_of<'a>(
    declarations: &'a BorrowedKeyMap<GroupKind, KindDeclarations>,
    key: &ObjectKey,
) -> &'a [Declaration] {
    let of_kind = declarations.get(&key.kind.group_kind());
    let of_object = of_kind.and_then(|of_kind| of_kind.objects.get(&key.namespaced_name()));
    of_object.map_or(&[], Vec::as_slice)
}

/// Whether two versions of a baseline have the same lineage, as far as both have one.
fn is_same_lineage(old: &Baseline, new: &Baseline) -> bool {
    match (&old.version, &new.version) {
        (Some(old), Some(new)) => old.lineage == new.lineage,
        (None, _) | (_, None) => true,
    }
}

/// Whether a live object proves that a baseline is of this cluster. The uid does. In a baseline without any
/// uid, for example of manifests only, an object that Terraform wrote suffices.
fn proves_cluster(
    baseline: &Baseline,
    declared: &DeclaredObject,
    object: &LiveObject,
    content: Option<&LiveContent<'_>>,
) -> bool {
    match &declared.uid {
        Some(uid) => *uid == object.uid,
        None => {
            baseline.objects.iter().all(|declared| declared.uid.is_none())
                && content.is_some_and(|content| is_written_by_terraform(content.get()))
        }
    }
}

/// The key of a declared object. The plural of its kind is unknown here, and not part of the identity.
fn declared_key(object: &DeclaredObject) -> ObjectKey {
    let name = &object.object;
    let kind = Kind::undiscovered(&name.group, &name.version, &name.kind);
    ObjectKey::new(kind, &name.namespace, &name.name)
}
