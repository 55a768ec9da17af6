//! Decides which field values a response shows, and which it replaces with keyed digests.

use std::borrow::Cow;

use super::Exposed;
use crate::{
    config::ShownValues,
    types::{FieldClass, Finding, RedactionKey},
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
    pub(super) expected: Cow<'a, str>,
    pub(super) actual: Cow<'a, str>,
}

impl ValueRedactor {
    /// A caller who is not trusted gets digests, whatever the settings say.
    pub(super) fn new(exposed: &Exposed, trusted: bool) -> Self {
        let plain = trusted && exposed.settings().shown_values == ShownValues::Full;
        Self { plain, key: exposed.redaction_key.clone() }
    }

    /// The values of a finding. They differ in every response, because they differ in the cluster.
    pub(super) fn redact<'a>(&self, finding: &'a Finding) -> DisplayedValues<'a> {
        let Finding { class, expected, actual, .. } = finding;
        let displayed = DisplayedValues {
            expected: self.redact_value(*class, expected),
            actual: self.redact_value(*class, actual),
        };
        // A live value may be the text of the declared value's digest. Digesting both keeps them apart.
        if displayed.expected == displayed.actual && expected != actual {
            return DisplayedValues { expected: self.digest(expected), actual: self.digest(actual) };
        }
        displayed
    }

    #[cfg(test)]
    pub(super) fn plain(key: RedactionKey) -> Self {
        Self { plain: true, key }
    }

    fn redact_value<'a>(&self, class: FieldClass, value: &'a str) -> Cow<'a, str> {
        if self.plain || value.is_empty() || is_public(class) || RedactionKey::is_digest(value) {
            value.into()
        } else {
            self.digest(value)
        }
    }

    fn digest(&self, value: &str) -> Cow<'static, str> {
        self.key.digest(value.as_bytes()).into()
    }
}

/// Whether fields of this class never hold credentials.
fn is_public(class: FieldClass) -> bool {
    match class {
        FieldClass::Replicas
        | FieldClass::Image
        | FieldClass::Resources
        | FieldClass::Ports
        | FieldClass::Selector
        | FieldClass::Labels
        | FieldClass::Security
        | FieldClass::Rbac
        | FieldClass::Existence
        | FieldClass::Hash => true,
        FieldClass::Env
        | FieldClass::Annotations
        | FieldClass::Probes
        | FieldClass::Volumes
        | FieldClass::Data
        | FieldClass::Other => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{DisplayedValues, ValueRedactor};
    use crate::types::{FieldClass, Finding, RedactionKey};

    #[test]
    fn values_that_may_hold_credentials_are_digests_unless_plain_values_are_enabled() {
        let key = RedactionKey::new([3; 32]);
        let redactor = ValueRedactor { plain: false, key: key.clone() };
        assert_eq!(redactor.redact_value(FieldClass::Replicas, "3"), "3");
        assert_eq!(redactor.redact_value(FieldClass::Env, ""), "", "an empty value reveals nothing");
        let digest = redactor.redact_value(FieldClass::Env, "hunter2").into_owned();
        assert!(RedactionKey::is_digest(&digest) && !digest.contains("hunter"), "{digest}");
        assert_eq!(
            redactor.redact_value(FieldClass::Data, &digest),
            digest,
            "a digest is not digested again"
        );
        assert_eq!(ValueRedactor { plain: true, key }.redact_value(FieldClass::Env, "hunter2"), "hunter2");
    }

    #[test]
    fn value_that_equals_the_digest_of_the_declared_value_still_differs() {
        let key = RedactionKey::new([3; 32]);
        let redactor = ValueRedactor { plain: false, key: key.clone() };
        let forged = Finding::new("spec.a", FieldClass::Env, "hunter2", &key.digest(b"hunter2"));
        let DisplayedValues { expected, actual } = redactor.redact(&forged);
        assert!(expected != actual && RedactionKey::is_digest(&actual), "{expected} {actual}");
    }
}
