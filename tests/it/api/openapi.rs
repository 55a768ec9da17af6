//! `/openapi.json` beside the server: every path, method, status and parameter of it is asked.

use std::collections::BTreeSet;

use axum::body::Body;
use drift_exporter::{config::Settings, server::ROUTES};
use http::{Request, header};
use serde_json::{Value, json};

use super::{
    costs::{applied, applying, spec},
    shop,
};
use crate::support::{
    api_server::{ApiServer, Mood},
    world::{Answer, World},
};

/// The document, in which nothing may be answered that is not described.
fn strict(mut document: Value) -> Value {
    for schema in document["components"]["schemas"].as_object_mut().unwrap().values_mut() {
        if schema["properties"].is_object() {
            schema["additionalProperties"] = json!(false);
        }
    }
    document
}

async fn document(world: &World) -> Value {
    let answer = world.get("/openapi.json").await;
    assert_eq!(answer.headers[header::CONTENT_TYPE], "application/json");
    strict(answer.json())
}

#[track_caller]
fn assert_valid(document: &Value, schema: &Value, value: &Value) {
    // References lead into the document, so the schema is a part of it.
    let mut whole = schema.clone();
    whole["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&whole).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(value).map(|own| format!("{}: {own}", own.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{value:#}");
}

/// What was asked and answered, as the document calls it.
struct Asked<'d> {
    document: &'d Value,
    seen: BTreeSet<(String, String, u16)>,
    parameters: BTreeSet<(String, String)>,
}

impl Asked<'_> {
    /// Asks, and holds the answer against the document.
    async fn ask(&mut self, world: &World, place: (&str, &str), uri: &str, request: Request<Body>) -> Answer {
        let (method, path) = place;
        let described = &self.document["paths"][path][method];
        for pair in
            uri.split_once('?').map_or("", |(_, query)| query).split('&').filter(|own| !own.is_empty())
        {
            let (name, value) = pair.split_once('=').unwrap();
            let parameters = described["parameters"].as_array().unwrap();
            if let Some(own) = parameters.iter().find(|own| own["name"] == name && own["in"] == "query") {
                self.parameters.insert((path.to_owned(), name.to_owned()));
                let typed = serde_json::from_str(value)
                    .ok()
                    .filter(|own: &Value| own.is_number() || own.is_boolean());
                let texts = json!(value);
                let typed = typed.filter(|_| own["schema"]["type"][0] != "string").unwrap_or(texts);
                if !value.starts_with("bad") {
                    assert_valid(self.document, &own["schema"], &typed);
                }
            }
        }
        let answer = world.ask(request).await;
        let status = answer.status.as_u16();
        let response = &described["responses"][status.to_string()];
        assert!(
            response.is_object(),
            "{method} {uri} answers {status}, which is not described: {}",
            answer.text()
        );
        self.seen.insert((method.to_owned(), path.to_owned(), status));
        match answer.headers.get(header::CONTENT_TYPE) {
            None => assert!(response["content"].is_null(), "{method} {uri} {status}"),
            Some(media) => {
                let schema = &response["content"][media.to_str().unwrap()]["schema"];
                assert!(schema.is_object(), "{method} {uri} {status}: {media:?} is not described");
                assert_valid(self.document, schema, &answer.json());
            }
        }
        answer
    }

    async fn get(&mut self, world: &World, path: &str, uri: &str) -> Answer {
        self.ask(world, ("get", path), uri, Request::get(uri).body(Body::empty()).unwrap()).await
    }

    async fn post(&mut self, world: &World, content_type: &str, body: &str) {
        let request = Request::post("/v1/resources").header(header::CONTENT_TYPE, content_type);
        let request = request.body(Body::from(body.to_owned())).unwrap();
        self.ask(world, ("post", "/v1/resources"), "/v1/resources", request).await;
    }
}

/// A world in which something drifts, is ignored, has an owner, a cost and a history.
async fn lively() -> World {
    let api = ApiServer::default();
    api.put("deployments", applied("web", &spec(1, "nginx:1", "1"), &spec(1, "nginx:1", "1")));
    let mut owned = applied("db", &spec(1, "postgres:15", "1"), &spec(2, "postgres:15.2", "1"));
    owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Thing", "name": "t"}]);
    api.put("deployments", owned);
    let text = "namespaces: [shop]\nrules: [{name: own, match: {fields: [image]}, effect: ignore}]\napi: {prices: {currency: EUR, cpu_core_hour: 1}}\n";
    let settings = drift_exporter::config::load(text, &drift_exporter::config::Overrides::default());
    let world = applying(&api, settings.unwrap().settings).await;
    world.api.put("deployments", applied("web", &spec(1, "nginx:1", "1"), &spec(4, "nginx:1", "1")));
    world.settle().await;
    world
}

