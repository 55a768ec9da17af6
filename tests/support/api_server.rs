//! A fake API server as a tower service. It stores objects unchanged, also malformed ones, and injects faults.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    convert::Infallible,
    iter,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::body::{Body, Bytes};
use drift_exporter::types::{Kind, Selector};
use futures::{Stream, StreamExt as _, channel::mpsc, stream};
use http::{HeaderValue, Request, Response, StatusCode, request::Parts};
use kube::Client;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// A fault that the server injects into requests for one plural.
#[derive(Clone, Debug, Default)]
pub enum ServerFault {
    #[default]
    None,
    /// Accepts requests and never responds.
    Unresponsive,
    /// Responds with this status, and `Retry-After` in seconds.
    HttpError(u16, Option<u64>),
    /// Lists stop after this many bytes and never end.
    ListStalls(usize),
    /// Lists end after this many bytes.
    ListTruncated(usize),
    /// Every watch starts with an ERROR event of this code.
    WatchErrorEvent(u16),
    /// Every watch fails with this HTTP status; lists succeed.
    WatchHttpError(u16),
    /// The delay of complete lists.
    SlowList(Duration),
    /// Watches open at once and send their backlog after this time.
    SlowBacklog(Duration),
    /// Complete lists are this many copies of an object, which are generated while they are sent.
    LongList(usize, Arc<Value>),
}

#[derive(Clone)]
pub struct ApiServer(Arc<Mutex<Inner>>);

impl Default for ApiServer {
    /// A server with Deployments and Services, and no objects.
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Inner {
            always_served: vec![Kind::service(), Kind::deployment()],
            served: vec![Kind::service(), Kind::deployment()],
            version: 0,
            objects: BTreeMap::new(),
            log: Vec::new(),
            compacted_version: 0,
            watches: Vec::new(),
            faults: HashMap::new(),
            forbidden: BTreeSet::new(),
            stale_versions: BTreeSet::new(),
            stalled_names: BTreeSet::new(),
            not_found_names: BTreeSet::new(),
            get_latency: Duration::ZERO,
            conversions: HashMap::new(),
            openapi: BTreeMap::new(),
            requests: Vec::new(),
        })))
    }
}

struct Inner {
    always_served: Vec<Kind>,
    served: Vec<Kind>,
    version: u64,
    /// By plural, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
    /// All events since the last compaction.
    log: Vec<LogEvent>,
    /// A watch from an older resource version gets 410 Gone.
    compacted_version: u64,
    watches: Vec<Watch>,
    faults: HashMap<String, ServerFault>,
    /// Plurals and namespaces that get 403 Forbidden.
    forbidden: BTreeSet<(String, String)>,
    /// API versions whose discovery is stale.
    stale_versions: BTreeSet<String>,
    /// Names of objects whose `get` never completes.
    stalled_names: BTreeSet<String>,
    /// Names of objects that are listed and whose `get` returns 404.
    not_found_names: BTreeSet<String>,
    get_latency: Duration,
    conversions: HashMap<String, Conversion>,
    /// OpenAPI documents by API version. If empty, the server has no OpenAPI endpoint.
    openapi: BTreeMap<String, Bytes>,
    requests: Vec<ApiRequest>,
}

/// A copy of the data of the server.
pub struct Backup {
    version: u64,
    objects: BTreeMap<(String, String, String), Value>,
}

/// Converts a stored object to a version of its kind.
pub type Conversion = fn(Value, &str) -> Value;

struct LogEvent {
    plural: String,
    version: u64,
    event_type: &'static str,
    object: Value,
}

struct Watch {
    request: ApiRequest,
    sender: mpsc::UnboundedSender<Result<Bytes, Infallible>>,
}

/// A request for objects or for discovery.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    pub url: String,
    pub plural: String,
    pub namespace: Option<String>,
    /// The object of a `get`.
    pub name: Option<String>,
    pub label_selector: String,
    pub metadata_only: bool,
    /// The API version in the URL.
    version: String,
    field_selector: String,
    watch: bool,
    resource_version: u64,
    timeout: Duration,
}

