//! Validates a settings file: all of it is valid, or none of it is used.

use std::sync::Arc;

use jiff::SignedDuration;

use super::{
    HelmFrom, ManifestFrom, Overrides, Settings, ShownLabel, TeamRulesFrom, TerraformFrom,
    file::{
        AnnotationEntry, HelmEntry, KindEntry, ManifestEntry, SettingsFile, ShownResources, SourcesEntry,
        StatusHashEntry, TeamRulesEntry, TerraformEntry, TerraformJobsEntry,
    },
    settings::prices,
    yaml::{Problem, Read, read},
};
use crate::{
    rules::{RuleInput, RuleProblem, RuleSet, nearest},
    types::{
        Algorithm, FieldPath, JobSpec, RecordAlgorithm, RecordSpec, Scope, Selector, Source, WantedKind,
    },
};

/// Settings, and what looks wrong in them and may be meant all the same.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// What somebody should have a look at.
    pub warnings: Vec<Problem>,
}

/// Loads settings from the text of a file. Either all of it is right, or every problem that was found is told.
pub fn load(text: &str, overrides: &Overrides) -> Result<Loaded, Vec<Problem>> {
    let Read { file, places } = read(text).map_err(|problem| vec![problem])?;
    let placed = |mut problems: Vec<Problem>| {
        problems.iter_mut().for_each(|problem| problem.place = places.find(&problem.key));
        problems.sort_by_key(|problem| problem.place);
        problems
    };
    let mut problems = Vec::new();
    let mut warnings = odd_kinds(&file.kinds);
    let team_namespaces = file.team_rules.as_ref().map(|entry| entry.namespaces.clone()).unwrap_or_default();
    match settings(file, overrides, &mut problems) {
        Some(settings) if problems.is_empty() => {
            warnings.extend(unwatched_teams(&team_namespaces, &settings.scope()));
            warnings.extend(settings.rules.warnings().iter().cloned().map(about_rule));
            Ok(Loaded { settings, warnings: placed(warnings) })
        }
        Some(_) | None => Err(placed(problems)),
    }
}

/// Kinds whose names begin as those of no kind do that anybody has seen.
fn odd_kinds(entries: &[KindEntry]) -> Vec<Problem> {
    let odd = entries.iter().enumerate().filter_map(|(at, entry)| {
        let first = entry.kind.chars().next().filter(char::is_ascii_lowercase)?;
        let usual = entry.kind.replacen(first, &first.to_ascii_uppercase().to_string(), 1);
        let message = format!("`{}`: names of kinds begin with an upper-case letter", entry.kind);
        Some(Problem { suggestion: Some(usual.into()), ..wrong(&format!("kinds[{at}].kind"), message) })
    });
    odd.collect()
}

/// Namespaces whose rules would be about nothing.
fn unwatched_teams(namespaces: &[String], watched: &Scope) -> Vec<Problem> {
    let unwatched = namespaces.iter().enumerate().filter(|(_, name)| !watched.has(name));
    let warnings = unwatched.map(|(at, name)| {
        let message =
            format!("`{name}` is not among the namespaces that are watched, so its rules are not read");
        wrong(&format!("team_rules.namespaces[{at}]"), message)
    });
    warnings.collect()
}

