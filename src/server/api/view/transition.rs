//! One transition of the history.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    engine::{Transition, Turn},
    server::api::schema::OneOf,
    types::{Actor, Cause, FieldClass, Severity, Source, UnknownReason, VerdictKind},
};

/// One claim that moved from one verdict to another.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Transition")]
pub(in crate::server::api) struct TransitionView<'a> {
    /// Counts up from 1.
    sequence: u64,
    /// When it was seen.
    time: Timestamp,
    group: &'a str,
    kind: &'a str,
    /// Empty for objects without a namespace.
    namespace: &'a str,
    name: &'a str,
    /// Where the baseline is written.
    #[schemars(with = "OneOf<Source>")]
    source: &'static str,
    /// The verdict before; null for an object that was not known.
    #[schemars(with = "Option<OneOf<VerdictKind>>")]
    from: Option<&'static str>,
    /// The verdict after; null for an object that is gone.
    #[schemars(with = "Option<OneOf<VerdictKind>>")]
    to: Option<&'static str>,
    /// Why the verdict is `unknown`.
    #[schemars(with = "Option<OneOf<UnknownReason>>")]
    reason: Option<&'static str>,
    /// Why the episode ended, where it did.
    #[schemars(with = "Option<OneOf<Cause>>")]
    cause: Option<&'static str>,
    /// Since when it drifted.
    onset: Option<Timestamp>,
    #[schemars(with = "Option<OneOf<Severity>>")]
    severity: Option<&'static str>,
    #[schemars(with = "Option<OneOf<Actor>>")]
    actor: Option<&'static str>,
    manager: Option<&'a str>,
    /// The class of the worst field.
    #[schemars(with = "Option<OneOf<FieldClass>>")]
    field: Option<&'static str>,
    /// The paths that differed; values are never kept.
    #[schemars(with = "Vec<String>")]
    paths: &'a [Box<str>],
}

impl<'a> TransitionView<'a> {
    pub(in crate::server::api) fn new(transition: &'a Transition) -> Self {
        let episode = transition.episode.as_ref();
        Self {
            sequence: transition.sequence,
            time: transition.time,
            group: &transition.key.kind.group,
            kind: &transition.key.kind.kind,
            namespace: &transition.key.namespace,
            name: &transition.key.name,
            source: transition.source.as_str(),
            from: transition.from.map(VerdictKind::as_str),
            to: transition.to.map(VerdictKind::as_str),
            reason: transition.reason.map(UnknownReason::as_str),
            cause: episode.and_then(|episode| match episode.turn {
                Turn::Ended(cause) => Some(cause.as_str()),
                Turn::Began | Turn::GoesOn => None,
            }),
            onset: episode.map(|episode| episode.onset),
            severity: episode.map(|episode| episode.severity.as_str()),
            actor: episode.map(|episode| episode.actor.as_str()),
            manager: episode.and_then(|episode| episode.manager.as_deref()),
            field: episode.map(|episode| episode.field.as_str()),
            paths: episode.map_or(&[], |episode| &episode.paths),
        }
    }
}
