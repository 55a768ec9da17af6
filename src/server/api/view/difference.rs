//! One difference, and why it does not count where it does not.

use std::{borrow::Cow, sync::Arc};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::text::Texts;
use crate::{
    server::{
        api::schema::OneOf,
        values::{Shown, Values},
    },
    types::{Actor, Advice, Difference, Expectation, FieldClass, Severity},
};

/// One field that is not as declared.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Difference")]
pub(in crate::server::api) struct DifferenceView<'a> {
    /// The field's path: `spec.template.spec.containers[name=web].image`.
    pub(super) path: &'a str,
    /// What kind of field it is.
    #[schemars(with = "OneOf<FieldClass>")]
    field: &'static str,
    /// What is declared; empty where nothing is.
    pub(super) expected: Cow<'a, str>,
    /// What is there; empty where nothing is.
    pub(super) actual: Cow<'a, str>,
    /// How bad it is.
    #[schemars(with = "OneOf<Severity>")]
    severity: &'static str,
    /// Whether it happens by itself.
    #[schemars(with = "OneOf<Expectation>")]
    expectation: &'static str,
    /// What to do about it.
    #[schemars(with = "OneOf<Advice>")]
    advice: &'static str,
    /// The class of tool that last set it.
    #[schemars(with = "OneOf<Actor>")]
    actor: &'static str,
    /// The name of the field manager that last set it.
    manager: Option<&'a str>,
    /// Since when it differs.
    onset: Timestamp,
    /// The rules that have something to say about it.
    rules: Texts<'a, Arc<str>>,
    /// The rule because of which it does not count.
    ignored_by: Option<&'a str>,
    /// What it is a view of.
    #[serde(skip)]
    pub(super) difference: &'a Difference,
}

impl<'a> DifferenceView<'a> {
    pub(in crate::server::api) fn new(difference: &'a Difference, values: &Values) -> Self {
        let Shown { expected, actual } = values.of_finding(&difference.finding);
        Self {
            path: &difference.finding.path,
            field: difference.finding.class.as_str(),
            expected,
            actual,
            severity: difference.severity.as_str(),
            expectation: difference.expectation.as_str(),
            advice: difference.advice.as_str(),
            actor: difference.actor.as_str(),
            manager: difference.manager(),
            onset: difference.onset,
            rules: Texts(&difference.matched),
            ignored_by: difference.ignored_by.as_deref(),
            difference,
        }
    }
}
