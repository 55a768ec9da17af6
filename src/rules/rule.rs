//! One rule, understood.

use std::sync::Arc;

use jiff::Timestamp;

use super::{RuleSpec, condition::Condition, effect::Effects};

/// Where a rule comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is part of the program.
    BuiltIn,
    /// It stands in the settings.
    Settings,
    /// The owners of a namespace wrote it. It applies there only, and mutes nothing that is critical.
    Team {
        /// The namespace.
        namespace: Box<str>,
    },
}

/// One rule that can be applied.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) name: Arc<str>,
    pub(super) origin: Origin,
    pub(super) spec: RuleSpec,
    pub(super) expires: Option<Timestamp>,
    pub(super) condition: Condition,
    pub(super) effects: Effects,
    /// Whether it stands among the built-in rules: it is one of them, or took the place of one.
    pub(super) is_base: bool,
}

impl Rule {
    /// Its name, unlike all others; that of a team's rule begins with the namespace and a slash.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Where it comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The rule as it was written.
    pub fn spec(&self) -> &RuleSpec {
        &self.spec
    }

    /// When it ceases to apply.
    pub fn expires(&self) -> Option<Timestamp> {
        self.expires
    }

    /// Whether it is switched off.
    pub fn is_off(&self) -> bool {
        self.effects.off
    }

    /// Whether it applies at this time.
    pub fn applies(&self, now: Timestamp) -> bool {
        !self.is_off() && self.expires.is_none_or(|expires| now < expires)
    }
}
