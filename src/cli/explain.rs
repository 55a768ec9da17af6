//! `drift-exporter explain`.

use std::{fmt::Write as _, io::Write};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{
    Outcome,
    args::{AskArgs, ExplainArgs, PlaceArgs, Told},
    asked::{Asked, Place, Sought},
    exporter::Answer,
    get::judge,
    resources::{
        DeclaredBy, Difference, Resource, encoded, harmless, harmless_json, leave_out_unknown_times,
    },
    runtime::block_on,
    unseen::Status,
    values::Wish,
};
use crate::types::WatchMode;

/// Prints what each source says about an object.
pub(super) fn run(
    arguments: &ExplainArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    block_on(explain(arguments, stdout, stderr))
}

async fn explain(
    arguments: &ExplainArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    let ExplainArgs { object, namespace, ask, output } = arguments;
    let json = match ask_about(object.wish()?, namespace.as_deref(), ask, stderr).await? {
        About::Object(json) => json,
        About::Nothing(outcome) => return Ok(outcome),
    };
    let explained = Explained::of(&json)?;
    match output {
        Told::Text => stdout.write_all(harmless(&tell(&explained)).as_bytes()),
        Told::Json => writeln!(stdout, "{}", harmless_json(&json.to_string())),
    }
    .map_err(|error| format!("cannot write: {error}"))?;
    let drifted = explained.claims.iter().any(|claim| claim.resource.is_drifted());
    Ok(if drifted { Outcome::Negative } else { Outcome::Fine })
}

/// What there is to say about an object.
pub(super) enum About {
    /// What the API says.
    Object(Value),
    /// Nothing, which was told, and how it ends then.
    Nothing(Outcome),
}

/// Asks about one object.
pub(super) async fn ask_about(
    object: Wish,
    namespace: Option<&str>,
    ask: &AskArgs,
    stderr: &mut dyn Write,
) -> Result<About, String> {
    let namespace = PlaceArgs { namespace: namespace.map(str::to_owned), all_namespaces: false };
    let place = Place::of(&namespace, ask).await;
    let asked = Asked::open(ask, place, vec![object], None, WatchMode::Once, stderr).await?;
    let Some(asked) = asked else { return Ok(About::Nothing(Outcome::CouldNotRun)) };
    let body = match find(&asked).await? {
        Answer::Found(body) => body,
        Answer::Nothing(detail) => {
            let status = Status::of(&asked, Vec::new()).await?;
            let outcome = judge(&asked, &[], &status)?;
            let unseen = status.unseen().map(|unseen| format!("; {unseen}"));
            let unseen = unseen.filter(|_| asked.exporter.is_here()).unwrap_or_default();
            writeln!(stderr, "drift-exporter: {}{unseen}", harmless(&detail))
                .map_err(|error| format!("cannot write: {error}"))?;
            return Ok(About::Nothing(outcome));
        }
    };
    let mut json: Value = serde_json::from_slice(&body).map_err(|error| something_else(&error))?;
    leave_out_unknown_times(&mut json, asked.looked_from);
    Ok(About::Object(json))
}

fn something_else(error: &serde_json::Error) -> String {
    format!("the exporter says something else: {error}")
}

/// The object where it was looked for. Of a running exporter nobody knows which kinds have namespaces.
async fn find(asked: &Asked) -> Result<Answer, String> {
    let Sought { wish: Wish { kind, name }, place, .. } = &asked.sought[0];
    let path = |namespace: &str| {
        let name = name.as_deref().unwrap_or_default();
        format!("/v1/resources/{}/{}/{}", encoded(kind), encoded(namespace), encoded(name))
    };
    let there = asked.exporter.get(&path(place.namespace().unwrap_or("-"))).await?;
    match (&there, place) {
        (Answer::Nothing(_), Place::Namespace(_)) if !asked.exporter.is_here() => {
            let unscoped = asked.exporter.get(&path("-")).await?;
            Ok(if matches!(unscoped, Answer::Found(_)) { unscoped } else { there })
        }
        _ => Ok(there),
    }
}

/// What the API says about one object, as far as it is told here.
#[derive(Deserialize)]
pub(super) struct Explained {
    kind: String,
    namespace: String,
    name: String,
    exists: bool,
    pub(super) claims: Vec<Claim>,
}

impl Explained {
    pub(super) fn of(json: &Value) -> Result<Self, String> {
        Self::deserialize(json).map_err(|error| something_else(&error))
    }

    /// `Deployment shop/web`.
    pub(super) fn called(&self) -> String {
        let Self { kind, namespace, name, .. } = self;
        if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
    }
}

/// One claim, with what only those want to know who ask about one object.
#[derive(Deserialize)]
pub(super) struct Claim {
    #[serde(flatten)]
    pub(super) resource: Resource,
    /// What the object's own controller says about it.
    phase: String,
    message: String,
}

/// A headline, then a paragraph for each source.
fn tell(explained: &Explained) -> String {
    let gone = if explained.exists { "" } else { ", which does not exist" };
    let mut text = format!("{}{gone}\n", explained.called());
    for claim in &explained.claims {
        text.push('\n');
        tell_claim(&mut text, claim);
    }
    text
}

fn tell_claim(text: &mut String, Claim { resource: claim, phase, message }: &Claim) {
    if claim.source == "none" {
        text.push_str("nothing declares it\n");
        return;
    }
    let _ = write!(text, "{}: {}", claim.source, claim.verdict.replace('_', " "));
    if let Some(why) = claim.why() {
        let _ = write!(text, ", {why}");
    }
    if let Some(onset) = claim.onset {
        let _ = write!(text, " since {}", second(onset));
    }
    for word in claim.severity.iter().chain(&claim.expectation) {
        let _ = write!(text, ", {word}");
    }
    text.push('\n');
    // Here the controller's own word is what was declared.
    if claim.source == "status_hash" && !phase.is_empty() {
        let said = if message.is_empty() { String::new() } else { format!(": {message}") };
        let _ = writeln!(text, "  phase {phase}{said}");
    }
    for DeclaredBy { address, state } in &claim.declared_by {
        let _ = writeln!(text, "  declared by {}", [state.as_str(), address].join(" ").trim_end());
    }
    for difference in claim.differences.iter().chain(&claim.ignored) {
        let Difference { path, expected, actual, actor, manager, onset, rules, ignored_by } = difference;
        let shown = |value: &str| match value {
            "" => "nothing".to_owned(),
            // Nobody can write lines of ours, and blanks at an end can be seen.
            odd if odd.trim() != odd || odd.contains(char::is_control) => format!("{odd:?}"),
            plain => plain.to_owned(),
        };
        let _ = writeln!(text, "  {path}: {} is declared, {} is there", shown(expected), shown(actual));
        let manager = manager.as_ref().map(|manager| format!(" ({manager})")).unwrap_or_default();
        let since = onset.map(|onset| format!(", {}", second(onset))).unwrap_or_default();
        let _ = writeln!(text, "    by {actor}{manager}{since}");
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
