//! `GET /openapi.json`: the API as OpenAPI 3.1. Schemas are derived from the types that handlers deserialize and serialize.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use schemars::{
    JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, transform::RecursiveTransform,
};
use serde_json::{Map, Value, json as value};

use super::{
    events::EventsQuery,
    gate::{ClosedGate, GateQuery, GateView},
    history::{HistoryQuery, HistoryView},
    object::ObjectView,
    params::{NoParams, Params},
    resources::ResourceQuery,
    response::{ProblemView, json},
    rules::RulesView,
    status::StatusView,
    view::{ListView, ResourceView},
};
use crate::server::{Exposed, auth::AuthMethods};

/// Adds a schema and everything that it references to the generator.
type SchemaFn = fn(&mut SchemaGenerator) -> Schema;

/// One method of one path. Every operation may also respond with 400.
#[derive(Debug)]
struct Operation {
    path: &'static str,
    method: &'static str,
    /// The `operationId`, which names the method of generated clients.
    id: &'static str,
    summary: &'static str,
    /// Each property of this schema is a query parameter.
    query: Option<SchemaFn>,
    required: &'static [&'static str],
    body: Option<SchemaFn>,
    /// Names and descriptions of request headers.
    headers: &'static [(&'static str, &'static str)],
    responses: &'static [ResponseSpec],
}

#[derive(Debug)]
struct ResponseSpec {
    status: u16,
    description: &'static str,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Empty,
    Json(SchemaFn),
    Problem(SchemaFn),
    EventStream,
}

const GET: Operation = Operation {
    path: "",
    method: "get",
    id: "",
    summary: "",
    query: None,
    required: &[],
    body: None,
    headers: &[],
    responses: &[],
};

const IF_NONE_MATCH: (&str, &str) =
    ("If-None-Match", "An `ETag` of an earlier answer, which is not sent again if it still holds");
const NOT_MODIFIED: ResponseSpec = ResponseSpec {
    status: 304,
    description: "Nothing has changed since the answer with this `ETag`",
    content: Content::Empty,
};
const BAD_REQUEST: ResponseSpec = problem(400, "The question is not understood");
const FORBIDDEN_NAMESPACE: ResponseSpec = problem(403, "The namespace may not be asked for");
const INTERNAL_ERROR: ResponseSpec = problem(500, "The answer could not be made");

