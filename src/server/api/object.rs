//! `GET /v1/resources/{kind[.group]}/{namespace or -}/{name}`: one object with everything that is known about it.

use std::{borrow::Cow, sync::Arc};

use axum::{
    extract::{Path, Request, State, rejection::PathRejection},
    response::{IntoResponse, Response},
};
use http::StatusCode;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    drift_details::FieldLabelCache,
    history::TransitionView,
    response::{ETag, Problem, json},
    rules::RuleView,
    service_endpoints::ServiceEndpoints,
    view::{KindView, ResourceView, ViewContext},
};
use crate::{
    engine::Snapshot,
    rules::Rule,
    server::{
        Exposed,
        auth::Caller,
        query::{ClaimRow, RequestedObject, TerraformJobs, matching_rules, transitions_of},
    },
    types::{ObjectKey, Source},
};

/// A longer chain of owner references is a cycle.
const MAX_OWNERS: usize = 16;

/// One object, and all that is known about it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ExplainedObject")]
pub(crate) struct ObjectView<'a> {
    #[serde(skip_deserializing)]
    api_version: String,
    pub(crate) kind: Cow<'a, str>,
    /// Empty for objects without a namespace.
    pub(crate) namespace: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    /// Whether it is there; what is declared may not be.
    pub(crate) exists: bool,
    #[serde(skip_deserializing)]
    uid: &'a str,
    #[serde(skip_deserializing)]
    resource_version: &'a str,
    /// What made it, and what made that, and so on.
    #[serde(skip_deserializing)]
    owners: Vec<OwnerView>,
    /// What each source says about it.
    pub(crate) claims: Vec<ResourceView<'a>>,
    /// The rules that have something to say about its differences, in their order.
    #[serde(skip_deserializing)]
    rules: Vec<RuleView<'a>>,
    /// What does not count, and why.
    #[serde(skip_deserializing)]
    ignored: Vec<IgnoredView<'a>>,
    /// Its transitions, newest first.
    #[serde(skip_deserializing)]
    history: Vec<TransitionView<'a>>,
}

/// An object that made another one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Owner")]
struct OwnerView {
    api_version: String,
    kind: String,
    name: String,
    /// Whether it is watched, so that its own owner is known too.
    known: bool,
}

/// A difference that does not count, and why.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Ignored")]
struct IgnoredView<'a> {
    /// The source whose claim it is in.
    source: Source,
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

pub(in crate::server) async fn object(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    path: Result<Path<(String, String, String)>, PathRejection>,
    request: Request,
) -> Response {
    let object_ref = match path {
        Ok(Path(path)) => RequestedObject::new(path),
        Err(rejection) => return Problem::bad_request(rejection.body_text()).into_response(),
    };
    if let Some(query) = request.uri().query().filter(|query| !query.is_empty()) {
        let detail = format!("unknown parameter `{query}`; this path takes none");
        return Problem::bad_request(detail).into_response();
    }
    let (settings, snapshot) = (exposed.settings(), caller.snapshot().await);
    let etag = ETag::new(&exposed, &caller, &snapshot, settings.prices.as_ref(), request.uri());
    let pool = exposed.blocking.clone();
    let explain = move || {
        let claims = object_ref.find(&snapshot);
        let Some(ClaimRow { state, entry, .. }) = claims.first() else {
            let RequestedObject { kind, namespace, name } = &object_ref;
            let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
            let detail = format!("no watched object {} {prefix}{name}", kind.trim_end_matches('.'));
            return Problem::new(StatusCode::NOT_FOUND, detail).into_response();
        };
        let object = &entry.object;
        let key = object.key();
        let (values, now) = (caller.values(), exposed.clock.now());
        let endpoints = ServiceEndpoints::new(&snapshot, Some(&key.namespace));
        let jobs = TerraformJobs::new(&snapshot, Some(&key.namespace));
        let mut labels = FieldLabelCache::default();
        let (kind, context) = (
            KindView::new(state),
            ViewContext::new(&values, now, &snapshot, settings.prices.as_ref(), &endpoints, &jobs),
        );
        json(&ObjectView {
            api_version: key.kind.api_version(),
            kind: (&*key.kind.kind).into(),
            namespace: (&*key.namespace).into(),
            name: (&*key.name).into(),
            exists: object.live().is_some(),
            uid: object.uid().unwrap_or_default(),
            resource_version: object.live().map_or("", |object| &object.resource_version),
            owners: owners(&snapshot, object.facts().owner.as_deref()),
            claims: claims
                .iter()
                .map(|row| ResourceView::new(&kind, row.entry, &context, &mut labels))
                .collect(),
            rules: rules(&caller, &snapshot, &claims, now),
            ignored: ignored(&snapshot, &claims),
            history: transitions_of(&snapshot, key).map(TransitionView::new).collect(),
        })
    };
    etag.respond(request.headers(), pool.run(explain)).await
}

fn owners(snapshot: &Snapshot, first: Option<&ObjectKey>) -> Vec<OwnerView> {
    let mut owners = Vec::new();
    let mut next = first.cloned();
    while let Some(key) = next.take().filter(|_| owners.len() < MAX_OWNERS) {
        let mut kinds = snapshot.kinds.iter().filter(|state| state.kind.is_same_type(&key.kind));
        let owner = kinds.find_map(|state| {
            // An owner reference has no namespace of its own, so `key` has that of the owned object.
            let namespace = if state.kind.namespaced { &*key.namespace } else { "" };
            state.blocks.object(namespace, &key.name)
        });
        next = owner.and_then(|object| object.facts.owner.as_deref().cloned());
        owners.push(OwnerView {
            api_version: key.kind.api_version(),
            kind: key.kind.kind.to_string(),
            name: key.name.to_string(),
            known: owner.is_some(),
        });
    }
    owners
}

fn rules<'a>(
    caller: &Caller,
    snapshot: &'a Snapshot,
    claims: &[ClaimRow<'_>],
    now: Timestamp,
) -> Vec<RuleView<'a>> {
    let rules = matching_rules(snapshot, claims).into_iter();
    rules.map(|(rule, matches)| RuleView::new(rule, matches, now, caller.sees_everything())).collect()
}

fn ignored<'a>(snapshot: &'a Snapshot, claims: &[ClaimRow<'a>]) -> Vec<IgnoredView<'a>> {
    let rules = snapshot.rules.set();
    let differences = claims.iter().flat_map(|row| {
        let claim = &row.entry.claim;
        claim.verdict.ignored_differences().map(|difference| (claim.source, difference))
    });
    let ignored = differences.filter_map(|(source, difference)| {
        let ignored_by = difference.ignored_by.as_ref()?;
        let rule = ignored_by.rule().and_then(|name| rules.position(name)).map(|at| &rules.rules()[at]);
        Some(IgnoredView {
            source,
            path: difference.finding.path.as_str(),
            rule: ignored_by.as_str(),
            reason: rule.and_then(|rule| rule.spec().reason.as_deref()),
            owner: rule.and_then(|rule| rule.spec().owner.as_deref()),
            expires: rule.and_then(Rule::expires),
        })
    });
    ignored.collect()
}
