//! What kind of field a path leads to.
//!
//! Finding the value at a path.

use serde_json::Value;

use crate::types::{FieldClass, FieldPath, Segment};

/// The class of the field at `path`, in an object of any kind.
pub fn class_of(path: &FieldPath) -> FieldClass {
    let fields: Vec<&str> = path
        .segments()
        .iter()
        .filter_map(|segment| match segment {
            Segment::Field(name) => Some(&**name),
            Segment::Element(_) | Segment::Index(_) | Segment::Value(_) => None,
        })
        .collect();
    if let ["rules" | "subjects" | "roleRef" | "aggregationRule", ..] = *fields.as_slice() {
        return FieldClass::Rbac;
    }
    if let ["data" | "binaryData" | "stringData", ..] = *fields.as_slice() {
        return FieldClass::Data;
    }
    // The outermost name that says anything decides: a port in a probe belongs to the probe.
    fields.iter().find_map(|name| by_name(name)).unwrap_or(FieldClass::Other)
}

fn by_name(name: &str) -> Option<FieldClass> {
    Some(match name {
        "replicas" | "minReplicas" | "maxReplicas" => FieldClass::Replicas,
        "image" | "imagePullPolicy" => FieldClass::Image,
        "env" | "envFrom" => FieldClass::Env,
        "resources" | "hard" | "limits" => FieldClass::Resources,
        "ports" => FieldClass::Ports,
        "selector" | "podSelector" | "labelSelector" | "namespaceSelector" => FieldClass::Selector,
        "labels" => FieldClass::Labels,
        "annotations" => FieldClass::Annotations,
        "securityContext"
        | "hostNetwork"
        | "hostPID"
        | "hostIPC"
        | "serviceAccountName"
        | "automountServiceAccountToken"
        | "shareProcessNamespace"
        | "runtimeClassName" => FieldClass::Security,
        "livenessProbe" | "readinessProbe" | "startupProbe" => FieldClass::Probes,
        "volumes" | "volumeMounts" | "volumeDevices" | "volumeClaimTemplates" => FieldClass::Volumes,
        _ => return None,
    })
}

/// The value at a path, if there is one. Of several elements that have the keys, the first.
pub fn find<'a>(object: &'a Value, path: &FieldPath) -> Option<&'a Value> {
    path.segments().iter().try_fold(object, |at, segment| match segment {
        Segment::Field(name) => at.get(&**name),
        Segment::Index(index) => at.as_array()?.get(*index),
        Segment::Value(value) => at.as_array()?.iter().find(|element| is(element, value)),
        Segment::Element(keys) => at.as_array()?.iter().find(|element| {
            keys.iter().all(|(key, value)| element.get(&**key).is_some_and(|own| is(own, value)))
        }),
    })
}

fn is(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        Value::Number(own) => own.to_string() == *text,
        Value::Bool(own) => text.parse() == Ok(*own),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{FieldClass, class_of, find};

    #[test]
    fn the_outermost_telling_name_decides() {
        for (path, class) in [
            ("spec.replicas", FieldClass::Replicas),
            ("spec.template.spec.containers[name=web].image", FieldClass::Image),
            (
                "spec.template.spec.containers[name=web].env[name=A].valueFrom.secretKeyRef.name",
                FieldClass::Env,
            ),
            ("spec.template.spec.containers[name=web].livenessProbe.httpGet.port", FieldClass::Probes),
            ("spec.template.spec.volumes[name=a].configMap.name", FieldClass::Volumes),
            ("spec.template.metadata.labels.app", FieldClass::Labels),
            ("spec.selector.matchLabels.app", FieldClass::Selector),
            ("spec.template.spec.hostNetwork", FieldClass::Security),
            ("rules[0].verbs", FieldClass::Rbac),
            ("spec.rules[0].host", FieldClass::Other),
            ("data.key", FieldClass::Data),
        ] {
            assert_eq!(class_of(&path.parse().unwrap()), class, "{path}");
        }
    }

    #[track_caller]
    fn check(path: &str, wanted: &Value) {
        let ready = json!({"type": "Ready", "observed": 3, "reason": "Applied"});
        let object =
            json!({"status": {"phase": "Ready", "conditions": [{"type": "Synced"}, 7, ready], "set": ["a"]}});
        assert_eq!(
            find(&object, &path.parse().unwrap()),
            Some(wanted).filter(|wanted| !wanted.is_null()),
            "{path}"
        );
    }

    #[test]
    fn a_path_leads_to_one_value_or_to_none() {
        check("status.phase", &json!("Ready"));
        check("status.conditions[type=Ready].reason", &json!("Applied"));
        check("status.conditions[observed=3].reason", &json!("Applied"));
        check("status.conditions[0].type", &json!("Synced"));
        check("status.set[=a]", &json!("a"));
        for nothing in [
            "status.phase.more",
            "status.conditions[9]",
            "status.conditions[type=X].a",
            "spec[0]",
            "status[0]",
        ] {
            check(nothing, &Value::Null);
        }
    }
}
