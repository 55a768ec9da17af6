//! `GET /v1/status`.

use std::{path::Path, sync::Arc};

use axum::{extract::State, response::Response};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    answer::json,
    baselines::{BaselineView, HealthView, SourceView, baselines, sources},
    query::NoQuery,
};
use crate::{
    config::{Problem, ReloadStatus},
    engine::WatchState,
    server::{Exposed, access::Caller},
};

/// Which settings are in use, how their last reading went, and how the streams fare.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Status")]
pub(super) struct StatusView<'a> {
    version: &'static str,
    /// Whether everything was looked at once.
    ready: bool,
    settings: SettingsView<'a>,
    /// The web configuration file; null where there is none.
    web_config: Option<WebConfigView<'a>>,
    /// What is wrong with rules of teams.
    #[schemars(with = "Vec<String>")]
    team_problems: &'a [String],
    streams: Vec<StreamView<'a>>,
    sources: Vec<SourceView<'a>>,
    baselines: Vec<BaselineView<'a>>,
}

/// The settings file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SettingsStatus")]
struct SettingsView<'a> {
    /// Null where there is none.
    #[schemars(with = "Option<String>")]
    file: Option<&'a Path>,
    /// Whether what it says holds; else what it said before.
    successful: bool,
    last_success: Timestamp,
    problems: Vec<ProblemInSettings<'a>>,
    warnings: Vec<ProblemInSettings<'a>>,
}

/// The web configuration file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "WebConfigStatus")]
struct WebConfigView<'a> {
    #[schemars(with = "String")]
    file: &'a Path,
    /// Whether all that it says holds; else what it said before, and where that is not safe nobody is let in.
    successful: bool,
    problems: Vec<ProblemInSettings<'a>>,
}

/// What is wrong in a file.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SettingsProblem")]
struct ProblemInSettings<'a> {
    line: Option<usize>,
    column: Option<usize>,
    key: &'a str,
    message: &'a str,
    suggestion: Option<&'a str>,
}

/// One open watch.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Stream")]
struct StreamView<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    /// The namespace, or that it is all of them.
    scope: &'a str,
    /// The one object that is asked for.
    name: Option<&'a str>,
    /// How many objects it brings, where these are named one by one.
    objects: Option<usize>,
    selector: Option<String>,
    #[serde(flatten)]
    health: HealthView<'a>,
}

pub(crate) async fn status(State(exposed): State<Arc<Exposed>>, caller: Caller, _: NoQuery) -> Response {
    let reload = exposed.reload_status.borrow().clone();
    let team_problems = exposed.team_problems.borrow().clone();
    let snapshot = caller.snapshot();
    let web_file = exposed.access.web_file();
    let web_config = web_file.as_ref().map(|(file, problems)| WebConfigView {
        file,
        successful: problems.is_empty(),
        problems: problems.iter().map(problem).collect(),
    });
    json(&StatusView {
        version: env!("CARGO_PKG_VERSION"),
        ready: snapshot.ready,
        settings: settings(&reload),
        web_config,
        team_problems: &team_problems,
        streams: snapshot.streams().map(stream).collect(),
        sources: sources(&snapshot),
        baselines: baselines(&snapshot, exposed.clock.now()),
    })
}

fn settings(reload: &ReloadStatus) -> SettingsView<'_> {
    SettingsView {
        file: reload.file.as_deref(),
        successful: reload.is_successful(),
        last_success: reload.last_success,
        problems: reload.problems.iter().map(problem).collect(),
        warnings: reload.warnings.iter().map(problem).collect(),
    }
}

fn problem(problem: &Problem) -> ProblemInSettings<'_> {
    ProblemInSettings {
        line: problem.place.map(|place| place.line),
        column: problem.place.map(|place| place.column),
        key: &problem.key,
        message: &problem.message,
        suggestion: problem.suggestion.as_deref(),
    }
}

fn stream(stream: &WatchState) -> StreamView<'_> {
    let kind = &stream.spec.kind;
    StreamView {
        group: &kind.group,
        version: &kind.version,
        kind: &kind.kind,
        scope: stream.spec.scope(),
        name: stream.spec.name.as_deref(),
        objects: (!stream.spec.only.is_empty()).then(|| stream.spec.only.count()),
        selector: stream.spec.selector.as_ref().map(ToString::to_string),
        health: HealthView::new(&stream.health),
    }
}
