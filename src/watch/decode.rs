//! From an object's JSON to what we keep of it. Never fails: what cannot be read becomes a verdict.

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::{DecodeConfig, facts, status::ReportReader};
use crate::{
    diff::{
        Algorithm, FingerprintError, LAST_APPLIED, Recorded, SpecView, Text, applied as applied_to,
        applied_unreadably, fingerprint, is_declared_key, keep, tfdrift,
    },
    types::{
        Digest, Document, Facts, FieldManager, HashBaseline, HashMismatch, Kind, LiveObject, ObjectKey,
        Phase, RedactionPolicy, RuleInputs, UnknownReason, WatchSpec,
    },
};

/// Reads the objects of one stream.
#[derive(Clone, Debug)]
pub(super) struct ObjectReader {
    stream: Arc<WatchSpec>,
    prefix: Box<str>,
    hash_annotation: Box<str>,
    ignores_stamps: bool,
    /// The labels to keep, in order, and none of them: what most objects have.
    no_extras: Arc<RuleInputs>,
    /// The annotation in which the object may ask for differences to be ignored.
    mute_annotation: Option<Box<str>>,
    /// What is sealed in objects, where whole ones are kept.
    documents: Option<Arc<RedactionPolicy>>,
    /// The same for objects that say what kubectl applied to them.
    applied: Option<Arc<RedactionPolicy>>,
    /// What is read of the status.
    reports: ReportReader,
}

/// What came of reading an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The object, whose stamp may say that the rest of it is unreadable.
    Object(Arc<LiveObject>),
    /// An object that the stream brings and nobody wants.
    Unwanted(Arc<LiveObject>),
    /// An object that comes through another stream.
    Elsewhere(Arc<LiveObject>),
    /// Not even its name can be read.
    Nameless,
}

impl Read {
    /// The version of the object, where it has one.
    pub(super) fn resource_version(&self) -> Option<&str> {
        let object = match self {
            Self::Object(object) | Self::Unwanted(object) | Self::Elsewhere(object) => object,
            Self::Nameless => return None,
        };
        Some(&*object.resource_version).filter(|version| !version.is_empty())
    }
}

impl ObjectReader {
    /// A reader that takes baselines from `<prefix>/spec-hash`, and keeps of labels what is asked for only.
    pub(super) fn new(stream: Arc<WatchSpec>, reading: &DecodeConfig) -> Self {
        let prefix = &reading.annotation_prefix;
        Self {
            documents: reading.sealing_of(&stream.kind).cloned(),
            stream,
            prefix: prefix.clone(),
            hash_annotation: format!("{prefix}/spec-hash").into(),
            ignores_stamps: reading.ignores_stamps,
            no_extras: Arc::new(RuleInputs {
                label_names: reading.label_names.clone(),
                ..RuleInputs::default()
            }),
            mute_annotation: reading.mutes.then(|| format!("{prefix}/ignore").into()),
            applied: reading.applied.clone(),
            reports: ReportReader::new(reading),
        }
    }

    /// Reads one object.
    pub(super) fn read(&self, json: &[u8]) -> Read {
        let Ok(text) = std::str::from_utf8(json) else {
            return Read::Nameless;
        };
        let wire = serde_json::from_str::<Wire<'_>>(text).ok();
        if let Some(passed_over) = wire.as_ref().and_then(|wire| self.pass_over(wire)) {
            return passed_over;
        }
        let object = wire.and_then(|wire| self.whole(&wire, text));
        match object.or_else(|| self.name_only(text)).map(Arc::new) {
            Some(object) if self.stream.picks(&object.key.namespace, &object.key.name) => {
                Read::Object(object)
            }
            Some(object) => Read::Elsewhere(object),
            None => Read::Nameless,
        }
    }

