//! `GET /v1/gate`: whether a pipeline may deploy. The gate is closed by drift and by everything that is unknown.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    drift_details::{FieldLabelCache, drift_details},
    params::{Params, check_namespace},
    response::{Problem, ProblemView, json},
    view::DifferenceView,
};
use crate::{
    engine::{Snapshot, WatchState},
    server::{
        Exposed,
        auth::Caller,
        query::{ClaimRow, Filter},
    },
    types::{Difference, Expectation, Kind, Severity, Source, SyncHealth, UnknownReason, VerdictKind},
};

/// What is about to be deployed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::server) struct GateQuery {
    /// Only this namespace; `*`, or nothing, for all that are watched.
    namespace: Option<String>,
    /// Kind, plural, or either with `.group`.
    kind: Option<String>,
    /// Exact name.
    name: Option<String>,
    /// Only claims of this source.
    source: Option<Source>,
    /// Drift that is less severe does not close the gate.
    severity: Option<Severity>,
    /// Only drift of this sort closes the gate: `unexpected` lets through what happens by itself.
    expectation: Option<Expectation>,
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
pub(super) struct ClosedGate {
    #[serde(flatten)]
    problem: ProblemView,
    #[serde(flatten)]
    gate: GateView,
}

/// One thing that keeps the gate closed.
#[derive(Debug, Serialize, JsonSchema)]
struct GateReason {
    group: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    source: Option<Source>,
    /// `unknown` also for what nobody can see.
    verdict: VerdictKind,
    reason: Option<UnknownReason>,
    severity: Option<Severity>,
    expectation: Option<Expectation>,
    /// What is the matter, in sentences.
    details: Vec<String>,
}

pub(in crate::server) async fn gate(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    Params(query): Params<GateQuery>,
) -> Result<Response, Problem> {
    caller.read(move |caller, snapshot| gate_response(&query, &exposed, caller, snapshot)).await
}

