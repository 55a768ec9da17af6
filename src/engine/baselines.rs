//! What the baselines declare, by object.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    diff::{declared_labels, is_written_by_terraform, terraform::sensitive_fields},
    types::{Baseline, DeclaredObject, Kind, LiveObject, ObjectKey, RedactionKey, Source},
};

/// Where something is declared: a source, and the name of a baseline.
pub(super) type Place = (Source, Arc<str>);

/// All baselines, and what they declare for each object.
#[derive(Debug, Default)]
pub(super) struct Baselines {
    all: BTreeMap<Place, BaselineState>,
    declarations: HashMap<ObjectKey, Vec<Declaration>>,
    /// The kinds of these objects, each once.
    kinds: Vec<Arc<Kind>>,
}

/// One baseline, and what we have found out about it.
#[derive(Clone, Debug)]
pub struct BaselineState {
    /// The baseline as it was last read.
    pub baseline: Arc<Baseline>,
    /// Whether it declares objects of this cluster.
    pub belonging: ClusterMatch,
    /// Whether its objects are being changed by whoever holds its lock.
    pub in_flight: bool,
    /// Since when the lock is held of which was told that it is held for too long.
    told_stale: Option<Timestamp>,
}

/// Whether a baseline declares objects of this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterMatch {
    /// Not all of its kinds have been listed yet.
    Undecided,
    /// An object of it was found here, or settings say so.
    Here,
    /// None of its objects was found here.
    Elsewhere,
}

/// What was decided about baselines.
#[derive(Debug, Default)]
pub(super) struct Decided {
    /// Those of other clusters.
    pub(super) elsewhere: Vec<Place>,
    /// Objects on which opinions change.
    pub(super) touched: Vec<ObjectKey>,
}

/// What one baseline declares for an object.
#[derive(Clone, Debug)]
struct Declaration {
    place: Place,
    object: Arc<DeclaredObject>,
}

impl Baselines {
    /// All baselines, by source and name.
    pub(super) fn all(&self) -> impl Iterator<Item = &BaselineState> {
        self.all.values()
    }

    /// What is declared for an object by baselines of one source, each with its baseline.
    pub(super) fn declared(
        &self,
        source: Source,
        key: &ObjectKey,
    ) -> impl Iterator<Item = (&BaselineState, &DeclaredObject)> {
        let declarations = self.declarations.get(key).into_iter().flatten();
        let of_source = declarations.filter(move |own| own.place.0 == source);
        of_source.filter_map(|own| Some((self.all.get(&own.place)?, &*own.object)))
    }

    /// The labels of an object that is not there, by the word of the first baseline that declares some.
    pub(super) fn labels(&self, key: &ObjectKey) -> Box<[(Box<str>, Box<str>)]> {
        let declarations = self.declarations.get(key).into_iter().flatten();
        let mut labels = declarations.map(|own| declared_labels(&own.object));
        labels.find(|own| !own.is_empty()).unwrap_or_default()
    }

    /// What of an object may not be told by the word of any baseline, and the key of its digests.
    pub(super) fn marked(&self, key: &ObjectKey) -> impl Iterator<Item = (Vec<Box<str>>, &RedactionKey)> {
        let declarations = self.declarations.get(key).into_iter().flatten().map(|own| &*own.object);
        let marking = declarations.filter(|own| !own.sensitive.is_empty());
        marking.map(|own| {
            // Fields may be called otherwise in another version.
            let is_read_so = own.object.version == key.kind.version;
            let fields = if is_read_so { sensitive_fields(own) } else { vec![Box::default()] };
            (fields, &own.key)
        })
    }

    /// One baseline.
    pub(super) fn get(&self, source: Source, name: &Arc<str>) -> Option<&BaselineState> {
        self.all.get(&(source, name.clone()))
    }

