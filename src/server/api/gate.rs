//! `GET /v1/gate`: whether a pipeline may go on.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    drift_details::{Phrases, sentences},
    openapi::OneOf,
    params::{check_namespace, of_url, parse_word},
    response::{Problem, ProblemView, json},
    view::DifferenceView,
};
use crate::{
    engine::{Entry, KindState, Snapshot, WatchState},
    server::{Exposed, auth::Caller, query::is_of_type},
    types::{Difference, Episode, Expectation, Severity, Source, UnknownReason, VerdictKind, WatchHealth},
};

/// What is about to be deployed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GateQuery {
    /// Only this namespace; `*`, or nothing, for all that are watched.
    namespace: Option<String>,
    /// Kind, plural, or either with `.group`.
    kind: Option<String>,
    /// Exact name.
    name: Option<String>,
    /// Only claims of this source.
    #[schemars(with = "Option<OneOf<Source>>")]
    source: Option<String>,
    /// Drift that is less severe does not close the gate.
    #[schemars(with = "Option<OneOf<Severity>>")]
    severity: Option<String>,
    /// Only drift of this sort closes the gate: `unexpected` lets through what happens by itself.
    #[schemars(with = "Option<OneOf<Expectation>>")]
    expectation: Option<String>,
    /// Whether the gate is open where nothing is known that the question is about. Without it that is closed, as it may be a name
    /// that is spelt wrong.
    allow_empty: Option<bool>,
}

/// Whether to go on.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Gate")]
pub(super) struct GateView {
    open: bool,
    /// How many claims were looked at.
    checked: usize,
    /// Why it is closed.
    reasons: Vec<GateReason>,
}

/// A gate that is closed, as a problem that has its reasons beside it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClosedGate")]
pub(super) struct ClosedGate {
    #[serde(flatten)]
    problem: ProblemView,
    #[serde(flatten)]
    gate: GateView,
}

/// One thing that keeps the gate closed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "GateReason")]
pub(super) struct GateReason {
    group: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    #[schemars(with = "Option<OneOf<Source>>")]
    source: Option<&'static str>,
    /// `unknown` also for what nobody can see.
    #[schemars(with = "OneOf<VerdictKind>")]
    verdict: &'static str,
    #[schemars(with = "Option<OneOf<UnknownReason>>")]
    reason: Option<&'static str>,
    #[schemars(with = "Option<OneOf<Severity>>")]
    severity: Option<&'static str>,
    #[schemars(with = "Option<OneOf<Expectation>>")]
    expectation: Option<&'static str>,
    /// What is the matter, in sentences.
    details: Vec<String>,
}

/// The question, understood.
struct Asked<'q> {
    query: &'q GateQuery,
    namespace: Option<&'q str>,
    source: Option<Source>,
    severity: Option<Severity>,
    expectation: Option<Expectation>,
}

pub(crate) async fn gate(State(exposed): State<Arc<Exposed>>, caller: Caller, request: Request) -> Response {
    let query: GateQuery = match of_url(&mut request.into_parts().0).await {
        Ok(query) => query,
        Err(problem) => return problem.into_response(),
    };
    answer(&exposed, &caller, &query).unwrap_or_else(IntoResponse::into_response)
}

fn answer(exposed: &Exposed, caller: &Caller, query: &GateQuery) -> Result<Response, Problem> {
    let asked = Asked {
        query,
        namespace: query.namespace.as_deref().filter(|namespace| *namespace != "*" && !namespace.is_empty()),
        source: parse_word("source", query.source.as_deref())?,
        severity: parse_word("severity", query.severity.as_deref())?,
        expectation: parse_word("expectation", query.expectation.as_deref())?,
    };
    if let Some(namespace) = asked.namespace {
        check_namespace(namespace, exposed)?;
    }
    let snapshot = caller.snapshot();
    if !snapshot.ready || exposed.stop.is_cancelled() {
        return Err(Problem::busy("not everything was looked at yet; /readyz says what is waited for", 5));
    }
    let mut reasons = asked.blind_spots(&snapshot);
    reasons.extend(asked.hidden(caller));
    let mut checked = 0;
    for state in asked.kinds(&snapshot) {
        for entry in state.blocks.entries().filter(|entry| asked.is_about(entry)) {
            checked += 1;
            reasons.extend(asked.closed_by(state, entry, caller, &snapshot));
        }
    }
    if checked == 0 && reasons.is_empty() && query.allow_empty != Some(true) {
        reasons.push(GateReason {
            details: vec!["Nothing is known that this is about; `allowEmpty=true` lets that pass".to_owned()],
            ..GateReason::unknown()
        });
    }
    let gate = GateView { open: reasons.is_empty(), checked, reasons };
    if gate.open {
        return Ok(json(&gate));
    }
    let detail = match gate.reasons.len() {
        1 => "1 thing is not as it should be".to_owned(),
        count => format!("{count} things are not as they should be"),
    };
    let problem = Problem::new(StatusCode::CONFLICT, detail).into_view();
    Ok(Problem::respond(StatusCode::CONFLICT, &ClosedGate { problem, gate }))
}

