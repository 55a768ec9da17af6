//! Decodes the JSON of an object into a [`LiveObject`]. Decoding never fails: an object of an unexpected shape keeps its
//! name, and its baseline is unusable.

use std::{borrow::Cow, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};

use super::{
    facts::{self, Lenient},
    status::decode_status,
};
use crate::{
    diff::{
        Algorithm, FingerprintError, JsonPart, LAST_APPLIED, Node, RecordedHash, SpecView, Text,
        field_manager, hash_object, is_declared_key, is_secret, last_applied as last_applied_of,
        pack_live_object, tfdrift, unreadable_last_applied,
    },
    types::{
        DecodeConfig, Digest, FieldManager, HashBaseline, HashMismatch, HelmRelease, Kind, LastApplied,
        LiveDocument, LiveObject, ObjectKey, Phase, RedactionPolicy, RuleInputs, UnknownReason, WatchSpec,
    },
};

/// The longest ignore annotation. Its patterns are matched for each difference, so a longer one mutes nothing.
const MAX_MUTED_PATHS: usize = 4 << 10;

#[derive(Clone, Debug)]
pub struct ObjectDecoder {
    spec: Arc<WatchSpec>,
    config: DecodeConfig,
    hash_annotation: Box<str>,
    /// The inputs of an object without any of the labels; most objects share it.
    no_rule_inputs: Arc<RuleInputs>,
    ignore_annotation: Option<Box<str>>,
    documents: Option<Arc<RedactionPolicy>>,
    /// None for Secrets, whose last-applied annotation is not a baseline.
    last_applied: Option<Arc<RedactionPolicy>>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// An object that the watch keeps. Its baseline is unusable if the rest of it is unreadable.
    Object(Arc<LiveObject>),
    /// Name and version of an object that no clause of the watch keeps.
    Filtered(Arc<LiveObject>),
    /// Name and version of an object that another watch reports.
    Excluded(Arc<LiveObject>),
    Unnamed,
}

impl Decoded {
    pub(super) fn resource_version(&self) -> Option<&str> {
        let object = match self {
            Self::Object(object) | Self::Filtered(object) | Self::Excluded(object) => object,
            Self::Unnamed => return None,
        };
        Some(&*object.resource_version).filter(|version| !version.is_empty())
    }
}

impl ObjectDecoder {
    /// Expects the part of the configuration for the kind of `spec`.
    pub fn new(spec: Arc<WatchSpec>, config: &DecodeConfig) -> Self {
        let prefix = &config.annotation_prefix;
        let is_secret = is_secret(spec.kind.group_kind());
        Self {
            documents: config.redaction_of(&spec.kind).cloned(),
            last_applied: config.last_applied.clone().filter(|_| !is_secret),
            spec,
            config: config.clone(),
            hash_annotation: format!("{prefix}/spec-hash").into(),
            no_rule_inputs: Arc::new(RuleInputs {
                label_names: (!config.label_names.is_empty()).then(|| config.label_names.clone()),
                ..RuleInputs::default()
            }),
            ignore_annotation: config.honor_ignore_annotation.then(|| format!("{prefix}/ignore").into()),
        }
    }

