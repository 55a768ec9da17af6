//! From a request to an answer.

use std::time::Duration;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::State,
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, USER_AGENT},
    request::Parts,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Cluster, discovery,
    list::Page,
    patch::Patch,
    query::Parameters,
    refusal::Refusal,
    resource::{Resource, Trait},
    scale,
    store::Stored,
    style::{Style, metadata_of},
    watch,
    write::{How, Part, Place, Preconditions},
};

/// As large as the real server takes.
const MAX_BODY: usize = 3 << 20;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
struct Api {
    cluster: Cluster,
    /// Ends open watches.
    stop: CancellationToken,
}

/// The cluster's HTTP interface; open watches end with `stop`.
pub fn router(cluster: Cluster, stop: CancellationToken) -> Router {
    Router::new().fallback(answer).with_state(Api { cluster, stop })
}

/// What a path stands for.
enum Target<'a> {
    Document(Value),
    Healthy,
    Collection { resource: &'static Resource, namespace: Option<&'a str> },
    Item(Place<'a>, Part),
    NoSuchResource,
    NoSuchPath,
}

impl<'a> Target<'a> {
    fn of(segments: &[&'a str]) -> Self {
        let document = |found: Option<Value>| found.map_or(Self::NoSuchPath, Self::Document);
        match segments {
            ["readyz" | "livez" | "healthz"] => Self::Healthy,
            ["version"] => Self::Document(discovery::version()),
            ["api"] => Self::Document(discovery::core_versions()),
            ["apis"] => Self::Document(discovery::groups()),
            ["apis", group] => document(discovery::group(group)),
            ["openapi", "v3"] => Self::Document(discovery::openapi_index()),
            ["openapi", "v3", "api", version] => document(discovery::openapi("", version)),
            ["openapi", "v3", "apis", group, version] => document(discovery::openapi(group, version)),
            ["api", version] => document(discovery::resources("", version)),
            ["apis", group, version] => document(discovery::resources(group, version)),
            ["api", version, rest @ ..] => Self::within("", version, rest),
            ["apis", group, version, rest @ ..] => Self::within(group, version, rest),
            _ => Self::NoSuchPath,
        }
    }

    fn within(group: &str, version: &str, rest: &[&'a str]) -> Self {
        if discovery::resources(group, version).is_none() {
            return Self::NoSuchPath;
        }
        // A namespace's own subresources look like collections in it.
        let (namespace, rest) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, inside @ ..] => (Some(*namespace), inside),
            _ => (None, rest),
        };
        let resource = rest.first().and_then(|plural| Resource::find(group, version, plural));
        match (resource, &rest[rest.len().min(1)..]) {
            (Some(resource), []) if namespace.is_none() || resource.namespaced => {
                Self::Collection { resource, namespace }
            }
            (Some(resource), [name, part @ ..]) if namespace.is_some() == resource.namespaced => {
                let part = match part {
                    [] => Part::Object,
                    ["status"] if resource.has(Trait::Status) => Part::Status,
                    ["scale"] if resource.has(Trait::Scale) => Part::Scale,
                    _ => return Self::NoSuchResource,
                };
                Self::Item(Place { resource, namespace: namespace.unwrap_or(""), name }, part)
            }
            _ => Self::NoSuchResource,
        }
    }
}

