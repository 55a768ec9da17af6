//! Following states: where they are, what they declare, who writes them.
//!
//! Secrets are watched by their metadata alone. When one changes, all Secrets of its state are listed, read, and forgotten but for
//! what they declare in Kubernetes.

mod files;
mod known;
mod lock;
mod meet;
mod place;
mod reading;
mod seen;
mod sources;
mod tell;
mod trouble;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

pub use self::sources::StateSources;
use self::{
    files::Stamp,
    known::Known,
    place::Place,
    reading::{Outcome, read_file, read_secrets},
    seen::{Group, Seen, feeds},
};
use super::state::StateReader;
use crate::{
    baseline::{feed, newest::other_than, wanted::Declares},
    model::{Change, Clock, Look, SealKey, StreamHealth},
};

/// How often files are looked at: mounted volumes do not tell of changes.
const LOOK: Duration = Duration::from_secs(1);
const NOTICES: usize = 64;

/// Whom to ask, and whom to tell.
pub struct Follow {
    /// The cluster that Secrets and Leases are read from.
    pub client: Client,
    /// Where to look; may change at any time.
    pub sources: watch::Receiver<Arc<StateSources>>,
    /// Who is told.
    pub changes: mpsc::Sender<Change>,
    /// Who is told of all that is declared.
    pub declares: watch::Sender<Arc<Declares>>,
    /// The time.
    pub clock: Clock,
    /// Whether changes are told, too.
    pub look: Look,
    /// The key of the digests that states are sealed with.
    pub key: SealKey,
}

impl fmt::Debug for Follow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Follow").finish_non_exhaustive()
    }
}

/// Reads all states there are, and tells of them and of every change, until nobody listens.
///
/// What is there at first is told of before the source is called up, and what is to be watched for it after that.
pub async fn follow(follow: Follow) {
    let sources = follow.sources.borrow().clone();
    let mut follower =
        Follower { follow, sources, states: BTreeMap::new(), health: None, declares_other: true };
    while follower.session().await.is_ok() {}
}

/// Nobody listens any more.
struct Closed;

struct Follower {
    follow: Follow,
    sources: Arc<StateSources>,
    states: BTreeMap<Place, State>,
    /// What was last told about the source.
    health: Option<StreamHealth>,
    /// Whether something was told that may change what is declared.
    declares_other: bool,
}

/// A state, and by what it was seen to be another one.
struct State {
    known: Known,
    version: Option<Version>,
}

/// What tells that a state has to be read again.
#[derive(Clone, PartialEq, Eq)]
enum Version {
    Secrets(Group),
    File(Stamp),
}

impl State {
    fn new(name: Arc<str>) -> Self {
        Self { known: Known::new(name), version: None }
    }

    /// It was seen as it is now.
    fn see(&mut self, version: Version) {
        if self.version.as_ref() != Some(&version) {
            self.version = Some(version);
            self.known.read_at = Some(Instant::now());
        }
    }
}

impl Follower {
    /// Follows what the settings name, until they name something else.
    async fn session(&mut self) -> Result<(), Closed> {
        let mut newest = self.follow.sources.clone();
        let sources = newest.borrow_and_update().clone();
        self.change_sources(sources).await?;
        let (sender, mut notices) = mpsc::channel(NOTICES);
        let mut seen = Seen::new(&self.sources);
        let _feeds = {
            let (client, scope, look) = (&self.follow.client, &self.sources.scope, self.follow.look);
            feed::start(client, feeds(&self.sources), scope, look, &sender)
        };
        let has_files = self.sources.enabled && !self.sources.files.is_empty();
        let mut look_at = has_files.then(Instant::now);
        loop {
            if look_at.is_some_and(|at| at <= Instant::now()) {
                self.look_at_files().await?;
                look_at = Some(Instant::now() + LOOK);
            }
            self.meet(&seen).await?;
            self.settle().await?;
            let mut wake = look_at.into_iter().chain(self.settled_at()).min();
            // Locks that were taken meanwhile come before what was written under them.
            if seen.all_answered() && notices.is_empty() {
                match self.next_due() {
                    Some(place) => {
                        self.read(&place).await?;
                        continue;
                    }
                    None => self.report(&seen).await?,
                }
                wake = wake.into_iter().chain(self.read_at()).min();
            }
            tokio::select! {
                biased;
                () = self.follow.changes.closed() => return Err(Closed),
                () = other_than(&mut newest, &self.sources) => return Ok(()),
                Some(notice) = notices.recv() => seen.take(notice),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
        }
    }

    /// A state that has to be read now.
    fn next_due(&self) -> Option<Place> {
        let now = Instant::now();
        let due = self.states.iter().filter(|(_, state)| state.known.read_at.is_some_and(|at| at <= now));
        due.min_by_key(|(_, state)| state.known.read_at).map(|(place, _)| place.clone())
    }

    fn read_at(&self) -> Option<Instant> {
        self.states.values().filter_map(|state| state.known.read_at).min()
    }

    fn settled_at(&self) -> Option<Instant> {
        self.states.values().filter_map(|state| state.known.settled_at).min()
    }

    /// Reads a state, and tells what came of it.
    async fn read(&mut self, place: &Place) -> Result<(), Closed> {
        let Some(state) = self.states.get_mut(place) else { return Ok(()) };
        let reader = state.known.reader.take();
        let reader = reader.unwrap_or_else(|| StateReader::new(self.follow.key.clone()));
        let (reader, outcome) = match (place, &state.version) {
            (Place::File(path), _) => read_file(path, reader).await,
            (_, Some(Version::Secrets(group))) => {
                read_secrets(&self.follow.client, place, group, &self.sources.prefix, reader).await
            }
            (_, Some(Version::File(_)) | None) => (reader, Outcome::Absent),
        };
        state.known.reader = Some(reader);
        state.known.take(outcome, place, Instant::now(), self.follow.clock.now());
        self.tell(place).await
    }
}
