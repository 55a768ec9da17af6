//! Digests and their text.

use drift_exporter::types::{Digest, ValueDigest};

#[test]
fn digest_round_trips_through_its_text() {
    let digest = Digest::of(b"drift");
    assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
    assert_eq!(Digest::parse(&digest.to_string().to_uppercase()), Some(digest));
}

#[test]
fn only_64_hex_digits_are_a_digest() {
    for text in ["", "abc", &"g".repeat(64), &"a".repeat(63), &"a".repeat(65), &"é".repeat(32)] {
        assert_eq!(Digest::parse(text), None, "{text}");
    }
}

#[test]
fn value_digest_round_trips_through_its_text() {
    let digest = ValueDigest::of("nginx:1.27");
    assert_eq!(ValueDigest::parse(&digest.to_string()), Some(Ok(digest)));
    assert_eq!(ValueDigest::parse("nginx:1.27"), None);
    let error = ValueDigest::parse("sha256:1234").unwrap().unwrap_err();
    assert_eq!(error.to_string(), "invalid digest; want sha256: and 64 hex digits");
}

#[test]
fn value_digest_can_be_computed_in_a_shell() {
    // printf 'drift-value-v1\0%s' 0 | sha256sum
    let expected = "sha256:c016db219c5d9d7f686a1c3d269bab8879c884bc49e2e86ab1fd2841c46f65ee";
    assert_eq!(ValueDigest::of("0").to_string(), expected);
    // printf 'drift-value-v1-null' | sha256sum
    let null = "sha256:af5ee9178f64290f1dd563be1bd7bf7bf0271fc911d0fa98573c5500317dabfe";
    assert_eq!(ValueDigest::of_null().to_string(), null);
}
