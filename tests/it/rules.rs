//! Rules: matching, precedence and validation.

use drift_exporter::{
    rules::{RatedObject, Rule, RuleConfig, RuleOrigin, RuleSet, RuleSpec, TeamRules, built_in_rules},
    types::{
        Actor, Advice, Difference, Expectation, FieldClass, FieldManager, FieldValue, Finding, Kind,
        MatchedBy, ObjectKey, RedactionKey, RuleInputs, Severity, Source, ValueDigest,
    },
};
use jiff::Timestamp;

/// Noon of February 1st, 2026.
const NOW: i64 = 1_769_947_200;

pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(NOW).unwrap()
}

pub(crate) fn specs(yaml: &str) -> Vec<RuleSpec> {
    serde_saphyr::from_str(yaml).unwrap()
}

/// The built-in rules and those of the settings.
pub(crate) fn rules(yaml: &str) -> RuleSet {
    compile(&RuleConfig { rules: specs(yaml), ..RuleConfig::default() })
}

pub(crate) fn compile(input: &RuleConfig) -> RuleSet {
    RuleSet::compile(input).unwrap_or_else(|problems| panic!("{problems:?}"))
}

pub(crate) fn team(namespace: &str, yaml: &str) -> TeamRules {
    TeamRules { namespace: namespace.into(), rules: specs(yaml) }
}

/// A text in brackets is a list, an empty one an absent value.
pub(crate) fn finding(path: &str, class: FieldClass, manager: &str, expected: &str, actual: &str) -> Finding {
    let owner = FieldManager { manager: manager.into(), subresource: "".into(), time: None };
    let value = |text: &str| match text {
        "" => FieldValue::Absent,
        list if list.starts_with('[') => FieldValue::Json(list.into()),
        text => text.into(),
    };
    Finding {
        owner: Some(owner),
        ..Finding::new(path.parse().unwrap(), class, value(expected), value(actual))
    }
}

pub(crate) fn rate_in(rules: &RuleSet, namespace: &str, kind: &Kind, finding: Finding) -> Difference {
    rate_of(rules, &ObjectKey::new(kind.clone(), namespace, "web"), finding)
}

fn ignoring_rule(difference: &Difference) -> Option<&str> {
    difference.ignored_by.as_ref()?.rule().map(|name| &**name)
}

/// The difference of one object.
pub(crate) fn rate_of(rules: &RuleSet, key: &ObjectKey, finding: Finding) -> Difference {
    let labels = [("team".into(), "checkout".into())];
    rules.rate(
        &RatedObject {
            key,
            labels: &labels,
            muted_paths: &[],
            source: Source::Annotation,
            autoscaled: false,
        },
        finding,
        now(),
    )
}

fn rate(rules: &RuleSet, finding: Finding) -> Difference {
    rate_in(rules, "shop", &Kind::deployment(), finding)
}

#[test]
fn ignore_annotation_may_have_commas_within_brackets() {
    let key = ObjectKey::new(Kind::deployment(), "shop", "web");
    let is_ignored = |muted_paths: &str, path: &str| {
        let finding = finding(path, FieldClass::Other, "kubectl-edit", "2", "5");
        let inputs = RuleInputs { muted_paths: Some(muted_paths.into()), ..RuleInputs::default() };
        let object = RatedObject {
            key: &key,
            labels: &[],
            muted_paths: &inputs.muted_patterns(),
            source: Source::Annotation,
            autoscaled: false,
        };
        rules("[]").rate(&object, finding, now()).ignored_by.is_some()
    };
    let list = "spec.paused, spec.ports[port=80,protocol=TCP].name, spec.c[name=\"a,b\"].image";
    assert!(is_ignored(list, "spec.paused"));
    assert!(is_ignored(list, "spec.ports[port=80,protocol=TCP].name"));
    assert!(is_ignored(list, "spec.c[name=\"a,b\"].image"));
    assert!(!is_ignored(list, "spec.ports[port=80,protocol=UDP].name"));
    assert!(!is_ignored(list, "protocol"));
    assert!(
        is_ignored("spec.c[name=a,b].image, spec.paused", "spec.paused"),
        "an invalid pattern is skipped"
    );
}

fn replicas() -> Finding {
    finding("spec.replicas", FieldClass::Replicas, "kubectl-edit", "2", "5")
}

