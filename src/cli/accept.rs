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
    model::{Clock, Judgement},
    rules::{Pin, RuleInput, RuleSet, RuleSpec, Why, accepting, rules_as_yaml},
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
    let rules: Vec<RuleSpec> =
        findings.iter().map(|finding| accepting(&object.key, finding, Pin::Value, &why)).collect();
    let input = RuleInput { rules, ..RuleInput::default() };
    if let Err(problems) = RuleSet::compile(&input) {
        return Err(format!(
            "a rule was made that is wrong, which is a bug in drift-exporter: {}",
            problems[0]
        ));
    }
    write!(stdout, "{}", rules_as_yaml(&input.rules)).map_err(|error| format!("cannot write: {error}"))?;
    Ok(Outcome::Fine)
}

/// The time until which it is accepted, to the second.
fn end(now: Timestamp, period: SignedDuration) -> String {
    let end = Zoned::new(now + period, TimeZone::UTC);
    end.round(Unit::Second).unwrap_or(end).timestamp().to_string()
}