    /// Parses the object once: into a tree if all of it is needed, else only the parts with facts, each into its view. Without a
    /// tree, a scan first splits the text into these parts. Only malformed objects are parsed twice.
    pub fn decode(&self, json: &[u8]) -> Decoded {
        let Ok(text) = std::str::from_utf8(json) else {
            return Decoded::Unnamed;
        };
        let whole = JsonPart::Text(text);
        let mut is_readable = true;
        if self.needs_all_trees() && self.spec.filters.is_empty() {
            match whole.read() {
                Ok(tree) => return self.decode_tree(tree),
                Err(_) => is_readable = false,
            }
        }
        let Ok(parts) = serde_json::from_str::<ObjectParts<'_>>(text) else {
            let tree = is_readable.then(|| whole.read().ok()).flatten();
            return tree.map_or(Decoded::Unnamed, |tree| self.decode_name(&tree));
        };
        let labels = match self.accepted_labels(&parts.metadata) {
            Ok(labels) => labels,
            Err(skipped) => return skipped,
        };
        let annotations = self.annotations(parts.metadata.annotations);
        let needs_tree = self.needs_all_trees()
            || annotations.need_tree()
            || self.is_cached_whole(&parts.metadata.namespace.0, &parts.metadata.name.0);
        if needs_tree
            && is_readable
            && let Ok(tree) = whole.read()
        {
            return self.decode_tree(tree);
        }
        let mut object = self.decode_parts(&parts, &labels, &annotations, None);
        if needs_tree {
            self.attach_unreadable_document(&mut object, annotations.is_applied);
        }
        Decoded::Object(Arc::new(object))
    }

    fn decode_tree(&self, tree: Node) -> Decoded {
        let Some(parts) = ObjectParts::of_tree(&tree) else {
            return self.decode_name(&tree);
        };
        let labels = match self.accepted_labels(&parts.metadata) {
            Ok(labels) => labels,
            Err(skipped) => return skipped,
        };
        let annotations = self.annotations(parts.metadata.annotations);
        let mut object = self.decode_parts(&parts, &labels, &annotations, Some(&tree));
        object.report = decode_status(&self.config, &self.spec.kind, &tree, &mut object.facts);
        let is_applied = annotations.is_applied;
        self.attach_document(tree, is_applied, &mut object);
        Decoded::Object(Arc::new(object))
    }

    /// Whether every object of the watch is needed as a whole: its fields are compared, or settings name fields of its status.
    fn needs_all_trees(&self) -> bool {
        let namespace = self.spec.namespace.as_deref();
        self.documents.as_ref().is_some_and(|policy| policy.includes_all(namespace))
            || !self.config.records.is_empty()
            || self.config.jobs.is_some()
    }

    /// Whether the fields of an object are compared with those that a baseline declares.
    fn is_cached_whole(&self, namespace: &str, name: &str) -> bool {
        self.documents.as_ref().is_some_and(|policy| policy.includes(namespace, name))
    }

    /// The labels that are read of an object; name and version of an object that the watch does not keep.
    fn accepted_labels<'a>(&self, metadata: &Metadata<'a>) -> Result<Labels<'a>, Decoded> {
        let (namespace, name) = (&*metadata.namespace.0, &*metadata.name.0);
        let name_and_version = || {
            let mut object = self.new_object(name, namespace, HashBaseline::Absent);
            object.resource_version = metadata.resource_version.0.as_ref().into();
            Arc::new(object)
        };
        if name.is_empty() {
            return Err(Decoded::Unnamed);
        }
        if !self.spec.includes(namespace, name) {
            return Err(Decoded::Excluded(name_and_version()));
        }
        let mut labels = Labels::default();
        let is_read = |name: &str| {
            !self.spec.filters.is_empty()
                || name == INSTANCE_LABEL
                || self.config.label_names.iter().any(|label| **label == *name)
        };
        read_strings(metadata.labels, is_read, |name, value| labels.0.push((name, value)));
        if !self.spec.accepts(namespace, |name| labels.get(name)) {
            return Err(Decoded::Filtered(name_and_version()));
        }
        Ok(labels)
    }

    fn annotations<'a>(&self, annotations: Option<JsonPart<'a>>) -> Annotations<'a> {
        let (mut hash, mut muted_paths, mut is_applied) = (None, None, false);
        let (mut release, mut release_namespace) = (None, None);
        let is_hash = |name: &str| !self.config.ignore_hash_annotations && name == &*self.hash_annotation;
        let is_read = |name: &str| {
            is_applied |= self.last_applied.is_some() && name == LAST_APPLIED;
            is_hash(name)
                || self.ignore_annotation.as_deref() == Some(name)
                || (self.documents.is_some() && (name == RELEASE_NAME || name == RELEASE_NAMESPACE))
        };
        read_strings(annotations, is_read, |name, value| {
            if is_hash(&name) {
                hash = Some(value).filter(|hash| !hash.is_empty()).map(|hash| RecordedHash::parse(&hash));
            } else if name == RELEASE_NAME {
                release = Some(value);
            } else if name == RELEASE_NAMESPACE {
                release_namespace = Some(value);
            } else {
                muted_paths = Some(value);
            }
        });
        let is_name = |(namespace, name): &(Cow<'_, str>, Cow<'_, str>)| {
            namespace.len() <= MAX_RELEASE_NAME && name.len() <= MAX_RELEASE_NAME
        };
        let named = release_namespace.zip(release).filter(is_name);
        let helm_release = named.map(|(namespace, name)| HelmRelease {
            namespace: namespace.into_owned().into(),
            name: name.into_owned().into(),
        });
        let muted_paths = muted_paths.unwrap_or_default();
        Annotations { hash, muted_paths, is_applied, helm_release }
    }

    fn decode_parts<'a>(
        &self,
        parts: &ObjectParts<'a>,
        labels: &Labels<'a>,
        annotations: &Annotations<'a>,
        tree: Option<&Node>,
    ) -> LiveObject {
        let metadata = &parts.metadata;
        let mut object = self.new_object(&metadata.name.0, &metadata.namespace.0, HashBaseline::NotRequested);
        object.uid = metadata.uid.0.as_ref().into();
        object.resource_version = metadata.resource_version.0.as_ref().into();
        // Facts and the `tfdrift-v1` hash share the view of the spec.
        let view = SpecView::read(&self.spec.kind, parts.spec);
        let facts_parts =
            facts::FactParts { spec: parts.spec, status: parts.status, generation: metadata.generation };
        let facts = view.as_ref().map(|view| facts::facts(&self.spec.kind, view, facts_parts));
        let mut facts = facts.unwrap_or_default();
        if !self.config.ignore_hash_annotations {
            let tfdrift = match view {
                Err(_) => Err(UnknownReason::Unreadable),
                Ok(mut view) => tfdrift(&mut view).map_or(Err(UnknownReason::Unhashable), |digest| {
                    digest.map_err(|error| unknown_reason(&error))
                }),
            };
            object.hash_baseline =
                self.hash_baseline(annotations.hash, tfdrift, tree, metadata.managed_fields, facts.replicas);
        }
        facts.scales = facts::scale_target(&object.key, parts.spec);
        facts.owner = facts::controller_of(&object.key, metadata.owner_references);
        if metadata.deletion_timestamp.is_some() {
            facts.phase = Some(Phase::Terminating);
        }
        facts.instance = labels.get(INSTANCE_LABEL).map(Into::into);
        object.facts = match &self.documents {
            Some(policy) => {
                let ObjectKey { kind, namespace, name } = &object.key;
                facts::redact(facts, &policy.fields(&kind.version, namespace, name))
            }
            None => facts,
        };
        object.rule_inputs = self.rule_inputs(labels, &annotations.muted_paths);
        object.helm_release = annotations.helm_release.clone().map(Box::new);
        object
    }

    /// Caches the whole object, redacted, if its fields are compared.
    fn attach_document(&self, tree: Node, is_applied: bool, object: &mut LiveObject) {
        let applied = self.last_applied.as_ref().filter(|_| is_applied);
        if applied.is_none() && !self.is_cached_whole(&object.key.namespace, &object.key.name) {
            return;
        }
        let Some(policy) = self.documents.as_ref().or(applied) else { return };
        let Node::Object(mut members) = tree else { return };
        let kind = &self.spec.kind;
        // Objects of a list carry neither kind nor apiVersion.
        members.insert("kind".to_owned(), Node::from(&*kind.kind));
        members.insert("apiVersion".to_owned(), Node::String(kind.api_version()));
        let document = Node::Object(members);
        let last_applied =
            applied.and_then(|policy| last_applied_of(&document, &object.key, policy.process_key()));
        if let Some(declared) = last_applied {
            object.applied = LastApplied::Declared(Box::new(declared));
        }
        let document = pack_live_object(document, kind, policy);
        object.document = Some(Box::new(LiveDocument::Readable(document)));
    }

    fn attach_unreadable_document(&self, object: &mut LiveObject, is_applied: bool) {
        let applied = self.last_applied.as_ref().filter(|_| is_applied);
        if applied.is_some() || self.is_cached_whole(&object.key.namespace, &object.key.name) {
            object.document = Some(Box::new(LiveDocument::Unreadable));
        }
        let last_applied =
            applied.and_then(|policy| unreadable_last_applied(&object.key, policy.process_key()));
        if let Some(declared) = last_applied {
            object.applied = LastApplied::Declared(Box::new(declared));
        }
    }

    fn rule_inputs(&self, labels: &Labels<'_>, muted_paths: &str) -> Arc<RuleInputs> {
        let label_names = &self.config.label_names;
        let selected = label_names.iter().filter_map(|name| Some((name.clone(), labels.get(name)?.into())));
        let labels: Box<[_]> = selected.collect();
        let has_valid_length = |paths: &&str| (1..=MAX_MUTED_PATHS).contains(&paths.len());
        let muted_paths = Some(muted_paths).filter(has_valid_length).map(Into::into);
        if labels.is_empty() && muted_paths.is_none() {
            return self.no_rule_inputs.clone();
        }
        Arc::new(RuleInputs { labels, muted_paths, label_names: self.no_rule_inputs.label_names.clone() })
    }

    /// The last resort for an object of an unexpected shape.
    fn decode_name(&self, tree: &Node) -> Decoded {
        let metadata = &tree["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or("");
        let (namespace, name) = (text("namespace"), text("name"));
        if name.is_empty() {
            return Decoded::Unnamed;
        }
        let baseline = if self.config.ignore_hash_annotations {
            HashBaseline::NotRequested
        } else {
            HashBaseline::Unusable(UnknownReason::Unreadable)
        };
        let mut object = self.new_object(name, namespace, baseline);
        object.uid = text("uid").into();
        object.resource_version = text("resourceVersion").into();
        self.attach_unreadable_document(&mut object, metadata["annotations"].get(LAST_APPLIED).is_some());
        object.report = decode_status(&self.config, &self.spec.kind, tree, &mut object.facts);
        let is_included = self.spec.includes(namespace, name);
        let object = Arc::new(object);
        if is_included { Decoded::Object(object) } else { Decoded::Excluded(object) }
    }

    fn new_object(&self, name: &str, namespace: &str, baseline: HashBaseline) -> LiveObject {
        LiveObject {
            rule_inputs: self.no_rule_inputs.clone(),
            hash_baseline: baseline,
            applied: self.last_applied.as_ref().map_or(LastApplied::NotRequested, |_| LastApplied::Absent),
            ..LiveObject::named(ObjectKey::new(self.spec.kind.clone(), namespace, name))
        }
    }

    /// Compares the hash annotation with the object. `tfdrift` is the `tfdrift-v1` hash of the object; all others are those of
    /// its tree.
    fn hash_baseline(
        &self,
        annotation: Option<Result<RecordedHash, UnknownReason>>,
        tfdrift: Result<Digest, UnknownReason>,
        tree: Option<&Node>,
        managed_fields: Option<JsonPart<'_>>,
        replicas: Option<i32>,
    ) -> HashBaseline {
        let recorded = match annotation {
            None if tfdrift == Err(UnknownReason::Unreadable) => {
                return HashBaseline::Unusable(UnknownReason::Unreadable);
            }
            None => return HashBaseline::Absent,
            Some(Err(reason)) => return HashBaseline::Unusable(reason),
            Some(Ok(recorded)) => recorded,
        };
        let actual = match recorded.algorithm {
            Algorithm::TfdriftV1 => tfdrift,
            algorithm @ (Algorithm::JcsV1 | Algorithm::Opr8rV1 | Algorithm::Sha256Jcs) => {
                self.hash(algorithm, &self.spec.kind, tree)
            }
        };
        match actual {
            Err(reason) => HashBaseline::Unusable(reason),
            Ok(actual) if actual == recorded.digest => HashBaseline::Match(actual),
            Ok(actual) => {
                let managed_fields = managed_fields.map(JsonPart::elements).unwrap_or_default();
                self.hash_mismatch(recorded, actual, tree, &managed_fields, replicas)
            }
        }
    }

    fn hash_mismatch(
        &self,
        recorded: RecordedHash,
        actual: Digest,
        tree: Option<&Node>,
        managed_fields: &[Node],
        replicas: Option<i32>,
    ) -> HashBaseline {
        if self.matches_in_recorded_version(tree, &recorded, managed_fields) {
            return HashBaseline::Match(recorded.digest);
        }
        let RecordedHash { algorithm, digest: expected } = recorded;
        let covers_key =
            |key: &str| algorithm == Algorithm::JcsV1 && is_declared_key(key, &self.config.annotation_prefix);
        let HashManagers { owner, mut recorded_by } =
            hash_managers(managed_fields, &self.hash_annotation, &covers_key);
        if replicas == Some(0) && replicas_are_unowned(managed_fields) {
            recorded_by = None;
        }
        HashBaseline::Mismatch(Box::new(HashMismatch { algorithm, expected, actual, owner, recorded_by }))
    }

    fn hash(&self, algorithm: Algorithm, kind: &Kind, tree: Option<&Node>) -> Result<Digest, UnknownReason> {
        let object = JsonPart::Tree(tree.ok_or(UnknownReason::Unreadable)?);
        hash_object(algorithm, kind, object, &self.config.annotation_prefix)
            .map_err(|error| unknown_reason(&error))
    }

    /// Whether the object matches the hash if it is read in the API version in which the hash was recorded. `jcs-v1`
    /// covers the `apiVersion`: a cluster that moves a kind from v1 to v2 has not changed its objects.
    fn matches_in_recorded_version(
        &self,
        tree: Option<&Node>,
        recorded: &RecordedHash,
        managed_fields: &[Node],
    ) -> bool {
        let kind = &self.spec.kind;
        let api_version = recorded_api_version(managed_fields, &self.hash_annotation);
        let Some(api_version) = api_version.filter(|api_version| {
            recorded.algorithm == Algorithm::JcsV1 && *api_version != kind.api_version()
        }) else {
            return false;
        };
        let version = api_version.rsplit('/').next().unwrap_or_default().into();
        self.hash(recorded.algorithm, &Kind { version, ..Kind::clone(kind) }, tree) == Ok(recorded.digest)
    }
}

