//! Documents that are kept: packed small, and read again when something has to be compared.
//!
//! Live objects that are kept as documents.
//!
//! The labels that a baseline declares of an object.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use serde_json::Value;

use super::{
    declared::Schemas,
    ownership::Owners,
    redacted_text::is_sealed,
    redaction::{seal_forged, seal_object},
    terraform::{self, Comparison, OWN_MANAGERS},
};
use crate::types::{DeclaredBody, DeclaredObject, Document, FieldManager, Kind, Packed, RedactionPolicy};

/// What objects and states have in common: of it, a document only has to say where it is. What is packed is never written
/// down, so another dictionary harms nothing.
const DICTIONARY: &[u8] = include_bytes!("packed/dictionary");

thread_local! {
    /// What packing and unpacking work with. Nothing of one document gets into the next: they are kept because they are 370 KiB large, which
    /// made anew for each document cost more than packing it, and left holes in memory that nothing else fitted into.
    static TOOLS: RefCell<Tools> = RefCell::new(Tools { packer: new_packer(), unpacker: Decompress::new(false) });
}

struct Tools {
    packer: Compress,
    unpacker: Decompress,
}

/// Packs a document.
pub fn pack(document: &Value) -> Packed {
    let text = document.to_string();
    Packed::new(TOOLS.with_borrow_mut(|tools| tools.pack(text.as_bytes())))
}

/// The document that was packed.
pub fn unpack(packed: &Packed) -> Value {
    let text = TOOLS.with_borrow_mut(|tools| tools.unpack(packed.bytes()));
    serde_json::from_slice(&text).unwrap_or_default()
}

