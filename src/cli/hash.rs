//! `drift-exporter hash`.

use std::{
    fmt::Display,
    io::{self, Read as _},
    path::Path,
};

use serde_json::Value;

use super::{
    Outcome,
    args::HashArgs,
    client::{ClusterClient, LiveLookup},
    error::CliError,
    output::{Console, block_on},
};
use crate::{
    config::BaselineLimits,
    diff::{Algorithm, fingerprint},
    sources::read_objects,
    types::Kind,
};

pub(super) fn run(arguments: &HashArgs, console: &mut Console) -> Result<Outcome, CliError> {
    let (algorithm, prefix) = (arguments.algorithm, &*arguments.prefix);
    let mut hasher = Hasher { console, algorithm, prefix, outcome: Outcome::Success };
    for file in &arguments.files {
        hasher.hash_file(file)?;
    }
    if !arguments.objects.is_empty() {
        block_on(hasher.hash_live_objects(arguments))?;
    }
    Ok(hasher.outcome)
}

struct Hasher<'a> {
    console: &'a mut Console,
    algorithm: Option<Algorithm>,
    prefix: &'a str,
    outcome: Outcome,
}

impl Hasher<'_> {
    fn hash_file(&mut self, path: &Path) -> Result<(), CliError> {
        let (name, text) = if path == Path::new("-") {
            let mut text = String::new();
            ("standard input".to_owned(), io::stdin().read_to_string(&mut text).map(|_| text))
        } else {
            (path.display().to_string(), std::fs::read_to_string(path))
        };
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                self.print_problem(format_args!("cannot read {name}: {error}"))?;
                self.outcome = Outcome::Error;
                return Ok(());
            }
        };
        let Ok(objects) = read_objects(&text, &BaselineLimits::of_command()) else {
            let reason = "too large, too deep or too many aliases";
            return self.print_problem(format_args!("cannot read {name}: {reason}"));
        };
        if objects.is_empty() {
            self.print_problem(format_args!("{name}: contains no object"))?;
        }
        for (index, object) in objects.into_iter().enumerate() {
            match object {
                Ok(object) => self.hash_object(&format!("{name}: object {}", index + 1), &object)?,
                Err(error) => {
                    self.print_problem(format_args!(
                        "{name}:{}:{}: {}",
                        error.line, error.column, error.message
                    ))?;
                }
            }
        }
        Ok(())
    }

    async fn hash_live_objects(&mut self, arguments: &HashArgs) -> Result<(), CliError> {
        let cluster = ClusterClient::connect(&arguments.cluster, arguments.namespace.as_deref()).await?;
        for object in &arguments.objects {
            match cluster.get(object).await? {
                LiveLookup::Object(value) => self.hash_object(&object.to_string(), &value)?,
                LiveLookup::Unavailable(error) => self.print_problem(error)?,
            }
        }
        Ok(())
    }

    fn hash_object(&mut self, origin: &str, object: &Value) -> Result<(), CliError> {
        let (kind, name) = match identity(object) {
            Ok(identity) => identity,
            Err(error) => return self.print_problem(format_args!("{origin}: {error}")),
        };
        let algorithm = self.algorithm.unwrap_or_else(|| Algorithm::default_for(&kind));
        match fingerprint(algorithm, &kind, &object.to_string(), self.prefix) {
            Ok(digest) => {
                let hash = algorithm.record(digest);
                self.console.print(format_args!("{hash}  {} {name}\n", kind.kind))
            }
            Err(error) => self.print_problem(format_args!("{origin}: {} {name}: {error}", kind.kind)),
        }
    }

    fn print_problem(&mut self, message: impl Display) -> Result<(), CliError> {
        if self.outcome == Outcome::Success {
            self.outcome = Outcome::Negative;
        }
        self.console.report(message)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{field} is missing or not a string")]
struct NoIdentity {
    field: &'static str,
}

/// Kind and `namespace/name` of an object.
fn identity(object: &Value) -> Result<(Kind, String), NoIdentity> {
    let api_version = string(&object["apiVersion"], "apiVersion")?;
    let kind = string(&object["kind"], "kind")?;
    let name = printable(string(&object["metadata"]["name"], "metadata.name")?);
    let namespace = object["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind =
        Kind { namespaced: namespace.is_some(), ..Kind::undiscovered(group, version, &printable(kind)) };
    let name = namespace.map_or_else(|| name.clone(), |namespace| format!("{}/{name}", printable(namespace)));
    Ok((kind, name))
}

fn string<'a>(value: &'a Value, field: &'static str) -> Result<&'a str, NoIdentity> {
    value.as_str().ok_or(NoIdentity { field })
}

/// Names from files must not control the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
