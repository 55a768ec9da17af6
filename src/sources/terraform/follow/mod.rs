//! Following states: where they are, what they declare, who writes them.
//!
//! Secrets are watched by their metadata alone. When one changes, all Secrets of its state are listed, read, and forgotten but for
//! what they declare in Kubernetes.

mod files;
mod lock;
mod meet;
mod place;
mod reading;
mod seen;
mod sources;
mod state;
mod trouble;

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

pub use self::sources::StateSources;
use self::{
    place::Place,
    reading::{Outcome, read_file, read_secrets},
    seen::{Seen, feeds},
    state::{State, Version},
};
use super::state::StateReader;
use crate::{
    sources::{
        feed,
        follow::SourceContext,
        newest::other_than,
        teller::{Closed, Publisher},
    },
    types::Source,
};

/// How often files are looked at: mounted volumes do not tell of changes.
const LOOK: Duration = Duration::from_secs(1);

/// Reads all states there are, and tells of them and of every change, until nobody listens.
///
/// What is there at first is told of before the source is called up, and what is to be watched for it after that.
pub async fn follow(follow: SourceContext<StateSources>) {
    let sources = follow.sources.borrow().clone();
    let states = Publisher::new(Source::Terraform, &follow);
    let mut follower = Follower { follow, sources, states };
    while follower.session().await.is_ok() {}
}

struct Follower {
    follow: SourceContext<StateSources>,
    sources: Arc<StateSources>,
    states: Publisher<Place, State>,
}

impl Follower {
    /// Follows what the settings name, until they name something else.
    async fn session(&mut self) -> Result<(), Closed> {
        let (sources, mut newest) = self.follow.newest();
        self.change_sources(sources).await?;
        let mut seen = Seen::new(&self.sources);
        let (client, scope, look) = (&self.follow.client, &self.sources.scope, self.follow.look);
        let (_feeds, mut notices) = feed::start(client, feeds(&self.sources), scope, look);
        let has_files = self.sources.enabled && !self.sources.files.is_empty();
        let mut look_at = has_files.then(Instant::now);
        loop {
            if look_at.is_some_and(|at| at <= Instant::now()) {
                self.look_at_files().await?;
                look_at = Some(Instant::now() + LOOK);
            }
            self.meet(&seen).await?;
            self.states.settle().await?;
            let mut wake = None;
            // Locks that were taken meanwhile come before what was written under them.
            if seen.all_answered() && notices.is_empty() {
                if let Some(place) = self.states.next_due(|_| true) {
                    self.read(&place).await?;
                }
                self.states.report(self.sources.enabled, seen.refusals().collect()).await?;
                wake = self.states.read_at(|_| true);
            }
            let wake = wake.into_iter().chain(look_at).chain(self.states.settled_at()).min();
            tokio::select! {
                biased;
                () = self.follow.changes.closed() => return Err(Closed),
                () = other_than(&mut newest, &self.sources) => return Ok(()),
                Some(notice) = notices.recv() => seen.take(notice),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
        }
    }

    /// Reads a state, and tells what came of it.
    async fn read(&mut self, place: &Place) -> Result<(), Closed> {
        let Some(known) = self.states.known.get_mut(place) else { return Ok(()) };
        let reader = known.own.reader.take();
        let reader = reader.unwrap_or_else(|| StateReader::new(self.follow.key.clone()));
        let (reader, outcome) = match (place, &known.own.version) {
            (Place::File(path), _) => read_file(path, reader).await,
            (_, Some(Version::Secrets(group))) => {
                read_secrets(&self.follow.client, place, group, &self.sources.prefix, reader).await
            }
            (_, Some(Version::File(_)) | None) => (reader, Outcome::Absent),
        };
        known.own.reader = Some(reader);
        known.take(outcome, place, Instant::now(), self.follow.clock.now());
        self.states.tell(place).await
    }
}
