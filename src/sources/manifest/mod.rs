//! Manifests in files and directories: checked out by git-sync, mounted from a volume, rendered by kustomize.

mod files;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::{BoxFuture, FutureExt as _};
use tracing::info;

use self::files::{ManifestFiles, list_manifests};
use super::{
    document_reader::{DecodedDocuments, DocumentDecoder, DocumentReader, ManifestText, decode_documents},
    driver::{self, BaselineSource, DecodeSlots, ReadFailure, ReadResult, SourceContext},
    publisher::{DecodedBaseline, Publisher, TrackedBaseline},
    scopes::{KindScopes, SharedScopes},
};
use crate::{
    config::{BaselineLimits, FileVersion, LimitExceeded, ManifestLocations, Settings},
    types::{
        Authority, BaselineFault, BaselineOrigin, BaselineVersion, DeclaredBody, DeclaredObject, SkipReason,
        SkippedResource, Source, UnknownReason,
    },
};

/// Publishes the manifests at each path and every change, until the receiver of events is gone.
pub async fn run(context: SourceContext) {
    driver::run::<ManifestSource>(context).await;
}

struct ManifestSource {
    settings: ManifestLocations,
    scopes: SharedScopes,
    slots: DecodeSlots,
}

#[derive(Default)]
struct PathState {
    /// The files that the last scan found.
    found: Option<ManifestFiles>,
    decoded: Option<ManifestFiles>,
}

impl BaselineSource for ManifestSource {
    const SOURCE: Source = Source::Manifest;
    const MAX_CONCURRENT_READS: usize = 1;

    type Settings = ManifestLocations;
    type Location = PathBuf;
    type State = PathState;
    type Reader = DocumentReader;
    type Scan = BTreeMap<PathBuf, io::Result<ManifestFiles>>;

    fn new(context: &SourceContext) -> Self {
        let (settings, slots) = (ManifestLocations::default(), context.decode_slots.clone());
        Self { settings, scopes: SharedScopes::new(context.client.clone()), slots }
    }

    fn settings(settings: &Settings) -> ManifestLocations {
        settings.manifest.clone()
    }

    fn authority(_: &PathBuf) -> Authority {
        Authority::Cluster
    }

    fn apply_settings(&mut self, settings: ManifestLocations, publisher: &mut Publisher<Self>) {
        if settings.namespace != self.settings.namespace {
            publisher.values_mut().for_each(|tracked| tracked.state.decoded = None);
        }
        self.settings = settings;
        publisher.retain(|path| self.paths().contains(path));
    }

    fn paths(&self) -> &[PathBuf] {
        &self.settings.paths
    }

    fn scan(paths: &[PathBuf]) -> Self::Scan {
        paths.iter().map(|path| (path.clone(), list_manifests(path))).collect()
    }

    fn observe_files(&mut self, scan: Self::Scan, publisher: &mut Publisher<Self>) {
        for (path, found) in scan {
            let names = || [path.display().to_string(), path.display().to_string()];
            let Some(tracked) = publisher.track(&path, BaselineOrigin::Manifests, names, PathState::default)
            else {
                continue;
            };
            observe_path(&path, tracked, found);
            publisher.publish(&path);
        }
    }

    fn read(
        &mut self,
        path: &PathBuf,
        tracked: &TrackedBaseline<Self>,
        reader: DocumentReader,
        limits: BaselineLimits,
    ) -> BoxFuture<'static, (DocumentReader, ReadResult)> {
        let (path, files) = (path.clone(), tracked.state.found.clone().unwrap_or_default());
        let namespace = self.settings.namespace.clone();
        let decode = move |reader: &mut DocumentReader, scopes: &KindScopes| {
            let decoder = reader.start(scopes, &limits);
            Ok(decode_files(&path, &files, &namespace, decoder, &limits)?)
        };
        let (scopes, slots) = (self.scopes.clone(), self.slots.clone());
        let size: u64 = tracked.state.found.iter().flat_map(BTreeMap::values).map(|file| file.length).sum();
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        async move { decode_documents(reader, &scopes, &slots, size, decode).await }.boxed()
    }

    fn finish_read(&mut self, path: &PathBuf, tracked: &mut TrackedBaseline<Self>, result: ReadResult) {
        let mut decoded = match result {
            Ok(decoded) => decoded,
            Err(ReadFailure::TooLarge(limit)) => {
                tracked.state.decoded.clone_from(&tracked.state.found);
                return tracked.set_too_large(format_args!("manifests in {}", path.display()), limit);
            }
            Err(_) => {
                let message = format!("cannot read manifests in {}: decoding failed", path.display());
                return tracked.set_fault(BaselineFault::Unreadable, message);
            }
        };
        tracked.state.decoded.clone_from(&tracked.state.found);
        tracked.log_skipped(&decoded);
        if tracked.decoded.as_ref().is_none_or(|before| before.objects != decoded.objects) {
            info!(path = %tracked.name, objects = decoded.objects.len(), "Read manifests.");
        }
        if let Some(before) = &tracked.decoded {
            let unknown = objects_of_broken_files(before, &decoded);
            decoded.objects.extend(unknown);
        }
        tracked.set_decoded(decoded);
    }
}

