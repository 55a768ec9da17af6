//! Following releases: which there are, which revision is deployed, and whether another one is on its way.
//!
//! What Helm keeps releases in is watched by its metadata alone: labels say which revision is deployed. That one is read,
//! once, and forgotten but for what it declares; the others never are.

mod place;
mod reading;
mod release;
mod standing;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};

pub use self::place::ReleaseSources;
use self::{
    place::{Driver, Place, feeds},
    reading::{Outcome, read},
    release::Release,
    standing::{Revision, Standing, Stored, standing},
};
use crate::{
    sources::{
        declare::DocumentReader,
        feed::{self, Shown},
        follow::SourceContext,
        known::Known,
        newest::other_than,
        scopes::Scopes,
        teller::{Closed, Publisher},
    },
    types::Source,
};

/// Releases that are read at a time.
const AT_ONCE: usize = 8;

/// Reads all releases there are, and tells of them and of every change, until nobody listens.
///
/// What is there at first is told of before the source is called up, and what is to be watched for it after that.
pub async fn follow(follow: SourceContext<ReleaseSources>) {
    let sources = follow.sources.borrow().clone();
    let releases = Publisher::new(Source::Helm, &follow);
    let (scopes, alone) = (Scopes::default(), Arc::new(Semaphore::new(1)));
    let mut follower = Follower { follow, sources, scopes, alone, releases };
    while follower.session().await.is_ok() {}
}

struct Follower {
    follow: SourceContext<ReleaseSources>,
    sources: Arc<ReleaseSources>,
    scopes: Scopes,
    /// Held by whoever unpacks a release.
    alone: Arc<Semaphore>,
    releases: Publisher<Place, Release>,
}

impl Follower {
    /// Follows what the settings name, until they name something else.
    async fn session(&mut self) -> Result<(), Closed> {
        let (sources, mut newest) = self.follow.newest();
        self.change_sources(sources).await?;
        let mut shown = Shown::new(feeds(&self.sources));
        let (client, scope, look) = (&self.follow.client, &self.sources.scope, self.follow.look);
        let (_feeds, mut notices) = feed::start(client, feeds(&self.sources), scope, look);
        // Reading takes its time, and an upgrade of another release has to be known before its objects change.
        let mut reading = FuturesUnordered::new();
        let mut busy: BTreeSet<Place> = BTreeSet::new();
        let mut is_news = true;
        loop {
            if std::mem::take(&mut is_news) {
                self.meet(&shown).await?;
            }
            self.releases.settle().await?;
            let mut wake = None;
            // What was begun meanwhile comes before what it left behind.
            if shown.all_answered() && notices.is_empty() {
                while reading.len() < AT_ONCE
                    && let Some(place) = self.releases.next_due(|place| !busy.contains(place))
                {
                    busy.insert(place.clone());
                    reading.extend(self.read(place));
                }
                self.releases.report(self.sources.enabled, shown.refusals().collect()).await?;
                let next = self.releases.read_at(|place| !busy.contains(place));
                wake = next.filter(|_| reading.len() < AT_ONCE);
            }
            let wake = wake.into_iter().chain(self.releases.settled_at()).min();
            tokio::select! {
                biased;
                () = self.follow.changes.closed() => return Err(Closed),
                () = other_than(&mut newest, &self.sources) => return Ok(()),
                Some(notice) = notices.recv() => {
                    shown.take(notice);
                    is_news = true;
                }
                Some(read) = reading.next() => {
                    busy.remove(&read.place);
                    self.take(read).await?;
                }
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
            }
        }
    }

    /// Forgets what does not belong to other settings.
    async fn change_sources(&mut self, sources: Arc<ReleaseSources>) -> Result<(), Closed> {
        self.sources = sources;
        let belongs = |place: &Place| self.sources.enabled && self.sources.scope.has(&place.namespace);
        self.releases.keep(belongs).await
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
        let standings = found.into_iter().filter_map(|(place, revisions)| {
            let standing = standing(&revisions, self.sources.pending_max_age)?;
            Some((place, standing))
        });
        let standings: BTreeMap<Place, Standing> = standings.collect();
        let stays =
            |place: &Place| standings.contains_key(place) || !shown.is_listed(place.driver, &place.namespace);
        self.releases.keep(stays).await?;
        for (place, standing) in standings {
            let (name, stood) = (self.name_of(&place), !self.releases.has_reported());
            let (now, time) = (Instant::now(), self.follow.clock.now());
            let anew = || Known::new(name, place.driver.origin(), Release::new(stood));
            let known = self.releases.known.entry(place.clone()).or_insert_with(anew);
            if known.see(standing, &place, now, time) {
                self.releases.tell(&place).await?;
            }
        }
        Ok(())
    }

    /// What a release is called. Where the other driver has one of the same name, that is told as well.
    fn name_of(&self, place: &Place) -> Arc<str> {
        if let Some(known) = self.releases.known.get(place) {
            return known.name.clone();
        }
        let name = format!("{}/{}", place.namespace, place.release);
        let is_taken = self.releases.is_taken(&name);
        if is_taken { format!("{name} ({})", place.driver.object()).into() } else { name.into() }
    }

    /// Begins to read a release.
    fn read(&mut self, place: Place) -> Option<impl Future<Output = Read> + use<>> {
        let known = self.releases.known.get_mut(&place)?;
        let reader = known.own.reader.take();
        let reader = reader.unwrap_or_else(|| DocumentReader::new(self.follow.key.clone()));
        let (stored, mut scopes, client) =
            (known.own.stored.clone(), self.scopes.clone(), self.follow.client.clone());
        let alone = self.alone.clone();
        Some(async move {
            let name = stored.as_ref().map(|own| own.name.clone()).unwrap_or_default();
            let (reader, outcome) = read(&client, &place, &name, reader, &mut scopes, &alone).await;
            Read { place, stored, reader, scopes, outcome }
        })
    }

    /// Tells what came of reading a release, unless another revision is deployed meanwhile: that one is read then.
    async fn take(&mut self, read: Read) -> Result<(), Closed> {
        let Read { place, stored, reader, scopes, outcome } = read;
        self.scopes.join(scopes);
        let Some(known) = self.releases.known.get_mut(&place) else { return Ok(()) };
        known.own.reader = Some(reader);
        if known.own.stored == stored {
            known.take(outcome, &place, Instant::now(), self.follow.clock.now());
        }
        self.releases.tell(&place).await
    }
}

/// A release that was read.
struct Read {
    place: Place,
    /// The revision that was deployed when reading began.
    stored: Option<Stored>,
    reader: DocumentReader,
    scopes: Scopes,
    outcome: Outcome,
}