    /// Another baseline that declares all of an object, where this one has not declared it before.
    pub(super) fn other_owner(&self, baseline: &Baseline, object: &DeclaredObject) -> Option<&str> {
        let own = self.declarations.get(&key_of(object))?;
        // Sources stand side by side; what two baselines of one source declare is one claim.
        let own: Vec<&Declaration> = own.iter().filter(|own| own.place.0 == baseline.source).collect();
        let is_own = |own: &&Declaration| *own.place.1 == *baseline.name;
        if object.is_part() || own.iter().any(is_own) {
            return None;
        }
        own.iter().find(|own| !own.object.is_part()).map(|own| &*own.place.1)
    }

    /// Baselines whose lock has just ceased to hold, though somebody still has it.
    pub(super) fn take_stale_locks(&mut self, now: Timestamp) -> Vec<Place> {
        let mut stale = Vec::new();
        for state in self.all.values_mut() {
            let lock = state.baseline.lock.as_ref();
            let since = lock
                .and_then(|lock| lock.created.filter(|_| lock.holds_until.is_some_and(|until| until <= now)));
            if since.is_some() && state.told_stale != since {
                stale.push((state.baseline.source, state.baseline.name.clone()));
            }
            state.told_stale = since;
        }
        stale
    }

    /// Whether anything declares this object.
    pub(super) fn is_declared(&self, key: &ObjectKey) -> bool {
        self.declarations.contains_key(key)
    }

    /// Every object of a kind that anything declares.
    pub(super) fn keys_of_kind(&self, kind: &Kind) -> Vec<ObjectKey> {
        self.declarations.keys().filter(|key| key.kind.is_same_type(kind)).cloned().collect()
    }

    /// Takes a baseline in. Says on which objects opinions may change.
    pub(super) fn put(&mut self, baseline: &Arc<Baseline>, now: Timestamp) -> Vec<ObjectKey> {
        let place = (baseline.source, baseline.name.clone());
        let old = self.all.get(&place).cloned();
        let in_flight = baseline.is_in_flight(now);
        let belonging = match &old {
            _ if baseline.here => ClusterMatch::Here,
            // What was here once is here for as long as it is the same one.
            Some(old) if is_same_line(&old.baseline, baseline) => old.belonging,
            Some(_) | None => ClusterMatch::Undecided,
        };
        let told_stale = old.as_ref().and_then(|old| old.told_stale);
        let state = BaselineState { baseline: baseline.clone(), belonging, in_flight, told_stale };
        let all_change = old.as_ref().is_none_or(|old| {
            old.in_flight != in_flight
                || old.belonging != belonging
                || old.baseline.fault.as_ref().map(|own| own.fault)
                    != baseline.fault.as_ref().map(|own| own.fault)
        });
        let before = old.as_ref().map_or(&[][..], |old| &old.baseline.objects);
        let identity = |object: &'_ Arc<DeclaredObject>| (object.address.clone(), object.object.clone());
        let mut left: HashMap<_, &Arc<DeclaredObject>> =
            before.iter().map(|object| (identity(object), object)).collect();
        let mut touched = Vec::new();
        for object in &baseline.objects {
            let known = left.remove(&identity(object));
            if !known.is_some_and(|known| Arc::ptr_eq(known, object)) {
                touched.push(self.declare(&place, object));
            } else if all_change {
                touched.push(key_of(object));
            }
        }
        let gone: Vec<Arc<DeclaredObject>> = left.into_values().cloned().collect();
        touched.extend(gone.iter().map(|object| self.undeclare(&place, object)));
        self.all.insert(place, state);
        touched
    }

    /// Forgets a baseline. Says on which objects opinions may change.
    pub(super) fn remove(&mut self, source: Source, name: &Arc<str>) -> Vec<ObjectKey> {
        let place = (source, name.clone());
        let Some(old) = self.all.remove(&place) else { return Vec::new() };
        old.baseline.objects.iter().map(|object| self.undeclare(&place, object)).collect()
    }

    /// Looks whether locks have begun or ceased to hold. Says on which objects opinions may change.
    pub(super) fn look_at_locks(&mut self, now: Timestamp) -> Vec<ObjectKey> {
        let mut touched = Vec::new();
        for state in self.all.values_mut() {
            let in_flight = state.baseline.is_in_flight(now);
            if std::mem::replace(&mut state.in_flight, in_flight) != in_flight {
                touched.extend(state.baseline.objects.iter().map(|object| key_of(object)));
            }
        }
        touched
    }

