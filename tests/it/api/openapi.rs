//! `/openapi.json` and the server agree: the tests request every path, method, status and parameter.

use std::collections::BTreeSet;

use axum::body::Body;
use drift_exporter::{config::Settings, server::ROUTES};
use http::{Request, header};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    costs::{applied, last_applied_exporter, spec},
    shop,
};
use crate::support::{
    api_server::{ApiServer, ServerFault},
    exporter_fixture::{ExporterFixture, HttpResponse},
};

/// Makes schemas reject properties that they do not describe.
fn deny_unknown_properties(mut document: Value) -> Value {
    for schema in document["components"]["schemas"].as_object_mut().unwrap().values_mut() {
        if schema["properties"].is_object() {
            schema["additionalProperties"] = json!(false);
        }
    }
    document
}

async fn document(exporter: &ExporterFixture) -> Value {
    let answer = exporter.get("/openapi.json").await;
    assert_eq!(answer.headers[header::CONTENT_TYPE], "application/json");
    deny_unknown_properties(answer.json())
}

#[track_caller]
fn assert_valid(document: &Value, schema: &Value, value: &Value) {
    // `$ref` resolves against the root, so the root has the components of the document.
    let mut root = schema.clone();
    root["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&root).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{value:#}");
}

/// A client that validates every response and records the requests that it sent.
struct CheckedClient<'d> {
    document: &'d Value,
    seen: BTreeSet<(String, String, u16)>,
    parameters: BTreeSet<(String, String)>,
}

impl CheckedClient<'_> {
    /// Sends a request and validates the response against the document.
    async fn send(
        &mut self,
        exporter: &ExporterFixture,
        operation: (&str, &str),
        uri: &str,
        request: Request<Body>,
    ) -> HttpResponse {
        let (method, path) = operation;
        let described = &self.document["paths"][path][method];
        for pair in
            uri.split_once('?').map_or("", |(_, query)| query).split('&').filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair.split_once('=').unwrap();
            let parameters = described["parameters"].as_array().unwrap();
            if let Some(parameter) =
                parameters.iter().find(|parameter| parameter["name"] == name && parameter["in"] == "query")
            {
                self.parameters.insert((path.to_owned(), name.to_owned()));
                let typed = serde_json::from_str(value)
                    .ok()
                    .filter(|typed: &Value| typed.is_number() || typed.is_boolean());
                let texts = json!(value);
                let typed = typed.filter(|_| parameter["schema"]["type"][0] != "string").unwrap_or(texts);
                if !value.starts_with("bad") {
                    assert_valid(self.document, &parameter["schema"], &typed);
                }
            }
        }
        let answer = exporter.send(request).await;
        let status = answer.status.as_u16();
        let response = &described["responses"][status.to_string()];
        assert!(
            response.is_object(),
            "{method} {uri} returns {status}, which the document does not describe: {}",
            answer.text()
        );
        self.seen.insert((method.to_owned(), path.to_owned(), status));
        match answer.headers.get(header::CONTENT_TYPE) {
            None => assert!(response["content"].is_null(), "{method} {uri} {status}"),
            Some(media) => {
                let schema = &response["content"][media.to_str().unwrap()]["schema"];
                assert!(
                    schema.is_object(),
                    "{method} {uri} {status}: the document does not describe {media:?}"
                );
                assert_valid(self.document, schema, &answer.json());
            }
        }
        answer
    }

    async fn get(&mut self, exporter: &ExporterFixture, path: &str, uri: &str) -> HttpResponse {
        self.send(exporter, ("get", path), uri, Request::get(uri).body(Body::empty()).unwrap()).await
    }

    async fn post(&mut self, exporter: &ExporterFixture, content_type: &str, body: &str) {
        let request = Request::post("/v1/resources").header(header::CONTENT_TYPE, content_type);
        let request = request.body(Body::from(body.to_owned())).unwrap();
        self.send(exporter, ("post", "/v1/resources"), "/v1/resources", request).await;
    }
}

