//! Following directories: what is in them, and what it declares.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until},
};
use tracing::{info, warn};

use super::{
    folder::{Files, scan},
    reading::{Reading, in_doubt, read},
};
use crate::{
    baseline::{
        declare::{Declared, DocumentReader},
        newest::other_than,
        scopes::Scopes,
        wanted::Declares,
    },
    model::{
        Baseline, BaselineFault, BaselineTrouble, BaselineVersion, Change, Origin, SealKey, Source,
        StreamHealth,
    },
};

/// How often directories are looked at: mounted volumes do not tell of changes.
const LOOK: Duration = Duration::from_secs(1);
/// Looking may take one part in so many of the time.
const SHARE: u32 = 50;

/// Where manifests are looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestSources {
    /// Whether they are looked for at all.
    pub enabled: bool,
    /// Files and directories.
    pub paths: Vec<PathBuf>,
    /// The namespace of objects that do not say theirs.
    pub namespace: Box<str>,
}

impl ManifestSources {
    fn looked_at(&self) -> &[PathBuf] {
        if self.enabled { &self.paths } else { &[] }
    }
}

/// Whom to ask, and whom to tell.
pub struct Follow {
    /// The cluster that knows which kinds have namespaces.
    pub client: Client,
    /// Where to look; may change at any time.
    pub sources: watch::Receiver<Arc<ManifestSources>>,
    /// Who is told.
    pub changes: mpsc::Sender<Change>,
    /// Who is told of all that is declared.
    pub declares: watch::Sender<Arc<Declares>>,
    /// The key of the digests that manifests are sealed with.
    pub key: SealKey,
}

impl fmt::Debug for Follow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Follow").finish_non_exhaustive()
    }
}

/// Reads all manifests there are, and tells of them and of every change, until nobody listens.
pub async fn follow(follow: Follow) {
    let sources = follow.sources.borrow().clone();
    let mut follower = Follower {
        follow,
        sources,
        scopes: Scopes::default(),
        places: BTreeMap::new(),
        is_up: false,
        declares_other: true,
    };
    while follower.session().await.is_ok() {}
}

/// Nobody listens any more.
struct Closed;

struct Follower {
    follow: Follow,
    sources: Arc<ManifestSources>,
    scopes: Scopes,
    places: BTreeMap<PathBuf, Place>,
    /// Whether the source was told to be up.
    is_up: bool,
    /// Whether something was told that may change what is declared.
    declares_other: bool,
}

/// What is known about one path.
#[derive(Default)]
struct Place {
    reader: Option<DocumentReader>,
    /// The files as they were last seen.
    seen: Option<Files>,
    /// The files as they were last read.
    read: Option<Files>,
    good: Option<Reading>,
    fault: Option<BaselineTrouble>,
    told: Option<Arc<Baseline>>,
}

impl Follower {
    /// Follows what the settings name, until they name something else.
    async fn session(&mut self) -> Result<(), Closed> {
        let mut newest = self.follow.sources.clone();
        let sources = newest.borrow_and_update().clone();
        self.change_sources(sources).await?;
        loop {
            let begun = Instant::now();
            for path in self.sources.clone().looked_at() {
                self.look(path).await?;
            }
            self.report().await?;
            let next = Instant::now() + LOOK.max(begun.elapsed() * SHARE);
            tokio::select! {
                biased;
                () = self.follow.changes.closed() => return Err(Closed),
                () = other_than(&mut newest, &self.sources) => return Ok(()),
                () = sleep_until(next), if self.sources.enabled => {}
            }
        }
    }

    /// Forgets what does not belong to other settings.
    async fn change_sources(&mut self, sources: Arc<ManifestSources>) -> Result<(), Closed> {
        if sources.namespace != self.sources.namespace {
            self.places.values_mut().for_each(|place| place.read = None);
        }
        self.sources = sources;
        let stays = |path: &PathBuf| self.sources.looked_at().contains(path);
        let gone: Vec<PathBuf> = self.places.keys().filter(|path| !stays(path)).cloned().collect();
        for path in gone {
            if let Some(told) = self.places.remove(&path).and_then(|place| place.told) {
                self.declares_other = true;
                self.send(Change::BaselineGone(Source::Manifest, told.name.clone())).await?;
            }
        }
        Ok(())
    }

    /// Looks at a path, and reads what is there if it is another one than before and nobody is writing it.
    async fn look(&mut self, path: &Path) -> Result<(), Closed> {
        let scanned = path.to_owned();
        let found = tokio::task::spawn_blocking(move || scan(&scanned)).await;
        let found = found.unwrap_or_else(|error| Err(io::Error::other(error)));
        let place = self.places.entry(path.to_owned()).or_default();
        match found {
            Err(error) => place.take_fault(format!(
                "{} cannot be read: {error}; what it last declared stays",
                path.display()
            )),
            // A volume that is not mounted looks like this.
            Ok(files) if files.is_empty() && place.good.as_ref().is_some_and(Reading::is_something) => {
                place.take_fault(format!(
                    "{} has no manifests any more; take it out of sources.manifest.paths if that is meant",
                    path.display()
                ));
            }
            Ok(files) => {
                let is_new = place.read.as_ref() != Some(&files);
                // Who writes a file may not have come to its end. At first nothing can be held that was not read.
                let rests = place.seen.as_ref() == Some(&files) || place.seen.is_none();
                place.seen = Some(files.clone());
                if !is_new {
                    place.fault = None;
                } else if rests {
                    self.read(path, files).await;
                }
            }
        }
        self.tell(path).await
    }

