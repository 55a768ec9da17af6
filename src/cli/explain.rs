//! `drift-exporter explain`.

use std::{fmt::Write as _, io::Write};

use jiff::Timestamp;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::{
    Outcome,
    args::{ExplainArgs, Told},
    server::{Answer, Server},
};

/// Prints what each source says about an object, as a running exporter knows it.
pub(super) fn run(
    arguments: &ExplainArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let (object, namespace) = (&arguments.object, &arguments.namespace);
    let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    let path =
        format!("/v1/resources/{}/{}/{}", encode(&object.kind), encode(namespace), encode(&object.name));
    let answer = runtime.block_on(Server::new(&arguments.server)?.get(&path))?;
    let cannot_write = |error| format!("cannot write: {error}");
    let body = match answer {
        Answer::Found(body) => body,
        Answer::Nothing(detail) => {
            writeln!(stderr, "drift-exporter: {detail}").map_err(cannot_write)?;
            return Ok(Outcome::Negative);
        }
    };
    let explained: Explained = serde_json::from_slice(&body)
        .map_err(|error| format!("{} says something else: {error}", arguments.server))?;
    match arguments.output {
        Told::Text => stdout.write_all(tell(&explained).as_bytes()),
        Told::Json => stdout.write_all(&body).and_then(|()| stdout.write_all(b"\n")),
    }
    .map_err(cannot_write)?;
    let drifted = explained.claims.iter().any(|claim| claim.drift_detected);
    Ok(if drifted { Outcome::Negative } else { Outcome::Fine })
}

/// What the API says about one object, as far as it is told here.
#[derive(Deserialize)]
struct Explained {
    kind: String,
    namespace: String,
    name: String,
    exists: bool,
    claims: Vec<Claim>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claim {
    source: String,
    verdict: String,
    reason: Option<String>,
    drift_detected: bool,
    onset: Option<Timestamp>,
    severity: Option<String>,
    expectation: Option<String>,
    declared_by: Vec<DeclaredBy>,
    differences: Vec<Difference>,
    ignored: Vec<Difference>,
    blind_fields: Vec<String>,
}

#[derive(Deserialize)]
struct DeclaredBy {
    address: String,
    state: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Difference {
    path: String,
    expected: String,
    actual: String,
    actor: String,
    manager: Option<String>,
    onset: Timestamp,
    rules: Vec<String>,
    ignored_by: Option<String>,
}

/// A headline, then a paragraph for each source.
fn tell(explained: &Explained) -> String {
    let Explained { kind, namespace, name, exists, claims } = explained;
    let place = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
    let gone = if *exists { "" } else { ", which does not exist" };
    let mut text = format!("{kind} {place}{gone}\n");
    for claim in claims {
        text.push('\n');
        tell_claim(&mut text, claim);
    }
    text
}

fn tell_claim(text: &mut String, claim: &Claim) {
    let reason = claim.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let _ = write!(text, "{}: {}{reason}", claim.source, claim.verdict.replace('_', " "));
    if let Some(onset) = claim.onset {
        let _ = write!(text, " since {}", second(onset));
    }
    for word in claim.severity.iter().chain(&claim.expectation) {
        let _ = write!(text, ", {word}");
    }
    text.push('\n');
    for DeclaredBy { address, state } in &claim.declared_by {
        let _ = writeln!(text, "  declared by {}", [state.as_str(), address].join(" ").trim_end());
    }
    for difference in claim.differences.iter().chain(&claim.ignored) {
        let Difference { path, expected, actual, actor, manager, onset, rules, ignored_by } = difference;
        let shown = |value: &str| if value.is_empty() { "nothing".to_owned() } else { value.to_owned() };
        let _ = writeln!(text, "  {path}: {} is declared, {} is there", shown(expected), shown(actual));
        let manager = manager.as_ref().map(|manager| format!(" ({manager})")).unwrap_or_default();
        let _ = writeln!(text, "    by {actor}{manager}, {}", second(*onset));
        if let Some(rule) = ignored_by {
            let _ = writeln!(text, "    does not count by rule {rule}");
        } else if !rules.is_empty() {
            let _ = writeln!(text, "    rules: {}", rules.join(", "));
        }
    }
    if !claim.blind_fields.is_empty() {
        let _ =
            writeln!(text, "  never read by the tool that declares it: {}", claim.blind_fields.join(", "));
    }
}

fn second(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}
