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
    config::BaselineLimits,
    diff::{
        Digests, Node, pack, redact_value,
        terraform::{self, PART_TYPES},
        unpack,
    },
    sources::{
        budget::Budget,
        inflate::{ReadError, json_fault},
        scopes::is_built_in,
    },
    types::{
        BaselineFault, DeclaredBody, DeclaredObject, ObjectRef, PackedJson, RedactionKey, SkippedResource,
        UnknownReason, shorten,
    },
    watch::json_items::{ItemSplitter, ListLayout, Part},
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
                redact_ambiguous(&key, &mut document);
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
    pub fn read(text: &[u8], limits: &BaselineLimits) -> Result<Self, ReadError> {
        check_objects(text, limits)?;
        let header: StoredHeader = serde_json::from_slice(text).map_err(|error| json_fault(&error))?;
        if header.drift_baseline != FORMAT_VERSION {
            return Err(BaselineFault::UnsupportedVersion.into());
        }
        let stored: StoredBaseline = serde_json::from_slice(text).map_err(|error| json_fault(&error))?;
        if stored.objects.len() + stored.skipped.len() > limits.objects {
            return Err(limits.objects_exceeded().into());
        }
        stored.decode().ok_or(BaselineFault::Unreadable.into())
    }
}

/// Omits the key and the declared values.
impl fmt::Debug for PublishedBaseline {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("PublishedBaseline");
        debug.field("name", &self.name).field("published", &self.published).finish_non_exhaustive()
    }
}

