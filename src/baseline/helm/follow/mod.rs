//! Following releases: which there are, which revision is deployed, and whether another one is on its way.
//!
//! What Helm keeps releases in is watched by its metadata alone: labels say which revision is deployed. That one is read,
//! once, and forgotten but for what it declares; the others never are.

mod known;
mod place;
mod reading;
mod standing;
mod tell;

use std::{collections::BTreeMap, fmt, sync::Arc};

use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};

pub use self::place::ReleaseSources;
use self::{
    known::Known,
    place::{Driver, Place, feeds},
    reading::read,
    standing::{Revision, Standing, standing},
};
use super::super::{
    declare::DocumentReader,
    feed::{self, Shown},
    newest::other_than,
    scopes::Scopes,
    wanted::Declares,
};
use crate::model::{Change, Clock, Look, SealKey, StreamHealth};

const NOTICES: usize = 64;

/// Whom to ask, and whom to tell.
pub struct Follow {
    /// The cluster that releases are kept in.
    pub client: Client,
    /// Where to look; may change at any time.
    pub sources: watch::Receiver<Arc<ReleaseSources>>,
    /// Who is told.
    pub changes: mpsc::Sender<Change>,
    /// Who is told of all that is declared.
    pub declares: watch::Sender<Arc<Declares>>,
    /// The time.
    pub clock: Clock,
    /// Whether changes are told, too.
    pub look: Look,
    /// The key of the digests that releases are sealed with.
    pub key: SealKey,
}

impl fmt::Debug for Follow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Follow").finish_non_exhaustive()
    }
}

/// Reads all releases there are, and tells of them and of every change, until nobody listens.
///
/// What is there at first is told of before the source is called up, and what is to be watched for it after that.
pub async fn follow(follow: Follow) {
    let sources = follow.sources.borrow().clone();
    let mut follower = Follower {
        follow,
        sources,
        scopes: Scopes::default(),
        releases: BTreeMap::new(),
        health: None,
        declares_other: true,
    };
    while follower.session().await.is_ok() {}
}

/// Nobody listens any more.
struct Closed;

struct Follower {
    follow: Follow,
    sources: Arc<ReleaseSources>,
    scopes: Scopes,
    releases: BTreeMap<Place, Known>,
    /// What was last told about the source.
    health: Option<StreamHealth>,
    /// Whether something was told that may change what is declared.
    declares_other: bool,
}

impl Follower {
    /// Follows what the settings name, until they name something else.
    async fn session(&mut self) -> Result<(), Closed> {
        let mut newest = self.follow.sources.clone();
        let sources = newest.borrow_and_update().clone();
        self.change_sources(sources).await?;
        let (sender, mut notices) = mpsc::channel(NOTICES);
        let mut shown = Shown::new(feeds(&self.sources));
        let _feeds = {
            let (client, scope, look) = (&self.follow.client, &self.sources.scope, self.follow.look);
            feed::start(client, feeds(&self.sources), scope, look, &sender)
        };
        loop {
            self.meet(&shown).await?;
            self.settle().await?;
            let mut wake = self.releases.values().filter_map(|known| known.settled_at).min();
            // What was begun meanwhile comes before what it left behind.
            if shown.all_answered() && notices.is_empty() {
                match self.next_due() {
                    Some(place) => {
                        self.read(&place).await?;
                        continue;
                    }
                    None => self.report(&shown).await?,
                }
                wake = wake.into_iter().chain(self.releases.values().filter_map(|known| known.read_at)).min();
            }
            tokio::select! {
                biased;
                () = self.follow.changes.closed() => return Err(Closed),
                () = other_than(&mut newest, &self.sources) => return Ok(()),
                Some(notice) = notices.recv() => shown.take(notice),
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
        }
    }

    /// Forgets what does not belong to other settings.
    async fn change_sources(&mut self, sources: Arc<ReleaseSources>) -> Result<(), Closed> {
        self.sources = sources;
        let belongs = |place: &Place| self.sources.enabled && self.sources.scope.has(&place.namespace);
        let gone: Vec<Place> = self.releases.keys().filter(|place| !belongs(place)).cloned().collect();
        for place in &gone {
            self.forget(place).await?;
        }
        Ok(())
    }

    /// Takes in which releases there are, and how each stands.
    async fn meet(&mut self, shown: &Shown<Driver>) -> Result<(), Closed> {
        let mut found: BTreeMap<Place, Vec<Revision>> = BTreeMap::new();
        for driver in Driver::ALL {
            for entry in shown.entries(driver).filter(|entry| self.sources.scope.has(&entry.namespace)) {
                if let Some((release, revision)) = Revision::read(entry) {
                    let (namespace, release) = (entry.namespace.clone(), release.into());
                    found.entry(Place { driver, namespace, release }).or_default().push(revision);
                }
            }
        }
        let standings = found.into_iter().map(|(place, revisions)| {
            let standing = standing(&revisions, self.sources.pending_max_age);
            (place, standing)
        });
        let mut standings: BTreeMap<Place, Standing> = standings.collect();
        standings.retain(|_, standing| *standing != Standing::Ended);
        let is_gone = |place: &&Place| {
            shown.is_listed(place.driver, &place.namespace) && !standings.contains_key(place)
        };
        let gone: Vec<Place> = self.releases.keys().filter(is_gone).cloned().collect();
        for place in &gone {
            self.forget(place).await?;
        }
        for (place, standing) in standings {
            let (name, stood) = (self.name_of(&place), self.health.is_none());
            let (now, time) = (Instant::now(), self.follow.clock.now());
            let known = self.releases.entry(place.clone()).or_insert_with(|| Known::new(name, stood));
            if known.see(standing, &place, now, time) {
                self.tell(&place).await?;
            }
        }
        Ok(())
    }

    /// What a release is called. Where the other driver has one of the same name, that is told as well.
    fn name_of(&self, place: &Place) -> Arc<str> {
        let name = format!("{}/{}", place.namespace, place.release);
        let is_taken = self.releases.iter().any(|(other, known)| other != place && *known.name == *name);
        if is_taken { format!("{name} ({})", place.driver.object()).into() } else { name.into() }
    }

    /// A release that has to be read now.
    fn next_due(&self) -> Option<Place> {
        let now = Instant::now();
        let due = self.releases.iter().filter(|(_, known)| known.read_at.is_some_and(|at| at <= now));
        due.min_by_key(|(_, known)| known.read_at).map(|(place, _)| place.clone())
    }

    /// Reads a release, and tells what came of it.
    async fn read(&mut self, place: &Place) -> Result<(), Closed> {
        let Some(known) = self.releases.get_mut(place) else { return Ok(()) };
        let reader = known.reader.take();
        let reader = reader.unwrap_or_else(|| DocumentReader::new(self.follow.key.clone()));
        let stored = known.stored.as_ref().map(|own| own.name.clone()).unwrap_or_default();
        let (reader, outcome) = read(&self.follow.client, place, &stored, reader, &mut self.scopes).await;
        known.reader = Some(reader);
        known.take(outcome, place, Instant::now(), self.follow.clock.now());
        self.tell(place).await
    }
}