    /// The name and version of an object that the stream does not keep.
    fn pass_over(&self, wire: &Wire<'_>) -> Option<Read> {
        let metadata = &wire.metadata;
        let named = || {
            let mut object = self.object(&metadata.name.0, &metadata.namespace.0, HashBaseline::Absent);
            object.resource_version = metadata.resource_version.0.as_ref().into();
            Arc::new(object)
        };
        if metadata.name.0.is_empty() {
            return None;
        }
        if !self.stream.picks(&metadata.namespace.0, &metadata.name.0) {
            return Some(Read::Elsewhere(named()));
        }
        if self.stream.kept.is_empty() {
            return None;
        }
        let labels: BTreeMap<String, String> =
            metadata.labels.and_then(|labels| serde_json::from_str(labels.get()).ok()).unwrap_or_default();
        if self.stream.keeps(&metadata.namespace.0, |key| labels.get(key).map(String::as_str)) {
            return None;
        }
        Some(Read::Unwanted(named()))
    }

    fn whole(&self, wire: &Wire<'_>, text: &str) -> Option<LiveObject> {
        let metadata = &wire.metadata;
        if metadata.name.0.is_empty() {
            return None;
        }
        let content = self.content(wire);
        let mut object = self.object(&metadata.name.0, &metadata.namespace.0, HashBaseline::Absent);
        object.uid = metadata.uid.0.as_ref().into();
        object.resource_version = metadata.resource_version.0.as_ref().into();
        object.stamp = self.stamp(wire, text, &content);
        let mut facts = content.facts;
        facts.scales = facts::scaled_by(&object.key, wire.spec);
        facts.owner = facts::owner_of(&object.key, metadata.owner_references);
        if metadata.deletion_timestamp.is_some() {
            facts.phase = Some(Phase::Terminating);
        }
        facts.instance = metadata
            .labels
            .and_then(|labels| pick(labels, "app.kubernetes.io/instance"))
            .map(|name| (*name).into());
        object.facts = match &self.documents {
            Some(sealing) => {
                let ObjectKey { kind, namespace, name } = &object.key;
                facts::without_sealed(facts, &sealing.fields(&kind.version, namespace, name))
            }
            None => facts,
        };
        object.extras = self.extras(metadata);
        self.keep_whole(text, metadata, &mut object);
        object.report = self.reports.read(&self.stream.kind, text, &mut object.facts);
        Some(object)
    }

    /// Keeps the whole object, where fields of it are compared; what may not be told is sealed even here.
    fn keep_whole(&self, text: &str, metadata: &Metadata<'_>, object: &mut LiveObject) {
        let says = |annotations: &&RawValue| pick(annotations, LAST_APPLIED).is_some();
        let applied = self.applied.as_ref().filter(|_| metadata.annotations.as_ref().is_some_and(says));
        let Some(sealing) = self.documents.as_ref().or(applied) else { return };
        let Ok(Value::Object(mut members)) = serde_json::from_str(text) else {
            return keep_unread(object, applied);
        };
        let kind = &self.stream.kind;
        // Objects in lists do not say what they are, and those of watches do.
        members.insert("kind".to_owned(), (*kind.kind).into());
        members.insert("apiVersion".to_owned(), kind.api_version().into());
        let whole = Value::Object(members);
        let own = applied.and_then(|sealing| applied_to(&whole, &object.key, sealing.own_key()));
        object.applied = own.map(Box::new);
        if self.documents.is_some() || object.applied.is_some() {
            object.document = Some(Box::new(keep(whole, kind, sealing)));
        }
    }

    /// What was asked for and is on the object.
    fn extras(&self, metadata: &Metadata<'_>) -> Arc<RuleInputs> {
        let labels = metadata.labels.map(|labels| self.wanted(labels)).unwrap_or_default();
        let mutes = self.mutes(metadata);
        if labels.is_empty() && mutes.is_empty() {
            return self.no_extras.clone();
        }
        Arc::new(RuleInputs { labels, mutes, label_names: self.no_extras.label_names.clone() })
    }

    /// What the object asks to be ignored, where it may.
    fn mutes(&self, metadata: &Metadata<'_>) -> Box<str> {
        let asked = self.mute_annotation.as_ref().zip(metadata.annotations);
        asked
            .and_then(|(name, annotations)| pick(annotations, name))
            .map(|text| (*text).into())
            .unwrap_or_default()
    }

