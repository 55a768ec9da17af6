//! What a person could do about an object, by what declares it: look closer, put it back, or accept it.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};

use super::{commands, rows::Row};
use crate::{
    engine::{BaselineState, DeclaredBy, Snapshot},
    rules::{Accepted, Why, accepting, rules_as_yaml},
    server::values::Values,
    types::{Algorithm, HashBaseline, ObjectKey, Source, VerdictKind},
};

/// How long what is accepted by a rule is accepted for, unless people write something else.
const ACCEPTED_FOR: SignedDuration = SignedDuration::from_hours(30 * 24);
/// So many differences are accepted by rules that are written out here.
const MOST_RULES: usize = 20;

/// What a command is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Inspect,
    Revert,
    Accept,
}

/// A command, or a text to paste, and what it does.
#[derive(Debug)]
struct Remedy {
    purpose: Purpose,
    words: &'static str,
    text: String,
}

/// What is known about the object whose remedies are asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patient<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) rows: &'a [Row<'a>],
    pub(super) snapshot: &'a Snapshot,
    /// The prefix of our annotations.
    pub(super) prefix: &'a str,
}

/// Commands to copy, by what they are good for.
pub(super) fn remedies(patient: Patient<'_>, values: &Values, now: Timestamp) -> Markup {
    let mut all = vec![
        inspect("See it, and who owns which field:", commands::look(patient.key)),
        inspect("See all that is known about it:", commands::explain(patient.key)),
    ];
    for row in patient.rows {
        all.extend(of_source(row, patient));
    }
    all.extend(by_rule(patient, values, now));
    html! {
        @for (purpose, title) in [(Purpose::Inspect, "Inspect"), (Purpose::Revert, "Revert"), (Purpose::Accept, "Accept")] {
            @if all.iter().any(|own| own.purpose == purpose) {
                h3 { (title) }
                @for own in all.iter().filter(|own| own.purpose == purpose) {
                    p { (own.words) }
                    pre data-copy { code { (own.text) } }
                }
            }
        }
    }
}

fn inspect(words: &'static str, text: String) -> Remedy {
    Remedy { purpose: Purpose::Inspect, words, text }
}

fn revert(words: &'static str, text: String) -> Remedy {
    Remedy { purpose: Purpose::Revert, words, text }
}

fn accept(words: &'static str, text: String) -> Remedy {
    Remedy { purpose: Purpose::Accept, words, text }
}

/// What the tool of a source can do. What is as declared needs nothing put back and nothing accepted.
fn of_source(row: &Row<'_>, patient: Patient<'_>) -> Vec<Remedy> {
    let (claim, key) = (&row.found.1.claim, patient.key);
    let declared = claim.declared_by().first();
    let mut all = match (claim.source, declared) {
        (Source::Terraform, Some(declared)) => of_terraform(declared),
        (Source::Helm, Some(declared)) => of_helm(declared, patient.snapshot),
        (Source::Manifest, Some(declared)) => {
            let file = file_of(declared);
            let words = "See how the cluster differs from the file, where it lies:";
            vec![
                inspect(words, commands::file_diff(&file)),
                revert("Apply the file once more:", commands::apply_file(&file)),
            ]
        }
        (Source::LastApplied, _) => vec![
            inspect("See how it differs from what was applied last:", commands::applied_diff(key)),
            revert("Apply once more what was applied last:", commands::apply_again(key)),
            accept("Write down as applied what is there:", commands::edit_applied(key)),
        ],
        (Source::Annotation | Source::Nothing, _) => vec![accept(
            "Record its hash as it is now:",
            commands::accept(key, patient.prefix, algorithm(&row.found.1.object.stamp)),
        )],
        (Source::Terraform | Source::Helm | Source::Manifest | Source::StatusHash, _) => Vec::new(),
    };
    let is_off = row.episode.is_some() || row.verdict == VerdictKind::NoBaseline;
    all.retain(|own| is_off || own.purpose == Purpose::Inspect);
    all
}

/// The file of a manifest: its way from the directory that was named, or what was named itself.
fn file_of(declared: &DeclaredBy) -> String {
    let (named, way) = (Path::new(&*declared.baseline), Path::new(&*declared.address));
    if named.ends_with(way) { named.display().to_string() } else { named.join(way).display().to_string() }
}

fn of_terraform(declared: &DeclaredBy) -> Vec<Remedy> {
    vec![
        inspect("See what Terraform would do about it:", commands::plan(&declared.address)),
        revert("Have Terraform put it back:", commands::apply(&declared.address)),
        accept(
            "Take it over into the state; the configuration has to follow:",
            commands::refresh(&declared.address),
        ),
    ]
}

fn of_helm(declared: &DeclaredBy, snapshot: &Snapshot) -> Vec<Remedy> {
    let is_own =
        |own: &&BaselineState| own.baseline.source == Source::Helm && own.baseline.name == declared.baseline;
    let baseline = snapshot.baselines.iter().find(is_own);
    let revision = baseline.and_then(|own| own.baseline.version.as_ref()).map(|own| own.serial);
    let mut all = vec![inspect(
        "See how the cluster differs from what Helm declares:",
        commands::release_diff(&declared.baseline),
    )];
    if let Some(revision) = revision {
        let words = "Have Helm put back what others changed in the release:";
        all.push(revert(words, commands::deploy_again(&declared.baseline, revision)));
    }
    all
}

/// Rules that accept the differences that count, for a while. What is not shown is not pinned, so that nobody can guess it.
fn by_rule(patient: Patient<'_>, values: &Values, now: Timestamp) -> Option<Remedy> {
    let expires = (now + ACCEPTED_FOR).strftime("%Y-%m-%d").to_string();
    let why = Why { owner: "who answers for it", reason: "why it is fine", expires: &expires };
    let episodes = patient.rows.iter().filter_map(|row| row.episode);
    let fields = episodes.flat_map(|episode| &episode.differences).map(|difference| {
        let finding = &difference.finding;
        let ObjectKey { kind, namespace, name } = patient.key;
        let value = Some(&*finding.actual).filter(|own| values.of_finding(finding).actual == **own);
        let (group, kind, path) = (&kind.group, &kind.kind, &finding.path);
        Accepted { group, kind, namespace, name, path, value }
    });
    let mut rules = accepting(fields, &why);
    let more = rules.len().saturating_sub(MOST_RULES);
    rules.truncate(MOST_RULES);
    let words = "Ignore just this for a while, by rules in the settings:";
    let rest = if more > 0 { format!("# {more} fields more differ\n") } else { String::new() };
    (!rules.is_empty()).then(|| accept(words, rules_as_yaml(&rules) + &rest))
}

/// How the hash was made that the object is stamped with; none where it has none that could be kept to.
fn algorithm(stamp: &HashBaseline) -> Option<Algorithm> {
    match stamp {
        HashBaseline::Mismatch(mismatch) => Some(mismatch.algorithm),
        HashBaseline::Unasked | HashBaseline::Absent | HashBaseline::Unusable(_) | HashBaseline::Match(_) => {
            None
        }
    }
}