pub(super) fn unknown_reason(error: &FingerprintError) -> UnknownReason {
    match error {
        FingerprintError::Invalid { .. } | FingerprintError::Quantity(_) => UnknownReason::Unreadable,
        FingerprintError::NoDefinition { .. } | FingerprintError::Ambiguous { .. } => {
            UnknownReason::Unhashable
        }
    }
}

/// The annotations in which Helm records the release of each object that it installs.
const RELEASE_NAME: &str = "meta.helm.sh/release-name";
const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
/// No name in Kubernetes is longer.
const MAX_RELEASE_NAME: usize = 253;

const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";

/// An object with its large parts unparsed, or the same parts of its tree.
#[derive(Deserialize)]
struct ObjectParts<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    spec: Option<JsonPart<'a>>,
    status: Option<JsonPart<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(default)]
    namespace: Text<'a>,
    #[serde(default)]
    uid: Text<'a>,
    #[serde(default)]
    resource_version: Text<'a>,
    generation: Option<i64>,
    deletion_timestamp: Option<JsonPart<'a>>,
    owner_references: Option<JsonPart<'a>>,
    labels: Option<JsonPart<'a>>,
    annotations: Option<JsonPart<'a>>,
    managed_fields: Option<JsonPart<'a>>,
}

impl<'a> ObjectParts<'a> {
    /// None if the object does not have the structure of an object.
    fn of_tree(tree: &'a Node) -> Option<Self> {
        let metadata = tree.get("metadata").filter(|metadata| metadata.is_object())?;
        let member = |object: &'a Node, name: &str| object.get(name).filter(|member| !member.is_null());
        let text = |name: &str| match member(metadata, name) {
            None => Some(Text::default()),
            Some(text) => text.as_str().map(|text| Text(text.into())),
        };
        let part = |name: &str| member(metadata, name).map(JsonPart::Tree);
        let metadata = Metadata {
            name: text("name")?,
            namespace: text("namespace")?,
            uid: text("uid")?,
            resource_version: text("resourceVersion")?,
            generation: match member(metadata, "generation") {
                None => None,
                Some(generation) => Some(generation.as_i64()?),
            },
            deletion_timestamp: part("deletionTimestamp"),
            owner_references: part("ownerReferences"),
            labels: part("labels"),
            annotations: part("annotations"),
            managed_fields: part("managedFields"),
        };
        let [spec, status] = ["spec", "status"].map(|name| member(tree, name).map(JsonPart::Tree));
        Some(Self { metadata, spec, status })
    }
}

