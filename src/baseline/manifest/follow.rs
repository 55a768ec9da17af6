//! Following directories: what is in them, and what it declares.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep_until};
use tracing::info;

use super::{
    folder::{Files, scan},
    reading::{in_doubt, read},
};
use crate::{
    baseline::{
        declare::DocumentReader,
        follow::Follow,
        known::{Known, Reading},
        newest::other_than,
        scopes::Scopes,
        teller::{Closed, Teller},
    },
    model::{BaselineFault, BaselineTrouble, Origin, Source},
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

/// Reads all manifests there are, and tells of them and of every change, until nobody listens.
pub async fn follow(follow: Follow<ManifestSources>) {
    let sources = follow.sources.borrow().clone();
    let places = Teller::new(Source::Manifest, &follow);
    let mut follower = Follower { follow, sources, scopes: Scopes::default(), places };
    while follower.session().await.is_ok() {}
}

struct Follower {
    follow: Follow<ManifestSources>,
    sources: Arc<ManifestSources>,
    scopes: Scopes,
    places: Teller<PathBuf, Place>,
}

/// What only paths have.
#[derive(Default)]
struct Place {
    reader: Option<DocumentReader>,
    /// The files as they were last seen.
    seen: Option<Files>,
    /// The files as they were last read.
    read: Option<Files>,
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
            self.places.report(self.sources.enabled, Vec::new()).await?;
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
            self.places.known.values_mut().for_each(|known| known.own.read = None);
        }
        self.sources = sources;
        self.places.keep(|path| self.sources.looked_at().contains(path)).await
    }

    /// Looks at a path, and reads what is there if it is another one than before and nobody is writing it.
    async fn look(&mut self, path: &Path) -> Result<(), Closed> {
        let scanned = path.to_owned();
        let found = tokio::task::spawn_blocking(move || scan(&scanned)).await;
        let found = found.unwrap_or_else(|error| Err(io::Error::other(error)));
        let anew = || Known::new(path.display().to_string().into(), Origin::Manifests, Place::default());
        let known = self.places.known.entry(path.to_owned()).or_insert_with(anew);
        match found {
            Err(error) => known.take_trouble(format!(
                "{} cannot be read: {error}; what it last declared stays",
                path.display()
            )),
            // A volume that is not mounted looks like this.
            Ok(files)
                if files.is_empty() && known.good.as_ref().is_some_and(|good| !good.objects.is_empty()) =>
            {
                known.take_trouble(format!(
                    "{} has no manifests any more; take it out of sources.manifest.paths if that is meant",
                    path.display()
                ));
            }
            Ok(files) => {
                let is_new = known.own.read.as_ref() != Some(&files);
                // Who writes a file may not have come to its end. At first nothing can be held that was not read.
                let rests = known.own.seen.as_ref() == Some(&files) || known.own.seen.is_none();
                known.own.seen = Some(files.clone());
                if !is_new {
                    known.fault = None;
                } else if rests {
                    self.read(path, files).await;
                }
            }
        }
        self.places.tell(&path.to_owned()).await
    }

    async fn read(&mut self, path: &Path, files: Files) {
        let Some(known) = self.places.known.get_mut(path) else { return };
        let key = &self.follow.key;
        let reader = known.own.reader.take().unwrap_or_else(|| DocumentReader::new(key.clone()));
        let (mut reader, mut reading) =
            off_the_loop(path, &files, &self.sources.namespace, reader, &self.scopes).await;
        if let Some(own) = &reading {
            let objects = own.objects.iter().map(|own| &own.object);
            // Where nobody answers, it is taken that kinds have namespaces, and asked again.
            let learned = self.scopes.learn(&self.follow.client, objects).await.unwrap_or(false);
            if learned {
                let fresh = reader.fresh();
                (reader, reading) =
                    off_the_loop(path, &files, &self.sources.namespace, fresh, &self.scopes).await;
            }
        }
        known.own.reader = Some(reader);
        match reading {
            Some(reading) => {
                let placed = self.scopes.knows(reading.objects.iter().map(|own| &own.object));
                known.own.read = placed.then_some(files);
                known.take(reading);
            }
            None => known.take_trouble(format!("{} cannot be understood", path.display())),
        }
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

impl Known<Place> {
    fn take(&mut self, mut reading: Reading) {
        self.log_skipped(&reading);
        info!(path = %self.name, objects = reading.objects.len(), "Manifests were read.");
        if let Some(before) = &self.good {
            let doubts = in_doubt(before, &reading);
            reading.objects.extend(doubts);
        }
        self.take_good(reading);
    }

    fn take_trouble(&mut self, message: String) {
        self.take_fault(BaselineTrouble { fault: BaselineFault::Unreadable, message: message.into() });
    }
}