#[track_caller]
fn ignores(condition: &str, expected: bool) {
    let rules = rules(&format!("[{{name: it, match: {condition}, effect: ignore}}]"));
    let difference = rate(&rules, replicas());
    assert_eq!(ignoring_rule(&difference), expected.then_some("it"), "{condition}");
    assert_eq!(difference.matched.iter().any(|rule| rule.as_str() == "it"), expected, "{condition}");
}

#[test]
fn match_keys_select_differences() {
    for condition in [
        "{kinds: [Service, deployment.apps]}",
        "{namespaces: [s*]}",
        "{namespaces: [other, shop]}",
        "{names: [w*b]}",
        "{labels: {team: check*}}",
        "{sources: [annotation]}",
        "{paths: [spec.replicas]}",
        "{paths: [/spec/replicas]}",
        "{fields: [image, replicas]}",
        "{actors: [kubectl]}",
        "{values: [5]}",
        "{kinds: ['*'], paths: ['**.replicas'], values: [5], actors: [kubectl]}",
    ] {
        ignores(condition, true);
    }
    for condition in [
        "{kinds: [Service]}",
        "{namespaces: [shops]}",
        "{names: [we]}",
        "{labels: {team: search}}",
        "{labels: {tier: '*'}}",
        "{paths: [spec.template]}",
        "{fields: [image]}",
        "{actors: [autoscaler]}",
        "{values: [2]}",
        "{changes: [added]}",
        "{paths: [spec.replicas], values: [4]}",
    ] {
        ignores(condition, false);
    }
}

#[test]
fn kind_patterns_match_kind_plural_and_group() {
    let matches = |pattern: &str, kind: &Kind| {
        let rules = rules(&format!("[{{name: it, match: {{kinds: ['{pattern}']}}, effect: ignore}}]"));
        rate_in(&rules, "shop", kind, replicas()).ignored_by.is_some()
    };
    for text in
        ["Deployment", "deployment", "deployments", "Deployment.apps", "deployments.apps", "*.apps", "*"]
    {
        assert!(matches(text, &Kind::deployment()), "{text}");
        assert_eq!(matches(text, &Kind::service()), text == "*", "{text}");
    }
    assert!(matches("Service.core", &Kind::service()));
    assert!(!matches("Service.serving.knative.dev", &Kind::service()));
}

#[test]
fn invalid_kind_patterns_are_rejected() {
    for text in ["", ".apps", "Deployment.", "Deploy*", "apps/v1", "*.*"] {
        let rules = specs(&format!("[{{name: it, match: {{kinds: ['{text}']}}, effect: ignore}}]"));
        let compiled = RuleSet::compile(&RuleConfig { rules, ..RuleConfig::default() });
        let problems = compiled.unwrap_err();
        assert_eq!(problems.len(), 1, "{text}: {problems:?}");
        assert!(problems[0].to_string().starts_with("rules[0].match.kinds[0] (rule it): "), "{problems:?}");
    }
}

#[test]
fn value_can_be_pinned_by_digest() {
    ignores(&format!("{{values: ['{}']}}", ValueDigest::of("5")), true);
    ignores(&format!("{{values: ['{}']}}", ValueDigest::of("6")), false);
}

#[test]
fn redacted_value_matches_only_rules_that_make_drift_critical() {
    let redacted = |plain: Finding| {
        let actual = plain.actual.redacted(&RedactionKey::new([1; 32]));
        Finding { actual, ..plain }
    };
    let service_type = finding("spec.type", FieldClass::Other, "kubectl-patch", "ClusterIP", "NodePort");
    let service = |finding| rate_in(&RuleSet::built_in(), "shop", &Kind::service(), finding).severity;
    assert_eq!(service(service_type.clone()), Severity::Critical);
    assert_eq!(service(redacted(service_type)), Severity::Critical, "a sensitive mark lowers no severity");
    let ignoring = rules("[{name: it, match: {values: [5]}, effect: ignore}]");
    assert!(rate(&ignoring, replicas()).ignored_by.is_some());
    assert!(rate(&ignoring, redacted(replicas())).ignored_by.is_none());
}