impl ApiServer {
    /// A server that also serves the kinds in which sources store their baselines.
    pub fn with_source_kinds() -> Self {
        let server = Self::default();
        let kind =
            |kind: &str, plural: &str| Kind { kind: kind.into(), plural: plural.into(), ..Kind::service() };
        let lease = Kind { group: "coordination.k8s.io".into(), ..kind("Lease", "leases") };
        let kinds = [kind("Secret", "secrets"), kind("ConfigMap", "configmaps"), lease];
        server.0.lock().unwrap().always_served.extend(kinds);
        server.serve(&[]);
        server
    }

    pub fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            let (head, _) = request.into_parts();
            async move { Ok::<_, tower::BoxError>(server.respond_to(&head).await) }
        });
        Client::new(service, "default")
    }

    /// Serves HTTP, for an exporter in another process.
    pub async fn serve_http(self, listener: tokio::net::TcpListener) {
        let respond = async move |request: Request<Body>| self.respond_to(&request.into_parts().0).await;
        axum::serve(listener, axum::Router::new().fallback(respond))
            .await
            .expect("it serves until the test ends");
    }

    /// Injects a fault into requests for a plural, or for one version of it (`v1/widgets`).
    pub fn set_fault(&self, plural: &str, fault: ServerFault) {
        self.0.lock().unwrap().faults.insert(plural.to_owned(), fault);
    }

    /// Forbids a plural in a namespace; an empty namespace forbids requests across all namespaces.
    pub fn forbid(&self, plural: &str, namespace: &str) {
        self.0.lock().unwrap().forbidden.insert((plural.to_owned(), namespace.to_owned()));
    }

    /// Discovery of this API version is stale: its aggregated API server does not respond.
    pub fn make_stale(&self, api_version: &str) {
        self.0.lock().unwrap().stale_versions.insert(api_version.to_owned());
    }

    /// Ends what `forbid` and `make_stale` began.
    pub fn allow(&self) {
        let mut inner = self.0.lock().unwrap();
        inner.forbidden.clear();
        inner.stale_versions.clear();
    }

    /// Never responds to a `get` of this name.
    pub fn stall(&self, name: &str) {
        self.0.lock().unwrap().stalled_names.insert(name.to_owned());
    }

    /// Responds with 404 to a `get` of this name, as if the object was deleted after the list.
    pub fn return_not_found(&self, name: &str) {
        self.0.lock().unwrap().not_found_names.insert(name.to_owned());
    }

    /// Delays each `get`.
    pub fn set_latency(&self, latency: Duration) {
        self.0.lock().unwrap().get_latency = latency;
    }

    /// Sets how objects of a plural are converted between versions.
    pub fn set_conversion(&self, plural: &str, conversion: Conversion) {
        self.0.lock().unwrap().conversions.insert(plural.to_owned(), conversion);
    }

    /// Serves these kinds in addition to the kinds that it always serves; closes watches of other kinds.
    pub fn serve(&self, kinds: &[Kind]) {
        let mut inner = self.0.lock().unwrap();
        inner.served = inner.always_served.iter().chain(kinds).cloned().collect();
        let served: Vec<String> = inner.served.iter().map(|kind| kind.plural.to_string()).collect();
        inner.watches.retain(|watch| served.contains(&watch.request.plural));
    }

    /// Sets the OpenAPI document of an API version.
    pub fn set_openapi(&self, api_version: &str, document: impl Into<Bytes>) {
        self.0.lock().unwrap().openapi.insert(api_version.to_owned(), document.into());
    }

    pub fn open_watches(&self) -> usize {
        let mut inner = self.0.lock().unwrap();
        inner.watches.retain(|watch| !watch.sender.is_closed());
        inner.watches.len()
    }

    /// An object with its resource version.
    pub fn object(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let inner = self.0.lock().unwrap();
        inner.objects.get(&(plural.to_owned(), namespace.to_owned(), name.to_owned())).cloned()
    }

    /// Creates or replaces an object.
    pub fn put(&self, plural: &str, object: Value) {
        let text = |name: &str| object["metadata"][name].as_str().unwrap_or("").to_owned();
        let key = (plural.to_owned(), text("namespace"), text("name"));
        let mut inner = self.0.lock().unwrap();
        let object = inner.with_next_version(object);
        let event_type =
            if inner.objects.insert(key, object.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        inner.record_event(plural, event_type, object);
    }

    /// Deletes an object, if it exists.
    pub fn delete(&self, plural: &str, namespace: &str, name: &str) {
        let mut inner = self.0.lock().unwrap();
        if let Some(object) = inner.objects.remove(&(plural.into(), namespace.into(), name.into())) {
            let object = inner.with_next_version(object);
            inner.record_event(plural, "DELETED", object);
        }
    }

    /// Sends a raw line on every open watch of a plural, and returns their number.
    pub fn send_line(&self, plural: &str, line: &str) -> usize {
        let mut inner = self.0.lock().unwrap();
        let line = Bytes::from(format!("{line}\n"));
        let mut sent = 0;
        inner.watches.retain(|watch| {
            if watch.request.plural != plural {
                return true;
            }
            let is_sent = watch.sender.unbounded_send(Ok(line.clone())).is_ok();
            sent += usize::from(is_sent);
            is_sent
        });
        sent
    }

    /// Closes every open watch without an event.
    pub fn close_watches(&self) {
        let watches = std::mem::take(&mut self.0.lock().unwrap().watches);
        watches.iter().for_each(|watch| watch.sender.close_channel());
    }

    /// Drops all events, as etcd compaction does: watches from older resource versions get 410 Gone.
    pub fn compact_history(&self) {
        let mut inner = self.0.lock().unwrap();
        // Every resource version that clients have seen is older than the compacted one.
        inner.version += 1;
        inner.compacted_version = inner.version;
        inner.log.clear();
    }

    pub fn backup(&self) -> Backup {
        let inner = self.0.lock().unwrap();
        Backup { version: inner.version, objects: inner.objects.clone() }
    }

    /// Restores a backup, as etcd does. Open watches stay open.
    pub fn restore(&self, backup: &Backup) {
        let mut inner = self.0.lock().unwrap();
        (inner.version, inner.objects) = (backup.version, backup.objects.clone());
        inner.compacted_version = inner.version;
        inner.log.clear();
    }

    /// The resource version of each object of a plural, by name.
    pub fn resource_versions(&self, plural: &str) -> BTreeMap<String, String> {
        let inner = self.0.lock().unwrap();
        let objects = inner.objects.iter().filter(|((key, ..), _)| key == plural);
        let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        objects.map(|((.., name), object)| (name.clone(), version(object))).collect()
    }

    pub fn requests(&self) -> Vec<ApiRequest> {
        self.0.lock().unwrap().requests.clone()
    }

    /// The URLs of all requests.
    pub fn request_urls(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.url).collect()
    }

    async fn respond_to(&self, head: &Parts) -> Response<Body> {
        let if_none_match = head.headers.get("if-none-match");
        let request = ApiRequest::parse(head);
        let (fault, latency) = {
            let mut inner = self.0.lock().unwrap();
            inner.requests.push(request.clone());
            (inner.fault(&request), inner.get_latency)
        };
        let path = request.url.split('?').next().unwrap();
        match (fault, request.watch) {
            (ServerFault::Unresponsive, _) => std::future::pending().await,
            (ServerFault::HttpError(code, retry_after), _) => error_response(code, retry_after),
            _ if self.0.lock().unwrap().forbids(&request) => forbidden_response(&request),
            _ if ["/api", "/apis"].contains(&path) => self.aggregated_discovery(path, if_none_match),
            _ if path.starts_with("/openapi/") => self.openapi_response(&request.url),
            _ if !self.serves(path) => error_response(404, None),
            (ServerFault::WatchHttpError(code), true) => error_response(code, None),
            (ServerFault::WatchErrorEvent(code), true) => {
                Response::new(Body::from(format!("{}\n", error_event(code))))
            }
            (ServerFault::ListStalls(bytes), false) => {
                let list = self.list(&request);
                let start = Bytes::copy_from_slice(&list.as_bytes()[..bytes.min(list.len())]);
                let stalled = stream::iter([Ok::<_, Infallible>(start)]).chain(stream::pending());
                Response::new(Body::from_stream(stalled))
            }
            (ServerFault::ListTruncated(bytes), false) => {
                let list = self.list(&request);
                Response::new(Body::from(list.as_bytes()[..bytes.min(list.len())].to_vec()))
            }
            (ServerFault::SlowList(delay), false) if !request.is_probe() => {
                let list = self.list(&request);
                tokio::time::sleep(delay).await;
                Response::new(Body::from(list))
            }
            (ServerFault::LongList(count, object), false) if !request.is_probe() => {
                Response::new(Body::from_stream(self.long_list(count, &object)))
            }
            (ServerFault::SlowBacklog(delay), true) => {
                let backlog = self.watch(request).into_body();
                let delayed = stream::once(tokio::time::sleep(delay)).map(|()| Ok(Bytes::new()));
                Response::new(Body::from_stream(delayed.chain(backlog.into_data_stream())))
            }
            (_, true) => self.watch(request),
            (_, false) if request.name.is_some() => {
                tokio::time::sleep(latency).await;
                self.get(&request)
            }
            (_, false) => Response::new(Body::from(self.list(&request))),
        }
    }

    /// Whether the path belongs to a served kind.
    fn serves(&self, path: &str) -> bool {
        self.0.lock().unwrap().served.iter().any(|kind| {
            let root = if kind.group.is_empty() { "/api" } else { "/apis" };
            let plural = format!("/{}", kind.plural);
            path.starts_with(&format!("{root}/{}/", kind.api_version()))
                && (path.ends_with(&plural) || path.contains(&format!("{plural}/")))
        })
    }

    /// Aggregated discovery: the core group at `/api`, the other groups at `/apis`.
    fn aggregated_discovery(&self, path: &str, if_none_match: Option<&HeaderValue>) -> Response<Body> {
        let inner = self.0.lock().unwrap();
        let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for kind in inner.served.iter().filter(|kind| kind.group.is_empty() == (path == "/api")) {
            let scope = if kind.namespaced { "Namespaced" } else { "Cluster" };
            let resources = json!([
                {"resource": &*kind.plural, "responseKind": {"kind": &*kind.kind}, "scope": scope, "verbs": ["list", "watch"]},
                {"resource": "reviews", "responseKind": {"kind": "Review"}, "scope": "Cluster", "verbs": ["create"]},
            ]);
            let version = &*kind.version;
            groups.entry(&kind.group).or_default().push(
                if inner.stale_versions.contains(&*kind.api_version()) {
                    json!({"version": version, "freshness": "Stale", "resources": []})
                } else {
                    json!({"version": version, "freshness": "Current", "resources": resources})
                },
            );
        }
        let items: Vec<Value> = groups
            .into_iter()
            .map(|(name, versions)| json!({"metadata": {"name": name}, "versions": versions}))
            .collect();
        let text = json!({"kind": "APIGroupDiscoveryList", "items": items}).to_string();
        let etag = HeaderValue::from_str(&format!("\"{}\"", hash_of(text.as_bytes()))).unwrap();
        let mut response = Response::new(Body::empty());
        if if_none_match == Some(&etag) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            *response.body_mut() = Body::from(text);
        }
        response.headers_mut().insert("etag", etag);
        response
    }

    /// The OpenAPI document of an API version, or the index. Like a real server, it requires the current hash.
    fn openapi_response(&self, url: &str) -> Response<Body> {
        let openapi = self.0.lock().unwrap().openapi.clone();
        let document_url = |(version, text): (&String, &Bytes)| {
            format!("/openapi/v3/apis/{version}?hash={:X}", hash_of(text))
        };
        if let Some((_, text)) = openapi.iter().find(|entry| document_url(*entry) == url) {
            return Response::new(Body::from(text.clone()));
        }
        if openapi.is_empty() || url != "/openapi/v3" {
            return error_response(if url.contains("?hash=") { 301 } else { 404 }, None);
        }
        let paths: BTreeMap<String, Value> = openapi
            .iter()
            .map(|entry| (format!("apis/{}", entry.0), json!({"serverRelativeURL": document_url(entry)})))
            .collect();
        Response::new(Body::from(json!({"paths": paths}).to_string()))
    }

    fn get(&self, request: &ApiRequest) -> Response<Body> {
        let inner = self.0.lock().unwrap();
        let name = request.name.clone().unwrap();
        if inner.stalled_names.contains(&name) {
            return Response::new(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()));
        }
        let namespace = request.namespace.clone().unwrap_or_default();
        match inner.objects.get(&(request.plural.clone(), namespace, name.clone())) {
            Some(object) if !inner.not_found_names.contains(&name) => {
                Response::new(Body::from(inner.representation(request, object).to_string()))
            }
            _ => error_response(404, None),
        }
    }

    fn list(&self, request: &ApiRequest) -> String {
        let inner = self.0.lock().unwrap();
        let objects = inner.objects.iter().filter(|((plural, ..), object)| request.selects(plural, object));
        let items: Vec<Value> = objects.map(|(_, object)| inner.representation(request, object)).collect();
        json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": inner.version.to_string()}, "items": items})
            .to_string()
    }

    /// A list of copies of an object, whose names end with a number.
    fn long_list(
        &self,
        count: usize,
        object: &Value,
    ) -> impl Stream<Item = Result<Bytes, Infallible>> + use<> {
        const CHUNK: usize = 50;
        let version = self.0.lock().unwrap().version;
        let start = format!("{{\"metadata\":{{\"resourceVersion\":\"{version}\"}},\"items\":[");
        let name = object["metadata"]["name"].to_string();
        let object = object.to_string();
        let (before, after) = object.split_once(&name).unwrap();
        let (before, after) = (format!("{before}{}", name.trim_end_matches('"')), format!("\"{after}"));
        let copies = (0..count).step_by(CHUNK).map(move |first| {
            let copy = |number| {
                let separator = if number == 0 { "" } else { "," };
                format!("{separator}{before}{number}{after}")
            };
            (first..count.min(first + CHUNK)).map(copy).collect()
        });
        let parts = iter::once(start).chain(copies).chain(["]}".to_owned()]);
        stream::iter(parts.map(|part: String| Ok(part.into())))
    }

    fn watch(&self, request: ApiRequest) -> Response<Body> {
        let mut inner = self.0.lock().unwrap();
        if request.resource_version < inner.compacted_version {
            return Response::new(Body::from(format!("{}\n", error_event(410))));
        }
        let (sender, receiver) = mpsc::unbounded();
        for event in &inner.log {
            if event.version > request.resource_version && request.selects(&event.plural, &event.object) {
                sender.unbounded_send(Ok(inner.line(&request, event))).unwrap();
            }
        }
        inner.watches.push(Watch { request: request.clone(), sender: sender.clone() });
        drop(inner);
        // Like a real server, send a bookmark with a newer version, and close the watch after its timeout.
        let server = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(request.timeout).await;
            let inner = server.0.lock().unwrap();
            if let ServerFault::Unresponsive = inner.fault(&request) {
                std::mem::forget(sender);
                return;
            }
            if inner.version > request.resource_version {
                let metadata = json!({"resourceVersion": inner.version.to_string()});
                let object = json!({"kind": "Object", "apiVersion": "v1", "metadata": metadata, "spec": {}});
                let bookmark = json!({"type": "BOOKMARK", "object": object});
                let _ = sender.unbounded_send(Ok(Bytes::from(format!("{bookmark}\n"))));
            }
            sender.close_channel();
        });
        Response::new(Body::from_stream(receiver))
    }
}