/// The labels of an object that filters, rules or facts read.
#[derive(Default)]
struct Labels<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl Labels<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().rev().find(|(own, _)| own == name).map(|(_, value)| &**value)
    }
}

/// The annotations of an object that the decoder reads.
struct Annotations<'a> {
    /// None without the annotation, or if hashes are not requested.
    hash: Option<Result<RecordedHash, UnknownReason>>,
    muted_paths: Cow<'a, str>,
    /// Whether the object has a last-applied annotation that is a baseline.
    is_applied: bool,
    helm_release: Option<HelmRelease>,
}

impl Annotations<'_> {
    /// Whether the object is needed as a whole. `tfdrift-v1` hashes the view of the spec.
    fn need_tree(&self) -> bool {
        let is_tree_hash = |hash: &RecordedHash| hash.algorithm != Algorithm::TfdriftV1;
        self.is_applied || self.hash.as_ref().is_some_and(|hash| hash.as_ref().is_ok_and(is_tree_hash))
    }
}

/// Reads the strings of an object whose names `is_read` accepts, in one pass. Null is the empty string, and values of other types
/// are skipped.
fn read_strings<'a>(
    object: Option<JsonPart<'a>>,
    is_read: impl FnMut(&str) -> bool,
    found: impl FnMut(Cow<'a, str>, Cow<'a, str>),
) {
    struct Strings<R, F>(R, F);
    impl<'de, R: FnMut(&str) -> bool, F: FnMut(Cow<'de, str>, Cow<'de, str>)> DeserializeSeed<'de>
        for Strings<R, F>
    {
        type Value = ();
        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
            deserializer.deserialize_map(self)
        }
    }
    impl<'de, R: FnMut(&str) -> bool, F: FnMut(Cow<'de, str>, Cow<'de, str>)> Visitor<'de> for Strings<R, F> {
        type Value = ();
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a map of strings")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            let Self(mut is_read, mut found) = self;
            while let Some(Text(name)) = map.next_key()? {
                if !is_read(&name) {
                    map.next_value::<IgnoredAny>()?;
                } else if let Lenient(Some(Text(value))) = map.next_value()? {
                    found(name, value);
                }
            }
            Ok(())
        }
    }
    // Anything but a map has no strings.
    let _ = object.map(|object| object.read_with(Strings(is_read, found)));
}

