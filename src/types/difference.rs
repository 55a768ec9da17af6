//! One field whose live value differs from the declared value, and its field manager.

use std::{borrow::Cow, fmt, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::{
    Actor, Advice, Expectation, FieldClass, FieldPath, KeyedDigest, OnsetSource, RedactionKey, Severity,
    ValueDigest, closed_sets::closed_set, is_control,
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
    Text(Box<str>),
    /// Compact JSON of a number, a boolean, a list or an object.
    Json(Box<str>),
    Redacted(KeyedDigest),
    /// JSON of a list or an object with digests in place of redacted parts. Each string in it that looks like a digest is one,
    /// because plain strings that look like digests are redacted too.
    PartlyRedacted(Box<str>),
    /// No value: this many more fields differ than are listed.
    Omitted {
        count: usize,
        /// Whether their values are redacted.
        redacted: bool,
    },
}

closed_set! {
    /// How to read the text of a value. Different values may have the same text.
    ValueForm {
        Absent = "absent",
        Null = "null",
        /// An empty string.
        Empty = "empty",
        /// A string as it is.
        Plain = "plain",
        /// Compact JSON of a number, a boolean, a list or an object.
        Json = "json",
        /// The text is a digest, or JSON with digests in it.
        Redacted = "redacted",
        /// No value: the text says how many more fields differ than are listed.
        Omitted = "omitted",
    }
}

impl FieldValue {
    /// The inverse of [`Self::form`] and [`Self::text`].
    pub fn read(form: ValueForm, text: &str) -> Self {
        match form {
            ValueForm::Absent => Self::Absent,
            ValueForm::Null => Self::Null,
            ValueForm::Empty => Self::Text(Box::default()),
            ValueForm::Plain => Self::Text(text.into()),
            ValueForm::Json => Self::Json(text.into()),
            ValueForm::Redacted => {
                KeyedDigest::parse(text).map_or_else(|| Self::PartlyRedacted(text.into()), Self::Redacted)
            }
            ValueForm::Omitted => {
                Self::parse_omitted(text).unwrap_or_else(|| Self::PartlyRedacted(text.into()))
            }
        }
    }

    fn parse_omitted(text: &str) -> Option<Self> {
        let text = text.strip_prefix("and ")?.strip_suffix(" fields differ")?;
        let (count, redacted) = match text.strip_suffix(" more redacted") {
            Some(count) => (count, true),
            None => (text.strip_suffix(" more")?, false),
        };
        Some(Self::Omitted { count: count.parse().ok()?, redacted })
    }

    /// Whether the value, or a part of it, must not be disclosed.
    pub fn is_redacted(&self) -> bool {
        match self {
            Self::Redacted(_) | Self::PartlyRedacted(_) => true,
            Self::Omitted { redacted, .. } => *redacted,
            Self::Absent | Self::Null | Self::Text(_) | Self::Json(_) => false,
        }
    }

    pub fn form(&self) -> ValueForm {
        match self {
            Self::Absent => ValueForm::Absent,
            Self::Null => ValueForm::Null,
            Self::Text(text) if text.is_empty() => ValueForm::Empty,
            Self::Text(_) => ValueForm::Plain,
            Self::Json(_) => ValueForm::Json,
            Self::Redacted(_) | Self::PartlyRedacted(_) => ValueForm::Redacted,
            Self::Omitted { .. } => ValueForm::Omitted,
        }
    }

    /// The text that the API returns next to the form. It is empty for an absent value; an empty string is quoted.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Absent => "".into(),
            Self::Null => "null".into(),
            Self::Text(text) if text.is_empty() => Self::EMPTY.into(),
            Self::Text(text) | Self::Json(text) | Self::PartlyRedacted(text) => (&**text).into(),
            Self::Redacted(digest) => digest.to_string().into(),
            Self::Omitted { count, redacted: false } => format!("and {count} more fields differ").into(),
            Self::Omitted { count, redacted: true } => {
                format!("and {count} more redacted fields differ").into()
            }
        }
    }

    /// A text that identifies the value without its form: no other value has the same notation. It is empty for an absent value.
    pub fn notation(&self) -> Cow<'_, str> {
        match self.text() {
            Cow::Borrowed(text) => self.form().notation(text),
            Cow::Owned(text) => text.into(),
        }
    }

    /// The digest with which rules compare the value; none if it is redacted or omitted. A string and JSON with the same text have the same
    /// digest, because authors of YAML may omit quotes. All other values have different digests.
    pub fn value_digest(&self) -> Option<ValueDigest> {
        match self {
            Self::Null => Some(ValueDigest::of_null()),
            // In a rule this text is an empty string.
            Self::Text(text) if **text == *Self::EMPTY => Some(ValueDigest::of_quotes()),
            Self::Absent | Self::Text(_) | Self::Json(_) => Some(ValueDigest::of(&self.text())),
            Self::Redacted(_) | Self::PartlyRedacted(_) | Self::Omitted { .. } => None,
        }
    }

    /// The keyed digest of a plain value.
    #[must_use]
    pub fn redacted(&self, key: &RedactionKey) -> Self {
        match self {
            Self::Text(text) | Self::Json(text) | Self::PartlyRedacted(text) => {
                Self::Redacted(key.digest(text.as_bytes()))
            }
            Self::Omitted { count, .. } => Self::Omitted { count: *count, redacted: true },
            Self::Absent | Self::Null | Self::Redacted(_) => self.clone(),
        }
    }

    /// The text of an empty string, which is not absent.
    pub const EMPTY: &str = "\"\"";
}

