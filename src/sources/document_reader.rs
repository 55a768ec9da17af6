//! From objects as people wrote them down to declared ones.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use kube::Client;
use serde_json::Value;

use super::{
    documents::{Document, documents, object_of_document},
    metadata_watch::Refusal,
    publisher::Reading,
    scopes::Scopes,
};
use crate::{
    diff::{declared::prepare, is_secret, pack},
    types::{BaselineFault, DeclaredBody, DeclaredObject, ObjectName, RedactionKey, SkipReason, Skipped},
};

/// Reads the versions of one baseline that is written in documents. What did not change since the last one is not read again.
pub(super) struct DocumentReader {
    key: RedactionKey,
    memory: Memory<Vec<Made>>,
}

/// A text with documents in it.
pub(super) struct Written<'a> {
    pub(super) text: &'a str,
    /// The namespace of objects that do not say theirs.
    pub(super) namespace: &'a str,
    /// What it is called, where that is what its documents are called too.
    pub(super) name: Option<&'a str>,
}

/// What documents declare.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Declared {
    pub(super) objects: Vec<Arc<DeclaredObject>>,
    pub(super) skipped: Vec<Skipped>,
}

impl DocumentReader {
    /// One that has read nothing yet, and seals with this key.
    pub(super) fn new(key: RedactionKey) -> Self {
        Self { key, memory: Memory::default() }
    }

    /// Another one that seals with the same key.
    pub(super) fn fresh(&self) -> Self {
        Self::new(self.key.clone())
    }

    /// What these texts declare. Documents are called as their text is, else as the template that they were made from, and
    /// else by the objects in them.
    pub(super) fn read<'a>(
        &mut self,
        texts: impl IntoIterator<Item = Written<'a>>,
        scopes: &Scopes,
    ) -> Declared {
        let mut declared = Declared::default();
        let mut seen = HashSet::new();
        for Written { text, namespace, name } in texts {
            for document in documents(text) {
                let address = name.or(document.template());
                let texts = [document.text(), namespace, address.unwrap_or_default()];
                let anew = || Ok(make(&document, address, namespace, scopes, &self.key));
                for made in self.memory.recall(&texts, anew).unwrap_or_default() {
                    match made {
                        Made::Object(object) if seen.insert(identity(&object.object)) => {
                            declared.objects.push(object);
                        }
                        Made::Object(object) => declared.skipped.push(Skipped {
                            address: object.address.clone(),
                            resource_type: object.resource_type.clone(),
                            reason: SkipReason::Duplicate,
                        }),
                        Made::Skipped(skipped) => declared.skipped.push(skipped),
                        Made::Nothing => {}
                    }
                }
            }
        }
        self.memory.turn();
        declared
    }
}

/// Which object it is, in whatever version.
fn identity(object: &ObjectName) -> [Box<str>; 4] {
    [&object.group, &object.kind, &object.namespace, &object.name].map(Clone::clone)
}

fn make(
    document: &Document,
    address: Option<&str>,
    namespace: &str,
    scopes: &Scopes,
    key: &RedactionKey,
) -> Vec<Made> {
    let skipped = |resource_type: &str, reason| {
        let address = address.unwrap_or_default().into();
        Made::Skipped(Skipped { address, resource_type: resource_type.into(), reason })
    };
    let objects = document.objects().into_iter().map(|object| {
        // What is wrong with it may quote it, and is not told.
        let Ok(object) = object else { return skipped("", SkipReason::NotYaml) };
        if is_for_a_tool(&object) {
            return Made::Nothing;
        }
        let Some(mut name) = object_of_document(&object) else {
            return skipped(object["kind"].as_str().unwrap_or_default(), SkipReason::NoIdentity);
        };
        scopes.place(&mut name, namespace);
        let address = address.map_or_else(|| format!("{}/{}", name.kind, name.name), str::to_owned);
        Made::Object(Arc::new(subset(address.into(), name, object, key)))
    });
    objects.collect()
}

/// Whether a document is one that a tool reads and no cluster ever sees.
fn is_for_a_tool(document: &Value) -> bool {
    document["apiVersion"].as_str().is_some_and(|version| version.starts_with("kustomize.config.k8s.io/"))
}

/// What a document declares for an object, with digests in place of what may not be told.
fn subset(address: Box<str>, object: ObjectName, mut document: Value, key: &RedactionKey) -> DeclaredObject {
    prepare(&mut document, key);
    let sensitive = if is_secret(&object.group, &object.kind) {
        ["data", "metadata.annotations"].map(Into::into).to_vec()
    } else {
        Vec::new()
    };
    DeclaredObject {
        address,
        resource_type: object.kind.clone(),
        object,
        uid: None,
        sensitive,
        key: key.clone(),
        body: DeclaredBody::Subset(pack(&document)),
    }
}

/// Reads with a reader that is handed back. Where that panics, there is nothing, and another reader.
pub(super) async fn read_aside<R: Send + 'static, T: Send + 'static>(
    mut reader: R,
    other: R,
    read: impl FnOnce(&mut R) -> T + Send + 'static,
) -> (R, Option<T>) {
    let task = tokio::task::spawn_blocking(move || {
        let outcome = read(&mut reader);
        (reader, Some(outcome))
    });
    task.await.unwrap_or((other, None))
}

/// What documents declare, and whether it is known where that is.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) reading: Reading,
    /// Whether it is known of all its objects where they are. Else their kinds are asked for again.
    pub(super) is_sure: bool,
    /// Why nobody could be asked about some of them, which are left out.
    pub(super) refusal: Option<Refusal>,
}

