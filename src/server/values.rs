//! Which values of fields are shown, and which only as digests.

use std::borrow::Cow;

use super::Exposed;
use crate::{
    config::ShownValues,
    types::{FieldClass, Finding, RedactionKey},
};

/// How the values of fields are shown.
#[derive(Clone, Debug)]
pub(super) struct Values {
    /// Whether all are shown that may be told.
    full: bool,
    /// The key of digests of the others.
    key: RedactionKey,
}

/// The values of a finding as they are shown.
#[derive(Debug)]
pub(super) struct Shown<'a> {
    /// What is declared.
    pub(super) expected: Cow<'a, str>,
    /// What is there.
    pub(super) actual: Cow<'a, str>,
}

impl Values {
    /// As settings say. Whoever is not trusted never sees more than digests.
    pub(super) fn of(exposed: &Exposed, trusted: bool) -> Self {
        let full = trusted && exposed.settings().shown_values == ShownValues::Full;
        Self { full, key: exposed.seal_key.clone() }
    }

    /// Whether all are shown that may be told.
    pub(super) fn are_full(&self) -> bool {
        self.full
    }

    /// Both values of a finding as they are shown: never alike, since they differ.
    pub(super) fn of_finding<'a>(&self, finding: &'a Finding) -> Shown<'a> {
        let Finding { class, expected, actual, .. } = finding;
        let shown = Shown { expected: self.shown(*class, expected), actual: self.shown(*class, actual) };
        // Somebody may write down as a value what a digest looks like, even that of what is declared.
        if shown.expected == shown.actual && expected != actual {
            return Shown { expected: self.hidden(expected), actual: self.hidden(actual) };
        }
        shown
    }

    /// All that may be told.
    #[cfg(test)]
    pub(super) fn full(key: RedactionKey) -> Self {
        Self { full: true, key }
    }

    fn shown<'a>(&self, class: FieldClass, text: &'a str) -> Cow<'a, str> {
        if self.full || text.is_empty() || is_harmless(class) || RedactionKey::is_digest(text) {
            text.into()
        } else {
            self.hidden(text)
        }
    }

    fn hidden(&self, text: &str) -> Cow<'static, str> {
        self.key.digest(text.as_bytes()).into()
    }
}

/// Whether fields of this class hold nothing by their nature that somebody may want to hide.
fn is_harmless(class: FieldClass) -> bool {
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
    use super::{Shown, Values};
    use crate::types::{FieldClass, Finding, RedactionKey};

    #[test]
    fn what_somebody_may_want_to_hide_is_shown_as_a_digest_unless_settings_say_otherwise() {
        let key = RedactionKey::new([3; 32]);
        let careful = Values { full: false, key: key.clone() };
        assert_eq!(careful.shown(FieldClass::Replicas, "3"), "3");
        assert_eq!(careful.shown(FieldClass::Env, ""), "", "nothing tells nothing");
        let digest = careful.shown(FieldClass::Env, "hunter2").into_owned();
        assert!(RedactionKey::is_digest(&digest) && !digest.contains("hunter"), "{digest}");
        assert_eq!(careful.shown(FieldClass::Data, &digest), digest, "a digest is not hidden once more");
        assert_eq!(Values { full: true, key }.shown(FieldClass::Env, "hunter2"), "hunter2");
    }

    #[test]
    fn a_value_that_looks_like_the_digest_of_what_is_declared_is_not_taken_for_it() {
        let key = RedactionKey::new([3; 32]);
        let careful = Values { full: false, key: key.clone() };
        let forged = Finding {
            path: "spec.a".into(),
            class: FieldClass::Env,
            expected: "hunter2".into(),
            actual: key.digest(b"hunter2").into(),
            writer: None,
        };
        let Shown { expected, actual } = careful.of_finding(&forged);
        assert!(expected != actual && RedactionKey::is_digest(&actual), "{expected} {actual}");
    }
}
