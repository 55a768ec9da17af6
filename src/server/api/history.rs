//! `GET /v1/history`.
//! One transition of the history.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::{
    openapi::OneOf,
    params::{check_namespace, of_url, parse_word},
    response::{Problem, json},
};
use crate::{
    engine::{Transition, Turn},
    server::{Exposed, auth::Caller, query::is_of_type},
    types::{Actor, Cause, FieldClass, Severity, Source, UnknownReason, VerdictKind},
};

/// Which transitions to show.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct HistoryQuery {
    /// Only those in this namespace; `-` for objects without one, `*` for all.
    namespace: Option<String>,
    /// Kind, plural, or either with `.group`.
    kind: Option<String>,
    /// Exact name.
    name: Option<String>,
    /// Only claims of this source.
    #[schemars(with = "Option<OneOf<Source>>")]
    source: Option<String>,
    /// Only those after this sequence number, or since this RFC 3339 time.
    #[schemars(with = "Option<String>")]
    since: Option<Moment>,
    /// Only those up to this sequence number, or until this RFC 3339 time.
    #[schemars(with = "Option<String>")]
    until: Option<Moment>,
    /// At most so many; 100 unless told.
    limit: Option<usize>,
}

/// The last transitions, newest first.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "History")]
pub(super) struct HistoryView<'a> {
    transitions: Vec<TransitionView<'a>>,
    /// The newest sequence number that can be seen; 0 where there is none.
    last: u64,
}

/// A point in the history.
#[derive(Clone, Copy, Debug)]
enum Moment {
    Sequence(u64),
    Time(Timestamp),
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let sequence = text.parse().ok().map(Self::Sequence);
        let moment = sequence.or_else(|| text.parse().ok().map(Self::Time));
        moment.ok_or_else(|| {
            de::Error::custom(format!("`{text}` is neither a sequence number nor an RFC 3339 time"))
        })
    }
}

impl Moment {
    fn is_before(self, transition: &Transition) -> bool {
        match self {
            Self::Sequence(sequence) => sequence < transition.sequence,
            Self::Time(time) => time < transition.time,
        }
    }
}

impl HistoryQuery {
    fn wants(&self, transition: &Transition, source: Option<Source>) -> bool {
        let key = &transition.key;
        let is = |wanted: Option<&str>, own: &str| wanted.is_none_or(|wanted| wanted == own);
        is(self.namespace.as_deref(), &key.namespace)
            && is(self.name.as_deref(), &key.name)
            && self.kind.as_deref().is_none_or(|wanted| is_of_type(&key.kind, wanted))
            && source.is_none_or(|source| source == transition.source)
            && self.until.is_none_or(|until| !until.is_before(transition))
            && self.since.is_none_or(|since| match since {
                Moment::Sequence(_) => since.is_before(transition),
                Moment::Time(time) => time <= transition.time,
            })
    }
}

pub(crate) async fn history(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    request: Request,
) -> Response {
    answer(&exposed, &caller, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer(exposed: &Exposed, caller: &Caller, request: Request) -> Result<Response, Problem> {
    let mut query: HistoryQuery = of_url(&mut request.into_parts().0).await?;
    // As everywhere: `*` is any, `-` is none.
    query.namespace = query.namespace.filter(|own| own != "*");
    match query.namespace.as_deref() {
        Some("-") => query.namespace = Some(String::new()),
        None | Some("") => {}
        Some(namespace) => check_namespace(namespace, exposed)?,
    }
    let source = parse_word("source", query.source.as_deref())?;
    let snapshot = caller.snapshot();
    let wanted = snapshot.history.newest_first().filter(|transition| query.wants(transition, source));
    let transitions = wanted.take(query.limit.unwrap_or(100)).map(|own| TransitionView::new(own)).collect();
    let last = snapshot.history.newest_first().next().map_or(0, |newest| newest.sequence);
    Ok(json(&HistoryView { transitions, last }))
}

/// One claim that moved from one verdict to another.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Transition")]
pub(super) struct TransitionView<'a> {
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
    pub(super) fn new(transition: &'a Transition) -> Self {
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