impl Tools {
    fn pack(&mut self, text: &[u8]) -> Vec<u8> {
        let packer = &mut self.packer;
        packer.reset();
        let mut bytes = Vec::with_capacity(text.len() / 4 + 64);
        // Neither fails in memory; what came out wrong would be no document when it is unpacked.
        let _ = packer.set_dictionary(DICTIONARY);
        loop {
            let rest = &text[taken(packer.total_in())..];
            match packer.compress_vec(rest, &mut bytes, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => break,
                Ok(Status::Ok | Status::BufError) => bytes.reserve(bytes.capacity()),
                // One that stopped midway is not sure to begin anew.
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
            unpacker.decompress_vec(&bytes[taken(unpacker.total_in())..], &mut text, FlushDecompress::None)
        {
            text.reserve(text.capacity());
        }
        text
    }
}

fn new_packer() -> Compress {
    Compress::new(Compression::fast(), false)
}

fn taken(total: u64) -> usize {
    usize::try_from(total).unwrap_or(usize::MAX)
}

/// A sign by which digests are told from texts, as JSON writes it.
const FORGED: &str = "\\u0001";

/// What is kept of a live object: all but what nobody declares, with digests in place of what may not be told.
pub fn keep(mut object: Value, kind: &Kind, sealing: &RedactionPolicy) -> Document {
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    let mut managers = Value::Null;
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["resourceVersion", "generation", "selfLink"] {
            metadata.remove(name);
        }
        managers = metadata.remove("managedFields").unwrap_or_default();
    }
    // What is sealed, and with which keys, may change while the object does not: its content is that of the plain object.
    let text = object.to_string();
    let content = sealing.own_key().short_digest(text.as_bytes());
    if text.contains(FORGED) {
        seal_forged(&mut object, sealing.keys());
    }
    if let Some(managers) = managers.as_array_mut() {
        managers.retain(|manager| manager["subresource"] != "status");
        object["metadata"]["managedFields"] = std::mem::take(managers).into();
    }
    seal_object(&mut object, kind, sealing);
    Document { packed: pack(&object), content }
}

/// Compares a kept object with what a state declares for it. `shapes`: what is known about a kind of the cluster's own.
pub fn compare_kept(declared: &DeclaredObject, document: &Document, shapes: &Schemas) -> Comparison {
    terraform::compare(declared, &unpack(&document.packed), shapes)
}

/// Whether Terraform has written to an object.
pub fn is_written_by_terraform(document: &Document) -> bool {
    let object = unpack(&document.packed);
    Owners::of(&object).writers().any(|writer| OWN_MANAGERS.contains(&&*writer.manager))
}

/// Who made an object, and when: of those who own something in it, the first.
pub fn creator(document: &Document) -> Option<FieldManager> {
    let object = unpack(&document.packed);
    let created = object["metadata"]["creationTimestamp"].as_str()?.parse().ok()?;
    let owners = Owners::of(&object);
    let first = owners.writers().filter(|writer| writer.time.is_some()).min_by_key(|writer| writer.time);
    let manager = first.map(|writer| writer.manager.clone()).unwrap_or_default();
    Some(FieldManager { manager, subresource: Box::default(), time: Some(created) })
}

/// The labels that are declared of an object, as far as they may be told. Whoever wrote it down may have left out anything.
pub fn declared_labels(object: &DeclaredObject) -> Box<[(Box<str>, Box<str>)]> {
    let (packed, place) = match &object.body {
        DeclaredBody::Attributes(packed) => (packed, "/metadata/0/labels"),
        DeclaredBody::Whole(packed) | DeclaredBody::Subset(packed) => (packed, "/metadata/labels"),
        DeclaredBody::Parts(_) | DeclaredBody::Opaque(_) => return Box::default(),
    };
    let document = unpack(packed);
    let labels = document.pointer(place).and_then(Value::as_object).into_iter().flatten();
    let told = labels.filter_map(|(name, value)| {
        let value = value.as_str().filter(|value| !is_sealed(value))?;
        Some((name.as_str().into(), value.into()))
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{DICTIONARY, Packed, creator, declared_labels, is_written_by_terraform, pack, unpack};
    use crate::{
        diff::seal,
        types::{
            DeclaredBody, DeclaredObject, Document, Kind, ObjectName, RedactionKey, RedactionPolicy,
            UnknownReason,
        },
    };

    #[test]
    fn what_was_packed_comes_out_again() {
        let document = json!({"spec": {"replicas": 3, "name": "ä", "none": null, "list": [1.5, true]}});
        assert_eq!(unpack(&pack(&document)), document);
        assert_eq!(pack(&document), pack(&document.clone()));
    }

    #[test]
    fn nothing_of_one_document_gets_into_the_next() {
        let document = json!({"spec": {"replicas": 3}});
        let packed = pack(&document);
        let other = pack(&json!({"data": "abc".repeat(100_000)}));
        let torn = Packed::new(other.bytes()[..other.bytes().len() / 2].to_vec());
        for odd in [&other, &torn, &Packed::new(vec![255; 99]), &Packed::new(Vec::new())] {
            let _ = unpack(odd);
            assert_eq!(unpack(&packed), document);
        }
        assert_eq!(pack(&document), packed);
    }

    #[test]
    fn what_objects_have_in_common_takes_no_room() {
        let ports = json!([{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080}]);
        let document = json!({"kind": "Service", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"ports": ports,
        "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None"}});
        let (text, packed) = (document.to_string().len(), pack(&document).bytes().len());
        assert!(packed * 3 < text, "{packed} of {text}");
        assert!(DICTIONARY.len() < 32 << 10, "no packer looks further back");
    }

    proptest! {
        #[test]
        fn large_and_small_texts_come_out_again(text in ".{0,200}", times in 0..400_usize) {
            let document = Value::from(text.repeat(times));
            prop_assert_eq!(unpack(&pack(&document)), document);
        }
    }

    fn keep(object: Value) -> Document {
        super::keep(object, &Kind::deployment(), &RedactionPolicy::new(RedactionKey::new([1; 32])))
    }

    fn object(replicas: i64, status: i64, version: &str) -> Value {
        json!({"metadata": {"name": "web", "resourceVersion": version, "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [
        {"manager": "HashiCorp", "time": "2026-01-01T00:00:01Z", "fieldsV1": {}},
        {"manager": "kubectl", "subresource": "scale", "fieldsV1": {}},
        {"manager": "controller", "subresource": "status", "time": version, "fieldsV1": {}}]},
        "spec": {"replicas": replicas}, "status": {"replicas": status}})
    }

    #[test]
    fn a_status_is_not_kept_and_does_not_count() {
        assert_eq!(keep(object(1, 1, "1")), keep(object(1, 2, "2")));
        assert_ne!(keep(object(1, 1, "1")).content, keep(object(2, 1, "1")).content);
    }

    #[test]
    fn whoever_made_an_object_is_known_by_the_time() {
        let document = keep(object(1, 1, "1"));
        assert!(is_written_by_terraform(&document));
        let writer = creator(&document).unwrap();
        assert_eq!(
            (&*writer.manager, writer.time.unwrap().to_string()),
            ("HashiCorp", "2026-01-01T00:00:00Z".into())
        );
    }

    fn declared(body: DeclaredBody) -> DeclaredObject {
        let object = ObjectName {
            group: "".into(),
            version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: "shop".into(),
            name: "a".into(),
        };
        let (address, resource_type) = ("a".into(), "kubernetes_config_map_v1".into());
        let key = RedactionKey::new([3; 32]);
        DeclaredObject { address, resource_type, object, uid: None, sensitive: Vec::new(), key, body }
    }

    #[track_caller]
    fn check(body: DeclaredBody, wanted: &[(&str, &str)]) {
        let labels = declared_labels(&declared(body));
        let labels: Vec<(&str, &str)> = labels.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(labels, wanted);
    }

    #[test]
    fn labels_are_found_where_each_sort_of_baseline_has_them() {
        let labels = json!({"team": "front", "number": 1});
        check(
            DeclaredBody::Attributes(pack(&json!({"metadata": [{"labels": labels}]}))),
            &[("team", "front")],
        );
        for body in [DeclaredBody::Whole, DeclaredBody::Subset] {
            check(body(pack(&json!({"metadata": {"labels": labels}}))), &[("team", "front")]);
        }
        check(DeclaredBody::Parts(pack(&json!({"metadata": {"labels": labels}}))), &[]);
        check(DeclaredBody::Opaque(UnknownReason::Stale), &[]);
    }

    #[test]
    fn what_may_not_be_told_is_not() {
        let team = seal(&RedactionKey::new([3; 32]), "front");
        let labels = json!({"team": team, "tier": "web"});
        check(DeclaredBody::Subset(pack(&json!({"metadata": {"labels": labels}}))), &[("tier", "web")]);
    }

    #[test]
    fn whatever_is_written_down_is_read_or_left_out() {
        let odd =
            [json!(null), json!([]), json!("x"), json!({}), json!([{"labels": []}]), json!({"labels": 1})];
        for metadata in odd {
            let document = json!({"metadata": metadata});
            for body in [DeclaredBody::Attributes, DeclaredBody::Whole, DeclaredBody::Subset] {
                check(body(pack(&document)), &[]);
                check(body(pack(&Value::Null)), &[]);
            }
        }
    }
}
