//! From an object's JSON to what we keep of it. Never fails: what cannot be read becomes a verdict.

use std::{borrow::Cow, fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use super::{facts, writer::last_writer};
use crate::{
    compare::{Algorithm, FingerprintError, Recorded, SpecView, Text, fingerprint, is_declared_key, tfdrift},
    model::{Digest, Facts, Kind, LiveObject, Mismatch, ObjectKey, Stamp, UnknownReason, Writer},
};

/// Reads the objects of one kind.
#[derive(Clone, Debug)]
pub(super) struct ObjectReader {
    kind: Arc<Kind>,
    prefix: Box<str>,
    hash_annotation: Box<str>,
    /// The labels to keep, in order.
    label_names: Arc<[Box<str>]>,
}

/// What came of reading an object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The object, whose stamp may say that the rest of it is unreadable.
    Object(Box<LiveObject>),
    /// Not even its name can be read.
    Nameless,
}

impl ObjectReader {
    /// A reader that takes baselines from `<prefix>/spec-hash`, and keeps labels of these names only.
    pub(super) fn new(kind: Arc<Kind>, prefix: &str, label_names: Arc<[Box<str>]>) -> Self {
        let hash_annotation = format!("{prefix}/spec-hash").into();
        Self { kind, prefix: prefix.into(), hash_annotation, label_names }
    }

    /// Reads one object.
    pub(super) fn read(&self, json: &[u8]) -> Read {
        let Ok(text) = std::str::from_utf8(json) else {
            return Read::Nameless;
        };
        let object = serde_json::from_str::<Wire<'_>>(text).ok().and_then(|wire| self.whole(&wire, text));
        match object.or_else(|| self.name_only(text)) {
            Some(object) => Read::Object(Box::new(object)),
            None => Read::Nameless,
        }
    }

    fn whole(&self, wire: &Wire<'_>, text: &str) -> Option<LiveObject> {
        let metadata = &wire.metadata;
        if metadata.name.0.is_empty() {
            return None;
        }
        let content = self.content(wire);
        let mut object = self.object(&metadata.name.0, &metadata.namespace.0, Stamp::Absent);
        object.uid = metadata.uid.0.as_ref().into();
        object.resource_version = metadata.resource_version.0.as_ref().into();
        object.stamp = self.stamp(wire, text, content.digest);
        object.facts = content.facts;
        object.facts.instance = metadata
            .labels
            .and_then(|labels| pick(labels, "app.kubernetes.io/instance"))
            .map(|name| (*name).into());
        object.labels = metadata.labels.map(|labels| self.wanted(labels)).unwrap_or_default();
        Some(object)
    }

    /// The labels that rules ask for.
    fn wanted(&self, labels: &RawValue) -> Box<[(Box<str>, Box<str>)]> {
        let names = self.label_names.iter();
        names.filter_map(|name| Some((name.clone(), pick(labels, name)?.into()))).collect()
    }

    /// The last resort for an object of an unexpected shape: its name, and that it is unreadable.
    fn name_only(&self, text: &str) -> Option<LiveObject> {
        let value: Value = serde_json::from_str(text).ok()?;
        let metadata = &value["metadata"];
        let field = |name: &str| metadata[name].as_str().unwrap_or("");
        let name = metadata["name"].as_str().filter(|name| !name.is_empty())?;
        let mut object = self.object(name, field("namespace"), Stamp::Unusable(UnknownReason::Unreadable));
        object.uid = field("uid").into();
        object.resource_version = field("resourceVersion").into();
        Some(object)
    }

    fn object(&self, name: &str, namespace: &str, stamp: Stamp) -> LiveObject {
        let key = ObjectKey { kind: self.kind.clone(), namespace: namespace.into(), name: name.into() };
        LiveObject {
            key,
            uid: Box::default(),
            resource_version: Box::default(),
            labels: Box::default(),
            stamp,
            facts: Facts::default(),
        }
    }