fn settings(file: SettingsFile, overrides: &Overrides, problems: &mut Vec<Problem>) -> Option<Settings> {
    let usual = Settings::default();
    check_namespaces("namespaces", &file.namespaces, problems);
    check_namespaces("excluded_namespaces", &file.excluded_namespaces, problems);
    let kinds = kinds(&file.kinds, problems);
    let from = file.sources.clone().unwrap_or_default();
    let prefix = from.annotation.as_ref().and_then(|entry| annotation_prefix(entry, problems));
    let annotation_prefix = prefix.unwrap_or(usual.annotation_prefix);
    let sources = file.sources.as_ref().map_or(usual.sources, switched_on);
    let terraform = from.terraform.map(|entry| terraform_from(&entry, problems)).unwrap_or_default();
    let helm = from.helm.map(|entry| helm_from(&entry, problems)).unwrap_or_default();
    let manifest = from.manifest.map(|entry| manifest_from(&entry, problems)).unwrap_or_default();
    let records = from.status_hash.map(|entries| records(&entries, problems)).filter(|own| !own.is_empty());
    let jobs = file.terraform_jobs.as_ref().map(|entry| jobs(entry, problems));
    if sources.is_empty() {
        problems
            .push(wrong("sources", "no source is switched on; want at least `annotation: {}`".to_owned()));
    }
    if file.metrics.max_series == Some(0) {
        problems.push(wrong("metrics.max_series", "0 would show nothing; want at least 1".to_owned()));
    }
    let shown_labels = shown_labels(&file.metrics.labels, problems);
    let prices = file.api.prices.as_ref().map(|entry| prices(entry, problems));
    let grafana_url = file.api.grafana_url.as_deref().and_then(|url| grafana_url(url, problems));
    let teams = file.team_rules.as_ref();
    let team_rules = teams.and_then(|entry| team_rules(entry, &annotation_prefix, problems));
    let input =
        RuleInput { rules: file.rules, severities: file.severities, actors: file.actors, teams: Vec::new() };
    let rules = match RuleSet::compile(&input) {
        Ok(rules) => rules,
        Err(found) => {
            problems.extend(found.into_iter().map(about_rule));
            return None;
        }
    };
    let names = |names: Vec<String>| names.into_iter().map(Into::into).collect();
    let resources = overrides.resources.or(file.metrics.resources);
    Some(Settings {
        namespaces: overrides.namespaces.clone().unwrap_or_else(|| names(file.namespaces)),
        excluded_namespaces: names(file.excluded_namespaces),
        kinds,
        sources: overrides.sources.clone().unwrap_or(sources),
        annotation_prefix,
        terraform,
        helm,
        manifest,
        records: records.unwrap_or(usual.records),
        jobs,
        rules: Arc::new(rules),
        rule_input: Arc::new(input),
        team_rules,
        mute_by_annotation: file.mute_by_annotation,
        max_series: overrides.max_series.or(file.metrics.max_series).unwrap_or(usual.max_series),
        only_drifted: resources == Some(ShownResources::Drifted),
        shown_labels: shown_labels.into(),
        health_series: overrides.health.or(file.metrics.health).unwrap_or(usual.health_series),
        shown_values: file.api.values.unwrap_or(usual.shown_values),
        prices,
        grafana_url,
        log_level: overrides.log_level.or(file.log.level).unwrap_or(usual.log_level),
    })
}

/// An address that a page may link to.
fn grafana_url(url: &str, problems: &mut Vec<Problem>) -> Option<Box<str>> {
    let parsed = url.parse::<http::Uri>().ok();
    let is_web =
        |own: &http::Uri| matches!(own.scheme_str(), Some("http" | "https")) && own.query().is_none();
    if url.contains('#') || !parsed.as_ref().is_some_and(is_web) {
        let message = format!("`{url}` is no address of Grafana; want `https://grafana.example.com`");
        problems.push(wrong("api.grafana_url", message));
        return None;
    }
    Some(url.trim_end_matches('/').into())
}

/// What stands before the names of label and annotations, where it is said.
fn annotation_prefix(entry: &AnnotationEntry, problems: &mut Vec<Problem>) -> Option<Box<str>> {
    let prefix = entry.prefix.as_deref()?;
    if !is_prefix(prefix) {
        let message = format!("`{prefix}` cannot stand before the / in the name of a label; want a DNS name");
        problems.push(wrong("sources.annotation.prefix", message));
    }
    Some(prefix.into())
}

fn switched_on(sources: &SourcesEntry) -> Vec<Source> {
    let annotation = sources.annotation.iter().map(|_| Source::Annotation);
    let terraform = sources.terraform.iter().map(|_| Source::Terraform);
    let helm = sources.helm.iter().map(|_| Source::Helm);
    let last_applied = sources.last_applied.iter().map(|_| Source::LastApplied);
    let manifest = sources.manifest.iter().map(|_| Source::Manifest);
    let status_hash = sources.status_hash.iter().map(|_| Source::StatusHash);
    annotation.chain(terraform).chain(helm).chain(last_applied).chain(manifest).chain(status_hash).collect()
}

fn kinds(entries: &[KindEntry], problems: &mut Vec<Problem>) -> Vec<WantedKind> {
    let mut kinds = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let key = |name: &str| format!("kinds[{at}].{name}");
        check_namespaces(&key("namespaces"), &entry.namespaces, problems);
        check_namespaces(&key("excluded_namespaces"), &entry.excluded_namespaces, problems);
        let selector = entry.selector.as_deref().map(|text| parse_selector(&key("selector"), text, problems));
        match WantedKind::parse(&entry.api_version, &entry.kind) {
            Ok(kind) => kinds.push(WantedKind {
                scope: Scope::new(&entry.namespaces, &entry.excluded_namespaces),
                selector: selector.flatten(),
                ..kind
            }),
            Err(message) => problems.push(wrong(&format!("kinds[{at}]"), message)),
        }
    }
    kinds
}

