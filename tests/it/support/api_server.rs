//! A small API server behind a tower service: lists, watches, and every way of going wrong.

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

/// How the server treats requests for one plural from now on.
#[derive(Clone, Debug, Default)]
pub(crate) enum Mood {
    /// As it should.
    #[default]
    Well,
    /// Takes requests and never answers.
    Mute,
    /// Answers with this status, and `Retry-After` in seconds.
    Refuses(u16, Option<u64>),
    /// Lists stop after this many bytes and never end.
    ListsStall(usize),
    /// Lists break off after this many bytes.
    ListsBreak(usize),
    /// Every watch begins with an ERROR event of this code.
    WatchesFail(u16),
    /// Every watch is refused with this HTTP status, lists work.
    WatchesRefused(u16),
}

#[derive(Clone)]
pub(crate) struct ApiServer(Arc<Mutex<Inner>>);

impl Default for ApiServer {
    /// A server that has Deployments and Services, and no object.
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Inner {
            served: vec![Kind::service(), Kind::deployment()],
            version: 0,
            objects: BTreeMap::new(),
            log: Vec::new(),
            forgotten: 0,
            watches: Vec::new(),
            moods: HashMap::new(),
            conversions: HashMap::new(),
            described: BTreeMap::new(),
            requests: Vec::new(),
        })))
    }
}

struct Inner {
    /// The kinds that it has; what it says about them.
    served: Vec<Kind>,
    version: u64,
    objects: BTreeMap<(String, String), Value>,
    /// All events since the last time the server forgot: plural, version, line.
    log: Vec<(String, u64, Value)>,
    /// Versions up to here are forgotten.
    forgotten: u64,
    watches: Vec<Watch>,
    moods: HashMap<String, Mood>,
    conversions: HashMap<String, Conversion>,
    /// What it says about the kinds of API versions; nothing about any where this is empty.
    described: BTreeMap<String, Bytes>,
    requests: Vec<String>,
}

/// From an object as it was put to the same in a version of its kind.
pub(crate) type Conversion = fn(Value, &str) -> Value;

struct Watch {
    plural: String,
    version: String,
    sender: mpsc::UnboundedSender<Result<Bytes, Infallible>>,
}

