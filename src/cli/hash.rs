//! `drift-exporter hash`.

use std::{
    io::{self, Read as _, Write},
    path::Path,
};

use serde_json::Value;

use super::{
    Outcome,
    args::HashArgs,
    live::{Cluster, Found},
    runtime::block_on,
};
use crate::{
    config::Settings,
    diff::{Algorithm, fingerprint},
    sources::read_objects,
    types::Kind,
};

/// Prints a line for each object. Objects that cannot be hashed are named on `stderr`; the others are printed.
pub(super) fn run(
    arguments: &HashArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    let mut report = Report { stdout, stderr, algorithm: arguments.algorithm, outcome: Outcome::Fine };
    for file in &arguments.files {
        report.file(file)?;
    }
    if !arguments.objects.is_empty() {
        block_on(report.live(arguments))?;
    }
    Ok(report.outcome)
}

struct Report<'a> {
    stdout: &'a mut dyn Write,
    stderr: &'a mut dyn Write,
    algorithm: Option<Algorithm>,
    outcome: Outcome,
}

impl Report<'_> {
    fn file(&mut self, path: &Path) -> Result<(), String> {
        let (name, text) = if path == Path::new("-") {
            let mut text = String::new();
            ("standard input".to_owned(), io::stdin().read_to_string(&mut text).map(|_| text))
        } else {
            (path.display().to_string(), std::fs::read_to_string(path))
        };
        let text = match text {
            Ok(text) => text,
            Err(error) => {
                self.complain(format_args!("cannot read {name}: {error}"))?;
                self.outcome = Outcome::CouldNotRun;
                return Ok(());
            }
        };
        let objects = read_objects(&text);
        if objects.is_empty() {
            self.complain(format_args!("{name}: there is no object in it"))?;
        }
        for (index, object) in objects.into_iter().enumerate() {
            match object {
                Ok(object) => self.object(&format!("{name}: object {}", index + 1), &object)?,
                Err(bad) => {
                    self.complain(format_args!("{name}:{}:{}: {}", bad.line, bad.column, bad.message))?;
                }
            }
        }
        Ok(())
    }

    async fn live(&mut self, arguments: &HashArgs) -> Result<(), String> {
        let cluster = Cluster::connect(&arguments.cluster, arguments.namespace.as_deref()).await?;
        for object in &arguments.objects {
            match cluster.get(object).await? {
                Found::Object(value) => self.object(&object.to_string(), &value)?,
                Found::Nothing(message) => self.complain(format_args!("{message}"))?,
            }
        }
        Ok(())
    }

    fn object(&mut self, place: &str, object: &Value) -> Result<(), String> {
        let (kind, name) = match identity(object) {
            Ok(identity) => identity,
            Err(missing) => return self.complain(format_args!("{place}: {missing} is needed, as a string")),
        };
        let algorithm = self.algorithm.unwrap_or_else(|| Algorithm::default_for(&kind));
        match fingerprint(algorithm, &kind, &object.to_string(), &Settings::default().annotation_prefix) {
            Ok(digest) => writeln!(self.stdout, "{}  {} {name}", algorithm.record(digest), kind.kind)
                .map_err(|error| format!("cannot write: {error}")),
            Err(error) => self.complain(format_args!("{place}: {} {name}: {error}", kind.kind)),
        }
    }

    fn complain(&mut self, message: std::fmt::Arguments<'_>) -> Result<(), String> {
        if self.outcome == Outcome::Fine {
            self.outcome = Outcome::Negative;
        }
        writeln!(self.stderr, "drift-exporter: {message}").map_err(|error| format!("cannot write: {error}"))
    }
}

/// Kind and `namespace/name` of an object, or what it does not say.
fn identity(object: &Value) -> Result<(Kind, String), &'static str> {
    let api_version = object["apiVersion"].as_str().ok_or("apiVersion")?;
    let kind = object["kind"].as_str().ok_or("kind")?;
    let name = printable(object["metadata"]["name"].as_str().ok_or("metadata.name")?);
    let namespace = object["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty());
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let namespaced = namespace.is_some();
    let name = namespace.map_or_else(|| name.clone(), |namespace| format!("{}/{name}", printable(namespace)));
    let kind = Kind {
        group: group.into(),
        version: version.into(),
        kind: printable(kind).into(),
        plural: Box::default(),
        namespaced,
    };
    Ok((kind, name))
}

/// Names from files go to terminals, which must not be told what to do.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}