/// The field managers that explain why an object does not match its recorded hash.
#[derive(Debug, Default, PartialEq, Eq)]
struct HashManagers {
    /// Wrote hashed fields after the hash was recorded.
    owner: Option<FieldManager>,
    /// The newest manager of hashed fields or of the hash itself.
    recorded_by: Option<FieldManager>,
}

/// The writer is normally the newest manager of hashed fields. Writes through the `scale` subresource carry no time, so a
/// manager without a time counts as newer than the hash unless another manager is known to be.
/// `covers_key` decides which labels and annotations are hashed.
fn hash_managers(
    managed_fields: &[Node],
    hash_annotation: &str,
    covers_key: &dyn Fn(&str) -> bool,
) -> HashManagers {
    let parse = |entry| HashOwner::parse(entry, hash_annotation, covers_key);
    let entries: Vec<HashOwner> = managed_fields.iter().map(parse).collect();
    let newest = |matches: &dyn Fn(&HashOwner) -> bool| {
        entries.iter().filter(|entry| matches(entry)).max_by_key(|entry| entry.manager.time)
    };
    let recorded_at = newest(&|entry| entry.owns_hash).and_then(|entry| entry.manager.time);
    let owner = newest(&|entry| entry.owns_content && entry.manager.time > recorded_at)
        .or_else(|| newest(&|entry| entry.owns_content && entry.manager.time.is_none()));
    let recorded_by = newest(&|entry| entry.owns_content || entry.owns_hash);
    HashManagers {
        owner: owner.map(|entry| entry.manager.clone()),
        recorded_by: recorded_by.map(|entry| entry.manager.clone()),
    }
}

