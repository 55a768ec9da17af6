//! A small API server with Secrets, `ConfigMaps` and Leases in namespaces, label selectors and watches.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::body::{Body, Bytes};
use futures::{channel::mpsc, stream};
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
    watches: Vec<(Asked, mpsc::UnboundedSender<Result<Bytes, Infallible>>)>,
    /// Plurals and namespaces that nobody may see.
    forbidden: BTreeSet<(String, String)>,
    /// Names of objects that nobody gets an answer about.
    stalled: BTreeSet<String>,
    /// Names of objects that are listed and gone when somebody asks for them.
    vanished: BTreeSet<String>,
    /// How long it takes until an object is given that was asked for by its name.
    pause: Duration,
    requests: Vec<Asked>,
    /// What `/apis/GROUP/VERSION` says: each kind, and whether it has namespaces.
    kinds: BTreeMap<String, Vec<(String, bool)>>,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    /// The one object that is asked for.
    pub(crate) name: Option<String>,
    pub(crate) selector: String,
    pub(crate) metadata_only: bool,
    watch: bool,
    from: u64,
}

impl StateServer {
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let accept = request.headers().get("accept").and_then(|value| value.to_str().ok()).unwrap_or("");
            let asked = read(&request.uri().to_string(), accept.contains("PartialObjectMetadata"));
            let pause = if asked.name.is_some() { server.0.lock().unwrap().pause } else { Duration::ZERO };
            let server = server.clone();
            async move {
                tokio::time::sleep(pause).await;
                Ok::<_, tower::BoxError>(server.answer(asked))
            }
        });
        Client::new(service, "default")
    }

    /// A client for which Secrets and Leases are here, and all else is on another server.
    pub(crate) fn client_beside(&self, others: &Client) -> Client {
        let (own, others) = (self.client(), others.clone());
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let path = request.uri().path();
            let is_own = path.ends_with("/secrets") || path.ends_with("/leases");
            let client = if is_own { own.clone() } else { others.clone() };
            async move { client.send(request).await }
        });
        Client::new(service, "default")
    }

    /// Creates or replaces an object.
    pub(crate) fn put(&self, plural: &str, mut object: Value) {
        let mut inner = self.0.lock().unwrap();
        inner.version += 1;
        object["metadata"]["resourceVersion"] = inner.version.to_string().into();
        let there = inner.objects.insert(key(plural, &object), object.clone()).is_some();
        inner.tell(plural, if there { "MODIFIED" } else { "ADDED" }, &object);
    }

    pub(crate) fn delete(&self, plural: &str, namespace: &str, name: &str) {
        let mut inner = self.0.lock().unwrap();
        let mut object = inner.objects.remove(&(plural.into(), namespace.into(), name.into())).unwrap();
        inner.version += 1;
        object["metadata"]["resourceVersion"] = inner.version.to_string().into();
        inner.tell(plural, "DELETED", &object);
    }

    /// Forbids a namespace, or everything with an empty one.
    pub(crate) fn forbid(&self, plural: &str, namespace: &str) {
        self.0.lock().unwrap().forbidden.insert((plural.to_owned(), namespace.to_owned()));
    }

    /// Leaves whoever asks for the object of this name without an answer.
    pub(crate) fn stall(&self, name: &str) {
        self.0.lock().unwrap().stalled.insert(name.to_owned());
    }

    /// The object of this name is gone by the time that somebody asks for it.
    pub(crate) fn vanish(&self, name: &str) {
        self.0.lock().unwrap().vanished.insert(name.to_owned());
    }

    /// Takes so long for each object that is asked for by its name.
    pub(crate) fn take_time(&self, pause: Duration) {
        self.0.lock().unwrap().pause = pause;
    }

    pub(crate) fn allow(&self) {
        self.0.lock().unwrap().forbidden.clear();
    }

    /// Has a kind from now on.
    pub(crate) fn serve(&self, version: &str, kind: &str, namespaced: bool) {
        let mut inner = self.0.lock().unwrap();
        inner.kinds.entry(version.to_owned()).or_default().push((kind.to_owned(), namespaced));
    }

    pub(crate) fn requests(&self) -> Vec<Asked> {
        self.0.lock().unwrap().requests.clone()
    }

    fn answer(&self, asked: Asked) -> Response<Body> {
        let mut inner = self.0.lock().unwrap();
        inner.requests.push(asked.clone());
        let place = (asked.plural.clone(), asked.namespace.clone().unwrap_or_default());
        if inner.forbidden.contains(&place) {
            let verb = if asked.name.is_some() { "get" } else { "list" };
            let message = format!("{} is forbidden: User \"exporter\" cannot {verb} resource", asked.plural);
            let status = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message});
            let response = Response::builder().status(StatusCode::FORBIDDEN);
            return response.body(Body::from(status.to_string())).unwrap();
        }
        if let Some(version) = asked.plural.strip_prefix("/apis/") {
            return inner.kinds_of(version);
        }
        if let Some(name) = &asked.name {
            if inner.stalled.contains(name) {
                return Response::new(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()));
            }
            if inner.vanished.contains(name) {
                return not_found();
            }
            let key = (asked.plural.clone(), asked.namespace.clone().unwrap_or_default(), name.clone());
            let found = inner.objects.get(&key).map(Value::to_string);
            return found.map_or_else(not_found, |own| Response::new(Body::from(own)));
        }
        if !asked.watch {
            let items: Vec<Value> = inner
                .objects
                .iter()
                .filter(|((plural, ..), own)| asked.wants(plural, own))
                .map(|(_, own)| asked.shown(own))
                .collect();
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": inner.version.to_string()}, "items": items});
            return Response::new(Body::from(list.to_string()));
        }
        let (sender, receiver) = mpsc::unbounded();
        for (plural, version, event) in &inner.log {
            if *version > asked.from && asked.wants(plural, &event["object"]) {
                sender.unbounded_send(Ok(asked.line(event))).unwrap();
            }
        }
        inner.watches.push((asked, sender));
        Response::new(Body::from_stream(receiver))
    }
}

