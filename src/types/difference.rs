//! One field whose live value differs from the declared value, and its field manager.

use std::{borrow::Cow, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::{
    Actor, Advice, Expectation, FieldClass, FieldPath, KeyedDigest, RedactionKey, Severity, ValueDigest,
    closed_sets::closed_set,
};

/// An entry of `metadata.managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldManager {
    pub manager: Box<str>,
    /// Empty for the main resource.
    pub subresource: Box<str>,
    pub time: Option<Timestamp>,
}

/// The greatest age of a write that a new watch event may report, given the skew of two clocks.
const JUST_WRITTEN: SignedDuration = SignedDuration::from_secs(60);

impl FieldManager {
    /// A manager of the main resource.
    pub fn new(manager: &str, time: Option<Timestamp>) -> Self {
        Self { manager: manager.into(), subresource: Box::default(), time }
    }

    /// Whether this manager may have made the change that the watch has just delivered.
    pub(super) fn has_just_written(&self, now: Timestamp) -> bool {
        self.time.is_some_and(|time| now.duration_since(time) <= JUST_WRITTEN)
    }
}

/// The declared or the live value of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FieldValue {
    /// The object does not have the field. So is an empty value that the API server or the provider drops.
    #[default]
    Absent,
    /// The object has the field, and its value is null.
    Null,
    /// A string as it is; compact JSON of another value.
    Plain(Box<str>),
    Redacted(KeyedDigest),
    /// JSON with digests in place of redacted parts. It is shown, and is not the value.
    PartlyRedacted(Box<str>),
}

closed_set! {
    /// How to read the text of a value. Different values may have the same text.
    ValueForm {
        Absent = "absent",
        Null = "null",
        /// An empty string.
        Empty = "empty",
        Plain = "plain",
        /// The text is a digest, or JSON with digests in it.
        Redacted = "redacted",
    }
}

impl FieldValue {
    /// The value of an attribute or field that cannot be empty: an empty text is absent.
    pub fn non_empty(text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::Absent } else { Self::Plain(text) }
    }

    /// The inverse of [`Self::form`] and [`Self::text`].
    pub fn read(form: ValueForm, text: &str) -> Self {
        match form {
            ValueForm::Absent => Self::Absent,
            ValueForm::Null => Self::Null,
            ValueForm::Empty => Self::Plain(Box::default()),
            ValueForm::Plain => Self::Plain(text.into()),
            ValueForm::Redacted => {
                KeyedDigest::parse(text).map_or_else(|| Self::PartlyRedacted(text.into()), Self::Redacted)
            }
        }
    }

    pub fn form(&self) -> ValueForm {
        match self {
            Self::Absent => ValueForm::Absent,
            Self::Null => ValueForm::Null,
            Self::Plain(text) if text.is_empty() => ValueForm::Empty,
            Self::Plain(_) => ValueForm::Plain,
            Self::Redacted(_) | Self::PartlyRedacted(_) => ValueForm::Redacted,
        }
    }

    /// The text that API, CLI and pages show. It is empty for an absent value; an empty string is quoted.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Absent => "".into(),
            Self::Null => "null".into(),
            Self::Plain(text) if text.is_empty() => Self::EMPTY.into(),
            Self::Plain(text) | Self::PartlyRedacted(text) => (&**text).into(),
            Self::Redacted(digest) => digest.to_string().into(),
        }
    }

    /// The digest with which rules compare the value; none if it is redacted. Different values have different digests.
    pub fn value_digest(&self) -> Option<ValueDigest> {
        match self {
            Self::Null => Some(ValueDigest::of_null()),
            // In a rule this text is an empty string.
            Self::Plain(text) if **text == *Self::EMPTY => Some(ValueDigest::of_quotes()),
            Self::Absent | Self::Plain(_) => Some(ValueDigest::of(&self.text())),
            Self::Redacted(_) | Self::PartlyRedacted(_) => None,
        }
    }

    /// The keyed digest of a plain value.
    #[must_use]
    pub fn redacted(&self, key: &RedactionKey) -> Self {
        match self {
            Self::Plain(text) | Self::PartlyRedacted(text) => Self::Redacted(key.digest(text.as_bytes())),
            Self::Absent | Self::Null | Self::Redacted(_) => self.clone(),
        }
    }

    /// The text of an empty string, which is not absent.
    pub const EMPTY: &str = "\"\"";
}

/// A field that differs, before the rules rate it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: FieldPath,
    pub class: FieldClass,
    /// The declared value.
    pub expected: FieldValue,
    /// The live value.
    pub actual: FieldValue,
    /// The field manager that last set the field; none if no manager owns it.
    pub owner: Option<FieldManager>,
}

impl Finding {
    /// A finding with plain values; empty ones are absent.
    pub fn new(path: FieldPath, class: FieldClass, expected: &str, actual: &str) -> Self {
        let (expected, actual) = (FieldValue::non_empty(expected), FieldValue::non_empty(actual));
        Self { path, class, expected, actual, owner: None }
    }
}

/// A finding that the rules have rated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub finding: Finding,
    pub severity: Severity,
    pub expectation: Expectation,
    pub advice: Advice,
    pub actor: Actor,
    /// Since when the field differs. Never in the future, and never moves to a later time within an episode.
    pub onset: Timestamp,
    pub ignored_by: Option<Arc<str>>,
    /// All rules that match it, in the order of the rule set.
    pub matched: Arc<[Arc<str>]>,
}

impl Difference {
    /// The name of the field manager that last set the field.
    pub fn manager(&self) -> Option<&str> {
        self.finding.owner.as_ref().map(|owner| &*owner.manager)
    }
}
