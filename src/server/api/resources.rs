//! `GET` and `POST /v1/resources`.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts as _, Request, State},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use schemars::SchemaGenerator;
use serde_json::{Map, Value};

use super::{
    drift_details::Phrases,
    parallel_body::{NobodyReads, Pieces, json_in_turns},
    params::{Listed, NoQuery, Order, ResourceQuery, of_url},
    response::{Problem, Tag},
    service_endpoints::Reach,
    view::{KindView, Light, ListView, ResourceView},
};
use crate::{
    config::Settings,
    engine::{Entry, KindState, Snapshot},
    server::{
        Exposed,
        auth::{BodyNamespace, Caller},
        query::is_of_type,
        values::Values,
    },
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
    let tag = Tag::new(&exposed, &caller, &snapshot, settings.prices.as_ref(), &parts.uri);
    tag.unless_known(&parts.headers, async {
        match Question::new(query, &exposed, &caller) {
            Ok(question) => {
                let (values, now) = (caller.values(), exposed.clock.now());
                answer(question, values, now, settings, snapshot).await
            }
            Err(problem) => problem.into_response(),
        }
    })
    .await
}

/// `POST /v1/resources`: the same question as JSON.
pub(crate) async fn post_resources(State(exposed): State<Arc<Exposed>>, request: Request) -> Response {
    answer_post(exposed, request).await.unwrap_or_else(IntoResponse::into_response)
}

async fn answer_post(exposed: Arc<Exposed>, request: Request) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    NoQuery::from_request_parts(&mut parts, &exposed).await?;
    let query = ResourceQuery::of_body(&parts.headers, body).await?;
    // What the caller may see there has to be asked as if the URL said it.
    parts.extensions.insert(BodyNamespace(query.namespace.clone().unwrap_or_default()));
    let caller = Caller::from_request_parts(&mut parts, &exposed).await?;
    let (settings, snapshot) = (exposed.settings(), caller.snapshot());
    let question = Question::new(query, &exposed, &caller)?;
    let (values, now) = (caller.values(), exposed.clock.now());
    Ok(answer(question, values, now, settings, snapshot).await)
}

/// What was asked, and can be answered.
struct Question {
    query: ResourceQuery,
    namespace: String,
    order: Order,
    fields: Option<Vec<String>>,
}

impl Question {
    fn new(query: ResourceQuery, exposed: &Exposed, caller: &Caller) -> Result<Self, Problem> {
        let namespace = query.namespace(exposed)?.to_owned();
        caller.check_namespace(&namespace)?;
        let order = Order::parse(query.sort.as_deref().unwrap_or("name"))?;
        let fields = query.fields.as_deref().map(selected).transpose()?;
        query.check_page()?;
        Ok(Self { query, namespace, order, fields })
    }

    /// All that was asked for, in order.
    fn find<'a>(&self, snapshot: &'a Snapshot) -> Vec<Listed<'a>> {
        let wanted = self.query.resource_type.as_deref().filter(|own| !own.is_empty());
        let is_wanted = |state: &KindState| wanted.is_none_or(|own| is_of_type(&state.kind, own));
        let kinds = snapshot.kinds.iter().enumerate().filter(|(_, state)| is_wanted(state));
        let found = kinds.flat_map(|(place, state)| {
            state.blocks.entries().map(move |entry| Listed { place, state, entry })
        });
        self.order.sort(found.filter(|own| self.query.wants(own.entry)))
    }
}

/// How many objects are written at a turn: about as many as fill a piece.
const TURN: usize = 32;

/// A list that is to be written, and all that it is written from.
struct List {
    question: Question,
    values: Values,
    now: Timestamp,
    settings: Arc<Settings>,
    snapshot: Arc<Snapshot>,
    reach: Reach,
    /// How many there are before paging.
    total: usize,
    /// Each with its kind's place in the snapshot.
    page: Vec<(usize, Arc<Entry>)>,
}

async fn answer(
    question: Question,
    values: Values,
    now: Timestamp,
    settings: Arc<Settings>,
    snapshot: Arc<Snapshot>,
) -> Response {
    let found = question.find(&snapshot);
    let total = found.len();
    let page = question.query.page(found).map(|own| (own.place, own.entry.clone())).collect();
    let namespace = Some(question.namespace.clone()).filter(|own| own != "*");
    let reach = Reach::new(snapshot.clone(), namespace);
    let list = Arc::new(List { question, values, now, settings, snapshot, reach, total, page });
    let turns = list.page.len().div_ceil(TURN).max(1);
    json_in_turns(turns, |pieces| list.clone().write(turns, pieces)).await
}

impl List {
    /// Writes the part of it that is this writer's.
    async fn write(self: Arc<Self>, turns: usize, mut pieces: Pieces) -> Result<(), NobodyReads> {
        let Self { question, values, now, settings, snapshot, reach, total, page } = &*self;
        let light = Light::new(values, *now, snapshot, settings.prices.as_ref(), reach);
        let kinds: Vec<KindView<'_>> = snapshot.kinds.iter().map(|state| KindView::new(state)).collect();
        let mut phrases = Phrases::default();
        let around = ListView { resources: [(); 0], total: *total, namespace: &question.namespace };
        let around = serde_json::to_string(&around).expect("a view has only string keys");
        let (before, after) = around.split_once("[]").expect("a list without resources is an empty one");
        while let Some(turn) = pieces.turn() {
            if turn == 0 {
                pieces.text(before).await?;
                pieces.text("[").await?;
            }
            for (at, (place, entry)) in page.iter().enumerate().skip(turn * TURN).take(TURN) {
                if at > 0 {
                    pieces.text(",").await?;
                }
                let view = ResourceView::new(&kinds[*place], entry, &light, &mut phrases);
                // Only a selection of fields needs a tree for each object; the others are written as they are.
                match &question.fields {
                    None => pieces.value(&view).await?,
                    Some(fields) => pieces.value(&select(&view, fields)).await?,
                }
            }
            if turn + 1 == turns {
                pieces.text("]").await?;
                pieces.text(after).await?;
            }
            pieces.end_turn().await?;
        }
        Ok(())
    }
}

/// The fields that were asked for, which there have to be.
fn selected(fields: &str) -> Result<Vec<String>, Problem> {
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
        None => Ok(names.into_iter().map(str::to_owned).collect()),
    }
}

/// Keeps only the fields that were asked for.
fn select(view: &ResourceView<'_>, fields: &[String]) -> Value {
    let mut whole = serde_json::to_value(view).expect("a view has only string keys");
    let selected = fields.iter().map(|field| (field.clone(), whole[field].take()));
    Value::Object(selected.collect::<Map<String, Value>>())
}