impl Inner {
    fn fault(&self, request: &ApiRequest) -> ServerFault {
        let of_version = self.faults.get(&format!("{}/{}", request.version, request.plural));
        of_version.or_else(|| self.faults.get(&request.plural)).cloned().unwrap_or_default()
    }

    fn forbids(&self, request: &ApiRequest) -> bool {
        let scope = (request.plural.clone(), request.namespace.clone().unwrap_or_default());
        self.forbidden.contains(&scope)
    }

    /// Assigns the next resource version to an object.
    fn with_next_version(&mut self, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        object
    }

    fn record_event(&mut self, plural: &str, event_type: &'static str, object: Value) {
        let event = LogEvent { plural: plural.to_owned(), version: self.version, event_type, object };
        let mut watches = std::mem::take(&mut self.watches);
        watches.retain(|Watch { request, sender }| {
            // A real server does not send events up to the version of the client.
            event.version <= request.resource_version
                || !request.selects(plural, &event.object)
                || sender.unbounded_send(Ok(self.line(request, &event))).is_ok()
        });
        self.watches = watches;
        self.log.push(event);
    }

    fn line(&self, request: &ApiRequest, event: &LogEvent) -> Bytes {
        let object = self.representation(request, &event.object);
        Bytes::from(format!("{}\n", json!({"type": event.event_type, "object": object})))
    }

