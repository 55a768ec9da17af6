//! Diffs of declared and live custom resources.

use drift_exporter::diff::manifest::{Schemas, TypeMeta};
use serde_json::{Value, json};

use crate::{
    declared::{check, compared},
    support::cpu::least_of_three,
};

/// The OpenAPI schemas of a custom resource.
fn widget_schemas() -> Schemas {
    let text = json!({"type": "string"});
    let port = json!({"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}});
    let amount =
        json!({"x-kubernetes-int-or-string": true, "pattern": "^([0-9]+)(([KMGTPE]i)|[numkMGTPE])?$"});
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer"}, "memory": amount, "limits": {"type": "object", "additionalProperties": amount},
        "tags": {"type": "array", "items": text, "x-kubernetes-list-type": "set"}, "steps": {"type": "array", "items": text},
        "ports": {"type": "array", "items": port, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let group_version_kind = json!([{"group": "example.com", "version": "v1", "kind": "Widget"}]);
    let metadata = json!({"allOf": [{"$ref": "#/components/schemas/ObjectMeta"}]});
    let widget = json!({"type": "object", "x-kubernetes-group-version-kind": group_version_kind, "properties": {"metadata": metadata, "spec": spec}});
    let document = json!({"components": {"schemas": {"com.example.v1.Widget": widget, "ObjectMeta": {"type": "object"}}}});
    Schemas::from_openapi(document.to_string().as_bytes(), |_| true).unwrap()
}

#[test]
fn custom_resources_compare_by_their_schema() {
    let schemas = widget_schemas();
    let has = |api_version| schemas.has(TypeMeta::new(api_version, "Widget"));
    assert!(has("example.com/v1") && !has("example.com/v2"));
    let paths = |declared: Value, live: Value| -> Vec<String> {
        let comparison =
            compared("example.com/v1 Widget", &json!({"spec": declared}), &json!({"spec": live}), &schemas);
        comparison.findings.into_iter().map(|found| found.path.to_string()).collect()
    };
    let none: [&str; 0] = [];
    assert_eq!(
        paths(
            json!({"ports": [{"port": 80}], "tags": ["a", "b"]}),
            json!({"ports": [{"protocol": "TCP", "port": 80}], "tags": ["b", "a"]})
        ),
        none
    );
    assert_eq!(
        paths(
            json!({"memory": "1024Mi", "limits": {"a": 1000}}),
            json!({"memory": "1Gi", "limits": {"a": "1k"}})
        ),
        none
    );
    assert_eq!(paths(json!({"steps": ["a", "b"]}), json!({"steps": ["b", "a"]})), ["spec.steps"]);
    // Paths do not contain the values of a set, which may be confidential.
    assert_eq!(
        paths(json!({"tags": ["a", "b"]}), json!({"tags": ["b", "c"]})),
        ["spec.tags[0]", "spec.tags[1]"]
    );
    // Custom resources keep empty values, and a string never equals a number.
    assert_eq!(
        paths(json!({"size": 0, "free": {"a": [], "b": "1"}}), json!({"free": {"b": 1}})),
        ["spec.free.a", "spec.free.b", "spec.size"]
    );
}

#[test]
fn list_comparison_takes_linear_time() {
    let schemas = widget_schemas();
    let spec = |order: &mut dyn Iterator<Item = u32>| {
        let numbers: Vec<u32> = order.collect();
        let ports = |at: &u32| json!({"port": at, "protocol": "TCP"});
        json!({"spec": {"tags": numbers.iter().map(|at| format!("tag-{at}")).collect::<Vec<_>>(),
            "ports": numbers.iter().map(ports).collect::<Vec<_>>()}})
    };
    let cost = |length: u32| {
        let (declared, live) = (spec(&mut (0..length)), spec(&mut (1..=length).rev()));
        let compare = || compared("example.com/v1 Widget", &declared, &live, &schemas).findings;
        let (time, found) = least_of_three(compare);
        assert_eq!(found.len(), 6, "one tag and one port removed and added, a port with two fields");
        time
    };
    // Ten times the length: quadratic time would cost a hundred times as much.
    let (short, long) = (cost(2_000), cost(20_000));
    assert!(long < 30 * short, "{short:?}, {long:?}");
}

#[test]
fn kinds_without_schema_compare_by_heuristics() {
    let check = |declared: Value, live: Value, paths: &[(&str, &str, &str)]| {
        check("example.com/v1 Unheard", &json!({"spec": declared}), &json!({"spec": live}), paths);
    };
    check(
        json!({"list": ["b", "a"], "parts": [{"key": "x", "v": 1}, {"key": "y"}]}),
        json!({"list": ["a", "b"], "parts": [{"key": "y"}, {"key": "x", "v": 1, "more": 2}]}),
        &[],
    );
    // The value of `key` may be confidential, so it is not in the path.
    check(
        json!({"parts": [{"key": "x", "v": 1}]}),
        json!({"parts": [{"key": "x", "v": 2}]}),
        &[("spec.parts[0].v", "1", "2")],
    );
    check(
        json!({"parts": [{"name": "x", "v": 1}]}),
        json!({"parts": [{"name": "x", "v": 2}]}),
        &[("spec.parts[name=x].v", "1", "2")],
    );
    check(json!({"parts": [{"v": 1}, {"v": 2}]}), json!({"parts": [{"v": 2}, {"v": 1}]}), &[]);
    check(
        json!({"parts": [{"v": 1}, {"v": 2}]}),
        json!({"parts": [{"v": 1}, {"v": 3}]}),
        &[("spec.parts[1].v", "2", "3")],
    );
    check(json!({"resources": {"memory": "1024Mi"}}), json!({"resources": {"memory": "1Gi"}}), &[]);
}
