//! Reads the OpenAPI schemas of custom resources: the diff needs the keys of their lists.
//!
//! A schema is read when a kind whose fields are compared is new, and read again after a watch of the kind is cut: an
//! API server that installs another schema of a kind ends all of its watches.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use http::{Request, StatusCode, header::ACCEPT};
use kube::{Client, client::Body};
use serde::Deserialize;
use tokio::{
    sync::{Mutex, Notify, mpsc},
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};

use super::{
    DecodeConfig, WatcherConfig,
    request::{ApiError, MalformedResponse, check_status, read_body, send},
};
use crate::{
    diff::manifest::{ClusterSchemas, Schemas, TypeMeta},
    event::Event,
    types::{Kind, WatchPlan},
};

const INDEX_URL: &str = "/openapi/v3";
/// The index has one entry for each group and version.
const MAX_INDEX_BYTES: usize = 16 << 20;
/// The document of a group with hundreds of large kinds has some ten megabytes.
const MAX_DOCUMENT_BYTES: usize = 32 << 20;

/// When to read after a request: the API server publishes a new schema some seconds after it installs it.
const READ_DELAYS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(3), Duration::from_secs(12)];
/// Shortest time between two reads.
const MIN_INTERVAL: Duration = Duration::from_secs(3);
/// Time between two reads without a request: a schema that changes while no watch is open interrupts none.
const POLL_INTERVAL: Duration = Duration::from_mins(1);

/// Key of failures of the index, beside API versions.
const INDEX: &str = "all";

/// Requests schemas from a [`SchemaReader`], and sends those that are known to the engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SchemaRequests {
    /// Locked until a change is in the queue, so that the newest schemas are the last ones there.
    schemas: Arc<Mutex<ClusterSchemas>>,
    events: mpsc::Sender<Event>,
    wake: Arc<Notify>,
}

impl SchemaRequests {
    /// Requests the schemas of all custom resources of the plan whose fields are compared. Their diffs wait for them, if the
    /// engine receives this before their objects.
    pub(super) async fn request(&self, plan: &WatchPlan, config: &DecodeConfig) {
        let watched = plan.watches.iter().map(|watch| &watch.spec.kind);
        let compared = watched.filter(|kind| config.compares_fields_of(kind));
        let custom =
            compared.filter(|kind| !Schemas::built_in().has(TypeMeta::new(&kind.api_version(), &kind.kind)));
        let kinds: BTreeSet<TypeMeta> =
            custom.map(|kind| TypeMeta::new(&kind.api_version(), &kind.kind).into_owned()).collect();
        if self.update(|schemas| schemas.track(&kinds)).await {
            self.wake.notify_one();
        }
    }

    /// Reads the schema of a kind again if it was requested.
    pub(super) async fn recheck(&self, kind: &Kind) {
        if self.schemas.lock().await.tracks(&kind.api_version(), &kind.kind) {
            self.wake.notify_one();
        }
    }

    /// Sends the schemas if `update` returns true.
    async fn update(&self, update: impl FnOnce(&mut ClusterSchemas) -> bool) -> bool {
        let mut schemas = self.schemas.lock().await;
        let is_modified = update(&mut schemas);
        if is_modified {
            // Fails only if the engine has stopped, and then everything ends.
            let _ = self.events.send(Event::Schemas(Arc::new(schemas.clone()))).await;
        }
        is_modified
    }
}

/// Reads requested schemas.
pub(crate) struct SchemaReader {
    client: Client,
    timeout: Duration,
    requests: SchemaRequests,
    /// The newest document of each API version.
    documents: BTreeMap<Box<str>, SchemaDocument>,
    /// The last failure of each API version, so that it is logged once.
    failures: BTreeMap<Box<str>, String>,
}

#[derive(Debug, PartialEq, Eq)]
struct SchemaDocument {
    /// Contains a hash of the document.
    url: Box<str>,
    kinds: BTreeSet<Box<str>>,
}