    /// The labels that rules ask for.
    fn wanted(&self, labels: &RawValue) -> Box<[(Box<str>, Box<str>)]> {
        let names = self.no_extras.label_names.iter();
        names.filter_map(|name| Some((name.clone(), pick(labels, name)?.into()))).collect()
    }

    /// The last resort for an object of an unexpected shape: its name, and that it is unreadable.
    fn name_only(&self, text: &str) -> Option<LiveObject> {
        let value: Value = serde_json::from_str(text).ok()?;
        let metadata = &value["metadata"];
        let field = |name: &str| metadata[name].as_str().unwrap_or("");
        let name = metadata["name"].as_str().filter(|name| !name.is_empty())?;
        let stamp = if self.ignores_stamps {
            HashBaseline::Unasked
        } else {
            HashBaseline::Unusable(UnknownReason::Unreadable)
        };
        let mut object = self.object(name, field("namespace"), stamp);
        let applied = self.applied.as_ref().filter(|_| metadata["annotations"].get(LAST_APPLIED).is_some());
        if self.documents.is_some() || applied.is_some() {
            keep_unread(&mut object, applied);
        }
        object.report = self.reports.read(&self.stream.kind, text, &mut object.facts);
        object.uid = field("uid").into();
        object.resource_version = field("resourceVersion").into();
        Some(object)
    }

    fn object(&self, name: &str, namespace: &str, stamp: HashBaseline) -> LiveObject {
        let key =
            ObjectKey { kind: self.stream.kind.clone(), namespace: namespace.into(), name: name.into() };
        LiveObject { exists: true, extras: self.no_extras.clone(), stamp, ..LiveObject::absent(key) }
    }

    /// Facts and `tfdrift-v1` hash come from one pass over the spec.
    fn content(&self, wire: &Wire<'_>) -> Content {
        let spec = wire.spec.map_or("{}", RawValue::get);
        let parts =
            facts::Parts { spec: wire.spec, status: wire.status, generation: wire.metadata.generation };
        let Ok(mut view) = SpecView::read(&self.stream.kind, spec) else {
            return Content { facts: Facts::default(), digest: Err(UnknownReason::Unreadable) };
        };
        let facts = facts::facts(&self.stream.kind, &view, parts);
        let digest = tfdrift(&mut view).map(|digest| digest.map_err(|error| reason(&error)));
        Content { facts, digest: digest.unwrap_or(Err(UnknownReason::Unhashable)) }
    }

    fn stamp(&self, wire: &Wire<'_>, text: &str, content: &Content) -> HashBaseline {
        if self.ignores_stamps {
            return HashBaseline::Unasked;
        }
        let tfdrift = content.digest;
        let recorded =
            wire.metadata.annotations.and_then(|annotations| pick(annotations, &self.hash_annotation));
        let recorded = match recorded.as_deref() {
            None | Some("") => {
                let unreadable = tfdrift == Err(UnknownReason::Unreadable);
                return if unreadable {
                    HashBaseline::Unusable(UnknownReason::Unreadable)
                } else {
                    HashBaseline::Absent
                };
            }
            Some(recorded) => recorded,
        };
        let recorded = match Recorded::parse(recorded) {
            Ok(recorded) => recorded,
            Err(reason) => return HashBaseline::Unusable(reason),
        };
        let actual = match recorded.algorithm {
            Algorithm::TfdriftV1 => tfdrift,
            whole @ (Algorithm::JcsV1 | Algorithm::Opr8rV1 | Algorithm::Sha256Jcs) => {
                self.hash(whole, &self.stream.kind, text)
            }
        };
        let managed_fields = wire.metadata.managed_fields.map(RawValue::get);
        match actual {
            Err(reason) => HashBaseline::Unusable(reason),
            Ok(actual) if actual == recorded.digest => HashBaseline::Match(actual),
            Ok(_) if self.was_stamped_in_another_version(text, &recorded, managed_fields) => {
                HashBaseline::Match(recorded.digest)
            }
            Ok(actual) => {
                let suspects = managed_fields.map(|fields| self.suspects(fields, recorded.algorithm));
                let Suspects { writer, mut recorder } = suspects.unwrap_or_default();
                if content.facts.replicas == Some(0) && managed_fields.is_some_and(replicas_are_nobodys) {
                    recorder = None;
                }
                let Recorded { algorithm, digest: expected } = recorded;
                HashBaseline::Mismatch(Box::new(HashMismatch {
                    algorithm,
                    expected,
                    actual,
                    writer,
                    recorder,
                }))
            }
        }
    }

