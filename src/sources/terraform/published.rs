//! Baselines that `drift-exporter baseline` publishes from states outside of the cluster.
//!
//! The format is gzipped JSON, split into chunks that fit into Secrets. It contains the key of its digests, so that only clients
//! with permission to read the Secrets can test values against them.

use std::{
    fmt,
    io::{self, Write as _},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::state::TerraformState;
use crate::{
    diff::{is_redacted, pack, redact, unpack},
    sources::{inflate::json_fault, scopes::is_built_in},
    types::{
        BaselineFault, DeclaredBody, DeclaredObject, ObjectRef, PackedJson, RedactionKey, SkippedResource,
        UnknownReason,
    },
};

/// The size of a chunk before base64.
///
/// `kubectl apply` stores a copy of the object in an annotation, and annotations are limited to 256 KiB.
pub const PART_LIMIT: usize = 180 << 10;

const FORMAT_VERSION: u64 = 1;

#[derive(Clone, PartialEq)]
pub struct PublishedBaseline {
    pub name: Box<str>,
    pub published: Timestamp,
    /// The key of its digests.
    pub key: RedactionKey,
    pub state: TerraformState,
}

impl PublishedBaseline {
    /// Also redacts fields that often contain secrets without a mark.
    pub fn new(name: &str, published: Timestamp, key: RedactionKey, mut state: TerraformState) -> Self {
        for object in &mut state.objects {
            let object = Arc::make_mut(object);
            if let Some(packed) = object.body.packed_mut() {
                let mut document = unpack(packed);
                redact_private(&key, &object.object, &mut document);
                *packed = pack(&document);
            }
        }
        Self { name: name.into(), published, key, state }
    }

    /// The chunks in order; at least one.
    pub fn write(&self) -> Vec<Vec<u8>> {
        let text = serde_json::to_vec(&StoredBaseline::new(self)).unwrap_or_default();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        // Writes to memory do not fail.
        let _ = encoder.write_all(&text);
        let compressed = encoder.finish().unwrap_or_default();
        compressed.chunks(PART_LIMIT).map(<[u8]>::to_vec).collect()
    }

    /// Decodes joined and inflated chunks.
    pub fn read(text: &[u8]) -> Result<Self, BaselineFault> {
        let header: StoredHeader = serde_json::from_slice(text).map_err(|error| json_fault(&error))?;
        if header.drift_baseline != FORMAT_VERSION {
            return Err(BaselineFault::UnsupportedVersion);
        }
        let stored: StoredBaseline = serde_json::from_slice(text).map_err(|error| json_fault(&error))?;
        stored.decode().ok_or(BaselineFault::Unreadable)
    }
}

/// Omits the key and the declared values.
impl fmt::Debug for PublishedBaseline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("PublishedBaseline");
        debug.field("name", &self.name).field("published", &self.published).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct StoredHeader {
    drift_baseline: u64,
}

#[derive(Deserialize, Serialize)]
struct StoredBaseline {
    drift_baseline: u64,
    name: Box<str>,
    serial: u64,
    lineage: Box<str>,
    terraform_version: Box<str>,
    published: Timestamp,
    /// Base64.
    key: String,
    objects: Vec<StoredObject>,
    skipped: Vec<SkippedResource>,
}

#[derive(Deserialize, Serialize)]
struct StoredObject {
    address: Box<str>,
    resource_type: Box<str>,
    #[serde(flatten)]
    object: ObjectRef,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sensitive: Vec<Box<str>>,
    #[serde(with = "StoredBody")]
    body: DeclaredBody,
}

#[derive(Deserialize, Serialize)]
#[serde(remote = "DeclaredBody", rename_all = "snake_case")]
enum StoredBody {
    Attributes(#[serde(with = "plain_json")] PackedJson),
    Whole(#[serde(with = "plain_json")] PackedJson),
    Subset(#[serde(with = "plain_json")] PackedJson),
    Parts(#[serde(with = "plain_json")] PackedJson),
    /// A newer exporter may have written a reason that this one does not know.
    Opaque(#[serde(deserialize_with = "reason_or_unreadable")] UnknownReason),
}

mod plain_json {
    use super::{Deserialize, Deserializer, PackedJson, Serialize, Serializer, Value, pack, unpack};

    pub(super) fn serialize<S: Serializer>(packed: &PackedJson, serializer: S) -> Result<S::Ok, S::Error> {
        unpack(packed).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PackedJson, D::Error> {
        Value::deserialize(deserializer).map(|document| pack(&document))
    }
}

fn reason_or_unreadable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<UnknownReason, D::Error> {
    let reason = String::deserialize(deserializer)?;
    Ok(UnknownReason::parse(&reason).unwrap_or(UnknownReason::UnreadableBaseline))
}

impl StoredBaseline {
    fn new(published: &PublishedBaseline) -> Self {
        let PublishedBaseline { name, published, key, state } = published;
        Self {
            drift_baseline: FORMAT_VERSION,
            name: name.clone(),
            serial: state.serial,
            lineage: state.lineage.clone(),
            terraform_version: state.terraform_version.clone(),
            published: *published,
            key: STANDARD.encode(key.bytes()),
            objects: state.objects.iter().map(|object| StoredObject::new(object)).collect(),
            skipped: state.skipped.clone(),
        }
    }

    fn decode(self) -> Option<PublishedBaseline> {
        let key = RedactionKey::new(STANDARD.decode(&self.key).ok()?.try_into().ok()?);
        let objects = self.objects.into_iter().map(|object| Arc::new(object.decode(&key))).collect();
        let state = TerraformState {
            serial: self.serial,
            lineage: self.lineage,
            terraform_version: self.terraform_version,
            objects,
            skipped: self.skipped,
        };
        Some(PublishedBaseline { name: self.name, published: self.published, key, state })
    }
}

impl StoredObject {
    fn new(declared: &DeclaredObject) -> Self {
        let DeclaredObject { address, resource_type, object, uid, sensitive, body, .. } = declared.clone();
        Self { address, resource_type, object, uid, sensitive, body }
    }

    fn decode(self, key: &RedactionKey) -> DeclaredObject {
        let Self { address, resource_type, object, uid, sensitive, body } = self;
        DeclaredObject { address, resource_type, object, uid, sensitive, key: key.clone(), body }
    }
}

/// Attributes and fields of which all strings are redacted, at any depth.
const PRIVATE: &[&str] = &[
    "annotations",
    "template_annotations",
    "data",
    "binary_data",
    "binaryData",
    "args",
    "command",
    "parameters",
    "volume_attributes",
    "volumeAttributes",
];

/// Lists of names and values, of which the values are redacted.
const VARIABLES: &[&str] = &["env", "http_header", "httpHeaders"];

/// Redacts environment variables, annotations, data and arguments, and all strings of custom resources.
fn redact_private(key: &RedactionKey, object: &ObjectRef, body: &mut Value) {
    let is_custom = !is_built_in(&object.group);
    let Value::Object(members) = body else { return };
    for (name, member) in members {
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => redact_members(key, member),
            name if is_custom && !PRIVATE.contains(&name) => redact_custom(key, member),
            name => redact_member(key, name, member),
        }
    }
}

fn redact_member(key: &RedactionKey, name: &str, member: &mut Value) {
    if VARIABLES.contains(&name) {
        redact_values(key, member);
    } else if PRIVATE.contains(&name) {
        redact_strings(key, member);
    } else {
        redact_members(key, member);
    }
}

fn redact_members(key: &RedactionKey, value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| redact_members(key, element)),
        Value::Object(members) => {
            members.iter_mut().for_each(|(name, member)| redact_member(key, name, member));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Redacts the values of environment variables, not their names.
fn redact_values(key: &RedactionKey, variables: &mut Value) {
    for variable in variables.as_array_mut().into_iter().flatten() {
        if let Some(value) = variable.get_mut("value") {
            redact_strings(key, value);
        }
    }
}

/// Redacts all strings but names, which identify list elements, and the records of absent attributes.
fn redact_custom(key: &RedactionKey, value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| redact_custom(key, element)),
        Value::Object(members) => {
            let values = members.iter_mut().filter(|(name, _)| *name != "name" && !name.starts_with('('));
            values.for_each(|(_, member)| redact_custom(key, member));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => redact_strings(key, value),
    }
}

fn redact_strings(key: &RedactionKey, value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| redact_strings(key, element)),
        Value::Object(members) => members.values_mut().for_each(|member| redact_strings(key, member)),
        Value::String(text) if !text.is_empty() && !is_redacted(text) => *text = redact(key, text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Generates a key from the random source of the operating system.
pub fn random_key() -> io::Result<RedactionKey> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(RedactionKey::new(bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::redact_private;
    use crate::types::{ObjectRef, RedactionKey};

    fn redacted(group: &str, mut body: Value) -> String {
        let object = ObjectRef::new(group, "v1", "Any", "shop", "a");
        redact_private(&RedactionKey::new([1; 32]), &object, &mut body);
        body.to_string()
    }

    #[test]
    fn likely_secrets_are_redacted_and_other_fields_are_not() {
        let container = json!({"name": "web", "image": "nginx", "env": [{"name": "TOKEN", "value": "hunter2"}], "args": ["hunter2"],
            "liveness_probe": [{"exec": [{"command": ["hunter2"]}]}]});
        let metadata = json!([{"name": "a", "labels": {"team": "x"}, "annotations": {"note": "hunter2"}}]);
        let text = redacted(
            "apps",
            json!({"metadata": metadata, "spec": [{"replicas": "3", "container": [container]}]}),
        );
        assert!(!text.contains("hunter2"), "{text}");
        for plain in ["\"nginx\"", "\"TOKEN\"", "\"3\"", "{\"team\":\"x\"}"] {
            assert!(text.contains(plain), "{plain} in {text}");
        }
    }

    #[test]
    fn all_strings_of_custom_resources_are_redacted() {
        let text = redacted(
            "example.com",
            json!({"kind": "Any", "metadata": {"name": "a"}, "spec": {"teeth": 12, "users": [{"token": "hunter2"}]}}),
        );
        assert!(!text.contains("hunter2") && text.contains("12") && text.contains("\"Any\""), "{text}");
    }
}
