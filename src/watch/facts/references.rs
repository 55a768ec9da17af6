//! Other objects that an object names: whom it scales, who made it.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::wellness::read;
use crate::{
    diff::Text,
    types::{Kind, ObjectKey},
};

/// An object in the same namespace, or without one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    #[serde(borrow, default)]
    api_version: Text<'a>,
    #[serde(borrow)]
    kind: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
    controller: Option<bool>,
}

impl Reference<'_> {
    fn seen_from(&self, object: &ObjectKey) -> ObjectKey {
        let (group, version) = self.api_version.0.split_once('/').unwrap_or(("", &self.api_version.0));
        let kind = Arc::new(Kind::unseen(group, version, &self.kind.0));
        ObjectKey { kind, namespace: object.namespace.clone(), name: self.name.0.as_ref().into() }
    }
}

/// The object whose replicas an autoscaler sets: it is in the same namespace.
pub(in crate::watch) fn scaled_by(autoscaler: &ObjectKey, spec: Option<&RawValue>) -> Option<Box<ObjectKey>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec<'a> {
        #[serde(borrow)]
        scale_target_ref: Reference<'a>,
    }
    if !autoscaler.kind.is_autoscaler() {
        return None;
    }
    Some(Box::new(read::<Spec<'_>>(spec)?.scale_target_ref.seen_from(autoscaler)))
}

/// The object that made another one and looks after it.
pub(in crate::watch) fn owner_of(
    object: &ObjectKey,
    references: Option<&RawValue>,
) -> Option<Box<ObjectKey>> {
    let references = read::<Vec<Reference<'_>>>(references)?;
    let own = references.iter().find(|own| own.controller == Some(true)).or(references.first())?;
    Some(Box::new(own.seen_from(object)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json, value::to_raw_value};

    use super::{Kind, ObjectKey, owner_of, scaled_by};

    #[track_caller]
    fn check_target(kind: Kind, spec: &Value, target: Option<(&str, &str)>) {
        let key = ObjectKey { kind: Arc::new(kind), namespace: "shop".into(), name: "web-scaler".into() };
        let scaled = scaled_by(&key, Some(&to_raw_value(spec).unwrap()));
        let told = scaled.as_ref().map(|own| (&*own.kind.group, own.to_string()));
        assert_eq!(told, target.map(|(group, object)| (group, object.to_owned())), "{spec}");
    }

    #[test]
    fn an_autoscaler_tells_what_it_scales_in_whatever_version() {
        let spec = json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
        let web = Some(("apps", "Deployment shop/web"));
        check_target(Kind::autoscaler(), &spec, web);
        check_target(Kind { version: "v1".into(), ..Kind::autoscaler() }, &spec, web);
        check_target(Kind::deployment(), &spec, None);
        let core =
            json!({"scaleTargetRef": {"apiVersion": "v1", "kind": "ReplicationController", "name": "old"}});
        check_target(Kind::autoscaler(), &core, Some(("", "ReplicationController shop/old")));
        check_target(Kind::autoscaler(), &json!({"scaleTargetRef": {"name": "web"}}), None);
        check_target(Kind::autoscaler(), &json!({"scaleTargetRef": 7}), None);
    }

    #[test]
    fn of_several_owners_the_one_counts_that_looks_after_it() {
        let pod = Arc::new(Kind::unseen("", "v1", "Pod"));
        let key = ObjectKey { kind: pod, namespace: "shop".into(), name: "web-1".into() };
        let owner = |references: Value| {
            owner_of(&key, Some(&to_raw_value(&references).unwrap())).map(|own| own.to_string())
        };
        let other = json!({"apiVersion": "v1", "kind": "Node", "name": "n"});
        let maker = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": true});
        assert_eq!(owner(json!([other, maker])).as_deref(), Some("ReplicaSet shop/web"));
        assert_eq!(owner(json!([other])).as_deref(), Some("Node shop/n"));
        assert_eq!((owner(json!([])), owner(json!("odd")), owner_of(&key, None)), (None, None, None));
    }
}
