//! Reads about kinds when there may be something new to read.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use http::StatusCode;
use kube::Client;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};

use super::{
    SchemaRequests,
    index::{Index, document},
};
use crate::{
    diff::declared::{ClusterSchemas, Schemas},
    watch::{Timing, fault::Fault},
};

/// How long after news the index is looked at: a server tells of a new schema some seconds after it has taken it in.
const LOOKS: [Duration; 3] = [Duration::ZERO, Duration::from_secs(3), Duration::from_secs(12)];
/// It is never looked at more often than this, whatever happens.
const REST: Duration = Duration::from_secs(3);
/// How often it is looked at when nothing happens: a schema that is changed while a watch is renewed cuts none.
const IDLE: Duration = Duration::from_mins(1);

/// What of the index could not be read, in place of an API version.
const INDEX: &str = "all";

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
        self.told.retain(|version, _| &**version == INDEX || wanted.contains_key(version));
        if wanted.is_empty() {
            return;
        }
        let index = match Index::read(&self.client, self.timing.silence).await {
            Ok(index) => index,
            Err(fault) => {
                self.tell(INDEX, &fault.to_string());
                if is_last || is_final(&fault) {
                    wanted.iter().for_each(|(version, kinds)| self.give_up(version, kinds));
                }
                return;
            }
        };
        self.told.remove(INDEX);
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
