//! `GET /openapi.json`: the API as OpenAPI 3.1, made from the types that answers are made from.
//! What can be asked of the API, and what is answered: the rows that `/openapi.json` is made from.
//! Parts of the JSON Schemas of answers.

use std::{borrow::Cow, marker::PhantomData, sync::Arc};

use axum::{extract::State, response::Response};
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json as value};

use super::{
    events::EventsQuery,
    gate::{ClosedGate, GateQuery, GateView},
    history::{HistoryQuery, HistoryView},
    object::ObjectView,
    params::{NoQuery, ResourceQuery},
    response::{ProblemView, json},
    rules::RulesView,
    status::StatusView,
    view::{ListView, ResourceView},
};
use crate::{
    server::{Exposed, auth::AuthMethods},
    types::ClosedSet,
};

/// What path parameters mean.
const PLACES: &[(&str, &str)] = &[
    ("kind", "Kind or plural, with or without `.group`: `deployment`, `deployments.apps`"),
    ("namespace", "The namespace; `-` for objects without one"),
    ("name", "The object's name"),
];

pub(crate) async fn openapi(State(exposed): State<Arc<Exposed>>, _: NoQuery) -> Response {
    json(&document(exposed.auth.methods()))
}

/// The document, for a server that wants to have proved who asks, or does not.
fn document(proofs: AuthMethods) -> Value {
    let settings = |settings: SchemaSettings| {
        settings.with(|own| {
            own.definitions_path = "/components/schemas".into();
            own.meta_schema = None;
        })
    };
    // What is asked is read, what is answered is written: a field that may be left out of a question is always in an answer.
    let mut asked = settings(SchemaSettings::draft2020_12()).into_generator();
    let mut answered = settings(SchemaSettings::draft2020_12()).for_serialize().into_generator();
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| value!({}));
        let mut description = describe(operation, &mut asked, &mut answered);
        for answer in denials(proofs) {
            let responses = &mut description["responses"];
            if responses.get(answer.status.to_string()).is_none() {
                responses[answer.status.to_string()] = response(answer, &mut answered);
            }
        }
        path[operation.method] = description;
    }
    let mut schemas = answered.take_definitions(true);
    let selected = schemas.get("Resource").cloned().map(without_required);
    schemas.extend(asked.take_definitions(true));
    if let (Some(selected), Some(list)) = (selected, schemas.get("ResourceList").cloned()) {
        schemas.insert("SelectedResource".to_owned(), selected);
        let mut list = list;
        list["properties"]["resources"]["items"] = value!({"$ref": "#/components/schemas/SelectedResource"});
        schemas.insert("SelectedResourceList".to_owned(), list);
    }
    let (ways, required) = security(proofs);
    value!({
        "openapi": "3.1.0",
        "info": {
            "title": "drift-exporter",
            "description": "Which Kubernetes objects are not as they were declared, in which fields, by what tool, since when.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": ways},
        "security": required,
    })
}

/// The ways to prove who asks, and that all of them are needed; nothing where everybody is answered.
fn security(AuthMethods { password, token, certificate }: AuthMethods) -> (Map<String, Value>, Vec<Value>) {
    let ways = [
        (password, "password", value!({"type": "http", "scheme": "basic"})),
        (token, "token", value!({"type": "http", "scheme": "bearer"})),
        (certificate, "certificate", value!({"type": "mutualTLS"})),
    ];
    let schemes: Map<String, Value> = ways
        .into_iter()
        .filter(|(wanted, ..)| *wanted)
        .map(|(_, name, scheme)| (name.to_owned(), scheme))
        .collect();
    let required: Map<String, Value> = schemes.keys().map(|name| (name.clone(), value!([]))).collect();
    let required = if required.is_empty() { Vec::new() } else { vec![Value::Object(required)] };
    (schemes, required)
}

/// What any question may be answered with, where who asks has to be proved.
fn denials(proofs: AuthMethods) -> impl Iterator<Item = &'static Answer> {
    let any = (proofs.password || proofs.token).then_some(&DENIED);
    let of_accounts = if proofs.token { DENIED_TO_ACCOUNTS } else { &[] };
    any.into_iter().chain(of_accounts)
}

/// A resource of which only some fields were asked for.
fn without_required(mut resource: Value) -> Value {
    if let Some(members) = resource.as_object_mut() {
        members.remove("required");
        members.insert("description".to_owned(), "The fields of a resource that `fields` names.".into());
    }
    resource
}

