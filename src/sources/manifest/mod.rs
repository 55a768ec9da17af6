//! Directories of YAML: what git-sync brings, what a volume mounts, what kustomize wrote.

mod files;

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::{Instant, sleep_until};
use tracing::info;

use self::files::{Files, scan};
use crate::{
    sources::{
        document_reader::{Declared, DocumentReader, Placed, Written, read_placed},
        driver::{SourceContext, other_than},
        publisher::{Closed, Known, Publisher, Reading, SELDOM},
        scopes::Scopes,
    },
    types::{
        BaselineFault, BaselineTrouble, BaselineVersion, DeclaredBody, DeclaredObject, Origin, SkipReason,
        Skipped, Source, UnknownReason,
    },
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

/// No manifest is larger than this.
const LARGEST_FILE: u64 = 32 << 20;
/// All of them together.
const LARGEST_FOLDER: u64 = 512 << 20;

/// Reads these files. One that cannot be read leaves the others alone.
fn read(
    path: &Path,
    files: &Files,
    namespace: &str,
    reader: &mut DocumentReader,
    scopes: &Scopes,
) -> Reading {
    let mut left = LARGEST_FOLDER;
    let (mut texts, mut broken) = (Vec::new(), Vec::new());
    for (way, stamp) in files {
        let name = way.display().to_string();
        let place = if path.is_dir() { path.join(way) } else { path.to_owned() };
        match text_of(&place, LARGEST_FILE.min(left)) {
            Ok(text) => {
                left = left.saturating_sub(stamp.length);
                texts.push((name, text));
            }
            Err(_) => broken.push(Skipped {
                address: name.into(),
                resource_type: Box::default(),
                reason: SkipReason::Unreadable,
            }),
        }
    }
    let written = texts.iter().map(|(name, text)| Written { text, namespace, name: Some(name) });
    let Declared { objects, mut skipped } = reader.read(written, scopes);
    skipped.extend(broken);
    let newest = files.values().filter_map(|stamp| stamp.modified).max();
    let version = BaselineVersion {
        serial: 0,
        lineage: Box::default(),
        tool_version: Box::default(),
        written: newest.and_then(|time| Timestamp::try_from(time).ok()),
        chart: None,
    };
    Reading { version, objects, skipped, key: None }
}

fn text_of(path: &Path, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    let count = File::open(path)?.take(limit + 1).read_to_string(&mut text)?;
    if count as u64 > limit {
        return Err(io::Error::other("larger than anything that is read"));
    }
    Ok(text)
}

/// What was declared before by files that are now broken, and is not declared any more: nobody knows whether it still is.
fn in_doubt(before: &Reading, now: &Reading) -> Vec<Arc<DeclaredObject>> {
    let breaks = |skipped: &&Skipped| match skipped.reason {
        SkipReason::NotYaml | SkipReason::Unreadable => true,
        // An object whose name nobody can tell: a template was left in it.
        SkipReason::NoIdentity => !skipped.resource_type.is_empty(),
        _ => false,
    };
    let broken: BTreeSet<&Path> =
        now.skipped.iter().filter(breaks).map(|skipped| Path::new(&*skipped.address)).collect();
    let declared: BTreeSet<_> = now.objects.iter().map(|object| &object.object).collect();
    // Directories are told as unreadable, too.
    let is_broken = |address: &str| Path::new(address).ancestors().any(|path| broken.contains(path));
    let is_in_doubt =
        |object: &&Arc<DeclaredObject>| is_broken(&object.address) && !declared.contains(&object.object);
    let unreadable = DeclaredBody::Opaque(UnknownReason::UnreadableBaseline);
    let doubt = |object: &Arc<DeclaredObject>| match &object.body {
        // The very same one as before: it did not change.
        DeclaredBody::Opaque(_) => object.clone(),
        _ => Arc::new(DeclaredObject { body: unreadable.clone(), ..DeclaredObject::clone(object) }),
    };
    before.objects.iter().filter(is_in_doubt).map(doubt).collect()
}
