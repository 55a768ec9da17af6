//! What the API server says about kinds that are not those of Kubernetes itself: by what elements of their lists are known.
//!
//! It is read for kinds that are compared by their fields, when one is new, and looked at again when a watch of one is cut: a
//! server that takes in another schema of a kind ends all watches of it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use http::{
    Request, StatusCode,
    header::{ACCEPT, HeaderValue},
};
use kube::{Client, client::Body};
use serde::Deserialize;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};

use super::{
    DecodeConfig, Timing,
    request::{Fault, answer, refusal, whole},
};
use crate::{
    diff::declared::{ClusterSchemas, CustomKind, Schemas},
    types::{Kind, Plan},
};

/// Where streams say of which kinds something has to be known, and where that is told. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SchemaRequests {
    shapes: watch::Sender<Arc<ClusterSchemas>>,
    /// Tells that there may be something to read.
    news: Arc<Notify>,
}

impl SchemaRequests {
    fn new() -> (Self, watch::Receiver<Arc<ClusterSchemas>>) {
        let (shapes, receiver) = watch::channel(Arc::default());
        (Self { shapes, news: Arc::default() }, receiver)
    }

    /// Has these streams' kinds read about, as far as their fields are compared and nobody knows them. From now on whoever compares
    /// waits for what is new.
    pub(super) fn want(&self, plan: &Plan, reading: &DecodeConfig) {
        let compared = plan.streams.iter().map(|stream| &stream.kind).filter(|kind| reading.compares(kind));
        let unknown = compared.filter(|kind| !Schemas::built_in().has(&kind.api_version(), &kind.kind));
        let kinds: BTreeSet<CustomKind> =
            unknown.map(|kind| (kind.api_version().into(), kind.kind.clone())).collect();
        if self.change(|shapes| shapes.want(&kinds)) {
            self.news.notify_one();
        }
    }

    /// A watch of this kind was cut, or works again: its schema may be another one.
    pub(super) fn look_again(&self, kind: &Kind) {
        if self.shapes.borrow().wants(&kind.api_version(), &kind.kind) {
            self.news.notify_one();
        }
    }

    fn change(&self, change: impl FnOnce(&mut ClusterSchemas) -> bool) -> bool {
        self.shapes.send_if_modified(|shapes| {
            let mut new = ClusterSchemas::clone(shapes);
            let news = change(&mut new);
            if news {
                *shapes = Arc::new(new);
            }
            news
        })
    }
}

const INDEX: &str = "/openapi/v3";
/// It has a line for each group and version.
const LARGEST_INDEX: usize = 16 << 20;
/// Of a group with hundreds of large kinds it has some ten megabytes.
const LARGEST_DOCUMENT: usize = 32 << 20;

/// Where the document of each group and version is: `apis/example.com/v1`.
#[derive(Debug, Deserialize)]
pub(super) struct Index {
    paths: HashMap<String, Place>,
}

#[derive(Debug, Deserialize)]
struct Place {
    #[serde(rename = "serverRelativeURL")]
    url: String,
}

impl Index {
    /// The index as it is now.
    pub(super) async fn read(client: &Client, silence: Duration) -> Result<Self, Fault> {
        let text = get(client, INDEX, LARGEST_INDEX, silence).await?;
        serde_json::from_slice(&text).map_err(|error| Fault::Garbled(format!("{INDEX}: {error}")))
    }

    /// The URL of the document of an API version. It has a hash of the document in it, so it is another one when that changes.
    pub(super) fn url(&self, api_version: &str) -> Option<&str> {
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let url = &self.paths.get(&format!("{root}/{api_version}"))?.url;
        // Nobody else is asked.
        url.starts_with(&format!("{INDEX}/")).then_some(url)
    }
}

/// Reads a document.
pub(super) async fn document(client: &Client, url: &str, silence: Duration) -> Result<bytes::Bytes, Fault> {
    get(client, url, LARGEST_DOCUMENT, silence).await
}