fn describe(operation: &Operation, asked: &mut SchemaGenerator, answered: &mut SchemaGenerator) -> Value {
    let mut parameters = path_parameters(operation.path);
    if let Some(query) = operation.query {
        parameters.extend(query_parameters(&query(asked).to_value(), operation.required, asked));
    }
    parameters.extend(operation.headers.iter().map(|(name, meaning)| {
        value!({"name": name, "in": "header", "description": meaning, "schema": {"type": "string"}})
    }));
    let responses: Map<String, Value> =
        operation.answers.iter().map(|own| (own.status.to_string(), response(own, answered))).collect();
    let mut description = value!({
        "operationId": operation.id, "summary": operation.summary, "parameters": parameters, "responses": responses,
    });
    if let Some(body) = operation.body {
        let schema = body(asked).to_value();
        description["requestBody"] =
            value!({"required": true, "content": {"application/json": {"schema": schema}}});
    }
    description
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| {
            let meaning = PLACES.iter().find(|(own, _)| *own == name).map(|(_, meaning)| *meaning);
            value!({"name": name, "in": "path", "required": true, "description": meaning, "schema": {"type": "string"}})
        })
        .collect()
}

/// Every property of a query's type is a parameter.
fn query_parameters(reference: &Value, required: &[&str], asked: &SchemaGenerator) -> Vec<Value> {
    let name = reference["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    let properties = asked.definitions().get(name).and_then(|own| own["properties"].as_object());
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let description = schema.as_object_mut().and_then(|own| own.remove("description"));
        value!({
            "name": name, "in": "query", "required": required.contains(&name.as_str()), "description": description,
            "schema": schema,
        })
    };
    properties.into_iter().flatten().map(parameter).collect()
}

fn response(answer: &Answer, answered: &mut SchemaGenerator) -> Value {
    let mut response = value!({"description": answer.meaning});
    let (media, schema) = match answer.content {
        Content::Nothing => return response,
        Content::Json(schema) => ("application/json", schema(answered).to_value()),
        Content::Problem(schema) => ("application/problem+json", schema(answered).to_value()),
        Content::Events => ("text/event-stream", value!({"type": "string"})),
    };
    let list = value!({"$ref": "#/components/schemas/ResourceList"});
    let schema = if schema == list {
        value!({"anyOf": [list, {"$ref": "#/components/schemas/SelectedResourceList"}]})
    } else {
        schema
    };
    response["content"] = value!({media: {"schema": schema}});
    response
}

/// Makes a schema, and whatever else it needs.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// One method of one path.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) path: &'static str,
    pub(super) method: &'static str,
    /// Its name, by which generated clients call it.
    pub(super) id: &'static str,
    /// What it is good for, in a sentence.
    pub(super) summary: &'static str,
    /// What may stand in the query.
    pub(super) query: Option<SchemaOf>,
    /// Parameters of the query that have to be there.
    pub(super) required: &'static [&'static str],
    /// What the body is.
    pub(super) body: Option<SchemaOf>,
    /// Headers that change the answer.
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) answers: &'static [Answer],
}

/// One answer that may be given.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) meaning: &'static str,
    pub(super) content: Content,
}

/// What is in the body of an answer.
#[derive(Debug)]
pub(super) enum Content {
    Nothing,
    Json(SchemaOf),
    Problem(SchemaOf),
    Events,
}

/// What every operation begins with.
const ASKING: Operation = Operation {
    path: "",
    method: "get",
    id: "",
    summary: "",
    query: None,
    required: &[],
    body: None,
    headers: &[],
    answers: &[],
};

const IF_NONE_MATCH: (&str, &str) =
    ("If-None-Match", "An `ETag` of an earlier answer, which is not sent again if it still holds");

const UNCHANGED: Answer = Answer {
    status: 304,
    meaning: "Nothing has changed since the answer with this `ETag`",
    content: Content::Nothing,
};

/// What is answered where a list cannot even be begun.
const UNMADE: Answer = problem(500, "The answer could not be made");

