//! Keyed digests, and the fields that a policy redacts.

use drift_exporter::types::{KeyedDigest, ObjectRef, RedactionKey, RedactionPolicy};

fn key(number: u8) -> RedactionKey {
    RedactionKey::new([number; 32])
}

fn object(version: &str) -> ObjectRef {
    ObjectRef::new("apps", version, "Deployment", "shop", "web")
}

fn policy_of(declared: &[(&str, &[&str])]) -> RedactionPolicy {
    let mut policy = RedactionPolicy::new(key(1));
    for (version, fields) in declared {
        policy.add_fields(&object(version), fields.iter().map(|field| (*field).into()));
    }
    policy
}

#[test]
fn digest_round_trips_through_its_text() {
    let digest = key(1).digest(b"hunter2");
    let text = digest.to_string();
    assert_eq!(text, format!("hmac:{}:{}", key(1).id(), &text[14..]));
    assert_eq!((text.len(), KeyedDigest::parse(&text)), (46, Some(digest)));
    let [short, long, other] = [&text[..45], &format!("{text}0"), &text.replace(':', "-")];
    for invalid in ["", "hmac:", "hmac::", short, long, other, &text.replace("hmac:", "hmac:é")] {
        assert_eq!(KeyedDigest::parse(invalid), None, "{invalid}");
    }
}

#[track_caller]
fn check(declared: &[(&str, &[&str])], fields: &[&str]) {
    assert_eq!(policy_of(declared).fields("v1", "shop", "web"), fields);
}

#[test]
fn nested_and_repeated_fields_are_returned_once() {
    check(&[("v1", &["data"]), ("v1", &["data"])], &["data"]);
    check(
        &[("v1", &["spec.b.c", "spec.a"]), ("v1", &["spec.b", "spec.bc"])],
        &["spec.a", "spec.b", "spec.bc"],
    );
    check(&[("v1", &["spec.b"]), ("v1", &[""])], &[""]);
    check(&[], &[]);
}

#[test]
fn fields_of_another_version_redact_the_whole_object() {
    check(&[("v2", &["spec.b"])], &[""]);
    check(&[("v1", &["spec.b"]), ("v2", &["spec.b"])], &[""]);
}

#[test]
fn order_of_added_fields_does_not_matter() {
    let declared: [(&str, &[&str]); 2] = [("v1", &["data"]), ("v1", &["metadata.labels", "data"])];
    assert_eq!(policy_of(&declared), policy_of(&[declared[1], declared[0]]));
    let mut policy = policy_of(&declared);
    policy.add_key(&key(1));
    assert_eq!((policy.keys().len(), policy.fields("v1", "shop", "api").len()), (1, 0));
    assert!(policy.redacts(&object("v1")) && !RedactionPolicy::new(key(1)).redacts(&object("v1")));
}
