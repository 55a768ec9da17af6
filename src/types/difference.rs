//! One field that is not as declared, and who set it.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{Actor, Advice, Expectation, FieldClass, Severity};

/// The field manager that last set a part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldManager {
    /// The manager's name as the API server recorded it.
    pub manager: Box<str>,
    /// The subresource it wrote through; empty for the object itself.
    pub subresource: Box<str>,
    /// When it last changed what it owns.
    pub time: Option<Timestamp>,
}

/// How long ago a write may be that we have just heard of, as far as two clocks agree.
const JUST: SignedDuration = SignedDuration::from_secs(60);

impl FieldManager {
    /// Whether a change that we have just heard of may be its doing.
    pub(super) fn has_just_written(&self, now: Timestamp) -> bool {
        self.time.is_some_and(|time| now.duration_since(time) <= JUST)
    }
}

/// A field that differs, before any rule has looked at it.
///
/// A text stands as it is, everything else as compact JSON; what is absent, null or empty is the empty text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The field's path.
    pub path: Box<str>,
    /// What kind of field it is.
    pub class: FieldClass,
    /// The value the baseline declares.
    pub expected: Box<str>,
    /// The value the live object has.
    pub actual: Box<str>,
    /// Who last set it, where anybody owns it.
    pub writer: Option<FieldManager>,
}

/// A finding with what the rules say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub finding: Finding,
    /// How bad it is.
    pub severity: Severity,
    /// Whether it happens by itself.
    pub expectation: Expectation,
    /// What to do about it.
    pub advice: Advice,
    /// The class of tool that set it.
    pub actor: Actor,
    /// Since when it differs; never in the future, never later within an episode.
    pub onset: Timestamp,
    /// The rule because of which it does not count.
    pub ignored_by: Option<Arc<str>>,
    /// Every rule that has something to say about it, in the order of the rules.
    pub matched: Arc<[Arc<str>]>,
}

impl Difference {
    /// The raw name of the field manager that set it.
    pub fn manager(&self) -> Option<&str> {
        self.finding.writer.as_ref().map(|writer| &*writer.manager)
    }
}
