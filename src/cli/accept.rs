//! `drift-exporter accept`.

use std::io::Write;

use jiff::{SignedDuration, Timestamp, Unit, Zoned, tz::TimeZone};

use super::{
    Outcome,
    args::AcceptArgs,
    live::{Cluster, Found},
    settings_file::load_settings,
};
use crate::{
    compare::judge,
    model::{Clock, Finding, Judgement, Kind, LiveObject, ValueDigest},
    rules::{EffectSpec, EffectsSpec, MatchSpec, RuleSpec, ValueSpec},
    watch::read_object,
};

/// Prints a rule for each difference that the object has now: pinned to the object, the path and the value.
pub(super) fn run(
    arguments: &AcceptArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    let Some(settings) = load_settings(arguments.config_file.as_deref(), stderr)? else {
        return Ok(Outcome::Negative);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let found = runtime.block_on(async {
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
        Judgement::InSync => {
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
    let rules: Vec<RuleSpec> =
        findings.iter().map(|finding| rule(arguments, &kind, &object, finding, &expires)).collect();
    let text = serde_saphyr::to_string(&rules).map_err(|error| format!("cannot write the rule: {error}"))?;
    write!(stdout, "{text}").map_err(|error| format!("cannot write: {error}"))?;
    Ok(Outcome::Fine)
}

fn rule(
    arguments: &AcceptArgs,
    kind: &Kind,
    object: &LiveObject,
    finding: &Finding,
    expires: &str,
) -> RuleSpec {
    let key = &object.key;
    let digest = ValueDigest::of(&finding.actual);
    let qualified =
        if kind.group.is_empty() { kind.kind.to_string() } else { format!("{}.{}", kind.kind, kind.group) };
    // The value is part of the name, so that what is accepted later stands beside this and not in its place.
    let short: String = digest.to_string().chars().skip("sha256:".len()).take(8).collect();
    let parts = ["accepted", &kind.kind.to_lowercase(), &key.namespace, &key.name, &short];
    let name = parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    RuleSpec {
        name,
        matches: MatchSpec {
            kinds: vec![qualified],
            namespaces: vec![key.namespace.to_string()],
            names: vec![key.name.to_string()],
            paths: vec![finding.path.to_string()],
            values: vec![ValueSpec(digest.to_string())],
            ..MatchSpec::default()
        },
        effect: EffectsSpec(vec![EffectSpec::Word("ignore".to_owned())]),
        owner: Some(arguments.owner.clone()),
        reason: Some(arguments.reason.clone()),
        expires: Some(expires.to_owned()),
    }
}

/// The time until which it is accepted, to the second.
fn end(now: Timestamp, period: SignedDuration) -> String {
    let end = Zoned::new(now + period, TimeZone::UTC);
    end.round(Unit::Second).unwrap_or(end).timestamp().to_string()
}
