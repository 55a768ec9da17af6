//! Every metric there is. Tests compare this table with the page, the documentation, dashboards and alerts.

#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Counters end in `_total`.
    pub name: &'static str,
    pub kind: MetricKind,
    /// One line, without a full stop.
    pub help: &'static str,
    pub labels: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    Gauge,
    Counter,
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
const STATE: &[&str] = &["state"];
const JOB: &[&str] = &["namespace", "name"];

/// Declares a constant for each rendered metric, and the table of all metrics.
macro_rules! catalog {
    (
        rendered { $($constant:ident = $kind:ident $name:literal $labels:expr, $help:literal;)+ }
        registered { $($own_kind:ident $own_name:literal $own_labels:expr, $own_help:literal;)+ }
    ) => {
        $(pub(super) const $constant: Metric =
            Metric { name: $name, kind: MetricKind::$kind, help: $help, labels: $labels };)+

        /// All metrics, in the order of the page.
        pub const CATALOG: &[Metric] = &[
            $($constant,)+
            $(Metric { name: $own_name, kind: MetricKind::$own_kind, help: $own_help, labels: $own_labels },)+
        ];
    };
}

catalog! {
    rendered {
        DRIFTED = Gauge "drift_resource_drifted" OBJECT,
            "Whether the object differs from what its source declares: 1 drifted, 0 not";
        ONSET = Gauge "drift_resource_drifted_timestamp_seconds" &[
            "group", "kind", "namespace", "name", "source", "severity", "expectation", "actor", "field", "address", "state",
        ],
            "Since when the object has drifted, with what is known about its worst difference; only while drifted";
        FIELDS = Gauge "drift_resource_drifted_fields" OBJECT,
            "How many fields differ; only while drifted";
        BLIND = Gauge "drift_resource_blind_fields" OBJECT,
            "Fields that others have set and Terraform never reads; only where there are any";
        EPISODES = Counter "drift_resource_episodes_total" OBJECT,
            "How often the object began to drift; only for a day after the last time";
        HEALTH = Gauge "drift_resource_health" &["group", "kind", "namespace", "name", "source", "health"],
            "How well the object works by its own status; only where switched on";
        RESOURCES = Gauge "drift_resources" &["group", "kind", "namespace", "source", "verdict", "reason"],
            "How many objects have which verdict";
        DETECTIONS = Counter "drift_detections_total" &["group", "kind", "namespace", "source"],
            "Objects that began to drift while watched";
        ACTORS = Counter "drift_actor_detections_total" &["source", "actor", "severity"],
            "Objects that began to drift while watched, by the class of tool that changed them";
        RESOLUTIONS = Counter "drift_resolutions_total" &["group", "kind", "namespace", "source", "cause"],
            "Objects that ceased to drift, by cause";
        AGES = Histogram "drift_resolved_age_seconds" &["source", "cause", "severity"],
            "How long objects had drifted when they ceased to";
        STATE_SERIAL = Gauge "drift_terraform_state_serial" STATE,
            "How often the state was written, by its own count";
        STATE_RESOURCES = Gauge "drift_terraform_state_resources" STATE,
            "Resources of Kubernetes in the state, those that cannot be compared included";
        STATE_WRITTEN = Gauge "drift_terraform_state_last_write_timestamp_seconds" STATE,
            "When the state was last written, or its baseline published";
        STATE_READABLE = Gauge "drift_terraform_state_readable" STATE,
            "Whether the state can be read: 1 yes, 0 no, and the verdicts on its objects stand still";
        STATE_LOCK = Gauge "drift_terraform_state_lock_timestamp_seconds" STATE,
            "Since when somebody holds the lock of the state; only while it is held";
        JOB_RESULT = Gauge "drift_terraform_job_last_result" JOB,
            "How the last Job ended that ran Terraform for this: 1 it succeeded, 0 it failed; only once one has ended";
        JOB_START = Gauge "drift_terraform_job_start_timestamp_seconds" JOB,
            "When the newest Job that runs Terraform for this began";
        JOB_DURATION = Gauge "drift_terraform_job_duration_seconds" JOB,
            "How long the newest Job that ran Terraform for this took; only once it has ended";
        SOURCE_UP = Gauge "drift_source_up" &["source"],
            "Whether all baselines of the source can be found: 1 yes, 0 not; only for sources that have baselines of their own";
        STREAM_UP = Gauge "drift_watch_stream_up" &["group", "version", "kind", "scope"],
            "Whether changes arrive: 1 listed and watched, 0 not";
        CACHE = Gauge "drift_cache_objects" KIND,
            "Objects that are known";
        RULE_MATCHES = Gauge "drift_rule_matches" &["rule"],
            "How many differences the rule matches now, those that are ignored included";
        RULE_EXPIRY = Gauge "drift_rule_expiry_timestamp_seconds" &["rule"],
            "When the rule ceases to apply; only for rules that expire";
        DROPPED = Gauge "drift_series_dropped" &[],
            "Series of single objects left out because of the limit";
    }
    // `prometheus-client` renders these; the module that counts one registers it under the same words.
    registered {
        Counter "drift_reconciles_total" &["group", "kind", "result"],
            "Reconciled objects by verdict; unchanged: no source and no rule found a change";
        Histogram "drift_reconcile_duration_seconds" &[],
            "Duration of one reconciliation, from the queue to the verdicts";
        Counter "drift_baseline_errors_total" &["source", "reason"],
            "Baselines that were read and could not be used";
        Counter "drift_watch_events_total" &["group", "kind", "event"],
            "Objects and events received, by event";
        Counter "drift_watch_restarts_total" &["group", "kind", "reason"],
            "Watches opened again, by reason; planned: the server ended it after the time that was asked for";
        Gauge "drift_watch_last_contact_timestamp_seconds" KIND,
            "When the API server last sent anything about this kind, bookmarks included";
        Gauge "drift_watch_streams" &[],
            "Open watch streams";
        Gauge "drift_config_last_reload_successful" &[],
            "Whether the last reload of the settings file succeeded; 0: it is invalid, and the last valid settings are in use";
        Gauge "drift_config_last_reload_success_timestamp_seconds" &[],
            "Time of the last successful reload of the settings";
        Gauge "drift_exporter_build_info" &["version"],
            "Always 1; the version that is running";
        Counter "process_cpu_seconds_total" &[],
            "User and system CPU time spent";
        Gauge "process_open_fds" &[],
            "Open file descriptors";
        Gauge "process_max_fds" &[],
            "Most file descriptors that may be open";
        Gauge "process_virtual_memory_bytes" &[],
            "Virtual memory size";
        Gauge "process_resident_memory_bytes" &[],
            "Resident memory size";
        Gauge "process_start_time_seconds" &[],
            "When the process started";
        Gauge "process_threads" &[],
            "Threads of the process";
    }
}
