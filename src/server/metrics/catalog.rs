//! Every metric there is. Tests compare this table with the page, the documentation, dashboards and alerts.

/// One metric family.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name of its samples; counters end in `_total`.
    pub name: &'static str,
    /// What it is.
    pub kind: MetricKind,
    /// One line, without a full stop.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// May go up and down.
    Gauge,
    /// Only goes up.
    Counter,
    /// Counts by size.
    Histogram,
}

impl MetricKind {
    /// The word after `# TYPE`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }
}

const OBJECT: &[&str] = &["group", "kind", "namespace", "name", "source"];
const KIND: &[&str] = &["group", "kind"];

macro_rules! metric {
    ($constant:ident, $name:literal, $kind:ident, $labels:expr, $help:literal) => {
        pub(super) const $constant: Metric =
            Metric { name: $name, kind: MetricKind::$kind, help: $help, labels: $labels };
    };
}

metric!(
    DRIFTED,
    "drift_resource_drifted",
    Gauge,
    OBJECT,
    "Whether the object differs from what its source declares: 1 drifted, 0 not"
);
metric!(
    ONSET,
    "drift_resource_drifted_timestamp_seconds",
    Gauge,
    &[
        "group",
        "kind",
        "namespace",
        "name",
        "source",
        "severity",
        "expectation",
        "actor",
        "field",
        "address",
        "state"
    ],
    "Since when the object has drifted, with what is known about its worst difference; only while drifted"
);
metric!(FIELDS, "drift_resource_drifted_fields", Gauge, OBJECT, "How many fields differ; only while drifted");
metric!(
    BLIND,
    "drift_resource_blind_fields",
    Gauge,
    OBJECT,
    "Fields that others have set and Terraform never reads; only where there are any"
);
metric!(
    EPISODES,
    "drift_resource_episodes_total",
    Counter,
    OBJECT,
    "How often the object began to drift; only for a day after the last time"
);
metric!(
    HEALTH,
    "drift_resource_health",
    Gauge,
    &["group", "kind", "namespace", "name", "source", "health"],
    "How well the object works by its own status; only where switched on"
);
metric!(
    RESOURCES,
    "drift_resources",
    Gauge,
    &["group", "kind", "namespace", "source", "verdict", "reason"],
    "How many objects have which verdict"
);
metric!(
    DETECTIONS,
    "drift_detections_total",
    Counter,
    &["group", "kind", "namespace", "source"],
    "Objects that began to drift while watched"
);
metric!(
    ACTORS,
    "drift_actor_detections_total",
    Counter,
    &["source", "actor", "severity"],
    "Objects that began to drift while watched, by the class of tool that changed them"
);
metric!(
    RESOLUTIONS,
    "drift_resolutions_total",
    Counter,
    &["group", "kind", "namespace", "source", "cause"],
    "Objects that ceased to drift, by cause"
);
metric!(
    AGES,
    "drift_resolved_age_seconds",
    Histogram,
    &["source", "cause", "severity"],
    "How long objects had drifted when they ceased to"
);
const STATE: &[&str] = &["state"];
metric!(
    STATE_SERIAL,
    "drift_terraform_state_serial",
    Gauge,
    STATE,
    "How often the state was written, by its own count"
);
metric!(
    STATE_RESOURCES,
    "drift_terraform_state_resources",
    Gauge,
    STATE,
    "Resources of Kubernetes in the state, those that cannot be compared included"
);
metric!(
    STATE_WRITTEN,
    "drift_terraform_state_last_write_timestamp_seconds",
    Gauge,
    STATE,
    "When the state was last written, or its baseline published"
);
metric!(
    STATE_READABLE,
    "drift_terraform_state_readable",
    Gauge,
    STATE,
    "Whether the state can be read: 1 yes, 0 no, and the verdicts on its objects stand still"
);
metric!(
    STATE_LOCK,
    "drift_terraform_state_lock_timestamp_seconds",
    Gauge,
    STATE,
    "Since when somebody holds the lock of the state; only while it is held"
);
const JOB: &[&str] = &["namespace", "name"];
metric!(
    JOB_RESULT,
    "drift_terraform_job_last_result",
    Gauge,
    JOB,
    "How the last Job ended that ran Terraform for this: 1 it succeeded, 0 it failed; only once one has ended"
);
metric!(
    JOB_START,
    "drift_terraform_job_start_timestamp_seconds",
    Gauge,
    JOB,
    "When the newest Job that runs Terraform for this began"
);
metric!(
    JOB_DURATION,
    "drift_terraform_job_duration_seconds",
    Gauge,
    JOB,
    "How long the newest Job that ran Terraform for this took; only once it has ended"
);
metric!(
    SOURCE_UP,
    "drift_source_up",
    Gauge,
    &["source"],
    "Whether all baselines of the source can be found: 1 yes, 0 not; only for sources that have baselines of their own"
);
metric!(
    STREAM_UP,
    "drift_watch_stream_up",
    Gauge,
    &["group", "version", "kind", "scope"],
    "Whether changes arrive: 1 listed and watched, 0 not"
);
metric!(CACHE, "drift_cache_objects", Gauge, KIND, "Objects that are known");
metric!(
    RULE_MATCHES,
    "drift_rule_matches",
    Gauge,
    &["rule"],
    "How many differences the rule matches now, those that are ignored included"
);
metric!(
    RULE_EXPIRY,
    "drift_rule_expiry_timestamp_seconds",
    Gauge,
    &["rule"],
    "When the rule ceases to apply; only for rules that expire"
);
metric!(
    DROPPED,
    "drift_series_dropped",
    Gauge,
    &[],
    "Series of single objects left out because of the limit"
);

