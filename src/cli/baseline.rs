//! `drift-exporter baseline`.

use std::{
    collections::BTreeMap,
    fmt::Display,
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal as _, Write},
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::{Timestamp, Unit};
use serde::Serialize;

use super::{
    Outcome,
    args::{BaselineArgs, Written},
};
use crate::{
    sources::terraform::{
        INFLATE_LIMIT, InflateReader, PublishedBaseline, ReadError, StateReader, TerraformState, random_key,
    },
    types::{BaselineFault, Clock},
};

/// Prints the Secrets of a baseline. What is wrong with the state is said on `stderr`, as is what became of it.
pub(super) fn run(
    arguments: &BaselineArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    let (place, bytes) = open(arguments.file.as_deref())?;
    let mut say = |message: &dyn Display| {
        writeln!(stderr, "drift-exporter: {message}").map_err(|error| format!("cannot write: {error}"))
    };
    let key = random_key().map_err(|error| format!("the system has no random bytes: {error}"))?;
    let text = InflateReader::new(bytes, INFLATE_LIMIT);
    let state = match text.and_then(|text| StateReader::new(key.clone()).read(text)) {
        Ok(state) => state,
        Err(ReadError::Io(error)) => return Err(format!("cannot read {place}: {error}")),
        Err(ReadError::Invalid(fault)) => {
            say(&format_args!("{place} {}", explain(fault)))?;
            return Ok(Outcome::Negative);
        }
    };
    let summary = summary(&state);
    if state.objects.is_empty() {
        say(&format_args!("{place} has no resource of Kubernetes that can be compared: {summary}"))?;
        return Ok(Outcome::Negative);
    }
    let published = whole_seconds(Clock::system().now());
    let published = PublishedBaseline::new(&arguments.name, published, key, state);
    let parts = published.write();
    let joined = parts.concat();
    let read_back = InflateReader::new(&*joined, INFLATE_LIMIT).and_then(InflateReader::read_to_end);
    if !read_back.is_ok_and(|text| PublishedBaseline::read(&text).as_ref() == Ok(&published)) {
        say(&format_args!("{place} has resources that cannot be written down; they may be nested too deep"))?;
        return Ok(Outcome::Negative);
    }
    let secrets = secrets(&published, parts, arguments);
    let text =
        write(&secrets, arguments.output).map_err(|error| format!("cannot write the Secrets: {error}"))?;
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("cannot write: {error}"))?;
    say(&summary)?;
    Ok(Outcome::Fine)
}

/// What to read is called, and what is in it.
fn open(file: Option<&Path>) -> Result<(String, Box<dyn BufRead>), String> {
    match file.filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let name = path.display().to_string();
            let opened = File::open(path).map_err(|error| format!("cannot read {name}: {error}"))?;
            Ok((name, Box::new(BufReader::new(opened))))
        }
        None if io::stdin().is_terminal() => Err(
            "there is nothing on standard input; pipe `terraform state pull` into it, or name a file with -f"
                .to_owned(),
        ),
        None => Ok(("standard input".to_owned(), Box::new(io::stdin().lock()))),
    }
}

fn explain(fault: BaselineFault) -> &'static str {
    match fault {
        BaselineFault::Incomplete | BaselineFault::Truncated => "ends too early",
        BaselineFault::TooLarge => "is larger than anything that is read",
        BaselineFault::Encrypted => "is an encrypted state; `tofu state pull` prints it in the clear",
        BaselineFault::UnsupportedVersion => {
            "is a state of a version that is not known; Terraform from 0.12 on writes version 4"
        }
        BaselineFault::Unreadable | BaselineFault::Foreign | BaselineFault::NotDeployed => {
            "is no state; want what `terraform state pull` or `terraform show -json` prints"
        }
    }
}

/// `12 objects of 5 types, 2 resources left out: kubernetes_thing (unknown_type) 2`.
fn summary(state: &TerraformState) -> String {
    let mut types: Vec<&str> = state.objects.iter().map(|object| &*object.resource_type).collect();
    types.sort_unstable();
    types.dedup();
    let counted = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let mut summary = format!(
        "{} of {}, {} left out",
        counted(state.objects.len(), "object"),
        counted(types.len(), "type"),
        counted(state.skipped.len(), "resource")
    );
    let mut left: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for skipped in &state.skipped {
        *left.entry((&skipped.resource_type, skipped.reason.as_str())).or_default() += 1;
    }
    for (at, ((resource_type, reason), count)) in left.into_iter().enumerate() {
        let start = if at == 0 { ": " } else { ", " };
        summary
            .push_str(&format!("{start}{resource_type} ({reason}) {count}").replace(char::is_control, "?"));
    }
    summary
}

/// One Secret, in the order in which people read it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Secret {
    api_version: &'static str,
    kind: &'static str,
    metadata: Metadata,
    r#type: &'static str,
    data: BTreeMap<&'static str, String>,
}

#[derive(Serialize)]
struct Metadata {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

fn secrets(published: &PublishedBaseline, parts: Vec<Vec<u8>>, arguments: &BaselineArgs) -> Vec<Secret> {
    let (prefix, name, count) = (&arguments.prefix, &arguments.name, parts.len());
    let labels = BTreeMap::from([
        (format!("{prefix}/baseline"), "true".to_owned()),
        (format!("{prefix}/baseline-name"), name.clone()),
        ("app.kubernetes.io/managed-by".to_owned(), "drift-exporter".to_owned()),
    ]);
    let each = parts.into_iter().enumerate().map(|(at, part)| {
        // Parts of different publications do not belong together.
        let publication = published.key.id().to_owned();
        let mut annotations = BTreeMap::from([(format!("{prefix}/publication"), publication)]);
        if at == 0 {
            annotations.extend([
                (format!("{prefix}/chunks"), count.to_string()),
                (format!("{prefix}/serial"), published.state.serial.to_string()),
                (format!("{prefix}/lineage"), published.state.lineage.to_string()),
            ]);
        }
        let base = format!("drift-baseline-{name}");
        Secret {
            api_version: "v1",
            kind: "Secret",
            metadata: Metadata {
                name: if at == 0 { base } else { format!("{base}-part-{at}") },
                namespace: arguments.namespace.clone().filter(|namespace| !namespace.is_empty()),
                labels: labels.clone(),
                annotations,
            },
            r#type: "Opaque",
            data: BTreeMap::from([("baseline", STANDARD.encode(part))]),
        }
    });
    each.collect()
}

fn write(secrets: &[Secret], written: Written) -> Result<String, String> {
    match (written, secrets) {
        (Written::Json, [secret]) => serde_json::to_string_pretty(secret).map(|text| text + "\n"),
        (Written::Json, secrets) => {
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": secrets});
            serde_json::to_string_pretty(&list).map(|text| text + "\n")
        }
        (Written::Yaml, secrets) => {
            let mut text = String::new();
            for secret in secrets {
                text.push_str("---\n");
                text.push_str(&serde_saphyr::to_string(secret).map_err(|error| error.to_string())?);
            }
            return Ok(text);
        }
    }
    .map_err(|error| error.to_string())
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    time.round(Unit::Second).unwrap_or(time)
}
