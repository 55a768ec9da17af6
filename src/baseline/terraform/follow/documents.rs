//! What has to be kept of the objects that states declare, and what of it only as digests.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    compare::terraform::{is_secret, sensitive_fields},
    model::{DeclaredObject, SealKey, Sealing},
};

/// The kinds, by group and name, of all that is declared, and what is sealed in objects of each.
///
/// Each baseline has its key, where it brings one, and its objects. What is kept sealed can be compared by whoever has a key of its
/// digests only: so it has digests of all keys that come with a declaration of it, and of no others. Those are no reason to
/// read a kind again.
pub(super) fn documents<'a>(
    own_key: &SealKey,
    baselines: impl Iterator<Item = (Option<&'a SealKey>, &'a [Arc<DeclaredObject>])> + Clone,
) -> BTreeMap<(Box<str>, Box<str>), Arc<Sealing>> {
    let mut kinds: BTreeMap<(Box<str>, Box<str>), Sealing> = BTreeMap::new();
    let kind_of = |declared: &DeclaredObject| (declared.object.group.clone(), declared.object.kind.clone());
    for declared in baselines.clone().flat_map(|(_, objects)| objects) {
        let sealing = kinds.entry(kind_of(declared)).or_insert_with(|| Sealing::new(own_key.clone()));
        let fields = sensitive_fields(declared);
        if !fields.is_empty() {
            sealing.mark(&declared.object, fields);
        }
    }
    let brought = baselines.filter_map(|(key, objects)| Some((key?, objects)));
    for (key, declared) in brought.flat_map(|(key, objects)| objects.iter().map(move |own| (key, own))) {
        let object = &declared.object;
        if let Some(sealing) = kinds.get_mut(&kind_of(declared))
            && (is_secret(&object.group, &object.kind) || sealing.marks(object))
        {
            sealing.add_key(key);
        }
    }
    kinds.into_iter().map(|(kind, sealing)| (kind, Arc::new(sealing))).collect()
}
