//! HTTP: routes, query parameters, content negotiation and responses.

use std::time::Duration;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Query, State},
    response::{IntoResponse, Response},
};
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode, Uri,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, USER_AGENT},
    request::Parts,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Status, StatusDetails};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Cluster,
    errors::{StatusError, details},
    list::{ListPage, ObjectSelector, TablePrinter},
    patch::Patch,
    resources::{self, Feature, Resource},
    store::StoredObject,
    watch,
    write::{Endpoint, ObjectPath, WriteOptions, scale_of},
};

/// The limit of the real API server.
const MAX_BODY: usize = 3 << 20;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
struct ApiState {
    cluster: Cluster,
    /// Closes open watches.
    stop: CancellationToken,
}

/// Serves the API of the cluster. `stop` closes open watches.
pub fn router(cluster: Cluster, stop: CancellationToken) -> Router {
    Router::new().fallback(handle).with_state(ApiState { cluster, stop })
}

enum Route<'a> {
    Document(Value),
    Health,
    Collection { resource: &'static Resource, namespace: Option<&'a str> },
    Object(ObjectPath<'a>, Endpoint),
    ResourceNotFound,
    PathNotFound,
}

impl<'a> Route<'a> {
    fn of(segments: &[&'a str]) -> Self {
        let document = |found: Option<Value>| found.map_or(Self::PathNotFound, Self::Document);
        match segments {
            ["readyz" | "livez" | "healthz"] => Self::Health,
            ["version"] => Self::Document(resources::version()),
            ["api"] => Self::Document(resources::api_versions()),
            ["apis"] => Self::Document(resources::api_group_list()),
            ["apis", group] => document(resources::api_group(group)),
            ["openapi", "v3"] => Self::Document(resources::openapi_index()),
            ["openapi", "v3", "api", version] => document(resources::openapi("", version)),
            ["openapi", "v3", "apis", group, version] => document(resources::openapi(group, version)),
            ["api", version] => document(resources::api_resource_list("", version)),
            ["apis", group, version] => document(resources::api_resource_list(group, version)),
            ["api", version, rest @ ..] => Self::in_group("", version, rest),
            ["apis", group, version, rest @ ..] => Self::in_group(group, version, rest),
            _ => Self::PathNotFound,
        }
    }

    fn in_group(group: &str, version: &str, rest: &[&'a str]) -> Self {
        if resources::api_resource_list(group, version).is_none() {
            return Self::PathNotFound;
        }
        // The subresources of a Namespace look like collections in that namespace.
        let (namespace, rest) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, in_namespace @ ..] => (Some(*namespace), in_namespace),
            _ => (None, rest),
        };
        let resource = rest.first().and_then(|plural| Resource::find(group, version, plural));
        match (resource, &rest[rest.len().min(1)..]) {
            (Some(resource), []) if namespace.is_none() || resource.namespaced => {
                Self::Collection { resource, namespace }
            }
            (Some(resource), [name, subresource @ ..]) if namespace.is_some() == resource.namespaced => {
                let endpoint = match subresource {
                    [] => Endpoint::Object,
                    ["status"] if resource.has(Feature::StatusSubresource) => Endpoint::Status,
                    ["scale"] if resource.has(Feature::ScaleSubresource) => Endpoint::Scale,
                    _ => return Self::ResourceNotFound,
                };
                Self::Object(ObjectPath { resource, namespace: namespace.unwrap_or(""), name }, endpoint)
            }
            _ => Self::ResourceNotFound,
        }
    }
}

async fn handle(State(api): State<ApiState>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let segments: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    if let Some(document) =
        resources::aggregated_discovery(&segments).filter(|_| accepts_aggregated_discovery(&parts))
    {
        let mut response = json_response(StatusCode::OK, &document);
        let content_type = HeaderValue::from_static(resources::AGGREGATED_DISCOVERY);
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        return response;
    }
    let result = match Route::of(&segments) {
        Route::Document(document) if parts.method == Method::GET => {
            Ok(json_response(StatusCode::OK, &document))
        }
        Route::Health => Ok("ok".into_response()),
        Route::Document(_) => Err(StatusError::method_not_allowed()),
        Route::ResourceNotFound => Err(StatusError::resource_not_found()),
        Route::PathNotFound => Ok((StatusCode::NOT_FOUND, "404 page not found\n").into_response()),
        Route::Collection { resource, namespace } => {
            ResourceRequest { api: &api, parts: &parts, resource }.collection(namespace, body).await
        }
        Route::Object(path, endpoint) => {
            ResourceRequest { api: &api, parts: &parts, resource: path.resource }
                .object(path, endpoint, body)
                .await
        }
    };
    result.unwrap_or_else(|error| json_response(error.code, &error.status))
}

