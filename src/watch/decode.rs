//! Decodes the JSON of an object into a [`LiveObject`]. Decoding never fails: an object of an unexpected shape keeps its
//! name, and its baseline is unusable.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::{facts, status::decode_status};
use crate::{
    diff::{
        Algorithm, FingerprintError, LAST_APPLIED, Node, RecordedHash, SpecView, Text, field_manager,
        fingerprint, is_declared_key, last_applied as last_applied_of, pack_live_object, tfdrift,
        unreadable_last_applied,
    },
    types::{
        DecodeConfig, Digest, Document, FieldManager, HashBaseline, HashMismatch, Kind, LiveObject,
        ObjectFacts, ObjectKey, Phase, RedactionPolicy, RuleInputs, UnknownReason, WatchSpec,
    },
};

#[derive(Clone, Debug)]
pub struct ObjectDecoder {
    spec: Arc<WatchSpec>,
    config: DecodeConfig,
    hash_annotation: Box<str>,
    /// The inputs of an object without any of the labels; most objects share it.
    no_rule_inputs: Arc<RuleInputs>,
    ignore_annotation: Option<Box<str>>,
    documents: Option<Arc<RedactionPolicy>>,
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
        Self {
            documents: config.redaction_of(&spec.kind).cloned(),
            spec,
            config: config.clone(),
            hash_annotation: format!("{prefix}/spec-hash").into(),
            no_rule_inputs: Arc::new(RuleInputs {
                label_names: config.label_names.clone(),
                ..RuleInputs::default()
            }),
            ignore_annotation: config.honor_ignore_annotation.then(|| format!("{prefix}/ignore").into()),
        }
    }

    pub fn decode(&self, json: &[u8]) -> Decoded {
        let Ok(text) = std::str::from_utf8(json) else {
            return Decoded::Unnamed;
        };
        let raw = serde_json::from_str::<RawObject<'_>>(text).ok();
        if let Some(skipped) = raw.as_ref().and_then(|raw| self.skip(raw)) {
            return skipped;
        }
        let object = raw.and_then(|raw| self.decode_object(&raw, text));
        match object.or_else(|| self.decode_name(text)).map(Arc::new) {
            Some(object) if self.spec.includes(&object.key.namespace, &object.key.name) => {
                Decoded::Object(object)
            }
            Some(object) => Decoded::Excluded(object),
            None => Decoded::Unnamed,
        }
    }

    /// Name and version of an object that the watch does not keep, without decoding the rest.
    fn skip(&self, raw: &RawObject<'_>) -> Option<Decoded> {
        let metadata = &raw.metadata;
        let name_and_version = || {
            let mut object = self.new_object(&metadata.name.0, &metadata.namespace.0, HashBaseline::Absent);
            object.resource_version = metadata.resource_version.0.as_ref().into();
            Arc::new(object)
        };
        if metadata.name.0.is_empty() {
            return None;
        }
        if !self.spec.includes(&metadata.namespace.0, &metadata.name.0) {
            return Some(Decoded::Excluded(name_and_version()));
        }
        if self.spec.filters.is_empty() {
            return None;
        }
        let labels: BTreeMap<String, String> =
            metadata.labels.and_then(|labels| serde_json::from_str(labels.get()).ok()).unwrap_or_default();
        if self.spec.accepts(&metadata.namespace.0, |key| labels.get(key).map(String::as_str)) {
            return None;
        }
        Some(Decoded::Filtered(name_and_version()))
    }

    fn decode_object(&self, raw: &RawObject<'_>, text: &str) -> Option<LiveObject> {
        let metadata = &raw.metadata;
        if metadata.name.0.is_empty() {
            return None;
        }
        let (mut facts, digest) = self.facts_and_digest(raw);
        let mut object = self.new_object(&metadata.name.0, &metadata.namespace.0, HashBaseline::Absent);
        object.uid = metadata.uid.0.as_ref().into();
        object.resource_version = metadata.resource_version.0.as_ref().into();
        object.hash_baseline = self.hash_baseline(raw, text, digest, facts.replicas);
        facts.scales = facts::scale_target(&object.key, raw.spec);
        facts.owner = facts::controller_of(&object.key, metadata.owner_references);
        if metadata.deletion_timestamp.is_some() {
            facts.phase = Some(Phase::Terminating);
        }
        facts.instance = metadata
            .labels
            .and_then(|labels| string_value(labels, "app.kubernetes.io/instance"))
            .map(|name| (*name).into());
        object.facts = match &self.documents {
            Some(policy) => {
                let ObjectKey { kind, namespace, name } = &object.key;
                facts::redact(facts, &policy.fields(&kind.version, namespace, name))
            }
            None => facts,
        };
        object.rule_inputs = self.rule_inputs(metadata);
        self.attach_document(text, metadata, &mut object);
        object.report = decode_status(&self.config, &self.spec.kind, text, &mut object.facts);
        Some(object)
    }

    /// Caches the whole object, redacted, if its fields are compared.
    fn attach_document(&self, text: &str, metadata: &RawMetadata<'_>, object: &mut LiveObject) {
        let is_applied = |annotations: &&RawValue| string_value(annotations, LAST_APPLIED).is_some();
        let applied = self
            .config
            .last_applied
            .as_ref()
            .filter(|_| metadata.annotations.as_ref().is_some_and(is_applied));
        let Some(policy) = self.documents.as_ref().or(applied) else { return };
        let Ok(Node::Object(mut members)) = serde_json::from_str(text) else {
            return attach_unreadable_document(object, applied);
        };
        let kind = &self.spec.kind;
        // Objects of a list carry neither kind nor apiVersion.
        members.insert("kind".to_owned(), Node::from(&*kind.kind));
        members.insert("apiVersion".to_owned(), Node::String(kind.api_version()));
        let document = Node::Object(members);
        let last_applied =
            applied.and_then(|policy| last_applied_of(&document, &object.key, policy.process_key()));
        object.applied = last_applied.map(Box::new);
        if self.documents.is_some() || object.applied.is_some() {
            object.document = Some(Box::new(pack_live_object(document, kind, policy)));
        }
    }

    fn rule_inputs(&self, metadata: &RawMetadata<'_>) -> Arc<RuleInputs> {
        let label_names = &self.config.label_names;
        let selected = |labels: &RawValue| {
            let names = label_names.iter();
            names.filter_map(|name| Some((name.clone(), string_value(labels, name)?.into()))).collect()
        };
        let labels: Box<[_]> = metadata.labels.map(selected).unwrap_or_default();
        let annotation = self.ignore_annotation.as_ref().zip(metadata.annotations);
        let muted_paths = annotation.and_then(|(name, annotations)| string_value(annotations, name));
        if labels.is_empty() && muted_paths.as_ref().is_none_or(|paths| paths.is_empty()) {
            return self.no_rule_inputs.clone();
        }
        let muted_paths = muted_paths.map(Into::into).unwrap_or_default();
        Arc::new(RuleInputs { labels, muted_paths, label_names: label_names.clone() })
    }

    /// The last resort for an object of an unexpected shape.
    fn decode_name(&self, text: &str) -> Option<LiveObject> {
        let value: Value = serde_json::from_str(text).ok()?;
        let metadata = &value["metadata"];
        let field = |name: &str| metadata[name].as_str().unwrap_or("");
        let name = metadata["name"].as_str().filter(|name| !name.is_empty())?;
        let baseline = if self.config.ignore_hash_annotations {
            HashBaseline::NotRequested
        } else {
            HashBaseline::Unusable(UnknownReason::Unreadable)
        };
        let mut object = self.new_object(name, field("namespace"), baseline);
        let applied =
            self.config.last_applied.as_ref().filter(|_| metadata["annotations"].get(LAST_APPLIED).is_some());
        if self.documents.is_some() || applied.is_some() {
            attach_unreadable_document(&mut object, applied);
        }
        object.report = decode_status(&self.config, &self.spec.kind, text, &mut object.facts);
        object.uid = field("uid").into();
        object.resource_version = field("resourceVersion").into();
        Some(object)
    }

    fn new_object(&self, name: &str, namespace: &str, baseline: HashBaseline) -> LiveObject {
        LiveObject {
            rule_inputs: self.no_rule_inputs.clone(),
            hash_baseline: baseline,
            ..LiveObject::named(ObjectKey::new(self.spec.kind.clone(), namespace, name))
        }
    }

    /// Facts and the `tfdrift-v1` hash come from one pass over the spec.
    fn facts_and_digest(&self, raw: &RawObject<'_>) -> (ObjectFacts, Result<Digest, UnknownReason>) {
        let spec = raw.spec.map_or("{}", RawValue::get);
        let parts =
            facts::ObjectParts { spec: raw.spec, status: raw.status, generation: raw.metadata.generation };
        let Ok(mut view) = SpecView::read(&self.spec.kind, spec) else {
            return (ObjectFacts::default(), Err(UnknownReason::Unreadable));
        };
        let facts = facts::facts(&self.spec.kind, &view, parts);
        let digest = tfdrift(&mut view).map(|digest| digest.map_err(|error| unknown_reason(&error)));
        (facts, digest.unwrap_or(Err(UnknownReason::Unhashable)))
    }

    /// Compares the hash annotation with the object. `tfdrift` is the `tfdrift-v1` hash of the object.
    fn hash_baseline(
        &self,
        raw: &RawObject<'_>,
        text: &str,
        tfdrift: Result<Digest, UnknownReason>,
        replicas: Option<i32>,
    ) -> HashBaseline {
        if self.config.ignore_hash_annotations {
            return HashBaseline::NotRequested;
        }
        let annotations = raw.metadata.annotations;
        let annotation = annotations.and_then(|annotations| string_value(annotations, &self.hash_annotation));
        let annotation = match annotation.as_deref() {
            None | Some("") if tfdrift == Err(UnknownReason::Unreadable) => {
                return HashBaseline::Unusable(UnknownReason::Unreadable);
            }
            None | Some("") => return HashBaseline::Absent,
            Some(annotation) => annotation,
        };
        let recorded = match RecordedHash::parse(annotation) {
            Ok(recorded) => recorded,
            Err(reason) => return HashBaseline::Unusable(reason),
        };
        let actual = match recorded.algorithm {
            Algorithm::TfdriftV1 => tfdrift,
            algorithm @ (Algorithm::JcsV1 | Algorithm::Opr8rV1 | Algorithm::Sha256Jcs) => {
                self.hash(algorithm, &self.spec.kind, text)
            }
        };
        match actual {
            Err(reason) => HashBaseline::Unusable(reason),
            Ok(actual) if actual == recorded.digest => HashBaseline::Match(actual),
            Ok(actual) => self.hash_mismatch(raw, text, recorded, actual, replicas),
        }
    }

    fn hash_mismatch(
        &self,
        raw: &RawObject<'_>,
        text: &str,
        recorded: RecordedHash,
        actual: Digest,
        replicas: Option<i32>,
    ) -> HashBaseline {
        let managed_fields = raw.metadata.managed_fields;
        let managed_fields = managed_fields.and_then(|fields| serde_json::from_str(fields.get()).ok());
        let managed_fields: Vec<Node> = managed_fields.unwrap_or_default();
        if self.matches_in_recorded_version(text, &recorded, &managed_fields) {
            return HashBaseline::Match(recorded.digest);
        }
        let RecordedHash { algorithm, digest: expected } = recorded;
        let covers_key =
            |key: &str| algorithm == Algorithm::JcsV1 && is_declared_key(key, &self.config.annotation_prefix);
        let HashManagers { owner, mut recorded_by } =
            hash_managers(&managed_fields, &self.hash_annotation, &covers_key);
        if replicas == Some(0) && replicas_are_unowned(&managed_fields) {
            recorded_by = None;
        }
        HashBaseline::Mismatch(Box::new(HashMismatch { algorithm, expected, actual, owner, recorded_by }))
    }

    fn hash(&self, algorithm: Algorithm, kind: &Kind, text: &str) -> Result<Digest, UnknownReason> {
        fingerprint(algorithm, kind, text, &self.config.annotation_prefix)
            .map_err(|error| unknown_reason(&error))
    }

    /// Whether the object matches the hash if it is read in the API version in which the hash was recorded. `jcs-v1`
    /// covers the `apiVersion`: a cluster that moves a kind from v1 to v2 has not changed its objects.
    fn matches_in_recorded_version(
        &self,
        text: &str,
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
        self.hash(recorded.algorithm, &Kind { version, ..Kind::clone(kind) }, text) == Ok(recorded.digest)
    }
}