    /// Looks whether an object proves that baselines declare objects of this cluster. Says on which other objects opinions
    /// change.
    pub(super) fn learn_from(&mut self, object: &LiveObject) -> Vec<ObjectKey> {
        let mut touched = Vec::new();
        for Declaration { place, object: declared } in
            self.declarations.get(&object.key).into_iter().flatten()
        {
            let Some(state) = self.all.get_mut(place).filter(|own| own.belonging != ClusterMatch::Here)
            else {
                continue;
            };
            if is_proof(&state.baseline, declared, object) {
                state.belonging = ClusterMatch::Here;
                touched.extend(state.baseline.objects.iter().map(|object| key_of(object)));
            }
        }
        touched
    }

    /// Decides about baselines all of whose objects were looked for. `is_looked_for`: none where nobody can look.
    pub(super) fn decide(&mut self, is_looked_for: impl Fn(&ObjectKey) -> Option<bool>) -> Decided {
        let mut decided = Decided::default();
        for state in self.all.values_mut().filter(|own| own.belonging == ClusterMatch::Undecided) {
            let keys: Vec<ObjectKey> = state.baseline.objects.iter().map(|object| key_of(object)).collect();
            let looked: Vec<bool> = keys.iter().filter_map(&is_looked_for).collect();
            if !looked.is_empty() && looked.iter().all(|looked| *looked) {
                state.belonging = ClusterMatch::Elsewhere;
                decided.elsewhere.push((state.baseline.source, state.baseline.name.clone()));
                decided.touched.extend(keys);
            }
        }
        decided
    }

    fn declare(&mut self, place: &Place, object: &Arc<DeclaredObject>) -> ObjectKey {
        let mut key = key_of(object);
        match self.kinds.iter().find(|kind| kind.is_same_type(&key.kind)) {
            Some(kind) => key.kind = kind.clone(),
            None => self.kinds.push(key.kind.clone()),
        }
        let declarations = self.declarations.entry(key.clone()).or_default();
        declarations.retain(|own| own.place != *place || own.object.address != object.address);
        declarations.push(Declaration { place: place.clone(), object: object.clone() });
        // What declares all of an object comes first, and the order does not depend on who was read first.
        declarations.sort_by(|a, b| {
            (a.object.is_part(), &a.place, &a.object.address).cmp(&(
                b.object.is_part(),
                &b.place,
                &b.object.address,
            ))
        });
        key
    }

    fn undeclare(&mut self, place: &Place, object: &DeclaredObject) -> ObjectKey {
        let key = key_of(object);
        if let Some(declarations) = self.declarations.get_mut(&key) {
            declarations.retain(|own| {
                own.place != *place
                    || own.object.address != object.address
                    || own.object.object != object.object
            });
            if declarations.is_empty() {
                self.declarations.remove(&key);
            }
        }
        key
    }
}

/// Whether two versions of a baseline are of the same one, as far as both say.
fn is_same_line(old: &Baseline, new: &Baseline) -> bool {
    match (&old.version, &new.version) {
        (Some(old), Some(new)) => old.lineage == new.lineage,
        (None, _) | (_, None) => true,
    }
}

/// A uid tells. Where a whole state has none, as with nothing but manifests in it, it has to do that Terraform wrote to an
/// object of that name.
fn is_proof(baseline: &Baseline, declared: &DeclaredObject, object: &LiveObject) -> bool {
    match &declared.uid {
        Some(uid) => *uid == object.uid,
        None => {
            baseline.objects.iter().all(|own| own.uid.is_none())
                && object.document.as_deref().is_some_and(is_written_by_terraform)
        }
    }
}

/// The object that is declared. Its kind's plural is not known here, and no part of the identity.
fn key_of(object: &DeclaredObject) -> ObjectKey {
    let name = &object.object;
    let kind = Kind::unseen(&name.group, &name.version, &name.kind);
    ObjectKey { kind: Arc::new(kind), namespace: (*name.namespace).into(), name: (*name.name).into() }
}
