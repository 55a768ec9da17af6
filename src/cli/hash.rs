//! `drift-exporter hash`.

use std::{
    io::{self, Read as _, Write},
    path::Path,
};

use http::Request;
use serde_json::Value;

use super::{
    Outcome,
    args::{HashArgs, ObjectName},
    documents::read_objects,
};
use crate::{
    compare::{Algorithm, fingerprint},
    model::Kind,
    settings::Settings,
    watch::{client_from, find_kind, object_url},
};

/// Prints a line for each object. Objects that cannot be hashed are named on `stderr`; the others are printed.
pub(super) fn run(
    arguments: &HashArgs,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<Outcome, String> {
    let mut report = Report { stdout, stderr, algorithm: arguments.algorithm, bad: false };
    for file in &arguments.files {
        report.file(file)?;
    }
    if !arguments.objects.is_empty() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
        runtime.block_on(report.live(arguments))?;
    }
    Ok(if report.bad { Outcome::Negative } else { Outcome::Fine })
}

struct Report<'a> {
    stdout: &'a mut dyn Write,
    stderr: &'a mut dyn Write,
    algorithm: Option<Algorithm>,
    bad: bool,
}

impl Report<'_> {
    fn file(&mut self, path: &Path) -> Result<(), String> {
        let (name, text) = if path == Path::new("-") {
            let mut text = String::new();
            ("standard input".to_owned(), io::stdin().read_to_string(&mut text).map(|_| text))
        } else {
            (path.display().to_string(), std::fs::read_to_string(path))
        };
        let text = text.map_err(|error| format!("cannot read {name}: {error}"))?;
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
        let client = client_from(&arguments.cluster.connection()).await.map_err(|error| error.to_string())?;
        let namespace =
            arguments.namespace.as_deref().unwrap_or_else(|| client.default_namespace()).to_owned();
        for ObjectName { kind, name } in &arguments.objects {
            let unreachable =
                |error| format!("cannot ask the cluster about {kind}/{name}: {}", innermost(&error));
            let Some(found) = find_kind(&client, kind).await.map_err(unreachable)? else {
                self.complain(format_args!("the cluster has no kind `{kind}`"))?;
                continue;
            };
            let request = Request::get(object_url(&found, &namespace, name)).body(Vec::new());
            let request = request.map_err(|error| format!("{kind}/{name} is no name: {error}"))?;
            match client.request::<Value>(request).await {
                Ok(object) => self.object(&format!("{kind}/{name}"), &object)?,
                Err(kube::Error::Api(status)) => {
                    self.complain(format_args!("{kind}/{name}: {}", status.message))?;
                }
                Err(error) => return Err(unreachable(error)),
            }
        }
        Ok(())
    }

    fn object(&mut self, place: &str, object: &Value) -> Result<(), String> {
        let Some((kind, name)) = identity(object) else {
            return self.complain(format_args!("{place}: apiVersion, kind and metadata.name are needed"));
        };
        let has_tfdrift = matches!((&*kind.group, &*kind.kind), ("apps", "Deployment") | ("", "Service"));
        let default = if has_tfdrift { Algorithm::TfdriftV1 } else { Algorithm::JcsV1 };
        let algorithm = self.algorithm.unwrap_or(default);
        match fingerprint(algorithm, &kind, &object.to_string(), &Settings::default().annotation_prefix) {
            Ok(digest) => writeln!(self.stdout, "{}  {} {name}", algorithm.record(digest), kind.kind)
                .map_err(|error| format!("cannot write: {error}")),
            Err(error) => self.complain(format_args!("{place}: {} {name}: {error}", kind.kind)),
        }
    }

    fn complain(&mut self, message: std::fmt::Arguments<'_>) -> Result<(), String> {
        self.bad = true;
        writeln!(self.stderr, "drift-exporter: {message}").map_err(|error| format!("cannot write: {error}"))
    }
}

/// Kind and `namespace/name` of an object, as far as it says.
fn identity(object: &Value) -> Option<(Kind, String)> {
    let api_version = object["apiVersion"].as_str()?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let name = object["metadata"]["name"].as_str()?;
    let namespace = object["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty());
    let kind = Kind {
        group: group.into(),
        version: version.into(),
        kind: object["kind"].as_str()?.into(),
        plural: Box::default(),
        namespaced: namespace.is_some(),
    };
    Some((kind, namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))))
}

/// The last cause names the fault; those before it name the layers it went through.
fn innermost(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}
