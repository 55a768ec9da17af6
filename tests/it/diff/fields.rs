//! The class of a field, and its value.

use drift_exporter::{
    diff::{Node, class_of, value_at},
    types::FieldClass,
};
use serde_json::{Value, json};

#[test]
fn outermost_classified_name_decides() {
    for (path, class) in [
        ("spec.replicas", FieldClass::Replicas),
        ("spec.template.spec.containers[name=web].image", FieldClass::Image),
        ("spec.template.spec.containers[name=web].env[name=A].valueFrom.secretKeyRef.name", FieldClass::Env),
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
fn check(path: &str, expected: &Value) {
    let ready = json!({"type": "Ready", "observed": 3, "reason": "Applied"});
    let object =
        json!({"status": {"phase": "Ready", "conditions": [{"type": "Synced"}, 7, ready], "set": ["a"]}});
    assert_eq!(
        value_at(&Node::from(object), &path.parse().unwrap()),
        Some(&Node::from(expected.clone())).filter(|expected| !expected.is_null()),
        "{path}"
    );
}

#[test]
fn value_at_resolves_fields_indices_keys_and_values() {
    check("status.phase", &json!("Ready"));
    check("status.conditions[type=Ready].reason", &json!("Applied"));
    check("status.conditions[observed=3].reason", &json!("Applied"));
    check("status.conditions[0].type", &json!("Synced"));
    check("status.set[=a]", &json!("a"));
    for missing in
        ["status.phase.more", "status.conditions[9]", "status.conditions[type=X].a", "spec[0]", "status[0]"]
    {
        check(missing, &Value::Null);
    }
}