impl Asked<'_> {
    fn kinds<'s>(&self, snapshot: &'s Snapshot) -> impl Iterator<Item = &'s KindState> {
        let wanted = self.query.kind.clone();
        snapshot
            .kinds
            .iter()
            .filter(move |state| wanted.as_deref().is_none_or(|wanted| is_of_type(&state.kind, wanted)))
            .map(|state| &**state)
    }

    fn is_about(&self, entry: &Entry) -> bool {
        let key = &entry.object.key;
        let is = |wanted: Option<&str>, own: &str| wanted.is_none_or(|wanted| wanted == own);
        is(self.namespace, &key.namespace)
            && is(self.query.name.as_deref(), &key.name)
            && entry.claim.source != Source::Nothing
            && self.source.is_none_or(|source| source == entry.claim.source)
    }

    /// What cannot be seen: who knows what is there.
    fn blind_spots(&self, snapshot: &Snapshot) -> Vec<GateReason> {
        let sources =
            snapshot.sources.iter().filter(|(source, _)| self.source.is_none_or(|own| own == **source));
        let mut reasons: Vec<GateReason> = sources
            .filter_map(|(source, health)| {
                let details = vec![format!("Not all of source {source} can be read: {}", trouble(health)?)];
                Some(GateReason { source: Some(source.as_str()), details, ..GateReason::unknown() })
            })
            .collect();
        for state in self.kinds(snapshot) {
            let streams = state.streams.iter().filter(|stream| self.may_be_in(stream));
            reasons.extend(streams.filter_map(|stream| {
                let details =
                    vec![format!("{} cannot be watched: {}", stream.spec, trouble(&stream.health)?)];
                let (group, kind) = (Some(state.kind.group.to_string()), Some(state.kind.kind.to_string()));
                let reason = Some(UnknownReason::Stale.as_str());
                Some(GateReason { group, kind, reason, details, ..GateReason::unknown() })
            }));
        }
        reasons
    }

    /// What the caller may not see: he cannot be told that all is well there.
    fn hidden(&self, caller: &Caller) -> Vec<GateReason> {
        let kinds = caller.hidden_kinds(self.namespace).into_iter();
        let wanted = kinds.filter(|kind| self.query.kind.as_deref().is_none_or(|own| is_of_type(kind, own)));
        let place =
            self.namespace.map_or_else(|| "all namespaces".to_owned(), |own| format!("namespace {own}"));
        wanted
            .map(|kind| GateReason {
                group: Some(kind.group.to_string()),
                kind: Some(kind.kind.to_string()),
                namespace: self.namespace.map(str::to_owned),
                details: vec![format!("This account may not list {} in {place}", kind.plural)],
                ..GateReason::unknown()
            })
            .collect()
    }

    fn may_be_in(&self, stream: &WatchState) -> bool {
        let own = stream.spec.namespace.as_deref();
        self.namespace.zip(own).is_none_or(|(wanted, own)| wanted == own)
    }

    /// Why a claim keeps the gate closed, if it does.
    fn closed_by(
        &self,
        state: &KindState,
        entry: &Entry,
        caller: &Caller,
        snapshot: &Snapshot,
    ) -> Option<GateReason> {
        let (verdict, reason) = state.shown_verdict(entry);
        let episode = entry.claim.verdict.episode();
        match verdict {
            VerdictKind::InSync | VerdictKind::Ignored | VerdictKind::NoBaseline => return None,
            // What is not known is not known whatever was asked for.
            VerdictKind::Unknown | VerdictKind::InFlight => {}
            VerdictKind::Drifted | VerdictKind::Missing | VerdictKind::Replaced => {
                let counts = |difference: &Difference| {
                    self.severity.is_none_or(|least| difference.severity >= least)
                        && self.expectation.is_none_or(|wanted| difference.expectation == wanted)
                };
                if !episode.is_some_and(|episode| episode.differences.iter().any(counts)) {
                    return None;
                }
            }
        }
        let key = &entry.object.key;
        let worst = episode.map(Episode::worst);
        let details = match (verdict, episode) {
            (VerdictKind::InFlight, _) => vec!["Its baseline is being applied right now".to_owned()],
            (VerdictKind::Unknown, _) => vec!["It could not be compared".to_owned()],
            (_, Some(episode)) => {
                let values = caller.values();
                let views = episode.differences.iter().map(|own| DifferenceView::new(own, &values));
                sentences(&views.collect::<Vec<_>>(), snapshot.rules.set(), &mut Phrases::default())
            }
            (_, None) => Vec::new(),
        };
        Some(GateReason {
            group: Some(key.kind.group.to_string()),
            kind: Some(key.kind.kind.to_string()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
            source: Some(entry.claim.source.as_str()),
            verdict: verdict.as_str(),
            reason: reason.map(UnknownReason::as_str),
            severity: worst.as_ref().map(|worst| worst.severity.as_str()),
            expectation: worst.as_ref().map(|worst| worst.expectation.as_str()),
            details,
        })
    }
}

impl GateReason {
    fn unknown() -> Self {
        Self {
            group: None,
            kind: None,
            namespace: None,
            name: None,
            source: None,
            verdict: VerdictKind::Unknown.as_str(),
            reason: None,
            severity: None,
            expectation: None,
            details: Vec::new(),
        }
    }
}

fn trouble(health: &WatchHealth) -> Option<&str> {
    match health {
        WatchHealth::Up => None,
        WatchHealth::Starting => Some("it was not answered yet"),
        WatchHealth::Down { message, .. } => Some(message),
    }
}
