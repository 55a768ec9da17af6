//! Hashes: bit for bit those that others stamp, and independent of how a document is written.

use drift_exporter::compare::{Algorithm, fingerprint};
use drift_exporter::model::{Digest, Kind};
use serde_json::Value;

fn kind_of(object: &Value) -> Kind {
    match object["kind"].as_str() {
        Some("Deployment") => Kind::deployment(),
        Some("Service") => Kind::service(),
        other => panic!("no kind {other:?} here"),
    }
}

fn hash(algorithm: Algorithm, object: &Value) -> Digest {
    fingerprint(algorithm, &kind_of(object), &object.to_string(), "tfdrift.jin.dev").unwrap()
}

/// The first nine pairs were made by tfdrift-operator itself, the others by its rules over Kubernetes' own Go types.
#[test]
fn tfdrift_v1_is_the_operators_hash_bit_for_bit() {
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
