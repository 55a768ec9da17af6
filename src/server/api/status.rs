//! `GET /v1/status`: settings, watches, sources and baselines of the exporter itself.

use std::{borrow::Cow, collections::BTreeMap, path::Path, sync::Arc};

use axum::{extract::State, response::Response};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    params::{NoParams, Params},
    response::json,
    view::Word,
};
use crate::{
    config::ConfigProblem,
    engine::{BaselineState, ClusterMatch, Snapshot, WatchState},
    server::{Exposed, auth::Caller},
    types::{BaselineFault, DownReason, HealthState, Source, SyncHealth},
};

/// Which settings are in use, how their last reading went, and how the streams fare.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Status")]
pub(crate) struct StatusView<'a> {
    #[serde(skip_deserializing)]
    version: &'static str,
    /// Whether everything was looked at once.
    pub(crate) ready: bool,
    #[serde(skip_deserializing)]
    settings: SettingsView<'a>,
    /// The web configuration file; null where there is none.
    #[serde(skip_deserializing)]
    web_config: Option<WebConfigView<'a>>,
    /// What is wrong with rules of teams.
    #[schemars(with = "Vec<String>")]
    #[serde(skip_deserializing)]
    team_problems: &'a [String],
    pub(crate) streams: Vec<StreamView<'a>>,
    pub(crate) sources: Vec<SourceView<'a>>,
    #[serde(skip_deserializing)]
    baselines: Vec<BaselineView<'a>>,
}

/// The settings file.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SettingsStatus")]
struct SettingsView<'a> {
    /// Null where there is none.
    #[schemars(with = "Option<String>")]
    file: Option<&'a Path>,
    /// Whether what it says holds; else what it said before.
    successful: bool,
    last_success: Timestamp,
    problems: Vec<SettingsProblemView<'a>>,
    warnings: Vec<SettingsProblemView<'a>>,
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
    problems: Vec<SettingsProblemView<'a>>,
}

/// What is wrong in a file.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SettingsProblem")]
struct SettingsProblemView<'a> {
    line: Option<usize>,
    column: Option<usize>,
    key: &'a str,
    message: &'a str,
    suggestion: Option<&'a str>,
}

/// One open watch.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Stream")]
pub(crate) struct StreamView<'a> {
    #[serde(default)]
    pub(crate) group: Cow<'a, str>,
    #[serde(skip_deserializing)]
    version: &'a str,
    #[serde(default)]
    pub(crate) kind: Cow<'a, str>,
    /// The namespace, or that it is all of them.
    #[serde(skip_deserializing)]
    scope: &'a str,
    /// The one object that is asked for.
    name: Option<Cow<'a, str>>,
    /// How many objects it brings, where these are named one by one.
    objects: Option<usize>,
    selector: Option<String>,
    #[serde(flatten)]
    pub(crate) health: HealthView<'a>,
}

/// Whether the baselines of a source can be found.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SourceStatus")]
pub(crate) struct SourceView<'a> {
    pub(crate) source: Word<Source>,
    #[serde(flatten)]
    pub(crate) health: HealthView<'a>,
}

/// How something fares that is waited for.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct HealthView<'a> {
    /// `starting`, `up` or `down`.
    #[schemars(with = "String")]
    pub(crate) state: Word<HealthState>,
    /// Why it is down, in a word.
    #[schemars(with = "Option<String>")]
    pub(crate) reason: Option<Word<DownReason>>,
    /// Why it is down, in a sentence.
    pub(crate) message: Option<Cow<'a, str>>,
}

/// A Terraform state, a Helm release or a folder of manifests.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Baseline")]
struct BaselineView<'a> {
    source: Source,
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
    /// The first 100 documents and resources that cannot be compared.
    skipped: Vec<SkippedView<'a>>,
    /// The number of all documents and resources that cannot be compared.
    skipped_count: usize,
    /// The number of resources of each unknown type, for up to 100 types.
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
    reason: BaselineFault,
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

pub(in crate::server) async fn status(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    _: Params<NoParams>,
) -> Response {
    caller.read(move |_, snapshot| status_response(&exposed, snapshot)).await
}