fn not_found() -> Response<Body> {
    let status = json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found"});
    Response::builder().status(StatusCode::NOT_FOUND).body(Body::from(status.to_string())).unwrap()
}

impl Inner {
    fn kinds_of(&self, version: &str) -> Response<Body> {
        let Some(kinds) = self.kinds.get(version) else { return not_found() };
        let resources: Vec<Value> = kinds
            .iter()
            .map(|(kind, namespaced)| {
                let name = format!("{}s", kind.to_lowercase());
                json!({"name": name, "singularName": "", "kind": kind, "namespaced": namespaced, "verbs": ["list", "watch"]})
            })
            .collect();
        let list = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources});
        Response::new(Body::from(list.to_string()))
    }

    fn tell(&mut self, plural: &str, event: &str, object: &Value) {
        let event = json!({"type": event, "object": object});
        self.log.push((plural.to_owned(), self.version, event.clone()));
        self.watches.retain(|(asked, watch)| {
            !asked.wants(plural, object) || watch.unbounded_send(Ok(asked.line(&event))).is_ok()
        });
    }
}

impl Asked {
    fn wants(&self, plural: &str, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        plural == self.plural
            && self.namespace.as_deref().is_none_or(|own| object["metadata"]["namespace"] == own)
            && self
                .selector
                .split(',')
                .all(|one| one.split_once('=').is_some_and(|(name, value)| labels[name] == value))
    }

    fn shown(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if self.metadata_only {
            object = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]});
        }
        object
    }

    fn line(&self, event: &Value) -> Bytes {
        let line = json!({"type": event["type"], "object": self.shown(&event["object"])});
        Bytes::from(format!("{line}\n"))
    }
}

fn key(plural: &str, object: &Value) -> (String, String, String) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or("").to_owned();
    (plural.to_owned(), text("namespace"), text("name"))
}

fn read(url: &str, metadata_only: bool) -> Asked {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let segments: Vec<&str> = path.split('/').collect();
    let at = segments.iter().position(|own| *own == "namespaces");
    let namespace = at.map(|at| segments[at + 1].to_owned());
    let name = at.and_then(|at| segments.get(at + 3)).map(|own| (*own).to_owned());
    let is_version = segments.len() == 4 && segments[1] == "apis";
    let plural = match at {
        Some(at) => segments[at + 2].to_owned(),
        None if is_version => path[path.find("/apis/").unwrap()..].to_owned(),
        None => (*segments.last().unwrap()).to_owned(),
    };
    let parameter = |name: &str| {
        let value = query.split('&').find_map(|pair| pair.split_once('=').filter(|(own, _)| *own == name));
        value.map_or_else(String::new, |(_, value)| {
            value.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/")
        })
    };
    Asked {
        plural,
        namespace,
        name,
        selector: parameter("labelSelector"),
        metadata_only,
        watch: parameter("watch") == "true",
        from: parameter("resourceVersion").parse().unwrap_or(0),
    }
}
