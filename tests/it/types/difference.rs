//! The forms of a value: absent, null, an empty string, plain and redacted.

use drift_exporter::types::{FieldClass, FieldValue, Finding, KeyedDigest, RedactionKey, ValueForm};
use proptest::prelude::*;

fn digest(value: &str) -> KeyedDigest {
    RedactionKey::new([1; 32]).digest(value.as_bytes())
}

/// A text, often one that reads like another form.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        Just("\"\"".to_owned()),
        Just("\"null\"".to_owned()),
        "[a-c]".prop_map(|value| digest(&value).to_string()),
        "[a-c]".prop_map(|value| format!("[\"{}\"]", digest(&value))),
        "[\u{0}-\u{1f}\u{7f}-\u{9f}]{1,3}",
        "[a-c]{1,2}",
        any::<String>(),
    ]
}

fn value() -> impl Strategy<Value = FieldValue> {
    prop_oneof![
        Just(FieldValue::Absent),
        Just(FieldValue::Null),
        Just(FieldValue::Plain("".into())),
        text().prop_map(|text| FieldValue::Plain(text.into())),
        "[a-c]".prop_map(|value| FieldValue::Redacted(digest(&value))),
        "[a-c]".prop_map(|value| FieldValue::PartlyRedacted(format!("[\"{}\"]", digest(&value)).into())),
    ]
}

fn written(value: &FieldValue) -> (ValueForm, String) {
    (value.form(), value.text().into_owned())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn different_values_differ_in_findings_and_in_form_or_text(one in value(), other in value()) {
        let finding = |actual: &FieldValue| Finding {
            actual: actual.clone(),
            ..Finding::new("spec.a".parse().unwrap(), FieldClass::Other, "x", "")
        };
        prop_assert_eq!(finding(&one) == finding(&other), one == other);
        prop_assert_eq!(written(&one) == written(&other), one == other);
    }

    #[test]
    fn form_and_text_read_back_as_the_value(value in value()) {
        let (form, text) = written(&value);
        prop_assert_eq!(FieldValue::read(form, &text), value);
    }

    #[test]
    fn rules_distinguish_all_values_and_never_match_redacted_ones(one in value(), other in value()) {
        let is_redacted = one.form() == ValueForm::Redacted;
        prop_assert_eq!(one.value_digest().is_none(), is_redacted);
        prop_assert_eq!(one.value_digest() == other.value_digest() && !is_redacted, one == other && !is_redacted);
    }

    #[test]
    fn redaction_hides_texts_and_keeps_them_apart(one in value(), other in value()) {
        let key = RedactionKey::new([2; 32]);
        let (redacted, other_redacted) = (one.redacted(&key), other.redacted(&key));
        prop_assert_eq!(&redacted.redacted(&key), &redacted);
        match &one {
            FieldValue::Plain(_) | FieldValue::PartlyRedacted(_) => prop_assert!(matches!(redacted, FieldValue::Redacted(_))),
            FieldValue::Absent | FieldValue::Null | FieldValue::Redacted(_) => prop_assert_eq!(&redacted, &one),
        }
        if let (FieldValue::Plain(one), FieldValue::Plain(other)) = (&one, &other) {
            prop_assert_eq!(redacted == other_redacted, one == other);
        }
    }
}

#[test]
fn texts_of_values_are_stable() {
    for (value, form, text) in [
        (FieldValue::Absent, "absent", ""),
        (FieldValue::Null, "null", "null"),
        (FieldValue::Plain("".into()), "empty", "\"\""),
        (FieldValue::non_empty("null"), "plain", "null"),
        (FieldValue::non_empty("\"\""), "plain", "\"\""),
    ] {
        assert_eq!((value.form().as_str(), &*value.text()), (form, text));
    }
    assert_eq!(FieldValue::non_empty(""), FieldValue::Absent);
}
