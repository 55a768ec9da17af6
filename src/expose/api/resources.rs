//! `GET /v1/resources` and one object of it.

use std::{cmp::Ordering, sync::Arc};

use axum::{
    Json,
    extract::{
        Path, Query, State,
        rejection::{PathRejection, QueryRejection},
    },
    response::{IntoResponse, Response},
};
use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    problem::Problem,
    view::{ListView, ResourceView, TransitionView, deployment_id},
};
use crate::{
    expose::{
        Exposed,
        access::Caller,
        lookup::{Found, Named, history_of, is_of_type},
        runs::Runs,
    },
    model::Severity,
    state::Entry,
};

/// What to look for.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ResourceQuery {
    #[serde(default)]
    namespace: String,
    resource_type: Option<String>,
    resource_name: Option<String>,
    deployment_id: Option<String>,
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
    sort: Option<String>,
    fields: Option<String>,
}

/// `GET /v1/resources`.
pub(crate) async fn resources(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    query: Result<Query<ResourceQuery>, QueryRejection>,
) -> Response {
    let query = match query {
        Ok(Query(query)) => query,
        Err(rejection) => return Problem::bad_request(rejection.body_text()).into_response(),
    };
    list(&exposed, &caller, &query).unwrap_or_else(IntoResponse::into_response)
}

fn list(exposed: &Exposed, caller: &Caller, query: &ResourceQuery) -> Result<Response, Problem> {
    match &*query.namespace {
        "" => {
            return Err(Problem::bad_request("`namespace` is required; `*` asks for every namespace"));
        }
        "*" => {}
        namespace if !exposed.settings().allows_namespace(namespace) => {
            let detail = format!("namespace `{namespace}` is not among those this exporter watches");
            return Err(Problem::new(StatusCode::FORBIDDEN, detail));
        }
        _ => {}
    }
    let order = Order::parse(query.sort.as_deref().unwrap_or("name"))?;
    let snapshot = caller.snapshot();
    let mut found: Vec<Found<'_>> = Vec::new();
    let wanted = query.resource_type.as_deref();
    for state in
        snapshot.kinds.iter().filter(|state| wanted.is_none_or(|wanted| is_of_type(&state.kind, wanted)))
    {
        found.extend(
            state.blocks.entries().filter(|entry| query.wants(entry)).map(|entry| (&**state, &**entry)),
        );
    }
    let total = found.len();
    found.sort_unstable_by(|a, b| order.compare(a, b));
    let now = exposed.clock.now();
    let page = found.into_iter().skip(query.offset).take(query.limit.unwrap_or(usize::MAX));
    let (values, runs) = (caller.values(), Runs::of(&snapshot));
    let views = page.map(|(state, entry)| ResourceView::new(state, entry, &runs, &values, now));
    let namespace = query.namespace.as_str();
    // Only a selection of fields needs a tree for each object; the others are written as they are.
    Ok(match query.fields.as_deref().filter(|fields| !fields.is_empty()) {
        None => Json(ListView { resources: views.collect(), total, namespace }).into_response(),
        Some(fields) => {
            let fields: Vec<&str> =
                fields.split(',').map(str::trim).filter(|field| !field.is_empty()).collect();
            let resources =
                views.map(|view| select(&view, &fields)).collect::<Result<Vec<Value>, Problem>>()?;
            Json(ListView { resources, total, namespace }).into_response()
        }
    })
}

impl ResourceQuery {
    fn wants(&self, entry: &Entry) -> bool {
        let object = &entry.object;
        let is = |wanted: Option<&str>, own: &str| wanted.is_none_or(|wanted| wanted == own);
        (self.namespace == "*" || self.namespace == *object.key.namespace)
            && is(self.resource_name.as_deref(), &object.key.name)
            && is(self.deployment_id.as_deref(), deployment_id(entry))
    }
}