#[test]
fn last_matching_rule_wins_per_effect() {
    let rules = rules(
        "- {name: a, effect: [{severity: critical}, expected]}
- {name: b, match: {fields: [replicas]}, effect: {severity: info}}
- {name: c, match: {fields: [image]}, effect: {severity: warning}}",
    );
    let difference = rate(&rules, replicas());
    assert_eq!((difference.severity, difference.expectation), (Severity::Info, Expectation::Expected));
    let last_two = difference.matched[difference.matched.len() - 2..].iter().map(MatchedBy::as_str);
    assert_eq!(last_two.collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn severities_override_built_in_rules_but_not_rules_of_the_settings() {
    let input = |rules: &str| RuleConfig {
        rules: specs(rules),
        severities: serde_saphyr::from_str("[{severity: info, fields: [security, replicas]}]").unwrap(),
        ..RuleConfig::default()
    };
    let security = || finding("spec.hostPID", FieldClass::Security, "kubectl", "", "true");
    assert_eq!(rate(&RuleSet::built_in(), security()).severity, Severity::Critical);
    assert_eq!(rate(&compile(&input("[]")), security()).severity, Severity::Info);
    let settings_rule = "[{name: own, match: {fields: [security]}, effect: {severity: warning}}]";
    assert_eq!(rate(&compile(&input(settings_rule)), security()).severity, Severity::Warning);
}

#[test]
fn actors_of_the_settings_match_field_managers() {
    let actors = serde_saphyr::from_str("[{actor: gitops, manager: ^kubectl-e}]").unwrap();
    let rules = compile(&RuleConfig { actors, ..RuleConfig::default() });
    assert_eq!(rate(&rules, replicas()).actor, Actor::Gitops);
}

#[test]
fn expired_rule_does_not_apply() {
    let ignored = |expires: &str| {
        let rules = rules(&format!("[{{name: it, effect: ignore, expires: '{expires}'}}]"));
        rate(&rules, replicas()).ignored_by.is_some()
    };
    assert!(!ignored("2026-01-31"));
    assert!(ignored("2026-02-01"), "a date is valid until the end of its day");
    assert!(!ignored("2026-02-01T12:00:00Z"));
    assert!(ignored("2026-02-01T12:00:01Z"));
}

#[test]
fn date_includes_its_whole_day() {
    let expiry = |text: &str| {
        let rules = specs(&format!("[{{name: it, effect: ignore, expires: '{text}'}}]"));
        let compiled = RuleSet::compile(&RuleConfig { rules, ..RuleConfig::default() });
        compiled.map(|rules| rules.rules().last().and_then(Rule::expires).unwrap().to_string())
    };
    assert_eq!(expiry("2027-01-01").unwrap(), "2027-01-02T00:00:00Z");
    assert_eq!(expiry("2027-01-01T12:00:00+01:00").unwrap(), "2027-01-01T11:00:00Z");
    for text in ["", "soon", "2027-02-30", "2027-01-01T12:00:00", "9999-12-31T"] {
        assert!(expiry(text).is_err(), "{text}");
    }
}

#[test]
fn rule_replaces_built_in_rule_of_the_same_name() {
    let off = rules("[{name: scaling, effect: off}]");
    assert_eq!(off.rules().len(), built_in_rules().len());
    let position = off.position("scaling").unwrap();
    assert_eq!(Some(position), RuleSet::built_in().position("scaling"));
    assert_eq!(off.rules()[position].origin(), &RuleOrigin::Settings);
    assert_eq!(rate(&off, replicas()).advice, Advice::AlertOnly);
    assert_eq!(off.warnings(Timestamp::UNIX_EPOCH).next(), None);
    assert_eq!(rate(&RuleSet::built_in(), replicas()).advice, Advice::AutoRemediate);
}

#[test]
fn team_rules_apply_to_their_namespace_and_not_to_critical_drift() {
    let teams = vec![team("shop", "[{name: quiet, effect: [ignore, expected, {severity: info}]}]")];
    let rules = compile(&RuleConfig { teams, ..RuleConfig::default() });
    let quiet = rate(&rules, replicas());
    assert_eq!((ignoring_rule(&quiet), quiet.severity), (Some("shop/quiet"), Severity::Info));
    let elsewhere = rate_in(&rules, "other", &Kind::deployment(), replicas());
    assert_eq!((elsewhere.ignored_by, elsewhere.severity), (None, Severity::Warning));
    let critical = rate(&rules, finding("spec.replicas", FieldClass::Replicas, "kubectl", "2", "0"));
    assert_eq!((ignoring_rule(&critical), critical.severity), (None, Severity::Critical));
    assert_eq!(critical.expectation, Expectation::Unexpected);
}

#[test]
fn problems_have_position_reason_and_suggestion() {
    let rules = specs(
        r"- {name: fine, match: {fields: [image]}, effect: ignore}
- {name: bad name, effect: [off, ignore]}
- name: bad
  match: {fields: [replica], actors: [argo], paths: ['spec.temp*'], kinds: ['Deploy*'], values: ['sha256:12']}
  effect: {severity: critcal}
  expires: tomorrow
- {name: fine, effect: expectd}",
    );
    let actors = serde_saphyr::from_str("[{actor: gitop, manager: '('}]").unwrap();
    let severities = serde_saphyr::from_str("[{severity: info, fields: [envs]}]").unwrap();
    let teams = vec![team("shop", "[{name: t, match: {namespaces: [other]}, effect: ignore}]")];
    let problems = RuleSet::compile(&RuleConfig { rules, actors, severities, teams }).unwrap_err();
    let messages: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let messages = messages.join("\n");
    for line in [
        "rules[1].name (rule bad name): invalid name `bad name`",
        "rules[1].effect (rule bad name): `off` cannot be combined with other effects",
        "rules[2].effect.severity (rule bad): `critcal` is not one of info, warning, critical; did you mean `critical`?",
        "rules[2].match.kinds[0] (rule bad): `Deploy*`: write",
        "rules[2].match.paths[0] (rule bad): `spec.temp*`: a star matches whole segments",
        "(at character 6)",
        "rules[2].match.values[0] (rule bad): invalid digest; want sha256: and 64 hex digits",
        "rules[2].match.fields[0] (rule bad): `replica` is not one of replicas, image,",
        "did you mean `replicas`?",
        "rules[2].match.actors[0] (rule bad): `argo` is not one of",
        "rules[2].expires (rule bad): `tomorrow` is neither a date",
        "rules[3].effect (rule fine): `expectd` is not one of ignore, expected, unexpected, off; did you mean `expected`?",
        "rules[3].name (rule fine): another rule has this name already",
        "namespace shop: rules[0].match.namespaces[0] (rule t): `other` is not shop",
        "severities[0].fields[0]: `envs` is not one of",
        "actors[0].actor: `gitop` is not one of",
        "actors[0].manager: regex parse error",
    ] {
        assert!(messages.contains(line), "{line}\nis not in\n{messages}");
    }
    assert_eq!(problems.len(), 15, "{messages}");
}

#[test]
fn suspicious_rule_is_a_warning() {
    let rules = rules("- {name: all, match: {kinds: ['*']}, effect: ignore}\n- {name: scalin, effect: off}");
    let warnings: Vec<String> = rules.warnings(Timestamp::UNIX_EPOCH).map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "rules[0].match (rule all): it matches everything, so that nothing is ever reported as drifted",
            "rules[1].name (rule scalin): it switches nothing off: no built-in rule has its name; did you mean `scaling`?"
        ]
    );
}