/// All metrics, in the order of the page.
pub const CATALOG: &[Metric] = &[
    DRIFTED,
    ONSET,
    FIELDS,
    BLIND,
    EPISODES,
    HEALTH,
    RESOURCES,
    DETECTIONS,
    ACTORS,
    RESOLUTIONS,
    AGES,
    STATE_SERIAL,
    STATE_RESOURCES,
    STATE_WRITTEN,
    STATE_READABLE,
    STATE_LOCK,
    JOB_RESULT,
    JOB_START,
    JOB_DURATION,
    SOURCE_UP,
    STREAM_UP,
    CACHE,
    RULE_MATCHES,
    RULE_EXPIRY,
    DROPPED,
    own(
        "drift_reconciles_total",
        MetricKind::Counter,
        &["group", "kind", "result"],
        "Reconciled objects by verdict; unchanged: no source and no rule found a change",
    ),
    own(
        "drift_reconcile_duration_seconds",
        MetricKind::Histogram,
        &[],
        "Duration of one reconciliation, from the queue to the verdicts",
    ),
    own(
        "drift_baseline_errors_total",
        MetricKind::Counter,
        &["source", "reason"],
        "Baselines that were read and could not be used",
    ),
    own(
        "drift_watch_events_total",
        MetricKind::Counter,
        &["group", "kind", "event"],
        "Objects and events received, by event",
    ),
    own(
        "drift_watch_restarts_total",
        MetricKind::Counter,
        &["group", "kind", "reason"],
        "Watches opened again, by reason; planned: the server ended it after the time that was asked for",
    ),
    own(
        "drift_watch_last_contact_timestamp_seconds",
        MetricKind::Gauge,
        KIND,
        "When the API server last sent anything about this kind, bookmarks included",
    ),
    own("drift_watch_streams", MetricKind::Gauge, &[], "Open watch streams"),
    own(
        "drift_config_last_reload_successful",
        MetricKind::Gauge,
        &[],
        "Whether the last reload of the settings file succeeded; 0: it is invalid, and the last valid settings are in use",
    ),
    own(
        "drift_config_last_reload_success_timestamp_seconds",
        MetricKind::Gauge,
        &[],
        "Time of the last successful reload of the settings",
    ),
    own(
        "drift_exporter_build_info",
        MetricKind::Gauge,
        &["version"],
        "Always 1; the version that is running",
    ),
    own("process_cpu_seconds_total", MetricKind::Counter, &[], "User and system CPU time spent"),
    own("process_open_fds", MetricKind::Gauge, &[], "Open file descriptors"),
    own("process_max_fds", MetricKind::Gauge, &[], "Most file descriptors that may be open"),
    own("process_virtual_memory_bytes", MetricKind::Gauge, &[], "Virtual memory size"),
    own("process_resident_memory_bytes", MetricKind::Gauge, &[], "Resident memory size"),
    own("process_start_time_seconds", MetricKind::Gauge, &[], "When the process started"),
    own("process_threads", MetricKind::Gauge, &[], "Threads of the process"),
];

/// A metric that `prometheus-client` renders; the module that counts it registers it under the same words.
const fn own(
    name: &'static str,
    kind: MetricKind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind, help, labels }
}