    async fn read(&mut self, path: &Path, files: Files) {
        let Some(place) = self.places.get_mut(path) else { return };
        let key = &self.follow.key;
        let reader = place.reader.take().unwrap_or_else(|| DocumentReader::new(key.clone()));
        let (mut reader, mut reading) =
            off_the_loop(path, &files, &self.sources.namespace, reader, &self.scopes).await;
        if let Some(own) = &reading {
            let objects = own.declared.objects.iter().map(|own| &own.object);
            // Where nobody answers, it is taken that kinds have namespaces, and asked again.
            let learned = self.scopes.learn(&self.follow.client, objects).await.unwrap_or(false);
            if learned {
                let fresh = reader.fresh();
                (reader, reading) =
                    off_the_loop(path, &files, &self.sources.namespace, fresh, &self.scopes).await;
            }
        }
        place.reader = Some(reader);
        match reading {
            Some(reading) => {
                let placed = self.scopes.knows(reading.declared.objects.iter().map(|own| &own.object));
                place.read = placed.then_some(files);
                place.take(path, reading);
            }
            None => place.take_fault(format!("{} cannot be understood", path.display())),
        }
    }

    async fn tell(&mut self, path: &Path) -> Result<(), Closed> {
        let Some(place) = self.places.get_mut(path) else { return Ok(()) };
        let Some(baseline) = place.baseline(path) else { return Ok(()) };
        if place.told.as_deref() == Some(&baseline) {
            return Ok(());
        }
        let baseline = Arc::new(baseline);
        place.told = Some(baseline.clone());
        self.declares_other = true;
        self.send(Change::Baseline(baseline)).await
    }

    /// Tells how the source fares and what is wanted, once all that is there has been told of.
    async fn report(&mut self) -> Result<(), Closed> {
        if self.sources.enabled != self.is_up {
            self.is_up = self.sources.enabled;
            let change = if self.is_up {
                Change::Source(Source::Manifest, StreamHealth::Up)
            } else {
                Change::SourceGone(Source::Manifest)
            };
            self.send(change).await?;
        }
        if std::mem::take(&mut self.declares_other) {
            let good = self.places.values().filter_map(|place| place.good.as_ref());
            let declares = Declares::new(good.map(|good| (None, &*good.declared.objects)));
            self.follow.declares.send_replace(Arc::new(declares));
        }
        Ok(())
    }

    async fn send(&self, change: Change) -> Result<(), Closed> {
        self.follow.changes.send(change).await.map_err(|_| Closed)
    }
}

/// Reading many files takes its time, and others wait for the loop. None where it panicked.
async fn off_the_loop(
    path: &Path,
    files: &Files,
    namespace: &str,
    mut reader: DocumentReader,
    scopes: &Scopes,
) -> (DocumentReader, Option<Reading>) {
    let fresh = reader.fresh();
    let (path, files, namespace, scopes) =
        (path.to_owned(), files.clone(), namespace.to_owned(), scopes.clone());
    let task = tokio::task::spawn_blocking(move || {
        let reading = read(&path, &files, &namespace, &mut reader, &scopes);
        (reader, Some(reading))
    });
    task.await.unwrap_or((fresh, None))
}

impl Place {
    fn take(&mut self, path: &Path, mut reading: Reading) {
        let nothing = Declared::default();
        let before = self.good.as_ref().map_or(&nothing, |good| &good.declared);
        for skipped in reading.declared.skipped.iter().filter(|own| !before.skipped.contains(own)) {
            let (file, reason) = (&skipped.address, skipped.reason);
            warn!(path = %path.display(), %file, %reason, "Something in a manifest is not compared.");
        }
        let doubts = in_doubt(before, &reading.declared);
        let objects = reading.declared.objects.len();
        info!(path = %path.display(), objects, "Manifests were read.");
        reading.declared.objects.extend(doubts);
        (self.good, self.fault) = (Some(reading), None);
    }

    fn take_fault(&mut self, message: String) {
        let trouble = BaselineTrouble { fault: BaselineFault::Unreadable, message: message.into() };
        if self.fault.as_ref() != Some(&trouble) {
            warn!("{}", trouble.message);
        }
        self.fault = Some(trouble);
    }

    /// What is to be told about it; none before anything is known.
    fn baseline(&self, path: &Path) -> Option<Baseline> {
        if self.good.is_none() && self.fault.is_none() {
            return None;
        }
        let good = self.good.as_ref();
        let version = |good: &Reading| BaselineVersion {
            serial: 0,
            lineage: Box::default(),
            tool_version: Box::default(),
            written: good.written,
            chart: None,
        };
        Some(Baseline {
            source: Source::Manifest,
            name: path.display().to_string().into(),
            origin: Origin::Manifests,
            version: good.map(version),
            objects: good.map(|good| good.declared.objects.clone()).unwrap_or_default(),
            skipped: good.map(|good| good.declared.skipped.clone()).unwrap_or_default(),
            fault: self.fault.clone(),
            lock: None,
            // Whoever names a directory means this cluster.
            here: true,
        })
    }
}