async fn get(client: &Client, url: &str, largest: usize, silence: Duration) -> Result<bytes::Bytes, Fault> {
    let json = HeaderValue::from_static("application/json");
    let request = Request::get(url).header(ACCEPT, json).body(Body::empty())?;
    let response = answer(client, request, silence).await?;
    if !response.status().is_success() {
        return Err(refusal(response, silence).await);
    }
    whole(response, largest, silence).await
}

/// How long after news the index is looked at: a server tells of a new schema some seconds after it has taken it in.
const LOOKS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(3), Duration::from_secs(12)];
/// It is never looked at more often than this, whatever happens.
const REST: Duration = Duration::from_secs(3);
/// How often it is looked at when nothing happens: a schema that is changed while a watch is renewed cuts none.
const IDLE: Duration = Duration::from_mins(1);

/// What of the index could not be read, in place of an API version.
const WHOLE_INDEX: &str = "all";

/// Reads what the API server says about kinds of its own.
pub struct SchemaReader {
    client: Client,
    timing: Timing,
    schemas: SchemaRequests,
    /// What was last read of each API version.
    read: BTreeMap<Box<str>, Question>,
    /// What is wrong with each API version, so that it is logged once.
    told: BTreeMap<Box<str>, String>,
}

/// What is to be read of an API version.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    /// The document, with its hash.
    url: Box<str>,
    /// The kinds in it.
    kinds: BTreeSet<Box<str>>,
}

impl std::fmt::Debug for SchemaReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SchemaReader").field("read", &self.read).finish_non_exhaustive()
    }
}

impl SchemaReader {
    /// A reader, the handle through which it is told what to read, and where it tells what it has read.
    pub fn new(
        client: Client,
        timing: Timing,
    ) -> (Self, SchemaRequests, watch::Receiver<Arc<ClusterSchemas>>) {
        let (schemas, shapes) = SchemaRequests::new();
        let (read, told) = (BTreeMap::new(), BTreeMap::new());
        (Self { client, timing, schemas: schemas.clone(), read, told }, schemas, shapes)
    }

    /// Reads whenever there is something new, for ever.
    pub async fn run(mut self) {
        let news = self.schemas.news.clone();
        let mut left: &[Duration] = &[];
        let mut begun = Instant::now();
        let mut rests_until = begun;
        loop {
            let next = left.first().map_or(rests_until + IDLE, |wait| rests_until.max(begun + *wait));
            tokio::select! {
                () = news.notified() => (begun, left) = (Instant::now(), &LOOKS),
                () = sleep_until(next) => {
                    left = left.get(1..).unwrap_or_default();
                    self.look(left.is_empty()).await;
                    rests_until = Instant::now() + REST;
                }
            }
        }
    }

    /// Reads what is new. `is_last`: nobody will look again soon, so whoever waits for more waits in vain.
    async fn look(&mut self, is_last: bool) {
        let wanted = self.schemas.shapes.borrow().wanted();
        self.read.retain(|version, _| wanted.contains_key(version));
        self.told.retain(|version, _| &**version == WHOLE_INDEX || wanted.contains_key(version));
        if wanted.is_empty() {
            return;
        }
        let index = match Index::read(&self.client, self.timing.silence).await {
            Ok(index) => index,
            Err(fault) => {
                self.tell(WHOLE_INDEX, &fault.to_string());
                if is_last || is_final(&fault) {
                    wanted.iter().for_each(|(version, kinds)| self.give_up(version, kinds));
                }
                return;
            }
        };
        self.told.remove(WHOLE_INDEX);
        for (version, kinds) in wanted {
            let Some(url) = index.url(&version) else {
                if is_last {
                    self.tell(&version, "its index does not have this version");
                    self.give_up(&version, &kinds);
                }
                continue;
            };
            let question = Question { url: url.into(), kinds };
            // Those that were not wanted for a moment are waited for again.
            let awaits = self.schemas.shapes.borrow().awaits(&version, &question.kinds);
            if awaits || self.read.get(&version) != Some(&question) {
                self.read_version(version, question, is_last).await;
            }
        }
    }