    fn hash(&self, algorithm: Algorithm, kind: &Kind, text: &str) -> Result<Digest, UnknownReason> {
        fingerprint(algorithm, kind, text, &self.prefix).map_err(|error| reason(&error))
    }

    /// Whether the object has the recorded hash but for the name of the version, which the hash covers: a cluster that
    /// moves a kind from v1 to v2 has not changed its objects.
    fn was_stamped_in_another_version(
        &self,
        text: &str,
        recorded: &Recorded,
        managed_fields: Option<&str>,
    ) -> bool {
        let kind = &self.stream.kind;
        let stamped = managed_fields.and_then(|fields| stamped_version(fields, &self.hash_annotation));
        let Some(stamped) =
            stamped.filter(|own| recorded.algorithm == Algorithm::JcsV1 && *own != kind.api_version())
        else {
            return false;
        };
        let version = stamped.rsplit('/').next().unwrap_or_default().into();
        self.hash(recorded.algorithm, &Kind { version, ..Kind::clone(kind) }, text) == Ok(recorded.digest)
    }

    /// Who may have changed what this algorithm covers.
    fn suspects(&self, managed_fields: &str, algorithm: Algorithm) -> Suspects {
        let covers_key = |key: &str| algorithm == Algorithm::JcsV1 && is_declared_key(key, &self.prefix);
        suspects(managed_fields, &self.hash_annotation, &covers_key)
    }
}

/// Keeps that the object cannot be compared, and that something was applied to it, where it was.
fn keep_unread(object: &mut LiveObject, applied: Option<&Arc<RedactionPolicy>>) {
    object.document = Some(Box::new(Document::unreadable()));
    let own = applied.and_then(|sealing| applied_unreadably(&object.key, sealing.own_key()));
    object.applied = own.map(Box::new);
}

/// What one pass over the spec gives.
struct Content {
    facts: Facts,
    digest: Result<Digest, UnknownReason>,
}

/// Why an object has no hash.
pub(super) fn reason(error: &FingerprintError) -> UnknownReason {
    match error {
        FingerprintError::Shape { .. } | FingerprintError::Quantity(_) => UnknownReason::Unreadable,
        FingerprintError::NoDefinition { .. } | FingerprintError::Ambiguous { .. } => {
            UnknownReason::Unhashable
        }
    }
}

/// An object with its large parts unparsed.
#[derive(Deserialize)]
pub(super) struct Wire<'a> {
    #[serde(borrow)]
    pub(super) metadata: Metadata<'a>,
    #[serde(borrow)]
    pub(super) spec: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) namespace: Text<'a>,
    #[serde(borrow, default)]
    pub(super) uid: Text<'a>,
    #[serde(borrow, default)]
    pub(super) resource_version: Text<'a>,
    pub(super) generation: Option<i64>,
    #[serde(borrow)]
    pub(super) deletion_timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) owner_references: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) labels: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) managed_fields: Option<&'a RawValue>,
}

/// The value under one key of a JSON object, without reading the others.
pub(super) fn pick<'a>(object: &'a RawValue, key: &str) -> Option<Cow<'a, str>> {
    struct Pick<'k>(&'k str);
    impl<'de> DeserializeSeed<'de> for Pick<'_> {
        type Value = Option<Text<'de>>;
        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_map(self)
        }
    }
    impl<'de> Visitor<'de> for Pick<'_> {
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
    Pick(key)
        .deserialize(&mut serde_json::Deserializer::from_str(object.get()))
        .ok()
        .flatten()
        .map(|text| text.0)
}

/// Those who may have made an object differ from the hash in `annotation`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Suspects {
    /// Who wrote what is hashed since the hash was recorded.
    pub(super) writer: Option<FieldManager>,
    /// Who recorded the hash.
    pub(super) recorder: Option<FieldManager>,
}

