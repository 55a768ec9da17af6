//! Packed documents: live and declared objects as compressed JSON, which are unpacked when they are compared.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::{ownership::FieldOwners, redaction::redact_object, terraform::TERRAFORM_MANAGERS, tree::Node};
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
    Node::unpack(&text).unwrap_or_default()
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
    // The content is that of the plain object, so that a change of the policy is not a change of the object.
    let content = policy.process_key().short_digest(&to_json(&object));
    if let Node::Array(mut managers) = managers
        && let Some(metadata) = object.get_mut("metadata").and_then(Node::as_object_mut)
    {
        managers.retain(|manager| manager["subresource"] != "status");
        metadata.insert("managedFields".to_owned(), Node::Array(managers));
    }
    redact_object(&mut object, kind, policy);
    Document { packed: pack(&object), content }
}

/// Whether the Terraform provider owns a field of the object.
pub fn is_written_by_terraform(document: &Document) -> bool {
    let object = unpack(&document.packed);
    FieldOwners::of(&object).managers().any(|owner| TERRAFORM_MANAGERS.contains(&&*owner.manager))
}

/// The field manager with the oldest entry, at the creation time of the object.
pub fn creator(document: &Document) -> Option<FieldManager> {
    let object = unpack(&document.packed);
    let created = object["metadata"]["creationTimestamp"].as_str()?.parse().ok()?;
    let owners = FieldOwners::of(&object);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{
        DICTIONARY, Node, PackedJson, creator, declared_labels, is_written_by_terraform, pack,
        pack_live_object, unpack,
    };
    use crate::{
        diff::{terraform::redact_field, tree::node},
        types::{
            DeclaredBody, DeclaredObject, Document, Kind, ObjectRef, RedactionKey, RedactionPolicy,
            UnknownReason,
        },
    };

    #[test]
    fn unpack_restores_the_document() {
        let document = node!({"spec": {"replicas": 3, "name": "ä", "none": null, "list": [1.5, true]}});
        assert_eq!(unpack(&pack(&document)), document);
        assert_eq!(pack(&document), pack(&document.clone()));
    }

    #[test]
    fn codec_keeps_nothing_of_the_previous_document() {
        let document = node!({"spec": {"replicas": 3}});
        let packed = pack(&document);
        let other = pack(&node!({"data": "abc".repeat(100_000)}));
        let truncated = PackedJson::new(other.bytes()[..other.bytes().len() / 2].to_vec());
        for previous in [&other, &truncated, &PackedJson::new(vec![255; 99]), &PackedJson::new(Vec::new())] {
            let _ = unpack(previous);
            assert_eq!(unpack(&packed), document);
        }
        assert_eq!(pack(&document), packed);
    }

    #[test]
    fn dictionary_covers_common_fields() {
        let ports = json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]);
        let document = node!({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"ports": ports,
            "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None"}});
        let (text, packed) = (document.to_string().len(), pack(&document).bytes().len());
        assert!(packed * 3 < text, "{packed} of {text}");
        assert!(DICTIONARY.len() < 32 << 10, "the DEFLATE window");
    }

    proptest! {
        #[test]
        fn unpack_restores_documents_of_any_size(text in ".{0,200}", times in 0..400_usize) {
            let document = Node::String(text.repeat(times));
            prop_assert_eq!(unpack(&pack(&document)), document);
        }
    }

    fn pack_deployment(object: Value) -> Document {
        pack_live_object(object, &Kind::deployment(), &RedactionPolicy::new(RedactionKey::new([1; 32])))
    }

    fn object(replicas: i64, status: i64, version: &str) -> Value {
        json!({"metadata": {"name": "web", "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [
            {"manager": "HashiCorp", "time": "2026-01-01T00:00:01Z", "fieldsV1": {}},
            {"manager": "kubectl", "subresource": "scale", "fieldsV1": {}},
            {"manager": "controller", "subresource": "status", "time": version, "fieldsV1": {}}]},
            "spec": {"replicas": replicas}, "status": {"replicas": status}})
    }

    #[test]
    fn status_is_not_packed_and_does_not_change_the_content() {
        assert_eq!(pack_deployment(object(1, 1, "1")), pack_deployment(object(1, 2, "2")));
        assert_ne!(pack_deployment(object(1, 1, "1")).content, pack_deployment(object(2, 1, "1")).content);
    }

    #[test]
    fn creator_is_the_oldest_field_manager() {
        let document = pack_deployment(object(1, 1, "1"));
        assert!(is_written_by_terraform(&document));
        let creator = creator(&document).unwrap();
        assert_eq!(
            (&*creator.manager, creator.time.unwrap().to_string()),
            ("HashiCorp", "2026-01-01T00:00:00Z".into())
        );
    }

    fn declared_object(body: DeclaredBody) -> DeclaredObject {
        let object = ObjectRef::new("", "v1", "ConfigMap", "shop", "a");
        DeclaredObject::new("kubernetes_config_map_v1", object, RedactionKey::new([3; 32]), body)
    }

    #[track_caller]
    fn check(body: DeclaredBody, expected: &[(&str, &str)]) {
        let labels = declared_labels(&declared_object(body));
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(labels, expected);
    }

    #[test]
    fn labels_are_read_from_every_kind_of_body() {
        let labels = json!({"team": "front", "number": 1});
        check(
            DeclaredBody::Attributes(pack(&node!({"metadata": [{"labels": labels}]}))),
            &[("team", "front")],
        );
        for body in [DeclaredBody::Whole, DeclaredBody::Subset] {
            check(body(pack(&node!({"metadata": {"labels": labels}}))), &[("team", "front")]);
        }
        check(DeclaredBody::Parts(pack(&node!({"metadata": {"labels": labels}}))), &[]);
        check(DeclaredBody::Opaque(UnknownReason::Stale), &[]);
    }

    #[test]
    fn redacted_labels_are_left_out() {
        let mut document = node!({"metadata": {"labels": {"team": "front", "tier": "web"}}});
        redact_field(&mut document, "metadata.labels.team", &[RedactionKey::new([3; 32])]);
        check(DeclaredBody::Subset(pack(&document)), &[("tier", "web")]);
    }

    #[test]
    fn malformed_labels_are_left_out() {
        let malformed =
            [json!(null), json!([]), json!("x"), json!({}), json!([{"labels": []}]), json!({"labels": 1})];
        for metadata in malformed {
            let document = node!({"metadata": metadata});
            for body in [DeclaredBody::Attributes, DeclaredBody::Whole, DeclaredBody::Subset] {
                check(body(pack(&document)), &[]);
                check(body(pack(&Node::Null)), &[]);
            }
        }
    }
}