fn status_response(exposed: &Exposed, snapshot: &Snapshot) -> Response {
    let now = exposed.clock.now();
    let reload = exposed.reload_status.borrow().clone();
    let team_problems = exposed.team_problems();
    let web_file = exposed.auth.web_file();
    json(&StatusView {
        version: env!("CARGO_PKG_VERSION"),
        ready: snapshot.ready,
        settings: SettingsView {
            file: reload.file.as_deref(),
            successful: reload.is_successful(),
            last_success: reload.last_success,
            problems: problem_views(&reload.problems),
            warnings: problem_views(&reload.warnings),
        },
        web_config: web_file.as_ref().map(|(file, problems)| WebConfigView {
            file,
            successful: problems.is_empty(),
            problems: problem_views(problems),
        }),
        team_problems: &team_problems,
        streams: snapshot.watches().map(StreamView::new).collect(),
        sources: snapshot
            .sources
            .iter()
            .map(|(source, health)| SourceView {
                source: Word::Known(*source),
                health: HealthView::new(health),
            })
            .collect(),
        baselines: snapshot.baselines.values().map(|state| BaselineView::new(state, now)).collect(),
    })
}

fn problem_views(problems: &[ConfigProblem]) -> Vec<SettingsProblemView<'_>> {
    let views = problems.iter().map(|problem| SettingsProblemView {
        line: problem.position.map(|place| place.line),
        column: problem.position.map(|place| place.column),
        key: &problem.key,
        message: &problem.message,
        suggestion: problem.suggestion.as_deref(),
    });
    views.collect()
}

impl<'a> StreamView<'a> {
    fn new(watch: &'a WatchState) -> Self {
        let kind = &watch.spec.kind;
        Self {
            group: (&*kind.group).into(),
            version: &kind.version,
            kind: (&*kind.kind).into(),
            scope: watch.spec.scope(),
            name: watch.spec.name.as_deref().map(Cow::Borrowed),
            objects: (!watch.spec.included_names.is_empty()).then(|| watch.spec.included_names.count()),
            selector: watch.spec.selector.as_ref().map(ToString::to_string),
            health: HealthView::new(&watch.health),
        }
    }
}

impl<'a> HealthView<'a> {
    fn new(health: &'a SyncHealth) -> Self {
        let (state, reason, message) = match health {
            SyncHealth::Starting => (HealthState::Starting, None, None),
            SyncHealth::Up => (HealthState::Up, None, None),
            SyncHealth::Down { reason, message } => {
                (HealthState::Down, Some(Word::Known(*reason)), Some(Cow::Borrowed(&**message)))
            }
        };
        Self { state: Word::Known(state), reason, message }
    }
}

impl<'a> BaselineView<'a> {
    fn new(state: &'a BaselineState, now: Timestamp) -> Self {
        let baseline = &state.baseline;
        let version = baseline.version.as_ref();
        let unknown_types = baseline.skipped.unknown_types().iter();
        Self {
            source: baseline.source,
            state: &baseline.name,
            origin: baseline.origin.as_str(),
            serial: version.map(|version| version.serial),
            lineage: version.map(|version| &*version.lineage),
            tool_version: version.map(|version| &*version.tool_version),
            written: version.and_then(|version| version.written),
            chart: version.and_then(|version| version.chart.as_ref()).map(|chart| ChartView {
                name: &chart.name,
                version: &chart.version,
                app_version: chart.app_version.as_deref().unwrap_or_default(),
            }),
            cluster: match state.cluster_match {
                ClusterMatch::Undecided => "undecided",
                ClusterMatch::Here => "this",
                ClusterMatch::Elsewhere => "other",
            },
            objects: baseline.objects.len(),
            skipped: baseline
                .skipped
                .listed()
                .iter()
                .map(|skipped| SkippedView {
                    address: &skipped.address,
                    r#type: &skipped.resource_type,
                    reason: skipped.reason.as_str(),
                })
                .collect(),
            skipped_count: baseline.skipped.len(),
            unknown_types: unknown_types.map(|(name, count)| (name.to_string(), *count)).collect(),
            fault: baseline
                .fault
                .as_ref()
                .map(|trouble| FaultView { reason: trouble.fault, message: &trouble.message }),
            lock: baseline.lock.as_ref().map(|lock| LockView {
                operation: lock.operation.as_deref().unwrap_or("released"),
                who: &lock.who,
                created: lock.created,
                age_seconds: lock.created.map(|created| now.duration_since(created).as_secs()),
            }),
            in_flight: state.in_flight,
        }
    }
}