/// Finds the suspects. Ordinarily the writer is the newest owner of content. Writes through `scale` carry no time, though,
/// so a manager without a time is taken to be newer than the hash unless somebody else is known to be.
/// `covers_key` says which labels and annotations belong to what is hashed.
pub(super) fn suspects(
    managed_fields: &str,
    annotation: &str,
    covers_key: &dyn Fn(&str) -> bool,
) -> Suspects {
    let Ok(entries) = serde_json::from_str::<Vec<Value>>(managed_fields) else { return Suspects::default() };
    let entries: Vec<Entry> =
        entries.iter().map(|entry| Entry::read(entry, annotation, covers_key)).collect();
    let newest = |wanted: &dyn Fn(&Entry) -> bool| {
        entries.iter().filter(|entry| wanted(entry)).max_by_key(|entry| entry.writer.time)
    };
    let stamped = newest(&|entry| entry.stamp).and_then(|entry| entry.writer.time);
    let writer = newest(&|entry| entry.content && entry.writer.time > stamped)
        .or_else(|| newest(&|entry| entry.content && entry.writer.time.is_none()));
    let recorder = newest(&|entry| entry.content || entry.stamp);
    Suspects {
        writer: writer.map(|entry| entry.writer.clone()),
        recorder: recorder.map(|entry| entry.writer.clone()),
    }
}

/// Whether nobody owns the replicas. Somebody has then set them to 0 through `scale`, which leaves no name.
pub(super) fn replicas_are_nobodys(managed_fields: &str) -> bool {
    let entries: Vec<Value> = serde_json::from_str(managed_fields).unwrap_or_default();
    let owns_fields = entries
        .iter()
        .any(|entry| entry["fieldsV1"]["f:spec"].as_object().is_some_and(|spec| !spec.is_empty()));
    owns_fields && entries.iter().all(|entry| entry["fieldsV1"]["f:spec"]["f:replicas"].is_null())
}

/// The API version in which the hash in `annotation` was written, such as `apps/v1`.
pub(super) fn stamped_version(managed_fields: &str, annotation: &str) -> Option<String> {
    let entries: Vec<Value> = serde_json::from_str(managed_fields).ok()?;
    let key = format!("f:{annotation}");
    let stamp =
        entries.iter().find(|entry| !entry["fieldsV1"]["f:metadata"]["f:annotations"][&key].is_null())?;
    stamp["apiVersion"].as_str().map(str::to_owned)
}

struct Entry {
    writer: FieldManager,
    /// It owns something that is hashed.
    content: bool,
    /// It owns the recorded hash.
    stamp: bool,
}

