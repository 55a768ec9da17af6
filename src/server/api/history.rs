//! `GET /v1/history`: the transitions of claims from one verdict to another.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::{
    params::{Params, check_namespace},
    response::{Problem, json},
};
use crate::{
    engine::{EpisodeChange, Snapshot, Transition},
    server::{Exposed, auth::Caller, query::Filter},
    types::{Actor, FieldClass, ResolutionCause, Severity, Source, UnknownReason, VerdictKind},
};

const DEFAULT_LIMIT: usize = 100;

/// Which transitions to show.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::server) struct HistoryQuery {
    /// Only those in this namespace; `-` for objects without one, `*` for all.
    namespace: Option<String>,
    /// Kind, plural, or either with `.group`.
    kind: Option<String>,
    /// Exact name.
    name: Option<String>,
    /// Only claims of this source.
    source: Option<Source>,
    /// Only those after this sequence number, or since this RFC 3339 time.
    #[schemars(with = "Option<String>")]
    since: Option<HistoryPosition>,
    /// Only those up to this sequence number, or until this RFC 3339 time.
    #[schemars(with = "Option<String>")]
    until: Option<HistoryPosition>,
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
    source: Source,
    /// The verdict before; null if the claim is new.
    from: Option<VerdictKind>,
    /// The verdict after; null if the claim ended.
    to: Option<VerdictKind>,
    /// Why the verdict is `unknown`.
    reason: Option<UnknownReason>,
    /// Why the episode ended, where it did.
    cause: Option<ResolutionCause>,
    /// Since when it drifted.
    onset: Option<Timestamp>,
    severity: Option<Severity>,
    actor: Option<Actor>,
    manager: Option<&'a str>,
    /// The class of the worst field.
    field: Option<FieldClass>,
    /// The paths that differed; values are never kept.
    #[schemars(with = "Vec<String>")]
    paths: &'a [Box<str>],
}

#[derive(Clone, Copy, Debug)]
enum HistoryPosition {
    Sequence(u64),
    Time(Timestamp),
}

impl<'de> Deserialize<'de> for HistoryPosition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let sequence = text.parse().ok().map(Self::Sequence);
        let position = sequence.or_else(|| text.parse().ok().map(Self::Time));
        position.ok_or_else(|| {
            de::Error::custom(format!("`{text}` is neither a sequence number nor an RFC 3339 time"))
        })
    }
}

impl HistoryPosition {
    /// A client has already seen the transition with its last sequence number, but there may be several at its last time.
    fn is_since(self, transition: &Transition) -> bool {
        match self {
            Self::Sequence(sequence) => transition.sequence > sequence,
            Self::Time(time) => transition.time >= time,
        }
    }

    fn is_until(self, transition: &Transition) -> bool {
        match self {
            Self::Sequence(sequence) => transition.sequence <= sequence,
            Self::Time(time) => transition.time <= time,
        }
    }
}

pub(in crate::server) async fn history(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    Params(query): Params<HistoryQuery>,
) -> Result<Response, Problem> {
    let namespace = match query.namespace.as_deref() {
        None | Some("*") => None,
        Some("" | "-") => Some(String::new()),
        Some(namespace) => {
            check_namespace(namespace, &exposed)?;
            Some(namespace.to_owned())
        }
    };
    Ok(caller.read(move |_, snapshot| history_response(query, namespace, snapshot)).await)
}

fn history_response(query: HistoryQuery, namespace: Option<String>, snapshot: &Snapshot) -> Response {
    let HistoryQuery { kind, name, source, .. } = query;
    let filter = Filter { kind, namespace, name, source, ..Filter::default() };
    let is_selected = |transition: &Transition| {
        filter.selects_object(&transition.key, transition.source)
            && filter.selects_kind(&transition.key.kind)
            && query.since.is_none_or(|since| since.is_since(transition))
            && query.until.is_none_or(|until| until.is_until(transition))
    };
    let selected = snapshot.history.newest_first().filter(|transition| is_selected(transition));
    let transitions = selected
        .take(query.limit.unwrap_or(DEFAULT_LIMIT))
        .map(|transition| TransitionView::new(transition))
        .collect();
    let last = snapshot.history.newest_first().next().map_or(0, |newest| newest.sequence);
    json(&HistoryView { transitions, last })
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
            source: transition.source,
            from: transition.from,
            to: transition.to,
            reason: transition.reason,
            cause: episode.and_then(|episode| match episode.change {
                EpisodeChange::Ended(cause) => Some(cause),
                EpisodeChange::Started | EpisodeChange::Unchanged => None,
            }),
            onset: episode.map(|episode| episode.onset),
            severity: episode.map(|episode| episode.severity),
            actor: episode.map(|episode| episode.actor),
            manager: episode.and_then(|episode| episode.manager.as_deref()),
            field: episode.map(|episode| episode.field),
            paths: episode.map_or(&[], |episode| &episode.paths),
        }
    }
}
