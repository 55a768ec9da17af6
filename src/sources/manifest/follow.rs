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
    sources::{
        aside::{Placed, read_placed},
        declare::DocumentReader,
        follow::SourceContext,
        known::{Known, Reading, SELDOM},
        newest::other_than,
        scopes::Scopes,
        teller::{Closed, Publisher},
    },
    types::{BaselineFault, BaselineTrouble, Origin, Source},
};

/// How often directories are looked at: mounted volumes do not tell of changes.
const LOOK: Duration = Duration::from_secs(1);
/// Looking may take one part in so many of the time, but not at any price.
const SHARE: u32 = 50;
const LONGEST: Duration = Duration::from_secs(30);

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
pub async fn follow(follow: SourceContext<ManifestSources>) {
    let sources = follow.sources.borrow().clone();
    let places = Publisher::new(Source::Manifest, &follow);
    let mut follower = Follower { follow, sources, scopes: Scopes::default(), places };
    while follower.session().await.is_ok() {}
}

struct Follower {
    follow: SourceContext<ManifestSources>,
    sources: Arc<ManifestSources>,
    scopes: Scopes,
    places: Publisher<PathBuf, Place>,
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
        let (sources, mut newest) = self.follow.newest();
        self.change_sources(sources).await?;
        loop {
            let mut looking = Duration::ZERO;
            for path in self.sources.clone().looked_at() {
                let begun = Instant::now();
                let found = found_at(path).await;
                looking += begun.elapsed();
                self.take(path, found).await?;
            }
            self.places.report(self.sources.enabled, Vec::new()).await?;
            let next = Instant::now() + (looking * SHARE).clamp(LOOK, LONGEST);
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

    /// Takes what was found at a path, and reads it if it is another one than before and nobody is writing it.
    async fn take(&mut self, path: &Path, found: io::Result<Files>) -> Result<(), Closed> {
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
                let is_due = known.read_at.is_some_and(|at| at <= Instant::now());
                let is_new = is_due || known.own.read.as_ref() != Some(&files);
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
        let (folder, found) = (path.to_owned(), files.clone());
        let namespace = self.sources.namespace.clone();
        let read = move |reader: &mut DocumentReader, scopes: &Scopes| {
            Ok(read(&folder, &found, &namespace, reader, scopes))
        };
        let (reader, placed) = read_placed(&self.follow.client, reader, &mut self.scopes, read).await;
        (known.own.reader, known.read_at, known.refusal) = (Some(reader), None, None);
        match placed {
            Ok(Placed { reading, is_sure, refusal }) => {
                known.read_at = (!is_sure).then(|| Instant::now() + SELDOM);
                known.refusal = refusal;
                known.own.read = Some(files);
                known.take(reading);
            }
            Err(_) => known.take_trouble(format!("{} cannot be understood", path.display())),
        }
    }
}

/// Looks at a path.
async fn found_at(path: &Path) -> io::Result<Files> {
    let path = path.to_owned();
    let found = tokio::task::spawn_blocking(move || scan(&path)).await;
    found.unwrap_or_else(|error| Err(io::Error::other(error)))
}

impl Known<Place> {
    fn take(&mut self, mut reading: Reading) {
        self.log_skipped(&reading);
        if self.good.as_ref().is_none_or(|good| good.objects != reading.objects) {
            info!(path = %self.name, objects = reading.objects.len(), "Manifests were read.");
        }
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
