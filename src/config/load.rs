//! Validates a settings file: returns the settings, or every problem of the file.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::{
    ManifestLocations, Overrides, Prices, ReleaseLocations, Settings, ShownLabel, StateLocations,
    TeamRulesSettings,
    file::{
        AnnotationEntry, HelmEntry, KindEntry, ManifestEntry, SettingsFile, ShownResources, SourcesEntry,
        StatusHashEntry, TeamRulesEntry, TerraformEntry, TerraformJobsEntry,
    },
    yaml::{ConfigProblem, read_yaml, with_positions},
};
use crate::{
    rules::{RuleConfig, RuleProblem, RuleSet},
    types::{
        Algorithm, FieldPath, Scope, Selector, Source, StatusHashAlgorithm, StatusHashSpec, TerraformJobSpec,
        TrustedNamespaces, WantedKind, is_label_name, is_label_prefix, is_namespace,
    },
};

/// Valid settings, and warnings about probable mistakes.
#[derive(Clone, Debug)]
pub struct LoadedSettings {
    pub settings: Settings,
    pub warnings: Vec<ConfigProblem>,
}

/// Validates the text of a settings file. An empty file means the defaults. Rules that have expired `now` cause no warnings.
pub fn load(text: &str, overrides: &Overrides, now: Timestamp) -> Result<LoadedSettings, Vec<ConfigProblem>> {
    let file: Option<SettingsFile> = read_yaml(text).map_err(|problem| vec![problem])?;
    let file = file.unwrap_or_default();
    let mut problems = Vec::new();
    let mut warnings = lower_case_kinds(&file.kinds);
    let team_namespaces = file.team_rules.as_ref().map(|entry| entry.namespaces.clone()).unwrap_or_default();
    match settings(file, overrides, &mut problems) {
        Some(mut settings) if problems.is_empty() => {
            if let Some(trusted) = &overrides.trusted_namespaces {
                settings.trust(trusted);
            }
            warnings.extend(unwatched_teams(&team_namespaces, &settings.scope()));
            warnings.extend(settings.rules.warnings(now).cloned().map(from_rule_problem));
            Ok(LoadedSettings { settings, warnings: with_positions(text, warnings) })
        }
        Some(_) | None => Err(with_positions(text, problems)),
    }
}

fn lower_case_kinds(entries: &[KindEntry]) -> Vec<ConfigProblem> {
    let warnings = entries.iter().enumerate().filter_map(|(at, entry)| {
        let first = entry.kind.chars().next().filter(char::is_ascii_lowercase)?;
        let suggestion = entry.kind.replacen(first, &first.to_ascii_uppercase().to_string(), 1);
        let message = format!("`{}`: names of kinds begin with an upper-case letter", entry.kind);
        let problem = ConfigProblem::at(&format!("kinds[{at}].kind"), message);
        Some(ConfigProblem { suggestion: Some(suggestion.into()), ..problem })
    });
    warnings.collect()
}

fn unwatched_teams(namespaces: &[String], watched: &Scope) -> Vec<ConfigProblem> {
    let unwatched = namespaces.iter().enumerate().filter(|(_, name)| !watched.has(name));
    let warnings = unwatched.map(|(at, name)| {
        let message = format!("`{name}` is not watched, so its rules are not read");
        ConfigProblem::at(&format!("team_rules.namespaces[{at}]"), message)
    });
    warnings.collect()
}