fn accepts_aggregated_discovery(parts: &Parts) -> bool {
    let accept = parts.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("");
    parts.method == Method::GET
        && accept.split(',').any(|media_type| media_type.trim() == resources::AGGREGATED_DISCOVERY)
}

struct ResourceRequest<'a> {
    api: &'a ApiState,
    parts: &'a Parts,
    resource: &'static Resource,
}

impl ResourceRequest<'_> {
    async fn collection(&self, namespace: Option<&str>, body: Body) -> Result<Response, StatusError> {
        let parameters = QueryParameters::parse(&self.parts.uri)?;
        let cluster = &self.api.cluster;
        match self.parts.method {
            Method::GET => {
                let format = self.response_format(&parameters)?;
                let selector = parameters.selector(namespace)?;
                if parameters.watch {
                    let stop = self.api.stop.clone();
                    let lines = watch::open(cluster, self.resource, selector, &parameters, format, stop)?;
                    return Ok(json_body(StatusCode::OK, lines));
                }
                let page = cluster.list_page(self.resource, &selector, &parameters)?;
                Ok(self.list_response(&page, &format))
            }
            // A namespaced object is created through its namespace only.
            Method::POST if namespace.is_some() == self.resource.namespaced => {
                let object = read_object(self.resource, &self.parts.headers, body).await?;
                let created = cluster.create_object(
                    self.resource,
                    namespace,
                    object,
                    self.write_options(&parameters)?,
                )?;
                Ok(self.object_response(StatusCode::CREATED, &created, &self.response_format(&parameters)?))
            }
            _ => Err(StatusError::method_not_allowed()),
        }
    }

    async fn object(
        &self,
        path: ObjectPath<'_>,
        endpoint: Endpoint,
        body: Body,
    ) -> Result<Response, StatusError> {
        let parameters = QueryParameters::parse(&self.parts.uri)?;
        let (cluster, resource) = (&self.api.cluster, path.resource);
        let format = self.response_format(&parameters)?;
        let stored = match self.parts.method {
            Method::GET => {
                let found = cluster.lock().get(&path.key()).cloned();
                found.ok_or_else(|| StatusError::not_found(resource, path.name))?
            }
            Method::PUT => {
                let requested = read_object(resource, &self.parts.headers, body).await?;
                cluster.replace_object(path, endpoint, requested, self.write_options(&parameters)?)?
            }
            Method::PATCH => {
                let patch = Patch::parse(&self.parts.headers, &read_body(body).await?)?;
                cluster.patch_object(path, endpoint, &patch, self.write_options(&parameters)?)?
            }
            Method::DELETE if endpoint == Endpoint::Object => {
                let options = read_delete_options(&read_body(body).await?)?;
                let dry_run = parameters.dry_run()? || options.dry_run == Some(vec!["All".to_owned()]);
                let preconditions = options.preconditions.unwrap_or_default();
                let deleted = cluster.delete_object(path, &preconditions, dry_run)?;
                return Ok(self.delete_response(path.name, &deleted, &format));
            }
            _ => return Err(StatusError::method_not_allowed()),
        };
        Ok(match endpoint {
            Endpoint::Scale => json_response(StatusCode::OK, &scale_of(&stored.to_value())),
            Endpoint::Object | Endpoint::Status => self.object_response(StatusCode::OK, &stored, &format),
        })
    }

    fn response_format(&self, parameters: &QueryParameters) -> Result<ResponseFormat, StatusError> {
        ResponseFormat::negotiate(
            &self.parts.headers,
            &parameters.include_object,
            self.api.cluster.0.clock.now(),
        )
    }

    /// Without a `fieldManager` parameter, the program name in the user agent is the field manager.
    fn write_options<'a>(&'a self, parameters: &'a QueryParameters) -> Result<WriteOptions<'a>, StatusError> {
        let agent = self.parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or("");
        let program = agent.split('/').next().unwrap_or("");
        let field_manager =
            if parameters.field_manager.is_empty() { program } else { &parameters.field_manager };
        let strict = parameters.field_validation == "Strict";
        Ok(WriteOptions { field_manager, dry_run: parameters.dry_run()?, strict })
    }

    fn object_response(&self, code: StatusCode, stored: &StoredObject, format: &ResponseFormat) -> Response {
        match format {
            ResponseFormat::Object => json_body(code, Body::from(stored.json.to_string())),
            ResponseFormat::Metadata => json_response(code, &partial_object_metadata(stored)),
            ResponseFormat::Table(table) => {
                json_response(code, &table.render(self.resource, &[stored], None))
            }
        }
    }

    fn list_response(&self, page: &ListPage, format: &ResponseFormat) -> Response {
        let objects: Vec<&StoredObject> = page.items.iter().map(|stored| &**stored).collect();
        if let ResponseFormat::Table(table) = format {
            return json_response(StatusCode::OK, &table.render(self.resource, &objects, Some(page)));
        }
        let metadata = page.metadata();
        if let ResponseFormat::Metadata = format {
            let items: Vec<Value> = objects.into_iter().map(partial_object_metadata).collect();
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items});
            return json_response(StatusCode::OK, &list);
        }
        // Items of a list have no `apiVersion` and `kind`. Most stored texts begin with them and need no parsing.
        let (kind, api_version) = (self.resource.kind, self.resource.api_version());
        let type_meta = format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",");
        let item_json = |stored: &&StoredObject| match stored.json.strip_prefix(&type_meta) {
            Some(rest) => format!("{{{rest}"),
            None => without_type_meta(stored.to_value()).to_string(),
        };
        let items: Vec<String> = objects.iter().map(item_json).collect();
        let items = items.join(",");
        let list = format!(
            "{{\"kind\":\"{kind}List\",\"apiVersion\":\"{api_version}\",\"metadata\":{metadata},\"items\":[{items}]}}"
        );
        json_body(StatusCode::OK, Body::from(list))
    }

    /// A `Status`, or the deleted object for kinds whose registry has `ReturnDeletedObject`.
    fn delete_response(&self, name: &str, deleted: &StoredObject, format: &ResponseFormat) -> Response {
        if self.resource.has(Feature::ReturnsDeletedObject) {
            return self.object_response(StatusCode::OK, deleted, format);
        }
        let uid = deleted.to_value()["metadata"]["uid"].as_str().map(str::to_owned);
        let details = StatusDetails { uid, ..details(self.resource, name, self.resource.plural) };
        let status =
            Status { status: Some("Success".to_owned()), details: Some(details), ..Status::default() };
        json_response(StatusCode::OK, &status)
    }
}

