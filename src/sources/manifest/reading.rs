//! From files to what they declare.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read as _},
    path::Path,
    sync::Arc,
};

use jiff::Timestamp;

use super::folder::Files;
use crate::{
    sources::{
        declare::{Declared, DocumentReader, Written},
        known::Reading,
        scopes::Scopes,
    },
    types::{BaselineVersion, DeclaredBody, DeclaredObject, SkipReason, Skipped, UnknownReason},
};

/// No manifest is larger than this.
const LARGEST_FILE: u64 = 32 << 20;
/// All of them together.
const LARGEST_FOLDER: u64 = 512 << 20;

/// Reads these files. One that cannot be read leaves the others alone.
pub(super) fn read(
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
pub(super) fn in_doubt(before: &Reading, now: &Reading) -> Vec<Arc<DeclaredObject>> {
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
