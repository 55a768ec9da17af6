//! Following releases: which there are, which revision is deployed, and whether another one is on its way.
//!
//! What Helm keeps releases in is watched by its metadata alone: labels say which revision is deployed. That one is read,
//! once, and forgotten but for what it declares; the others never are.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until, timeout},
};
use tracing::info;

use super::{
    release::decode,
    revisions::{Revision, Standing, Stored, standing},
};
use crate::{
    sources::{
        document_reader::{Declared, DocumentReader, Placed, Written, read_placed},
        driver::{SourceContext, other_than},
        metadata_watch::{self, Feed, Objects, Refusal, Shown},
        publisher::{Closed, Known, Publisher, Reading, SELDOM},
        scopes::Scopes,
    },
    types::{BaselineFault, BaselineTrouble, DownReason, Origin, Scope, Source},
};

/// The label that all objects have that Helm keeps releases in.
const SELECTOR: &str = "owner=helm";

/// Where releases are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseSources {
    /// Whether they are looked for at all.
    pub enabled: bool,
    /// The namespaces in which they are looked for.
    pub scope: Scope,
    /// For how long an install, upgrade or rollback is believed to be under way.
    pub pending_max_age: SignedDuration,
}

impl Default for ReleaseSources {
    fn default() -> Self {
        Self { enabled: false, scope: Scope::default(), pending_max_age: SignedDuration::from_mins(30) }
    }
}

/// What Helm keeps releases in: one of its drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Driver {
    Secrets,
    ConfigMaps,
}

/// A release.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) driver: Driver,
    pub(super) namespace: Box<str>,
    pub(super) release: Box<str>,
}

impl Driver {
    pub(super) const ALL: [Self; 2] = [Self::Secrets, Self::ConfigMaps];

    /// What it keeps a release in.
    pub(super) fn object(self) -> &'static str {
        match self {
            Self::Secrets => "Secret",
            Self::ConfigMaps => "ConfigMap",
        }
    }

    pub(super) fn origin(self) -> Origin {
        match self {
            Self::Secrets => Origin::HelmSecret,
            Self::ConfigMaps => Origin::HelmConfigMap,
        }
    }
}

/// `release shop/web`, as messages say where something is wrong.
impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "release {}/{}", self.namespace, self.release)
    }
}

/// The feeds that these settings want.
pub(super) fn feeds(sources: &ReleaseSources) -> Vec<Feed<Driver>> {
    if !sources.enabled {
        return Vec::new();
    }
    let of = |driver, objects| Feed::within(&sources.scope, driver, objects, SELECTOR);
    [of(Driver::Secrets, Objects::Secrets), of(Driver::ConfigMaps, Objects::ConfigMaps)].concat()
}

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
        let (_feeds, mut notices) = metadata_watch::start(client, feeds(&self.sources), scope, look);
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

/// What only releases have.
#[derive(Default)]
pub(super) struct Release {
    pub(super) reader: Option<DocumentReader>,
    /// The revision that is deployed, once one is.
    pub(super) stored: Option<Stored>,
    /// Whether whoever was at work has ended since it was last read.
    ended: bool,
    /// Whether it was there before anybody looked, so that its objects were too.
    stood: bool,
}

impl Release {
    pub(super) fn new(stood: bool) -> Self {
        Self { stood, ..Self::default() }
    }
}

impl Known<Release> {
    /// It stands like this now. Where another revision is deployed, it is read before anything is told.
    /// Says whether there is something to tell at once.
    pub(super) fn see(&mut self, standing: Standing, place: &Place, now: Instant, time: Timestamp) -> bool {
        let lock = match standing {
            Standing::Deployed(stored, lock) => {
                if self.own.stored.as_ref() != Some(&stored) {
                    self.own.stored = Some(stored);
                    self.read_at = Some(now);
                }
                lock
            }
            Standing::Pending(lock) => {
                self.tried |= self.read_at.is_none();
                Some(lock)
            }
            Standing::NotDeployed => {
                (self.own.stored, self.read_at) = (None, None);
                if self.fault.as_ref().is_none_or(|own| own.fault != BaselineFault::NotDeployed) {
                    self.take_fault(explain(BaselineFault::NotDeployed, place));
                    self.lock = None;
                    return true;
                }
                None
            }
        };
        match lock {
            Some(lock) if self.lock.as_ref() != Some(&lock) => {
                (self.lock, self.own.ended, self.settled_at) = (Some(lock), false, None);
                true
            }
            Some(_) => false,
            None => {
                let ends = self.lock.is_some() && self.settled_at.is_none() && !self.own.ended;
                self.own.ended |= ends;
                // What failed left the last revision deployed, and has nothing to read.
                let settles = ends && self.read_at.is_none();
                if settles {
                    self.wait(now, time);
                }
                settles
            }
        }
    }

    /// Takes what came of reading it.
    pub(super) fn take(&mut self, outcome: Outcome, place: &Place, now: Instant, time: Timestamp) {
        (self.read_at, self.refusal) = (None, None);
        let mut is_other = false;
        match outcome {
            Outcome::Read(Placed { reading, is_sure, refusal }) => {
                let before = self.good.as_ref().map(|good| &good.version);
                is_other = before.map_or(!self.own.stood, |before| *before != reading.version);
                self.log(&reading);
                if !is_sure {
                    self.read_at = Some(now + SELDOM);
                }
                self.take_good(reading);
                self.refusal = refusal;
            }
            Outcome::Fault(fault) => self.take_fault(explain(fault, place)),
            Outcome::Refused(refusal) => return self.take_refusal(refusal, now),
            // What is known stands until the feed tells what became of it. Those who look once wait for nothing more.
            Outcome::Moved => {
                self.tried = true;
                return;
            }
        }
        // Who is at work by now holds on.
        let is_held = self.lock.is_some() && self.settled_at.is_none() && !self.own.ended;
        if (is_other || self.own.ended) && !is_held {
            self.wait(now, time);
        }
    }