const OPERATIONS: &[Operation] = &[
    Operation {
        path: "/v1/resources",
        id: "listResources",
        summary: "The state of resources: what each source declares, what is there, and how they differ",
        query: Some(schema::<ResourceQuery>),
        required: &["namespace"],
        headers: &[IF_NONE_MATCH],
        responses: &[
            ok("The claims, in order", resource_list),
            NOT_MODIFIED,
            FORBIDDEN_NAMESPACE,
            INTERNAL_ERROR,
        ],
        ..GET
    },
    Operation {
        path: "/v1/resources",
        method: "post",
        id: "queryResources",
        summary: "The same, with the question as JSON",
        body: Some(schema::<ResourceQuery>),
        responses: &[
            ok("The claims, in order", resource_list),
            FORBIDDEN_NAMESPACE,
            problem(413, "The body is too long for a question"),
            problem(415, "The body is not JSON"),
            INTERNAL_ERROR,
        ],
        ..GET
    },
    Operation {
        path: "/v1/resources/{kind}/{namespace}/{name}",
        id: "explainObject",
        summary: "One object, explained: all claims, differences, owners, rules, what is ignored and why, history",
        headers: &[IF_NONE_MATCH],
        responses: &[
            ok("The object", schema::<ObjectView<'_>>),
            NOT_MODIFIED,
            problem(404, "No such object is watched or declared"),
        ],
        ..GET
    },
    Operation {
        path: "/v1/history",
        id: "listTransitions",
        summary: "What moved from one verdict to another, newest first",
        query: Some(schema::<HistoryQuery>),
        responses: &[ok("The transitions", schema::<HistoryView<'_>>), FORBIDDEN_NAMESPACE],
        ..GET
    },
    Operation {
        path: "/v1/events",
        id: "listen",
        summary: "Transitions as they happen, as Server-Sent Events",
        query: Some(schema::<EventsQuery>),
        headers: &[("Last-Event-ID", "The sequence number of the last transition that the client has seen")],
        responses: &[
            ResponseSpec {
                status: 200,
                description: "Events until the client goes",
                content: Content::EventStream,
            },
            problem(503, "Too many listen already"),
        ],
        ..GET
    },
    Operation {
        path: "/v1/rules",
        id: "listRules",
        summary: "The rules that hold, and how many differences each of them matches",
        responses: &[ok("The rules, in their order", schema::<RulesView<'_>>)],
        ..GET
    },
    Operation {
        path: "/v1/gate",
        id: "askGate",
        summary: "Whether a pipeline may go on: nothing has drifted, and nothing is unknown",
        query: Some(schema::<GateQuery>),
        responses: &[
            ok("It may", schema::<GateView>),
            FORBIDDEN_NAMESPACE,
            ResponseSpec {
                status: 409,
                description: "It may not, and why",
                content: Content::Problem(schema::<ClosedGate>),
            },
            problem(503, "Not everything was looked at yet"),
        ],
        ..GET
    },
    Operation {
        path: "/v1/status",
        id: "showStatus",
        summary: "How the exporter itself fares: settings, streams, sources, baselines",
        responses: &[ok("The status", schema::<StatusView<'_>>)],
        ..GET
    },
];

const UNAUTHORIZED: ResponseSpec = problem(401, "The credentials are missing or not good");

/// Responses to requests with a valid token, unless an operation describes the status itself.
const TOKEN_ERRORS: &[ResponseSpec] = &[
    problem(403, "The account may not ask for this path, or list anything that it asks for"),
    problem(503, "The API server does not say who may ask for what"),
];

const PATH_PARAMETERS: &[(&str, &str)] = &[
    ("kind", "Kind or plural, with or without `.group`: `deployment`, `deployments.apps`"),
    ("namespace", "The namespace; `-` for objects without one"),
    ("name", "The object's name"),
];

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The response has whole resources, or only the fields that the parameter `fields` selects.
fn resource_list(generator: &mut SchemaGenerator) -> Schema {
    let all = generator.subschema_for::<ListView<'_, Vec<ResourceView<'_>>>>();
    value!({"anyOf": [all, {"$ref": "#/components/schemas/SelectedResourceList"}]})
        .try_into()
        .expect("an object is a schema")
}

const fn ok(description: &'static str, schema: SchemaFn) -> ResponseSpec {
    ResponseSpec { status: 200, description, content: Content::Json(schema) }
}

const fn problem(status: u16, description: &'static str) -> ResponseSpec {
    ResponseSpec { status, description, content: Content::Problem(schema::<ProblemView>) }
}

pub(in crate::server) async fn openapi(State(exposed): State<Arc<Exposed>>, _: Params<NoParams>) -> Response {
    let methods = exposed.auth.methods();
    exposed.blocking.run(move || json(&document(methods))).await
}

/// The document of a server that requires these credentials.
fn document(methods: AuthMethods) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    // A field with a default is optional in a request and always present in a response, also if commands do not read it.
    let always_present = |schema: &mut Schema| {
        schema.remove("default");
        schema.remove("readOnly");
    };
    let written = settings.clone().for_serialize().with_transform(RecursiveTransform(always_present));
    let mut generators =
        Generators { requests: settings.into_generator(), responses: written.into_generator() };
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(operation.path).or_insert_with(|| value!({}));
        path[operation.method] = generators.operation(operation, methods);
    }
    let mut schemas = generators.responses.take_definitions(true);
    schemas.extend(generators.requests.take_definitions(true));
    add_selected_resources(&mut schemas);
    let (schemes, required) = security(methods);
    value!({
        "openapi": "3.1.0",
        "info": {
            "title": "drift-exporter",
            "description": "Which Kubernetes objects are not as they were declared, in which fields, by what tool, since when.",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": schemes},
        "security": required,
    })
}

/// Adds the list of resources with selected fields, none of which is required.
fn add_selected_resources(schemas: &mut Map<String, Value>) {
    let (mut resource, mut list) = (schemas["Resource"].clone(), schemas["ResourceList"].clone());
    if let Some(members) = resource.as_object_mut() {
        members.remove("required");
    }
    resource["description"] = "The fields of a resource that `fields` names.".into();
    list["properties"]["resources"]["items"] = value!({"$ref": "#/components/schemas/SelectedResource"});
    schemas.insert("SelectedResource".to_owned(), resource);
    schemas.insert("SelectedResourceList".to_owned(), list);
}

/// The security schemes, and the requirement that a request satisfies all of them.
fn security(AuthMethods { password, token, certificate }: AuthMethods) -> (Map<String, Value>, Vec<Value>) {
    let schemes = [
        (password, "password", value!({"type": "http", "scheme": "basic"})),
        (token, "token", value!({"type": "http", "scheme": "bearer"})),
        (certificate, "certificate", value!({"type": "mutualTLS"})),
    ];
    let schemes: Map<String, Value> = schemes
        .into_iter()
        .filter(|(enabled, ..)| *enabled)
        .map(|(_, name, scheme)| (name.to_owned(), scheme))
        .collect();
    let required: Map<String, Value> = schemes.keys().map(|name| (name.clone(), value!([]))).collect();
    let required = if required.is_empty() { Vec::new() } else { vec![Value::Object(required)] };
    (schemes, required)
}

struct Generators {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
}

impl Generators {
    fn operation(&mut self, operation: &Operation, methods: AuthMethods) -> Value {
        let mut parameters = path_parameters(operation.path);
        if let Some(query) = operation.query {
            parameters.extend(self.query_parameters(query, operation.required));
        }
        parameters.extend(operation.headers.iter().map(|(name, description)| {
            value!({"name": name, "in": "header", "description": description, "schema": {"type": "string"}})
        }));
        let unauthorized = (methods.password || methods.token).then_some(&UNAUTHORIZED);
        let token_errors = if methods.token { TOKEN_ERRORS } else { &[] };
        let specs = operation.responses.iter().chain([&BAD_REQUEST]).chain(unauthorized).chain(token_errors);
        let mut responses = Map::new();
        for spec in specs {
            responses.entry(spec.status.to_string()).or_insert_with(|| self.response(spec));
        }
        let mut description = value!({
            "operationId": operation.id,
            "summary": operation.summary,
            "parameters": parameters,
            "responses": responses,
        });
        if let Some(body) = operation.body {
            let schema = body(&mut self.requests).to_value();
            description["requestBody"] =
                value!({"required": true, "content": {"application/json": {"schema": schema}}});
        }
        description
    }

    fn query_parameters(&mut self, query: SchemaFn, required: &[&str]) -> Vec<Value> {
        let reference = query(&mut self.requests).to_value();
        let name = reference["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
        let schema = self.requests.definitions().get(name);
        let properties = schema.and_then(|schema| schema["properties"].as_object());
        let parameter = |(name, schema): (&String, &Value)| {
            let mut schema = schema.clone();
            let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            value!({
                "name": name,
                "in": "query",
                "required": required.contains(&name.as_str()),
                "description": description,
                "schema": schema,
            })
        };
        properties.into_iter().flatten().map(parameter).collect()
    }

    fn response(&mut self, spec: &ResponseSpec) -> Value {
        let (media_type, schema) = match spec.content {
            Content::Empty => return value!({"description": spec.description}),
            Content::Json(schema) => ("application/json", schema(&mut self.responses).to_value()),
            Content::Problem(schema) => ("application/problem+json", schema(&mut self.responses).to_value()),
            Content::EventStream => ("text/event-stream", value!({"type": "string"})),
        };
        value!({"description": spec.description, "content": {media_type: {"schema": schema}}})
    }
}

fn path_parameters(path: &str) -> Vec<Value> {
    let parameters = PATH_PARAMETERS.iter().filter(|(name, _)| path.contains(&format!("{{{name}}}")));
    let schema = value!({"type": "string"});
    parameters
        .map(|(name, description)| {
            value!({"name": name, "in": "path", "required": true, "description": description, "schema": schema})
        })
        .collect()
}
