//! `drift-exporter accept`.

use jiff::Unit;

use super::{
    Outcome,
    args::AcceptArgs,
    explain::{ExplainedClaim, ExplainedObject, Lookup, look_up},
    output::{Console, block_on, escape_control},
};
use crate::{
    rules::{AcceptedField, Justification, RuleConfig, RuleSet, acceptance_rules, rules_to_yaml},
    types::{Clock, FieldValue},
};

/// Prints a rule for each difference of the object. A rule matches one object, one path and one value.
pub(super) fn run(arguments: &AcceptArgs, console: &mut Console) -> Result<Outcome, String> {
    let explained = match block_on(look_up(&arguments.object, &arguments.exporter, console))? {
        Lookup::Found(_, explained) => explained,
        Lookup::NotFound(outcome) => return Ok(outcome),
    };
    if explained.claims.iter().all(|claim| claim.view.differences.is_empty()) {
        let reason = escape_control(&why_nothing_differs(&explained));
        console.report(format_args!("nothing to accept: {reason}"))?;
        return Ok(Outcome::Negative);
    }
    let expires = Clock::system().now() + arguments.period;
    let expires = expires.round(Unit::Second).unwrap_or(expires).to_string();
    let justification =
        Justification { owner: &arguments.owner, reason: &arguments.reason, expires: &expires };
    let rules = acceptance_rules(accepted_fields(&explained.claims), &justification);
    let input = RuleConfig { rules, ..RuleConfig::default() };
    if let Err(problems) = RuleSet::compile(&input) {
        return Err(format!(
            "the generated rule is invalid: {}; please report this bug in drift-exporter",
            problems[0]
        ));
    }
    console.print(rules_to_yaml(&input.rules))?;
    let any_value = input.rules.iter().filter(|rule| rule.matches.values.is_empty());
    let any_value: Vec<&str> = any_value.flat_map(|rule| &rule.matches.paths).map(String::as_str).collect();
    if !any_value.is_empty() {
        let paths = escape_control(&any_value.join(", "));
        console.report(format_args!(
            "any value of {paths} is accepted: the exporter does not expose the live value"
        ))?;
    }
    Ok(Outcome::Success)
}

fn accepted_fields(claims: &[ExplainedClaim]) -> impl Iterator<Item = AcceptedField<'_>> {
    claims.iter().flat_map(|claim| {
        let (group, kind, namespace, name) = claim.view.object_key();
        claim.view.differences.iter().map(move |difference| {
            let (path, value) = (&*difference.path, FieldValue::from_text(&difference.actual));
            AcceptedField { group, kind, namespace, name, path, value }
        })
    })
}

fn why_nothing_differs(explained: &ExplainedObject) -> String {
    let object = explained.display_name();
    let declared = || explained.claims.iter().map(|claim| &claim.view).filter(|claim| claim.is_declared());
    if let Some(unknown) = declared().find(|claim| claim.verdict == "unknown") {
        let reason = unknown.unknown_reason().unwrap_or_default();
        return format!("{object} cannot be compared with {}, {reason}", unknown.source);
    }
    if declared().next().is_none() {
        return format!("no source declares {object}");
    }
    format!("{object} matches its declared state, or rules already accept the difference")
}
