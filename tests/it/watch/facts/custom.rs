//! Health of custom resources.

use serde_json::{Value, json};

use super::{facts_of, health_check};

fn condition(name: &str, status: &str) -> Value {
    json!({"type": name, "status": status, "message": format!("{name} is {status}")})
}

#[track_caller]
fn check(conditions: &[(&str, &str)], expected: &str) {
    let conditions: Vec<Value> = conditions.iter().map(|(name, status)| condition(name, status)).collect();
    let status = json!({"observedGeneration": 2, "conditions": conditions});
    health_check("example.com", "Database")(&json!({}), &status, expected);
}

#[test]
fn custom_resource_health_follows_its_conditions() {
    check(&[("Available", "True")], "Healthy");
    check(&[("Available", "True"), ("Ready", "False")], "Unhealthy Progressing: Ready is False");
    check(&[("Ready", "False"), ("Issuing", "True")], "Unhealthy Progressing: Ready is False");
    check(&[("Ready", "True"), ("Issuing", "True")], "Healthy Progressing: Issuing is True");
    // The controller reports a failure.
    check(&[("Ready", "False"), ("Stalled", "True")], "Unhealthy: Stalled is True");
    check(&[("Ready", "False"), ("Synced", "False")], "Unhealthy: Ready is False");
    check(&[("Ready", "False"), ("Degraded", "True")], "Unhealthy: Ready is False");
    check(&[("Available", "False")], "Unhealthy: Available is False");
    check(&[("Ready", "Unknown")], "Unknown: Ready is Unknown");
    check(&[("Ready", "True"), ("Synced", "False")], "Degraded: Synced is False");
    check(&[("Ready", "True"), ("Degraded", "True")], "Degraded: Degraded is True");
    check(&[("Ready", "True"), ("Stalled", "True")], "Unhealthy: Stalled is True");
    check(&[("Ready", "False"), ("Reconciling", "True")], "Unhealthy Progressing: Ready is False");
    check(&[("Ready", "True"), ("Reconciling", "True")], "Healthy Progressing: Reconciling is True");
    check(&[("Ready", "True"), ("Progressing", "True")], "Healthy");
    check(&[("Reconciling", "True")], "Unknown Progressing: Reconciling is True");
    check(&[("Ready", "True"), ("Stalled", "False"), ("Degraded", "False")], "Healthy");
}

#[test]
fn custom_resource_without_conditions_uses_its_phase() {
    let check = health_check("example.com", "Database");
    let spec = json!({});
    check(&spec, &json!({"phase": "Ready"}), "Healthy");
    check(&spec, &json!({"state": "creating"}), "Degraded Progressing");
    check(&spec, &json!({"phase": "Succeeded"}), "Healthy Completed");
    check(&spec, &json!({"phase": "Blue"}), "Unknown: nobody knows what its phase Blue means");
    check(&spec, &json!({"state": {"web": {}}}), "Unknown: its status has no condition Ready or Available");
    let argo = json!({"health": {"status": "Degraded", "message": "web is down"}, "phase": "Running"});
    check(&spec, &argo, "Degraded: web is down");
    check(
        &spec,
        &json!({"observedGeneration": 1, "phase": "Ready"}),
        "Unknown Progressing: its controller has not seen this version yet",
    );
    check(&spec, &json!([]), "Unknown: no status");
}

#[test]
fn fields_of_unexpected_types_are_ignored() {
    let check = health_check("example.com", "Database");
    let spec = json!({});
    check(&spec, &json!({"health": "green", "phase": "Ready"}), "Healthy");
    check(&spec, &json!({"health": "yellow", "phase": "Ready"}), "Degraded");
    check(&spec, &json!({"health": "red", "phase": "Ready"}), "Unhealthy");
    check(&spec, &json!({"health": "unknown", "phase": "Ready"}), "Healthy");
    for odd in [json!(7), json!(null), json!("text"), json!([1]), json!({"name": [], "status": {}})] {
        let mut status = json!({"phase": "Ready"});
        for name in ["health", "binding", "conditions", "state", "observedGeneration"] {
            status[name] = odd.clone();
        }
        check(&spec, &status, "Healthy");
    }
    let ready = condition("Ready", "True");
    let odd = json!({"conditions": [7, {"type": "Ready", "status": true}, {"type": {}}, ready]});
    check(&spec, &odd, "Healthy");
    let odd = json!({"replicas": "three", "writeConnectionSecretToRef": "a", "secretName": "c"});
    let facts = facts_of("example.com", "Database", &odd, &json!({"health": "green"}));
    assert_eq!((facts.replicas, facts.connection_secret.as_deref()), (None, Some("c")));
}

#[test]
fn connection_secret_is_found_by_convention() {
    let secret = |spec: Value, status: Value| {
        facts_of("example.com", "Database", &spec, &status).connection_secret.map(String::from)
    };
    let written = json!({"writeConnectionSecretToRef": {"name": "a"}, "secretName": "c"});
    assert_eq!(secret(written, json!({"binding": {"name": "b"}})).as_deref(), Some("a"));
    assert_eq!(secret(json!({"secretName": "c"}), json!({"binding": {"name": "b"}})).as_deref(), Some("b"));
    assert_eq!(secret(json!({"secretName": "c"}), json!({})).as_deref(), Some("c"));
    assert_eq!(secret(json!({"secretName": {"odd": true}}), json!({})), None);
}
