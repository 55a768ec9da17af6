//! `GET` and `POST /v1/resources`.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts as _, Request, State},
    response::{IntoResponse, Response},
};
use schemars::SchemaGenerator;
use serde_json::{Map, Value};

use super::{
    answer::{Tag, json},
    problem::Problem,
    query::{NoQuery, Order, ResourceQuery, of_url},
    view::{Light, ListView, ResourceView},
};
use crate::{
    expose::{
        Exposed,
        access::{Caller, InBody},
        lookup::{Found, is_of_type},
    },
    settings::Prices,
    state::Snapshot,
};

/// `GET /v1/resources`: nothing is sent that the caller has already.
pub(crate) async fn resources(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    request: Request,
) -> Response {
    let (mut parts, _) = request.into_parts();
    let query = match of_url::<ResourceQuery>(&mut parts).await {
        Ok(query) => query,
        Err(problem) => return problem.into_response(),
    };
    let (settings, snapshot) = (exposed.settings(), caller.snapshot());
    let prices = settings.prices.as_ref();
    Tag::new(&exposed, &caller, &snapshot, prices, &parts.uri).unless_known(&parts.headers, || {
        list(&exposed, &caller, &snapshot, prices, &query).unwrap_or_else(IntoResponse::into_response)
    })
}

/// `POST /v1/resources`: the same question as JSON.
pub(crate) async fn post_resources(State(exposed): State<Arc<Exposed>>, request: Request) -> Response {
    answer_post(&exposed, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer_post(exposed: &Arc<Exposed>, request: Request) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    NoQuery::from_request_parts(&mut parts, exposed).await?;
    let query = ResourceQuery::of_body(&parts.headers, body).await?;
    // What the caller may see there has to be asked as if the URL said it.
    parts.extensions.insert(InBody(query.namespace.clone().unwrap_or_default()));
    let caller = Caller::from_request_parts(&mut parts, exposed).await?;
    let (settings, snapshot) = (exposed.settings(), caller.snapshot());
    list(exposed, &caller, &snapshot, settings.prices.as_ref(), &query)
}

fn list(
    exposed: &Exposed,
    caller: &Caller,
    snapshot: &Snapshot,
    prices: Option<&Prices>,
    query: &ResourceQuery,
) -> Result<Response, Problem> {
    let namespace = query.namespace(exposed)?;
    caller.check_namespace(namespace)?;
    let order = Order::parse(query.sort.as_deref().unwrap_or("name"))?;
    let fields = query.fields.as_deref().map(selected).transpose()?;
    let mut found: Vec<Found<'_>> = Vec::new();
    let wanted = query.resource_type.as_deref().filter(|own| !own.is_empty());
    for state in
        snapshot.kinds.iter().filter(|state| wanted.is_none_or(|wanted| is_of_type(&state.kind, wanted)))
    {
        found.extend(
            state.blocks.entries().filter(|entry| query.wants(entry)).map(|entry| (&**state, &**entry)),
        );
    }
    let total = found.len();
    found.sort_unstable_by(|a, b| order.compare(a, b));
    let light = Light::new(exposed, caller, snapshot, prices, Some(namespace).filter(|own| *own != "*"));
    let views = query.page(found)?.map(|(state, entry)| ResourceView::new(state, entry, &light));
    // Only a selection of fields needs a tree for each object; the others are written as they are.
    Ok(match fields {
        None => json(&ListView { resources: views.collect(), total, namespace }),
        Some(fields) => {
            let resources = views.map(|view| select(&view, &fields)).collect();
            json(&ListView { resources, total, namespace })
        }
    })
}

/// The fields that were asked for, which there have to be.
fn selected(fields: &str) -> Result<Vec<&str>, Problem> {
    let schema = SchemaGenerator::default().into_root_schema_for::<ResourceView<'_>>();
    let is_field = |name: &str| schema.get("properties").is_some_and(|own| own.get(name).is_some());
    let mut names: Vec<&str> = fields.split(',').map(str::trim).filter(|field| !field.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    match names.iter().find(|name| !is_field(name)) {
        Some(name) => {
            Err(Problem::bad_request(format!("there is no field `{name}`; /openapi.json lists all")))
        }
        None if names.is_empty() => Err(Problem::bad_request("`fields` names no field")),
        None => Ok(names),
    }
}

/// Keeps only the fields that were asked for.
fn select(view: &ResourceView<'_>, fields: &[&str]) -> Value {
    let mut whole = serde_json::to_value(view).expect("a view has only string keys");
    let selected = fields.iter().map(|field| ((*field).to_owned(), whole[*field].take()));
    Value::Object(selected.collect::<Map<String, Value>>())
}
