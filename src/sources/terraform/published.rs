//! Baselines that `drift-exporter baseline` makes of states that are kept elsewhere.
//!
//! A document of our own, packed by gzip and cut into pieces that fit into Secrets. It has the key of its digests in it: whoever may
//! read the Secrets can try values against them, and nobody else.

use std::{
    fmt,
    io::{self, Write as _},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::TerraformState;
use crate::{
    diff::{is_sealed, pack, seal, unpack},
    sources::scopes::is_built_in,
    types::{
        BaselineFault, DeclaredBody, DeclaredObject, ObjectName, RedactionKey, SkipReason, Skipped,
        UnknownReason,
    },
};

/// The most that one Secret holds, before it is written as base64.
///
/// `kubectl apply` writes all of an object into an annotation once more, and annotations may have 256 KiB.
pub const PART_LIMIT: usize = 180 << 10;

/// The version of the document that this program writes, and the only one that it reads.
const VERSION: u64 = 1;

/// A state that was published.
#[derive(Clone, PartialEq)]
pub struct Published {
    /// What it is called.
    pub name: Box<str>,
    /// When it was published.
    pub published: Timestamp,
    /// The key of its digests.
    pub key: RedactionKey,
    /// What it declares.
    pub state: TerraformState,
}

impl Published {
    /// A state, with digests also of what people put secrets into by mistake.
    pub fn new(name: &str, published: Timestamp, key: RedactionKey, mut state: TerraformState) -> Self {
        for object in &mut state.objects {
            let object = Arc::make_mut(object);
            if let Some(packed) = object.body.packed_mut() {
                let mut document = unpack(packed);
                seal_private(&key, &object.object, &mut document);
                *packed = pack(&document);
            }
        }
        Self { name: name.into(), published, key, state }
    }

    /// The pieces that are to stand in Secrets, in order; at least one.
    pub fn write(&self) -> Vec<Vec<u8>> {
        let text = serde_json::to_vec(&Document::of(self)).unwrap_or_default();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        // Writing to memory does not fail.
        let _ = encoder.write_all(&text);
        let packed = encoder.finish().unwrap_or_default();
        packed.chunks(PART_LIMIT).map(<[u8]>::to_vec).collect()
    }

    /// Reads what was in the Secrets, joined and inflated.
    pub fn read(text: &[u8]) -> Result<Self, BaselineFault> {
        let head: Head = serde_json::from_slice(text).map_err(|error| fault_of(&error))?;
        if head.drift_baseline != VERSION {
            return Err(BaselineFault::UnsupportedVersion);
        }
        let document: Document = serde_json::from_slice(text).map_err(|error| fault_of(&error))?;
        document.read().ok_or(BaselineFault::Unreadable)
    }
}

/// Tells what it is and nothing that it declares.
impl fmt::Debug for Published {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Published");
        debug.field("name", &self.name).field("published", &self.published).finish_non_exhaustive()
    }
}

fn fault_of(error: &serde_json::Error) -> BaselineFault {
    if error.is_eof() { BaselineFault::Truncated } else { BaselineFault::Unreadable }
}

#[derive(Deserialize)]
struct Head {
    drift_baseline: u64,
}

#[derive(Deserialize, Serialize)]
struct Document {
    drift_baseline: u64,
    name: Box<str>,
    serial: u64,
    lineage: Box<str>,
    terraform_version: Box<str>,
    published: Timestamp,
    /// Base64.
    key: String,
    objects: Vec<Entry>,
    skipped: Vec<Left>,
}

#[derive(Deserialize, Serialize)]
struct Entry {
    address: Box<str>,
    resource_type: Box<str>,
    group: Box<str>,
    version: Box<str>,
    kind: Box<str>,
    namespace: Box<str>,
    name: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    uid: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sensitive: Vec<Box<str>>,
    body: Body,
}

/// What is declared, in the form in which it is compared; or why it cannot be.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Body {
    Attributes(Value),
    Whole(Value),
    Subset(Value),
    Parts(Value),
    Opaque(String),
}

#[derive(Deserialize, Serialize)]
struct Left {
    address: Box<str>,
    resource_type: Box<str>,
    reason: String,
}

impl Document {
    fn of(published: &Published) -> Self {
        let Published { name, published, key, state } = published;
        let left = |skipped: &Skipped| Left {
            address: skipped.address.clone(),
            resource_type: skipped.resource_type.clone(),
            reason: skipped.reason.as_str().to_owned(),
        };
        Self {
            drift_baseline: VERSION,
            name: name.clone(),
            serial: state.serial,
            lineage: state.lineage.clone(),
            terraform_version: state.terraform_version.clone(),
            published: *published,
            key: STANDARD.encode(key.bytes()),
            objects: state.objects.iter().map(|object| Entry::of(object)).collect(),
            skipped: state.skipped.iter().map(left).collect(),
        }
    }

    fn read(self) -> Option<Published> {
        let key = RedactionKey::new(STANDARD.decode(&self.key).ok()?.try_into().ok()?);
        let objects = self.objects.into_iter().map(|entry| Arc::new(entry.read(&key))).collect();
        let skipped = self.skipped.into_iter().map(|left| Skipped {
            address: left.address,
            resource_type: left.resource_type,
            reason: SkipReason::parse(&left.reason).unwrap_or(SkipReason::Unreadable),
        });
        let state = TerraformState {
            serial: self.serial,
            lineage: self.lineage,
            terraform_version: self.terraform_version,
            objects,
            skipped: skipped.collect(),
        };
        Some(Published { name: self.name, published: self.published, key, state })
    }
}

