//! Desired and actual, as far as they are known.

use std::{borrow::Cow, collections::BTreeMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::{difference::DifferenceView, text::Text};
use crate::{
    engine::Entry,
    types::{Digest, HashBaseline, ObservedState, Source},
};

/// What is declared, or what is there, as far as the source tells.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Spec")]
pub(in crate::server::api) enum SpecView<'a> {
    /// Nothing is known, or nothing differs.
    Unknown,
    /// Only a hash is known.
    Hash {
        /// The hash, in hex digits.
        hash: Text<&'a Digest>,
    },
    /// Only the generation is known that a controller has seen.
    Generation {
        /// The generation.
        generation: i64,
    },
    /// The fields that differ, by their paths.
    Fields(BTreeMap<&'a str, Cow<'a, str>>),
}

/// Desired and actual: the hashes, or the fields that differ.
pub(super) fn specs<'a>(
    entry: &'a Entry,
    differences: &[DifferenceView<'a>],
) -> (SpecView<'a>, SpecView<'a>) {
    match (entry.claim.source, entry.object.record().map(|record| &record.standing)) {
        (Source::Annotation, _) => return hashes(&entry.object.stamp),
        (Source::StatusHash, Some(ObservedState::Hash(stamp))) => return hashes(stamp),
        (Source::StatusHash, Some(ObservedState::Generation { observed, current, .. })) => {
            let seen = observed.map_or(SpecView::Unknown, |generation| SpecView::Generation { generation });
            return (seen, SpecView::Generation { generation: *current });
        }
        (_, _) => {}
    }
    if entry.claim.verdict.episode().is_none() {
        return (SpecView::Unknown, SpecView::Unknown);
    }
    let desired = differences.iter().map(|own| (own.path, own.expected.clone())).collect();
    let actual = differences.iter().map(|own| (own.path, own.actual.clone())).collect();
    (SpecView::Fields(desired), SpecView::Fields(actual))
}

fn hashes(stamp: &HashBaseline) -> (SpecView<'_>, SpecView<'_>) {
    let (desired, actual) = match stamp {
        HashBaseline::Match(digest) => (digest, digest),
        HashBaseline::Mismatch(mismatch) => (&mismatch.expected, &mismatch.actual),
        HashBaseline::Unasked | HashBaseline::Absent | HashBaseline::Unusable(_) => {
            return (SpecView::Unknown, SpecView::Unknown);
        }
    };
    (SpecView::Hash { hash: Text(desired) }, SpecView::Hash { hash: Text(actual) })
}
