//! `drift-exporter baseline`.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal as _, Write as _},
    path::Path,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Unit;
use serde::Serialize;

use super::{
    Outcome,
    args::{BaselineArgs, ManifestFormat},
    error::CliError,
    output::{Console, read_error},
};
use crate::{
    config::BaselineLimits,
    sources::terraform::{
        InflateReader, PublishedBaseline, ReadError, StateReader, TerraformState, random_key,
    },
    types::{BaselineFault, Clock, RedactionKey},
};

/// Why a state cannot be published.
#[derive(Debug, thiserror::Error)]
pub(super) enum StateError {
    #[error(
        "cannot read a state: standard input is a terminal; pipe `terraform state pull` into it or use -f FILE"
    )]
    Terminal,
    #[error("cannot use {input}: {}", describe_fault(*fault))]
    Unusable { input: String, fault: BaselineFault },
    #[error("{input} contains no Kubernetes resource that can be compared: {summary}")]
    NoResources { input: String, summary: String },
    #[error("cannot encode the resources of {input}; they may be nested too deeply")]
    NotEncodable { input: String },
}

pub(super) fn run(arguments: &BaselineArgs, console: &mut Console) -> Result<Outcome, CliError> {
    let (input, bytes) = open_input(arguments.file.as_deref())?;
    let key = random_key().map(RedactionKey::new).map_err(CliError::RedactionKey)?;
    let limits = BaselineLimits::of_command();
    let text = InflateReader::of_state(bytes, u64::MAX, &limits);
    let state = match text.and_then(|text| StateReader::new(key.clone()).read(text, &limits)) {
        Ok(state) => state,
        Err(ReadError::Io(source)) => return Err(CliError::Read { name: input, source }),
        Err(error) => return Err(StateError::Unusable { input, fault: error.into() }.into()),
    };
    let summary = summary(&state);
    if state.objects.is_empty() {
        return Err(StateError::NoResources { input, summary }.into());
    }
    let now = Clock::system().now();
    let published_at = now.round(Unit::Second).unwrap_or(now);
    let published = PublishedBaseline::new(&arguments.name, published_at, key, state);
    let parts = published.write();
    let joined = parts.concat();
    let text = InflateReader::of_text(&*joined, u64::MAX, &limits).and_then(InflateReader::read_to_end);
    let read_back = text.and_then(|text| PublishedBaseline::read(&text, &limits));
    if !read_back.is_ok_and(|read_back| read_back == published) {
        return Err(StateError::NotEncodable { input }.into());
    }
    let secrets = secrets(&published, parts, arguments);
    console.print(encode(&secrets, arguments.output)?)?;
    console.stdout.flush().map_err(CliError::Output)?;
    console.report(summary)?;
    Ok(Outcome::Success)
}

/// The input and its name for messages.
fn open_input(file: Option<&Path>) -> Result<(String, Box<dyn BufRead>), CliError> {
    match file.filter(|path| *path != Path::new("-")) {
        Some(path) => {
            let opened = File::open(path).map_err(|source| read_error(path, source))?;
            Ok((path.display().to_string(), Box::new(BufReader::new(opened))))
        }
        None if io::stdin().is_terminal() => Err(StateError::Terminal.into()),
        None => Ok(("standard input".to_owned(), Box::new(io::stdin().lock()))),
    }
}

fn describe_fault(fault: BaselineFault) -> &'static str {
    match fault {
        BaselineFault::Incomplete | BaselineFault::Truncated => "the state is truncated",
        BaselineFault::TooLarge => "the state is too large",
        BaselineFault::Encrypted => "the state is encrypted; use the output of `tofu state pull`",
        BaselineFault::UnsupportedVersion => {
            "unsupported state version; Terraform 0.12 and later write version 4"
        }
        BaselineFault::Unreadable | BaselineFault::Foreign | BaselineFault::NotDeployed => {
            "not a Terraform state; use the output of `terraform state pull` or `terraform show -json`"
        }
    }
}

/// `12 objects of 5 types, 2 resources left out: kubernetes_thing (unknown_type) 2`.
fn summary(state: &TerraformState) -> String {
    let mut types: Vec<&str> = state.objects.iter().map(|object| &*object.resource_type).collect();
    types.sort_unstable();
    types.dedup();
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let mut skipped_count: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for skipped in &state.skipped {
        *skipped_count.entry((&skipped.resource_type, skipped.reason.as_str())).or_default() += 1;
    }
    let skipped = skipped_count.into_iter().map(|((resource_type, reason), count)| {
        format!("{resource_type} ({reason}) {count}").replace(char::is_control, "?")
    });
    let skipped: Vec<String> = skipped.collect();
    let (objects, types) = (plural(state.objects.len(), "object"), plural(types.len(), "type"));
    let left_out = plural(state.skipped.len(), "resource");
    let colon = if skipped.is_empty() { "" } else { ": " };
    format!("{objects} of {types}, {left_out} left out{colon}{}", skipped.join(", "))
}

/// Fields are serialized in the order of manifests.
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
    let secrets = parts.into_iter().enumerate().map(|(index, part)| {
        // Readers reject parts of different publications.
        let publication = published.key.id().to_string();
        let mut annotations = BTreeMap::from([(format!("{prefix}/publication"), publication)]);
        if index == 0 {
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
                name: if index == 0 { base } else { format!("{base}-part-{index}") },
                namespace: arguments.namespace.clone().filter(|namespace| !namespace.is_empty()),
                labels: labels.clone(),
                annotations,
            },
            r#type: "Opaque",
            data: BTreeMap::from([("baseline", STANDARD.encode(part))]),
        }
    });
    secrets.collect()
}

fn encode(secrets: &[Secret], format: ManifestFormat) -> Result<String, CliError> {
    match (format, secrets) {
        (ManifestFormat::Json, [secret]) => Ok(serde_json::to_string_pretty(secret)? + "\n"),
        (ManifestFormat::Json, secrets) => {
            let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": secrets});
            Ok(serde_json::to_string_pretty(&list)? + "\n")
        }
        (ManifestFormat::Yaml, secrets) => {
            let mut text = String::new();
            for secret in secrets {
                text.push_str("---\n");
                text.push_str(&serde_saphyr::to_string(secret)?);
            }
            Ok(text)
        }
    }
}