fn settings(
    file: SettingsFile,
    overrides: &Overrides,
    problems: &mut Vec<ConfigProblem>,
) -> Option<Settings> {
    let defaults = Settings::default();
    check_namespaces("namespaces", &file.namespaces, problems);
    check_namespaces("excluded_namespaces", &file.excluded_namespaces, problems);
    let kinds = kinds(&file.kinds, problems);
    let sources = file.sources.as_ref().map_or(defaults.sources, enabled_sources);
    let entries = file.sources.unwrap_or_default();
    let prefix = entries.annotation.as_ref().and_then(|entry| annotation_prefix(entry, problems));
    let annotation_prefix = prefix.unwrap_or(defaults.annotation_prefix);
    let terraform = entries.terraform.map(|entry| terraform(&entry, problems)).unwrap_or_default();
    let helm = entries.helm.map(|entry| helm(&entry, problems)).unwrap_or_default();
    let manifest = entries.manifest.map(|entry| manifest(&entry, problems)).unwrap_or_default();
    let status_hashes = entries.status_hash.map(|entries| status_hashes(&entries, problems));
    let terraform_jobs = file.terraform_jobs.as_ref().map(|entry| terraform_jobs(entry, problems));
    if sources.is_empty() {
        problems.push(ConfigProblem::at("sources", "no source is enabled; want at least `annotation: {}`"));
    }
    file.limits.check(problems);
    check_max_series(file.metrics.max_series, problems);
    let shown_labels = shown_labels(&file.metrics.labels, problems);
    file.api.prices.iter().for_each(|prices| check_prices(prices, problems));
    let grafana_url = file.api.grafana_url.as_deref().and_then(|url| grafana_url(url, problems));
    let teams = file.team_rules.as_ref();
    let team_rules = teams.and_then(|entry| team_rules(entry, &annotation_prefix, problems));
    let rule_config =
        RuleConfig { rules: file.rules, severities: file.severities, actors: file.actors, teams: Vec::new() };
    let rules = match RuleSet::compile(&rule_config) {
        Ok(rules) => rules,
        Err(found) => {
            problems.extend(found.into_iter().map(from_rule_problem));
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
        status_hashes: status_hashes.filter(|specs| !specs.is_empty()).unwrap_or(defaults.status_hashes),
        terraform_jobs,
        rules: Arc::new(rules),
        rule_config: Arc::new(rule_config),
        team_rules,
        mute_by_annotation: file.mute_by_annotation,
        max_series: overrides.max_series.or(file.metrics.max_series).unwrap_or(defaults.max_series),
        limits: file.limits,
        only_drifted: resources == Some(ShownResources::Drifted),
        shown_labels: shown_labels.into(),
        health_series: overrides.health.or(file.metrics.health).unwrap_or(defaults.health_series),
        shown_values: file.api.values.unwrap_or(defaults.shown_values),
        prices: file.api.prices,
        grafana_url,
        log_level: overrides.log_level.or(file.log.level).unwrap_or(defaults.log_level),
    })
}

fn check_max_series(max_series: Option<usize>, problems: &mut Vec<ConfigProblem>) {
    if max_series == Some(0) {
        problems.push(ConfigProblem::at("metrics.max_series", "0 would hide every series; want at least 1"));
    }
}

fn grafana_url(url: &str, problems: &mut Vec<ConfigProblem>) -> Option<Box<str>> {
    let parsed = url.parse::<http::Uri>().ok();
    let is_http =
        |uri: &http::Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.query().is_none();
    if url.contains('#') || !parsed.as_ref().is_some_and(is_http) {
        let message = format!("invalid URL `{url}`; want `https://grafana.example.com`");
        problems.push(ConfigProblem::at("api.grafana_url", message));
        return None;
    }
    Some(url.trim_end_matches('/').into())
}

fn annotation_prefix(entry: &AnnotationEntry, problems: &mut Vec<ConfigProblem>) -> Option<Box<str>> {
    let prefix = entry.prefix.as_deref()?;
    if !is_label_prefix(prefix) {
        let message = format!("invalid prefix `{prefix}`; want a DNS name such as example.com");
        problems.push(ConfigProblem::at("sources.annotation.prefix", message));
    }
    Some(prefix.into())
}

fn enabled_sources(entries: &SourcesEntry) -> Vec<Source> {
    let SourcesEntry { annotation, terraform, helm, last_applied, manifest, status_hash } = entries;
    let enabled = [
        (Source::Annotation, annotation.is_some()),
        (Source::Terraform, terraform.is_some()),
        (Source::Helm, helm.is_some()),
        (Source::LastApplied, last_applied.is_some()),
        (Source::Manifest, manifest.is_some()),
        (Source::StatusHash, status_hash.is_some()),
    ];
    enabled.into_iter().filter_map(|(source, is_enabled)| is_enabled.then_some(source)).collect()
}

