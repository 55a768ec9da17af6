//! What has to be kept of the objects that states declare, and what of it only as digests.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    diff::{is_secret, terraform::sensitive_fields},
    types::{DeclaredObject, RedactionKey, RedactionPolicy},
};

/// The kinds, by group and name, of all that is declared, and what is sealed in objects of each.
///
/// Each baseline has its key, where it brings one, and its objects. What is kept sealed can be compared by whoever has a key of its
/// digests only: so it has digests of all keys that come with a declaration of it, and of no others. Those are no reason to
/// read a kind again.
pub(super) fn documents<'a>(
    own_key: &RedactionKey,
    baselines: impl Iterator<Item = (Option<&'a RedactionKey>, &'a [Arc<DeclaredObject>])> + Clone,
) -> BTreeMap<(Box<str>, Box<str>), Arc<RedactionPolicy>> {
    let mut kinds: BTreeMap<(Box<str>, Box<str>), RedactionPolicy> = BTreeMap::new();
    let kind_of = |declared: &DeclaredObject| (declared.object.group.clone(), declared.object.kind.clone());
    for declared in baselines.clone().flat_map(|(_, objects)| objects) {
        let sealing = kinds.entry(kind_of(declared)).or_insert_with(|| RedactionPolicy::new(own_key.clone()));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{DeclaredObject, RedactionKey, documents};
    use crate::types::{DeclaredBody, ObjectName, UnknownReason};

    fn key(number: u8) -> RedactionKey {
        RedactionKey::new([number; 32])
    }

    fn declared(resource_type: &str, kind: &str, name: &str, marked: &[&str]) -> Arc<DeclaredObject> {
        Arc::new(DeclaredObject {
            address: name.into(),
            resource_type: resource_type.into(),
            object: ObjectName {
                group: "".into(),
                version: "v1".into(),
                kind: kind.into(),
                namespace: "shop".into(),
                name: name.into(),
            },
            uid: None,
            sensitive: marked.iter().map(|path| (*path).into()).collect(),
            key: key(1),
            body: DeclaredBody::Opaque(UnknownReason::NewerSchema),
        })
    }

    fn config_map(name: &str, marked: &[&str]) -> Arc<DeclaredObject> {
        declared("kubernetes_config_map", "ConfigMap", name, marked)
    }

    #[test]
    fn what_is_sealed_is_sealed_for_everybody_who_declares_it_and_nobody_else() {
        let secret = |name: &str| declared("kubernetes_secret", "Secret", name, &["data"]);
        let service = declared("kubernetes_service", "Service", "web", &[]);
        let own = [config_map("a", &["data"]), config_map("b", &[]), service, secret("s")];
        let (same, another, more) =
            ([config_map("a", &[])], [config_map("b", &[])], [secret("other"), config_map("c", &["data"])]);
        let baselines =
            [(None, &own[..]), (Some(&key(2)), &same), (Some(&key(3)), &another), (Some(&key(4)), &more)];
        let documents = documents(&key(1), baselines.into_iter());
        let sealing = |kind: &str| &documents[&("".into(), kind.into())];
        assert_eq!(documents.len(), 3);
        assert_eq!(sealing("ConfigMap").keys(), [key(1), key(2), key(4)]);
        assert_eq!(sealing("Secret").keys(), [key(1), key(4)], "of each one all that is in it is sealed");
        assert_eq!(sealing("Service").keys(), [key(1)]);
        let fields = |kind: &str, name: &str| sealing(kind).fields("v1", "shop", name).join(" ");
        assert_eq!([fields("ConfigMap", "a"), fields("ConfigMap", "c")], ["data", "data"]);
        for (kind, name) in [("ConfigMap", "b"), ("Service", "web"), ("Secret", "s")] {
            assert!(sealing(kind).fields("v1", "shop", name).is_empty(), "{kind}");
        }
    }
}
