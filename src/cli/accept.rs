//! `drift-exporter accept`.

use jiff::Unit;

use super::{
    Outcome,
    args::AcceptArgs,
    error::{CliError, NothingToAccept},
    explain::{display_name, look_up},
    output::{Console, block_on, escape_control},
    resources::{ClaimView, ObjectName},
};
use crate::{
    rules::{AcceptedField, Justification, RuleConfig, RuleSet, acceptance_rules, rules_to_yaml},
    server::ObjectView,
    types::{Clock, FieldValue, VerdictKind},
};

/// Prints a rule for each listed difference of the object. A rule matches one object, one path and one value.
pub(super) fn run(arguments: &AcceptArgs, console: &mut Console) -> Result<Outcome, CliError> {
    let (_, explained) = block_on(look_up(&arguments.object, &arguments.exporter, console))?;
    if explained.claims.iter().all(|claim| claim.differences.is_empty()) {
        return Err(why_nothing_differs(&explained).into());
    }
    let expires = Clock::system().now() + arguments.period;
    let expires = expires.round(Unit::Second).unwrap_or(expires).to_string();
    let (accepted, omitted): (Vec<_>, Vec<_>) = accepted_fields(&explained.claims)
        .partition(|field| !matches!(field.value, FieldValue::Omitted { .. }));
    let justification =
        Justification { owner: &arguments.owner, reason: &arguments.reason, expires: &expires };
    let rules = acceptance_rules(accepted.into_iter(), &justification);
    let input = RuleConfig { rules, ..RuleConfig::default() };
    if let Err(mut problems) = RuleSet::compile(&input) {
        return Err(CliError::GeneratedRule(Box::new(problems.swap_remove(0))));
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
    for field in omitted {
        console
            .report(format_args!("not accepted: {}: the exporter does not list them", field.value.text()))?;
    }
    Ok(Outcome::Success)
}

fn accepted_fields(claims: &[ClaimView]) -> impl Iterator<Item = AcceptedField<'_>> {
    claims.iter().flat_map(|claim| {
        let ObjectName { group, kind, namespace, name } = claim.object_name();
        claim.differences.iter().map(move |difference| {
            let value = difference.actual_value();
            AcceptedField { group, kind, namespace, name, path: &difference.path, value }
        })
    })
}

fn why_nothing_differs(explained: &ObjectView<'static>) -> NothingToAccept {
    let object = display_name(explained);
    let declared = || explained.claims.iter().filter(|claim| claim.is_declared());
    if let Some(unknown) = declared().find(|claim| claim.verdict.known() == Some(VerdictKind::Unknown)) {
        let reason = unknown.unknown_reason().unwrap_or_default();
        return NothingToAccept::NotCompared { object, baseline: unknown.source.to_string(), reason };
    }
    if declared().next().is_none() && explained.claims.iter().any(ClaimView::is_untrusted) {
        return NothingToAccept::Untrusted { object };
    }
    if declared().next().is_none() {
        return NothingToAccept::NotDeclared { object };
    }
    NothingToAccept::InSync { object }
}