impl SchemaReader {
    /// Returns the reader, and the handle that requests schemas.
    pub(crate) fn new(
        client: Client,
        config: WatcherConfig,
        events: mpsc::Sender<Event>,
    ) -> (Self, SchemaRequests) {
        let requests = SchemaRequests { schemas: Arc::default(), events, wake: Arc::default() };
        let reader = Self {
            client,
            timeout: config.idle_timeout,
            requests: requests.clone(),
            documents: BTreeMap::new(),
            failures: BTreeMap::new(),
        };
        (reader, requests)
    }

    pub(crate) async fn run(mut self) {
        let wake = self.requests.wake.clone();
        let mut delays: &[Duration] = &[];
        let mut requested_at = Instant::now();
        let mut earliest = requested_at;
        loop {
            let next =
                delays.first().map_or(earliest + POLL_INTERVAL, |delay| earliest.max(requested_at + *delay));
            tokio::select! {
                () = wake.notified() => (requested_at, delays) = (Instant::now(), &READ_DELAYS),
                () = sleep_until(next) => {
                    delays = delays.get(1..).unwrap_or_default();
                    self.read(delays.is_empty()).await;
                    earliest = Instant::now() + MIN_INTERVAL;
                }
            }
        }
    }

    /// Reads documents that are new. After the last attempt, diffs stop waiting for the schemas that are still missing.
    async fn read(&mut self, is_last_attempt: bool) {
        let wanted = self.requests.schemas.lock().await.tracked();
        self.documents.retain(|version, _| wanted.contains_key(version));
        self.failures.retain(|version, _| &**version == INDEX || wanted.contains_key(version));
        if wanted.is_empty() {
            return;
        }
        let index = match OpenApiIndex::read(&self.client, self.timeout).await {
            Ok(index) => index,
            Err(error) => {
                self.report_failure(INDEX, &error.to_string());
                if is_last_attempt || is_permanent(&error) {
                    for (version, kinds) in &wanted {
                        self.mark_unavailable(version, kinds).await;
                    }
                }
                return;
            }
        };
        self.failures.remove(INDEX);
        for (version, kinds) in wanted {
            let Some(url) = index.url(&version) else {
                if is_last_attempt {
                    self.report_failure(&version, "the index does not list this version");
                    self.mark_unavailable(&version, &kinds).await;
                }
                continue;
            };
            let document = SchemaDocument { url: url.into(), kinds };
            // A kind that left the plan and came back waits again for a document that has not changed.
            let is_awaited = self.requests.schemas.lock().await.is_pending(&version, &document.kinds);
            if is_awaited || self.documents.get(&version) != Some(&document) {
                self.read_document(version, document, is_last_attempt).await;
            }
        }
    }

    async fn read_document(&mut self, version: Box<str>, document: SchemaDocument, is_last_attempt: bool) {
        let SchemaDocument { url, kinds } = &document;
        let schemas = match self.schemas_of(&version, &document).await {
            Ok(schemas) => Arc::new(schemas),
            Err(error) => {
                self.report_failure(&version, &error.to_string());
                if is_last_attempt || is_permanent(&error) {
                    self.mark_unavailable(&version, kinds).await;
                }
                // The same document would fail again.
                if matches!(error, ApiError::Malformed(_)) {
                    self.documents.insert(version, document);
                }
                return;
            }
        };
        let (described, missing): (BTreeSet<_>, BTreeSet<_>) =
            kinds.iter().partition(|kind| schemas.has(TypeMeta::new(&version, kind)));
        let set = |cluster: &mut ClusterSchemas| {
            // A kind that lost its schema loses the one that was read before, too.
            let empty = Arc::default();
            let described = described.iter().map(|kind| (kind, &schemas));
            let all = described.chain(missing.iter().map(|kind| (kind, &empty)));
            all.filter(|(kind, schemas)| cluster.set(&version, kind, schemas)).count() > 0
        };
        self.requests.update(set).await;
        if missing.is_empty() {
            self.failures.remove(&version);
            debug!(%version, %url, "Read the schemas of custom resources.");
        } else {
            let names: Vec<&str> = missing.iter().map(|kind| &***kind).collect();
            self.report_failure(&version, &format!("it has no schema of {}", names.join(", ")));
        }
        self.documents.insert(version, document);
    }