/// Whether other spec fields have managers but `spec.replicas` has none: a write of 0 through the `scale` subresource
/// leaves no manager.
fn replicas_are_unowned(entries: &[Node]) -> bool {
    let owns_fields = entries
        .iter()
        .any(|entry| entry["fieldsV1"]["f:spec"].as_object().is_some_and(|spec| !spec.is_empty()));
    owns_fields && entries.iter().all(|entry| entry["fieldsV1"]["f:spec"]["f:replicas"].is_null())
}

/// The `apiVersion` in which the hash annotation was written, such as `apps/v1`.
fn recorded_api_version<'a>(managed_fields: &'a [Node], hash_annotation: &str) -> Option<&'a str> {
    let key = format!("f:{hash_annotation}");
    let owns_hash = |entry: &&Node| !entry["fieldsV1"]["f:metadata"]["f:annotations"][&*key].is_null();
    managed_fields.iter().find(owns_hash)?["apiVersion"].as_str()
}

/// A manager, and whether it owns hashed fields or the recorded hash.
struct HashOwner {
    manager: FieldManager,
    owns_content: bool,
    owns_hash: bool,
}

impl HashOwner {
    fn parse(entry: &Node, hash_annotation: &str, covers_key: &dyn Fn(&str) -> bool) -> Self {
        let fields = &entry["fieldsV1"];
        let keys = |owned: &Node| -> Vec<String> {
            owned.as_object().map_or_else(Vec::new, |owned| owned.keys().cloned().collect())
        };
        let mut declared =
            ["f:labels", "f:annotations"].iter().flat_map(|part| keys(&fields["f:metadata"][*part]));
        let owns_declared = declared.any(|key| key.strip_prefix("f:").is_some_and(covers_key));
        Self {
            manager: field_manager(entry),
            owns_content: owns_declared
                || keys(fields).iter().any(|key| !matches!(key.as_str(), "f:metadata" | "f:status" | ".")),
            owns_hash: !fields["f:metadata"]["f:annotations"][&*format!("f:{hash_annotation}")].is_null(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::{
        DecodeConfig, Decoded, HashManagers, Kind, LAST_APPLIED, MAX_MUTED_PATHS, Node, ObjectDecoder,
        RedactionPolicy, WatchSpec, hash_managers, replicas_are_unowned,
    };
    use crate::{
        diff::parsed_bytes,
        types::{NameSet, ObjectFilter, RedactionKey, Scope, Selector, StatusHashSpec},
        watch::facts::kinds_with_facts::KINDS_WITH_FACTS,
    };

    /// An object whose parts have different lengths.
    fn object(annotations: &Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "data": {"text": "x".repeat(1000)},
            "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}, "annotations": annotations,
                "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "App", "name": "web"}],
                "managedFields": [{"manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]},
            "spec": {"replicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "template": {"spec": {"containers": [{"name": "web", "image": "web:1"}]}}},
            "status": {"observedGeneration": 2, "conditions": [{"type": "Available", "status": "True"}]},
        })
    }

    #[test]
    fn long_ignore_annotation_mutes_nothing() {
        let config = DecodeConfig {
            annotation_prefix: "drift".into(),
            honor_ignore_annotation: true,
            ..DecodeConfig::default()
        };
        let decoder = ObjectDecoder::new(Arc::new(WatchSpec::all(Arc::new(Kind::deployment()))), &config);
        let has_muted_paths = |length: usize| {
            let object = object(&json!({"drift/ignore": "x".repeat(length)}));
            match decoder.decode(object.to_string().as_bytes()) {
                Decoded::Object(object) => object.rule_inputs.muted_paths.is_some(),
                other => unreachable!("{other:?}"),
            }
        };
        assert_eq!(
            [0, 1, MAX_MUTED_PATHS, MAX_MUTED_PATHS + 1].map(has_muted_paths),
            [false, true, true, false]
        );
    }

    /// How many bytes the decoder parses, beside the scan that splits the text.
    fn parsed(spec: WatchSpec, config: &DecodeConfig, object: &Value) -> usize {
        let decoder = ObjectDecoder::new(Arc::new(spec), config);
        parsed_bytes::take();
        decoder.decode(object.to_string().as_bytes());
        parsed_bytes::take()
    }

    fn length(object: &Value, parts: &[&str]) -> usize {
        parts.iter().map(|part| object.pointer(part).map_or(0, |part| part.to_string().len())).sum()
    }

    const METADATA: [&str; 2] = ["/metadata/labels", "/metadata/annotations"];

    #[test]
    fn object_is_parsed_once() {
        let policy = || Arc::new(RedactionPolicy::new(RedactionKey::new([1; 32])));
        let kind = Arc::new(Kind::deployment());
        let all = || WatchSpec::all(kind.clone());
        let config =
            || DecodeConfig { annotation_prefix: "tfdrift.jin.dev".into(), ..DecodeConfig::default() };
        let documents =
            || DecodeConfig { documents: [(kind.group_kind().into_owned(), policy())].into(), ..config() };
        let last_applied = DecodeConfig { last_applied: Some(policy()), ..config() };
        let records = DecodeConfig { records: [StatusHashSpec::simple_resource()].into(), ..config() };
        let zeros = "0".repeat(64);
        let none = object(&json!({"note": "a"}));
        let (tfdrift, jcs) =
            (object(&json!({HASH: zeros})), object(&json!({HASH: format!("jcs-v1:{zeros}")})));
        let manifest = r#"{"kind": "Deployment"}"#;
        let applied = object(&json!({LAST_APPLIED: manifest}));
        let views = |object: &Value| {
            length(object, &METADATA) + length(object, &["/spec", "/status", "/metadata/ownerReferences"])
        };
        let managers = length(&tfdrift, &["/metadata/managedFields"]);
        // Each part into its view.
        assert_eq!(parsed(all(), &config(), &none), views(&none));
        assert_eq!(parsed(all(), &config(), &tfdrift), views(&tfdrift) + managers);
        assert_eq!(parsed(all(), &last_applied, &none), views(&none));
        // The whole object into a tree.
        assert_eq!(parsed(all(), &documents(), &jcs), length(&jcs, &[""]));
        assert_eq!(parsed(all(), &records, &none), length(&none, &[""]));
        // Its labels and annotations decide that, and are read before.
        assert_eq!(parsed(all(), &config(), &jcs), length(&jcs, &METADATA) + length(&jcs, &[""]));
        // The manifest in the annotation is a document of its own.
        assert_eq!(
            parsed(all(), &last_applied, &applied),
            length(&applied, &METADATA) + length(&applied, &[""]) + manifest.len()
        );
        let filter =
            |app| ObjectFilter { scope: Scope::default(), selector: Some(Selector::equals("app", app)) };
        let filtered = |app| WatchSpec { filters: vec![filter(app)], ..all() };
        assert_eq!(
            parsed(filtered("web"), &documents(), &none),
            length(&none, &METADATA) + length(&none, &[""])
        );
        // Objects that the watch does not keep are not parsed.
        assert_eq!(parsed(filtered("api"), &documents(), &none), length(&none, &METADATA[..1]));
        let excluded = WatchSpec { excluded_names: Arc::new(NameSet::from_iter([("shop", "web")])), ..all() };
        assert_eq!(parsed(excluded, &config(), &none), 0);
    }

    #[test]
    fn only_declared_objects_are_cached_whole() {
        let mut policy = RedactionPolicy::new(RedactionKey::new([1; 32]));
        policy.limit_to(Scope::new(["own"], []), NameSet::from_iter([("shop", "web")]));
        let kind = Arc::new(Kind::deployment());
        let documents = [(kind.group_kind().into_owned(), Arc::new(policy))].into();
        let decoder = ObjectDecoder::new(
            Arc::new(WatchSpec::all(kind)),
            &DecodeConfig { documents, ..DecodeConfig::default() },
        );
        let is_cached_whole = |namespace: &str, name: &str| {
            let mut object = object(&json!({}));
            object["metadata"]["namespace"] = json!(namespace);
            object["metadata"]["name"] = json!(name);
            match decoder.decode(object.to_string().as_bytes()) {
                Decoded::Object(object) => object.document.is_some(),
                other => unreachable!("{other:?}"),
            }
        };
        let objects = [("own", "any"), ("shop", "web"), ("shop", "api"), ("ops", "web")];
        assert_eq!(
            objects.map(|(namespace, name)| is_cached_whole(namespace, name)),
            [true, true, false, false]
        );
    }

    #[test]
    fn no_kind_parses_a_part_of_an_object_twice() {
        for (group, kind) in KINDS_WITH_FACTS {
            let object = object(&json!({"note": "a"}));
            let spec = WatchSpec::all(Arc::new(Kind::undiscovered(group, "v1", kind)));
            let parsed = parsed(spec, &DecodeConfig::default(), &object);
            let always = length(&object, &METADATA) + length(&object, &["/metadata/ownerReferences"]);
            let [spec, status] = ["/spec", "/status"].map(|part| length(&object, &[part]));
            let once = [0, spec, status, spec + status].map(|parts| always + parts);
            assert!(once.contains(&parsed), "{kind}: {parsed} bytes, not one of {once:?}");
        }
    }

    #[test]
    fn only_configured_labels_are_cached() {
        let names = ["team".into(), "tier".into()];
        let service = Arc::new(WatchSpec::all(Arc::new(Kind::service())));
        let config = DecodeConfig {
            annotation_prefix: "x.example".into(),
            label_names: Arc::new(names),
            ..DecodeConfig::default()
        };
        let decoder = ObjectDecoder::new(service, &config);
        let json =
            br#"{"metadata": {"name": "web", "labels": {"app": "web", "team": "checkout"}}, "spec": {}}"#;
        let Decoded::Object(object) = decoder.decode(json) else { panic!("it has a name") };
        assert_eq!(*object.rule_inputs.labels, [("team".into(), "checkout".into())]);
    }

    const HASH: &str = "tfdrift.jin.dev/spec-hash";

    fn entry(manager: &str, day: u32, fields: &Value) -> Value {
        json!({"manager": manager, "operation": "Update", "time": format!("2026-01-{day:02}T00:00:00Z"), "fieldsV1": fields})
    }

    fn scaled(manager: &str) -> Value {
        json!({"manager": manager, "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}})
    }

    fn spec() -> Value {
        json!({"f:metadata": {"f:labels": {}}, "f:spec": {"f:replicas": {}}})
    }

    fn hash() -> Value {
        json!({"f:metadata": {"f:annotations": {"f:tfdrift.jin.dev/spec-hash": {}}}})
    }

    fn nodes(entries: &[Value]) -> Vec<Node> {
        entries.iter().cloned().map(Node::from).collect()
    }

    fn managers(entries: &[Value], covers_key: &dyn Fn(&str) -> bool) -> HashManagers {
        hash_managers(&nodes(entries), HASH, covers_key)
    }

    #[track_caller]
    fn check(entries: &[Value], manager: &str, day: Option<i8>) {
        let owner = managers(entries, &|_| false).owner.unwrap();
        let written = owner.time.map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).day());
        assert_eq!((&*owner.manager, written), (manager, day));
    }

    #[test]
    fn newest_manager_of_hashed_fields_is_the_writer() {
        let status = json!({"f:status": {}});
        check(
            &[
                entry("HashiCorp", 1, &spec()),
                entry("kubectl-annotate", 2, &hash()),
                entry("kubectl-edit", 3, &spec()),
                entry("kubectl-label", 4, &json!({"f:metadata": {}})),
                entry("kube-controller-manager", 5, &status),
            ],
            "kubectl-edit",
            Some(3),
        );
    }

    #[test]
    fn scale_without_a_time_is_newer_than_the_hash_unless_another_write_is() {
        let created =
            [entry("HashiCorp", 1, &spec()), entry("kubectl-annotate", 2, &hash()), scaled("kubectl")];
        check(&created, "kubectl", None);
        let edited: Vec<Value> = created.iter().cloned().chain([entry("kubectl-edit", 3, &spec())]).collect();
        check(&edited, "kubectl-edit", Some(3));
    }

    #[test]
    fn without_a_later_write_only_the_recorder_is_known() {
        let found =
            managers(&[entry("HashiCorp", 1, &spec()), entry("kubectl-annotate", 2, &hash())], &|_| false);
        assert_eq!(found.owner, None);
        assert_eq!(&*found.recorded_by.unwrap().manager, "kubectl-annotate");
    }

    #[test]
    fn replicas_without_a_manager_are_unowned() {
        let without_replicas = json!({"f:spec": {"f:selector": {}}});
        for (entries, unowned) in [
            (vec![entry("HashiCorp", 1, &without_replicas), entry("kubectl-annotate", 2, &hash())], true),
            (vec![entry("HashiCorp", 1, &spec())], false),
            (vec![entry("HashiCorp", 1, &without_replicas), scaled("kubectl")], false),
            // No entry owns a field.
            (vec![entry("HashiCorp", 1, &json!({"f:spec": {}}))], false),
            (vec![], false),
        ] {
            assert_eq!(replicas_are_unowned(&nodes(&entries)), unowned, "{entries:?}");
        }
    }

    #[test]
    fn manager_of_a_hashed_label_is_the_writer() {
        let labelled = json!({"f:metadata": {"f:labels": {"f:team": {}, "f:a.kubernetes.io/b": {}}}});
        let entries = [
            entry("HashiCorp", 1, &spec()),
            entry("kubectl-annotate", 2, &hash()),
            entry("kubectl-label", 3, &labelled),
        ];
        assert_eq!(&*managers(&entries, &|key| key == "team").owner.unwrap().manager, "kubectl-label");
        assert_eq!(managers(&entries, &|_| false).owner, None);
    }

    #[test]
    fn malformed_managed_fields_have_no_managers() {
        for entries in
            [vec![], vec![json!({"manager": "a", "fieldsV1": null})], vec![json!(1), json!(null), json!([])]]
        {
            assert_eq!(managers(&entries, &|_| true), HashManagers::default(), "{entries:?}");
        }
    }
}
