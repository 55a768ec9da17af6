//! The forms of a value: absent, null, an empty string, plain, JSON and redacted.

use drift_exporter::types::{FieldClass, FieldValue, Finding, RedactionKey, ValueForm};
use proptest::prelude::*;

use self::any_value::any_value;

#[path = "../../../src/types/any_value.rs"]
mod any_value;

fn written(value: &FieldValue) -> (ValueForm, String) {
    (value.form(), value.text().into_owned())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn different_values_differ_in_findings_in_notation_and_in_form_or_text(one in any_value(), other in any_value()) {
        let finding = |actual: &FieldValue| Finding {
            actual: actual.clone(),
            ..Finding::new("spec.a".parse().unwrap(), FieldClass::Other, "x".into(), FieldValue::Absent)
        };
        prop_assert_eq!(finding(&one) == finding(&other), one == other);
        prop_assert_eq!(written(&one) == written(&other), one == other);
        prop_assert_eq!(one.notation() == other.notation(), one == other);
    }

    #[test]
    fn form_and_text_read_back_as_the_value(value in any_value()) {
        let (form, text) = written(&value);
        prop_assert_eq!(FieldValue::read(form, &text), value);
    }

    #[test]
    fn rules_distinguish_all_texts_and_never_match_redacted_or_omitted_values(one in any_value(), other in any_value()) {
        let has_no_digest = matches!(one.form(), ValueForm::Redacted | ValueForm::Omitted);
        prop_assert_eq!(one.value_digest().is_none(), has_no_digest);
        let is_json = |value: &FieldValue| matches!(value, FieldValue::Json(_));
        if !has_no_digest && is_json(&one) == is_json(&other) {
            prop_assert_eq!(one.value_digest() == other.value_digest(), one == other);
        }
    }

    #[test]
    fn redaction_hides_texts_and_keeps_them_apart(one in any_value(), other in any_value()) {
        let key = RedactionKey::new([2; 32]);
        let (redacted, other_redacted) = (one.redacted(&key), other.redacted(&key));
        prop_assert_eq!(&redacted.redacted(&key), &redacted);
        match &one {
            FieldValue::Absent | FieldValue::Null | FieldValue::Redacted(_) => prop_assert_eq!(&redacted, &one),
            FieldValue::Omitted { count, .. } => {
                prop_assert_eq!(&redacted, &FieldValue::Omitted { count: *count, redacted: true });
            }
            _ => prop_assert!(matches!(redacted, FieldValue::Redacted(_))),
        }
        if let (FieldValue::Text(one), FieldValue::Text(other)) = (&one, &other) {
            prop_assert_eq!(redacted == other_redacted, one == other);
        }
    }
}

#[test]
fn texts_and_notations_of_values_are_stable() {
    let text = |text: &str| FieldValue::Text(text.into());
    for (value, form, text, notation) in [
        (FieldValue::Absent, "absent", "", ""),
        (FieldValue::Null, "null", "null", "null"),
        (text(""), "empty", "\"\"", "\"\""),
        (text("null"), "plain", "null", "\"null\""),
        (text("\"\""), "plain", "\"\"", "\"\\\"\\\"\""),
        (text("5"), "plain", "5", "\"5\""),
        (text("1.27-alpine"), "plain", "1.27-alpine", "1.27-alpine"),
        (text("500m"), "plain", "500m", "500m"),
        (FieldValue::Json("5".into()), "json", "5", "5"),
        (FieldValue::Json("[\"hmac:\"]".into()), "json", "[\"hmac:\"]", "[\"\\u0068mac:\"]"),
        (
            text("and 3 more fields differ"),
            "plain",
            "and 3 more fields differ",
            "\"and 3 more fields differ\"",
        ),
        (
            FieldValue::Omitted { count: 3, redacted: false },
            "omitted",
            "and 3 more fields differ",
            "and 3 more fields differ",
        ),
    ] {
        assert_eq!((value.form().as_str(), &*value.text(), &*value.notation()), (form, text, notation));
    }
}
