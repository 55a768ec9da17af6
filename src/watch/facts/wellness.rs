//! How well an object is, as its own status tells: what the facts about every kind begin with.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    diff::Text,
    types::{Facts, Health, Phase},
    watch::report::{LONGEST_MESSAGE, cut},
};

/// How well an object is, what it is doing, and why it is not well or not done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wellness {
    pub(super) health: Health,
    pub(super) phase: Option<Phase>,
    pub(super) message: String,
}

impl Wellness {
    pub(super) fn healthy() -> Self {
        Self::new(Health::Healthy, String::new())
    }

    pub(super) fn new(health: Health, message: impl Into<String>) -> Self {
        Self { health, phase: None, message: message.into() }
    }

    /// Not done yet; it may work all the same.
    pub(super) fn progressing(health: Health, message: impl Into<String>) -> Self {
        Self { phase: Some(Phase::Progressing), ..Self::new(health, message) }
    }

    pub(super) fn suspended(message: impl Into<String>) -> Self {
        Self { phase: Some(Phase::Suspended), ..Self::new(Health::Healthy, message) }
    }

    pub(super) fn completed() -> Self {
        Self { phase: Some(Phase::Completed), ..Self::healthy() }
    }

    pub(super) fn no_status() -> Self {
        Self::new(Health::Unknown, "no status")
    }

    /// What a status tells that is about an older version of the object says nothing about this one.
    pub(super) fn unseen() -> Self {
        Self::progressing(Health::Unknown, "its controller has not seen this version yet")
    }

    /// Facts that have nothing but this.
    pub(super) fn into_facts(self) -> Facts {
        let Self { health, phase, message } = self;
        Facts { health, phase, message: cut(&message, LONGEST_MESSAGE), ..Facts::default() }
    }
}

/// One condition of a status.
#[derive(Deserialize)]
pub(super) struct Condition<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Text<'a>,
    #[serde(borrow, default)]
    pub(super) status: Text<'a>,
    #[serde(borrow, default)]
    pub(super) reason: Text<'a>,
    #[serde(borrow, default)]
    pub(super) message: Text<'a>,
}

impl Condition<'_> {
    /// What it says, or at least why.
    pub(super) fn words(&self) -> String {
        if self.message.0.is_empty() { self.reason.0.to_string() } else { self.message.0.to_string() }
    }
}

/// The conditions of a status.
#[derive(Default)]
pub(super) struct Conditions<'a>(Vec<Condition<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Conditions<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Lenient(all) = Lenient::<Vec<Lenient<Condition<'a>>>>::deserialize(deserializer)?;
        Ok(Self(all.into_iter().flatten().filter_map(|own| own.0).collect()))
    }
}

/// Something, where it looks as it should: others put other things under the same names, and these must not hide what stands beside them.
pub(super) struct Lenient<T>(pub(super) Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let part = <&RawValue>::deserialize(deserializer)?;
        Ok(Self(read(Some(part))))
    }
}

impl<'a> Conditions<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Condition<'a>> {
        self.0.iter().find(|condition| condition.r#type.0 == name)
    }

    /// The condition of this name, if it is in this state.
    pub(super) fn when(&self, name: &str, status: &str) -> Option<&Condition<'a>> {
        self.get(name).filter(|condition| condition.status.0 == status)
    }
}

/// A part that does not look as it should tells nothing; it must not hide the object.
pub(super) fn read<'a, T: Deserialize<'a>>(part: Option<&'a RawValue>) -> Option<T> {
    serde_json::from_str(part?.get()).ok()
}

/// Whether a status is about an older version of the object.
pub(super) fn is_behind(observed: Option<i64>, generation: Option<i64>) -> bool {
    observed.zip(generation).is_some_and(|(observed, own)| observed < own)
}
