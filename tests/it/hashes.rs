//! Hashes equal those of other operators and do not depend on the formatting of a document.

use std::collections::BTreeMap;

use drift_exporter::diff::{Algorithm, fingerprint};
use drift_exporter::types::{Digest, Kind};
use proptest::prelude::*;
use serde_json::{Value, json};

fn kind_of(object: &Value) -> Kind {
    match object["kind"].as_str() {
        Some("Deployment") => Kind::deployment(),
        Some("Service") => Kind::service(),
        other => panic!("unexpected kind {other:?}"),
    }
}

fn hash(algorithm: Algorithm, object: &Value) -> Digest {
    fingerprint(algorithm, &kind_of(object), &object.to_string(), "tfdrift.jin.dev").unwrap()
}

/// tfdrift-operator created the first nine vectors; its algorithm on the Go types of Kubernetes created the others.
#[test]
fn tfdrift_v1_matches_the_operator() {
    let vectors = include_str!("../vectors/tfdrift-v1.jsonl");
    for line in vectors.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let object = &vector["object"];
        assert_eq!(
            hash(Algorithm::TfdriftV1, object).to_string(),
            vector["hash"].as_str().unwrap(),
            "{object}"
        );
    }
    assert!(vectors.lines().count() > 200);
}

/// Formats a value with another key order and more white space.
fn reformat(value: &Value, seed: u64) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            let middle = usize::try_from(seed).unwrap() % members.len().max(1);
            members.rotate_left(middle);
            let members: Vec<_> = members
                .iter()
                .map(|(name, member)| {
                    format!("\n {} :  {}", Value::from(name.as_str()), reformat(member, seed / 2 + 1))
                })
                .collect();
            format!("{{{}\t}}", members.join(" ,"))
        }
        Value::Array(elements) => {
            let elements: Vec<_> = elements.iter().map(|element| reformat(element, seed / 3 + 1)).collect();
            format!("[ {} ]", elements.join(",  "))
        }
        scalar => scalar.to_string(),
    }
}

/// An independent implementation of opr8r's hash.
fn opr8r_hash(length: i64, prefix: &str, vars: &BTreeMap<String, String>) -> Digest {
    let vars: String = vars.iter().flat_map(|(key, value)| [key, "=", value]).collect();
    Digest::of(format!("{length}:{prefix}{vars}").as_bytes())
}

fn simple_resource_hash(spec: &Value) -> Digest {
    let kind = Kind::undiscovered("infra.opr8r", "v1alpha1", "SimpleResource");
    let text = format!("{{\"spec\": {}, \"status\": {{\"phase\": \"Ready\"}}}}", reformat(spec, 7));
    fingerprint(Algorithm::Opr8rV1, &kind, &text, "tfdrift.jin.dev").unwrap()
}

#[test]
fn opr8r_v1_has_no_definition_for_other_kinds() {
    let error = fingerprint(Algorithm::Opr8rV1, &Kind::deployment(), "{}", "x").unwrap_err();
    assert_eq!(error.to_string(), "opr8r-v1 has no definition for Deployment; use jcs-v1");
}

proptest! {
    #[test]
    fn opr8r_v1_matches_the_operator_in_any_key_order(
        length in any::<i32>(),
        prefix in any::<String>(),
        vars in prop::collection::btree_map(any::<String>(), any::<String>(), 0..6),
        more in any::<String>(),
    ) {
        let spec = json!({"length": length, "prefix": prefix, "vars": vars});
        let wanted = opr8r_hash(length.into(), &prefix, &vars);
        prop_assert_eq!(simple_resource_hash(&spec), wanted);
        let mut other = spec.clone();
        other["prefix"] = format!("{prefix}{more}x").into();
        prop_assert_ne!(simple_resource_hash(&other), wanted);
    }
}

proptest! {
    #[test]
    fn hashes_ignore_key_order_and_white_space(line in 0..249_usize, seed in 0..1_000_u64) {
        let vector = include_str!("../vectors/tfdrift-v1.jsonl").lines().nth(line).unwrap();
        let object = &serde_json::from_str::<Value>(vector).unwrap()["object"];
        let kind = kind_of(object);
        for algorithm in [Algorithm::TfdriftV1, Algorithm::JcsV1] {
            let other = fingerprint(algorithm, &kind, &reformat(object, seed), "tfdrift.jin.dev").unwrap();
            prop_assert_eq!(other, hash(algorithm, object));
        }
    }

    #[test]
    fn fingerprint_never_panics(text in "\\{\"spec\":.{0,80}\\}|.{0,80}", deployment in any::<bool>()) {
        let kind = if deployment { Kind::deployment() } else { Kind::service() };
        for algorithm in [Algorithm::TfdriftV1, Algorithm::JcsV1] {
            let _ = fingerprint(algorithm, &kind, &text, "tfdrift.jin.dev");
        }
    }
}

#[test]
fn jcs_v1_changes_with_declared_fields_only() {
    let object = serde_json::json!({"kind": "Service", "metadata": {"labels": {"team": "shop"}}, "spec": {"a": 1, "b": ["x", "y"]}});
    let base = hash(Algorithm::JcsV1, &object);
    for (pointer, value) in [("/metadata/labels/team", "ops"), ("/spec/a", "1"), ("/spec/b/1", "z")] {
        let mut other = object.clone();
        *other.pointer_mut(pointer).unwrap() = value.into();
        assert_ne!(hash(Algorithm::JcsV1, &other), base, "{pointer}");
    }
    let mut same = object.clone();
    same["status"] = "any".into();
    same["metadata"]["uid"] = "any".into();
    same["metadata"]["annotations"] =
        serde_json::json!({"tfdrift.jin.dev/spec-hash": "any", "a.kubernetes.io/b": "any"});
    assert_eq!(hash(Algorithm::JcsV1, &same), base);
}
