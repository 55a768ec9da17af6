//! Decides which field values a response shows, and which it replaces with keyed digests.

use std::borrow::Cow;

use super::Exposed;
use crate::{
    config::ShownValues,
    types::{FieldClass, FieldValue, Finding, RedactionKey},
};

/// Redacts field values for one caller. Values of Secrets are already digests in the snapshot and stay digests for every
/// caller.
#[derive(Clone, Debug)]
pub(super) struct ValueRedactor {
    /// Whether values of all field classes are shown.
    pub(super) plain: bool,
    key: RedactionKey,
}

#[derive(Debug)]
pub(super) struct DisplayedValues<'a> {
    pub(super) expected: Cow<'a, FieldValue>,
    pub(super) actual: Cow<'a, FieldValue>,
}

impl ValueRedactor {
    /// A caller who is not trusted gets digests, whatever the settings say.
    pub(super) fn new(exposed: &Exposed, trusted: bool) -> Self {
        let plain = trusted && exposed.settings().shown_values == ShownValues::Full;
        Self { plain, key: exposed.redaction_key.clone() }
    }

    #[cfg(test)]
    pub(super) fn with_plain_values(key: RedactionKey) -> Self {
        Self { plain: true, key }
    }

    /// The values of a finding on an object in this namespace. They differ in every response, because they differ in the cluster.
    pub(super) fn redact<'a>(&self, finding: &'a Finding, namespace: &str) -> DisplayedValues<'a> {
        let Finding { class, expected, actual, .. } = finding;
        let displayed = DisplayedValues {
            expected: self.redact_value(*class, expected, namespace),
            actual: self.redact_value(*class, actual, namespace),
        };
        // A string and a number may have the same text, and so the same digest. A plain value may have the text of a digest or
        // of null. The digests of their notations differ. Two plain values have different forms.
        let is_plain = |value: &FieldValue| matches!(value, FieldValue::Text(_) | FieldValue::Json(_));
        let are_alike = expected != actual
            && displayed.expected.text() == displayed.actual.text()
            && !(is_plain(&displayed.expected) && is_plain(&displayed.actual));
        if are_alike {
            let digest = |value: &FieldValue| match value {
                FieldValue::Absent
                | FieldValue::Null
                | FieldValue::Redacted(_)
                | FieldValue::Omitted { .. } => value.clone(),
                plain => {
                    FieldValue::Redacted(self.key.of_namespace(namespace).digest(plain.notation().as_bytes()))
                }
            };
            return DisplayedValues {
                expected: Cow::Owned(digest(expected)),
                actual: Cow::Owned(digest(actual)),
            };
        }
        displayed
    }

    fn redact_value<'a>(
        &self,
        class: FieldClass,
        value: &'a FieldValue,
        namespace: &str,
    ) -> Cow<'a, FieldValue> {
        if self.plain || class.is_public() {
            Cow::Borrowed(value)
        } else {
            Cow::Owned(value.redacted(&self.key.of_namespace(namespace)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DisplayedValues, ValueRedactor};
    use crate::types::{FieldClass, FieldPath, FieldValue, Finding, RedactionKey};

    #[test]
    fn values_that_may_hold_credentials_are_digests_unless_plain_values_are_enabled() {
        let key = RedactionKey::new([3; 32]);
        let redactor = ValueRedactor { plain: false, key: key.clone() };
        let (replicas, password) = (FieldValue::Json("3".into()), FieldValue::Text("hunter2".into()));
        assert_eq!(*redactor.redact_value(FieldClass::Replicas, &replicas, "shop"), replicas);
        let absent = FieldValue::Absent;
        assert_eq!(
            *redactor.redact_value(FieldClass::Env, &absent, "shop"),
            absent,
            "an absent value reveals nothing"
        );
        let digest = redactor.redact_value(FieldClass::Env, &password, "shop").into_owned();
        assert_eq!(digest, FieldValue::Redacted(key.digest(b"hunter2")));
        assert_eq!(
            *redactor.redact_value(FieldClass::Data, &digest, "shop"),
            digest,
            "a digest is not digested again"
        );
        let plain = ValueRedactor { plain: true, key };
        assert_eq!(*plain.redact_value(FieldClass::Env, &password, "shop"), password);
    }

    #[test]
    fn value_that_equals_the_digest_of_the_declared_value_still_differs() {
        let key = RedactionKey::new([3; 32]);
        let digest = key.digest(b"hunter2");
        let forged = Finding::new(
            FieldPath::of_fields(["spec", "a"]),
            FieldClass::Env,
            "hunter2".into(),
            (&*digest.to_string()).into(),
        );
        let redacted = Finding { expected: FieldValue::Redacted(digest), ..forged.clone() };
        for (finding, plain) in [(&forged, false), (&redacted, false), (&redacted, true)] {
            let redactor = ValueRedactor { plain, key: key.clone() };
            let DisplayedValues { expected, actual } = redactor.redact(finding, "shop");
            assert_ne!(expected.text(), actual.text());
            assert!(matches!(*actual, FieldValue::Redacted(_)), "{actual:?}");
        }
    }
}
