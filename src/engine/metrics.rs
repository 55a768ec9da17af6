//! What the engine counts about itself.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use crate::types::{BaselineFault, Kind, Source, UnknownReason, VerdictKind};

/// Counters of the engine.
#[derive(Clone, Debug)]
pub struct EngineMetrics {
    reconciles: Family<Labels, Counter>,
    duration: Histogram,
    baseline_errors: Family<BaselineLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    group: String,
    kind: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BaselineLabels {
    source: &'static str,
    reason: &'static str,
}

impl EngineMetrics {
    /// Registers the counters.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            reconciles: Family::default(),
            duration: Histogram::new([0.000_001, 0.000_01, 0.000_1, 0.001, 0.01, 0.1, 1.0]),
            baseline_errors: Family::default(),
        };
        metrics.know_on_objects(Source::Annotation);
        registry.register(
            "drift_reconciles",
            "Objects that were read and judged, by verdict; unchanged: nothing that counts differed",
            metrics.reconciles.clone(),
        );
        registry.register(
            "drift_reconcile_duration_seconds",
            "Time from taking one change from the queue to having judged it",
            metrics.duration.clone(),
        );
        registry.register(
            "drift_baseline_errors",
            "Baselines that were read and could not be used",
            metrics.baseline_errors.clone(),
        );
        metrics
    }

    pub(super) fn reconciled(&self, kind: &Kind, result: &'static str) {
        let labels = Labels { group: kind.group.to_string(), kind: kind.kind.to_string(), result };
        self.reconciles.get_or_create_owned(&labels).inc();
    }

    /// Drops the series of a kind that is no longer watched.
    pub(super) fn forget(&self, kind: &Kind) {
        let verdicts = VerdictKind::ALL.iter().map(|verdict| verdict.as_str());
        for result in verdicts.chain([UNCHANGED]) {
            let labels = Labels { group: kind.group.to_string(), kind: kind.kind.to_string(), result };
            self.reconciles.remove(&labels);
        }
    }

    /// Counts a claim that could not be judged, where its baseline is to blame.
    pub(super) fn could_not_judge(&self, source: Source, reason: UnknownReason) {
        if errors_of(source).contains(&reason) {
            self.baseline_failed(source, reason.as_str());
        }
    }

    /// Starts counting at zero for a source whose baselines stand on the objects.
    pub(super) fn know_on_objects(&self, source: Source) {
        for reason in errors_of(source) {
            self.baseline_errors.get_or_create_owned(&baseline_labels(source, reason.as_str()));
        }
    }

    /// Starts counting at zero for a source that has baselines of its own.
    pub(super) fn know(&self, source: Source) {
        let odd = [DUPLICATE_ADDRESS, NOT_YAML, CLAIMED_TWICE, OTHER_CLUSTER, STALE_LOCK];
        for reason in BaselineFault::ALL.iter().map(|fault| fault.as_str()).chain(odd) {
            self.baseline_errors.get_or_create_owned(&baseline_labels(source, reason));
        }
    }

    /// Counts what is wrong with a baseline.
    pub(super) fn baseline_failed(&self, source: Source, reason: &'static str) {
        self.baseline_errors.get_or_create_owned(&baseline_labels(source, reason)).inc();
    }

    pub(super) fn took(&self, duration: std::time::Duration) {
        self.duration.observe(duration.as_secs_f64());
    }
}

/// The result for an object of which nothing that counts differed.
pub(super) const UNCHANGED: &str = "unchanged";

/// A baseline has two resources of one address, or two documents of one object.
pub(super) const DUPLICATE_ADDRESS: &str = "duplicate_address";
/// A document of a baseline is no YAML.
pub(super) const NOT_YAML: &str = "not_yaml";
/// Two baselines declare all of one object.
pub(super) const CLAIMED_TWICE: &str = "claimed_twice";
/// None of a baseline's objects is in this cluster.
pub(super) const OTHER_CLUSTER: &str = "other_cluster";
/// A lock is held for longer than anybody applies.
pub(super) const STALE_LOCK: &str = "stale_lock";

/// What is wrong with baselines that stand on objects and could not be used.
fn errors_of(source: Source) -> &'static [UnknownReason] {
    match source {
        Source::Annotation | Source::StatusHash => {
            &[UnknownReason::BadHash, UnknownReason::UnknownAlgorithm, UnknownReason::Unhashable]
        }
        Source::LastApplied => &[UnknownReason::UnreadableBaseline],
        Source::Terraform | Source::Helm | Source::Manifest | Source::Nothing => &[],
    }
}

fn baseline_labels(source: Source, reason: &'static str) -> BaselineLabels {
    BaselineLabels { source: source.as_str(), reason }
}