    fn wait(&mut self, now: Instant, time: Timestamp) {
        self.settle_for_a_moment(now, time);
        self.own.ended = false;
    }

    fn log(&self, reading: &Reading) {
        let (release, revision) = (&self.name, reading.version.serial);
        let objects = reading.objects.len();
        match &self.good {
            None => info!(%release, revision, objects, "A Helm release was found."),
            Some(good) if good.version != reading.version => {
                info!(%release, revision, objects, "Another revision of a Helm release is deployed.");
            }
            Some(_) => {}
        }
        self.log_skipped(reading);
    }
}

/// A fault, and what people are told about it.
fn explain(fault: BaselineFault, place: &Place) -> BaselineTrouble {
    let object = place.driver.object();
    let again = "deploy it again (helm upgrade, or helm rollback)";
    let message = match fault {
        BaselineFault::Torn | BaselineFault::Truncated => {
            format!("the {object} of {place} ends too early; {again}")
        }
        BaselineFault::TooLarge => {
            format!("the {object} of {place} inflates to more than anything that is read; {again}")
        }
        BaselineFault::Foreign => {
            format!("the {object} of {place} holds another release, as if it was copied; delete it")
        }
        BaselineFault::NotDeployed => {
            format!("no revision of {place} is deployed; see helm history, and {again}")
        }
        BaselineFault::Encrypted | BaselineFault::UnsupportedVersion | BaselineFault::Unreadable => {
            format!("the {object} of {place} is no release of Helm 3, or a broken one; {again}")
        }
    };
    BaselineTrouble { fault, message: message.into() }
}

const PATIENCE: Duration = Duration::from_secs(20);

/// What came of reading.
#[derive(Debug)]
pub(super) enum Outcome {
    Read(Placed),
    /// Something is wrong with what is there.
    Fault(BaselineFault),
    /// The server does not let us read it now.
    Refused(Refusal),
    /// It is not there, or not deployed any more: that is told of in a moment.
    Moved,
}

/// Reads the revision that is kept in the object of this name. It is unpacked `alone`: a release may be large then.
pub(super) async fn read(
    client: &Client,
    place: &Place,
    stored: &str,
    reader: DocumentReader,
    scopes: &mut Scopes,
    alone: &Semaphore,
) -> (DocumentReader, Outcome) {
    let fetched = match fetch(client, place, stored).await {
        Ok(Some(fetched)) => fetched,
        Ok(None) => return (reader, Outcome::Moved),
        Err(refusal) => return (reader, Outcome::Refused(refusal)),
    };
    let _permit = alone.acquire().await;
    let (fetched, place): (Arc<[u8]>, Place) = (fetched.into(), place.clone());
    let understand =
        move |reader: &mut DocumentReader, scopes: &Scopes| understand(&fetched, &place, reader, scopes);
    let (reader, placed) = read_placed(client, reader, scopes, understand).await;
    (reader, placed.map_or_else(Outcome::Fault, Outcome::Read))
}

/// What stands under `release`, while that revision is deployed.
async fn fetch(client: &Client, place: &Place, stored: &str) -> Result<Option<Vec<u8>>, Refusal> {
    const KEY: &str = "release";
    let namespace = &*place.namespace;
    let doing = format!("get {} {stored} in namespace {namespace}", place.driver.object());
    let asked = async {
        match place.driver {
            Driver::Secrets => {
                let secret = Api::<Secret>::namespaced(client.clone(), namespace).get(stored).await?;
                let bytes = secret.data.and_then(|mut data| data.remove(KEY)).map(|own| own.0);
                Ok((secret.metadata, bytes))
            }
            Driver::ConfigMaps => {
                let map = Api::<ConfigMap>::namespaced(client.clone(), namespace).get(stored).await?;
                let bytes = map.data.and_then(|mut data| data.remove(KEY)).map(String::into_bytes);
                Ok((map.metadata, bytes))
            }
        }
    };
    let asked: Result<_, kube::Error> =
        timeout(PATIENCE, asked).await.map_err(|_| Refusal::stalled(&doing))?;
    match asked.map_err(|error| Refusal::new(&error, &doing)) {
        Ok((metadata, bytes)) => {
            let status = metadata.labels.as_ref().and_then(|labels| labels.get("status"));
            let is_deployed = status.is_some_and(|status| status == "deployed");
            Ok(is_deployed.then(|| bytes.unwrap_or_default()))
        }
        Err(refusal) if refusal.reason == DownReason::NotFound => Ok(None),
        Err(refusal) => Err(refusal),
    }
}

fn understand(
    fetched: &[u8],
    place: &Place,
    reader: &mut DocumentReader,
    scopes: &Scopes,
) -> Result<Reading, BaselineFault> {
    let release = decode(fetched)?;
    // Somebody may have copied it here.
    let is_named = |own: &str, wanted: &str| own.is_empty() || own == wanted;
    if !is_named(&release.name, &place.release) || !is_named(&release.namespace, &place.namespace) {
        return Err(BaselineFault::Foreign);
    }
    let written = Written { text: &release.manifest, namespace: &place.namespace, name: None };
    let Declared { objects, skipped } = reader.read([written], scopes);
    Ok(Reading { version: release.version(), objects, skipped, key: None })
}
