//! `GET /v1/resources/{kind[.group]}/{namespace or -}/{name}`: one object, explained.

use std::{collections::BTreeSet, sync::Arc};

use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    response::{IntoResponse, Response},
};
use http::StatusCode;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    drift_details::Phrases,
    history::TransitionView,
    openapi::OneOf,
    response::{Problem, Tag, json},
    rules::RuleView,
    service_endpoints::Reach,
    view::{KindView, Light, ResourceView},
};
use crate::{
    engine::{Entry, Snapshot},
    server::{
        Exposed,
        auth::Caller,
        query::{Named, history_of},
    },
    types::{ObjectKey, Source},
};

/// An owner's owner, and so on: longer chains than this are circles.
const LONGEST_CHAIN: usize = 16;

/// One object, and all that is known about it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedObject")]
pub(super) struct ObjectView<'a> {
    api_version: String,
    kind: &'a str,
    /// Empty for objects without a namespace.
    namespace: &'a str,
    name: &'a str,
    /// Whether it is there; what is declared may not be.
    exists: bool,
    uid: &'a str,
    resource_version: &'a str,
    /// What made it, and what made that, and so on.
    owners: Vec<OwnerView>,
    /// What each source says about it.
    claims: Vec<ResourceView<'a>>,
    /// The rules that have something to say about its differences, in their order.
    rules: Vec<RuleView<'a>>,
    /// What does not count, and why.
    ignored: Vec<IgnoredView<'a>>,
    /// Its transitions, newest first.
    history: Vec<TransitionView<'a>>,
}

/// An object that made another one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Owner")]
pub(super) struct OwnerView {
    api_version: String,
    kind: String,
    name: String,
    /// Whether it is watched, so that its own owner is known too.
    known: bool,
}

/// A difference that does not count, and why.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Ignored")]
pub(super) struct IgnoredView<'a> {
    /// The source whose claim it is in.
    #[schemars(with = "OneOf<Source>")]
    source: &'static str,
    path: &'a str,
    /// The rule because of which.
    rule: &'a str,
    /// Why there is such a rule.
    reason: Option<&'a str>,
    /// Who answers for it.
    owner: Option<&'a str>,
    /// Until when it applies.
    expires: Option<Timestamp>,
}

pub(crate) async fn object(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    path: Result<Path<(String, String, String)>, PathRejection>,
    request: Request,
) -> Response {
    let named = match path {
        Ok(Path(path)) => Named::new(path),
        Err(rejection) => return Problem::bad_request(rejection.body_text()).into_response(),
    };
    if let Some(unknown) = request.uri().query().filter(|query| !query.is_empty()) {
        let detail = format!("one object has no parameters, so nobody knows what `{unknown}` means");
        return Problem::bad_request(detail).into_response();
    }
    let (settings, snapshot) = (exposed.settings(), caller.snapshot());
    let prices = settings.prices.as_ref();
    let tag = Tag::new(&exposed, &caller, &snapshot, prices, request.uri());
    tag.unless_known(request.headers(), async {
        let Some((state, entries)) = named.find(&snapshot) else {
            let Named { kind, namespace, name } = &named;
            let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
            let detail = format!("no watched object {} {place}{name}", kind.trim_end_matches('.'));
            return Problem::new(StatusCode::NOT_FOUND, detail).into_response();
        };
        let object = &entries[0].object;
        let key = &object.key;
        let (values, now) = (caller.values(), exposed.clock.now());
        let reach = Reach::new(snapshot.clone(), Some(key.namespace.to_string()));
        let mut phrases = Phrases::default();
        let (kind, light) = (KindView::new(state), Light::new(&values, now, &snapshot, prices, &reach));
        json(&ObjectView {
            api_version: key.kind.api_version(),
            kind: &key.kind.kind,
            namespace: &key.namespace,
            name: &key.name,
            exists: object.exists,
            uid: &object.uid,
            resource_version: &object.resource_version,
            owners: owners(&snapshot, object.facts.owner.as_deref()),
            claims: entries
                .iter()
                .map(|entry| ResourceView::new(&kind, entry, &light, &mut phrases))
                .collect(),
            rules: rules(&caller, &snapshot, entries, now),
            ignored: ignored(&snapshot, entries),
            history: history_of(&snapshot, key).map(TransitionView::new).collect(),
        })
    })
    .await
}

/// The chain of owners, as far as it is known.
fn owners(snapshot: &Snapshot, first: Option<&ObjectKey>) -> Vec<OwnerView> {
    let mut owners = Vec::new();
    let mut next = first.cloned();
    while let Some(key) = next.take().filter(|_| owners.len() < LONGEST_CHAIN) {
        let kinds = snapshot.kinds.iter().filter(|state| state.kind.is_same_type(&key.kind));
        // A cluster's own object is named without a namespace, whoever names it.
        let mut places = kinds.map(|state| (state, if state.kind.namespaced { &*key.namespace } else { "" }));
        let known = places.find_map(|(state, namespace)| state.blocks.object(namespace, &key.name));
        next = known.and_then(|object| object.facts.owner.as_deref().cloned());
        owners.push(OwnerView {
            api_version: key.kind.api_version(),
            kind: key.kind.kind.to_string(),
            name: key.name.to_string(),
            known: known.is_some(),
        });
    }
    owners
}

/// The rules that match anything in these claims.
fn rules<'a>(
    caller: &Caller,
    snapshot: &'a Snapshot,
    entries: &[Arc<Entry>],
    now: Timestamp,
) -> Vec<RuleView<'a>> {
    let differences = entries.iter().flat_map(|entry| entry.claim.verdict.differences());
    let names = differences.flat_map(|difference| &*difference.matched);
    let places: BTreeSet<usize> = names.filter_map(|name| snapshot.rules.set().position(name)).collect();
    let all = snapshot.rules.matches().enumerate().filter(|(at, _)| places.contains(at));
    let views = all.map(|(_, (rule, matches))| RuleView::new(rule, matches, now));
    if caller.sees_everything() { views.collect() } else { views.map(RuleView::without_settings).collect() }
}

fn ignored<'a>(snapshot: &'a Snapshot, entries: &'a [Arc<Entry>]) -> Vec<IgnoredView<'a>> {
    let rules = snapshot.rules.set();
    let differences = entries.iter().flat_map(|entry| {
        entry.claim.verdict.ignored_differences().map(|difference| (entry.claim.source, difference))
    });
    let ignored = differences.filter_map(|(source, difference)| {
        let name = difference.ignored_by.as_deref()?;
        let rule = rules.position(name).map(|at| &rules.rules()[at]);
        Some(IgnoredView {
            source: source.as_str(),
            path: &difference.finding.path,
            rule: name,
            reason: rule.and_then(|rule| rule.spec().reason.as_deref()),
            owner: rule.and_then(|rule| rule.spec().owner.as_deref()),
            expires: rule.and_then(crate::rules::Rule::expires),
        })
    });
    ignored.collect()
}
