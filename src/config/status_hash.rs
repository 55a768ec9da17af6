//! What the settings say about controllers that record what they have applied, and about Jobs that run Terraform.

use super::{
    file::{StatusHashEntry, TerraformJobsEntry},
    load::{check_namespaces, duration, parse_selector, wrong},
    problem::Problem,
};
use crate::{
    rules::nearest,
    types::{Algorithm, FieldPath, JobSpec, RecordAlgorithm, RecordSpec, Scope, WantedKind},
};

/// The kinds of `sources.status_hash`; what is wrong with one of them goes to the problems.
pub(super) fn records(entries: &[StatusHashEntry], problems: &mut Vec<Problem>) -> Vec<RecordSpec> {
    let read = |(at, entry)| record(&format!("sources.status_hash[{at}]"), entry, problems);
    entries.iter().enumerate().filter_map(read).collect()
}

/// The Jobs of `terraform_jobs`.
pub(super) fn jobs(entry: &TerraformJobsEntry, problems: &mut Vec<Problem>) -> JobSpec {
    check_namespaces("terraform_jobs.namespaces", &entry.namespaces, problems);
    let usual = entry.label.as_deref().map(JobSpec::labelled).unwrap_or_default();
    if entry.label.as_deref().is_some_and(|label| !is_label(label)) {
        let message = "this is no name of a label; want something like example.com/workspace";
        problems.push(wrong("terraform_jobs.label", message.to_owned()));
    }
    let selector = match &entry.selector {
        Some(text) => parse_selector("terraform_jobs.selector", text, problems),
        None => usual.objects.selector,
    };
    let scope = Scope::new(&entry.namespaces, &[]);
    JobSpec { objects: WantedKind { scope, selector, ..usual.objects }, label: usual.label }
}

fn record(place: &str, entry: &StatusHashEntry, problems: &mut Vec<Problem>) -> Option<RecordSpec> {
    let key = |name: &str| format!("{place}.{name}");
    check_namespaces(&key("namespaces"), &entry.namespaces, problems);
    let selector = entry.selector.as_deref().map(|text| parse_selector(&key("selector"), text, problems));
    let grace = duration(&key("grace"), entry.grace.as_deref(), problems);
    let mut path = |name: &str, text: &Option<String>| {
        let read = FieldPath::from_json_path(text.as_deref()?);
        read.map_err(|message| problems.push(wrong(&key(name), message))).ok()
    };
    let (recorded, hashed) = (path("recorded", &entry.recorded), path("hashed", &entry.hashed));
    let (phase, message) = (path("phase", &entry.phase), path("message", &entry.message));
    let outputs = path("outputs", &entry.outputs);
    let kind = WantedKind::parse(&entry.api_version, &entry.kind);
    let kind = kind.map_err(|message| problems.push(wrong(place, message))).ok();
    let algorithm = algorithm(&key("algorithm"), entry, problems);
    let (kind, algorithm) = (kind?, algorithm?);
    if entry.hashed.is_some() && algorithm != RecordAlgorithm::Hash(Algorithm::Sha256Jcs) {
        let message = format!("only sha256-jcs hashes what is named here; {} knows what", algorithm.name());
        problems.push(wrong(&key("hashed"), message));
    }
    let Some(recorded) = recorded.or_else(|| algorithm.usual_place()) else {
        if entry.recorded.is_none() {
            let message = format!("the key `recorded` is missing: {} has no usual place", algorithm.name());
            problems.push(wrong(place, message));
        }
        return None;
    };
    let objects =
        WantedKind { scope: Scope::new(&entry.namespaces, &[]), selector: selector.flatten(), ..kind };
    let usual = RecordSpec::usual(objects, algorithm, recorded);
    let words = |words: &Option<Vec<String>>, usual: Vec<Box<str>>| {
        words.as_ref().map_or(usual, |words| words.iter().map(|word| word.as_str().into()).collect())
    };
    Some(RecordSpec {
        hashed: hashed.unwrap_or(usual.hashed),
        phase: phase.or(usual.phase),
        message: message.unwrap_or(usual.message),
        outputs: outputs.or(usual.outputs),
        in_flight_phases: words(&entry.in_flight_phases, usual.in_flight_phases),
        error_phases: words(&entry.error_phases, usual.error_phases),
        grace: grace.unwrap_or(usual.grace),
        ..usual
    })
}

/// An algorithm that there is, and that has something to say about this kind.
fn algorithm(key: &str, entry: &StatusHashEntry, problems: &mut Vec<Problem>) -> Option<RecordAlgorithm> {
    let (name, kind) = (entry.algorithm.as_str(), entry.kind.as_str());
    let Some(algorithm) = RecordAlgorithm::all().find(|algorithm| algorithm.name() == name) else {
        let names: Vec<&str> = RecordAlgorithm::all().map(RecordAlgorithm::name).collect();
        let message = format!("there is no algorithm `{name}`; want one of {}", names.join(", "));
        let suggestion = nearest(name, names.iter().copied()).map(Into::into);
        problems.push(Problem { suggestion, ..wrong(key, message) });
        return None;
    };
    let kinds: &[&str] = match algorithm {
        RecordAlgorithm::Hash(Algorithm::TfdriftV1) => &["Deployment", "Service"],
        RecordAlgorithm::Hash(Algorithm::Opr8rV1) => &[RecordSpec::SIMPLE_RESOURCE.1],
        RecordAlgorithm::Hash(Algorithm::JcsV1 | Algorithm::Sha256Jcs) | RecordAlgorithm::Generation => {
            return Some(algorithm);
        }
    };
    if !kinds.contains(&kind) {
        let message = format!("{name} hashes {} only, and this is {kind}", kinds.join(" and "));
        problems.push(wrong(key, message));
        return None;
    }
    Some(algorithm)
}

/// Whether a label can be called that, as far as that is quickly told.
fn is_label(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    !text.is_empty() && text.len() <= 317 && text.chars().all(allowed) && text.matches('/').count() <= 1
}
