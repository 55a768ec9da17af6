//! The labels that a baseline declares of an object.

use serde_json::Value;

use super::{packed::unpack, sealed::is_sealed};
use crate::types::{DeclaredBody, DeclaredObject};

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
    use serde_json::{Value, json};

    use super::declared_labels;
    use crate::{
        diff::{pack, seal},
        types::{DeclaredBody, DeclaredObject, ObjectName, RedactionKey, UnknownReason},
    };

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