impl Entry {
    fn of(declared: &DeclaredObject) -> Self {
        let ObjectName { group, version, kind, namespace, name } = declared.object.clone();
        let body = match &declared.body {
            DeclaredBody::Attributes(packed) => Body::Attributes(unpack(packed)),
            DeclaredBody::Whole(packed) => Body::Whole(unpack(packed)),
            DeclaredBody::Subset(packed) => Body::Subset(unpack(packed)),
            DeclaredBody::Parts(packed) => Body::Parts(unpack(packed)),
            DeclaredBody::Opaque(reason) => Body::Opaque(reason.as_str().to_owned()),
        };
        Self {
            address: declared.address.clone(),
            resource_type: declared.resource_type.clone(),
            group,
            version,
            kind,
            namespace,
            name,
            uid: declared.uid.clone(),
            sensitive: declared.sensitive.clone(),
            body,
        }
    }

    fn read(self, key: &RedactionKey) -> DeclaredObject {
        let Self { address, resource_type, group, version, kind, namespace, name, uid, sensitive, body } =
            self;
        let body = match body {
            Body::Attributes(document) => DeclaredBody::Attributes(pack(&document)),
            Body::Whole(document) => DeclaredBody::Whole(pack(&document)),
            Body::Subset(document) => DeclaredBody::Subset(pack(&document)),
            Body::Parts(document) => DeclaredBody::Parts(pack(&document)),
            Body::Opaque(reason) => DeclaredBody::Opaque(
                UnknownReason::parse(&reason).unwrap_or(UnknownReason::UnreadableBaseline),
            ),
        };
        let object = ObjectName { group, version, kind, namespace, name };
        DeclaredObject { address, resource_type, object, uid, sensitive, key: key.clone(), body }
    }
}

/// Attributes and fields all of whose texts are sealed, wherever they stand.
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

/// Lists of names and values, whose values are sealed.
const VARIABLES: &[&str] = &["env", "http_header", "httpHeaders"];

/// Seals what is declared for an object in environment variables, annotations, data, arguments, and anywhere in custom
/// resources.
pub(super) fn seal_private(key: &RedactionKey, object: &ObjectName, body: &mut Value) {
    let is_custom = !is_built_in(&object.group);
    let Value::Object(members) = body else { return };
    for (name, member) in members {
        match name.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => walk(key, member),
            name if PRIVATE.contains(&name) => seal_texts(key, member),
            _ if is_custom => seal_custom(key, member),
            name if VARIABLES.contains(&name) => seal_values(key, member),
            _ => walk(key, member),
        }
    }
}

fn walk(key: &RedactionKey, value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| walk(key, element)),
        Value::Object(members) => {
            for (name, member) in members {
                match name.as_str() {
                    name if VARIABLES.contains(&name) => seal_values(key, member),
                    name if PRIVATE.contains(&name) => seal_texts(key, member),
                    _ => walk(key, member),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Seals the values of environment variables, not their names.
fn seal_values(key: &RedactionKey, variables: &mut Value) {
    for variable in variables.as_array_mut().into_iter().flatten() {
        if let Some(value) = variable.get_mut("value") {
            seal_texts(key, value);
        }
    }
}

/// Seals all texts but names, by which elements of lists are known, and what we wrote down ourselves.
fn seal_custom(key: &RedactionKey, value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| seal_custom(key, element)),
        Value::Object(members) => {
            let others = members.iter_mut().filter(|(name, _)| *name != "name" && !name.starts_with('('));
            others.for_each(|(_, member)| seal_custom(key, member));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => seal_texts(key, value),
    }
}

fn seal_texts(key: &RedactionKey, value: &mut Value) {
    match value {
        Value::Array(elements) => elements.iter_mut().for_each(|element| seal_texts(key, element)),
        Value::Object(members) => members.values_mut().for_each(|member| seal_texts(key, member)),
        Value::String(text) if !text.is_empty() && !is_sealed(text) => *text = seal(key, text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A new key from the system's source of random bytes.
pub fn random_key() -> io::Result<RedactionKey> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(RedactionKey::new(bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::seal_private;
    use crate::types::{ObjectName, RedactionKey};

    fn sealed(group: &str, mut body: Value) -> String {
        let object = ObjectName {
            group: group.into(),
            version: "v1".into(),
            kind: "Any".into(),
            namespace: "shop".into(),
            name: "a".into(),
        };
        seal_private(&RedactionKey::new([1; 32]), &object, &mut body);
        body.to_string()
    }

    #[test]
    fn what_people_put_secrets_into_is_sealed_and_what_they_look_for_is_not() {
        let container = json!({"name": "web", "image": "nginx", "env": [{"name": "TOKEN", "value": "hunter2"}], "args": ["hunter2"],
            "liveness_probe": [{"exec": [{"command": ["hunter2"]}]}]});
        let metadata = json!([{"name": "a", "labels": {"team": "x"}, "annotations": {"note": "hunter2"}}]);
        let text = sealed(
            "apps",
            json!({"metadata": metadata, "spec": [{"replicas": "3", "container": [container]}]}),
        );
        assert!(!text.contains("hunter2"), "{text}");
        for plain in ["\"nginx\"", "\"TOKEN\"", "\"3\"", "{\"team\":\"x\"}"] {
            assert!(text.contains(plain), "{plain} in {text}");
        }
    }

    #[test]
    fn of_custom_resources_every_text_is_sealed() {
        let text = sealed(
            "example.com",
            json!({"kind": "Any", "metadata": {"name": "a"}, "spec": {"teeth": 12, "users": [{"token": "hunter2"}]}}),
        );
        assert!(!text.contains("hunter2") && text.contains("12") && text.contains("\"Any\""), "{text}");
    }
}