/// Keeps only the fields that were asked for.
fn select(view: &ResourceView<'_>, fields: &[&str]) -> Result<Value, Problem> {
    let whole = serde_json::to_value(view).expect("a view has only string keys");
    let mut selected = Map::new();
    for field in fields {
        let value =
            whole.get(field).ok_or_else(|| Problem::bad_request(format!("there is no field `{field}`")))?;
        selected.insert((*field).to_owned(), value.clone());
    }
    Ok(Value::Object(selected))
}

#[derive(Clone, Copy)]
struct Order {
    by: SortKey,
    descending: bool,
}

#[derive(Clone, Copy)]
enum SortKey {
    Name,
    Type,
    Verdict,
    Onset,
    Severity,
}

impl Order {
    fn parse(text: &str) -> Result<Self, Problem> {
        let (descending, key) = text.strip_prefix('-').map_or((false, text), |key| (true, key));
        let by = match key {
            "name" => SortKey::Name,
            "type" => SortKey::Type,
            "verdict" => SortKey::Verdict,
            "onset" => SortKey::Onset,
            "severity" => SortKey::Severity,
            _ => {
                let detail =
                    format!("cannot sort by `{key}`; there are name, type, verdict, onset and severity");
                return Err(Problem::bad_request(detail));
            }
        };
        Ok(Self { by, descending })
    }

    /// Equal ones follow by namespace, name, type and source, so that pages never overlap.
    fn compare(self, a: &Found<'_>, b: &Found<'_>) -> Ordering {
        let first = match self.by {
            SortKey::Name => Ordering::Equal,
            SortKey::Type => a.0.kind.cmp(&b.0.kind),
            SortKey::Verdict => a.0.shown_verdict(a.1).cmp(&b.0.shown_verdict(b.1)),
            SortKey::Onset => onset(a).cmp(&onset(b)),
            SortKey::Severity => severity(a).cmp(&severity(b)),
        };
        let (one, other) = (&a.1.object.key, &b.1.object.key);
        let ordering = first
            .then_with(|| one.cmp_within_kind(&other.namespace, &other.name))
            .then_with(|| one.kind.cmp(&other.kind))
            .then_with(|| a.1.claim.source.cmp(&b.1.claim.source));
        if self.descending { ordering.reverse() } else { ordering }
    }
}

fn onset(found: &Found<'_>) -> Option<Timestamp> {
    found.1.claim.verdict.episode().map(|episode| episode.onset)
}

fn severity(found: &Found<'_>) -> Option<Severity> {
    found.1.claim.verdict.episode()?.differences.first().map(|worst| worst.severity)
}

/// `GET /v1/resources/{kind[.group]}/{namespace or -}/{name}`.
pub(crate) async fn object(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    path: Result<Path<(String, String, String)>, PathRejection>,
) -> Response {
    let named = match path {
        Ok(Path(path)) => Named::new(path),
        Err(rejection) => return Problem::bad_request(rejection.body_text()).into_response(),
    };
    let snapshot = caller.snapshot();
    let Some((state, entries)) = named.find(&snapshot) else {
        let detail = format!("no watched object {} {}/{}", named.kind, named.namespace, named.name);
        return Problem::new(StatusCode::NOT_FOUND, detail).into_response();
    };
    let object = &entries[0].object;
    let key = &object.key;
    let now = exposed.clock.now();
    let (values, runs) = (caller.values(), Runs::of(&snapshot));
    let claims: Vec<_> =
        entries.iter().map(|entry| ResourceView::new(state, entry, &runs, &values, now)).collect();
    let history: Vec<_> = history_of(&snapshot, key).map(TransitionView::new).collect();
    Json(json!({
        "apiVersion": key.kind.api_version(),
        "kind": key.kind.kind,
        "namespace": key.namespace,
        "name": key.name,
        "exists": object.exists,
        "uid": object.uid,
        "resourceVersion": object.resource_version,
        "claims": claims,
        "history": history,
    }))
    .into_response()
}