    /// Reads the document of one API version.
    async fn read_version(&mut self, version: Box<str>, question: Question, is_last: bool) {
        let Question { url, kinds } = &question;
        let shapes = match self.shapes(&version, &question).await {
            Ok(shapes) => Arc::new(shapes),
            Err(fault) => {
                self.tell(&version, &fault.to_string());
                if is_last || is_final(&fault) {
                    self.give_up(&version, kinds);
                }
                // It would be the same again.
                if matches!(fault, Fault::Garbled(_)) {
                    self.read.insert(version, question);
                }
                return;
            }
        };
        let (described, others): (BTreeSet<_>, BTreeSet<_>) =
            kinds.iter().partition(|kind| shapes.has(&version, kind));
        self.schemas.change(|own| {
            // Of what has no schema any more nothing is known any more.
            let nothing = Arc::default();
            let known = described.iter().map(|kind| (kind, &shapes));
            let all = known.chain(others.iter().map(|kind| (kind, &nothing)));
            all.filter(|(kind, shapes)| own.learn(&version, kind, shapes)).count() > 0
        });
        if others.is_empty() {
            self.told.remove(&version);
            debug!(%version, %url, "Read what the API server says about its own kinds.");
        } else {
            let names: Vec<&str> = others.iter().map(|kind| &***kind).collect();
            self.tell(&version, &format!("it has no schema of {}", names.join(", ")));
        }
        self.read.insert(version, question);
    }

    /// Reads a document and takes it apart, not here: it may have some megabytes.
    async fn shapes(&self, version: &str, Question { url, kinds }: &Question) -> Result<Schemas, Fault> {
        let text = document(&self.client, url, self.timing.silence).await?;
        let (version, kinds) = (version.to_owned(), kinds.clone());
        let read = tokio::task::spawn_blocking(move || {
            Schemas::of_openapi(&text, |own, kind| own == version && kinds.contains(kind))
        });
        let garbled = |error: &dyn std::fmt::Display| Fault::Garbled(format!("{url}: {error}"));
        read.await.map_err(|error| garbled(&error))?.map_err(|error| garbled(&error))
    }

    fn give_up(&self, version: &str, kinds: &BTreeSet<Box<str>>) {
        self.schemas.change(|own| kinds.iter().filter(|kind| own.give_up(version, kind)).count() > 0);
    }

    fn tell(&mut self, version: &str, reason: &str) {
        if self.told.get(version).is_none_or(|told| told != reason) {
            warn!(%version, %reason, "Cannot read what the API server says about its own kinds; what was known stands, else lists in them are compared by guesses.");
            self.told.insert(version.into(), reason.to_owned());
        }
    }
}

/// Whether the same question would be answered the same way in some seconds, or has taken long enough.
fn is_final(fault: &Fault) -> bool {
    match fault {
        Fault::Refused { status, .. } => {
            [StatusCode::NOT_FOUND, StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED].contains(status)
        }
        Fault::Garbled(_) | Fault::Stalled(_) => true,
        Fault::Gone | Fault::Connection(_) | Fault::Stopped => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Index;

    #[test]
    fn a_document_is_found_by_its_version_and_on_the_same_server_only() {
        let text = r#"{"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=A"}, "version": {"serverRelativeURL": "/openapi/v3/version"},
        "apis/example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/example.com/v1?hash=B"},
        "apis/evil.example/v1": {"serverRelativeURL": "https://evil.example/openapi/v3/"}}}"#;
        let index: Index = serde_json::from_str(text).unwrap();
        assert_eq!(index.url("v1"), Some("/openapi/v3/api/v1?hash=A"));
        assert_eq!(index.url("example.com/v1"), Some("/openapi/v3/apis/example.com/v1?hash=B"));
        assert_eq!([index.url("example.com/v2"), index.url("evil.example/v1")], [None, None]);
    }
}
