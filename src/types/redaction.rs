//! Redaction: values that are compared but never exposed are kept as keyed digests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::{Digest, ObjectName};

/// What digests begin with.
const PREFIX: &str = "hmac:";

/// A secret that digests are made with, so that a short value cannot be guessed from its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct RedactionKey(Arc<Key>);

struct Key {
    bytes: [u8; 32],
    id: Box<str>,
    /// What every digest begins with: the key, taken in.
    begun: Hmac<Sha256>,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Key {}

impl RedactionKey {
    /// This key.
    pub fn new(bytes: [u8; 32]) -> Self {
        let id = Digest::of(&bytes).to_string().chars().take(8).collect::<String>();
        // HMAC fills keys up with zeros to the size of a block.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&bytes);
        Self(Arc::new(Key { bytes, id: id.into(), begun: Hmac::new(&block.into()) }))
    }

    /// The bytes, for whoever makes digests or writes a baseline down.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0.bytes
    }

    /// Eight hex digits by which digests of this key are told from those of another. They tell nothing of the key.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The digest of a value: `hmac:`, the key's id and 32 hex digits.
    pub fn digest(&self, value: &[u8]) -> String {
        let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
        let mut digest = String::with_capacity(PREFIX.len() + self.id().len() + 1 + 32);
        digest.extend([PREFIX, self.id(), ":"]);
        digest.extend(self.mac(value)[..16].iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
        digest
    }

    /// A short digest, to tell whether something is as it was.
    pub fn short_digest(&self, value: &[u8]) -> u64 {
        self.mac(value).iter().take(8).fold(0, |digest, byte| digest << 8 | u64::from(*byte))
    }

    fn mac(&self, value: &[u8]) -> [u8; 32] {
        self.0.begun.clone().chain_update(value).finalize().into_bytes().into()
    }

    /// Whether a text looks like a digest of whatever key.
    pub fn is_digest(text: &str) -> bool {
        let parts = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':'));
        let is_hex =
            |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        parts.is_some_and(|(id, digits)| is_hex(id, 8) && is_hex(digits, 32))
    }
}

/// Tells nothing.
impl fmt::Debug for RedactionKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SealKey(..)")
    }
}

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