fn kinds(entries: &[KindEntry], problems: &mut Vec<ConfigProblem>) -> Vec<WantedKind> {
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
            Err(message) => problems.push(ConfigProblem::at(&format!("kinds[{at}]"), message)),
        }
    }
    kinds
}

fn shown_labels(keys: &[String], problems: &mut Vec<ConfigProblem>) -> Vec<ShownLabel> {
    let mut labels: Vec<ShownLabel> = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let position = format!("metrics.labels[{at}]");
        match ShownLabel::parse(key) {
            Ok(label) => match labels.iter().find(|other| other.name == label.name) {
                Some(other) => {
                    let message = format!("`{key}` would become the same label as `{}`", other.key);
                    problems.push(ConfigProblem::at(&position, message));
                }
                None => labels.push(label),
            },
            Err(message) => problems.push(ConfigProblem::at(&position, message)),
        }
    }
    labels
}

fn check_prices(prices: &Prices, problems: &mut Vec<ConfigProblem>) {
    let currency = prices.currency.as_str();
    if !(1..=8).contains(&currency.len()) || !currency.chars().all(|c| c.is_ascii_alphabetic()) {
        let message = format!("invalid currency `{currency}`; want letters such as EUR");
        problems.push(ConfigProblem::at("api.prices.currency", message));
    }
    let given = [
        ("cpu_core_hour", prices.cpu_core_hour),
        ("memory_gib_hour", prices.memory_gib_hour),
        ("storage_gib_month", prices.storage_gib_month),
        ("load_balancer_hour", prices.load_balancer_hour),
    ];
    if given.iter().all(|(_, price)| price.is_none()) {
        let message = "no price is set; want at least one, such as cpu_core_hour";
        problems.push(ConfigProblem::at("api.prices", message));
    }
    for (key, price) in given {
        if let Some(price) = price.filter(|price| !price.is_finite() || *price < 0.0) {
            let message = format!("invalid price `{price}`; want a number that is not negative");
            problems.push(ConfigProblem::at(&format!("api.prices.{key}"), message));
        }
    }
}

fn terraform(entry: &TerraformEntry, problems: &mut Vec<ConfigProblem>) -> StateLocations {
    check_namespaces("sources.terraform.namespaces", &entry.namespaces, problems);
    let lock_max_age = duration("sources.terraform.lock_max_age", entry.lock_max_age.as_deref(), problems);
    let defaults = StateLocations::default();
    StateLocations {
        scope: Scope::new(&entry.namespaces, &[]),
        files: entry.files.iter().map(Into::into).collect(),
        lock_max_age: lock_max_age.unwrap_or(defaults.lock_max_age),
        this_cluster: entry.this_cluster,
        trusted_namespaces: trusted("sources.terraform", &entry.trusted_namespaces, problems),
    }
}

fn manifest(entry: &ManifestEntry, problems: &mut Vec<ConfigProblem>) -> ManifestLocations {
    check_namespaces("sources.manifest.namespace", entry.namespace.as_slice(), problems);
    if entry.paths.is_empty() {
        let message = "no path is set; want at least one file or directory";
        problems.push(ConfigProblem::at("sources.manifest.paths", message));
    }
    let defaults = ManifestLocations::default();
    ManifestLocations {
        paths: entry.paths.iter().map(Into::into).collect(),
        namespace: entry.namespace.as_deref().map_or(defaults.namespace, Into::into),
    }
}

fn helm(entry: &HelmEntry, problems: &mut Vec<ConfigProblem>) -> ReleaseLocations {
    check_namespaces("sources.helm.namespaces", &entry.namespaces, problems);
    let pending_max_age =
        duration("sources.helm.pending_max_age", entry.pending_max_age.as_deref(), problems);
    let defaults = ReleaseLocations::default();
    ReleaseLocations {
        scope: Scope::new(&entry.namespaces, &[]),
        pending_max_age: pending_max_age.unwrap_or(defaults.pending_max_age),
        trusted_namespaces: trusted("sources.helm", &entry.trusted_namespaces, problems),
    }
}

