//! A fake API server as a tower service: lists, watches, discovery, OpenAPI and injected faults.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    sync::{Arc, Mutex},
};

use axum::body::{Body, Bytes};
use drift_exporter::types::Kind;
use futures::channel::mpsc;
use http::{HeaderValue, Request, Response, StatusCode};
use kube::Client;
use serde_json::{Value, json};

/// A fault that the server injects into requests for one plural.
#[derive(Clone, Debug, Default)]
pub(crate) enum ServerFault {
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
}

#[derive(Clone)]
pub(crate) struct ApiServer(Arc<Mutex<Inner>>);

impl Default for ApiServer {
    /// A server with Deployments and Services, and no objects.
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Inner {
            served: vec![Kind::service(), Kind::deployment()],
            version: 0,
            objects: BTreeMap::new(),
            log: Vec::new(),
            compacted_version: 0,
            watches: Vec::new(),
            faults: HashMap::new(),
            conversions: HashMap::new(),
            openapi: BTreeMap::new(),
            requests: Vec::new(),
        })))
    }
}

struct Inner {
    served: Vec<Kind>,
    version: u64,
    objects: BTreeMap<(String, String), Value>,
    /// All events since the last compaction: plural, resource version, event.
    log: Vec<(String, u64, Value)>,
    /// A watch from an older resource version gets 410 Gone.
    compacted_version: u64,
    watches: Vec<Watch>,
    faults: HashMap<String, ServerFault>,
    conversions: HashMap<String, Conversion>,
    /// OpenAPI documents by API version. If empty, the server has no OpenAPI endpoint.
    openapi: BTreeMap<String, Bytes>,
    requests: Vec<String>,
}

/// Converts a stored object to a version of its kind.
pub(crate) type Conversion = fn(Value, &str) -> Value;

struct Watch {
    plural: String,
    version: String,
    sender: mpsc::UnboundedSender<Result<Bytes, Infallible>>,
}

