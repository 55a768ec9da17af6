//! Baselines that `drift-exporter baseline` makes of states that are kept elsewhere.
//!
//! A document of our own, packed by gzip and cut into pieces that fit into Secrets. It has the key of its digests in it: whoever may
//! read the Secrets can try values against them, and nobody else.

use std::{fmt, io::Write as _, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, write::GzEncoder};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{private::seal_private, state::TerraformState};
use crate::{
    diff::{pack, unpack},
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
