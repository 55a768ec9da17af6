//! `drift-exporter explain`.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{
    Outcome,
    args::{ExplainArgs, ExplainFormat, ExporterArgs, ObjectArgs, ResourceArg, ScopeArgs},
    client::{ApiResponse, NamespaceScope, Query, QueryTarget},
    get::outcome,
    output::{Console, block_on, escape_control, escape_control_in_json},
    resources::{
        ClaimView, DeclarationView, DifferenceView, ExporterStatus, clear_unknown_onsets, percent_encode,
    },
};
use crate::types::WatchMode;

pub(super) fn run(arguments: &ExplainArgs, console: &mut Console) -> Result<Outcome, String> {
    let ExplainArgs { object, exporter, output } = arguments;
    let (json, explained) = match block_on(look_up(object, exporter, console))? {
        Lookup::Found(json, explained) => (json, explained),
        Lookup::NotFound(outcome) => return Ok(outcome),
    };
    match output {
        ExplainFormat::Text => console.print(escape_control(&format_text(&explained)))?,
        ExplainFormat::Json => console.print(escape_control_in_json(&json.to_string()) + "\n")?,
    }
    let is_drifted = explained.claims.iter().any(|claim| claim.view.is_drifted());
    Ok(if is_drifted { Outcome::Negative } else { Outcome::Success })
}

pub(super) enum Lookup {
    /// The object of the API, and the JSON that it was read from.
    Found(Value, ExplainedObject),
    /// A message has been printed to `stderr`.
    NotFound(Outcome),
}

pub(super) async fn look_up(
    object: &ObjectArgs,
    exporter: &ExporterArgs,
    console: &mut Console,
) -> Result<Lookup, String> {
    let resource = object.resource()?;
    let scope = ScopeArgs { namespace: object.namespace.clone(), all_namespaces: false };
    let scope = NamespaceScope::from_args(&scope, exporter).await;
    let query = Query::open(exporter, scope, vec![resource], None, WatchMode::Once, console).await?;
    let Some(query) = query else { return Ok(Lookup::NotFound(Outcome::Error)) };
    let body = match get_object(&query).await? {
        ApiResponse::Found(body) => body,
        ApiResponse::NotFound(detail) => {
            let status = ExporterStatus::fetch(&query, Vec::new()).await?;
            let outcome = outcome(&query, &[], &status)?;
            let gaps = status.gap_summary().filter(|_| query.exporter.is_in_process());
            let gaps = gaps.map(|gaps| format!("; {gaps}")).unwrap_or_default();
            console.report(format_args!("{}{gaps}", escape_control(&detail)))?;
            return Ok(Lookup::NotFound(outcome));
        }
    };
    let unexpected = |error: serde_json::Error| format!("unexpected response of the exporter: {error}");
    let mut json: Value = serde_json::from_slice(&body).map_err(unexpected)?;
    clear_unknown_onsets(&mut json, query.list_started);
    let explained = ExplainedObject::deserialize(&json).map_err(unexpected)?;
    Ok(Lookup::Found(json, explained))
}

/// A remote exporter does not report whether a kind is namespaced, so a cluster-scoped object is tried second.
async fn get_object(query: &Query) -> Result<ApiResponse, String> {
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

/// `/v1/resources/{kind}/{namespace}/{name}`.
#[derive(Deserialize)]
pub(super) struct ExplainedObject {
    kind: String,
    namespace: String,
    name: String,
    exists: bool,
    pub(super) claims: Vec<ExplainedClaim>,
}

impl ExplainedObject {
    /// `Deployment shop/web`.
    pub(super) fn display_name(&self) -> String {
        let Self { kind, namespace, name, .. } = self;
        if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
    }
}

/// A claim with the fields that only the endpoint of one object has.
#[derive(Deserialize)]
pub(super) struct ExplainedClaim {
    #[serde(flatten)]
    pub(super) view: ClaimView,
    /// From the object's status.
    phase: String,
    message: String,
}

/// A headline, then a paragraph for each claim.
fn format_text(explained: &ExplainedObject) -> String {
    let missing = if explained.exists { "" } else { ", which does not exist" };
    let mut text = format!("{}{missing}\n", explained.display_name());
    for claim in &explained.claims {
        text.push('\n');
        format_claim(&mut text, claim);
    }
    text
}

fn format_claim(text: &mut String, ExplainedClaim { view: claim, phase, message }: &ExplainedClaim) {
    if claim.source == "none" {
        text.push_str("nothing declares it\n");
        return;
    }
    let _ = write!(text, "{}: {}", claim.source, claim.verdict.replace('_', " "));
    if let Some(reason) = claim.unknown_reason() {
        let _ = write!(text, ", {reason}");
    }
    if let Some(onset) = claim.onset {
        let _ = write!(text, " since {}", format_time(onset));
    }
    for rating in claim.severity.iter().chain(&claim.expectation) {
        let _ = write!(text, ", {rating}");
    }
    text.push('\n');
    // The controller's status is the baseline of this source.
    if claim.source == "status_hash" && !phase.is_empty() {
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        let _ = writeln!(text, "  phase {phase}{message}");
    }
    for DeclarationView { address, state } in &claim.declared_by {
        let _ = writeln!(text, "  declared by {}", [state.as_str(), address].join(" ").trim_end());
    }
    for difference in claim.differences.iter().chain(&claim.ignored) {
        format_difference(text, difference);
    }
    if !claim.blind_fields.is_empty() {
        let _ =
            writeln!(text, "  never read by the tool that declares it: {}", claim.blind_fields.join(", "));
    }
}

fn format_difference(text: &mut String, difference: &DifferenceView) {
    let DifferenceView { path, expected, actual, actor, manager, onset, rules, ignored_by } = difference;
    let quoted = |value: &str| match value {
        "" => "nothing".to_owned(),
        // A value cannot forge lines of this output, and blanks at its ends are visible.
        value if value.trim() != value || value.contains(char::is_control) => format!("{value:?}"),
        value => value.to_owned(),
    };
    let _ = writeln!(text, "  {path}: {} is declared, {} is there", quoted(expected), quoted(actual));
    let manager = manager.as_ref().map(|manager| format!(" ({manager})")).unwrap_or_default();
    let since = onset.map(|onset| format!(", {}", format_time(onset))).unwrap_or_default();
    let _ = writeln!(text, "    by {actor}{manager}{since}");
    if let Some(rule) = ignored_by {
        let _ = writeln!(text, "    does not count by rule {rule}");
    } else if !rules.is_empty() {
        let _ = writeln!(text, "    rules: {}", rules.join(", "));
    }
}

fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
