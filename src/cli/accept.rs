//! `drift-exporter accept`.

use std::io::Write;

use jiff::{SignedDuration, Timestamp, Unit, Zoned, tz::TimeZone};

use super::{
    Outcome,
    args::AcceptArgs,
    explain::{About, Claim, Explained, ask_about},
    resources::harmless,
    runtime::block_on,
};
use crate::{
    rules::{AcceptedField, Justification, RuleConfig, RuleSet, RuleSpec, acceptance_rules, rules_to_yaml},
    types::Clock,
};

/// Prints a rule for each difference that the object has now: pinned to the object, the path and the value.
pub(super) fn run(
    arguments: &AcceptArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    let AcceptArgs { object, namespace, ask, .. } = arguments;
    let json = match block_on(ask_about(object.wish()?, namespace.as_deref(), ask, stderr))? {
        About::Object(json) => json,
        About::Nothing(outcome) => return Ok(outcome),
    };
    let explained = Explained::of(&json)?;
    let cannot_write = |error| format!("cannot write: {error}");
    if explained.claims.iter().all(|claim| claim.resource.differences.is_empty()) {
        let why = harmless(&why_nothing(&explained));
        writeln!(stderr, "drift-exporter: {why}: there is nothing to accept").map_err(cannot_write)?;
        return Ok(Outcome::Negative);
    }
    let expires = end(Clock::system().now(), arguments.period);
    let why = Justification { owner: &arguments.owner, reason: &arguments.reason, expires: &expires };
    let input =
        RuleConfig { rules: acceptance_rules(fields(&explained.claims), &why), ..RuleConfig::default() };
    if let Err(problems) = RuleSet::compile(&input) {
        return Err(format!(
            "a rule was made that is wrong, which is a bug in drift-exporter: {}",
            problems[0]
        ));
    }
    write!(stdout, "{}", rules_to_yaml(&input.rules)).map_err(cannot_write)?;
    let open: Vec<&str> =
        input.rules.iter().filter(|rule| rule.matches.values.is_empty()).map(path_of).collect();
    if !open.is_empty() {
        let paths = harmless(&open.join(", "));
        writeln!(stderr, "drift-exporter: any value of {paths} is accepted: what is there now is not shown, so no rule can be pinned to it")
            .map_err(cannot_write)?;
    }
    Ok(Outcome::Fine)
}

/// The one path that an accepting rule is about.
fn path_of(rule: &RuleSpec) -> &str {
    rule.matches.paths.first().map_or("", |path| path)
}

/// Every field that differs.
fn fields(claims: &[Claim]) -> impl Iterator<Item = AcceptedField<'_>> {
    claims.iter().flat_map(|claim| {
        let (group, kind, namespace, name) = claim.resource.object();
        let differences = claim.resource.differences.iter();
        differences.map(move |own| {
            let (path, value) = (&*own.path, Some(&*own.actual));
            AcceptedField { group, kind, namespace, name, path, value }
        })
    })
}

/// Why an object has no difference that counts.
fn why_nothing(explained: &Explained) -> String {
    let called = explained.called();
    let declared = || explained.claims.iter().map(|claim| &claim.resource).filter(|own| own.is_declared());
    if let Some(unknown) = declared().find(|own| own.verdict == "unknown") {
        let why = unknown.why().unwrap_or_default();
        return format!("{called} cannot be compared with {}, {why}", unknown.source);
    }
    if declared().next().is_none() {
        return format!("nothing is declared for {called}");
    }
    format!("{called} is as declared, or rules accept it already")
}

/// The time until which it is accepted, to the second.
fn end(now: Timestamp, period: SignedDuration) -> String {
    let end = Zoned::new(now + period, TimeZone::UTC);
    end.round(Unit::Second).unwrap_or(end).timestamp().to_string()
}
