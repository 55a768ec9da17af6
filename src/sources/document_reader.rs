//! Decodes manifests into declared objects, and reuses the objects of documents that did not change.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use serde_json::Value;

use super::{
    budget::Budget,
    documents::{Document, documents, object_of_document},
    driver::{BaselineReader, DecodeSlots, ReadResult, read_blocking},
    scopes::{KindScopes, SharedScopes},
};
use crate::{
    config::{BaselineLimits, LimitExceeded},
    diff::manifest::declared_object,
    types::{DeclaredObject, ObjectRef, RedactionKey, SkipReason, SkippedResource, shorten},
};

/// Decodes the versions of one baseline that consists of YAML or JSON documents.
pub(super) struct DocumentReader {
    key: RedactionKey,
    cache: DecodeCache<Vec<DecodedPart>>,
    /// The number of known scopes when the cached objects got their namespaces.
    known_scopes: usize,
    /// The work units of the last version.
    work: usize,
}

/// A text that consists of documents.
pub(super) struct ManifestText<'a> {
    pub(super) text: &'a str,
    /// For objects that do not name a namespace.
    pub(super) default_namespace: &'a str,
    /// The address of its documents; without one they are addressed by their template, else by kind and name.
    pub(super) address: Option<&'a str>,
}

/// The objects that documents declare.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DecodedDocuments {
    pub(super) objects: Vec<Arc<DeclaredObject>>,
    pub(super) skipped: Vec<SkippedResource>,
}

impl BaselineReader for DocumentReader {
    fn with_key(key: RedactionKey) -> Self {
        Self { key, cache: DecodeCache::default(), known_scopes: 0, work: 0 }
    }

    fn key(&self) -> &RedactionKey {
        &self.key
    }

    fn work(&self) -> usize {
        self.work
    }
}

impl DocumentReader {
    /// Starts to decode another version.
    pub(super) fn start<'a>(
        &'a mut self,
        scopes: &'a KindScopes,
        limits: &BaselineLimits,
    ) -> DocumentDecoder<'a> {
        if self.known_scopes != scopes.len() {
            (self.cache, self.known_scopes) = (DecodeCache::default(), scopes.len());
        }
        self.cache.rollback();
        let (decoded, seen) = (DecodedDocuments::default(), HashSet::new());
        DocumentDecoder { reader: self, scopes, budget: Budget::new(limits), decoded, seen }
    }
}

/// Decodes one version of a baseline, text by text.
pub(super) struct DocumentDecoder<'a> {
    reader: &'a mut DocumentReader,
    scopes: &'a KindScopes,
    budget: Budget,
    decoded: DecodedDocuments,
    seen: HashSet<[Box<str>; 4]>,
}