fn without_type_meta(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
    }
    object
}

async fn read_body(body: Body) -> Result<Vec<u8>, StatusError> {
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY)).await {
        Ok(Ok(bytes)) => Ok(bytes.to_vec()),
        Ok(Err(_)) => Err(StatusError::without_object(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {MAX_BODY}"),
        )),
        Err(_) => Err(StatusError::without_object(
            StatusCode::REQUEST_TIMEOUT,
            "Timeout",
            "the request's body did not arrive in time",
        )),
    }
}

async fn read_object(resource: &Resource, headers: &HeaderMap, body: Body) -> Result<Value, StatusError> {
    let content_type =
        headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
    if !matches!(content_type.split(';').next().unwrap_or("").trim(), "application/json" | "*/*" | "") {
        return Err(StatusError::unsupported_media_type());
    }
    let bytes = read_body(body).await?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let kind = resource.kind;
        StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {error}"
        ))
    })
}

fn read_delete_options(body: &[u8]) -> Result<DeleteOptions, StatusError> {
    if body.is_empty() {
        return Ok(DeleteOptions::default());
    }
    serde_json::from_slice(body)
        .map_err(|error| StatusError::bad_request(format!("cannot read the DeleteOptions: {error}")))
}

fn json_response(code: StatusCode, value: &impl Serialize) -> Response {
    json_body(code, Body::from(json!(value).to_string()))
}