fn attach_unreadable_document(object: &mut LiveObject, applied: Option<&Arc<RedactionPolicy>>) {
    object.document = Some(Box::new(Document::unreadable()));
    let last_applied = applied.and_then(|policy| unreadable_last_applied(&object.key, policy.process_key()));
    object.applied = last_applied.map(Box::new);
}

pub(super) fn unknown_reason(error: &FingerprintError) -> UnknownReason {
    match error {
        FingerprintError::Invalid { .. } | FingerprintError::Quantity(_) => UnknownReason::Unreadable,
        FingerprintError::NoDefinition { .. } | FingerprintError::Ambiguous { .. } => {
            UnknownReason::Unhashable
        }
    }
}

/// An object with its large parts unparsed.
#[derive(Deserialize)]
struct RawObject<'a> {
    #[serde(borrow)]
    metadata: RawMetadata<'a>,
    spec: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(default)]
    namespace: Text<'a>,
    #[serde(default)]
    uid: Text<'a>,
    #[serde(default)]
    resource_version: Text<'a>,
    generation: Option<i64>,
    deletion_timestamp: Option<&'a RawValue>,
    owner_references: Option<&'a RawValue>,
    labels: Option<&'a RawValue>,
    annotations: Option<&'a RawValue>,
    managed_fields: Option<&'a RawValue>,
}