/// Schedules a read if the files changed and are no longer being written.
fn observe_path(
    path: &Path,
    tracked: &mut TrackedBaseline<ManifestSource>,
    found: io::Result<ManifestFiles>,
) {
    let has_objects = tracked.decoded.as_ref().is_some_and(|decoded| !decoded.objects.is_empty());
    let error = match found {
        Err(error) => format!("{error}; check the path and its permissions"),
        // An unmounted volume looks like this.
        Ok(files) if files.is_empty() && has_objects => {
            "no manifests are left; remove it from sources.manifest.paths if this is intended".to_owned()
        }
        Ok(files) => {
            let PathState { found: before, decoded } = &mut tracked.state;
            // Files that changed since the last scan may be incomplete. The first scan has nothing to compare with.
            let is_stable = before.as_ref().is_none_or(|before| *before == files);
            let is_decoded = decoded.as_ref() == Some(&files);
            *before = Some(files);
            if !is_stable {
                *decoded = None;
                tracked.cancel_read();
            } else if is_decoded {
                tracked.fault = None;
            } else if !tracked.is_reading() {
                tracked.read_now();
            }
            return;
        }
    };
    tracked.cancel_read();
    tracked.state.decoded = None;
    let message = format!("cannot read manifests in {}: {error}", path.display());
    tracked.set_fault(BaselineFault::Unreadable, message);
}

/// Decodes these files. A file that cannot be read is skipped.
fn decode_files(
    path: &Path,
    files: &ManifestFiles,
    default_namespace: &str,
    mut decoder: DocumentDecoder<'_>,
    limits: &BaselineLimits,
) -> Result<DecodedBaseline, LimitExceeded> {
    let mut remaining = limits.inflated_bytes as u64;
    let mut unreadable = Vec::new();
    for (relative_path, version) in files {
        let address = relative_path.display().to_string();
        let file = if path.is_dir() { path.join(relative_path) } else { path.to_owned() };
        remaining = remaining.checked_sub(version.length).ok_or(limits.inflated_exceeded())?;
        match read_text(&file, limits.text_bytes as u64) {
            Ok(text) => {
                decoder.add(&ManifestText { text: &text, default_namespace, address: Some(&address) })?;
            }
            Err(_) => unreadable.push(SkippedResource {
                address: address.into(),
                resource_type: Box::default(),
                reason: SkipReason::Unreadable,
            }),
        }
    }
    let DecodedDocuments { objects, mut skipped } = decoder.finish();
    skipped.extend(unreadable);
    let version = BaselineVersion {
        serial: 0,
        lineage: Box::default(),
        tool_version: Box::default(),
        written: files.values().filter_map(FileVersion::modified).max(),
        chart: None,
    };
    Ok(DecodedBaseline::new(version, objects, skipped, None))
}

fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    let count = File::open(path)?.take(limit + 1).read_to_string(&mut text)?;
    if count as u64 > limit {
        return Err(io::Error::other("larger than the limit"));
    }
    Ok(text)
}

/// Objects that were declared by files which are broken now, and that no other file declares. Their desired state is unknown.
fn objects_of_broken_files(before: &DecodedBaseline, now: &DecodedBaseline) -> Vec<Arc<DeclaredObject>> {
    let breaks_file = |skipped: &&SkippedResource| match skipped.reason {
        SkipReason::NotYaml | SkipReason::Unreadable => true,
        // An object with a template expression in its name.
        SkipReason::NoIdentity => !skipped.resource_type.is_empty(),
        _ => false,
    };
    let broken: BTreeSet<&Path> =
        now.skipped.listed().iter().filter(breaks_file).map(|skipped| Path::new(&*skipped.address)).collect();
    let declared: BTreeSet<_> = now.objects.iter().map(|object| &object.object).collect();
    // A directory that cannot be read is skipped like a file.
    let is_broken = |address: &str| Path::new(address).ancestors().any(|path| broken.contains(path));
    let is_unknown =
        |object: &&Arc<DeclaredObject>| is_broken(&object.address) && !declared.contains(&object.object);
    let unreadable = DeclaredBody::Opaque(UnknownReason::UnreadableBaseline);
    let without_body = |object: &Arc<DeclaredObject>| match &object.body {
        DeclaredBody::Opaque(_) => object.clone(),
        _ => Arc::new(DeclaredObject { body: unreadable.clone(), ..DeclaredObject::clone(object) }),
    };
    before.objects.iter().filter(is_unknown).map(without_body).collect()
}