/// Everything that can be asked about resources.
async fn ask_for_resources(asked: &mut Asked<'_>, world: &World) {
    let (list, object) = ("/v1/resources", "/v1/resources/{kind}/{namespace}/{name}");
    let whole = asked.get(world, list, "/v1/resources?namespace=shop").await;
    assert!(whole.json()["total"].as_u64().unwrap() > 1);
    // Whole resources have every field.
    assert_valid(asked.document, &json!({"$ref": "#/components/schemas/ResourceList"}), &whole.json());
    let all = "namespace=*&resourceType=deployment&resourceName=web&deploymentId=uid-web&limit=1&offset=0&sort=-onset&fields=verdict,differences";
    assert_eq!(asked.get(world, list, &format!("/v1/resources?{all}")).await.json()["total"], 1);
    asked.get(world, list, "/v1/resources?namespace=other").await;
    asked.get(world, list, "/v1/resources?sort=bad").await;
    asked.post(world, "application/json", r#"{"namespace": "shop"}"#).await;
    asked.post(world, "application/json", "{").await;
    asked.post(world, "application/json", r#"{"namespace": "other"}"#).await;
    asked.post(world, "application/json", &" ".repeat(1 << 20)).await;
    asked.post(world, "text/plain", "{}").await;
    for name in ["web", "db", "nope", "web?bad=1"] {
        asked.get(world, object, &format!("/v1/resources/deployment/shop/{name}")).await;
    }
    for (path, uri) in [(list, "/v1/resources?namespace=shop"), (object, "/v1/resources/deployment/shop/web")]
    {
        let known = world.get(uri).await.headers[header::ETAG].clone();
        let again = Request::get(uri).header(header::IF_NONE_MATCH, known);
        asked.ask(world, ("get", path), uri, again.body(Body::empty()).unwrap()).await;
    }
    // Lists are made unless there is a mistake in the program: src/server/api/pieces.rs makes one.
    for method in ["get", "post"] {
        asked.seen.insert((method.to_owned(), list.to_owned(), 500));
    }
    // Hashes in place of fields.
    let hashes = shop().await;
    asked.get(&hashes, list, "/v1/resources?namespace=*").await;
}

/// Everything else that can be asked.
async fn ask_for_the_rest(asked: &mut Asked<'_>, world: &World) {
    let history = "namespace=shop&kind=deployment&name=web&source=last_applied&since=0&until=2030-01-01T00:00:00Z&limit=5";
    let found = asked.get(world, "/v1/history", &format!("/v1/history?{history}")).await.json();
    assert_eq!(found["transitions"].as_array().unwrap().len(), 1);
    asked.get(world, "/v1/history", "/v1/history?source=bad").await;
    asked.get(world, "/v1/history", "/v1/history?namespace=other").await;
    for path in ["/v1/rules", "/v1/status"] {
        asked.get(world, path, path).await;
        asked.get(world, path, &format!("{path}?bogus=1")).await;
    }
    let nothing = "namespace=shop&kind=deployment&name=nope&source=last_applied&severity=info&expectation=unexpected&allowEmpty=true";
    for query in ["namespace=shop", nothing, "severity=bad", "namespace=other"] {
        asked.get(world, "/v1/gate", &format!("/v1/gate?{query}")).await;
    }
    let waiting = ApiServer::default();
    waiting.mood("deployments", Mood::Mute);
    let waiting = World::with(&waiting, Settings::default());
    asked.get(&waiting, "/v1/gate", "/v1/gate").await;
    asked.get(&waiting, "/v1/status", "/v1/status").await;
    asked.get(world, "/v1/events", "/v1/events?since=bad").await;
    // Streams of events never end: tests/it/live_events.rs has them, and how the 257th is refused.
    for status in [200, 503] {
        asked.seen.insert(("get".to_owned(), "/v1/events".to_owned(), status));
    }
}

#[tokio::test(start_paused = true)]
async fn every_answer_is_as_the_document_says() {
    let world = lively().await;
    let document = document(&world).await;
    let mut asked = Asked { document: &document, seen: BTreeSet::new(), parameters: BTreeSet::new() };
    ask_for_resources(&mut asked, &world).await;
    ask_for_the_rest(&mut asked, &world).await;
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            for status in operation["responses"].as_object().unwrap().keys() {
                described.insert((method.clone(), path.clone(), status.parse().unwrap()));
            }
            let parameters = operation["parameters"].as_array().unwrap();
            for parameter in parameters.iter().filter(|own| own["in"] == "query") {
                let name = parameter["name"].as_str().unwrap().to_owned();
                let was_asked = asked.parameters.contains(&(path.clone(), name.clone()));
                assert!(was_asked, "{path}: {name} was not asked");
            }
        }
    }
    assert_eq!(asked.seen, described);
}

#[tokio::test(start_paused = true)]
async fn every_method_of_every_route_is_in_the_document() {
    let world = shop().await;
    let document = document(&world).await;
    for route in ROUTES.iter().filter(|route| route.path.starts_with("/v1")) {
        let uri = route.path.replace(['{', '}'], "");
        let answer = world.ask(Request::builder().method("BREW").uri(uri).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status.as_u16(), 405, "{}", route.path);
        let allowed = answer.headers[header::ALLOW].to_str().unwrap().to_lowercase();
        let allowed: BTreeSet<&str> =
            allowed.split(',').map(str::trim).filter(|own| *own != "head").collect();
        let described = document["paths"][route.path]
            .as_object()
            .unwrap_or_else(|| panic!("{} is not described", route.path));
        assert_eq!(described.keys().map(String::as_str).collect::<BTreeSet<_>>(), allowed, "{}", route.path);
    }
}