impl ApiServer {
    /// A client that talks to this server.
    pub(crate) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let server = server.clone();
            async move {
                let known = request.headers().get("if-none-match").cloned();
                let url = request.uri().to_string();
                Ok::<_, tower::BoxError>(server.answer(&url, known.as_ref()).await)
            }
        });
        Client::new(service, "default")
    }

    /// Changes how requests for a plural, or for one version of it (`v1/widgets`), are treated.
    pub(crate) fn mood(&self, plural: &str, mood: Mood) {
        self.0.lock().unwrap().moods.insert(plural.to_owned(), mood);
    }

    /// Shows the objects of a plural otherwise in each version.
    pub(crate) fn convert(&self, plural: &str, conversion: Conversion) {
        self.0.lock().unwrap().conversions.insert(plural.to_owned(), conversion);
    }

    /// Has these kinds, beside Deployments and Services, from now on; watches of others end.
    pub(crate) fn serve(&self, kinds: &[Kind]) {
        let mut inner = self.0.lock().unwrap();
        inner.served = [Kind::service(), Kind::deployment()].iter().chain(kinds).cloned().collect();
        let served: Vec<String> = inner.served.iter().map(|kind| kind.plural.to_string()).collect();
        inner.watches.retain(|watch| served.contains(&watch.plural));
    }

    /// Says this about the kinds of an API version from now on.
    pub(crate) fn describe(&self, api_version: &str, document: impl Into<Bytes>) {
        self.0.lock().unwrap().described.insert(api_version.to_owned(), document.into());
    }

    /// How many watches are open.
    pub(crate) fn open_watches(&self) -> usize {
        let mut inner = self.0.lock().unwrap();
        inner.watches.retain(|watch| !watch.sender.is_closed());
        inner.watches.len()
    }

    /// Creates or replaces an object. The object carries the name of its plural in `plural`.
    pub(crate) fn put(&self, plural: &str, mut object: Value) {
        let mut inner = self.0.lock().unwrap();
        inner.version += 1;
        object["metadata"]["resourceVersion"] = inner.version.to_string().into();
        let key = (plural.to_owned(), name_of(&object));
        let event = if inner.objects.contains_key(&key) { "MODIFIED" } else { "ADDED" };
        inner.objects.insert(key, object.clone());
        inner.tell(plural, event, &object);
    }

    /// Deletes an object.
    pub(crate) fn delete(&self, plural: &str, name: &str) {
        let mut inner = self.0.lock().unwrap();
        let Some(mut object) = inner.objects.remove(&(plural.to_owned(), name.to_owned())) else { return };
        inner.version += 1;
        object["metadata"]["resourceVersion"] = inner.version.to_string().into();
        inner.tell(plural, "DELETED", &object);
    }

    /// Sends a raw line on every open watch of a plural.
    pub(crate) fn say(&self, plural: &str, line: &str) {
        let mut inner = self.0.lock().unwrap();
        let line = Bytes::from(format!("{line}\n"));
        inner
            .watches
            .retain(|watch| watch.plural != plural || watch.sender.unbounded_send(Ok(line.clone())).is_ok());
    }

    /// Ends every open watch without a word.
    pub(crate) fn cut(&self) {
        let watches = std::mem::take(&mut self.0.lock().unwrap().watches);
        watches.iter().for_each(|watch| watch.sender.close_channel());
    }

    /// Forgets all events so far: watches from older versions are answered with 410.
    pub(crate) fn forget(&self) {
        let mut inner = self.0.lock().unwrap();
        // Something happens elsewhere, so that versions seen so far are older than what is remembered.
        inner.version += 1;
        inner.forgotten = inner.version;
        inner.log.clear();
    }

    /// The names of a plural's objects and their versions.
    pub(crate) fn truth(&self, plural: &str) -> BTreeMap<String, String> {
        let inner = self.0.lock().unwrap();
        let own = inner.objects.iter().filter(|((own, _), _)| own == plural);
        own.map(|((_, name), object)| {
            (name.clone(), object["metadata"]["resourceVersion"].as_str().unwrap().to_owned())
        })
        .collect()
    }

    /// What was asked for so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    async fn answer(&self, url: &str, known: Option<&HeaderValue>) -> Response<Body> {
        let path = url.split('?').next().unwrap();
        let plural = path.rsplit('/').next().unwrap().to_owned();
        let watch = url.contains("watch=1");
        let mood = {
            let mut inner = self.0.lock().unwrap();
            inner.requests.push(url.to_owned());
            let of_version = inner.moods.get(&format!("{}/{plural}", version_of(path)));
            of_version.or_else(|| inner.moods.get(&plural)).cloned().unwrap_or_default()
        };
        match (mood, watch) {
            (Mood::Mute, _) => std::future::pending().await,
            (Mood::Refuses(code, retry_after), _) => refuse(code, retry_after),
            _ if ["api", "apis"].contains(&plural.as_str()) => self.kinds(&plural, known),
            _ if path.starts_with("/openapi/") => self.description(url),
            _ if !self.has(path) => refuse(404, None),
            (Mood::WatchesRefused(code), true) => refuse(code, None),
            (Mood::WatchesFail(code), true) => respond(Body::from(format!("{}\n", error_event(code)))),
            (Mood::ListsStall(bytes), false) => {
                let list = self.list(&plural, url);
                let (sender, body) = channel();
                sender
                    .unbounded_send(Ok(Bytes::copy_from_slice(&list.as_bytes()[..bytes.min(list.len())])))
                    .unwrap();
                std::mem::forget(sender);
                respond(body)
            }
            (Mood::ListsBreak(bytes), false) => {
                let list = self.list(&plural, url);
                respond(Body::from(list.as_bytes()[..bytes.min(list.len())].to_vec()))
            }
            (_, true) => self.watch(&plural, url),
            (_, false) => respond(Body::from(self.list(&plural, url))),
        }
    }

    /// Whether the path is that of a kind that is there.
    fn has(&self, path: &str) -> bool {
        self.0.lock().unwrap().served.iter().any(|kind| {
            let root = if kind.group.is_empty() { "/api" } else { "/apis" };
            path.starts_with(&format!("{root}/{}/", kind.api_version()))
                && path.ends_with(&format!("/{}", kind.plural))
        })
    }

    /// What is said about kinds: those of the core group at `/api`, the others at `/apis`.
    fn kinds(&self, root: &str, known: Option<&HeaderValue>) -> Response<Body> {
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
        if known == Some(&etag) {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            *response.body_mut() = Body::from(text);
        }
        response.headers_mut().insert("etag", etag);
        response
    }

    /// What is said about the kinds of an API version, or where that is found. As on a real server, the hash has to be right.
    fn description(&self, url: &str) -> Response<Body> {
        let described = self.0.lock().unwrap().described.clone();
        let place = |(version, text): (&String, &Bytes)| {
            format!("/openapi/v3/apis/{version}?hash={:X}", hash_of(text))
        };
        if let Some((_, text)) = described.iter().find(|own| place(*own) == url) {
            return respond(Body::from(text.clone()));
        }
        if described.is_empty() || url != "/openapi/v3" {
            return refuse(if url.contains("?hash=") { 301 } else { 404 }, None);
        }
        let paths: BTreeMap<String, Value> = described
            .iter()
            .map(|own| (format!("apis/{}", own.0), json!({"serverRelativeURL": place(own)})))
            .collect();
        respond(Body::from(json!({"paths": paths}).to_string()))
    }

    fn list(&self, plural: &str, url: &str) -> String {
        let inner = self.0.lock().unwrap();
        let here = |object: &Value| {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or("");
            let excluded = url.contains(&format!("metadata.namespace%21%3D{namespace}"));
            !excluded && (!url.contains("/namespaces/") || url.contains(&format!("/namespaces/{namespace}/")))
        };
        let own = inner.objects.iter().filter(|((own, _), object)| own == plural && here(object));
        let items: Vec<Value> =
            own.map(|(_, object)| inner.converted(plural, version_of(url), object)).collect();
        json!({"kind": "List", "metadata": {"resourceVersion": inner.version.to_string()}, "items": items})
            .to_string()
    }

    fn watch(&self, plural: &str, url: &str) -> Response<Body> {
        let from =
            url.split("resourceVersion=").nth(1).and_then(|from| from.parse::<u64>().ok()).unwrap_or(0);
        let mut inner = self.0.lock().unwrap();
        if from < inner.forgotten {
            return respond(Body::from(format!("{}\n", error_event(410))));
        }
        let (sender, body) = channel();
        for (own, version, line) in &inner.log {
            if own == plural && *version > from {
                let line = inner.line(plural, version_of(url), line);
                sender.unbounded_send(Ok(line)).unwrap();
            }
        }
        let version = version_of(url).to_owned();
        inner.watches.push(Watch { plural: plural.to_owned(), version, sender: sender.clone() });
        drop(inner);
        // As a real server does, end the watch after the time that was asked for, with a bookmark before.
        let (server, plural) = (self.clone(), plural.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_secs(30)).await;
            let version = server.0.lock().unwrap().version.to_string();
            let bookmark =
                json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}, "spec": {}}});
            let silent =
                server.0.lock().unwrap().moods.get(&plural).is_some_and(|mood| matches!(mood, Mood::Mute));
            if silent {
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
    fn tell(&mut self, plural: &str, event: &str, object: &Value) {
        let line = json!({"type": event, "object": object});
        self.log.push((plural.to_owned(), self.version, line.clone()));
        let mut watches = std::mem::take(&mut self.watches);
        watches.retain(|watch| {
            watch.plural != plural
                || watch.sender.unbounded_send(Ok(self.line(plural, &watch.version, &line))).is_ok()
        });
        self.watches = watches;
    }

    /// A line of a watch in this version.
    fn line(&self, plural: &str, version: &str, line: &Value) -> Bytes {
        let object = self.converted(plural, version, &line["object"]);
        Bytes::from(format!("{}\n", json!({"type": line["type"], "object": object})))
    }

    fn converted(&self, plural: &str, version: &str, object: &Value) -> Value {
        let conversion = self.conversions.get(plural);
        conversion.map_or_else(|| object.clone(), |convert| convert(object.clone(), version))
    }
}

/// The version that a URL asks for.
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

fn refuse(code: u16, retry_after: Option<u64>) -> Response<Body> {
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
