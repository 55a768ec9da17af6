//! `GET /v1/status`.
//! What is known about the places that declare objects.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use axum::{extract::State, response::Response};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{openapi::OneOf, params::NoQuery, response::json};
use crate::{
    config::{Problem, ReloadStatus},
    engine::{BaselineState, ClusterMatch, Snapshot, WatchState},
    server::{Exposed, auth::Caller},
    types::{Baseline, BaselineFault, Chart, ClosedSet as _, Lock, Source, WatchHealth},
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
    let web_file = exposed.auth.web_file();
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

/// Whether the baselines of a source can be found.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SourceStatus")]
pub(super) struct SourceView<'a> {
    #[schemars(with = "OneOf<Source>")]
    source: &'static str,
    #[serde(flatten)]
    health: HealthView<'a>,
}

/// How something fares that is waited for.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HealthView<'a> {
    /// `starting`, `up` or `down`.
    state: &'static str,
    /// Why it is down, in a word.
    reason: Option<&'static str>,
    /// Why it is down, in a sentence.
    message: Option<&'a str>,
}

/// A Terraform state, a Helm release or a folder of manifests.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Baseline")]
pub(super) struct BaselineView<'a> {
    #[schemars(with = "OneOf<Source>")]
    source: &'static str,
    /// Its name.
    state: &'a str,
    /// Where it was found.
    origin: &'static str,
    /// The serial of a state, the revision of a release.
    serial: Option<u64>,
    lineage: Option<&'a str>,
    tool_version: Option<&'a str>,
    /// When it was last written.
    written: Option<Timestamp>,
    chart: Option<ChartView<'a>>,
    /// Whether it declares objects of this cluster: `this`, `other`, or `undecided`.
    cluster: &'static str,
    /// How many objects it declares.
    objects: usize,
    /// What in it cannot be compared.
    skipped: Vec<SkippedView<'a>>,
    /// Types in it that nobody knows, with their numbers.
    unknown_types: BTreeMap<String, usize>,
    /// Why it cannot be read now.
    fault: Option<FaultView<'a>>,
    lock: Option<LockView<'a>>,
    /// Whether its objects are being changed right now.
    in_flight: bool,
}

/// The chart of a release.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Chart")]
struct ChartView<'a> {
    name: &'a str,
    version: &'a str,
    app_version: &'a str,
}

/// A resource that cannot be compared.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Skipped")]
struct SkippedView<'a> {
    address: &'a str,
    r#type: &'a str,
    reason: &'static str,
}

/// Why a baseline cannot be read.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "BaselineFault")]
struct FaultView<'a> {
    #[schemars(with = "OneOf<BaselineFault>")]
    reason: &'static str,
    message: &'a str,
}

/// Who holds a baseline.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Lock")]
struct LockView<'a> {
    operation: &'a str,
    who: &'a str,
    created: Option<Timestamp>,
    age_seconds: Option<i64>,
}

/// Whether the baselines of each source can be found.
pub(super) fn sources(snapshot: &Snapshot) -> Vec<SourceView<'_>> {
    let sources = snapshot.sources.iter();
    sources
        .map(|(source, health)| SourceView { source: source.word(), health: HealthView::new(health) })
        .collect()
}

/// Every baseline: its version, what is wrong with it, and who writes it.
pub(super) fn baselines(snapshot: &Snapshot, now: Timestamp) -> Vec<BaselineView<'_>> {
    snapshot.baselines.iter().map(|state| baseline(state, now)).collect()
}

fn baseline(state: &BaselineState, now: Timestamp) -> BaselineView<'_> {
    let own: &Baseline = &state.baseline;
    let version = own.version.as_ref();
    let skipped = own.skipped.iter().map(|own| SkippedView {
        address: &own.address,
        r#type: &own.resource_type,
        reason: own.reason.as_str(),
    });
    BaselineView {
        source: own.source.as_str(),
        state: &own.name,
        origin: own.origin.as_str(),
        serial: version.map(|version| version.serial),
        lineage: version.map(|version| &*version.lineage),
        tool_version: version.map(|version| &*version.tool_version),
        written: version.and_then(|version| version.written),
        chart: version.and_then(|version| version.chart.as_ref()).map(chart),
        cluster: match state.belonging {
            ClusterMatch::Undecided => "undecided",
            ClusterMatch::Here => "this",
            ClusterMatch::Elsewhere => "other",
        },
        objects: own.objects.len(),
        skipped: skipped.collect(),
        unknown_types: own
            .unknown_types()
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
        fault: own.fault.as_ref().map(|own| FaultView { reason: own.fault.as_str(), message: &own.message }),
        lock: own.lock.as_ref().map(|own| lock(own, now)),
        in_flight: state.in_flight,
    }
}

fn chart(chart: &Chart) -> ChartView<'_> {
    ChartView { name: &chart.name, version: &chart.version, app_version: &chart.app_version }
}

fn lock(lock: &Lock, now: Timestamp) -> LockView<'_> {
    LockView {
        operation: &lock.operation,
        who: &lock.who,
        created: lock.created,
        age_seconds: lock.created.map(|created| now.duration_since(created).as_secs()),
    }
}

impl<'a> HealthView<'a> {
    /// A state, and why it is not up.
    pub(super) fn new(health: &'a WatchHealth) -> Self {
        let (state, reason, message) = match health {
            WatchHealth::Starting => ("starting", None, None),
            WatchHealth::Up => ("up", None, None),
            WatchHealth::Down { reason, message } => ("down", Some(reason.as_str()), Some(&**message)),
        };
        Self { state, reason, message }
    }
}
