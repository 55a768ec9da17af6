//! One field whose live value differs from the declared value, and its field manager.

use std::{borrow::Cow, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::{
    Actor, Advice, Expectation, FieldClass, FieldPath, KeyedDigest, RedactionKey, Severity, ValueDigest,
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
    /// The object does not have the field. So do a null, and an empty value that the API server or the provider drops.
    #[default]
    Absent,
    /// A string as it is; compact JSON of another value.
    Plain(Box<str>),
    Redacted(KeyedDigest),
}

impl FieldValue {
    /// The value of an attribute or field that cannot be empty: an empty text is absent.
    pub fn non_empty(text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        if text.is_empty() { Self::Absent } else { Self::Plain(text) }
    }

    /// The inverse of [`Self::text`], for texts from outside of this process.
    pub fn from_text(text: &str) -> Self {
        match KeyedDigest::parse(text) {
            Some(digest) => Self::Redacted(digest),
            None if text == EMPTY => Self::Plain(Box::default()),
            None => Self::non_empty(text),
        }
    }

    /// The text that API, CLI and pages show. It is empty for an absent value; an empty string is quoted.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Absent => "".into(),
            Self::Plain(text) if text.is_empty() => EMPTY.into(),
            Self::Plain(text) => (&**text).into(),
            Self::Redacted(digest) => digest.to_string().into(),
        }
    }

    /// The value with which rules compare; none if it is redacted.
    pub fn value_digest(&self) -> Option<ValueDigest> {
        if let Self::Redacted(_) = self { None } else { Some(ValueDigest::of(&self.text())) }
    }

    /// The keyed digest of a plain value.
    #[must_use]
    pub fn redacted(&self, key: &RedactionKey) -> Self {
        match self {
            Self::Plain(_) => Self::Redacted(key.digest(self.text().as_bytes())),
            Self::Absent | Self::Redacted(_) => self.clone(),
        }
    }
}

/// The text of an empty string, which is not absent.
const EMPTY: &str = "\"\"";

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