    /// Reads and parses a document. It may have some megabytes, so it is parsed on a blocking thread.
    async fn schemas_of(
        &self,
        version: &str,
        SchemaDocument { url, kinds }: &SchemaDocument,
    ) -> Result<Schemas, ApiError> {
        let text = get(&self.client, url, MAX_DOCUMENT_BYTES, self.timeout).await?;
        let (version, kinds) = (version.to_owned(), kinds.clone());
        let parsed = tokio::task::spawn_blocking(move || {
            Schemas::from_openapi(&text, |kind| kind.api_version == version && kinds.contains(kind.kind))
        });
        let url = || url.to_string();
        let parsed = parsed.await.map_err(|source| MalformedResponse::Parser { url: url(), source });
        let parsed = parsed
            .and_then(|parsed| parsed.map_err(|source| MalformedResponse::OpenApi { url: url(), source }));
        parsed.map_err(ApiError::Malformed)
    }

    async fn mark_unavailable(&self, version: &str, kinds: &BTreeSet<Box<str>>) {
        let mark = |cluster: &mut ClusterSchemas| {
            kinds.iter().filter(|kind| cluster.mark_unavailable(version, kind)).count() > 0
        };
        self.requests.update(mark).await;
    }

    fn report_failure(&mut self, version: &str, reason: &str) {
        if self.failures.get(version).is_none_or(|reported| reported != reason) {
            warn!(%version, %reason, "Cannot read the schemas of custom resources; the diff uses the last known schema, or guesses the keys of lists.");
            self.failures.insert(version.into(), reason.to_owned());
        }
    }
}

/// Whether the next attempts would fail too, or have already waited long enough.
fn is_permanent(error: &ApiError) -> bool {
    match error {
        ApiError::Status { status, .. } => {
            [StatusCode::NOT_FOUND, StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED].contains(status)
        }
        ApiError::Malformed(_) | ApiError::Stalled(_) => true,
        ApiError::Gone | ApiError::RolledBack | ApiError::Connection(_) | ApiError::Closed => false,
    }
}

/// The URL of the document of each group and version, such as `apis/example.com/v1`.
#[derive(Debug, Deserialize)]
struct OpenApiIndex {
    paths: HashMap<String, IndexEntry>,
}

#[derive(Debug, Deserialize)]
struct IndexEntry {
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

impl OpenApiIndex {
    async fn read(client: &Client, timeout: Duration) -> Result<Self, ApiError> {
        let text = get(client, INDEX_URL, MAX_INDEX_BYTES, timeout).await?;
        let malformed = |source| MalformedResponse::OpenApi { url: INDEX_URL.to_owned(), source };
        serde_json::from_slice(&text).map_err(|error| ApiError::Malformed(malformed(error)))
    }

    /// The URL contains a hash of the document, so it changes with the document.
    fn url(&self, api_version: &str) -> Option<&str> {
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let url = &self.paths.get(&format!("{root}/{api_version}"))?.url;
        // An index must not send this client to another server.
        url.starts_with(&format!("{INDEX_URL}/")).then_some(url)
    }
}

async fn get(
    client: &Client,
    url: &str,
    max_bytes: usize,
    timeout: Duration,
) -> Result<bytes::Bytes, ApiError> {
    let request = Request::get(url).header(ACCEPT, "application/json").body(Body::empty())?;
    let response = send(client, request, timeout).await?;
    read_body(check_status(response, timeout).await?, max_bytes, timeout).await
}

#[cfg(test)]
mod tests {
    use super::OpenApiIndex;

    #[test]
    fn documents_are_found_by_version_and_only_on_the_same_server() {
        let text = r#"{"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=A"}, "version": {"serverRelativeURL": "/openapi/v3/version"},
            "apis/example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/example.com/v1?hash=B"},
            "apis/evil.example/v1": {"serverRelativeURL": "https://evil.example/openapi/v3/"}}}"#;
        let index: OpenApiIndex = serde_json::from_str(text).unwrap();
        assert_eq!(index.url("v1"), Some("/openapi/v3/api/v1?hash=A"));
        assert_eq!(index.url("example.com/v1"), Some("/openapi/v3/apis/example.com/v1?hash=B"));
        assert_eq!([index.url("example.com/v2"), index.url("evil.example/v1")], [None, None]);
    }
}
