//! Redaction: values that are compared but never exposed are kept as keyed digests.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::{
    Digest, NameSet, ObjectRef, Scope,
    hash::{parse_hex, write_hex},
};

/// The HMAC key of redacted values. Without the key a short value cannot be guessed from its digest.
#[derive(Clone, PartialEq, Eq)]
pub struct RedactionKey(Arc<Key>);

struct Key {
    bytes: [u8; 32],
    id: KeyId,
    /// The HMAC state after the key, which every digest clones.
    keyed: Hmac<Sha256>,
    /// The keys of namespaces; `None` if all namespaces share this key.
    of_namespaces: Option<Mutex<HashMap<Box<str>, RedactionKey>>>,
}

/// The maximum number of keys of namespaces that are cached.
const MAX_CACHED_KEYS: usize = 1000;

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Key {}

impl RedactionKey {
    /// A key that all namespaces share: the key of a published baseline.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self::with_cache(bytes, None)
    }

    /// The key of a process, from which each namespace has a key of its own: equal values in two namespaces have different
    /// digests.
    pub fn of_process(bytes: [u8; 32]) -> Self {
        Self::with_cache(bytes, Some(Mutex::default()))
    }

    fn with_cache(bytes: [u8; 32], of_namespaces: Option<Mutex<HashMap<Box<str>, Self>>>) -> Self {
        let id = KeyId(Digest::of(&bytes).first_bytes());
        // HMAC pads keys with zeros to the size of a block.
        let mut block = [0; 64];
        block[..32].copy_from_slice(&bytes);
        Self(Arc::new(Key { bytes, id, keyed: Hmac::new(&block.into()), of_namespaces }))
    }

    /// The key of the digests of objects in this namespace. It is empty for cluster-scoped objects.
    #[must_use]
    pub fn of_namespace(&self, namespace: &str) -> Self {
        let Some(cache) = &self.0.of_namespaces else { return self.clone() };
        let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = cache.get(namespace) {
            return key.clone();
        }
        if cache.len() >= MAX_CACHED_KEYS {
            cache.clear();
        }
        let key = Self::new(self.mac(&[b"namespace\0", namespace.as_bytes()].concat()));
        cache.insert(namespace.into(), key.clone());
        key
    }

    pub fn bytes(&self) -> &[u8; 32] {
        &self.0.bytes
    }

    pub fn id(&self) -> KeyId {
        self.0.id
    }

    pub fn digest(&self, value: &[u8]) -> KeyedDigest {
        let mut mac = [0; 16];
        mac.copy_from_slice(&self.mac(value)[..16]);
        KeyedDigest { key: self.id(), mac }
    }

    /// A short digest for change detection.
    pub fn short_digest(&self, value: &[u8]) -> u64 {
        self.mac(value).iter().take(8).fold(0, |digest, byte| digest << 8 | u64::from(*byte))
    }

    fn mac(&self, value: &[u8]) -> [u8; 32] {
        self.0.keyed.clone().chain_update(value).finalize().into_bytes().into()
    }
}

/// Identifies a key in its digests and does not expose it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 4]);

/// Eight hex digits.
impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, formatter)
    }
}

/// The digest of a redacted value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyedDigest {
    key: KeyId,
    mac: [u8; 16],
}

const PREFIX: &str = "hmac:";

impl KeyedDigest {
    pub fn key(&self) -> KeyId {
        self.key
    }

    /// Parses the text of a digest, for texts from outside of this process.
    pub fn parse(text: &str) -> Option<Self> {
        let (key, mac) = text.strip_prefix(PREFIX)?.split_once(':')?;
        Some(Self { key: KeyId(parse_hex(key)?), mac: parse_hex(mac)? })
    }

    /// Whether a reader may take a plain text for a digest, or for JSON with digests in it.
    pub fn looks_like(text: &str) -> bool {
        text.contains(PREFIX)
    }

    /// The same JSON, escaped so that it no longer [looks like](Self::looks_like) a digest.
    pub(super) fn escape_prefix(json: &str) -> String {
        json.replace(PREFIX, "\\u0068mac:")
    }
}