async fn answer(State(api): State<Api>, request: Request<Body>) -> Response {
    let (head, body) = request.into_parts();
    let segments: Vec<&str> = head.uri.path().trim_matches('/').split('/').collect();
    if let Some(kinds) = discovery::aggregated(&segments).filter(|_| asks_for_all_kinds(&head)) {
        let mut response = json_response(StatusCode::OK, &kinds);
        let content_type = HeaderValue::from_static(discovery::AGGREGATED);
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        return response;
    }
    let answered = match Target::of(&segments) {
        Target::Document(document) if head.method == Method::GET => {
            Ok(json_response(StatusCode::OK, &document))
        }
        Target::Healthy => Ok("ok".into_response()),
        Target::Document(_) => Err(Refusal::method_not_allowed()),
        Target::NoSuchResource => Err(Refusal::no_such_resource()),
        Target::NoSuchPath => Ok((StatusCode::NOT_FOUND, "404 page not found\n").into_response()),
        Target::Collection { resource, namespace } => {
            Asked { api: &api, head: &head, resource }.collection(namespace, body).await
        }
        Target::Item(place, part) => {
            Asked { api: &api, head: &head, resource: place.resource }.item(place, part, body).await
        }
    };
    answered.unwrap_or_else(|refusal| json_response(refusal.code, &refusal.status()))
}

/// Whether somebody asks for the kinds of all groups in one document.
fn asks_for_all_kinds(head: &Parts) -> bool {
    let accept = head.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("");
    head.method == Method::GET && accept.split(',').any(|part| part.trim() == discovery::AGGREGATED)
}

/// A request for objects of one resource.
struct Asked<'a> {
    api: &'a Api,
    head: &'a Parts,
    resource: &'static Resource,
}