/// Counts the objects and their values before they are decoded.
fn check_objects(text: &[u8], limits: &BaselineLimits) -> Result<(), ReadError> {
    const LAYOUT: ListLayout = ListLayout { list: "objects", members: &["skipped"], max_bytes: usize::MAX };
    let (mut budget, mut result) = (Budget::new(limits), Ok(()));
    let split = ItemSplitter::new(LAYOUT).push(text, |part| {
        let (Part::Item(part) | Part::Member(_, part)) = part;
        // Text that is not UTF-8 is rejected when it is parsed.
        if let (Ok(()), Ok(part)) = (result, str::from_utf8(part)) {
            result = budget.add_object().and_then(|()| budget.add_json(part));
        }
    });
    // Malformed text is rejected when it is parsed.
    let _ = split;
    Ok(result?)
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

/// In the published format, a redacted value is a string: a control character and its digests.
mod plain_json {
    use super::{
        Deserialize, Deserializer, PackedJson, Serialize, Serializer, Value, pack, to_node, to_value, unpack,
    };

    pub(super) fn serialize<S: Serializer>(packed: &PackedJson, serializer: S) -> Result<S::Ok, S::Error> {
        to_value(&unpack(packed)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PackedJson, D::Error> {
        Value::deserialize(deserializer).map(|document| pack(&to_node(document)))
    }
}

const REDACTED: char = '\u{1}';

fn to_value(node: &Node) -> Value {
    node.to_value(&|digests| format!("{REDACTED}{}", digests.to_text()))
}

fn to_node(value: Value) -> Node {
    match value {
        Value::String(text) => match published_digests(&text) {
            Some(digests) => Node::Redacted(digests.into()),
            None => Node::String(text),
        },
        Value::Array(elements) => elements.into_iter().map(to_node).collect(),
        Value::Object(members) => members.into_iter().map(|(name, member)| (name, to_node(member))).collect(),
        scalar => Node::from(scalar),
    }
}

fn published_digests(text: &str) -> Option<Digests> {
    text.strip_prefix(REDACTED).and_then(Digests::parse)
}

/// Redacts plain strings that would be read as redacted values. They still equal the same live string.
fn redact_ambiguous(key: &RedactionKey, value: &mut Node) {
    match value {
        Node::Array(elements) => elements.iter_mut().for_each(|element| redact_ambiguous(key, element)),
        Node::Object(members) => members.values_mut().for_each(|member| redact_ambiguous(key, member)),
        Node::String(text) if published_digests(text).is_some() => {
            redact_value(std::slice::from_ref(key), value);
        }
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) | Node::Redacted(_) => {}
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
        let skipped = self.skipped.into_iter().map(|skipped| SkippedResource {
            address: shorten(&skipped.address).into(),
            resource_type: shorten(&skipped.resource_type).into(),
            ..skipped
        });
        let skipped = skipped.collect();
        let state = TerraformState {
            serial: self.serial,
            lineage: shorten(&self.lineage).into(),
            terraform_version: shorten(&self.terraform_version).into(),
            objects,
            skipped,
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
        // A newer CLI may publish types that this exporter cannot compare.
        let is_supported = match &body {
            DeclaredBody::Attributes(_) => terraform::resource_type(&resource_type).is_some(),
            DeclaredBody::Parts(_) => PART_TYPES.contains(&&*resource_type),
            DeclaredBody::Whole(_) | DeclaredBody::Subset(_) | DeclaredBody::Opaque(_) => true,
        };
        let body = if is_supported { body } else { DeclaredBody::Opaque(UnknownReason::NewerSchema) };
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
fn redact_private(key: &RedactionKey, object: &ObjectRef, body: &mut Node) {
    let is_custom = !is_built_in(&object.group);
    let Node::Object(members) = body else { return };
    for (name, member) in members {
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => redact_members(key, member),
            name if is_custom && !PRIVATE.contains(&name) => redact_custom(key, member),
            name => redact_member(key, name, member),
        }
    }
}

fn redact_member(key: &RedactionKey, name: &str, member: &mut Node) {
    if VARIABLES.contains(&name) {
        redact_values(key, member);
    } else if PRIVATE.contains(&name) {
        redact_strings(key, member);
    } else {
        redact_members(key, member);
    }
}

fn redact_members(key: &RedactionKey, value: &mut Node) {
    match value {
        Node::Array(elements) => elements.iter_mut().for_each(|element| redact_members(key, element)),
        Node::Object(members) => {
            members.iter_mut().for_each(|(name, member)| redact_member(key, name, member));
        }
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) | Node::Redacted(_) => {}
    }
}

/// Redacts the values of environment variables, not their names.
fn redact_values(key: &RedactionKey, variables: &mut Node) {
    for variable in variables.as_array_mut().into_iter().flatten() {
        if let Some(value) = variable.get_mut("value") {
            redact_strings(key, value);
        }
    }
}

/// Redacts all strings but names, which identify list elements, and the records of absent attributes.
fn redact_custom(key: &RedactionKey, value: &mut Node) {
    match value {
        Node::Array(elements) => elements.iter_mut().for_each(|element| redact_custom(key, element)),
        Node::Object(members) => {
            let values = members.iter_mut().filter(|(name, _)| *name != "name" && !name.starts_with('('));
            values.for_each(|(_, member)| redact_custom(key, member));
        }
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) | Node::Redacted(_) => {
            redact_strings(key, value);
        }
    }
}

fn redact_strings(key: &RedactionKey, value: &mut Node) {
    match value {
        Node::Array(elements) => elements.iter_mut().for_each(|element| redact_strings(key, element)),
        Node::Object(members) => members.values_mut().for_each(|member| redact_strings(key, member)),
        Node::String(_) => redact_value(std::slice::from_ref(key), value),
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::Redacted(_) => {}
    }
}

/// Generates the bytes of a key from the random source of the operating system.
pub fn random_key() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Digests, Node, redact_ambiguous, redact_private, to_node, to_value};
    use crate::types::{ObjectRef, RedactionKey};

    fn redacted(group: &str, body: Value) -> String {
        let mut body = Node::from(body);
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
    /// An exporter before this one wrote the same texts.
    #[test]
    fn published_text_of_a_redacted_value_is_read_and_no_plain_string_is() {
        let key = RedactionKey::new([1; 32]);
        let amount = key.digest(b"\x01250000000");
        let text = format!("\u{1}{}\u{1}{amount}", key.digest(b"250m"));
        let redacted = Node::Redacted(Digests::of_text(std::slice::from_ref(&key), "250m").into());
        assert_eq!((to_node(json!([text])), to_value(&redacted)), (Node::Array(vec![redacted]), json!(text)));
        let mut forged = Node::from(json!({"a": text, "b": "\u{1}left", "c": "left"}));
        redact_ambiguous(&key, &mut forged);
        let read = to_node(to_value(&forged));
        assert_eq!(read, forged);
        assert_eq!(read["a"], Node::Redacted(Digests::of_text(std::slice::from_ref(&key), &text).into()));
        assert_eq!((&read["b"], &read["c"]), (&Node::from("\u{1}left"), &Node::from("left")));
    }
}