fn shown_labels(keys: &[String], problems: &mut Vec<Problem>) -> Vec<ShownLabel> {
    let mut labels: Vec<ShownLabel> = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let place = format!("metrics.labels[{at}]");
        match ShownLabel::parse(key) {
            Ok(label) => match labels.iter().find(|own| own.name == label.name) {
                Some(own) => {
                    problems
                        .push(wrong(&place, format!("`{key}` would be called the same as `{}`", own.key)));
                }
                None => labels.push(label),
            },
            Err(message) => problems.push(wrong(&place, message)),
        }
    }
    labels
}

fn terraform_from(entry: &TerraformEntry, problems: &mut Vec<Problem>) -> TerraformFrom {
    let usual = TerraformFrom::default();
    check_namespaces("sources.terraform.namespaces", &entry.namespaces, problems);
    let lock_max_age = duration("sources.terraform.lock_max_age", entry.lock_max_age.as_deref(), problems)
        .unwrap_or(usual.lock_max_age);
    TerraformFrom {
        scope: Scope::new(&entry.namespaces, &[]),
        files: entry.files.iter().map(Into::into).collect(),
        lock_max_age,
        this_cluster: entry.this_cluster,
    }
}

fn manifest_from(entry: &ManifestEntry, problems: &mut Vec<Problem>) -> ManifestFrom {
    let usual = ManifestFrom::default();
    check_namespaces("sources.manifest.namespace", entry.namespace.as_slice(), problems);
    if entry.paths.is_empty() {
        let message = "no path is named; want at least one file or directory".to_owned();
        problems.push(wrong("sources.manifest.paths", message));
    }
    ManifestFrom {
        paths: entry.paths.iter().map(Into::into).collect(),
        namespace: entry.namespace.as_deref().map_or(usual.namespace, Into::into),
    }
}

fn helm_from(entry: &HelmEntry, problems: &mut Vec<Problem>) -> HelmFrom {
    let usual = HelmFrom::default();
    check_namespaces("sources.helm.namespaces", &entry.namespaces, problems);
    let pending_max_age =
        duration("sources.helm.pending_max_age", entry.pending_max_age.as_deref(), problems)
            .unwrap_or(usual.pending_max_age);
    HelmFrom { scope: Scope::new(&entry.namespaces, &[]), pending_max_age }
}

fn team_rules(entry: &TeamRulesEntry, prefix: &str, problems: &mut Vec<Problem>) -> Option<TeamRulesFrom> {
    check_namespaces("team_rules.namespaces", &entry.namespaces, problems);
    let selector = match &entry.selector {
        Some(text) => parse_selector("team_rules.selector", text, problems)?,
        None => Selector::has(&format!("{prefix}/rules"), "true"),
    };
    Some(TeamRulesFrom { scope: Scope::new(&entry.namespaces, &[]), selector })
}

/// A length of time, where one is written.
pub(super) fn duration(key: &str, text: Option<&str>, problems: &mut Vec<Problem>) -> Option<SignedDuration> {
    let text = text?;
    let parsed = text.parse().ok().filter(SignedDuration::is_positive);
    if parsed.is_none() {
        problems.push(wrong(key, format!("`{text}` is no length of time; want something like 30m or 1h")));
    }
    parsed
}

/// A selector that lets everything through is none.
pub(super) fn parse_selector(key: &str, text: &str, problems: &mut Vec<Problem>) -> Option<Selector> {
    match Selector::parse(text) {
        Ok(selector) => Some(selector).filter(|selector| !selector.is_empty()),
        Err(message) => {
            problems.push(wrong(key, message));
            None
        }
    }
}

pub(super) fn check_namespaces(key: &str, names: &[String], problems: &mut Vec<Problem>) {
    for (at, name) in names.iter().enumerate() {
        if !is_namespace(name) {
            let message =
                format!("`{name}` is no namespace: they have lower-case letters, digits and `-` only");
            problems.push(wrong(&format!("{key}[{at}]"), message));
        }
    }
}

/// Whether a namespace can be called that.
pub fn is_namespace(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=63).contains(&name.len())
        && name.chars().all(allowed)
        && !name.starts_with('-')
        && !name.ends_with('-')
}

/// Whether the name of a label can begin with that: a DNS name, whose parts look like namespaces.
fn is_prefix(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_namespace)
}

pub(super) fn wrong(key: &str, message: String) -> Problem {
    Problem { place: None, key: key.into(), message: message.into(), suggestion: None }
}

fn about_rule(problem: RuleProblem) -> Problem {
    let message = match &problem.rule {
        Some(rule) => format!("rule {rule}: {}", problem.message).into(),
        None => problem.message,
    };
    Problem { place: None, key: problem.key, message, suggestion: problem.suggestion }
}

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
