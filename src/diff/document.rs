//! Packed documents: live and declared objects as compressed JSON, which are unpacked when they are compared.

use std::cell::{OnceCell, RefCell};

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use zeroize::Zeroize as _;

use super::{
    ownership::FieldOwners,
    redaction::{LAST_APPLIED, is_secret, redact_object},
    terraform::TERRAFORM_MANAGERS,
    tree::{Members, Node},
};
use crate::types::{DeclaredBody, DeclaredObject, Document, FieldManager, Kind, PackedJson, RedactionPolicy};

/// Text that many objects and states contain. Packed documents are never stored, so a new version may change it.
const DICTIONARY: &[u8] = include_bytes!("document/dictionary");

thread_local! {
    /// Reused, because its buffers take 370 KiB: allocating them for each document costs more than the compression, and
    /// fragments the heap.
    static CODEC: RefCell<Codec> = RefCell::new(Codec { packer: new_packer(), unpacker: Decompress::new(false) });
}

struct Codec {
    packer: Compress,
    unpacker: Decompress,
}

pub fn pack(document: &Node) -> PackedJson {
    PackedJson::new(CODEC.with_borrow_mut(|codec| codec.pack(&to_json(document))))
}

/// The packed form before its compression. All names of members are strings, so that it does not fail.
pub(super) fn to_json(document: &Node) -> Vec<u8> {
    serde_json::to_vec(document).unwrap_or_default()
}

pub fn unpack(packed: &PackedJson) -> Node {
    let text = CODEC.with_borrow_mut(|codec| codec.unpack(packed.bytes()));
    #[cfg(test)]
    super::parsed_bytes::add(text.len());
    Node::unpack(&text).unwrap_or_default()
}

/// The content of a live object. It is unpacked when it is first used, for all declarations that it is compared with.
#[derive(Debug)]
pub struct LiveContent<'a> {
    document: &'a Document,
    content: OnceCell<Node>,
}

impl<'a> LiveContent<'a> {
    pub fn new(document: &'a Document) -> Self {
        Self { document, content: OnceCell::new() }
    }

    pub fn document(&self) -> &'a Document {
        self.document
    }

    pub fn get(&self) -> &Node {
        self.content.get_or_init(|| unpack(&self.document.packed))
    }
}

impl Codec {
    fn pack(&mut self, text: &[u8]) -> Vec<u8> {
        let packer = &mut self.packer;
        packer.reset();
        let mut bytes = Vec::with_capacity(text.len() / 4 + 64);
        // Neither call fails in memory; a truncated document would unpack to null.
        let _ = packer.set_dictionary(DICTIONARY);
        loop {
            let rest = &text[to_usize(packer.total_in())..];
            match packer.compress_vec(rest, &mut bytes, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => break,
                Ok(Status::Ok | Status::BufError) => bytes.reserve(bytes.capacity()),
                // After an error, `reset` does not guarantee a usable packer.
                Err(_) => {
                    *packer = new_packer();
                    break;
                }
            }
        }
        bytes.shrink_to_fit();
        bytes
    }

    fn unpack(&mut self, bytes: &[u8]) -> Vec<u8> {
        let unpacker = &mut self.unpacker;
        unpacker.reset(false);
        let _ = unpacker.set_dictionary(DICTIONARY);
        let mut text = Vec::with_capacity(bytes.len() * 4 + 64);
        while let Ok(Status::Ok) =
            unpacker.decompress_vec(&bytes[to_usize(unpacker.total_in())..], &mut text, FlushDecompress::None)
        {
            text.reserve(text.capacity());
        }
        text
    }
}

fn new_packer() -> Compress {
    Compress::new(Compression::fast(), false)
}

fn to_usize(total: u64) -> usize {
    usize::try_from(total).unwrap_or(usize::MAX)
}

/// Packs a live object without its status and other fields that the server writes, and redacts it by policy.
pub fn pack_live_object(object: impl Into<Node>, kind: &Kind, policy: &RedactionPolicy) -> Document {
    let mut object = object.into();
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    let mut managers = Node::Null;
    if let Some(metadata) = object.get_mut("metadata").and_then(Node::as_object_mut) {
        for name in ["resourceVersion", "generation", "selfLink"] {
            metadata.remove(name);
        }
        managers = metadata.remove("managedFields").unwrap_or_default();
    }
    // Both digests are of the plain object, so that a change of the policy is not a change of the object.
    let key = policy.process_key();
    let last_applied = annotations_mut(&mut object).and_then(|annotations| annotations.remove(LAST_APPLIED));
    let mut text = to_json(&object);
    let content_beside_last_applied = key.short_digest(&text);
    if is_secret(kind.group_kind()) {
        text.zeroize();
    }
    let mut content = content_beside_last_applied;
    if let (Some(annotation), Some(annotations)) = (last_applied, annotations_mut(&mut object)) {
        content = key.short_digest(&[&content.to_be_bytes()[..], &to_json(&annotation)].concat());
        annotations.insert(LAST_APPLIED.to_owned(), annotation);
    }
    if let Node::Array(mut managers) = managers
        && let Some(metadata) = object.get_mut("metadata").and_then(Node::as_object_mut)
    {
        managers.retain(|manager| manager["subresource"] != "status");
        metadata.insert("managedFields".to_owned(), Node::Array(managers));
    }
    redact_object(&mut object, kind, policy);
    Document { packed: pack(&object), content, content_beside_last_applied }
}

fn annotations_mut(object: &mut Node) -> Option<&mut Members> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}

/// Whether the Terraform provider owns a field of the object.
pub fn is_written_by_terraform(object: &Node) -> bool {
    FieldOwners::of(object).managers().any(|owner| TERRAFORM_MANAGERS.contains(&&*owner.manager))
}

/// The field manager with the oldest entry, at the creation time of the object.
pub fn creator(object: &Node) -> Option<FieldManager> {
    let created = object["metadata"]["creationTimestamp"].as_str()?.parse().ok()?;
    let owners = FieldOwners::of(object);
    let first = owners.managers().filter(|owner| owner.time.is_some()).min_by_key(|owner| owner.time);
    let manager = first.map_or("", |owner| &*owner.manager);
    Some(FieldManager::new(manager, Some(created)))
}

/// The declared labels of an object that are not redacted. The document may be malformed.
pub fn declared_labels(object: &DeclaredObject) -> Box<[(Box<str>, Box<str>)]> {
    let (packed, pointer) = match &object.body {
        DeclaredBody::Attributes(packed) => (packed, "/metadata/0/labels"),
        DeclaredBody::Whole(packed) | DeclaredBody::Subset(packed) => (packed, "/metadata/labels"),
        DeclaredBody::Parts(_) | DeclaredBody::Opaque(_) => return Box::default(),
    };
    let document = unpack(packed);
    let labels = document.pointer(pointer).and_then(Node::as_object).into_iter().flatten();
    let plain = labels.filter_map(|(name, value)| Some((name.as_str().into(), value.as_str()?.into())));
    plain.collect()
}