fn team_rules(
    entry: &TeamRulesEntry,
    prefix: &str,
    problems: &mut Vec<ConfigProblem>,
) -> Option<TeamRulesSettings> {
    check_namespaces("team_rules.namespaces", &entry.namespaces, problems);
    let selector = match &entry.selector {
        Some(text) => parse_selector("team_rules.selector", text, problems)?,
        None => Selector::equals(&format!("{prefix}/rules"), "true"),
    };
    Some(TeamRulesSettings { scope: Scope::new(&entry.namespaces, &[]), selector })
}

fn terraform_jobs(entry: &TerraformJobsEntry, problems: &mut Vec<ConfigProblem>) -> TerraformJobSpec {
    check_namespaces("terraform_jobs.namespaces", &entry.namespaces, problems);
    let defaults = entry.label.as_deref().map(TerraformJobSpec::labelled).unwrap_or_default();
    if let Some(label) = entry.label.as_deref().filter(|label| !is_label_name(label)) {
        let message = format!("invalid label name `{label}`; want for example example.com/workspace");
        problems.push(ConfigProblem::at("terraform_jobs.label", message));
    }
    let selector = match &entry.selector {
        Some(text) => parse_selector("terraform_jobs.selector", text, problems),
        None => defaults.objects.selector,
    };
    let scope = Scope::new(&entry.namespaces, &[]);
    TerraformJobSpec { objects: WantedKind { scope, selector, ..defaults.objects }, label: defaults.label }
}

fn status_hashes(entries: &[StatusHashEntry], problems: &mut Vec<ConfigProblem>) -> Vec<StatusHashSpec> {
    let validate = |(at, entry)| status_hash(&format!("sources.status_hash[{at}]"), entry, problems);
    entries.iter().enumerate().filter_map(validate).collect()
}

fn status_hash(
    prefix: &str,
    entry: &StatusHashEntry,
    problems: &mut Vec<ConfigProblem>,
) -> Option<StatusHashSpec> {
    let key = |name: &str| format!("{prefix}.{name}");
    check_namespaces(&key("namespaces"), &entry.namespaces, problems);
    let selector = entry.selector.as_deref().map(|text| parse_selector(&key("selector"), text, problems));
    let grace = duration(&key("grace"), entry.grace.as_deref(), problems);
    let mut path = |name: &str, text: &Option<String>| {
        let parsed = FieldPath::from_json_path(text.as_deref()?);
        parsed.map_err(|message| problems.push(ConfigProblem::at(&key(name), message))).ok()
    };
    let (recorded, hashed) = (path("recorded", &entry.recorded), path("hashed", &entry.hashed));
    let (phase, message) = (path("phase", &entry.phase), path("message", &entry.message));
    let outputs = path("outputs", &entry.outputs);
    let kind = WantedKind::parse(&entry.api_version, &entry.kind);
    let kind = kind.map_err(|message| problems.push(ConfigProblem::at(prefix, message))).ok();
    let algorithm = status_hash_algorithm(&key("algorithm"), entry, problems);
    let (kind, algorithm) = (kind?, algorithm?);
    if entry.hashed.is_some() && algorithm != StatusHashAlgorithm::Hash(Algorithm::Sha256Jcs) {
        let message = format!("only sha256-jcs has a configurable field, not {}", algorithm.name());
        problems.push(ConfigProblem::at(&key("hashed"), message));
    }
    let Some(recorded) = recorded.or_else(|| algorithm.default_path()) else {
        if entry.recorded.is_none() {
            let message = format!("missing field `recorded`: {} has no default", algorithm.name());
            problems.push(ConfigProblem::at(prefix, message));
        }
        return None;
    };
    let objects =
        WantedKind { scope: Scope::new(&entry.namespaces, &[]), selector: selector.flatten(), ..kind };
    let defaults = StatusHashSpec::with_defaults(objects, algorithm, recorded);
    let phases = |phases: &Option<Vec<String>>, default: Vec<Box<str>>| {
        phases.as_ref().map_or(default, |phases| phases.iter().map(|phase| phase.as_str().into()).collect())
    };
    Some(StatusHashSpec {
        hashed: hashed.unwrap_or(defaults.hashed),
        phase: phase.or(defaults.phase),
        message: message.unwrap_or(defaults.message),
        outputs: outputs.or(defaults.outputs),
        in_flight_phases: phases(&entry.in_flight_phases, defaults.in_flight_phases),
        error_phases: phases(&entry.error_phases, defaults.error_phases),
        grace: grace.unwrap_or(defaults.grace),
        ..defaults
    })
}