impl ApiServer {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move {
                let if_none_match = request.headers().get("if-none-match").cloned();
                let url = request.uri().to_string();
                Ok::<_, tower::BoxError>(server.respond_to(&url, if_none_match.as_ref()).await)
            }
        });
        Client::new(service, "default")
    }

    /// Injects a fault into requests for a plural, or for one version of it (`v1/widgets`).
    pub(crate) fn set_fault(&self, plural: &str, fault: ServerFault) {
        self.0.lock().unwrap().faults.insert(plural.to_owned(), fault);
    }

    /// Sets how objects of a plural are converted between versions.
    pub(crate) fn set_conversion(&self, plural: &str, conversion: Conversion) {
        self.0.lock().unwrap().conversions.insert(plural.to_owned(), conversion);
    }

    /// Serves these kinds in addition to Deployments and Services; closes watches of other kinds.
    pub(crate) fn serve(&self, kinds: &[Kind]) {
        let mut inner = self.0.lock().unwrap();
        inner.served = [Kind::service(), Kind::deployment()].iter().chain(kinds).cloned().collect();
        let served: Vec<String> = inner.served.iter().map(|kind| kind.plural.to_string()).collect();
        inner.watches.retain(|watch| served.contains(&watch.plural));
    }

    /// Sets the OpenAPI document of an API version.
    pub(crate) fn set_openapi(&self, api_version: &str, document: impl Into<Bytes>) {
        self.0.lock().unwrap().openapi.insert(api_version.to_owned(), document.into());
    }

    pub(crate) fn open_watches(&self) -> usize {
        let mut inner = self.0.lock().unwrap();
        inner.watches.retain(|watch| !watch.sender.is_closed());
        inner.watches.len()
    }

    /// Creates or replaces an object.
    pub(crate) fn put(&self, plural: &str, mut object: Value) {
        let mut inner = self.0.lock().unwrap();
        inner.version += 1;
        object["metadata"]["resourceVersion"] = inner.version.to_string().into();
        let key = (plural.to_owned(), name_of(&object));
        let event = if inner.objects.contains_key(&key) { "MODIFIED" } else { "ADDED" };
        inner.objects.insert(key, object.clone());
        inner.record_event(plural, event, &object);
    }

    pub(crate) fn delete(&self, plural: &str, name: &str) {
        let mut inner = self.0.lock().unwrap();
        let Some(mut object) = inner.objects.remove(&(plural.to_owned(), name.to_owned())) else { return };
        inner.version += 1;
        object["metadata"]["resourceVersion"] = inner.version.to_string().into();
        inner.record_event(plural, "DELETED", &object);
    }

    /// Sends a raw line on every open watch of a plural.
    pub(crate) fn send_line(&self, plural: &str, line: &str) {
        let mut inner = self.0.lock().unwrap();
        let line = Bytes::from(format!("{line}\n"));
        inner
            .watches
            .retain(|watch| watch.plural != plural || watch.sender.unbounded_send(Ok(line.clone())).is_ok());
    }

    /// Closes every open watch without an event.
    pub(crate) fn close_watches(&self) {
        let watches = std::mem::take(&mut self.0.lock().unwrap().watches);
        watches.iter().for_each(|watch| watch.sender.close_channel());
    }

    /// Drops all events, as etcd compaction does: watches from older resource versions get 410 Gone.
    pub(crate) fn compact_history(&self) {
        let mut inner = self.0.lock().unwrap();
        // Every resource version that clients have seen is older than the compacted one.
        inner.version += 1;
        inner.compacted_version = inner.version;
        inner.log.clear();
    }

    /// The resource version of each object of a plural, by name.
    pub(crate) fn resource_versions(&self, plural: &str) -> BTreeMap<String, String> {
        let inner = self.0.lock().unwrap();
        let objects = inner.objects.iter().filter(|((key, _), _)| key == plural);
        objects
            .map(|((_, name), object)| {
                (name.clone(), object["metadata"]["resourceVersion"].as_str().unwrap().to_owned())
            })
            .collect()
    }

    /// The URLs of all requests.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    async fn respond_to(&self, url: &str, if_none_match: Option<&HeaderValue>) -> Response<Body> {
        let path = url.split('?').next().unwrap();
        let plural = path.rsplit('/').next().unwrap().to_owned();
        let watch = url.contains("watch=1");
        let fault = {
            let mut inner = self.0.lock().unwrap();
            inner.requests.push(url.to_owned());
            let of_version = inner.faults.get(&format!("{}/{plural}", version_of(path)));
            of_version.or_else(|| inner.faults.get(&plural)).cloned().unwrap_or_default()
        };
        match (fault, watch) {
            (ServerFault::Unresponsive, _) => std::future::pending().await,
            (ServerFault::HttpError(code, retry_after), _) => error_response(code, retry_after),
            _ if ["api", "apis"].contains(&plural.as_str()) => self.discovery(&plural, if_none_match),
            _ if path.starts_with("/openapi/") => self.openapi_response(url),
            _ if !self.serves(path) => error_response(404, None),
            (ServerFault::WatchHttpError(code), true) => error_response(code, None),
            (ServerFault::WatchErrorEvent(code), true) => {
                respond(Body::from(format!("{}\n", error_event(code))))
            }
            (ServerFault::ListStalls(bytes), false) => {
                let list = self.list(&plural, url);
                let (sender, body) = channel();
                sender
                    .unbounded_send(Ok(Bytes::copy_from_slice(&list.as_bytes()[..bytes.min(list.len())])))
                    .unwrap();
                std::mem::forget(sender);
                respond(body)
            }
            (ServerFault::ListTruncated(bytes), false) => {
                let list = self.list(&plural, url);
                respond(Body::from(list.as_bytes()[..bytes.min(list.len())].to_vec()))
            }
            (_, true) => self.watch(&plural, url),
            (_, false) => respond(Body::from(self.list(&plural, url))),
        }
    }

    /// Whether the path belongs to a served kind.
    fn serves(&self, path: &str) -> bool {
        self.0.lock().unwrap().served.iter().any(|kind| {
            let root = if kind.group.is_empty() { "/api" } else { "/apis" };
            path.starts_with(&format!("{root}/{}/", kind.api_version()))
                && path.ends_with(&format!("/{}", kind.plural))
        })
    }

    /// Discovery: the core group at `/api`, the other groups at `/apis`.
    fn discovery(&self, root: &str, if_none_match: Option<&HeaderValue>) -> Response<Body> {
        let served = self.0.lock().unwrap().served.clone();
        let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
        for kind in served.iter().filter(|kind| kind.group.is_empty() == (root == "api")) {
            let scope = if kind.namespaced { "Namespaced" } else { "Cluster" };
            groups.entry(&kind.group).or_default().push(json!({"version": &*kind.version, "resources": [
                {"resource": &*kind.plural, "responseKind": {"kind": &*kind.kind}, "scope": scope, "verbs": ["list", "watch"]},
                {"resource": "reviews", "responseKind": {"kind": "Review"}, "scope": "Cluster", "verbs": ["create"]},
            ]}));
        }
        let items: Vec<Value> = groups
            .into_iter()
            .map(|(name, versions)| json!({"metadata": {"name": name}, "versions": versions}))
            .collect();
        let text = json!({"kind": "APIGroupDiscoveryList", "items": items}).to_string();
        let etag = HeaderValue::from_str(&format!("\"{}\"", hash_of(text.as_bytes()))).unwrap();
        let mut response = respond(Body::empty());
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
            return respond(Body::from(text.clone()));
        }
        if openapi.is_empty() || url != "/openapi/v3" {
            return error_response(if url.contains("?hash=") { 301 } else { 404 }, None);
        }
        let paths: BTreeMap<String, Value> = openapi
            .iter()
            .map(|entry| (format!("apis/{}", entry.0), json!({"serverRelativeURL": document_url(entry)})))
            .collect();
        respond(Body::from(json!({"paths": paths}).to_string()))
    }

    fn list(&self, plural: &str, url: &str) -> String {
        let inner = self.0.lock().unwrap();
        let in_scope = |object: &Value| {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("");
            let excluded = url.contains(&format!("metadata.namespace%21%3D{namespace}"));
            !excluded && (!url.contains("/namespaces/") || url.contains(&format!("/namespaces/{namespace}/")))
        };
        let objects = inner.objects.iter().filter(|((key, _), object)| key == plural && in_scope(object));
        let items: Vec<Value> =
            objects.map(|(_, object)| inner.converted(plural, version_of(url), object)).collect();
        json!({"kind": "List", "metadata": {"resourceVersion": inner.version.to_string()}, "items": items})
            .to_string()
    }

    fn watch(&self, plural: &str, url: &str) -> Response<Body> {
        let from =
            url.split("resourceVersion=").nth(1).and_then(|from| from.parse::<u64>().ok()).unwrap_or(0);
        let mut inner = self.0.lock().unwrap();
        if from < inner.compacted_version {
            return respond(Body::from(format!("{}\n", error_event(410))));
        }
        let (sender, body) = channel();
        for (logged_plural, version, line) in &inner.log {
            if logged_plural == plural && *version > from {
                let line = inner.line(plural, version_of(url), line);
                sender.unbounded_send(Ok(line)).unwrap();
            }
        }
        let version = version_of(url).to_owned();
        inner.watches.push(Watch { plural: plural.to_owned(), version, sender: sender.clone() });
        drop(inner);
        // Like a real server, send a bookmark and close the watch after its time-out.
        let (server, plural) = (self.clone(), plural.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_secs(30)).await;
            let version = server.0.lock().unwrap().version.to_string();
            let bookmark =
                json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}, "spec": {}}});
            let unresponsive = server
                .0
                .lock()
                .unwrap()
                .faults
                .get(&plural)
                .is_some_and(|fault| matches!(fault, ServerFault::Unresponsive));
            if unresponsive {
                std::mem::forget(sender);
            } else {
                let _ = sender.unbounded_send(Ok(Bytes::from(format!("{bookmark}\n"))));
                sender.close_channel();
            }
        });
        respond(body)
    }
}

