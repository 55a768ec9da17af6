//! `drift-exporter accept`.

use std::io::Write;

use jiff::{SignedDuration, Timestamp, Unit, Zoned, tz::TimeZone};

use super::{
    Outcome,
    args::AcceptArgs,
    live::{Cluster, Found},
    runtime::block_on,
    settings_file::load_settings,
};
use crate::{
    compare::judge,
    model::{Clock, Finding, Judgement, Kind, ObjectKey, ValueDigest},
    rules::{EffectSpec, EffectsSpec, MatchSpec, RuleInput, RuleSet, RuleSpec, ValueSpec},
    settings::Overrides,
    watch::read_object,
};

/// Prints a rule for each difference that the object has now: pinned to the object, the path and the value.
pub(super) fn run(
    arguments: &AcceptArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    let Some(settings) =
        load_settings(arguments.config.config_file.as_deref(), &Overrides::default(), stderr)?
    else {
        return Ok(Outcome::Negative);
    };
    let found = block_on(async {
        let cluster = Cluster::connect(&arguments.cluster, arguments.namespace.as_deref()).await?;
        cluster.get(&arguments.object).await
    })?;
    let mut complain = |message: &str| {
        writeln!(stderr, "drift-exporter: {message}").map_err(|error| format!("cannot write: {error}"))
    };
    let (kind, json) = match found {
        Found::Object(kind, object) => (kind, object.to_string()),
        Found::Nothing(message) => {
            complain(&message)?;
            return Ok(Outcome::Negative);
        }
    };
    let object = read_object(&kind, &settings.annotation_prefix, json.as_bytes());
    let object = object.ok_or_else(|| format!("{} cannot be read", arguments.object))?;
    let findings = match judge(&object) {
        Judgement::Drifted(findings) => findings,
        Judgement::Missing(finding) | Judgement::Replaced(finding) => vec![finding],
        Judgement::InSync | Judgement::InFlight => {
            complain(&format!("{} is as declared: there is nothing to accept", object.key))?;
            return Ok(Outcome::Negative);
        }
        Judgement::NoBaseline => {
            complain(&format!("nothing is declared for {}: there is nothing to accept", object.key))?;
            return Ok(Outcome::Negative);
        }
        Judgement::Unknown(reason) => {
            complain(&format!("{} cannot be compared ({reason})", object.key))?;
            return Ok(Outcome::Negative);
        }
    };
    let expires = end(Clock::system().now(), arguments.period);
    let why = Why { owner: &arguments.owner, reason: &arguments.reason, expires: &expires };
    let rules: Vec<RuleSpec> = findings.iter().map(|finding| rule(&object.key, finding, &why)).collect();
    let input = RuleInput { rules, ..RuleInput::default() };
    if let Err(problems) = RuleSet::compile(&input) {
        return Err(format!(
            "a rule was made that is wrong, which is a bug in drift-exporter: {}",
            problems[0]
        ));
    }
    let text =
        serde_saphyr::to_string(&input.rules).map_err(|error| format!("cannot write the rule: {error}"))?;
    write!(stdout, "{text}").map_err(|error| format!("cannot write: {error}"))?;
    Ok(Outcome::Fine)
}

/// What people say about what they accept.
struct Why<'a> {
    owner: &'a str,
    reason: &'a str,
    expires: &'a str,
}

fn rule(key: &ObjectKey, finding: &Finding, why: &Why<'_>) -> RuleSpec {
    let Kind { kind, group, .. } = &*key.kind;
    let qualified = if group.is_empty() { kind.to_string() } else { format!("{kind}.{group}") };
    let digest = ValueDigest::of(&finding.actual);
    RuleSpec {
        name: name(key, finding),
        matches: MatchSpec {
            kinds: vec![qualified],
            namespaces: vec![key.namespace.to_string()],
            names: vec![key.name.to_string()],
            paths: vec![finding.path.to_string()],
            values: vec![ValueSpec(digest.to_string())],
            ..MatchSpec::default()
        },
        effect: EffectsSpec(vec![EffectSpec::Word("ignore".to_owned())]),
        owner: Some(why.owner.to_owned()),
        reason: Some(why.reason.to_owned()),
        expires: Some(why.expires.to_owned()),
    }
}

/// A name that a rule can have, and no other: `accepted-deployment-shop-web-1f3a…`.
///
/// Object, path and value are part of it, so that what is accepted later stands beside this and not in its place. Names of objects
/// may be longer than those of rules, and have other signs in them.
fn name(key: &ObjectKey, finding: &Finding) -> String {
    let identity = [&*key.kind.group, &key.namespace, &key.name, &finding.path, &finding.actual].join("\0");
    let digest: String =
        ValueDigest::of(&identity).to_string().chars().skip("sha256:".len()).take(12).collect();
    let parts = ["accepted", &key.kind.kind.to_lowercase(), &key.namespace, &key.name];
    let words = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let slug: String = words.chars().map(|c| if allowed(c) { c } else { '-' }).take(LONGEST_SLUG).collect();
    format!("{slug}-{digest}")
}

/// What is left of a rule's 100 characters beside the digest, and a little air.
const LONGEST_SLUG: usize = 80;

/// The time until which it is accepted, to the second.
fn end(now: Timestamp, period: SignedDuration) -> String {
    let end = Zoned::new(now + period, TimeZone::UTC);
    end.round(Unit::Second).unwrap_or(end).timestamp().to_string()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use super::{Finding, Kind, ObjectKey, RuleInput, RuleSet, Why, rule};
    use crate::model::FieldClass;

    #[test]
    fn rules_for_any_object_can_be_used_and_none_takes_the_place_of_another() {
        let long = "x".repeat(253);
        let objects =
            ["web", "system:node-proxier", "system.node-proxier", "Größe", &long, &format!("{long}y")];
        let changes = [("spec.replicas", "7"), ("spec.replicas", "8"), ("spec.minReplicas", "7")];
        let why = Why { owner: "me", reason: "load test", expires: "2027-01-01" };
        let mut rules = Vec::new();
        for name in objects {
            let kind = Arc::new(Kind::deployment());
            let key = ObjectKey { kind, namespace: "shop".into(), name: name.into() };
            for (path, actual) in changes {
                let finding = Finding {
                    path: path.into(),
                    class: FieldClass::Replicas,
                    expected: "3".into(),
                    actual: actual.into(),
                    writer: None,
                };
                rules.push(rule(&key, &finding, &why));
            }
        }
        let names: BTreeSet<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names.len(), objects.len() * changes.len(), "{names:#?}");
        assert!(rules[0].name.starts_with("accepted-deployment-shop-web-"), "{}", rules[0].name);
        let compiled = RuleSet::compile(&RuleInput { rules, ..RuleInput::default() });
        assert!(compiled.is_ok(), "{:#?}", compiled.err());
    }
}