/// Reads documents, and reads them again where the API server has to be asked which of their kinds have namespaces.
pub(super) async fn read_placed<F>(
    client: &Client,
    reader: DocumentReader,
    scopes: &mut Scopes,
    read: F,
) -> (DocumentReader, Result<Placed, BaselineFault>)
where
    F: Fn(&mut DocumentReader, &Scopes) -> Result<Reading, BaselineFault> + Clone + Send + 'static,
{
    let (mut reader, mut outcome) = read_within(reader, scopes, read.clone()).await;
    let objects = outcome.iter().flat_map(|reading| &reading.objects).map(|own| &own.object);
    let learned = scopes.learn(client, objects).await;
    if learned.anything {
        // Where they are was decided without knowing.
        (reader, outcome) = read_within(reader.fresh(), scopes, read).await;
    }
    let placed = outcome.map(|mut reading| {
        let is_sure = scopes.knows(reading.objects.iter().map(|own| &own.object));
        reading.objects.retain(|own| learned.covers(&own.object));
        Placed { reading, is_sure, refusal: learned.refusal() }
    });
    (reader, placed)
}

async fn read_within<F>(
    reader: DocumentReader,
    scopes: &Scopes,
    read: F,
) -> (DocumentReader, Result<Reading, BaselineFault>)
where
    F: FnOnce(&mut DocumentReader, &Scopes) -> Result<Reading, BaselineFault> + Send + 'static,
{
    let (other, scopes) = (reader.fresh(), scopes.clone());
    let (reader, outcome) = read_aside(reader, other, move |reader| read(reader, &scopes)).await;
    (reader, outcome.unwrap_or(Err(BaselineFault::Unreadable)))
}

/// What was made of one part: a resource of a state, a document of a manifest.
#[derive(Clone)]
pub(super) enum Made {
    Object(Arc<DeclaredObject>),
    Skipped(Skipped),
    /// It is on its way out, and nothing is declared by it.
    Nothing,
}

/// What was made of each part, by a hash of its text. Most of a baseline is the same when it is read again.
pub(super) struct Memory<M = Made> {
    hasher: RandomState,
    last: HashMap<u64, M>,
    /// What belongs to the version that is being read.
    next: HashMap<u64, M>,
}

impl<M> Default for Memory<M> {
    fn default() -> Self {
        Self { hasher: RandomState::new(), last: HashMap::new(), next: HashMap::new() }
    }
}

impl<M: Clone> Memory<M> {
    /// What was made of these texts, or is made now.
    pub(super) fn recall(
        &mut self,
        texts: &[&str],
        anew: impl FnOnce() -> Result<M, BaselineFault>,
    ) -> Result<M, BaselineFault> {
        let hash = self.hasher.hash_one(texts);
        let made = match self.last.get(&hash) {
            Some(made) => made.clone(),
            None => anew()?,
        };
        self.next.insert(hash, made.clone());
        Ok(made)
    }

    /// The version was read to its end: what is not in it is forgotten.
    pub(super) fn turn(&mut self) {
        self.last = std::mem::take(&mut self.next);
    }

    /// The version could not be read to its end: what was known before still is.
    pub(super) fn give_up(&mut self) {
        self.next.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Declared, DocumentReader, Scopes, Written};
    use crate::{
        diff::{terraform::sensitive_fields, unpack},
        types::{RedactionKey, SkipReason},
    };

    fn read(reader: &mut DocumentReader, text: &str) -> Declared {
        reader.read([Written { text, namespace: "shop", name: None }], &Scopes::default())
    }

    #[test]
    fn what_is_no_object_is_told_and_the_others_are_declared() {
        let text = "---\n# Source: c/templates/a.yaml\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {name: a}}\n- {apiVersion: v1, kind: Service, metadata: {name: b, namespace: ops}}\n\
---\n# Source: c/templates/b.yaml\napiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .Values.canary }}\n\
---\n# Source: c/templates/c.yaml\napiVersion: v1\nkind: Service\nmetadata:\n  name: \"{{ .Values.canary }}\"\n\
---\n# Source: c/templates/d.yaml\ncanary\n\
---\n# Source: c/templates/e.yaml\napiVersion: v1\nkind: Service\nmetadata: {name: a, namespace: shop}\n\
---\n# Source: c/templates/f.yaml\n# nothing\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\nspec: null\n";
        let mut reader = DocumentReader::new(RedactionKey::new([1; 32]));
        let declared = read(&mut reader, text);
        let told: Vec<_> = declared
            .objects
            .iter()
            .map(|own| (&*own.address, &*own.object.namespace, &*own.object.name))
            .collect();
        let a = "c/templates/a.yaml";
        assert_eq!(told, [(a, "shop", "a"), (a, "ops", "b"), ("Namespace/ns", "", "ns")]);
        let skipped: Vec<_> = declared
            .skipped
            .iter()
            .map(|own| (&own.address[12..], &*own.resource_type, own.reason))
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
    fn nothing_of_a_secret_is_kept() {
        let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a, annotations: {note: canary}}\nstringData: {a: canary}\ndata: {b: Y2FuYXJ5}\n";
        let declared = read(&mut DocumentReader::new(RedactionKey::new([1; 32])), text);
        let body = unpack(declared.objects[0].body.packed().unwrap());
        assert!(!body.to_string().contains("anary") && !body.to_string().contains("Y2Fu"), "{body}");
        assert_eq!(body["data"]["a"], body["data"]["b"]);
        // So it is with every Secret, and no reason to read them all again.
        assert!(sensitive_fields(&declared.objects[0]).is_empty());
    }
}
