//! `drift-exporter explain`.

use std::{borrow::Cow, fmt::Write as _};

use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;

use super::{
    Outcome,
    args::{ExplainArgs, ExplainFormat, ExporterArgs, ObjectArgs, ResourceArg, ScopeArgs},
    client::{ApiResponse, NamespaceScope, Query, QueryTarget, RequestError},
    error::CliError,
    get::outcome,
    output::{Console, block_on, escape_control, escape_control_in_json},
    resources::{ClaimView, ExporterStatus, clear_unknown_onsets, percent_encode},
};
use crate::{
    server::{DeclaredByView, DifferenceView, ObjectView, Word},
    types::{FieldValue, Source, WatchMode},
};

pub(super) fn run(arguments: &ExplainArgs, console: &mut Console) -> Result<Outcome, CliError> {
    let ExplainArgs { object, exporter, output } = arguments;
    let (json, explained) = block_on(look_up(object, exporter, console))?;
    match output {
        ExplainFormat::Text => console.print(escape_control(&format_text(&explained)))?,
        ExplainFormat::Json => console.print(escape_control_in_json(&json.to_string()) + "\n")?,
    }
    let is_drifted = explained.claims.iter().any(ClaimView::is_drifted);
    Ok(if is_drifted { Outcome::Negative } else { Outcome::Success })
}

/// The object of the API, and the JSON that it was read from.
pub(super) async fn look_up(
    object: &ObjectArgs,
    exporter: &ExporterArgs,
    console: &mut Console,
) -> Result<(Value, ObjectView<'static>), CliError> {
    let resource = object.resource()?;
    let scope = ScopeArgs { namespace: object.namespace.clone(), all_namespaces: false };
    let scope = NamespaceScope::from_args(&scope, exporter).await;
    let query = Query::open(exporter, scope, vec![resource], None, WatchMode::Once, console).await?;
    let body = match get_object(&query).await? {
        ApiResponse::Found(body) => body,
        ApiResponse::NotFound(detail) => {
            let status = ExporterStatus::fetch(&query, Vec::new()).await?;
            // Unless nothing can be found because a kind is unknown or cannot be listed.
            outcome(&query, &[], &status)?;
            let gaps = status.gap_summary().filter(|_| query.exporter.is_in_process());
            return Err(CliError::ObjectNotFound { detail, gaps });
        }
    };
    let unexpected = |error| query.exporter.unexpected_response(error);
    let mut json: Value = serde_json::from_slice(&body).map_err(unexpected)?;
    clear_unknown_onsets(&mut json, query.list_started);
    let explained = ObjectView::deserialize(&json).map_err(unexpected)?;
    Ok((json, explained))
}

/// A remote exporter does not report whether a kind is namespaced, so a cluster-scoped object is tried second.
async fn get_object(query: &Query) -> Result<ApiResponse, RequestError> {
    let QueryTarget { resource: ResourceArg { kind, name }, scope, .. } = &query.targets[0];
    let path = |namespace: &str| {
        let name = name.as_deref().unwrap_or_default();
        let [kind, namespace, name] = [kind.as_str(), namespace, name].map(percent_encode);
        format!("/v1/resources/{kind}/{namespace}/{name}")
    };
    let response = query.exporter.get(&path(scope.namespace().unwrap_or("-"))).await?;
    match (&response, scope) {
        (ApiResponse::NotFound(_), NamespaceScope::Namespace(_)) if !query.exporter.is_in_process() => {
            let cluster_scoped = query.exporter.get(&path("-")).await?;
            Ok(if matches!(cluster_scoped, ApiResponse::Found(_)) { cluster_scoped } else { response })
        }
        _ => Ok(response),
    }
}

/// `Deployment shop/web`.
pub(super) fn display_name(ObjectView { kind, namespace, name, .. }: &ObjectView<'_>) -> String {
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// A headline, then a paragraph for each claim.
fn format_text(explained: &ObjectView<'static>) -> String {
    let missing = if explained.exists { "" } else { ", which does not exist" };
    let mut text = format!("{}{missing}\n", display_name(explained));
    for claim in &explained.claims {
        text.push('\n');
        format_claim(&mut text, claim);
    }
    text
}

fn format_claim(text: &mut String, claim: &ClaimView) {
    if claim.source.known() == Some(Source::Unclaimed) {
        text.push_str("nothing declares it\n");
        return;
    }
    let _ = write!(text, "{}: {}", claim.source, claim.verdict.as_str().replace('_', " "));
    if let Some(reason) = claim.unknown_reason() {
        let _ = write!(text, ", {reason}");
    }
    if let Some(onset) = claim.onset {
        let _ = write!(text, " since {}", format_time(onset));
    }
    let ratings = [claim.severity.as_ref().map(Word::as_str), claim.expectation.as_ref().map(Word::as_str)];
    for rating in ratings.into_iter().flatten() {
        let _ = write!(text, ", {rating}");
    }
    text.push('\n');
    // The controller's status is the baseline of this source.
    let ClaimView { phase, message, .. } = claim;
    if claim.source.known() == Some(Source::StatusHash) && !phase.is_empty() {
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        let _ = writeln!(text, "  phase {phase}{message}");
    }
    for DeclaredByView { address, state } in &claim.declared_by {
        let _ = writeln!(text, "  declared by {}", format!("{state} {address}").trim_end());
    }
    if claim.is_untrusted() {
        text.push_str(
            "  has no authority over this object: trust it with --trusted-namespaces or the settings\n",
        );
    }
    for difference in claim.differences.iter().chain(&claim.ignored).chain(&claim.untrusted) {
        format_difference(text, difference);
    }
    let blind_fields = claim.blind_fields.join();
    if !blind_fields.is_empty() {
        let _ = writeln!(text, "  never read by the tool that declares it: {blind_fields}");
    }
}

fn format_difference(text: &mut String, difference: &DifferenceView<'_>) {
    let DifferenceView { path, actor, manager, onset, rules, ignored_by, .. } = difference;
    let (expected, actual) = (difference.expected_value(), difference.actual_value());
    let _ = writeln!(text, "  {path}: declared {}, live {}", format_value(&expected), format_value(&actual));
    let manager = manager.as_ref().map(|manager| format!(" ({manager})")).unwrap_or_default();
    let since = onset.map(|onset| format!(", {}", format_time(onset))).unwrap_or_default();
    let _ = writeln!(text, "    by {actor}{manager}{since}");
    if let Some(rule) = ignored_by {
        let _ = writeln!(text, "    does not count by rule {rule}");
    } else if !rules.join().is_empty() {
        let _ = writeln!(text, "    rules: {}", rules.join());
    }
}

fn format_value(value: &FieldValue) -> Cow<'_, str> {
    if *value == FieldValue::Absent { "absent".into() } else { value.notation() }
}

fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
