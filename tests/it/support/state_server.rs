//! A fake API server with namespaced objects, label selectors and watches, for sources that read Secrets, `ConfigMaps` and Leases.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::body::{Body, Bytes};
use futures::{StreamExt as _, channel::mpsc, stream};
use http::{Request, Response, StatusCode};
use kube::Client;
use serde_json::{Value, json};

#[derive(Clone, Default)]
pub(crate) struct StateServer(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    version: u64,
    /// By plural, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
    log: Vec<(String, u64, Value)>,
    watches: Vec<(ParsedRequest, mpsc::UnboundedSender<Result<Bytes, Infallible>>)>,
    /// Plurals and namespaces that get 403 Forbidden.
    forbidden: BTreeSet<(String, String)>,
    /// Names of objects whose `get` never completes.
    unanswered: BTreeSet<String>,
    /// Names of objects that are listed and whose `get` returns 404.
    not_found_names: BTreeSet<String>,
    /// The delay of each `get`.
    latency: Duration,
    requests: Vec<ParsedRequest>,
    /// Discovery of each `GROUP/VERSION`: each kind, and whether it is namespaced.
    kinds: BTreeMap<String, Vec<(String, bool)>>,
    /// Of `GROUP/VERSION`: the aggregated API server does not respond, so discovery is stale.
    unavailable: BTreeSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedRequest {
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    /// The object of a `get`.
    pub(crate) name: Option<String>,
    pub(crate) selector: String,
    pub(crate) metadata_only: bool,
    watch: bool,
    from: u64,
    timeout_seconds: u64,
}

impl StateServer {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let accept = request.headers().get("accept").and_then(|value| value.to_str().ok()).unwrap_or("");
            let parsed = parse_request(&request.uri().to_string(), accept.contains("PartialObjectMetadata"));
            let latency =
                if parsed.name.is_some() { server.0.lock().unwrap().latency } else { Duration::ZERO };
            let server = server.clone();
            async move {
                tokio::time::sleep(latency).await;
                Ok::<_, tower::BoxError>(server.respond_to(parsed))
            }
        });
        Client::new(service, "default")
    }

    /// A client that sends requests for Secrets and Leases to this server, and all others to `fallback`.
    pub(crate) fn client_with_fallback(&self, fallback: &Client) -> Client {
        let (local, fallback) = (self.client(), fallback.clone());
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let path = request.uri().path();
            let is_local = path.ends_with("/secrets") || path.ends_with("/leases");
            let client = if is_local { local.clone() } else { fallback.clone() };
            async move { client.send(request).await }
        });
        Client::new(service, "default")
    }

    /// Creates or replaces an object.
    pub(crate) fn put(&self, plural: &str, mut object: Value) {
        let mut inner = self.0.lock().unwrap();
        inner.version += 1;
        object["metadata"]["resourceVersion"] = inner.version.to_string().into();
        let existed = inner.objects.insert(key(plural, &object), object.clone()).is_some();
        inner.record_event(plural, if existed { "MODIFIED" } else { "ADDED" }, &object);
    }

    pub(crate) fn delete(&self, plural: &str, namespace: &str, name: &str) {
        let mut inner = self.0.lock().unwrap();
        let mut object = inner.objects.remove(&(plural.into(), namespace.into(), name.into())).unwrap();
        inner.version += 1;
        object["metadata"]["resourceVersion"] = inner.version.to_string().into();
        inner.record_event(plural, "DELETED", &object);
    }

    /// Forbids a plural in a namespace; an empty namespace forbids requests across all namespaces.
    pub(crate) fn forbid(&self, plural: &str, namespace: &str) {
        self.0.lock().unwrap().forbidden.insert((plural.to_owned(), namespace.to_owned()));
    }

    /// Never responds to a `get` of this name.
    pub(crate) fn stall(&self, name: &str) {
        self.0.lock().unwrap().unanswered.insert(name.to_owned());
    }

    /// Responds with 404 to a `get` of this name, as if the object was deleted after the list.
    pub(crate) fn return_not_found(&self, name: &str) {
        self.0.lock().unwrap().not_found_names.insert(name.to_owned());
    }

    /// Delays each `get`.
    pub(crate) fn set_latency(&self, latency: Duration) {
        self.0.lock().unwrap().latency = latency;
    }

    pub(crate) fn allow(&self) {
        let mut inner = self.0.lock().unwrap();
        inner.forbidden.clear();
        inner.unavailable.clear();
    }

    pub(crate) fn serve(&self, version: &str, kind: &str, namespaced: bool) {
        let mut inner = self.0.lock().unwrap();
        inner.kinds.entry(version.to_owned()).or_default().push((kind.to_owned(), namespaced));
    }

    /// Discovery of this `GROUP/VERSION` is stale until [`Self::allow`].
    pub(crate) fn make_unavailable(&self, version: &str) {
        self.0.lock().unwrap().unavailable.insert(version.to_owned());
    }

    pub(crate) fn requests(&self) -> Vec<ParsedRequest> {
        self.0.lock().unwrap().requests.clone()
    }

    fn respond_to(&self, request: ParsedRequest) -> Response<Body> {
        let mut inner = self.0.lock().unwrap();
        inner.requests.push(request.clone());
        let scope = (request.plural.clone(), request.namespace.clone().unwrap_or_default());
        if inner.forbidden.contains(&scope) {
            let verb = if request.name.is_some() { "get" } else { "list" };
            let message =
                format!("{} is forbidden: User \"exporter\" cannot {verb} resource", request.plural);
            let status = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message});
            let response = Response::builder().status(StatusCode::FORBIDDEN);
            return response.body(Body::from(status.to_string())).unwrap();
        }
        if ["api", "apis"].contains(&&*request.plural) {
            return inner.discovery(&request.plural);
        }
        if let Some(name) = &request.name {
            if inner.unanswered.contains(name) {
                return Response::new(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()));
            }
            if inner.not_found_names.contains(name) {
                return not_found();
            }
            let key = (request.plural.clone(), request.namespace.clone().unwrap_or_default(), name.clone());
            let found = inner.objects.get(&key).map(Value::to_string);
            return found.map_or_else(not_found, |object| Response::new(Body::from(object)));
        }
        if !request.watch {
            let items: Vec<Value> = inner
                .objects
                .iter()
                .filter(|((plural, ..), object)| request.matches(plural, object))
                .map(|(_, object)| request.representation(object))
                .collect();
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": inner.version.to_string()}, "items": items});
            return Response::new(Body::from(list.to_string()));
        }
        let end = tokio::time::sleep(Duration::from_secs(request.timeout_seconds));
        let (sender, receiver) = mpsc::unbounded();
        for (plural, version, event) in &inner.log {
            if *version > request.from && request.matches(plural, &event["object"]) {
                sender.unbounded_send(Ok(request.line(event))).unwrap();
            }
        }
        inner.watches.push((request, sender));
        Response::new(Body::from_stream(receiver.take_until(end)))
    }
}