/// Everything that can be asked.
pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        path: "/v1/resources",
        id: "listResources",
        summary: "The state of resources: what each source declares, what is there, and how they differ",
        query: Some(schema::<ResourceQuery>),
        required: &["namespace"],
        headers: &[IF_NONE_MATCH],
        answers: &[
            ok("The claims, in order", list),
            UNCHANGED,
            problem(400, "The question is not understood"),
            problem(403, "The namespace may not be asked for"),
            UNMADE,
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/resources",
        method: "post",
        id: "queryResources",
        summary: "The same, with the question as JSON",
        body: Some(schema::<ResourceQuery>),
        answers: &[
            ok("The claims, in order", list),
            problem(400, "The question is not understood"),
            problem(403, "The namespace may not be asked for"),
            problem(413, "The body is too long for a question"),
            problem(415, "The body is not JSON"),
            UNMADE,
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/resources/{kind}/{namespace}/{name}",
        id: "explainObject",
        summary: "One object, explained: all claims, differences, owners, rules, what is ignored and why, history",
        headers: &[IF_NONE_MATCH],
        answers: &[
            ok("The object", schema::<ObjectView<'_>>),
            UNCHANGED,
            problem(400, "The question is not understood"),
            problem(404, "No such object is watched or declared"),
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/history",
        id: "listTransitions",
        summary: "What moved from one verdict to another, newest first",
        query: Some(schema::<HistoryQuery>),
        answers: &[
            ok("The transitions", schema::<HistoryView<'_>>),
            problem(400, "The question is not understood"),
            problem(403, "The namespace may not be asked for"),
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/events",
        id: "listen",
        summary: "Transitions as they happen, as Server-Sent Events",
        query: Some(schema::<EventsQuery>),
        headers: &[("Last-Event-ID", "The sequence number of the last transition that the client has seen")],
        answers: &[
            Answer { status: 200, meaning: "Events until the client goes", content: Content::Events },
            problem(400, "The question is not understood"),
            problem(503, "Too many listen already"),
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/rules",
        id: "listRules",
        summary: "The rules that hold, and how many differences each of them matches",
        answers: &[
            ok("The rules, in their order", schema::<RulesView<'_>>),
            problem(400, "The question is not understood"),
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/gate",
        id: "askGate",
        summary: "Whether a pipeline may go on: nothing has drifted, and nothing is unknown",
        query: Some(schema::<GateQuery>),
        answers: &[
            ok("It may", schema::<GateView>),
            problem(400, "The question is not understood"),
            problem(403, "The namespace may not be asked for"),
            Answer {
                status: 409,
                meaning: "It may not, and why",
                content: Content::Problem(schema::<ClosedGate>),
            },
            problem(503, "Not everything was looked at yet"),
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/status",
        id: "showStatus",
        summary: "How the exporter itself fares: settings, streams, sources, baselines",
        answers: &[
            ok("The status", schema::<StatusView<'_>>),
            problem(400, "The question is not understood"),
        ],
        ..ASKING
    },
];

/// What is answered to those who have to prove who they are, with a password or a token.
pub(super) const DENIED: Answer = problem(401, "The credentials are missing or not good");

/// What is answered to those whose token is good, where it says nothing else of these.
pub(super) const DENIED_TO_ACCOUNTS: &[Answer] = &[
    problem(403, "The account may not ask for this path, or list anything that it asks for"),
    problem(503, "The API server does not say who may ask for what"),
];

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Whole resources, unless `fields` names some of their fields.
fn list(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<ListView<'_, Vec<ResourceView<'_>>>>()
}

const fn ok(meaning: &'static str, schema: SchemaOf) -> Answer {
    Answer { status: 200, meaning, content: Content::Json(schema) }
}

const fn problem(status: u16, meaning: &'static str) -> Answer {
    Answer { status, meaning, content: Content::Problem(schema::<ProblemView>) }
}

/// Stands in schemas for a text that is one word of a closed set.
pub(super) struct OneOf<T>(PhantomData<T>);

impl<T: ClosedSet> JsonSchema for OneOf<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Word".into()
    }

    fn schema_id() -> Cow<'static, str> {
        std::any::type_name::<T>().into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = T::members().iter().map(|member| member.word()).collect();
        json_schema!({"type": "string", "enum": words})
    }
}

#[cfg(test)]
mod tests {
    use super::{OPERATIONS, document};
    use crate::server::{ROUTES, auth::AuthMethods};

    #[test]
    fn every_route_of_the_api_is_described() {
        for route in ROUTES.iter().filter(|route| route.path.starts_with("/v1/")) {
            assert!(OPERATIONS.iter().any(|own| own.path == route.path), "{} is not described", route.path);
        }
        for operation in OPERATIONS {
            assert!(ROUTES.iter().any(|own| own.path == operation.path), "there is no {}", operation.path);
        }
    }

    #[test]
    fn every_part_of_the_document_says_what_it_is() {
        let document = document(AuthMethods { password: true, token: true, certificate: true });
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                for parameter in operation["parameters"].as_array().unwrap() {
                    assert!(parameter["description"].is_string(), "{method} {path}: {parameter}");
                }
            }
        }
        let mut references = Vec::new();
        find_references(&document, &mut references);
        assert!(references.len() > 20, "{references:?}");
        for reference in references {
            let place = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(place).is_some(), "{reference} leads nowhere");
        }
    }

    fn find_references(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(members) => {
                found.extend(members.get("$ref").and_then(|own| own.as_str()).map(str::to_owned));
                members.values().for_each(|own| find_references(own, found));
            }
            serde_json::Value::Array(elements) => elements.iter().for_each(|own| find_references(own, found)),
            _ => {}
        }
    }
}