impl DocumentDecoder<'_> {
    pub(super) fn add(&mut self, text: &ManifestText<'_>) -> Result<(), LimitExceeded> {
        let result = self.add_documents(text);
        self.reader.work = self.budget.work();
        if result.is_err() {
            self.reader.cache.rollback();
        }
        result
    }

    fn add_documents(&mut self, text: &ManifestText<'_>) -> Result<(), LimitExceeded> {
        let Self { reader, scopes, budget, decoded, seen } = self;
        let ManifestText { text, default_namespace, address } = *text;
        for document in documents(text) {
            budget.add_document()?;
            let address = address.or(document.template());
            let inputs = [document.text(), default_namespace, address.unwrap_or_default()];
            let decode =
                || decode_document(&document, address, default_namespace, scopes, &reader.key, budget);
            for part in reader.cache.get_or_decode(&inputs, decode)? {
                budget.add_object()?;
                match part {
                    DecodedPart::Object(object) if seen.insert(identity(&object.object)) => {
                        decoded.objects.push(object);
                    }
                    DecodedPart::Object(object) => decoded.skipped.push(SkippedResource {
                        address: object.address.clone(),
                        resource_type: object.resource_type.clone(),
                        reason: SkipReason::Duplicate,
                    }),
                    DecodedPart::SkippedResource(skipped) => decoded.skipped.push(skipped),
                    DecodedPart::Ignored => {}
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> DecodedDocuments {
        self.reader.cache.commit(|parts| !parts.is_empty());
        self.decoded
    }
}

/// Identifies an object across API versions.
fn identity(object: &ObjectRef) -> [Box<str>; 4] {
    [&object.group, &object.kind, &object.namespace, &object.name].map(Clone::clone)
}

fn decode_document(
    document: &Document<'_>,
    address: Option<&str>,
    default_namespace: &str,
    scopes: &KindScopes,
    key: &RedactionKey,
    budget: &mut Budget,
) -> Result<Vec<DecodedPart>, LimitExceeded> {
    let skipped = |resource_type: &str, reason| {
        let (address, resource_type) = (address.unwrap_or_default().into(), shorten(resource_type).into());
        DecodedPart::SkippedResource(SkippedResource { address, resource_type, reason })
    };
    let objects = document.objects(budget)?;
    // The parser holds all of them in memory before the first one is counted.
    if objects.len() > budget.limits().objects {
        return Err(budget.limits().objects_exceeded());
    }
    let parts = objects.into_iter().filter_map(|object| {
        // The error may quote a secret, so it is dropped.
        let Ok(object) = object else { return Some(skipped("", SkipReason::NotYaml)) };
        if is_tool_config(&object) {
            return None;
        }
        let Some(mut name) = object_of_document(|pointer| object.pointer(pointer).and_then(Value::as_str))
        else {
            let kind = object["kind"].as_str().unwrap_or_default();
            return Some(skipped(kind, SkipReason::NoIdentity));
        };
        scopes.set_namespace(&mut name, default_namespace);
        let address = address.map_or_else(|| format!("{}/{}", name.kind, name.name), str::to_owned);
        let declared = declared_object(name, object, key);
        Some(DecodedPart::Object(Arc::new(DeclaredObject { address: address.into(), ..declared })))
    });
    Ok(parts.collect())
}

/// Whether a document configures kustomize and is never applied to a cluster.
fn is_tool_config(document: &Value) -> bool {
    document["apiVersion"].as_str().is_some_and(|version| version.starts_with("kustomize.config.k8s.io/"))
}

/// Decodes documents on a blocking thread, and again if the API server had to be asked whether their kinds are namespaced.
/// `size` is the number of stored bytes.
pub(super) async fn decode_documents<F>(
    reader: DocumentReader,
    shared_scopes: &SharedScopes,
    slots: &DecodeSlots,
    size: usize,
    decode: F,
) -> (DocumentReader, ReadResult)
where
    F: Fn(&mut DocumentReader, &KindScopes) -> ReadResult + Clone + Send + 'static,
{
    let decode_with = |reader: DocumentReader, scopes: &KindScopes| {
        let (decode, scopes) = (decode.clone(), scopes.clone());
        read_blocking(reader, slots, size, move |reader| decode(reader, &scopes))
    };
    let mut scopes = shared_scopes.snapshot();
    let (mut reader, mut decoded) = decode_with(reader, &scopes).await;
    let objects = decoded.iter().flat_map(|decoded| &decoded.objects).map(|declared| &declared.object);
    let discovery = shared_scopes.discover(&mut scopes, objects).await;
    if discovery.is_new {
        (reader, decoded) = decode_with(reader, &scopes).await;
    }
    if let Ok(decoded) = &mut decoded {
        decoded.has_unknown_scopes = !scopes.covers(decoded.objects.iter().map(|declared| &declared.object));
        decoded.objects.retain(|declared| discovery.covers(&declared.object));
        decoded.failure = discovery.into_failure();
    }
    (reader, decoded)
}

/// A decoded part of a baseline: a resource of a state, a document of a manifest.
#[derive(Clone)]
pub(super) enum DecodedPart {
    Object(Arc<DeclaredObject>),
    SkippedResource(SkippedResource),
    /// It declares nothing.
    Ignored,
}

/// Decoded parts by a hash of their text, since most parts are the same in the next version.
pub(super) struct DecodeCache<T = DecodedPart> {
    hasher: RandomState,
    last: HashMap<u64, T>,
    /// The parts of the version that is being decoded.
    next: HashMap<u64, T>,
}

impl<T> Default for DecodeCache<T> {
    fn default() -> Self {
        Self { hasher: RandomState::new(), last: HashMap::new(), next: HashMap::new() }
    }
}

impl<T: Clone> DecodeCache<T> {
    pub(super) fn get_or_decode<E>(
        &mut self,
        inputs: &[&str],
        decode: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let hash = self.hasher.hash_one(inputs);
        let part = match self.last.get(&hash) {
            Some(part) => part.clone(),
            None => decode()?,
        };
        self.next.insert(hash, part.clone());
        Ok(part)
    }

    /// Ends a version that was decoded completely, and drops parts that it does not have. Parts that declare nothing count
    /// against no limit of the namespace, so `is_kept` excludes them.
    pub(super) fn commit(&mut self, is_kept: impl Fn(&T) -> bool) {
        self.last = std::mem::take(&mut self.next);
        self.last.retain(|_, part| is_kept(part));
        self.last.shrink_to_fit();
    }

    /// Ends a version that is invalid, and keeps the parts of the last one.
    pub(super) fn rollback(&mut self) {
        self.next.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{
        BaselineLimits, BaselineReader as _, DecodedDocuments, DocumentReader, KindScopes, ManifestText,
    };
    use crate::{
        diff::{terraform::sensitive_fields, unpack},
        types::{GroupKind, RedactionKey, SkipReason},
    };

    fn read(reader: &mut DocumentReader, text: &str) -> DecodedDocuments {
        read_with(reader, text, &KindScopes::default())
    }

    fn read_with(reader: &mut DocumentReader, text: &str, scopes: &KindScopes) -> DecodedDocuments {
        let mut decoder = reader.start(scopes, &BaselineLimits::default());
        decoder.add(&ManifestText { text, default_namespace: "shop", address: None }).unwrap();
        decoder.finish()
    }

    #[test]
    fn invalid_documents_are_skipped_and_the_others_are_declared() {
        let text = "---\n# Source: c/templates/a.yaml\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: a}}\n- {apiVersion: v1, kind: Service, metadata: {name: b, namespace: ops}}\n\
---\n# Source: c/templates/b.yaml\napiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .Values.canary }}\n\
---\n# Source: c/templates/c.yaml\napiVersion: v1\nkind: Service\nmetadata:\n  name: \"{{ .Values.canary }}\"\n\
---\n# Source: c/templates/d.yaml\ncanary\n\
---\n# Source: c/templates/e.yaml\napiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: shop}\n\
---\n# Source: c/templates/f.yaml\n# nothing\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\nspec: null\n";
        let mut reader = DocumentReader::with_key(RedactionKey::new([1; 32]));
        let declared = read(&mut reader, text);
        let addresses: Vec<_> = declared
            .objects
            .iter()
            .map(|object| (&*object.address, &*object.object.namespace, &*object.object.name))
            .collect();
        let a = "c/templates/a.yaml";
        assert_eq!(addresses, [(a, "shop", "a"), (a, "ops", "b"), ("Namespace/ns", "", "ns")]);
        let skipped: Vec<_> = declared
            .skipped
            .iter()
            .map(|skipped| (&skipped.address[12..], &*skipped.resource_type, skipped.reason))
            .collect();
        assert_eq!(
            skipped,
            [
                ("b.yaml", "", SkipReason::NotYaml),
                ("c.yaml", "Service", SkipReason::NoIdentity),
                ("d.yaml", "", SkipReason::NoIdentity),
                ("e.yaml", "Service", SkipReason::Duplicate),
            ]
        );
        assert!(!format!("{declared:?}").contains("canary"));
        let again = read(&mut reader, text);
        assert!(declared.objects.iter().zip(&again.objects).all(|(one, other)| Arc::ptr_eq(one, other)));
    }

    #[test]
    fn objects_are_decoded_again_when_a_scope_becomes_known() {
        let text = "apiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: a}\n";
        let mut reader = DocumentReader::with_key(RedactionKey::new([1; 32]));
        assert_eq!(&*read(&mut reader, text).objects[0].object.namespace, "shop");
        let fleets = GroupKind::new("example.com", "Fleet").into_owned();
        let scopes = KindScopes { namespaced: [(fleets, false)].into() };
        assert_eq!(&*read_with(&mut reader, text, &scopes).objects[0].object.namespace, "");
    }

    #[test]
    fn values_of_a_secret_are_redacted() {
        let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a, annotations: {note: canary}}\nstringData: {a: canary}\ndata: {b: Y2FuYXJ5}\n";
        let declared = read(&mut DocumentReader::with_key(RedactionKey::new([1; 32])), text);
        let body = unpack(declared.objects[0].body.packed().unwrap());
        assert!(!body.to_string().contains("anary") && !body.to_string().contains("Y2Fu"), "{body}");
        assert_eq!(body["data"]["a"], body["data"]["b"]);
        // Every Secret is redacted like this, so that no further fields are marked.
        assert!(sensitive_fields(&declared.objects[0]).is_empty());
    }
}