fn gate_response(
    query: &GateQuery,
    exposed: &Exposed,
    caller: &Caller,
    snapshot: &Snapshot,
) -> Result<Response, Problem> {
    let filter = query.filter();
    if let Some(namespace) = &filter.namespace {
        check_namespace(namespace, exposed)?;
    }
    if !snapshot.ready || exposed.stop.is_cancelled() {
        let detail = "not everything was looked at yet; /readyz says what is waited for";
        return Err(Problem::unavailable(detail, 5));
    }
    let mut reasons = unhealthy_sources(&filter, snapshot);
    reasons.extend(unhealthy_watches(&filter, snapshot));
    reasons.extend(unauthorized_kinds(&filter, caller));
    let mut checked = 0;
    let is_declared = |row: &ClaimRow<'_>| {
        let claim = &row.entry.claim;
        claim.source != Source::Unclaimed && !claim.verdict.is_untrusted()
    };
    for row in filter.claims(snapshot).filter(is_declared) {
        checked += 1;
        reasons.extend(query.closed_by(&row, caller, snapshot));
    }
    if checked == 0 && reasons.is_empty() && query.allow_empty != Some(true) {
        let detail = "Nothing is known that this is about; `allowEmpty=true` lets that pass";
        reasons.push(GateReason::unknown(detail.to_owned()));
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

impl GateQuery {
    fn filter(&self) -> Filter {
        let namespace = self.namespace.clone();
        Filter {
            kind: self.kind.clone(),
            namespace: namespace.filter(|namespace| namespace != "*" && !namespace.is_empty()),
            name: self.name.clone(),
            source: self.source,
            ..Filter::default()
        }
    }

    /// Why a claim closes the gate. `None` if it does not.
    fn closed_by(&self, row: &ClaimRow<'_>, caller: &Caller, snapshot: &Snapshot) -> Option<GateReason> {
        let episode = row.episode();
        let counts = |difference: &Difference| {
            self.severity.is_none_or(|least| difference.severity >= least)
                && self.expectation.is_none_or(|selected| difference.expectation == selected)
        };
        let is_closed = row.verdict.is_undecided()
            || (row.verdict.is_drifted()
                && episode.is_some_and(|episode| episode.differences.iter().any(counts)));
        if !is_closed {
            return None;
        }
        let details = match (row.verdict, episode) {
            (VerdictKind::InFlight, _) => vec!["Its baseline is being applied right now".to_owned()],
            (VerdictKind::Unknown, _) => vec!["It could not be compared".to_owned()],
            (_, Some(episode)) => {
                let values = caller.values();
                let differences = episode.differences.iter();
                let view = |difference| DifferenceView::new(difference, &row.entry.key().namespace, &values);
                let views: Vec<_> = differences.map(view).collect();
                drift_details(
                    &episode.differences,
                    &views,
                    snapshot.rules.set(),
                    &mut FieldLabelCache::default(),
                )
            }
            (_, None) => Vec::new(),
        };
        let (key, worst) = (row.entry.key(), row.worst());
        Some(GateReason {
            group: Some(key.kind.group.to_string()),
            kind: Some(key.kind.kind.to_string()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
            source: Some(row.entry.claim.source),
            verdict: row.verdict,
            reason: row.reason,
            severity: worst.as_ref().map(|worst| worst.severity),
            expectation: worst.as_ref().map(|worst| worst.expectation),
            details,
        })
    }
}

fn unhealthy_sources(filter: &Filter, snapshot: &Snapshot) -> Vec<GateReason> {
    let is_selected = |source: Source| filter.source.is_none_or(|selected| selected == source);
    let sources = snapshot.sources.iter().filter(|(source, _)| is_selected(**source));
    let reasons = sources.filter_map(|(source, health)| {
        let detail = format!("Not all of source {source} can be read: {}", why_unhealthy(health)?);
        Some(GateReason { source: Some(*source), ..GateReason::unknown(detail) })
    });
    reasons.collect()
}

fn unhealthy_watches(filter: &Filter, snapshot: &Snapshot) -> Vec<GateReason> {
    let watches = filter.kinds(snapshot).flat_map(|(_, state)| state.watches.iter());
    let reasons = watches.filter(|watch| may_deliver(filter, watch)).filter_map(|watch| {
        let detail = format!("{} cannot be watched: {}", watch.spec, why_unhealthy(&watch.health)?);
        let reason = Some(UnknownReason::Stale);
        Some(GateReason { reason, ..GateReason::unknown(detail) }.with_kind(&watch.spec.kind))
    });
    reasons.collect()
}

fn may_deliver(filter: &Filter, watch: &WatchState) -> bool {
    let namespaces = filter.namespace.as_deref().zip(watch.spec.namespace.as_deref());
    namespaces.is_none_or(|(selected, watched)| selected == watched)
}

/// The kinds that the caller may not list. Their objects count as unknown.
fn unauthorized_kinds(filter: &Filter, caller: &Caller) -> Vec<GateReason> {
    let namespace = filter.namespace.as_deref();
    let scope = namespace.map_or_else(|| "all namespaces".to_owned(), |name| format!("namespace {name}"));
    let kinds = caller.hidden_kinds(namespace).into_iter();
    let reasons = kinds.filter(|kind| filter.selects_kind(kind)).map(|kind| {
        let detail = format!("This account may not list {} in {scope}", kind.plural);
        GateReason { namespace: namespace.map(str::to_owned), ..GateReason::unknown(detail) }.with_kind(&kind)
    });
    reasons.collect()
}

impl GateReason {
    fn unknown(detail: String) -> Self {
        Self {
            group: None,
            kind: None,
            namespace: None,
            name: None,
            source: None,
            verdict: VerdictKind::Unknown,
            reason: None,
            severity: None,
            expectation: None,
            details: vec![detail],
        }
    }

    fn with_kind(self, kind: &Kind) -> Self {
        Self { group: Some(kind.group.to_string()), kind: Some(kind.kind.to_string()), ..self }
    }
}

fn why_unhealthy(health: &SyncHealth) -> Option<&str> {
    match health {
        SyncHealth::Up => None,
        SyncHealth::Starting => Some("it was not answered yet"),
        SyncHealth::Down { message, .. } => Some(message),
    }
}