/// The string under one key of a JSON object. Other values are skipped, not parsed.
fn string_value<'a>(object: &'a RawValue, key: &str) -> Option<Cow<'a, str>> {
    struct FindKey<'k>(&'k str);
    impl<'de> DeserializeSeed<'de> for FindKey<'_> {
        type Value = Option<Text<'de>>;
        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_map(self)
        }
    }
    impl<'de> Visitor<'de> for FindKey<'_> {
        type Value = Option<Text<'de>>;
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a map of strings")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(key) = map.next_key::<Text<'de>>()? {
                if key.0 == self.0 {
                    found = Some(map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    FindKey(key)
        .deserialize(&mut serde_json::Deserializer::from_str(object.get()))
        .ok()
        .flatten()
        .map(|text| text.0)
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
    let parse = |entry| ManagedFieldsEntry::parse(entry, hash_annotation, covers_key);
    let entries: Vec<ManagedFieldsEntry> = managed_fields.iter().map(parse).collect();
    let newest = |matches: &dyn Fn(&ManagedFieldsEntry) -> bool| {
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

struct ManagedFieldsEntry {
    manager: FieldManager,
    owns_content: bool,
    owns_hash: bool,
}

impl ManagedFieldsEntry {
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
        DecodeConfig, Decoded, HashManagers, Kind, Node, ObjectDecoder, WatchSpec, hash_managers,
        replicas_are_unowned,
    };

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
