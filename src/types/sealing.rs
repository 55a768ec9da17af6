//! How objects of a kind are kept: with digests in place of what may not be told.

use std::collections::{BTreeMap, BTreeSet};

use super::{ObjectName, RedactionKey};

/// What is sealed of the objects of one kind that are kept, and with which keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedactionPolicy {
    /// That of this process first.
    keys: Vec<RedactionKey>,
    /// By namespace and name.
    fields: BTreeMap<Box<str>, BTreeMap<Box<str>, Marked>>,
}

/// Fields whose values may not be told, each after the version of the kind that has it.
type Marked = BTreeSet<(Box<str>, Box<str>)>;

impl RedactionPolicy {
    /// Nothing that is marked, and the key of this process.
    pub fn new(own: RedactionKey) -> Self {
        Self { keys: vec![own], fields: BTreeMap::new() }
    }

    /// The keys of digests, that of this process first.
    pub fn keys(&self) -> &[RedactionKey] {
        &self.keys
    }

    /// The key of this process.
    pub fn own_key(&self) -> &RedactionKey {
        &self.keys[0]
    }

    /// The fields, without indices, of an object read in some version whose values may not be told:
    /// `spec.template.spec.containers.env.value`. The empty one is the whole object: so it is where fields are marked in another
    /// version, which may be called otherwise in this one.
    pub fn fields(&self, version: &str, namespace: &str, name: &str) -> Vec<&str> {
        let marked = self.fields.get(namespace).and_then(|names| names.get(name));
        let own = marked.into_iter().flatten().map(|(own, field)| if **own == *version { field } else { "" });
        let own: BTreeSet<&str> = own.collect();
        // What is within another one is sealed with it.
        let is_outer = |field: &&str| !own.iter().any(|other| other != field && is_within(field, other));
        own.iter().copied().filter(is_outer).collect()
    }

    /// Whether anything of an object may not be told beside what may not be told of any of its kind.
    pub fn marks(&self, object: &ObjectName) -> bool {
        self.fields.get(&object.namespace).is_some_and(|names| names.contains_key(&object.name))
    }

    /// Seals these fields of an object as well.
    pub fn mark(&mut self, object: &ObjectName, fields: impl IntoIterator<Item = Box<str>>) {
        let ObjectName { version, namespace, name, .. } = object;
        let names = self.fields.entry(namespace.clone()).or_default();
        let marked = names.entry(name.clone()).or_default();
        marked.extend(fields.into_iter().map(|field| (version.clone(), field)));
    }

    /// Seals with this key as well.
    pub fn add_key(&mut self, key: &RedactionKey) {
        if !self.keys.contains(key) {
            self.keys.push(key.clone());
        }
    }
}

/// Whether a path of names, with dots between them, is another one or within it. The empty one is everything.
pub fn is_within(path: &str, outer: &str) -> bool {
    outer.is_empty() || path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::{ObjectName, RedactionKey, RedactionPolicy};

    fn key(number: u8) -> RedactionKey {
        RedactionKey::new([number; 32])
    }

    fn object(version: &str) -> ObjectName {
        let (group, kind) = ("apps".into(), "Deployment".into());
        ObjectName { group, version: version.into(), kind, namespace: "shop".into(), name: "web".into() }
    }

    fn marked(marks: &[(&str, &[&str])]) -> RedactionPolicy {
        let mut sealing = RedactionPolicy::new(key(1));
        for (version, fields) in marks {
            sealing.mark(&object(version), fields.iter().map(|field| (*field).into()));
        }
        sealing
    }

    #[track_caller]
    fn check(marks: &[(&str, &[&str])], fields: &[&str]) {
        assert_eq!(marked(marks).fields("v1", "shop", "web"), fields);
    }

    #[test]
    fn what_is_marked_twice_or_within_what_is_marked_is_there_once() {
        check(&[("v1", &["data"]), ("v1", &["data"])], &["data"]);
        check(
            &[("v1", &["spec.b.c", "spec.a"]), ("v1", &["spec.b", "spec.bc"])],
            &["spec.a", "spec.b", "spec.bc"],
        );
        check(&[("v1", &["spec.b"]), ("v1", &[""])], &[""]);
        check(&[], &[]);
    }

    #[test]
    fn what_is_marked_in_another_version_may_be_anything_in_this_one() {
        check(&[("v2", &["spec.b"])], &[""]);
        check(&[("v1", &["spec.b"]), ("v2", &["spec.b"])], &[""]);
    }

    #[test]
    fn it_is_the_same_whoever_came_first() {
        let marks: [(&str, &[&str]); 2] = [("v1", &["data"]), ("v1", &["metadata.labels", "data"])];
        assert_eq!(marked(&marks), marked(&[marks[1], marks[0]]));
        let mut sealing = marked(&marks);
        sealing.add_key(&key(1));
        assert_eq!((sealing.keys().len(), sealing.fields("v1", "shop", "api").len()), (1, 0));
        assert!(sealing.marks(&object("v1")) && !RedactionPolicy::new(key(1)).marks(&object("v1")));
    }
}