    /// The object in the version and form that the client requests.
    fn representation(&self, request: &ApiRequest, object: &Value) -> Value {
        if request.metadata_only {
            return json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]});
        }
        let conversion = self.conversions.get(&request.plural);
        conversion.map_or_else(|| object.clone(), |convert| convert(object.clone(), &request.version))
    }
}

impl ApiRequest {
    fn parse(head: &Parts) -> Self {
        let accept = head.headers.get("accept").and_then(|value| value.to_str().ok()).unwrap_or("");
        let (path, query) = (head.uri.path(), head.uri.query().unwrap_or(""));
        let segments: Vec<&str> = path.split('/').collect();
        let segment = |index: usize| segments.get(index).map(|segment| (*segment).to_owned());
        let namespaces = segments.iter().position(|segment| *segment == "namespaces");
        let namespaces = namespaces.filter(|index| segments.len() > index + 2);
        let plural = match namespaces {
            Some(index) => segment(index + 2),
            None => segment(segments.len() - 1),
        };
        let parameter = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let value = pairs.find(|(key, _)| *key == name).map_or("", |(_, value)| value);
            percent_decode_str(value).decode_utf8().unwrap().into_owned()
        };
        Self {
            url: head.uri.to_string(),
            plural: plural.unwrap(),
            namespace: namespaces.and_then(|index| segment(index + 1)),
            name: namespaces.and_then(|index| segment(index + 3)),
            label_selector: parameter("labelSelector"),
            metadata_only: accept.contains("PartialObjectMetadata"),
            version: segment(if path.starts_with("/apis/") { 3 } else { 2 }).unwrap_or_default(),
            field_selector: parameter("fieldSelector"),
            watch: ["1", "true"].contains(&&*parameter("watch")),
            resource_version: parameter("resourceVersion").parse().unwrap_or(0),
            timeout: Duration::from_secs(parameter("timeoutSeconds").parse().unwrap_or(30)),
        }
    }

    /// Whether the client only requests the newest resource version.
    pub fn is_probe(&self) -> bool {
        self.url.ends_with("&limit=1")
    }

    fn selects(&self, plural: &str, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let text = |name: &str| metadata[name].as_str().unwrap_or("");
        let labels = Selector::parse(&self.label_selector).unwrap();
        // Selectors do not keep malformed objects from clients.
        let is_malformed = !metadata["labels"].is_null() && !metadata["labels"].is_object();
        let mut fields = self.field_selector.split(',').filter(|requirement| !requirement.is_empty());
        plural == self.plural
            && self.namespace.as_deref().is_none_or(|namespace| text("namespace") == namespace)
            && (is_malformed || labels.matches(|name| metadata["labels"][name].as_str()))
            && fields.all(|requirement| {
                let (field, value) = requirement.split_once('=').unwrap();
                let is_equal = |field: &str| text(field.strip_prefix("metadata.").unwrap()) == value;
                field.strip_suffix('!').map_or_else(|| is_equal(field), |field| !is_equal(field))
            })
    }
}

fn hash_of(text: &[u8]) -> u64 {
    text.iter().fold(7_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add((*byte).into()))
}

fn error_response(code: u16, retry_after: Option<u64>) -> Response<Body> {
    let status =
        json!({"kind": "Status", "status": "Failure", "code": code, "message": format!("said {code}")});
    let mut response = Response::builder().status(StatusCode::from_u16(code).unwrap());
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds.to_string());
    }
    response.body(Body::from(status.to_string())).unwrap()
}

fn forbidden_response(request: &ApiRequest) -> Response<Body> {
    let verb = if request.name.is_some() { "get" } else { "list" };
    let message = format!("{} is forbidden: User \"exporter\" cannot {verb} resource", request.plural);
    let status = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message});
    Response::builder().status(StatusCode::FORBIDDEN).body(Body::from(status.to_string())).unwrap()
}

fn error_event(code: u16) -> Value {
    json!({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "too old resource version"}})
}

/// A cluster-scoped kind of `example.com/v1`.
pub fn custom_kind(kind: &str) -> Kind {
    Kind {
        group: "example.com".into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: format!("{}s", kind.to_lowercase()).into(),
        namespaced: false,
    }
}