fn not_found() -> Response<Body> {
    let status = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"});
    Response::builder().status(StatusCode::NOT_FOUND).body(Body::from(status.to_string())).unwrap()
}

impl Inner {
    /// The aggregated discovery document. All kinds are in named groups.
    fn discovery(&self, root: &str) -> Response<Body> {
        let group = |(api_version, kinds): (&String, &Vec<(String, bool)>)| {
            let (group, version) = api_version.split_once('/').unwrap();
            let is_stale = self.unavailable.contains(api_version);
            let resources: Vec<Value> = kinds
                .iter()
                .filter(|_| !is_stale)
                .map(|(kind, namespaced)| {
                    json!({"resource": format!("{}s", kind.to_lowercase()), "verbs": ["list", "watch"],
                        "scope": if *namespaced { "Namespaced" } else { "Cluster" },
                        "responseKind": {"group": group, "version": version, "kind": kind}})
                })
                .collect();
            let freshness = if is_stale { "Stale" } else { "Current" };
            let versions = json!([{"version": version, "freshness": freshness, "resources": resources}]);
            json!({"metadata": {"name": group}, "versions": versions})
        };
        let items: Vec<Value> = self.kinds.iter().filter(|_| root == "apis").map(group).collect();
        let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items});
        Response::new(Body::from(list.to_string()))
    }

    fn record_event(&mut self, plural: &str, event: &str, object: &Value) {
        let event = json!({"type": event, "object": object});
        self.log.push((plural.to_owned(), self.version, event.clone()));
        self.watches.retain(|(request, watch)| {
            !request.matches(plural, object) || watch.unbounded_send(Ok(request.line(&event))).is_ok()
        });
    }
}

impl ParsedRequest {
    fn matches(&self, plural: &str, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        plural == self.plural
            && self.namespace.as_deref().is_none_or(|namespace| object["metadata"]["namespace"] == namespace)
            && self
                .selector
                .split(',')
                .all(|one| one.split_once('=').is_some_and(|(name, value)| labels[name] == value))
    }

    fn representation(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if self.metadata_only {
            object = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]});
        }
        object
    }

    fn line(&self, event: &Value) -> Bytes {
        let line = json!({"type": event["type"], "object": self.representation(&event["object"])});
        Bytes::from(format!("{line}\n"))
    }
}

fn key(plural: &str, object: &Value) -> (String, String, String) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or("").to_owned();
    (plural.to_owned(), text("namespace"), text("name"))
}

fn parse_request(url: &str, metadata_only: bool) -> ParsedRequest {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let segments: Vec<&str> = path.split('/').collect();
    let at = segments.iter().position(|segment| *segment == "namespaces");
    let namespace = at.map(|at| segments[at + 1].to_owned());
    let name = at.and_then(|at| segments.get(at + 3)).map(|name| (*name).to_owned());
    let plural = match at {
        Some(at) => segments[at + 2].to_owned(),
        None => (*segments.last().unwrap()).to_owned(),
    };
    let parameter = |name: &str| {
        let value = query.split('&').find_map(|pair| pair.split_once('=').filter(|(key, _)| *key == name));
        value.map_or_else(String::new, |(_, value)| {
            value.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/")
        })
    };
    ParsedRequest {
        plural,
        namespace,
        name,
        selector: parameter("labelSelector"),
        metadata_only,
        watch: parameter("watch") == "1",
        from: parameter("resourceVersion").parse().unwrap_or(0),
        timeout_seconds: parameter("timeoutSeconds").parse().unwrap_or(0),
    }
}