impl Inner {
    fn record_event(&mut self, plural: &str, event: &str, object: &Value) {
        let line = json!({"type": event, "object": object});
        self.log.push((plural.to_owned(), self.version, line.clone()));
        let mut watches = std::mem::take(&mut self.watches);
        watches.retain(|watch| {
            watch.plural != plural
                || watch.sender.unbounded_send(Ok(self.line(plural, &watch.version, &line))).is_ok()
        });
        self.watches = watches;
    }

    /// A watch event as a line, with its object in this version.
    fn line(&self, plural: &str, version: &str, line: &Value) -> Bytes {
        let object = self.converted(plural, version, &line["object"]);
        Bytes::from(format!("{}\n", json!({"type": line["type"], "object": object})))
    }

    fn converted(&self, plural: &str, version: &str, object: &Value) -> Value {
        let conversion = self.conversions.get(plural);
        conversion.map_or_else(|| object.clone(), |convert| convert(object.clone(), version))
    }
}

/// The API version in a URL.
fn version_of(url: &str) -> &str {
    let at = if url.starts_with("/apis/") { 3 } else { 2 };
    url.split('/').nth(at).unwrap_or_default()
}

fn hash_of(text: &[u8]) -> u64 {
    text.iter().fold(7_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add((*byte).into()))
}

fn channel() -> (mpsc::UnboundedSender<Result<Bytes, Infallible>>, Body) {
    let (sender, receiver) = mpsc::unbounded();
    (sender, Body::from_stream(receiver))
}

fn respond(body: Body) -> Response<Body> {
    Response::new(body)
}

fn error_response(code: u16, retry_after: Option<u64>) -> Response<Body> {
    let status = json!({"kind": "Status", "code": code, "message": format!("said {code}")});
    let mut response = Response::builder().status(StatusCode::from_u16(code).unwrap());
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds.to_string());
    }
    response.body(Body::from(status.to_string())).unwrap()
}

fn error_event(code: u16) -> Value {
    json!({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "too old resource version"}})
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or("").to_owned()
}