impl Entry {
    fn read(entry: &Value, annotation: &str, covers_key: &dyn Fn(&str) -> bool) -> Self {
        let text = |name: &str| entry[name].as_str().unwrap_or("");
        let fields = &entry["fieldsV1"];
        let keys =
            |owned: &Value| owned.as_object().map_or_else(Vec::new, |owned| owned.keys().cloned().collect());
        let declared =
            ["f:labels", "f:annotations"].iter().flat_map(|part| keys(&fields["f:metadata"][*part]));
        let owns_declared =
            declared.filter_map(|key| key.strip_prefix("f:").map(str::to_owned)).any(|key| covers_key(&key));
        Self {
            writer: FieldManager {
                manager: text("manager").into(),
                subresource: text("subresource").into(),
                time: text("time").parse::<Timestamp>().ok(),
            },
            content: owns_declared
                || keys(fields).iter().any(|key| !matches!(key.as_str(), "f:metadata" | "f:status" | ".")),
            stamp: !fields["f:metadata"]["f:annotations"][format!("f:{annotation}")].is_null(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::{
        DecodeConfig, Kind, ObjectReader, Read, Suspects, WatchSpec, replicas_are_nobodys, suspects,
    };

    #[test]
    fn only_labels_that_are_asked_for_are_kept() {
        let wanted = ["team".into(), "tier".into()];
        let service = Arc::new(WatchSpec::whole(Arc::new(Kind::service())));
        let reading = DecodeConfig {
            annotation_prefix: "x.example".into(),
            label_names: Arc::new(wanted),
            ..DecodeConfig::default()
        };
        let reader = ObjectReader::new(service, &reading);
        let json =
            br#"{"metadata": {"name": "web", "labels": {"app": "web", "team": "checkout"}}, "spec": {}}"#;
        let Read::Object(object) = reader.read(json) else { panic!("it has a name") };
        assert_eq!(*object.extras.labels, [("team".into(), "checkout".into())]);
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

    fn stamp() -> Value {
        json!({"f:metadata": {"f:annotations": {"f:tfdrift.jin.dev/spec-hash": {}}}})
    }

    fn asked(entries: &[Value], covers_key: &dyn Fn(&str) -> bool) -> Suspects {
        suspects(&Value::from(entries).to_string(), HASH, covers_key)
    }

    #[track_caller]
    fn check(entries: &[Value], manager: &str, day: Option<i8>) {
        let writer = asked(entries, &|_| false).writer.unwrap();
        let written = writer.time.map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).day());
        assert_eq!((&*writer.manager, written), (manager, day));
    }

    #[test]
    fn the_newest_owner_of_content_is_the_writer() {
        let status = json!({"f:status": {}});
        check(
            &[
                entry("HashiCorp", 1, &spec()),
                entry("kubectl-annotate", 2, &stamp()),
                entry("kubectl-edit", 3, &spec()),
                entry("kubectl-label", 4, &json!({"f:metadata": {}})),
                entry("kube-controller-manager", 5, &status),
            ],
            "kubectl-edit",
            Some(3),
        );
    }

    #[test]
    fn a_scale_without_a_time_is_newer_than_the_stamp_unless_another_is() {
        let created =
            [entry("HashiCorp", 1, &spec()), entry("kubectl-annotate", 2, &stamp()), scaled("kubectl")];
        check(&created, "kubectl", None);
        let edited: Vec<Value> = created.iter().cloned().chain([entry("kubectl-edit", 3, &spec())]).collect();
        check(&edited, "kubectl-edit", Some(3));
    }

    #[test]
    fn where_nobody_wrote_content_since_only_the_recorder_is_known() {
        let found =
            asked(&[entry("HashiCorp", 1, &spec()), entry("kubectl-annotate", 2, &stamp())], &|_| false);
        assert_eq!(found.writer, None);
        assert_eq!(&*found.recorder.unwrap().manager, "kubectl-annotate");
    }

    #[test]
    fn replicas_that_others_fields_leave_out_are_nobodys() {
        let others = json!({"f:spec": {"f:selector": {}}});
        for (entries, nobodys) in [
            (vec![entry("HashiCorp", 1, &others), entry("kubectl-annotate", 2, &stamp())], true),
            (vec![entry("HashiCorp", 1, &spec())], false),
            (vec![entry("HashiCorp", 1, &others), scaled("kubectl")], false),
            // Nothing is known about who owns what.
            (vec![entry("HashiCorp", 1, &json!({"f:spec": {}}))], false),
            (vec![], false),
        ] {
            assert_eq!(
                replicas_are_nobodys(&Value::from(entries.clone()).to_string()),
                nobodys,
                "{entries:?}"
            );
        }
    }

    #[test]
    fn who_set_a_label_is_the_writer_where_labels_are_hashed() {
        let labelled = json!({"f:metadata": {"f:labels": {"f:team": {}, "f:a.kubernetes.io/b": {}}}});
        let entries = [
            entry("HashiCorp", 1, &spec()),
            entry("kubectl-annotate", 2, &stamp()),
            entry("kubectl-label", 3, &labelled),
        ];
        assert_eq!(&*asked(&entries, &|key| key == "team").writer.unwrap().manager, "kubectl-label");
        assert_eq!(asked(&entries, &|_| false).writer, None);
    }

    #[test]
    fn nobody_is_the_writer_of_what_nobody_owns() {
        for entries in ["[]", "null", "not json", r#"[{"manager":"a","fieldsV1":null}]"#, "[1, null, []]"] {
            assert_eq!(suspects(entries, HASH, &|_| true), Suspects::default(), "{entries}");
        }
    }
}