/// An exporter with a drifted object, an ignored field, an owner, a cost and a history.
async fn busy_exporter() -> ExporterFixture {
    let api = ApiServer::default();
    api.put("deployments", applied("web", &spec(1, "nginx:1", "1"), &spec(1, "nginx:1", "1")));
    let mut with_owner = applied("db", &spec(1, "postgres:15", "1"), &spec(2, "postgres:15.2", "1"));
    with_owner["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Thing", "name": "t"}]);
    api.put("deployments", with_owner);
    let text = "namespaces: [shop]\nrules: [{name: own, match: {fields: [image]}, effect: ignore}]\napi: {prices: {currency: EUR, cpu_core_hour: 1}}\n";
    let settings = drift_exporter::config::load(
        text,
        &drift_exporter::config::Overrides::default(),
        Timestamp::UNIX_EPOCH,
    );
    let exporter = last_applied_exporter(&api, settings.unwrap().settings).await;
    exporter.api.put("deployments", applied("web", &spec(1, "nginx:1", "1"), &spec(4, "nginx:1", "1")));
    exporter.wait_idle().await;
    exporter
}

async fn request_resources(client: &mut CheckedClient<'_>, exporter: &ExporterFixture) {
    let (list, object) = ("/v1/resources", "/v1/resources/{kind}/{namespace}/{name}");
    let whole = client.get(exporter, list, "/v1/resources?namespace=shop").await;
    assert!(whole.json()["total"].as_u64().unwrap() > 1);
    // Without `fields`, resources have every field.
    assert_valid(client.document, &json!({"$ref": "#/components/schemas/ResourceList"}), &whole.json());
    let all = "namespace=*&resourceType=deployment&resourceName=web&deploymentId=uid-web&limit=1&offset=0&sort=-onset&fields=verdict,differences";
    assert_eq!(client.get(exporter, list, &format!("/v1/resources?{all}")).await.json()["total"], 1);
    client.get(exporter, list, "/v1/resources?namespace=other").await;
    client.get(exporter, list, "/v1/resources?sort=bad").await;
    client.post(exporter, "application/json", r#"{"namespace": "shop"}"#).await;
    client.post(exporter, "application/json", "{").await;
    client.post(exporter, "application/json", r#"{"namespace": "other"}"#).await;
    client.post(exporter, "application/json", &" ".repeat(1 << 20)).await;
    client.post(exporter, "text/plain", "{}").await;
    for name in ["web", "db", "nope", "web?bad=1"] {
        client.get(exporter, object, &format!("/v1/resources/deployment/shop/{name}")).await;
    }
    for (path, uri) in [(list, "/v1/resources?namespace=shop"), (object, "/v1/resources/deployment/shop/web")]
    {
        let known = exporter.get(uri).await.headers[header::ETAG].clone();
        let again = Request::get(uri).header(header::IF_NONE_MATCH, known);
        client.send(exporter, ("get", path), uri, again.body(Body::empty()).unwrap()).await;
    }
    // Only a bug in the program causes a 500; src/server/api/pieces.rs tests one.
    for method in ["get", "post"] {
        client.seen.insert((method.to_owned(), list.to_owned(), 500));
    }
    // Objects that are compared by hash.
    let hashes = shop().await;
    client.get(&hashes, list, "/v1/resources?namespace=*").await;
}

async fn request_other_paths(client: &mut CheckedClient<'_>, exporter: &ExporterFixture) {
    let history = "namespace=shop&kind=deployment&name=web&source=last_applied&since=0&until=2030-01-01T00:00:00Z&limit=5";
    let found = client.get(exporter, "/v1/history", &format!("/v1/history?{history}")).await.json();
    assert_eq!(found["transitions"].as_array().unwrap().len(), 1);
    client.get(exporter, "/v1/history", "/v1/history?source=bad").await;
    client.get(exporter, "/v1/history", "/v1/history?namespace=other").await;
    for path in ["/v1/rules", "/v1/status"] {
        client.get(exporter, path, path).await;
        client.get(exporter, path, &format!("{path}?bogus=1")).await;
    }
    let nothing = "namespace=shop&kind=deployment&name=nope&source=last_applied&severity=info&expectation=unexpected&allowEmpty=true";
    for query in ["namespace=shop", nothing, "severity=bad", "namespace=other"] {
        client.get(exporter, "/v1/gate", &format!("/v1/gate?{query}")).await;
    }
    let not_synced = ApiServer::default();
    not_synced.set_fault("deployments", ServerFault::Unresponsive);
    let not_synced = ExporterFixture::start_with(&not_synced, Settings::default());
    client.get(&not_synced, "/v1/gate", "/v1/gate").await;
    client.get(&not_synced, "/v1/status", "/v1/status").await;
    client.get(exporter, "/v1/events", "/v1/events?since=bad").await;
    // An event stream does not end; tests/it/live_events.rs tests it and the limit of 256 streams.
    for status in [200, 503] {
        client.seen.insert(("get".to_owned(), "/v1/events".to_owned(), status));
    }
}

#[tokio::test(start_paused = true)]
async fn every_response_matches_the_openapi_document() {
    let exporter = busy_exporter().await;
    let document = document(&exporter).await;
    let mut client =
        CheckedClient { document: &document, seen: BTreeSet::new(), parameters: BTreeSet::new() };
    request_resources(&mut client, &exporter).await;
    request_other_paths(&mut client, &exporter).await;
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for status in operation["responses"].as_object().unwrap().keys() {
                described.insert((method.clone(), path.clone(), status.parse().unwrap()));
            }
            let parameters = operation["parameters"].as_array().unwrap();
            for parameter in parameters.iter().filter(|parameter| parameter["in"] == "query") {
                let name = parameter["name"].as_str().unwrap().to_owned();
                let was_sent = client.parameters.contains(&(path.clone(), name.clone()));
                assert!(was_sent, "no request sent {name} to {path}");
            }
        }
    }
    assert_eq!(client.seen, described);
}