fn json_body(code: StatusCode, body: Body) -> Response {
    let mut response = (code, body).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Unknown query parameters are ignored, as in the real API server.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct QueryParameters {
    #[serde(deserialize_with = "parse_bool")]
    pub(super) watch: bool,
    label_selector: String,
    field_selector: String,
    limit: String,
    pub(super) r#continue: String,
    resource_version: String,
    pub(super) resource_version_match: String,
    timeout_seconds: String,
    #[serde(deserialize_with = "parse_bool")]
    pub(super) allow_watch_bookmarks: bool,
    #[serde(deserialize_with = "parse_bool")]
    pub(super) send_initial_events: bool,
    pub(super) field_manager: String,
    field_validation: String,
    dry_run: String,
    pub(super) include_object: String,
}

impl QueryParameters {
    pub(super) fn parse(uri: &Uri) -> Result<Self, StatusError> {
        let Query(parameters) =
            Query::try_from_uri(uri).map_err(|error| StatusError::bad_request(error.body_text()))?;
        Ok(parameters)
    }

    pub(super) fn dry_run(&self) -> Result<bool, StatusError> {
        match &*self.dry_run {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(StatusError::bad_request(format!(
                "dryRun: Unsupported value: \"{other}\": supported values: \"All\""
            ))),
        }
    }

    pub(super) fn selector(&self, namespace: Option<&str>) -> Result<ObjectSelector, StatusError> {
        ObjectSelector::parse(namespace, &self.label_selector, &self.field_selector)
    }

    /// `None` for no limit.
    pub(super) fn limit(&self) -> Result<Option<usize>, StatusError> {
        Ok(parse_positive(&self.limit)?.and_then(|limit| usize::try_from(limit).ok()))
    }

    pub(super) fn timeout_seconds(&self) -> Result<Option<u64>, StatusError> {
        parse_positive(&self.timeout_seconds)
    }

    /// `None` for the latest resource version, 0 for any.
    pub(super) fn requested_version(&self) -> Result<Option<u64>, StatusError> {
        let text = &self.resource_version;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(|_| {
            StatusError::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
            ))
        })
    }
}

fn parse_bool<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    let text = String::deserialize(deserializer)?;
    Ok(matches!(&*text, "1" | "true" | "True" | "TRUE" | "t" | "T"))
}

/// `None` for an empty, negative or zero number.
fn parse_positive(text: &str) -> Result<Option<u64>, StatusError> {
    if text.is_empty() {
        return Ok(None);
    }
    let syntax_error =
        |_| StatusError::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"));
    let number: i64 = text.parse().map_err(syntax_error)?;
    Ok(u64::try_from(number).ok().filter(|number| *number > 0))
}

/// The representation that the client accepts.
#[derive(Clone, Debug)]
pub(super) enum ResponseFormat {
    Object,
    /// `PartialObjectMetadata`.
    Metadata,
    Table(TablePrinter),
}

impl ResponseFormat {
    /// The first accepted media type that the server supports.
    pub(super) fn negotiate(
        headers: &HeaderMap,
        include_object: &str,
        now: Timestamp,
    ) -> Result<Self, StatusError> {
        let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
        for media_type in accept.split(',') {
            let mut parts = media_type.split(';').map(str::trim);
            let is_json = matches!(parts.next(), Some("application/json" | "*/*" | "application/*" | ""));
            let as_type = parts.find_map(|parameter| parameter.strip_prefix("as="));
            match (is_json, as_type) {
                (true, Some("Table")) => {
                    return Ok(Self::Table(TablePrinter { include_object: include_object.to_owned(), now }));
                }
                (true, Some("PartialObjectMetadata" | "PartialObjectMetadataList")) => {
                    return Ok(Self::Metadata);
                }
                (true, None) => return Ok(Self::Object),
                (true, Some(_)) | (false, _) => {}
            }
        }
        let message = "only the following media types are accepted: application/json";
        Err(StatusError::without_object(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message))
    }
}

pub(super) fn partial_object_metadata(stored: &StoredObject) -> Value {
    let metadata = stored.to_value()["metadata"].take();
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}