/// A string; an empty one is not absent.
impl From<&str> for FieldValue {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl ValueForm {
    /// The [notation](FieldValue::notation) of a value of this form with this text. A string is quoted if it reads like another
    /// form or like a part of the sentence around it, or if a terminal does not show all of it.
    pub fn notation(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Plain if is_ambiguous(text) => format!("{text:?}").into(),
            // The same JSON with an escaped prefix, so that only digests have the prefix.
            Self::Json if KeyedDigest::looks_like(text) => KeyedDigest::escape_prefix(text).into(),
            Self::Absent
            | Self::Null
            | Self::Empty
            | Self::Plain
            | Self::Json
            | Self::Redacted
            | Self::Omitted => text.into(),
        }
    }
}

fn is_ambiguous(text: &str) -> bool {
    let is_number =
        || text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'));
    match text.as_bytes() {
        [b'"' | b'{' | b'[', ..] => true,
        [b'0'..=b'9' | b'-', ..] if is_number() => true,
        _ => {
            matches!(text, "null" | "true" | "false" | "absent" | "")
                || KeyedDigest::looks_like(text)
                || FieldValue::parse_omitted(text).is_some()
                || text.contains(", ")
                || text.trim() != text
                || text.contains(is_control)
        }
    }
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
    /// A finding without an owner.
    pub fn new(path: FieldPath, class: FieldClass, expected: FieldValue, actual: FieldValue) -> Self {
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
    pub onset_source: OnsetSource,
    pub ignored_by: Option<MatchedBy>,
    /// All that match it, in the order of the rule set.
    pub matched: Arc<[MatchedBy]>,
}

/// What matches a difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchedBy {
    /// The rule of this name.
    Rule(Arc<str>),
    /// The annotation `<prefix>/ignore` of the object.
    IgnoreAnnotation,
}

impl MatchedBy {
    /// Its name in the API and in messages.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Rule(name) => name,
            // Rule names cannot contain parentheses.
            Self::IgnoreAnnotation => "(annotation)",
        }
    }

    /// The name of the rule.
    pub fn rule(&self) -> Option<&Arc<str>> {
        match self {
            Self::Rule(name) => Some(name),
            Self::IgnoreAnnotation => None,
        }
    }
}

impl fmt::Display for MatchedBy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Difference {
    /// The name of the field manager that last set the field.
    pub fn manager(&self) -> Option<&str> {
        self.finding.owner.as_ref().map(|owner| &*owner.manager)
    }
}