/// `hmac:<key id>:<32 hex digits>`.
impl fmt::Display for KeyedDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(PREFIX)?;
        write_hex(&self.key.0, formatter)?;
        formatter.write_str(":")?;
        write_hex(&self.mac, formatter)
    }
}

impl fmt::Debug for KeyedDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Omits the key.
impl fmt::Debug for RedactionKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RedactionKey(..)")
    }
}

/// Which objects of one kind are cached whole, which of their fields are redacted, and with which keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedactionPolicy {
    /// The namespaces whose objects are all cached whole.
    whole: Scope,
    /// Single objects outside these namespaces that are cached whole.
    names: NameSet,
    /// The key of this process comes first.
    keys: Vec<RedactionKey>,
    /// By namespace and name.
    fields: BTreeMap<Box<str>, BTreeMap<Box<str>, VersionedFields>>,
}

/// Sensitive fields, each with the API version that it is declared for.
type VersionedFields = BTreeSet<(Box<str>, Box<str>)>;

impl RedactionPolicy {
    pub fn new(process_key: RedactionKey) -> Self {
        let (whole, names) = (Scope::default(), NameSet::default());
        Self { whole, names, keys: vec![process_key], fields: BTreeMap::new() }
    }

    /// Caches only the objects of these namespaces and these single objects whole.
    pub fn limit_to(&mut self, whole: Scope, names: NameSet) {
        (self.whole, self.names) = (whole, names);
    }

    /// Whether an object is cached whole.
    pub fn includes(&self, namespace: &str, name: &str) -> bool {
        self.whole.has(namespace) || self.names.has(namespace, name)
    }

    /// Whether all objects of a namespace are cached whole, or all objects for `None`.
    pub fn includes_all(&self, namespace: Option<&str>) -> bool {
        namespace.map_or(self.whole == Scope::default(), |namespace| self.whole.has(namespace))
    }

    /// Whether it redacts the same, and caches at least the same objects whole.
    pub fn covers(&self, needed: &Self) -> bool {
        self.keys == needed.keys
            && self.fields == needed.fields
            && (&needed.whole - &self.whole).is_empty()
            && needed.names.iter().all(|(namespace, name)| self.includes(namespace, name))
    }

    /// The key of this process comes first.
    pub fn keys(&self) -> &[RedactionKey] {
        &self.keys
    }

    pub fn process_key(&self) -> &RedactionKey {
        &self.keys[0]
    }

    /// The sensitive fields of an object that is read in this version, without indices:
    /// `spec.template.spec.containers.env.value`. [`WHOLE_OBJECT`] is returned for fields that are declared for another version, which
    /// may have another name for them.
    pub fn fields(&self, version: &str, namespace: &str, name: &str) -> Vec<&str> {
        let declared = self.fields.get(namespace).and_then(|names| names.get(name));
        let paths: BTreeSet<&str> = declared
            .into_iter()
            .flatten()
            .map(|(declared_for, field)| if **declared_for == *version { &**field } else { WHOLE_OBJECT })
            .collect();
        // A field below another sensitive field is redacted with it.
        let is_outer = |field: &&str| !paths.iter().any(|other| other != field && is_within(field, other));
        paths.iter().copied().filter(is_outer).collect()
    }

    /// Whether an object has sensitive fields beyond those of its kind.
    pub fn redacts(&self, object: &ObjectRef) -> bool {
        self.fields.get(&object.namespace).is_some_and(|names| names.contains_key(&object.name))
    }

    pub fn add_fields(&mut self, object: &ObjectRef, fields: impl IntoIterator<Item = Box<str>>) {
        let ObjectRef { version, namespace, name, .. } = object;
        let names = self.fields.entry(namespace.clone()).or_default();
        let declared = names.entry(name.clone()).or_default();
        declared.extend(fields.into_iter().map(|field| (version.clone(), field)));
    }

    pub fn add_key(&mut self, key: &RedactionKey) {
        if !self.keys.contains(key) {
            self.keys.push(key.clone());
        }
    }
}

/// The dotted path of the whole object, or of all of a value: every path is below it.
pub const WHOLE_OBJECT: &str = "";

/// Whether a dotted path equals another one or is below it.
pub fn is_within(path: &str, outer: &str) -> bool {
    outer == WHOLE_OBJECT
        || path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