#[tokio::test(start_paused = true)]
async fn openapi_document_has_every_method_of_every_route() {
    let exporter = shop().await;
    let document = document(&exporter).await;
    for route in ROUTES.iter().filter(|route| route.path.starts_with("/v1")) {
        let uri = route.path.replace(['{', '}'], "");
        let answer =
            exporter.send(Request::builder().method("BREW").uri(uri).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status.as_u16(), 405, "{}", route.path);
        let allowed = answer.headers[header::ALLOW].to_str().unwrap().to_lowercase();
        let allowed: BTreeSet<&str> =
            allowed.split(',').map(str::trim).filter(|method| *method != "head").collect();
        let described = document["paths"][route.path]
            .as_object()
            .unwrap_or_else(|| panic!("the document does not describe {}", route.path));
        assert_eq!(described.keys().map(String::as_str).collect::<BTreeSet<_>>(), allowed, "{}", route.path);
    }
}

/// Checks that every parameter has a description, and that every reference resolves.
#[track_caller]
pub(crate) fn check_consistency(document: &Value) {
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for parameter in operation["parameters"].as_array().unwrap() {
                assert!(parameter["description"].is_string(), "{method} {path}: {parameter}");
            }
        }
    }
    let mut references = Vec::new();
    find_references(document, &mut references);
    assert!(references.len() > 20, "{references:?}");
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} does not resolve");
    }
}

fn find_references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(|reference| reference.as_str()).map(str::to_owned));
            members.values().for_each(|member| find_references(member, found));
        }
        Value::Array(elements) => {
            elements.iter().for_each(|element| find_references(element, found));
        }
        _ => {}
    }
}