#[test]
fn rule_round_trips_through_json() {
    let mut all = built_in_rules().to_vec();
    all.extend(specs("[{name: a, match: {labels: {a: b}, values: [true, 0, x]}, effect: off, owner: me, expires: 2027-01-01}]"));
    let json = serde_json::to_string(&all).unwrap();
    assert_eq!(serde_json::from_str::<Vec<RuleSpec>>(&json).unwrap(), all);
    let unknown = serde_saphyr::from_str::<Vec<RuleSpec>>("[{name: a, effect: ignore, reasons: x}]");
    assert!(unknown.unwrap_err().to_string().contains("reasons"));
}

#[test]
fn schema_describes_every_key_and_value() {
    let schema = schemars::schema_for!(RuleSpec).to_value();
    for key in ["name", "match", "effect", "owner", "reason", "expires"] {
        assert!(schema["properties"][key]["description"].is_string(), "{key}: {schema}");
    }
    let condition = &schema["$defs"]["MatchSpec"]["properties"];
    for key in [
        "kinds",
        "namespaces",
        "names",
        "labels",
        "sources",
        "paths",
        "fields",
        "actors",
        "values",
        "changes",
    ] {
        assert!(condition[key]["description"].is_string(), "{key}: {schema}");
    }
    let fields: Vec<&str> = FieldClass::ALL.iter().map(|class| class.as_str()).collect();
    assert_eq!(condition["fields"]["items"]["enum"], serde_json::json!(fields));
}