impl Asked<'_> {
    async fn collection(&self, namespace: Option<&str>, body: Body) -> Result<Response, Refusal> {
        let parameters = Parameters::read(&self.head.uri)?;
        let cluster = &self.api.cluster;
        match self.head.method {
            Method::GET => {
                let style = self.style(&parameters)?;
                let selector = parameters.selector(namespace)?;
                if parameters.watches() {
                    let stop = self.api.stop.clone();
                    let lines = watch::open(cluster, self.resource, selector, &parameters, style, stop)?;
                    return Ok(json_body(StatusCode::OK, lines));
                }
                let page = cluster.page(self.resource, &selector, &parameters)?;
                Ok(self.page(&page, &style))
            }
            // Objects with a namespace can only be made in one.
            Method::POST if namespace.is_some() == self.resource.namespaced => {
                let object = read_object(self.resource, &self.head.headers, body).await?;
                let created = cluster.post(self.resource, namespace, object, self.how(&parameters)?)?;
                Ok(self.object(StatusCode::CREATED, &created, &self.style(&parameters)?))
            }
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    async fn item(&self, place: Place<'_>, part: Part, body: Body) -> Result<Response, Refusal> {
        let parameters = Parameters::read(&self.head.uri)?;
        let (cluster, resource) = (&self.api.cluster, place.resource);
        let style = self.style(&parameters)?;
        let stored = match self.head.method {
            Method::GET => {
                let found = cluster.lock().get(&place.key()).cloned();
                found.ok_or_else(|| Refusal::not_found(resource, place.name))?
            }
            Method::PUT => {
                let sent = read_object(resource, &self.head.headers, body).await?;
                cluster.put(place, part, sent, self.how(&parameters)?)?
            }
            Method::PATCH => {
                let patch = Patch::read(&self.head.headers, &read_body(body).await?)?;
                cluster.patch(place, part, &patch, self.how(&parameters)?)?
            }
            Method::DELETE if part == Part::Object => {
                let options = read_options(&read_body(body).await?)?;
                let dry_run = parameters.dry_run()? || options["dryRun"] == json!(["All"]);
                let wanted = |name: &str| options["preconditions"][name].as_str().map(str::to_owned);
                let preconditions = Preconditions { uid: wanted("uid"), version: wanted("resourceVersion") };
                let gone = cluster.erase(place, &preconditions, dry_run)?;
                return Ok(self.farewell(place.name, &gone, &style));
            }
            _ => return Err(Refusal::method_not_allowed()),
        };
        Ok(match part {
            Part::Scale => json_response(StatusCode::OK, &scale::of(&stored.value())),
            Part::Object | Part::Status => self.object(StatusCode::OK, &stored, &style),
        })
    }

    fn style(&self, parameters: &Parameters) -> Result<Style, Refusal> {
        Style::negotiate(&self.head.headers, &parameters.include_object, self.api.cluster.0.clock.now())
    }

    /// The manager is who it says it is, else the program that asks.
    fn how<'a>(&'a self, parameters: &'a Parameters) -> Result<How<'a>, Refusal> {
        let agent = self.head.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or("");
        let program = agent.split('/').next().unwrap_or("");
        let manager = if parameters.field_manager.is_empty() { program } else { &parameters.field_manager };
        Ok(How { manager, dry_run: parameters.dry_run()?, strict: parameters.strict() })
    }

    fn object(&self, code: StatusCode, stored: &Stored, style: &Style) -> Response {
        match style {
            Style::Plain => json_body(code, Body::from(stored.text.to_string())),
            Style::Metadata => json_response(code, &metadata_of(stored)),
            Style::Table(table) => json_response(code, &table.of(self.resource, &[stored], None)),
        }
    }

    fn page(&self, page: &Page, style: &Style) -> Response {
        let objects: Vec<&Stored> = page.items.iter().map(|stored| &**stored).collect();
        if let Style::Table(table) = style {
            return json_response(StatusCode::OK, &table.of(self.resource, &objects, Some(page)));
        }
        let mut metadata = json!({"resourceVersion": page.version.to_string()});
        if !page.next.is_empty() {
            metadata["continue"] = page.next.as_str().into();
        }
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        if let Style::Metadata = style {
            let items: Vec<Value> = objects.into_iter().map(metadata_of).collect();
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items});
            return json_response(StatusCode::OK, &list);
        }
        // Items of a list do not say what they are; the list does.
        let (kind, api_version) = (self.resource.kind, self.resource.api_version());
        let own = format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",");
        let nameless = |stored: &&Stored| match stored.text.strip_prefix(&own) {
            Some(rest) => format!("{{{rest}"),
            None => without_type(stored.value()).to_string(),
        };
        let items: Vec<String> = objects.iter().map(nameless).collect();
        let items = items.join(",");
        let list = format!(
            "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[{items}]}}"
        );
        json_body(StatusCode::OK, Body::from(list))
    }

    /// Most deletions are confirmed; of some kinds the object itself is shown once more.
    fn farewell(&self, name: &str, gone: &Stored, style: &Style) -> Response {
        if self.resource.has(Trait::Farewell) {
            return self.object(StatusCode::OK, gone, style);
        }
        let mut details =
            json!({"name": name, "kind": self.resource.plural, "uid": gone.value()["metadata"]["uid"]});
        if !self.resource.group.is_empty() {
            details["group"] = self.resource.group.into();
        }
        let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details});
        json_response(StatusCode::OK, &status)
    }
}

fn without_type(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
    }
    object
}

async fn read_body(body: Body) -> Result<Vec<u8>, Refusal> {
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => Ok(bytes.to_vec()),
        Ok(Err(_)) => Err(Refusal::too_large()),
        Err(_) => Err(Refusal::request_timeout()),
    }
}

async fn read_object(resource: &Resource, headers: &HeaderMap, body: Body) -> Result<Value, Refusal> {
    let content_type =
        headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
    if !matches!(content_type.split(';').next().unwrap_or("").trim(), "application/json" | "*/*" | "") {
        return Err(Refusal::unsupported_media_type());
    }
    let bytes = read_body(body).await?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let kind = resource.kind;
        Refusal::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {error}"))
    })
}

fn read_options(body: &[u8]) -> Result<Value, Refusal> {
    if body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(body)
        .map_err(|error| Refusal::bad_request(format!("cannot read the DeleteOptions: {error}")))
}

fn json_response(code: StatusCode, value: &Value) -> Response {
    json_body(code, Body::from(value.to_string()))
}

fn json_body(code: StatusCode, body: Body) -> Response {
    let mut response = (code, body).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
