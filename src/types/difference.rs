//! One field whose live value differs from the declared value, and its field manager.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Actor, Advice, Expectation, FieldClass, Severity};

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

/// A field that differs, before the rules rate it.
///
/// Strings are kept as they are, other values as compact JSON. An absent, null or empty value is the empty string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub path: Box<str>,
    pub class: FieldClass,
    /// The declared value.
    pub expected: Box<str>,
    /// The live value.
    pub actual: Box<str>,
    /// The field manager that last set the field; none if no manager owns it.
    pub owner: Option<FieldManager>,
}

impl Finding {
    pub fn new(path: &str, class: FieldClass, expected: &str, actual: &str) -> Self {
        Self { path: path.into(), class, expected: expected.into(), actual: actual.into(), owner: None }
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
