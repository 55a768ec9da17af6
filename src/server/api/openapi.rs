//! `GET /openapi.json`: the API as OpenAPI 3.1, made from the types that answers are made from.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use schemars::{SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json as value};

use super::{
    answer::json,
    operations::{Answer, Content, DENIED, DENIED_TO_ACCOUNTS, OPERATIONS, Operation},
    query::NoQuery,
};
use crate::server::{Exposed, access::Proofs};

/// What path parameters mean.
const PLACES: &[(&str, &str)] = &[
    ("kind", "Kind or plural, with or without `.group`: `deployment`, `deployments.apps`"),
    ("namespace", "The namespace; `-` for objects without one"),
    ("name", "The object's name"),
];

pub(crate) async fn openapi(State(exposed): State<Arc<Exposed>>, _: NoQuery) -> Response {
    json(&document(exposed.access.proofs()))
}

/// The document, for a server that wants to have proved who asks, or does not.
fn document(proofs: Proofs) -> Value {
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
fn security(Proofs { password, token, certificate }: Proofs) -> (Map<String, Value>, Vec<Value>) {
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
fn denials(proofs: Proofs) -> impl Iterator<Item = &'static Answer> {
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

#[cfg(test)]
mod tests {
    use super::{OPERATIONS, document};
    use crate::server::{ROUTES, access::Proofs};

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
        let document = document(Proofs { password: true, token: true, certificate: true });
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
