//! The engine's own metrics.

use std::time::Duration;

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use crate::types::{BaselineFault, Kind, Source, UnknownReason, VerdictKind};

#[derive(Clone, Debug)]
pub struct EngineMetrics {
    reconciles: Family<ReconcileLabels, Counter>,
    duration: Histogram,
    /// By source and reason.
    baseline_errors: Family<[(&'static str, &'static str); 2], Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconcileLabels {
    group: String,
    kind: String,
    result: &'static str,
}

impl ReconcileLabels {
    fn new(kind: &Kind, result: &'static str) -> Self {
        Self { group: kind.group.to_string(), kind: kind.kind.to_string(), result }
    }
}

/// The value of `result` for an object in which no source and no rule finds a change.
pub(super) const UNCHANGED: &str = "unchanged";

// Values of `reason` beside those of `BaselineFault`.
/// Two resources in a baseline have one address, or two documents are of one object.
pub(super) const DUPLICATE_ADDRESS: &str = "duplicate_address";
pub(super) const NOT_YAML: &str = "not_yaml";
/// Two baselines declare the whole of one object.
pub(super) const CLAIMED_TWICE: &str = "claimed_twice";
/// No object of the baseline is in this cluster.
pub(super) const OTHER_CLUSTER: &str = "other_cluster";
/// The lock is held for longer than an apply may take.
pub(super) const STALE_LOCK: &str = "stale_lock";

impl EngineMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            reconciles: Family::default(),
            duration: Histogram::new([0.000_001, 0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1.0]),
            baseline_errors: Family::default(),
        };
        metrics.init_object_source(Source::Annotation);
        registry.register(
            "drift_reconciles",
            "Reconciled objects by verdict; unchanged: no source and no rule found a change",
            metrics.reconciles.clone(),
        );
        registry.register(
            "drift_reconcile_duration_seconds",
            "Duration of one reconciliation, from the queue to the verdicts",
            metrics.duration.clone(),
        );
        registry.register(
            "drift_baseline_errors",
            "Baselines that were read and could not be used",
            metrics.baseline_errors.clone(),
        );
        metrics
    }

    pub(super) fn count_reconcile(&self, kind: &Kind, result: &'static str) {
        self.reconciles.get_or_create_owned(&ReconcileLabels::new(kind, result)).inc();
    }

    /// Drops the series of a kind that is no longer watched.
    pub(super) fn drop_kind(&self, kind: &Kind) {
        let verdicts = VerdictKind::ALL.iter().map(|verdict| verdict.as_str());
        for result in verdicts.chain([UNCHANGED]) {
            self.reconciles.remove(&ReconcileLabels::new(kind, result));
        }
    }

    pub(super) fn observe_duration(&self, duration: Duration) {
        self.duration.observe(duration.as_secs_f64());
    }

    /// Counts a claim that is `unknown` because the baseline on the object is invalid.
    pub(super) fn count_unknown(&self, source: Source, reason: UnknownReason) {
        if invalid_on_object(source).contains(&reason) {
            self.count_baseline_error(source, reason.as_str());
        }
    }

    pub(super) fn count_baseline_error(&self, source: Source, reason: &'static str) {
        self.baseline_error(source, reason).inc();
    }

    /// Exposes the counters of a source with baselines on the objects with the value zero.
    pub(super) fn init_object_source(&self, source: Source) {
        for reason in invalid_on_object(source) {
            self.baseline_error(source, reason.as_str());
        }
    }

    /// Exposes the counters of a source with baselines of its own with the value zero.
    pub(super) fn init_baseline_source(&self, source: Source) {
        let others = [DUPLICATE_ADDRESS, NOT_YAML, CLAIMED_TWICE, OTHER_CLUSTER, STALE_LOCK];
        for reason in BaselineFault::ALL.iter().map(|fault| fault.as_str()).chain(others) {
            self.baseline_error(source, reason);
        }
    }

    fn baseline_error(&self, source: Source, reason: &'static str) -> Counter {
        self.baseline_errors.get_or_create_owned(&[("source", source.as_str()), ("reason", reason)])
    }
}

/// The reasons that mean that the baseline on an object is invalid.
fn invalid_on_object(source: Source) -> &'static [UnknownReason] {
    match source {
        Source::Annotation | Source::StatusHash => {
            &[UnknownReason::BadHash, UnknownReason::UnknownAlgorithm, UnknownReason::Unhashable]
        }
        Source::LastApplied => &[UnknownReason::UnreadableBaseline],
        Source::Terraform | Source::Helm | Source::Manifest | Source::Unclaimed => &[],
    }
}