    /// Facts and `tfdrift-v1` hash come from one pass over the spec.
    fn content(&self, wire: &Wire<'_>) -> Content {
        let spec = wire.spec.map_or("{}", RawValue::get);
        let generation = wire.metadata.generation;
        let Ok(mut view) = SpecView::read(&self.kind, spec) else {
            return Content { facts: Facts::default(), digest: Err(UnknownReason::Unreadable) };
        };
        let facts = match &view {
            SpecView::Deployment(view) => facts::of_deployment(view, wire.status, generation),
            SpecView::Service(view) => facts::of_service(view, wire.status),
            SpecView::Other => Facts::default(),
        };
        let digest = tfdrift(&mut view).map(|digest| digest.map_err(|error| reason(&error)));
        Content { facts, digest: digest.unwrap_or(Err(UnknownReason::Unhashable)) }
    }

    fn stamp(&self, wire: &Wire<'_>, text: &str, tfdrift: Result<Digest, UnknownReason>) -> Stamp {
        let recorded =
            wire.metadata.annotations.and_then(|annotations| pick(annotations, &self.hash_annotation));
        let recorded = match recorded.as_deref() {
            None | Some("") => {
                let unreadable = tfdrift == Err(UnknownReason::Unreadable);
                return if unreadable { Stamp::Unusable(UnknownReason::Unreadable) } else { Stamp::Absent };
            }
            Some(recorded) => recorded,
        };
        let recorded = match Recorded::parse(recorded) {
            Ok(recorded) => recorded,
            Err(reason) => return Stamp::Unusable(reason),
        };
        let actual = match recorded.algorithm {
            Algorithm::TfdriftV1 => tfdrift,
            Algorithm::JcsV1 => {
                fingerprint(Algorithm::JcsV1, &self.kind, text, &self.prefix).map_err(|e| reason(&e))
            }
        };
        match actual {
            Err(reason) => Stamp::Unusable(reason),
            Ok(actual) if actual == recorded.digest => Stamp::Match(actual),
            Ok(actual) => Stamp::Mismatch(Box::new(Mismatch {
                expected: recorded.digest,
                actual,
                writer: wire
                    .metadata
                    .managed_fields
                    .and_then(|fields| self.last_writer(fields.get(), recorded.algorithm)),
            })),
        }
    }

    /// Who most likely changed what this algorithm covers.
    fn last_writer(&self, managed_fields: &str, algorithm: Algorithm) -> Option<Writer> {
        let covers_key = |key: &str| algorithm == Algorithm::JcsV1 && is_declared_key(key, &self.prefix);
        last_writer(managed_fields, &self.hash_annotation, &covers_key)
    }
}

/// What one pass over the spec gives.
struct Content {
    facts: Facts,
    digest: Result<Digest, UnknownReason>,
}

fn reason(error: &FingerprintError) -> UnknownReason {
    match error {
        FingerprintError::Shape { .. } | FingerprintError::Quantity(_) => UnknownReason::Unreadable,
        FingerprintError::NoDefinition(_) | FingerprintError::Ambiguous { .. } => UnknownReason::Unhashable,
    }
}

/// An object with its large parts unparsed.
#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow, default)]
    namespace: Text<'a>,
    #[serde(borrow, default)]
    uid: Text<'a>,
    #[serde(borrow, default)]
    resource_version: Text<'a>,
    generation: Option<i64>,
    #[serde(borrow)]
    labels: Option<&'a RawValue>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow)]
    managed_fields: Option<&'a RawValue>,
}

/// The value under one key of a JSON object, without reading the others.
fn pick<'a>(object: &'a RawValue, key: &str) -> Option<Cow<'a, str>> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Kind, ObjectReader, Read};

    #[test]
    fn only_labels_that_are_asked_for_are_kept() {
        let wanted = ["team".into(), "tier".into()];
        let reader = ObjectReader::new(Arc::new(Kind::service()), "tfdrift.jin.dev", Arc::new(wanted));
        let json =
            br#"{"metadata": {"name": "web", "labels": {"app": "web", "team": "checkout"}}, "spec": {}}"#;
        let Read::Object(object) = reader.read(json) else { panic!("it has a name") };
        assert_eq!(*object.labels, [("team".into(), "checkout".into())]);
    }
}