/// Parses an algorithm that supports the kind of the entry.
fn status_hash_algorithm(
    key: &str,
    entry: &StatusHashEntry,
    problems: &mut Vec<ConfigProblem>,
) -> Option<StatusHashAlgorithm> {
    let (name, kind) = (entry.algorithm.as_str(), entry.kind.as_str());
    let Some(algorithm) = StatusHashAlgorithm::all().find(|algorithm| algorithm.name() == name) else {
        let names = StatusHashAlgorithm::all().map(StatusHashAlgorithm::name);
        problems.push(ConfigProblem::unknown(key, "algorithm", name, names));
        return None;
    };
    let kinds: &[&str] = match algorithm {
        StatusHashAlgorithm::Hash(Algorithm::TfdriftV1) => &["Deployment", "Service"],
        StatusHashAlgorithm::Hash(Algorithm::Opr8rV1) => &[StatusHashSpec::SIMPLE_RESOURCE.kind],
        StatusHashAlgorithm::Hash(Algorithm::JcsV1 | Algorithm::Sha256Jcs)
        | StatusHashAlgorithm::Generation => {
            return Some(algorithm);
        }
    };
    if !kinds.contains(&kind) {
        let message = format!("{name} supports {} only, not {kind}", kinds.join(" and "));
        problems.push(ConfigProblem::at(key, message));
        return None;
    }
    Some(algorithm)
}

fn duration(key: &str, text: Option<&str>, problems: &mut Vec<ConfigProblem>) -> Option<SignedDuration> {
    let text = text?;
    let parsed = text.parse().ok().filter(SignedDuration::is_positive);
    if parsed.is_none() {
        problems
            .push(ConfigProblem::at(key, format!("invalid duration `{text}`; want for example 30m or 1h")));
    }
    parsed
}

/// Returns none for an empty selector, which matches everything.
fn parse_selector(key: &str, text: &str, problems: &mut Vec<ConfigProblem>) -> Option<Selector> {
    match Selector::parse(text) {
        Ok(selector) => Some(selector).filter(|selector| !selector.is_empty()),
        Err(message) => {
            problems.push(ConfigProblem::at(key, message));
            None
        }
    }
}

fn trusted(source: &str, names: &[String], problems: &mut Vec<ConfigProblem>) -> TrustedNamespaces {
    if !names.iter().any(|name| name == TrustedNamespaces::ALL) {
        check_namespaces(&format!("{source}.trusted_namespaces"), names, problems);
    }
    TrustedNamespaces::new(names.iter().map(String::as_str))
}

fn check_namespaces(key: &str, names: &[String], problems: &mut Vec<ConfigProblem>) {
    for (at, name) in names.iter().enumerate() {
        if !is_namespace(name) {
            let message = format!("invalid namespace `{name}`; want lower-case letters, digits and `-` only");
            problems.push(ConfigProblem::at(&format!("{key}[{at}]"), message));
        }
    }
}

fn from_rule_problem(problem: RuleProblem) -> ConfigProblem {
    let message = match &problem.rule {
        Some(rule) => format!("rule {rule}: {}", problem.message).into(),
        None => problem.message,
    };
    ConfigProblem { suggestion: problem.suggestion, ..ConfigProblem::at(&problem.key, message) }
}
